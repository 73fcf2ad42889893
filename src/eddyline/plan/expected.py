"""Expected errors: how the relative variance of a query falls with the words of its synopses.

The variance of a sketched join is about the product of the self-join sizes over the words of a sketch; relative
to the square of the join size that is W / words, and W is the query's weight. Without statistics a join counts
as one that is as concentrated as a self-join. Paper: sharing, W_Q = 8 Var[X_Q] / E[X_Q]^2.
"""

from collections.abc import Mapping, Sequence
from math import inf, prod

import msgspec

from eddyline.plan.demands import TermDemands, links_of
from eddyline.plan.key_sample_rates import RelationSize, sampling_rates
from eddyline.plan.layout import Demand
from eddyline.plan.statistics import RelationStatistics, Statistics
from eddyline.sketch.distinct import DistinctSpec
from eddyline.sketch.join_distinct import JoinDistinctSpec
from eddyline.sketch.key_sample_sizes import capacity_of
from eddyline.sql.query import AnyQuery, JoinDistinctQuery, Query, SetQuery

FAVOURABLE = 2.0
"""The weight of a join that is as concentrated as a self-join: the row variance is then 2 J^2 / width."""
_DEPTH_SHARE = 1.2  # rows and buckets that do not fill the words
_LEAST_SPLIT, _MOST_SPLIT = 1 / 9, 9.0
_HEADROOM = 1.25  # a sample that holds all of a relation holds it after it has grown so much
_LEAST_VARIANCE = 1e-4  # samples that hold all of a relation are not sized by their variance
_NOT_WHOLE = 0.5  # the rate of a sample's next level
_PROBE = 0.05  # a standard error at which families with sizes in steps are weighed


class Sampling(msgspec.Struct, frozen=True):
    """How the links of a query are sampled: their rates, and the relative variance that is expected.

    values: how many values each link has; joined: how many different tuples the join has.
    """

    rates: tuple[float, ...]
    variance: float
    values: tuple[float, ...]
    joined: float

    @property
    def careful_variance(self) -> float:
        """The variance if no link is kept whole, as when a sample that should hold a relation just does not."""
        return _sampling_variance([min(rate, _NOT_WHOLE) for rate in self.rates], self.values, self.joined)


def sketch_weight(
    query: AnyQuery, terms: Mapping[str, TermDemands], statistics: Statistics, most: int
) -> float:
    """Return W of a query: its relative variance by sketches, times their words."""
    if isinstance(query, SetQuery):
        return DistinctSpec.for_error(most, _PROBE, 0, share=0.5).words * _PROBE**2
    if isinstance(query, JoinDistinctQuery):
        return JoinDistinctSpec.for_error(_PROBE, most, 0).words * _PROBE**2
    if not query.links:
        return FAVOURABLE
    known = [_term_weight(query, name, term, statistics) for name, term in terms.items()]
    return max((each for each in known if each is not None), default=FAVOURABLE)


def _term_weight(query: Query, name: str, term: TermDemands, statistics: Statistics) -> float | None:
    size = term_size(query, name, term, statistics)
    found = [statistics.relation(demand) for demand in relations_of(term)]
    if not size or any(each is None for each in found):
        return None
    # atomic sketches of several links repeat pairs of rows in their products: measured, figures/sharing.py
    crossed = 2.0 ** (len(query.links) - 1) if term.parts[0][0].family == "agms" else 1.0
    return crossed * _DEPTH_SHARE * prod(each.self_join for each in found if each is not None) / size**2


def term_size(query: Query, name: str, term: TermDemands, statistics: Statistics) -> float | None:
    """Return the size of a term: as measured, else as totals and numbers of values make it likely; None if unknown.

    The likely size is the product of the relations' totals over, for each link, the numbers of values of all its
    relations but the smallest: values spread evenly, those of the smaller side among those of the larger.
    """
    measured = statistics.size(query, name)
    if measured:
        return measured
    known = [statistics.relation(demand) for demand in relations_of(term)]
    totals = [each.total if each is not None else None for each in known]
    if any(total is None for total in totals) or not _counted(known, relations_of(term)):
        return None
    return _likely_size(query, known, [total for total in totals if total is not None])


def _counted(known: Sequence[RelationStatistics | None], relations: Sequence[Demand]) -> bool:
    """Return whether the values of every key of every relation are counted."""
    return all(
        each is not None and len(each.distinct) == len(demand.keys)
        for each, demand in zip(known, relations, strict=True)
    )


