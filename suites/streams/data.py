"""Two streams with inserts, updates and deletes: Nexmark's auctions with retractions, and an order book.

Both are drawn with NumPy from a seed. A row has the time of its insert and of its delete; an update is a delete of the
old row and an insert of the new one. Times are numbers of events, from 0 to `size`.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[2] / "figures"))
from bank.dataset import Columns, Data, Table

HERE = Path(__file__).parent
DAYS = 10
STEPS = 1000  # of the price of a symbol
START = np.datetime64("2024-01-01T00:00:00", "us")
STATES = np.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
CITIES = np.array(["Phoenix", "Los Angeles", "Boise", "Portland", "Seattle", "Cheyenne", "Redmond", "Bend"])
CHANNELS = np.array(["Google", "Facebook", "Baidu", "Apple"])
COUNTRIES = np.array(["US", "GB", "DE", "JP", "CH", "SG", "NL", "FR", "CA", "AU"])


def queries(name: str) -> dict[str, str]:
    """Return the queries of a stream by name, from its .sql file."""
    blocks = (HERE / f"{name}.sql").read_text(encoding="utf-8").strip().split("\n\n")
    return {head.removeprefix("-- "): text for head, text in (block.split("\n", 1) for block in blocks)}


def nexmark(seed: int, size: int) -> Data:
    """Draw people, auctions and bids as Nexmark's generator does, with retractions.

    Of 50 events, one is a person, three are auctions and 46 are bids. Half of the bids are on the newest hot auction,
    three quarters of bids and auctions are of a hot person; the others are among the newest 100 auctions and 1,000
    people. Prices are log-uniform over six decades. Retractions are ours: of the bids, 6% are withdrawn and 6% raised;
    4% of the auctions are canceled, with all their bids, and 10% get another reserve.
    """
    rng = np.random.default_rng([seed, 1])
    events = np.arange(size)
    place, epoch = events % 50, events // 50
    people, auctions, bids = events[place == 0], events[(place > 0) & (place < 4)], events[place >= 4]

    def person(at: np.ndarray) -> np.ndarray:
        last = at // 50
        hot = last // 100 * 100
        near = np.maximum(last - rng.integers(0, 1000, len(at)), 0)
        return np.where(rng.random(len(at)) < 0.75, hot, near)

    last = np.where(place >= 4, epoch * 3 + 2, epoch * 3 + place - 1)[bids]
    hot, near = last // 100 * 100, np.maximum(last - rng.integers(0, 100, len(bids)), 0)
    on = np.where(rng.random(len(bids)) < 0.5, hot, near)
    open_for = rng.integers(size // 100 + 1, size // 10 + 2, len(auctions))
    cancels = np.where(
        rng.random(len(auctions)) < 0.04, auctions + open_for * rng.random(len(auctions)), np.inf
    )
    tables = {
        "person": _rows(
            "id BIGINT PRIMARY KEY, city STRING, state STRING, at TIMESTAMP_NTZ",
            {
                "id": np.arange(len(people)),
                "city": CITIES[rng.integers(0, len(CITIES), len(people))],
                "state": STATES[rng.integers(0, len(STATES), len(people))],
                "at": _time(people, size),
            },
            people.astype(float),
            np.full(len(people), np.inf),
            size,
        ),
        "auction": _changed(
            rng,
            "id BIGINT PRIMARY KEY, seller BIGINT REFERENCES person(id), category INT, reserve BIGINT, "
            "at TIMESTAMP_NTZ, expires TIMESTAMP_NTZ",
            {
                "id": np.arange(len(auctions)),
                "seller": person(auctions),
                "category": rng.integers(10, 15, len(auctions)).astype(np.int32),
                "reserve": _price(rng, len(auctions)),
                "at": _time(auctions, size),
                "expires": _time(auctions + open_for, size),
            },
            (auctions.astype(float), cancels),
            ("reserve", 0.10),
            size,
        ),
    }
    withdrawn = np.where(rng.random(len(bids)) < 0.06, bids + rng.exponential(size / 50, len(bids)), np.inf)
    dies = np.minimum(withdrawn, cancels[on])
    kept = bids < dies  # an auction that is canceled gets no more bids
    columns = {
        "id": np.arange(len(bids)),
        "auction": on,
        "bidder": person(bids),
        "price": _price(rng, len(bids)),
        "channel": _channels(rng, len(bids)),
        "at": _time(bids, size),
    }
    tables["bid"] = _changed(
        rng,
        "id BIGINT PRIMARY KEY, auction BIGINT REFERENCES auction(id), bidder BIGINT REFERENCES person(id), "
        "price BIGINT, channel STRING, at TIMESTAMP_NTZ",
        {name: values[kept] for name, values in columns.items()},
        (bids[kept].astype(float), dies[kept]),
        ("price", 0.06),
        size,
    )
    return Data(tables, queries("nexmark"), seed)


def orderbook(seed: int, size: int) -> Data:
    """Draw traders, limit orders and their trades; the rows of orders are those that are in the book.

    Symbols and traders have Zipf frequencies, order sizes and lifetimes Pareto tails, distances from a price that walks
    at random a power law: what is published of limit order books in general, not a fit to one. An order is canceled at
    the end of its life, or when the price passes it, so bids are below asks. A quarter of the orders trade before: each
    trade is an update that leaves less of the order, and a third of these orders are filled, which deletes them. One
    trade of 200 is busted, which deletes it.
    """
    rng = np.random.default_rng([seed, 2])
    count, traders, symbols = size // 2, max(20, size // 100), 200
    born = np.sort(rng.random(count)) * size
    symbol = _zipf(rng, symbols, 1.1, count)
    steps = 10_000 + 100 * np.arange(symbols) + np.round(rng.normal(0, 0.7, (STEPS, symbols)).cumsum(axis=0))
    distance = np.minimum(1 + rng.pareto(0.8, count), 2000).astype(np.int64)
    side = rng.integers(0, 2, count)
    price = steps[(born / size * STEPS).astype(int), symbol].astype(np.int64) + np.where(
        side == 0, -distance, distance
    )
    life = np.minimum(
        size / 200 * rng.pareto(0.5, count), _passed(steps, symbol, side, price, born / size) * size - born
    )
    fills = np.where(rng.random(count) < 0.25, np.minimum(rng.zipf(2.2, count), 12), 0)
    quantity = 100 * np.minimum(1 + rng.pareto(1.5, count), 5000).astype(np.int64) + fills
    own = np.repeat(np.arange(count), fills)  # the order of each trade
    moment = born[own] + life[own] * rng.random(len(own))
    moment = moment[np.lexsort((moment, own))]
    number = np.arange(len(own)) - np.repeat(np.cumsum(fills) - fills, fills)
    filled = rng.random(count) < 1 / 3
    portion = quantity // (fills + 1)
    end = born + life
    last = np.cumsum(fills) - 1
    whole = filled & (fills > 0)
    end[whole] = moment[last[whole]]
    rows = np.concatenate([np.arange(count), own])
    begin = np.concatenate([born, moment])
    left = np.concatenate([quantity, quantity[own] - (number + 1) * portion[own]])
    place = np.lexsort((begin, rows))
    rows, begin, left = rows[place], begin[place], left[place]
    until = np.where(np.append(rows[1:] == rows[:-1], False), np.append(begin[1:], 0), end[rows])
    stays = until > begin  # no row is left of an order that its last trade fills
    rows, begin, left, until = rows[stays], begin[stays], left[stays], until[stays]
    maker = _zipf(rng, traders, 1.0, count)
    busted = np.where(rng.random(len(own)) < 0.005, moment + size / 100, np.inf)
    tables = {
        "traders": _rows(
            "trader BIGINT PRIMARY KEY, country STRING, kind INT",
            {
                "trader": np.arange(traders),
                "country": COUNTRIES[_zipf(rng, len(COUNTRIES), 0.8, traders)],
                "kind": rng.integers(0, 4, traders).astype(np.int32),
            },
            np.zeros(traders),
            np.full(traders, np.inf),
            size,
        ),
        "orders": _rows(
            "id BIGINT PRIMARY KEY, trader BIGINT REFERENCES traders(trader), symbol INT, side INT, price BIGINT, "
            "quantity BIGINT",
            {
                "id": rows,
                "trader": maker[rows],
                "symbol": symbol[rows].astype(np.int32),
                "side": side[rows].astype(np.int32),
                "price": price[rows],
                "quantity": left,
            },
            begin,
            until,
            size,
        ),
        "trades": _rows(
            "id BIGINT PRIMARY KEY, order_id BIGINT REFERENCES orders(id), taker BIGINT REFERENCES traders(trader), "
            "symbol INT, price BIGINT, quantity BIGINT",
            {
                "id": np.arange(len(own)),
                "order_id": own,
                "taker": _zipf(rng, traders, 0.7, len(own)),
                "symbol": symbol[own].astype(np.int32),
                "price": price[own],
                "quantity": portion[own],
            },
            moment,
            busted,
            size,
        ),
    }
    return Data(tables, queries("orderbook"), seed)


STREAMS: dict[str, Callable[[int, int], Data]] = {"nexmark": nexmark, "orderbook": orderbook}


def exact(data: Data) -> duckdb.DuckDBPyConnection:
    """Return a database of the net rows."""
    connection = duckdb.connect(config={"threads": 1})
    for name, table in data.tables.items():
        connection.register("rows", pa.table(table.net))
        connection.execute(f"CREATE TABLE {name} AS FROM rows")
        connection.unregister("rows")
    return connection


def _passed(
    steps: np.ndarray, symbol: np.ndarray, side: np.ndarray, price: np.ndarray, born: np.ndarray
) -> np.ndarray:
    """Return when the price of its symbol passes each order, as a share of all time; 2 if it never does."""
    found = np.full(len(symbol), 2.0)
    numbers = np.arange(STEPS)
    for own in (np.flatnonzero(symbol == each) for each in np.unique(symbol)):
        for piece in np.array_split(own, 1 + len(own) // 20_000):
            path, limit = steps[:, symbol[piece[0]]][None, :], price[piece][:, None]
            past = np.where((side[piece] == 0)[:, None], path <= limit, path >= limit)
            past &= numbers[None, :] > (born[piece] * STEPS).astype(int)[:, None]
            found[piece] = np.where(past.any(axis=1), past.argmax(axis=1) / STEPS, 2.0)
    return found


def _rows(schema: str, columns: Columns, born: np.ndarray, dies: np.ndarray, size: int) -> Table:
    """Return a table with what happens before the end."""
    here = born < size
    return Table(
        schema,
        {name: values[here] for name, values in columns.items()},
        born[here],
        np.where(dies[here] < size, dies[here], np.inf),
    )


def _changed(
    rng: np.random.Generator,
    schema: str,
    columns: Columns,
    times: tuple[np.ndarray, np.ndarray],
    update: tuple[str, float],
    size: int,
) -> Table:
    """Return a table in which a share of the rows is replaced once by a row with a higher value of one column."""
    (born, dies), (column, share) = times, update
    at = born + (np.minimum(dies, size) - born) * rng.random(len(born))
    chosen = np.flatnonzero((rng.random(len(born)) < share) & (at > born) & (at < dies))
    until = dies.copy()
    until[chosen] = at[chosen]
    both = {name: np.concatenate([values, values[chosen]]) for name, values in columns.items()}
    both[column][len(born) :] += 1 + both[column][len(born) :] // 10
    return _rows(
        schema, both, np.concatenate([born, at[chosen]]), np.concatenate([until, dies[chosen]]), size
    )


def _time(events: np.ndarray, size: int) -> np.ndarray:
    return START + (events * (DAYS * 86_400_000_000 // size)).astype("timedelta64[us]")


def _price(rng: np.random.Generator, rows: int) -> np.ndarray:
    return np.round(10 ** (rng.random(rows) * 6) * 100).astype(np.int64)


def _channels(rng: np.random.Generator, rows: int) -> np.ndarray:
    hot = CHANNELS[rng.integers(0, len(CHANNELS), rows)]
    return np.where(
        rng.random(rows) < 0.5, hot, np.char.add("channel-", rng.integers(0, 10_000, rows).astype(str))
    )


def _zipf(rng: np.random.Generator, values: int, exponent: float, rows: int) -> np.ndarray:
    weights = 1 / np.arange(1, values + 1) ** exponent
    return rng.choice(values, rows, p=weights / weights.sum())
