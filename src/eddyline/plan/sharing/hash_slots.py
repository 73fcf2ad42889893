"""Which hash slot each link uses: few slots, and no two links of a query with the same."""

from eddyline.plan.sharing.join_graph import JoinGraph
from eddyline.plan.sharing.link_classes import Link, link_classes


def hash_slots(graph: JoinGraph) -> dict[Link, int]:
    """Return the slot of each link, small numbers from zero on.

    Links that a shared sketch ties together have one slot. Links that nothing ties may have the same one
    too, unless one query holds both: reuse costs no accuracy and keeps more sketches comparable. The class with
    the fewest slots left to it is served next, then the one with the most rivals.
    """
    classes = link_classes(graph)
    rivals = _rivals(classes)
    taken: list[set[int]] = [set() for _ in classes]
    chosen: dict[int, int] = {}
    while len(chosen) < len(classes):
        waiting = [number for number in range(len(classes)) if number not in chosen]
        served = max(waiting, key=lambda number: (len(taken[number]), len(rivals[number]), -number))
        chosen[served] = next(slot for slot in range(len(classes)) if slot not in taken[served])
        for rival in rivals[served]:
            taken[rival].add(chosen[served])
    return {link: chosen[number] for number, own in enumerate(classes) for link in own}


def _rivals(classes: list[tuple[Link, ...]]) -> list[set[int]]:
    """Return, for each class, the classes that share a query with it, itself among them."""
    by_query: dict[str, set[int]] = {}
    for number, own in enumerate(classes):
        for query, _ in own:
            by_query.setdefault(query, set()).add(number)
    return [{rival for query, _ in own for rival in by_query[query]} for own in classes]
