"""Kinds of joins that a FROM clause may name."""

from typing import Literal

from sqlglot import exp

from eddyline.errors import UnsupportedQuery
from eddyline.sql.expressions import fragment

JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]
_KINDS: dict[str, JoinKind] = {
    "": "inner",
    "INNER": "inner",
    "CROSS": "inner",
    "LEFT": "left",
    "LEFT OUTER": "left",
    "RIGHT": "right",
    "RIGHT OUTER": "right",
    "FULL": "full",
    "FULL OUTER": "full",
    "SEMI": "semi",
    "LEFT SEMI": "semi",
    "ANTI": "anti",
    "LEFT ANTI": "anti",
}


def join_kind(join: exp.Join) -> JoinKind:
    """Return the kind of a join, or raise UnsupportedQuery for one that is not answered."""
    kind = " ".join(str(join.args[key]) for key in ("method", "side", "kind") if join.args.get(key)).upper()
    if kind not in _KINDS:
        raise UnsupportedQuery(
            f"{fragment(join)!r} is a {kind} JOIN, which is not answered: write it as JOIN, LEFT JOIN, RIGHT JOIN, "
            "FULL JOIN, LEFT SEMI JOIN or LEFT ANTI JOIN with ON or USING."
        )
    return _KINDS[kind]
