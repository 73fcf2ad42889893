"""Further data for judging: uniform keys with few duplicates, and logs that are kept for a while only."""

import numpy as np

from bank.dataset import Data
from bank.draws import LAST, amounts, at_once, at_random, table, zipf

CUBE_QUERIES = {
    "xy": "SELECT COUNT(*) FROM cube JOIN plane ON cube.x = plane.x AND cube.y = plane.y",
    "by_x": "SELECT SUM(cube.m) FROM cube JOIN plane ON cube.x = plane.x",
    "by_z": "SELECT AVG(cube.m) FROM cube JOIN line ON cube.z = line.z WHERE line.f = 1",
    "self": "SELECT COUNT(*) FROM cube a JOIN cube b ON a.z = b.z",
    "three": "SELECT COUNT(*) FROM plane JOIN cube ON plane.x = cube.x JOIN line ON cube.z = line.z",
    "three_sum": (
        "SELECT SUM(cube.m) FROM plane JOIN cube ON plane.x = cube.x AND plane.y = cube.y JOIN line ON cube.z = line.z"
    ),
    "four": (
        "SELECT COUNT(*) FROM line a JOIN cube ON a.z = cube.z JOIN plane ON cube.x = plane.x "
        "JOIN line b ON plane.y = b.z WHERE a.f = 1"
    ),
    "points": "SELECT COUNT(DISTINCT x, y, z) FROM cube",
    "only_plane": "SELECT COUNT(*) FROM (SELECT x FROM plane EXCEPT SELECT x FROM cube)",
}
LOG_QUERIES = {
    "calls_to_hosts": "SELECT SUM(hosts.cost) FROM logs JOIN hosts ON logs.host = hosts.host",
    "errors_of_calls": "SELECT COUNT(*) FROM logs JOIN errors ON logs.trace = errors.trace",
    "mean_bytes": "SELECT AVG(logs.bytes) FROM logs JOIN errors ON logs.trace = errors.trace WHERE errors.code = 1",
    "same_trace": "SELECT COUNT(*) FROM logs x JOIN logs y ON x.trace = y.trace",
    "errors_on_hosts": (
        "SELECT COUNT(*) FROM hosts JOIN logs ON hosts.host = logs.host JOIN errors ON logs.trace = errors.trace "
        "WHERE hosts.zone = 1"
    ),
    "bytes_on_hosts": (
        "SELECT SUM(logs.bytes) FROM hosts JOIN logs ON hosts.host = logs.host JOIN errors ON logs.trace = errors.trace"
    ),
    "same_trace_errors": (
        "SELECT COUNT(*) FROM hosts JOIN logs x ON hosts.host = x.host JOIN logs y ON x.trace = y.trace "
        "JOIN errors ON y.trace = errors.trace WHERE hosts.zone = 1"
    ),
    "traces": "SELECT COUNT(DISTINCT trace) FROM logs",
    "clean": "SELECT COUNT(*) FROM (SELECT trace FROM logs EXCEPT SELECT trace FROM errors)",
}


def cube(seed: int, size: int, *, fill: float) -> Data:
    """Return points of a cube, a plane and a line with uniform keys; a domain has about 1 / fill values for a row."""
    rng = np.random.default_rng([seed, 15, int(100 * fill)])
    rows, side, short = size // 2, 3 * size // 10, size // 5
    wide, deep = max(int(side / fill / 4), 2), max(int(short / fill), 2)
    x = rng.integers(0, wide, rows)
    points = {"x": x, "y": (x * 7 + rng.integers(0, 3, rows)) % deep, "z": rng.integers(0, deep, rows)}
    points["m"] = amounts(rng, rows, 0.5)
    base = rng.integers(0, wide, side)
    plane = {"x": base, "y": (base * 7 + rng.integers(0, 5, side)) % deep}
    line = {"z": rng.integers(0, deep, short), "f": rng.integers(0, 3, short)}
    tables = {
        "cube": at_random(rng, "x BIGINT, y BIGINT, z BIGINT, m BIGINT", points, dying=0.05),
        "plane": at_random(rng, "x BIGINT, y BIGINT", plane),
        "line": at_random(rng, "z BIGINT, f BIGINT", line),
    }
    return Data(tables, CUBE_QUERIES, seed)


def retention(seed: int, size: int, *, window: float) -> Data:
    """Return logs and errors of traces that are deleted when they are older than a window; hosts stay.

    What is kept at the end is a share `window` of all rows. Some traces are a thousand times longer than others.
    """
    rng = np.random.default_rng([seed, 16, int(100 * window)])
    rows, faults, hosts = 2 * size // 5, size // 8, 400
    traces = size // 15
    length = np.exp(rng.normal(0, 1.2, traces))
    start = LAST * rng.random(traces)
    made = {}
    for name, count, power in (("logs", rows, 1.0), ("errors", faults, 0.7)):
        shares = length**power / (length**power).sum()
        trace = rng.choice(traces, count, p=shares)
        born = start[trace] + 0.03 * rng.random(count)
        dies = np.where(born < LAST - window, born + window, np.inf)
        if name == "logs":
            columns = {"trace": trace, "host": (trace * 31 + zipf(rng, 1.2, 20, count)) % hosts}
            columns["bytes"] = amounts(rng, count, 1.0)
            made[name] = table("trace BIGINT, host BIGINT, bytes BIGINT", columns, born, dies)
        else:
            columns = {"trace": trace, "code": rng.integers(0, 3, count)}
            made[name] = table("trace BIGINT, code BIGINT", columns, born, dies)
    own = {"host": np.arange(hosts), "zone": np.arange(hosts) % 4, "cost": amounts(rng, hosts)}
    return Data({"hosts": at_once("host BIGINT, zone BIGINT, cost BIGINT", own), **made}, LOG_QUERIES, seed)
