"""When a join is partitioned, and into which parts: one sketch for each part and relation.

Parts come from histograms. They pay where the relations rank their values differently, and only for what is
left after skimming: where a histogram shows values that skimming would take off, the join stays whole.
Paper: multi-join, section 4. Deviation: a part is a predicate on either side, so that any synopsis can have it.
"""

from itertools import product
from math import sqrt
from typing import Literal

import msgspec
import numpy as np

from eddyline.plan.demands import WorkloadQuery, links_of
from eddyline.plan.partition.histograms import Histogram
from eddyline.plan.partition.link_statistics import link_statistics
from eddyline.plan.partition.partitioning import Partitioning, cell_self_joins, joint_gain, partition_links
from eddyline.plan.statistics import Statistics
from eddyline.sql.query import Expression, Query

MOST_PARTS = 4
"""More parts gain nothing beyond this: measured, figures/partitioning.py."""
LEAST_GAIN = 1.5
"""The expected gain in space from which a join is partitioned."""
LEAST_SHARE = 0.1
"""The least that a part gets, relative to an equal share."""
MOST_GAIN = float(MOST_PARTS**2)
"""Histograms in which nothing meets promise infinite gains; values that they do not show allow no more than this."""
_STANDS_OUT = 4.5


class Parts(msgspec.Struct, frozen=True):
    """The parts of a join: for each the predicates of each relation, and its share of the words.

    gain: how many times less memory they are expected to need.
    """

    predicates: tuple[tuple[tuple[str, ...], ...], ...] = ()
    shares: tuple[float, ...] = (1.0,)
    gain: float = 1.0


def parts_of(asked: WorkloadQuery, statistics: Statistics, words: int) -> Parts:
    """Return the parts of a query's join; none where it stays whole. Paper: multi-join, Theorem 4.1."""
    query = asked.query
    assert isinstance(query, Query)
    found = partitioning_of(asked, statistics, words)
    if found is None:
        return Parts()
    links = [links_of(query, index) for index in range(len(query.relations))]
    columns = {
        (member.relation, i): member.key.columns[0]
        for i, link in enumerate(query.links)
        for member in link.members
    }
    predicates = tuple(
        tuple(
            tuple(
                cell[link].predicate(columns[index, link].text, _literal_type(columns[index, link]))
                for link in of
                if len(found[link].parts) > 1
            )
            for index, of in enumerate(links)
        )
        for cell in product(*(each.parts for each in found))
    )
    shares = _shares(np.sqrt(cell_self_joins(found)).ravel())
    return Parts(predicates, shares, min(joint_gain(found), MOST_GAIN))


def _shares(roots: np.ndarray) -> tuple[float, ...]:
    """Return the parts' shares of the words, in proportion to the roots of their self-joins, none below a floor.

    A part in which the histograms see only one side, or nothing, keeps some memory: rows may come.
    """
    if not roots.any():
        return (1 / len(roots),) * len(roots)
    raised = np.maximum(roots / roots.sum(), LEAST_SHARE / len(roots))
    return tuple((raised / raised.sum()).tolist())


def _literal_type(column: Expression) -> Literal["", "DATE"]:
    """Return the type that a bound of the column is written with: dates are no strings."""
    return "DATE" if column.type.kind == "date" else ""


def partitioning_of(
    asked: WorkloadQuery, statistics: Statistics, words: int
) -> tuple[Partitioning, ...] | None:
    """Return the partitioning of each link that is expected to gain enough; None where none is."""
    query = asked.query
    if not isinstance(query, Query) or any(len(link.members) > 2 for link in query.links):
        return None
    histograms = _histograms(asked, statistics)
    if histograms is None:
        return None
    if asked.method == "skimmed" and any(
        _has_dense_values(each, words) for pair in histograms for each in pair
    ):
        return None
    found = partition_links([link_statistics(*pair) for pair in histograms], MOST_PARTS)
    return found if joint_gain(found) >= LEAST_GAIN else None


def _histograms(asked: WorkloadQuery, statistics: Statistics) -> list[tuple[Histogram, Histogram]] | None:
    """Return the histograms of both sides of each link, None where one is not known."""
    query = asked.query
    assert isinstance(query, Query)
    relations = next(iter(asked.quantities.values())).whole
    pairs = []
    for link in query.links:
        left, right = (statistics.histogram(relations[m.relation], m.key) for m in link.members)
        if left is None or right is None:
            return None
        pairs.append((left, right))
    return pairs


def _has_dense_values(histogram: Histogram, words: int) -> bool:
    """Return whether some bucket's values are so frequent that a sketch of so many words would skim them."""
    self_join = float(histogram.self_joins().sum())
    pairs = zip(histogram.rows, histogram.distinct, strict=True)
    return max(rows / max(distinct, 1) for rows, distinct in pairs) > _STANDS_OUT * sqrt(
        self_join / max(words, 1)
    )
