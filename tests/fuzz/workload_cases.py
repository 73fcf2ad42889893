"""Random workloads: streams whose keys arrive in many orders, queries of every kind, and a budget."""

import json
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa

import eddyline as el
from tests.data.arrivals import ARRIVALS, Arrival, zipf
from tests.fuzz.workload_queries import Asked, Chain, ad_hoc_query, random_query

SCHEMA = (
    "k BIGINT, j BIGINT, v BIGINT, x DOUBLE, d DATE, t STRING, m DECIMAL(38,2), e TIMESTAMP, ts TIMESTAMP"
)
TYPES = {
    "k": pa.int64(), "j": pa.int64(), "v": pa.int64(), "x": pa.float64(), "d": pa.date32(), "t": pa.string(), "m": pa.decimal128(38, 2),
    "e": pa.timestamp("us", "UTC"), "ts": pa.timestamp("us", "UTC"),
}  # fmt: skip
_PLAIN = {"d": pa.int32(), "e": pa.int64(), "ts": pa.int64()}
_AS_TEXTS = ("m",)
SECOND = 1_000_000
START = 1_700_000_000 * SECOND
WINDOW = {"window": "4 minutes", "slide": "1 minute"}
ZONES = ("UTC", "UTC", "Europe/Berlin", "America/New_York")
SIGNS = ("positive", "positive", "negative", "mixed")
EXPLORABLE = ("v", "x", "d", "t", "m", "e", "j")
_LAST, _FIRST = 253_402_300_799_999_999, -62_135_596_800_000_000
SENTINELS = {
    "k": (2**63 - 1, -(2**63), 0, -1),
    "j": (2**63 - 1, -(2**63), 0, -1),
    "v": (2**31 - 1, -(2**31), 999_999_999_999, -1),
    "x": (float("nan"), float("inf"), float("-inf"), -0.0, 1.7976931348623157e308, 5e-324),
    "d": (date(9999, 12, 31), date(1, 1, 1), date(1970, 1, 1), date(1900, 1, 1)),
    "t": ("", " ", "\0", "NULL", "\U0001f30a" * 20),
    "m": (Decimal("9" * 36 + ".99"), Decimal("-" + "9" * 36 + ".99"), Decimal("0.00"), Decimal("-0.01")),
    "e": (_LAST, _FIRST, 0, _LAST - 3_600 * SECOND),
}
"""By column the values that stand for "none", "never" or "not yet" in real data, and the ends of types."""


@dataclass(frozen=True)
class Stream:
    """Every row that is ever inserted, and the changes in the order of time; ends: where each batch of them ends."""

    rows: pa.Table
    arrival: Arrival
    ends: tuple[int, ...]

    @property
    def net(self):
        return self.rows.take(self.arrival.net)

    def cut(self, start, stop):
        """The stream of the rows from start to stop alone, in as many batches."""
        a = self.arrival
        chosen = (a.rows >= start) & (a.rows < stop)
        before = np.concatenate([[0], np.cumsum(chosen)])
        ends = tuple(int(before[end]) for end in self.ends)
        kept = Arrival(a.keys[start:stop], a.rows[chosen] - start, a.weights[chosen])
        return Stream(self.rows.slice(start, stop - start), kept, ends)

    def to_plain(self):
        """What JSON can hold: columns of one value as that value, times as numbers, decimals as texts."""
        columns = {}
        for name, column in zip(self.rows.column_names, self.rows.columns, strict=True):
            plain = column.cast(
                pa.string() if name in _AS_TEXTS else _PLAIN.get(name, column.type)
            ).to_pylist()
            columns[name] = plain if len(set(plain)) > 1 else plain[:1]
        return {
            "size": self.rows.num_rows,
            "columns": columns,
            "ends": self.ends,
            "changes": self.arrival.rows.tolist(),
        }

    @classmethod
    def from_plain(cls, plain):
        columns = {}
        for name, values in plain["columns"].items():
            every = values * plain["size"] if len(values) == 1 else values
            columns[name] = pa.array(every, pa.string() if name in _AS_TEXTS else _PLAIN.get(name)).cast(
                TYPES[name]
            )
        keys = columns["k"].fill_null(0).to_numpy()
        changes = np.array(plain["changes"], dtype=np.int64)
        weights = np.full(len(changes), -1)
        weights[np.unique(changes, return_index=True)[1]] = 1  # a row comes first, and goes later
        return cls(pa.table(columns), Arrival(keys, changes, weights), tuple(plain["ends"]))

    @property
    def values(self):
        """The columns that are not NULL throughout."""
        return {name for name in self.rows.column_names if self.rows[name].null_count < self.rows.num_rows}

    def only(self, names):
        """The stream with NULL in all other columns."""
        columns = {
            name: self.rows[name] if name in names else pa.nulls(self.rows.num_rows, kind)
            for name, kind in TYPES.items()
        }
        return replace(self, rows=pa.table(columns))

    def at_once(self):
        return replace(self, ends=self.ends[-1:])

    def changes(self):
        """(share of the stream that has come, rows, weights) of each batch."""
        for start, end in zip((0, *self.ends), self.ends, strict=False):
            part = slice(start, end)
            yield (
                end / max(self.ends[-1], 1),
                self.rows.take(self.arrival.rows[part]),
                self.arrival.weights[part],
            )


