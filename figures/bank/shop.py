"""A shop on the web, for judging: sessions and orders that follow the hours of the day, and refunds, which delete."""

import numpy as np

from bank.dataset import Data
from bank.draws import amounts, at_once, table, zipf

DAYS = 21
_BASKET = "orders JOIN lines ON orders.o = lines.o"
QUERIES = {
    "visits_by_buyers": "SELECT COUNT(*) FROM sessions JOIN orders ON sessions.u = orders.u",
    "time_before_buying": "SELECT SUM(sessions.seconds) FROM sessions JOIN orders ON sessions.u = orders.u",
    "mean_total": "SELECT AVG(orders.total) FROM orders JOIN sessions ON orders.u = sessions.u WHERE sessions.page < 5",
    "units": "SELECT SUM(lines.units) FROM lines JOIN products ON lines.p = products.p WHERE products.shelf = 2",
    "bought_together": "SELECT COUNT(*) FROM lines x JOIN lines y ON x.o = y.o",
    "baskets": f"SELECT COUNT(*) FROM {_BASKET} JOIN products ON lines.p = products.p WHERE products.shelf = 2",
    "viewed_baskets": f"SELECT COUNT(*) FROM {_BASKET} JOIN sessions ON orders.u = sessions.u",
    "viewed_units": (
        "SELECT SUM(lines.units) FROM sessions JOIN orders ON sessions.u = orders.u JOIN lines ON orders.o = lines.o "
        "JOIN products ON lines.p = products.p WHERE products.shelf = 2 AND sessions.page < 5"
    ),
    "visitors": "SELECT COUNT(DISTINCT u) FROM sessions WHERE page < 5",
    "only_looked": "SELECT COUNT(*) FROM (SELECT u FROM sessions EXCEPT SELECT u FROM orders)",
    "landing_buyers": (
        "SELECT COUNT(*) FROM ((SELECT u FROM sessions WHERE page = 0 UNION SELECT u FROM sessions WHERE page = 1) "
        "INTERSECT SELECT u FROM orders)"
    ),
}


def _times(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Return times over three weeks: most in the evening, and more on each day than on the day before."""
    day = np.floor(DAYS * np.sqrt(rng.random(rows)))
    hour = np.clip(rng.normal(19.5, 3.0, rows), 0, 23.99)
    hour = np.where(rng.random(rows) < 0.3, 24 * rng.random(rows), hour)
    return (day + hour / 24) / DAYS


def shop(seed: int, size: int, *, refunded: float) -> Data:
    """Return sessions, orders with their lines, and products; a share of the orders is refunded within days."""
    rng = np.random.default_rng([seed, 13, int(100 * refunded)])
    visits, count, users, goods = size // 2, size // 8, size // 10, size // 60
    habit = rng.permutation(users)
    seen = {"u": habit[zipf(rng, 0.7, users, visits)], "page": zipf(rng, 1.0, 40, visits)}
    seen["seconds"] = amounts(rng, visits, 1.2)
    buyer = habit[zipf(rng, 0.8, users, count)]
    born = _times(rng, count)
    dies = np.where(rng.random(count) < refunded, born + rng.exponential(2, count) / DAYS, np.inf)
    dies[np.isfinite(dies) & (dies > 1.1)] = np.inf
    basket = np.repeat(np.arange(count), 1 + rng.geometric(0.6, count))
    rows = len(basket)
    lines = {
        "o": basket,
        "p": rng.permutation(goods)[zipf(rng, 0.9, goods, rows)],
        "units": 1 + zipf(rng, 2.0, 50, rows),
    }
    ordered = {"o": np.arange(count), "u": buyer, "total": amounts(rng, count, 0.9) * (1 + buyer % 3)}
    stock = {"p": np.arange(goods), "shelf": rng.integers(0, 5, goods)}
    tables = {
        "products": at_once("p BIGINT, shelf BIGINT", stock),
        "sessions": table("u BIGINT, page BIGINT, seconds BIGINT", seen, _times(rng, visits)),
        "orders": table("o BIGINT, u BIGINT, total BIGINT", ordered, born, dies),
        "lines": table("o BIGINT, p BIGINT, units BIGINT", lines, born[basket], dies[basket]),
    }
    return Data(tables, QUERIES, seed)
