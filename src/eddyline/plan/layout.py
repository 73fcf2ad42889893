"""The layout: every synopsis that a plan keeps, on which stream, and which query reads it.

A layout contains all that an update or an answer needs to know. It is a plain value: it is stored with the
state, and two states can be combined only if their layouts are equal.
"""

import hashlib
from collections.abc import Collection, Mapping
from fractions import Fraction
from functools import cached_property
from math import inf
from typing import Literal

import msgspec

from eddyline.kernels import doubles
from eddyline.sample.spec import DictionarySpec, SampleSpec, Shape
from eddyline.sketch.candidates import CandidateSpec
from eddyline.sketch.synopsis import Spec
from eddyline.sql.query import AnyQuery, Expression, Key, WrittenQuery, read_back, written
from eddyline.types import Column, DerivedColumn

SKETCHED_DIGITS = 3
"""Sketches hold the digits of a FLOAT or DOUBLE from 2^SKETCHED_LOWEST on: their answers are estimates anyway."""
SKETCHED_LOWEST = -60


class Stream(msgspec.Struct, frozen=True):
    """A declared stream: its columns, and how its rows express changes."""

    name: str
    columns: tuple[Column, ...]
    changes: str | None = None
    event_time: str | None = None
    derived: tuple[DerivedColumn, ...] = ()

    @property
    def every_column(self) -> tuple[Column, ...]:
        """The columns that queries may name: those of the rows, and derived ones."""
        return (*self.columns, *self.derived)


