"""Data that change with time: preferential attachment, where heavy values come late; bursts, where they go again."""

import numpy as np

from bank.dataset import Data
from bank.draws import LAST, amounts, at_random, table, zipf

GROWTH_QUERIES = {
    "two": "SELECT COUNT(*) FROM posts JOIN likes ON posts.p = likes.p",
    "two_sum": "SELECT SUM(posts.words) FROM posts JOIN likes ON posts.p = likes.p",
    "two_avg": "SELECT AVG(posts.words) FROM people JOIN posts ON people.u = posts.u WHERE people.land = 1",
    "self": "SELECT COUNT(*) FROM likes x JOIN likes y ON x.p = y.p",
    "same_author": "SELECT COUNT(*) FROM posts x JOIN posts y ON x.u = y.u",
    "three": "SELECT COUNT(*) FROM people JOIN posts ON people.u = posts.u JOIN likes ON posts.p = likes.p",
    "three_sum": (
        "SELECT SUM(posts.words) FROM people JOIN posts ON people.u = posts.u JOIN likes ON posts.p = likes.p "
        "WHERE people.land = 1"
    ),
    "four": (
        "SELECT COUNT(*) FROM people a JOIN posts ON a.u = posts.u JOIN likes ON posts.p = likes.p "
        "JOIN people b ON likes.u = b.u WHERE b.land = 1"
    ),
    "distinct": "SELECT COUNT(DISTINCT p) FROM likes",
    "set": "SELECT COUNT(*) FROM (SELECT u FROM posts INTERSECT SELECT u FROM likes)",
    "pairs": "SELECT COUNT(DISTINCT posts.u, likes.u) FROM posts JOIN likes ON posts.p = likes.p",
}
BURST_QUERIES = {
    "two": "SELECT COUNT(*) FROM visits JOIN clicks ON visits.item = clicks.item",
    "two_sum": "SELECT SUM(clicks.price) FROM visits JOIN clicks ON visits.item = clicks.item",
    "two_avg": "SELECT AVG(visits.seconds) FROM visits JOIN people ON visits.u = people.u WHERE people.land = 1",
    "self": "SELECT COUNT(*) FROM visits x JOIN visits y ON x.item = y.item",
    "three": "SELECT COUNT(*) FROM people JOIN visits ON people.u = visits.u JOIN clicks ON visits.item = clicks.item",
    "three_sum": (
        "SELECT SUM(visits.seconds) FROM people JOIN visits ON people.u = visits.u "
        "JOIN clicks ON visits.item = clicks.item WHERE people.land = 1"
    ),
    "four": (
        "SELECT COUNT(*) FROM people a JOIN visits ON a.u = visits.u JOIN clicks ON visits.item = clicks.item "
        "JOIN people b ON clicks.u = b.u"
    ),
    "distinct": "SELECT COUNT(DISTINCT item) FROM visits",
    "set": "SELECT COUNT(*) FROM (SELECT u FROM visits EXCEPT SELECT u FROM clicks)",
}


def attached(rng: np.random.Generator, rows: int, new: float, recent: float) -> np.ndarray:
    """Return values in the order of time: a new one with probability `new`, else that of an earlier row.

    recent: the share of earlier rows, the latest, among which the row is picked. The less, the later the heavy ones.
    """
    fresh = rng.random(rows) < new
    fresh[0] = True
    back = np.maximum(np.floor(rng.random(rows) * np.arange(rows) * recent).astype(np.int64) + 1, 1)
    copied = (np.arange(rows) - back).tolist()
    values = (np.cumsum(fresh) - 1).tolist()
    is_new = fresh.tolist()
    for row in range(1, rows):
        if not is_new[row]:
            values[row] = values[copied[row]]
    return np.array(values, dtype=np.int64)


def growth(seed: int, size: int, *, new: float, recent: float, pairs: bool = True) -> Data:
    """Return people, their posts and the likes of posts; popular ones attract more, and late ones may overtake.

    pairs: whether the distinct count over a join is asked too. Its synopsis has a large least size, for which the
    product before stream samples refused the smaller budgets of the whole workload.
    """
    rng = np.random.default_rng([seed, 3, int(100 * new), int(100 * recent)])
    posts, likes = size // 4, 7 * size // 10
    author, liked = attached(rng, posts, new, recent), attached(rng, likes, posts / likes / 2, recent)
    people = int(author.max()) + 1
    fan = rng.integers(0, people, likes)
    written, given = np.sort(LAST * rng.random(posts)), np.sort(LAST * rng.random(likes))
    joined = np.full(people, LAST)
    np.minimum.at(joined, author, written)
    columns = {"u": np.arange(people), "land": rng.integers(0, 4, people)}
    of_posts = {"p": np.arange(posts), "u": author, "words": amounts(rng, posts)}
    tables = {
        "people": table("u BIGINT, land BIGINT", columns, joined - 1e-9),
        "posts": table("p BIGINT, u BIGINT, words BIGINT", of_posts, written),
        "likes": table("p BIGINT, u BIGINT", {"p": liked, "u": fan}, given),
    }
    queries = {name: sql for name, sql in GROWTH_QUERIES.items() if pairs or name != "pairs"}
    return Data(tables, queries, seed)


def bursts(seed: int, size: int, *, exponent: float, kept: float) -> Data:
    """Return visits and clicks of items that are in fashion for a while; then all but a share of them is deleted.

    Popularity has a Zipf law; an item's rows fall within a short life that starts at any time.
    """
    rng = np.random.default_rng([seed, 4, int(100 * exponent), int(100 * kept)])
    items, people = max(size // 80, 5), max(size // 50, 5)
    start, life = LAST * rng.random(items), 0.02 + 0.1 * rng.random(items)
    rank = rng.permutation(items)
    tables = {}
    for name, rows, measure in (("visits", size // 3, "seconds"), ("clicks", size // 5, "price")):
        item = rank[zipf(rng, exponent, items, rows)]
        born = start[item] + life[item] * rng.random(rows)
        ends = start[item] + life[item] * (1 + rng.random(rows))
        dies = np.where((rng.random(rows) < kept) | (ends > LAST + 0.1), np.inf, ends)
        columns = {"item": item, "u": zipf(rng, 0.6, people, rows), measure: amounts(rng, rows)}
        tables[name] = table(f"item BIGINT, u BIGINT, {measure} BIGINT", columns, born, dies)
    columns = {"u": np.arange(people), "land": rng.integers(0, 4, people)}
    return Data({"people": at_random(rng, "u BIGINT, land BIGINT", columns), **tables}, BURST_QUERIES, seed)
