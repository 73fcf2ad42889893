"""Set queries over dictionaries: which values their members hold, and which satisfy the expression."""

import numpy as np

from eddyline.sample.join import Join
from eddyline.sample.messages import added
from eddyline.sample.sorting import BoolArray
from eddyline.sample.spec import COUNT


def set_members(join: Join) -> list[BoolArray]:
    """Return for each member of a set query which values of its variable it holds: net count above 0."""
    present = []
    for relation in join.whole_relations(join.first):
        counts = added(relation.weights, relation.places[0], len(join.values[0]))
        present.append(counts > 0)
    return present


def set_values(join: Join) -> BoolArray:
    """Return which values satisfy the expression of a set query."""
    return _evaluated(join, set_members(join))


def null_in_set(join: Join) -> tuple[bool, bool]:
    """Return whether NULL satisfies the expression of a set query, and whether that is certain."""
    held, certain = list[BoolArray](), True
    for node in join.first.nodes:
        view, dictionary = join.view(node), join.dictionary(node)
        counted = dictionary.is_null(view.keys[0]) & view.null_is_value
        for flag in view.flags:
            counted &= dictionary.flag(flag)
        held.append(np.array([dictionary.total(COUNT)[counted].sum() > 0]))
        certain &= not view.null_is_value or join.nulls(node).follows_all or bool(held[-1][0])
    return bool(_evaluated(join, held)[0]), certain


def _evaluated(join: Join, members: list[BoolArray]) -> BoolArray:
    """Return the expression of a set query, written in postfix order, on what its members hold."""
    stack = list[BoolArray]()
    for part in join.shape.expression:
        if isinstance(part, int):
            stack.append(members[part])
            continue
        right, left = stack.pop(), stack.pop()
        stack.append({"union": left | right, "intersect": left & right, "except": left & ~right}[part])
    return stack[0]