@dataclass(frozen=True)
class Case:
    """A workload, its data, and how it is planned; nothing else decides what it answers."""

    seed: int
    arrival: str
    sign: str
    streams: dict[str, Stream]
    queries: dict[str, Asked]
    interleaved: bool
    budget: int
    objective: str
    samples: bool
    informed: bool
    timezone: str
    explored: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def net(self):
        return {name: stream.net for name, stream in self.streams.items()}

    def batches(self):
        """(stream, rows, weights) in the order in which they come."""
        every = [(name, *batch) for name, stream in self.streams.items() for batch in stream.changes()]
        if self.interleaved:
            every.sort(key=lambda batch: batch[1])
        return [(name, rows, weights) for name, _, rows, weights in every]

    def workload(self, budget):
        """The workload at a budget of a given number of bytes."""
        w = el.Workload(
            budget=budget,
            seed=self.seed % (1 << 30),
            objective=self.objective,
            samples=self.samples,
            timezone=self.timezone,
        )
        for name in self.streams:
            w.stream(name, SCHEMA, event_time="ts")
        for name, asked in self.queries.items():
            if not asked.ad_hoc:
                w.query(name, asked.sql, **(WINDOW if asked.windowed else {}))
        for name, columns in self.explored.items():
            w.explore(name, *columns)
        return w

    def save(self, path):
        """Write the case to a file, from which it is the same whatever becomes of the generator."""
        shown = {each.name: getattr(self, each.name) for each in fields(self)}
        shown["queries"] = {name: asdict(asked) for name, asked in self.queries.items()}
        shown["streams"] = {name: stream.to_plain() for name, stream in self.streams.items()}
        Path(path).write_text(json.dumps(shown, separators=(",", ":")))

    @classmethod
    def load(cls, path):
        shown = json.loads(Path(path).read_text())
        shown["streams"] = {name: Stream.from_plain(plain) for name, plain in shown["streams"].items()}
        for name, asked in shown["queries"].items():
            chain = asked["path"]
            chain["streams"] = tuple(chain["streams"])
            chain["columns"] = tuple(map(tuple, chain["columns"]))
            shown["queries"][name] = Asked(**asked | {"path": Chain(**chain)})
        return cls(**shown)

    def __str__(self):
        shown = [
            f"{self.arrival}, {self.sign} measures, {'interleaved' if self.interleaved else 'stream after stream'}"
        ]
        shown += [
            f"budget {self.budget:,}, samples={self.samples}, statistics={self.informed}, {self.timezone}"
        ]
        for name, stream in self.streams.items():
            a = stream.arrival
            shown.append(
                f"stream {name}: {len(a.keys):,} rows, {int((a.weights < 0).sum()):,} deletes, {len(stream.ends)} batches, "
                f"k is NULL in {stream.rows['k'].null_count:,}, explored {', '.join(self.explored.get(name, ())) or 'nothing'}"
            )
            if len(a.keys) <= 5:
                shown += [f"    {row}" for row in stream.rows.to_pylist()]
        shown += [f"{name}{' (ad hoc)' * asked.ad_hoc}: {asked.sql}" for name, asked in self.queries.items()]
        return "\n  ".join(shown)


def random_case(seed, arrival=None, form=None):
    """The case of a seed; arrival: with keys that arrive in this order; form: with samples and queries of this form."""
    rng = np.random.default_rng(seed)
    drawn = list(ARRIVALS)[rng.integers(len(ARRIVALS))]
    arrival = arrival or drawn
    names = [f"s{i}" for i in rng.permutation(int(rng.choice([1, 2, 2, 2, 3, 4])))]
    sign, samples = SIGNS[rng.integers(len(SIGNS))], bool(rng.random() < 0.85) or form is not None
    data = _Data(rng, arrival, sign)
    streams = {name: data.stream(name == names[-1]) for name in names}
    queries = {
        f"q{i}": _windowed(rng, random_query(rng, names, samples, form))
        for i in range(int(rng.integers(1, 7 if form is None else 4)))
    }
    explored = {}
    if samples and form is None and rng.random() < 0.5:
        explored = {name: _some(rng, EXPLORABLE) for name in names}
        found = [
            ad_hoc_query(rng, names, list(queries.values()), explored) for _ in range(int(rng.integers(2, 7)))
        ]
        queries |= {
            f"a{i}": replace(asked, ad_hoc=True) for i, asked in enumerate(found) if asked is not None
        }
    size = sum(len(stream.arrival.net) for stream in streams.values())
    return Case(
        seed=seed,
        arrival=arrival,
        sign=sign,
        streams=streams,
        queries=queries,
        interleaved=bool(rng.random() < 0.4),
        budget=int(max(1500, size * 25 * 10 ** rng.uniform(-2, 0))),
        objective=("average", "largest")[int(rng.random() < 0.3)],
        samples=samples,
        informed=bool(rng.random() < 0.1),
        timezone=ZONES[rng.integers(len(ZONES))],
        explored=explored,
    )


