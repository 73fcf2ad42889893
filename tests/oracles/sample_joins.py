"""Joins of a stream sample, slowly: every combination of elements, one by one."""

from itertools import product

import numpy as np

from eddyline.sample.dictionary import Builder, Dictionary
from eddyline.sample.join import Join
from eddyline.sample.spec import COUNT, DictionarySpec, Node, Quantity, SampleSpec, Shape, View
from eddyline.sample.state import Roster, SampleState, fresh_rosters, make_roster


def dictionary(spec, rows):
    """Return the dictionary of rows (keys with None for NULL, flags, count, sums)."""
    builder = Builder(spec)
    elements, totals = [], []
    for keys, flags, counts in rows:
        bits = [key is None for key in keys] + list(flags)
        elements.append(
            [0 if key is None else key for key in keys] + [sum(bit << i for i, bit in enumerate(bits))]
        )
        totals.append(counts)
    builder.add(
        np.array(elements, dtype=np.int64).reshape(-1, spec.words),
        np.array(totals, dtype=np.int64).reshape(-1, 1 + spec.measures),
    )
    return builder.build()


def chain(classes, tables, measures=(), *, function="count"):
    """Return (spec, shape) of a chain of relations: relation k has links k - 1 and k of the given classes.

    tables: the number of the dictionary of each relation. measures: relations whose first sum is a factor.
    """
    ends = len(tables) - 1
    links = [tuple(v for v in (k - 1, k) if 0 <= v < ends) for k in range(len(tables))]
    specs: dict[int, DictionarySpec] = {}
    for table, mine in zip(tables, links, strict=True):
        specs.setdefault(table, DictionarySpec(tuple(classes[v] for v in mine), 1, 2))

    def term(power):
        nodes = []
        for k, mine in enumerate(links):
            keys = tuple(range(len(mine)))
            summed = power - 1 if k in measures and power else COUNT
            view = View(tables[k], keys, (), summed)
            nodes.append(Node(view, view, mine))
        return Quantity(tuple(nodes))

    powers = {"count": {"count": 0}, "sum": {"sum": 1, "count": 0}, "avg": {"sum": 1, "count": 0}}
    terms = {
        name: term(power)
        for name, power in powers.get(function, {"squares": 2, "sum": 1, "count": 0}).items()
    }
    kind = "join" if function in ("count", "sum") else "ratio"
    shape = Shape("q", kind, tuple(classes), terms)
    kept = tuple(specs[table] for table in sorted(specs))
    seeds = tuple(range(1, 2 + max(classes)))
    return SampleSpec(kept, kept, (), seeds, (shape,), 1 << 30, 1 << 30), shape


def sample(spec: SampleSpec, dictionaries: list[Dictionary], rates, seed: int = 0) -> SampleState:
    """Return the sample of dictionaries; rates: (base, probabilities by value) of each link class."""
    rosters = []
    for link, (base, own) in enumerate(rates):
        values = np.array(sorted(own), dtype=np.int64)
        chances = np.array([own[value] for value in sorted(own)])
        rosters.append(make_roster(1000 * seed + link + 1, base, values, chances))
    fresh = (*(Roster(r.seed) for r in rosters), *fresh_rosters(spec)[len(rosters) :])
    whole = SampleState(spec, grouped=True, dictionaries=tuple(dictionaries), rosters=fresh)
    return whole.under(tuple(rosters))


def slow_join(join: Join, term: Quantity, *, scaled: bool = True) -> float:
    """Return the sum over all joined rows, each 1/pi times for every distinct (class, value) that it stands on."""
    relations = []
    for node in term.nodes:
        view, held = join.view(node), join.dictionary(node)
        rows = []
        for i in np.flatnonzero(join.rows(node)):
            keys = [int(held.key(key)[i]) for key in view.keys]
            rows.append((dict(zip(node.variables, keys, strict=True)), int(held.total(view.measure)[i])))
        relations.append(rows)
    total = 0.0
    for chosen in product(*relations):
        values: dict[int, int] = {}
        if all(values.setdefault(v, u) == u for keys, _ in chosen for v, u in keys.items()):
            weight = float(np.prod([float(each) for _, each in chosen]))
            stands_on = {(join.shape.classes[v], u) for v, u in values.items()}
            if scaled:
                for link, u in stands_on:
                    weight /= float(join.state.rosters[link].probabilities(np.array([u]))[0])
            total += weight
    return total
