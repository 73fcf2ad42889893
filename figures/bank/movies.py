"""Films as a film database has them: titles with casts, companies and keywords, many to many, popular ones in all."""

import numpy as np

from bank.dataset import Data
from bank.draws import amounts, table, zipf

QUERIES = {
    "cast_keywords": "SELECT COUNT(*) FROM casts JOIN keywords ON casts.t = keywords.t",
    "pay_in_titles": "SELECT SUM(casts.pay) FROM titles JOIN casts ON titles.t = casts.t WHERE titles.year >= 2000",
    "mean_votes": "SELECT AVG(titles.votes) FROM titles JOIN keywords ON titles.t = keywords.t",
    "colleagues": "SELECT COUNT(*) FROM casts x JOIN casts y ON x.person = y.person",
    "new_cast_keywords": (
        "SELECT COUNT(*) FROM titles JOIN casts ON titles.t = casts.t JOIN keywords ON titles.t = keywords.t "
        "WHERE titles.year >= 2000"
    ),
    "star": (
        "SELECT COUNT(*) FROM titles JOIN casts ON titles.t = casts.t JOIN makers ON titles.t = makers.t "
        "JOIN keywords ON titles.t = keywords.t"
    ),
    "star_pay": (
        "SELECT SUM(casts.pay) FROM titles JOIN casts ON titles.t = casts.t JOIN makers ON titles.t = makers.t "
        "JOIN keywords ON titles.t = keywords.t WHERE makers.kind = 1"
    ),
    "keywords_of_colleagues": (
        "SELECT COUNT(*) FROM casts x JOIN casts y ON x.person = y.person JOIN keywords ON y.t = keywords.t"
    ),
    "mean_pay_of_makers": (
        "SELECT AVG(casts.pay) FROM makers x JOIN makers y ON x.company = y.company JOIN casts ON y.t = casts.t"
    ),
    "people": "SELECT COUNT(DISTINCT person) FROM casts",
    "bare": "SELECT COUNT(*) FROM (SELECT t FROM titles EXCEPT SELECT t FROM keywords)",
}


def movies(seed: int, size: int, *, exponent: float) -> Data:
    """Return titles in the order of their years; a title's rows of all streams come shortly after it.

    Popularity is lognormal and shared by the three degrees of a title; people, companies and keywords have Zipf laws.
    """
    rng = np.random.default_rng([seed, 5, int(100 * exponent)])
    count = size // 8
    year = np.sort(2025 - np.minimum(rng.exponential(20, count), 100).astype(np.int64))
    born = np.linspace(0, 1, count)
    fame = np.exp(rng.normal(0, 1.0, count))
    votes = np.rint(100 * fame * np.exp(rng.normal(0, 0.5, count))).astype(np.int64)
    columns = {"t": np.arange(count), "year": year, "votes": votes}
    tables = {"titles": table("t BIGINT, year BIGINT, votes BIGINT", columns, born)}
    for name, key, share, domain, measure in (
        ("casts", "person", 0.5, count * 2, "pay"),
        ("makers", "company", 0.12, count // 3, "kind"),
        ("keywords", "keyword", 0.25, count // 3, "kind"),
    ):
        weight = fame * np.exp(rng.normal(0, 0.5, count))
        title = np.repeat(np.arange(count), rng.poisson(weight / weight.sum() * size * share))
        rows = len(title)
        values = rng.permutation(domain)[zipf(rng, exponent, domain, rows)]
        other = amounts(rng, rows) * (1 + (fame[title] > 2)) if measure == "pay" else rng.integers(0, 4, rows)
        tables[name] = table(
            f"t BIGINT, {key} BIGINT, {measure} BIGINT",
            {"t": title, key: values, measure: other},
            born[title] + 0.02 * rng.random(rows),
        )
    return Data(tables, QUERIES, seed)