def _likely_size(query: Query, known: Sequence[RelationStatistics | None], totals: Sequence[float]) -> float:
    values: dict[int, list[float]] = {}
    for index, each in enumerate(known):
        for link, distinct in zip(
            links_of(query, index), each.distinct if each is not None else (), strict=True
        ):
            values.setdefault(link, []).append(max(distinct, 1.0))
    return prod(totals) / prod(prod(sorted(each)[1:]) for each in values.values())


def relations_of(term: TermDemands) -> tuple[Demand, ...]:
    """Return a demand for each relation of a term, without the cuts of its parts."""
    if len(term.parts) == 1:
        return term.parts[0]
    common = [
        set.intersection(*(set(demand.predicates) for demand in each))
        for each in zip(*term.parts, strict=True)
    ]
    return tuple(
        msgspec.structs.replace(demand, predicates=tuple(sorted(shared)))
        for demand, shared in zip(term.parts[0], common, strict=True)
    )


def sampling_of(
    query: Query, name: str, term: TermDemands, statistics: Statistics, words: list[int]
) -> Sampling | None:
    """Return how a term is best sampled with so many words for each relation; None without statistics."""
    relations = relations_of(term)
    found = [statistics.relation(demand) for demand in relations]
    if not term_size(query, name, term, statistics) or not _counted(found, relations):
        return None
    values = [inf] * len(query.links)
    sizes = []
    for index, (demand, each, count) in enumerate(zip(relations, found, words, strict=True)):
        assert each is not None
        links = links_of(query, index)
        for link, distinct in zip(links, each.distinct, strict=True):
            values[link] = min(values[link], max(distinct, 1.0))
        capacity = capacity_of(count, len(demand.keys), wide=demand.measure is not None)
        sizes.append(RelationSize(each.elements, capacity, links, each.distinct))
    joined = _joined_tuples(query, name, relations, statistics)
    rates = sampling_rates(sizes, values, joined)
    return Sampling(rates, _sampling_variance(rates, values, joined), tuple(values), joined)


def _sampling_variance(rates: Sequence[float], values: Sequence[float], joined: float) -> float:
    """Return the relative variance of a join of samples whose links keep values at such rates."""
    return sum((1 / p - 1) / d for p, d in zip(rates, values, strict=True)) + (1 / prod(rates) - 1) / joined


def _joined_tuples(query: Query, name: str, relations: Sequence[Demand], statistics: Statistics) -> float:
    """Return how many different tuples the join has, if values are spread evenly; fewer where less was measured.

    At most its rows, if they are known; and where a sum is smaller than totals make it likely, fewer in proportion.
    """
    known = [statistics.relation(demand) for demand in relations]
    tuples = _likely_size(query, known, [each.elements if each is not None else 0.0 for each in known])
    rows, measured = statistics.size(query, "count"), statistics.size(query, name)
    totals = [each.total for each in known if each is not None and each.total is not None]
    if measured and len(totals) == len(known) and all(totals):
        tuples *= min(abs(measured / _likely_size(query, known, totals)), 1.0)
    return max(min(tuples, rows) if rows else tuples, 1.0)


def words_to_hold(demand: Demand, statistics: Statistics) -> int | None:
    """Return the words of a key sample that holds all of a relation; None where its size is not known."""
    known = statistics.relation(demand)
    if known is None or not known.elements:
        return None
    edges, wide, words = len(demand.keys), demand.measure is not None, 256
    while capacity_of(words, edges, wide=wide, bits=60) < _HEADROOM * known.elements:
        words += words // 8
    return words


class Balance(msgspec.Struct, frozen=True):
    """How sketches and samples of a query share memory: words of a sample per word of its sketch, and what the two
    together make of W, the relative variance times the words of a sketch.
    """  # noqa: D205

    split: float
    weight: float


def balance_of(sketch: float, sampling: Sampling | None, words: int) -> Balance:
    """Return the balance of a query: as the precisions that a word of either buys are to each other.

    sketch: W of the query by sketches alone; words: of each sample that `sampling` is for. Without statistics both
    get the same, and count as one.
    """
    if sampling is None:
        return Balance(1.0, sketch)
    precision = 1 / (max(sampling.variance, _LEAST_VARIANCE) * words)
    split = min(max(precision * sketch, _LEAST_SPLIT), _MOST_SPLIT)
    return Balance(split, 1 / (1 / sketch + split * precision))