def _some(rng, columns):
    chosen = [column for column in columns if rng.random() < 0.4]
    return tuple(chosen or columns[:1])


def _windowed(rng, asked):
    simple = not asked.grouped and not asked.by_path
    return replace(asked, windowed=True) if simple and rng.random() < 0.1 else asked


class _Data:
    """What the streams of a case have in common: the domain of keys, shares of NULL, sentinels."""

    def __init__(self, rng, arrival, sign):
        self.rng, self.arrival, self.sign = rng, arrival, sign
        self.domain = int(rng.choice([30, 300, 3000, 3000, 10_000]))
        self.late_key = int(rng.integers(self.domain))
        self.null_keys = float(rng.uniform(0.1, 0.6)) if rng.random() < 0.35 else 0.0
        self.null_measures = float(rng.choice([0, 0, 0.1, 0.9]))
        self.spread = float(rng.choice([0, 0, 1.0]))
        self.special = (
            [c for c in SENTINELS if rng.random() < (0.1 if c in "vx" else 0.4)] if rng.random() < 0.4 else []
        )

    def stream(self, last):
        """A random stream; last: no other comes after it."""
        rng = self.rng
        n = int(rng.choice([300, 2000, 4000, 8000, 15_000]))
        draw = zipf(
            rng,
            self.domain,
            float(rng.choice([0, 0.6, 1.0, 1.4] if self.arrival != "late" else [0, 0, 0.6, 1.0])),
            int(rng.choice([0, 0, 7])),
        )
        kind, more = self.arrival, {}
        if kind == "late":
            own = rng.random() < 0.3
            more = {
                "share": float(rng.choice([0.05, 0.1, 0.2, 0.2])),
                "key": int(rng.integers(self.domain)) if own else self.late_key,
            }
            if not last and rng.random() < 0.5:
                kind, more = "stationary", {}  # the late key of one stream meets few rows of another
        if kind == "growing":
            more = {"new": rng.uniform(0.05, 0.3), "recent": float(rng.choice([0.3, 1.0]))}
        deleted = rng.uniform(0.6, 1) if kind == "churning" else float(rng.choice([0, 0, 0.25]))
        arrival = ARRIVALS[kind](rng, n, draw, deleted, **more)
        # an order of arrival shows only if batches end before it is over
        shares = (
            [0.25, 0.25, 0.2, 0.15, 0.1, 0.05]
            if self.arrival == "stationary"
            else [0.1, 0.1, 0.1, 0.3, 0.3, 0.1]
        )
        batches = int(rng.choice([1, 2, 3, 6, 15, 40], p=shares))
        ends = np.linspace(0, len(arrival.rows), batches + 1).astype(int)
        return Stream(self._rows(arrival.keys), arrival, tuple(ends[1:].tolist()))

    def _rows(self, keys):
        rng, n = self.rng, len(keys)
        other = zipf(rng, self.domain, float(rng.choice([0, 1.0])))
        j = (keys * 7 + rng.integers(0, 3, n)) % self.domain if rng.random() < 0.3 else other(n)
        columns = {
            "k": pa.array(keys, pa.int64()),
            "j": pa.array(j, pa.int64()),
            "v": pa.array(self._measures(n), pa.int64()),
            "x": pa.array(np.round(rng.normal(0, 2, n), 2)),
            "d": pa.array(18_262 + rng.integers(0, 400, n).astype(np.int32), pa.date32()),
            "t": pa.array(np.array(["a", "A", "b", "", "cd"])[rng.integers(0, 5, n)]),
            "m": pa.array(rng.integers(0, 50, n)).cast(pa.decimal128(38, 2)),
            "e": pa.array(START + rng.integers(0, 90, n) * 86_400 * SECOND, pa.timestamp("us", "UTC")),
            "ts": pa.array(START + rng.integers(0, 600, n) * SECOND, pa.timestamp("us", "UTC")),
        }
        for name in self.special:
            values = pa.array(SENTINELS[name], columns[name].type)
            columns[name] = self._mixed(
                columns[name], values.take(rng.integers(0, len(values), n)), rng.uniform(0.002, 0.1)
            )
        for name, share in (
            ("k", self.null_keys),
            ("j", self.null_keys * (rng.random() < 0.5)),
            ("v", self.null_measures),
        ):
            columns[name] = self._mixed(columns[name], pa.nulls(n, columns[name].type), share)
        return pa.table(columns)

    def _mixed(self, column, others, share):
        chosen = np.where(
            self.rng.random(len(column)) < share, np.arange(len(column)) + len(column), np.arange(len(column))
        )
        return pa.concat_arrays([column, others]).take(pa.array(chosen))

    def _measures(self, n):
        rng = self.rng
        sizes = rng.integers(0, 100, n) if not self.spread else np.rint(np.exp(rng.normal(3, self.spread, n)))
        signs = {"positive": 1, "negative": -1, "mixed": rng.choice([-1, 1], n)}[self.sign]
        return (sizes * signs).astype(np.int64)
