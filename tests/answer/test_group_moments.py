"""What followed values add to groups, by tables, by entries and without kernels: always that of nested loops."""

import numpy as np
import pytest

from eddyline.answer.groups.entries import RARE, Asked, GroupEntries
from eddyline.answer.interval import GroupSpread
from eddyline.sample import carried, packing
from eddyline.sample.grouped_join import GroupedJoin
from eddyline.sample.join import Join
from eddyline.sample.spec import COUNT, DictionarySpec, Node, Quantity, SampleSpec, Shape, View
from tests.oracles.grouped_joins import entries_of, slow_groups, slow_moments
from tests.oracles.sample_joins import dictionary, sample

# For each relation its links; then the relations that have a group column.
JOINS = {
    "ends of a chain": (((0,), (0, 1), (1,)), (0, 2)),
    "one end": (((0,), (0, 1), (1,)), (0,)),
    "middle": (((0,), (0, 1), (1,)), (1,)),
    "everywhere": (((0,), (0, 1), (1,)), (0, 1, 2)),
    "three at one link": (((0,), (0,), (0, 1), (1,)), (0, 3)),
    "star": (((0,), (0, 1, 2), (1,), (2,)), (0, 2)),
}
WAYS = {
    "tables": (0, 1 << 30),
    "entries": (0, 0),
    "few products, without kernels": (1 << 40, 4),
}


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """Every way to add up, however few products there are."""
    few, dense = WAYS[request.param]
    for module in (packing, carried):
        monkeypatch.setattr(module, "FEW", few)
    monkeypatch.setattr(carried, "_DENSE_TABLE", dense)
    return request.param


def grouped_join(case, rng, *, scale=1, rate=0.6, least=0):
    """A join of a few elements with groups, its values followed at different rates."""
    links, grouped = JOINS[case]
    classes = max(max(each) for each in links) + 1
    specs, held = [], []
    for relation, mine in enumerate(links):
        spec = DictionarySpec((*mine, *((-1,) if relation in grouped else ())), 0, 1)
        rows = {}
        for _ in range(12):
            keys = [int(key) for key in rng.integers(0, 4, len(mine))]
            group = [[None, 3, 5, 9][rng.integers(0, 4)]] if relation in grouped else []
            count = int(rng.integers(1, 4)) * scale
            rows[*keys, *group] = count, count * int(rng.integers(least, 5))
        specs.append(spec)
        held.append(dictionary(spec, [(keys, (), totals) for keys, totals in rows.items()]))

    def quantity(measured):
        nodes = []
        for relation, mine in enumerate(links):
            by = (len(mine),) if relation in grouped else ()
            view = View(
                relation, tuple(range(len(mine))), (), 0 if relation == measured else COUNT, groups=by
            )
            nodes.append(Node(view, view, mine))
        return Quantity(tuple(nodes))

    shape = Shape(
        "q", "join", tuple(range(classes)), {"count": quantity(None), "sum": quantity(len(links) - 1)}
    )
    spec = SampleSpec(
        tuple(specs), tuple(specs), (), tuple(range(1, 1 + classes)), (shape,), 1 << 30, 1 << 30
    )
    rates = [(rate, {0: 1.0, 1: min(1.0, 1.5 * rate)}) for _ in range(classes)]
    join = Join(sample(spec, held, rates, seed=int(rng.integers(1000))), shape)
    return GroupedJoin(join, list(shape.quantities.values()))


def assert_moments(found, truth):
    moments, typical, lonely = truth
    spread = GroupSpread.of_moments(*moments[:, :4].T)
    for name in ("variance", "largest", "carriers", "skewness"):
        np.testing.assert_allclose(
            getattr(found.spread, name), getattr(spread, name), rtol=1e-8, atol=1e-8, err_msg=name
        )
    np.testing.assert_array_equal(found.sampled, moments[:, 4])
    np.testing.assert_array_equal(found.values, moments[:, 5])
    np.testing.assert_array_equal(found.lonely, lonely)
    assert found.typical == pytest.approx(typical)


@pytest.mark.parametrize("case", JOINS)
def test_moments_of_groups_are_those_of_nested_loops(case, way):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        grouped = grouped_join(case, rng, least=-2 if seed == 2 else 0)
        links = list(range(len(grouped.sizes)))
        messages = grouped.sampled([False] * len(links))
        groups, sums = messages.at_root()
        entries = GroupEntries(grouped, messages, groups, links)
        mean = 0.7 * sums[:, 1] / sums[:, 0] + 0.1  # at the mean itself the sums would be rounding alone
        owners = rng.integers(-1, 3, len(groups))
        asked = [
            Asked({0: np.ones(len(groups))}),
            Asked({1: np.ones(len(groups))}),
            Asked({1: np.ones(len(groups)), 0: -mean}, (0, sums[:, 0])),
            Asked(
                {1: np.ones(len(groups))}, (1, sums[:, 1])
            ),  # measures of 0: not every value has rows that count
        ]
        by_owner = Asked({0: mean}, owners=owners, number=3)
        for found, each in zip(entries.moments(*asked), asked, strict=True):
            assert_moments(found, slow_moments(grouped, groups, links, each))
        assert_moments(entries.moments(by_owner)[0], slow_moments(grouped, groups, links, by_owner))


@pytest.mark.parametrize(("case", "link"), [("ends of a chain", 0), ("one end", 1), ("three at one link", 0)])
def test_tables_are_made_where_groups_reach_a_link_through_another(case, link, way):
    messages = grouped_join(case, np.random.default_rng(5)).sampled([False, False])
    assert (messages.tabled(link) is not None) == (way == "tables")


@pytest.mark.parametrize("case", JOINS)
@pytest.mark.parametrize("asked_before", [False, True])
def test_rare_entries_are_those_of_groups_that_few_values_show(case, way, asked_before):
    grouped = grouped_join(case, np.random.default_rng(5))
    links = list(range(len(grouped.sizes)))
    messages = grouped.sampled([False] * len(links))
    groups, _ = messages.at_root()
    entries = GroupEntries(grouped, messages, groups, links)
    if asked_before:
        entries.moments(Asked({0: np.ones(len(groups))}))
    truth = {}
    for link in links:
        found = {key: amounts for key, amounts in entries_of(grouped, link).items() if np.any(amounts)}
        shown = [group for _, group in found]
        first = sum(grouped.sizes[:link])
        truth |= {
            (first + place, group): (amounts, shown.count(group), grouped.join.probabilities[link][place])
            for (place, group), amounts in found.items()
            if shown.count(group) <= RARE
        }
    rare = entries.rare
    printed = dict(
        zip(
            zip(rare.values.tolist(), groups[rare.groups].tolist(), strict=True),
            zip(rare.added, rare.witnesses, rare.rates, strict=True),
            strict=True,
        )
    )
    assert printed.keys() == truth.keys()
    for key, (amounts, witnesses, rate) in truth.items():
        np.testing.assert_allclose(printed[key][0], amounts, rtol=1e-9)
        assert printed[key][1:] == (witnesses, rate)


@pytest.mark.parametrize("case", JOINS)
@pytest.mark.parametrize("scale", [1, 1 << 15, 1 << 18, 1 << 22])
def test_exact_groups_are_integers_of_any_size(case, scale, way):
    """Sums below 2^53, below 2^62, and beyond: added up as floats, as machine integers, as Python's."""
    grouped = grouped_join(case, np.random.default_rng(7), scale=scale, rate=1.0, least=-2)
    groups, sums = grouped.exact()
    found = {int(group): tuple(map(int, line)) for group, line in zip(groups, sums, strict=True)}
    assert found == slow_groups(grouped)
