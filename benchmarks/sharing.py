"""Seconds to decide which sketches a workload shares.

    python benchmarks/sharing.py [--queries 200] [--relations 20] [--equal]

The workload is random: queries are chains of two to six relations over a few relations, with weights over four
orders of magnitude, or all equal with --equal. Prints one line for each objective.
"""

import argparse
from time import perf_counter
from typing import get_args

import numpy as np

from eddyline.plan.sharing.coalesce import Objective, allocate, coalesce_join_graphs
from eddyline.plan.sharing.join_graph import End, GraphQuery, JoinGraph, Vertex, hash_slots


def chain(name: str, weight: float, relations: list[int], keys: int) -> GraphQuery:
    """Return a query that joins relations in a row; what a relation sketches depends on its keys' columns too."""
    vertices = []
    last = len(relations) - 1
    for place, relation in enumerate(relations):
        ends = [End(f"link {link}") for link in (place - 1, place) if 0 <= link < last]
        columns = (relation % keys, relation // keys)[: len(ends)]
        vertices.append(Vertex((relation, columns), tuple(ends)))
    return GraphQuery(name, weight, tuple(vertices))


def workload(queries: int, relations: int, *, equal: bool, seed: int = 1) -> JoinGraph:
    """Return the join graph of a random workload in which nothing is shared yet."""
    rng = np.random.default_rng(seed)
    return JoinGraph.separate(
        chain(
            f"query {number:04}",
            1.0 if equal else float(10 ** rng.uniform(-2, 2)),
            rng.choice(relations, size=rng.integers(2, 7)).tolist(),
            keys=7,
        )
        for number in range(queries)
    )


def main() -> None:
    """Print one line for each objective."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--relations", type=int, default=20)
    parser.add_argument("--equal", action="store_true")
    options = parser.parse_args()
    graph = workload(options.queries, options.relations, equal=options.equal)
    for objective in get_args(Objective):
        start = perf_counter()
        shared, allocation = coalesce_join_graphs(graph, 1e6, objective)
        seconds = perf_counter() - start
        print(
            f"{objective}: {options.queries} queries, {len(graph.members)} vertices coalesced to "
            f"{len(shared.members)} with {len(set(hash_slots(shared).values()))} slots in {seconds:.2f} s; error "
            f"{allocate(graph, 1e6, objective).error:.4g} -> {allocation.error:.4g}"
        )


if __name__ == "__main__":
    main()