class Measure(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """A number per row as an integer times a unit: an expression to a power, times others. NULL counts as nothing.

    Integers and DECIMAL take one word, in units of their last digit, and so do products of two of them. FLOAT,
    DOUBLE and products of three numbers take several (`kernels.doubles`). times: measures that have no `times`
    themselves.
    """

    expression: Expression
    power: int  # without a default, so that it is always written, as in states of format 3
    times: tuple["Measure", ...] = ()

    @property
    def parts(self) -> tuple["Measure", ...]:
        """The powers of single expressions whose product it is."""
        return (Measure(self.expression, self.power), *self.times) if self.times else (self,)

    @property
    def text(self) -> str:
        """The product as it is written, without the power of a single expression."""
        if not self.times:
            return self.expression.text
        return " * ".join(
            each.text if each.power == 1 else f"{each.text}^{each.power}" for each in self.parts
        )

    @property
    def _floats(self) -> int:
        """How many FLOAT and DOUBLE numbers are multiplied."""
        return sum(each.power for each in self.parts if each.expression.type.is_float)

    @property
    def is_wide(self) -> bool:
        """Whether a number takes several words."""
        return self._floats > 0 or sum(each.power for each in self.parts) > doubles.MOST_IN_A_WORD

    @property
    def _digits(self) -> int:
        whole = sum(each.power for each in self.parts) - self._floats
        return doubles.DIGITS * self._floats + doubles.WHOLE_DIGITS * whole

    @property
    def words(self) -> int:
        """The number of words of a number, and of a sum of such numbers."""
        return 1 + self._digits if self.is_wide else 1

    @property
    def sketched_words(self) -> int:
        """The number of words that a sketch takes from a number: the last ones, with the highest digits."""
        below = max(SKETCHED_LOWEST - self.lowest, 0) // doubles.BITS
        return self._digits - below if self.is_wide else 1

    @property
    def lowest(self) -> int:
        """The exponent of two of a wide number's unit, 0 for others."""
        return self._floats * doubles.LOWEST

    @property
    def unit(self) -> Fraction:
        """The value of 1 in the integer."""
        whole = (each for each in self.parts if not each.expression.type.is_float)
        scale = sum(each.power * each.expression.type.scale for each in whole)
        return Fraction(1, 10**scale << -self.lowest)


class Place(msgspec.Struct, frozen=True, order=True):
    """A key's place in a link: its hash slot, and which member it is of how many that meet there.

    cell: the part of a partitioned join whose hash functions it takes; those of different cells are independent.
    """

    slot: int = 0
    member: int = 0
    members: int = 2
    cell: int = 0


SynopsisKind = Literal[
    "total",
    "hash",
    "agms",
    "distinct",
    "peeling",
    "join-distinct",
    "dyadic",
    "two-level",
    "two-level-copies",
    "jd",
]
"""The last four and "agms" are the documents' own: "two-level" is the time-efficient form, then the plain one."""


class Demand(msgspec.Struct, frozen=True, order=True):
    """What a synopsis must hold of a stream, and in which kind. Equal demands share one synopsis.

    keys: one for each link of the sketched relation, with their places. presence: expressions that must not be NULL
    for a row to count (the measure of an AVG, as its COUNT reads it). sample: number of keys requested for a
    sample. side: of a distinct count over a join. domain_bits: for the documents' synopses that keep the bits of a
    key, the number of bits of the keys that are compared; 0 for others.
    """

    stream: str
    kind: SynopsisKind
    keys: tuple[Key, ...] = ()
    predicates: tuple[str, ...] = ()
    measure: Measure | None = None
    presence: tuple[Expression, ...] = ()
    sample: int = 0
    side: int = 0
    places: tuple[Place, ...] = ()
    domain_bits: int = 0

    @property
    def id(self) -> str:
        """A name by content, which does not change when other queries are added or removed."""
        content = msgspec.to_builtins(self)
        if not self.domain_bits:
            del content["domain_bits"]  # earlier versions did not have it: their ids stay the same
        for place in content["places"]:
            if not place["cell"]:
                del place["cell"]  # for the same reason
        return f"{self.stream}-{hashlib.blake2b(msgspec.json.encode(content), digest_size=4).hexdigest()}"


class KeptSynopsis(msgspec.Struct, frozen=True):
    """A synopsis that the plan keeps: what it holds of a stream, its spec and its candidate table.

    unfollowed: it holds only rows whose key the sample does not follow; the dictionaries hold the others.
    has_labels: the values of candidate keys are kept, because a key's code does not determine them.
    """

    id: str
    demand: Demand
    spec: Spec
    candidates: CandidateSpec | None = None
    unfollowed: bool = False
    has_labels: bool = False

    @property
    def stream(self) -> str:
        """The stream whose rows it holds."""
        return self.demand.stream

    @property
    def number_words(self) -> int:
        """The number of words that it takes from a measure: the last ones."""
        return getattr(self.spec, "number_words", 1)

    @property
    def size(self) -> int:
        """The number of its counters, with numbers of several words counted once: its error depends on this."""
        return self.spec.words // self.number_words

    @property
    def nbytes(self) -> int:
        """Bytes of counters and hints."""
        return 8 * (self.spec.words + (self.candidates.words if self.candidates else 0))


class SketchedQuantity(msgspec.Struct, frozen=True):
    """The synopses of one quantity of a query (count, sum, squares), one for each relation.

    sketches: a row for each part of a partitioned join, one row without partitions.
    """

    sketches: tuple[tuple[str, ...], ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """All synopses of the quantity, each once."""
        return tuple(dict.fromkeys(name for part in self.sketches for name in part))


class Flag(msgspec.Struct, frozen=True, order=True):
    """A truth value of a row: all predicates hold, and the expressions are not NULL."""

    predicates: tuple[str, ...] = ()
    presence: tuple[Expression, ...] = ()

    def implies(self, other: "Flag") -> bool:
        """Return whether every row that carries this flag also carries another."""
        return set(other.predicates) <= set(self.predicates) and set(other.presence) <= set(self.presence)


class Guard(msgspec.Struct, frozen=True, order=True):
    """The rows on which an expression that can fail is known: those that meet one of some conjunctions.

    On other rows it counts as NULL, because no query reads it there. power: 0 for the expression itself, in keys
    and as presence; otherwise the power of the measure, which may have no value in fixed point.
    """

    text: str
    power: int
    predicates: tuple[tuple[str, ...], ...]


Tier = Literal["planned", "apart", "explored"]


def tier_of(*, apart: bool, explored: bool) -> Tier:
    """Return the tier of a dictionary: for planned queries, for distinct counts over joins, or for later queries."""
    return "apart" if apart else "explored" if explored else "planned"


class Elements(msgspec.Struct, frozen=True, order=True):
    """The columns of a dictionary: keys, flags and measures of a stream's rows.

    groups: keys that are not links here: queries only group by them. labelled: keys whose values are kept, too.
    counted: which rows are held: those that carry all of some flags, by position; every row if it is empty. guards:
    of expressions that are not known on every row. apart: links are followed at their own rates, for distinct
    counts over joins, which read the groups as codes. explored: the same for queries that are not known yet.
    """

    stream: str
    keys: tuple[Key, ...]
    flags: tuple[Flag, ...] = ()
    measures: tuple[Measure, ...] = ()
    groups: tuple[Key, ...] = ()
    labelled: tuple[Key, ...] = ()
    counted: tuple[tuple[int, ...], ...] = ()
    guards: tuple[Guard, ...] = ()
    apart: bool = False
    explored: bool = False

    @property
    def tier(self) -> Tier:
        """Which queries read it: the links of each tier are followed at rates of their own."""
        return tier_of(apart=self.apart, explored=self.explored)

    def guard(self, text: str, power: int = 0) -> tuple[tuple[str, ...], ...]:
        """Return the conjunctions under which an expression is known, none if it is known on every row."""
        found = (each.predicates for each in self.guards if (each.text, each.power) == (text, power))
        return next(found, ())

    def knows(self, text: str, power: int, predicates: Collection[str]) -> bool:
        """Return whether an expression is known on every row that meets some predicates."""
        guard = self.guard(text, power)
        return not guard or any(set(each) <= set(predicates) for each in guard)

    def knows_for(self, text: str, power: int, wanted: "Elements") -> bool:
        """Return whether an expression is known wherever another dictionary of the stream needs it."""
        needed = wanted.guard(text, power)
        return all(self.knows(text, power, each) for each in needed or ((),))

    @property
    def links(self) -> frozenset[Key]:
        """The keys whose values are followed."""
        return frozenset(self.keys) - frozenset(self.groups)

    def columns(self, measure: Measure) -> range:
        """Return which of the dictionary's sums hold a measure, one for each of its words."""
        first = sum(each.words for each in self.measures[: self.measures.index(measure)])
        return range(first, first + measure.words)

    def holds_rows_of(self, flags: Collection[Flag]) -> bool:
        """Return whether every row that carries all of some flags is held."""
        return not self.counted or any(
            all(any(flag.implies(self.flags[place]) for flag in flags) for place in places)
            for places in self.counted
        )

    def spec(self, classes: Mapping[tuple[str, Key], int]) -> DictionarySpec:
        """Return the columns as numbers, given the link class of each key."""
        links = tuple(-1 if key in self.groups else classes.get((self.stream, key), -1) for key in self.keys)
        labelled = tuple(self.keys.index(key) for key in self.labelled)
        sums = sum(measure.words for measure in self.measures)
        wide = tuple((self.columns(each).start, each.words) for each in self.measures if each.is_wide)
        return DictionarySpec(links, len(self.flags), sums, labelled, self.counted, wide)


class PlannedSample(msgspec.Struct, frozen=True):
    """A stream sample of some queries: what its dictionaries hold, in the first stage and in the second.

    sketches: the synopses that are kept next to it from the second stage on.
    """

    id: str
    exact: tuple[Elements, ...]
    kept: tuple[Elements, ...]
    spec: SampleSpec
    sketches: tuple[KeptSynopsis, ...] = ()

    @property
    def labelled(self) -> tuple[KeptSynopsis, ...]:
        """The sketches that keep the values of their candidate keys."""
        return tuple(kept for kept in self.sketches if kept.has_labels)

    def position(self, stream: str) -> int | None:
        """Return the index of a stream's exact dictionary, None if the sample does not hold the stream."""
        return next((i for i, each in enumerate(self.exact) if each.stream == stream), None)

    def source(self, demand: Demand) -> int | None:
        """Return the index of the second-stage dictionary that holds the followed keys of a sketch of one key.

        None if there is no such dictionary: its only link is the key, and it has the flags and the measure.
        """
        flags = {
            *(Flag(predicates=each) for each in (demand.predicates,) if each),
            *(Flag(presence=(each,)) for each in demand.presence),
        }
        return next(
            (
                i
                for i, each in enumerate(self.kept)
                if each.stream == demand.stream
                and each.tier == "planned"
                and each.links == frozenset(demand.keys)
                and flags <= set(each.flags)
                and (demand.measure is None or demand.measure in each.measures)
            ),
            None,
        )


class Decision(msgspec.Struct, frozen=True):
    """What the planner decided for a query before memory was divided: its hash slots and its parts.

    hash_slots: one for each link. parts: for each part of a partitioned join, the predicates of each relation that
    select it; shares: the part's share of the words of a relation; gain: how many times less memory the parts are
    expected to need; independent: each part has hash functions of its own, which earlier versions did not give it.
    """

    hash_slots: tuple[int, ...] = ()
    parts: tuple[tuple[tuple[str, ...], ...], ...] = ()
    shares: tuple[float, ...] = (1.0,)
    gain: float = 1.0
    independent: bool = False


class Guaranteed(msgspec.Struct, frozen=True):
    """What a guarantee of (epsilon, delta) takes: by which theorem, and how many bytes.

    calibrated: bytes at which the calibrated interval at 1 - delta is expected to be as narrow.
    """

    epsilon: float
    delta: float
    theorem: str
    nbytes: int
    calibrated: int


class PlannedQuery(msgspec.Struct, frozen=True, dict=True):
    """A query, the method that answers it, what it reads, and the decision for it.

    quantities: the sketches that it reads; none if its stream sample (`sample`) alone answers it. totals: for each
    quantity the exact total of every relation. shape: how it reads the sample's dictionaries. expected_error: half
    the width of the expected interval, relative to the answer; None if it is not known. details: how each of its
    aggregates that need the single values of a group reads them. ad_hoc: nothing is kept for it; it was added to a
    running plan, and is answered from what a sample holds for others, as if it had not been planned. rest_sketches:
    for each quantity of groups of one stream, the sketch of rows whose group is not followed, in which heavy groups
    are found; for each relation of each quantity of a join, the sketch of rows whose key is not followed.
    guarantee: the one that its sketches are sized for. sketch_weight: W of its sketches, times the query's weight;
    None without sketches, or in plans of earlier versions.
    """

    name: str
    written: WrittenQuery = msgspec.field(name="query")
    method: str
    quantities: dict[str, SketchedQuantity]
    sample: str | None = None
    totals: dict[str, tuple[str, ...]] = {}
    shape: Shape | None = None
    decision: Decision = Decision()
    expected_error: float | None = None
    details: tuple["PlannedQuery", ...] = ()
    ad_hoc: bool = False
    rest_sketches: dict[str, str] = {}
    guarantee: Guaranteed | None = None
    sketch_weight: float | None = None

    def __post_init__(self) -> None:
        """Take a query in either form."""
        msgspec.structs.force_setattr(self, "written", written(self.written))

    @cached_property
    def query(self) -> AnyQuery:
        """The query."""
        return read_back(self.written)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the query reads, each once."""
        return tuple(dict.fromkeys(self.query.streams))

    @property
    def ids(self) -> tuple[str, ...]:
        """All synopses that the query reads, each once."""
        read = [name for quantity in self.quantities.values() for name in quantity.ids]
        read += [name for detail in self.details for name in detail.ids]
        read += self.rest_sketches.values()
        return tuple(
            dict.fromkeys([*read, *(name for quantity in self.totals.values() for name in quantity)])
        )


class Window(msgspec.Struct, frozen=True, order=True):
    """A window over event time: a number of panes of `slide` microseconds."""

    slide: int
    panes: int


class WindowGroup(msgspec.Struct, frozen=True):
    """Queries with one window on the same streams, and the layout of each of their panes."""

    id: str
    window: Window
    layout: "Layout"

    @property
    def nbytes(self) -> int:
        """Bytes of all kept panes, including the one that is filling, and of their numbers."""
        samples = sum(sample.spec.budget for sample in self.layout.samples)
        return 8 + (self.window.panes + 1) * (8 + self.layout.counter_bytes) + samples


OWN_ERROR_FUNCTION = "own function"
"""The objective of a plan whose error function was given; the function itself is not kept."""


class Layout(msgspec.Struct, frozen=True, dict=True):
    """Everything that a plan keeps: synopses that are updated from the first row on, and stream samples.

    timezone: the zone in which expressions read years, days and hours from timestamps; None if no expression does,
    so that plans made in different places stay equal. error: the requested relative error, if any. budget: the
    bytes that the plan was made for, None if an earlier version made it. added: synopses that were added to a
    running plan; they lack earlier rows, so they are not combined with older ones. objective: which expected error
    is least: the average, the largest, or by a function that was given.
    """

    seed: int
    confidence: float
    streams: tuple[Stream, ...]
    kept: tuple[KeptSynopsis, ...]
    queries: tuple[PlannedQuery, ...]
    windows: tuple[WindowGroup, ...] = ()
    samples: tuple[PlannedSample, ...] = ()
    timezone: str | None = None
    error: float | None = None
    budget: int | None = None
    added: tuple[str, ...] = ()
    objective: str = "average"

    @property
    def nbytes(self) -> int:
        """Bytes of everything kept, including row counts of the streams and panes of windows."""
        samples = sum(sample.spec.budget for sample in self.samples)
        return self.counter_bytes + samples + sum(group.nbytes for group in self.windows)

    @property
    def counter_bytes(self) -> int:
        """Bytes of the synopses that are updated from the first row on."""
        return sum(kept.nbytes for kept in self.kept)

    @property
    def query_names(self) -> list[str]:
        """The names of all queries, windowed ones last."""
        windowed = [planned.name for group in self.windows for planned in group.layout.queries]
        return [*(planned.name for planned in self.queries), *windowed]

    @property
    def expected_errors(self) -> dict[str, float]:
        """Half the width of each query's expected interval, relative to the answer; infinite if not known.

        Ad hoc queries are left out: nothing is planned for them.
        """
        return {
            each.name: inf if each.expected_error is None else each.expected_error
            for each in self.queries
            if not each.ad_hoc
        }

    @cached_property
    def by_id(self) -> dict[str, KeptSynopsis]:
        """The synopses by their ids."""
        return {kept.id: kept for kept in (*self.kept, *(k for s in self.samples for k in s.sketches))}

    def sample(self, name: str) -> PlannedSample:
        """Return the stream sample of that id."""
        return next(sample for sample in self.samples if sample.id == name)

    @cached_property
    def digest(self) -> str:
        """A hash of what is kept and who reads it, without expected errors: states with equal hashes combine."""
        queries = tuple(msgspec.structs.replace(each, expected_error=None) for each in self.queries)
        written = msgspec.structs.replace(self, queries=queries, budget=None, added=())
        content = as_first_written(msgspec.json.decode(msgspec.json.encode(written)))
        return layout_hash(content)

    def stream(self, name: str) -> Stream:
        """Return the stream of that name."""
        return next(stream for stream in self.streams if stream.name == name)

    def update_cost(self, stream: str) -> int:
        """Return how many words a row of a stream touches in synopses updated from the first row, with panes."""
        panes = sum(group.layout.update_cost(stream) for group in self.windows)
        return panes + sum(
            kept.spec.touched + (2 if kept.candidates else 0) for kept in self.kept_for(stream)
        )

    def kept_for(self, stream: str) -> tuple[KeptSynopsis, ...]:
        """Return the synopses on a stream."""
        return tuple(kept for kept in self.kept if kept.stream == stream)


UNHASHED = ("budget", "added")
"""Fields of a layout that its hash leaves out: what is kept does not depend on them."""
_EXPLAINING = ("sketch_weight", "objective")
"""Fields that only explain a plan, in its windows, too."""
_CAME_LATER: dict[str, object] = {
    "derived": [],
    "details": [],
    "counted": [],
    "guards": [],
    "conditions": [],
    "formulas": [],
    "number_words": 1,
    "lowest": 0,
    "wide": [],
    "ad_hoc": False,
    "budget": None,
    "added": [],
    "unfollowed": False,
    "has_labels": False,
    "rest_sketches": {},
    "domain_bits": 0,
    "guarantee": None,
    "apart": False,
    "explored": False,
    "cell": 0,
    "independent": False,
}
"""Fields that stores of format 3 did not have at first, and their values if nothing uses them."""


def layout_hash(content: object) -> str:
    """Return the hash of a layout given as plain values, whose queries expect no errors."""
    return hashlib.blake2b(msgspec.json.encode(content), digest_size=16).hexdigest()


def as_first_written(content: object) -> object:
    """Return a layout without fields that explain, and without unused later ones: older stores hash the same."""
    if isinstance(content, dict):
        return {
            name: as_first_written(value)
            for name, value in content.items()
            if name not in _EXPLAINING and (name not in _CAME_LATER or value != _CAME_LATER[name])
        }
    return [as_first_written(each) for each in content] if isinstance(content, list) else content
