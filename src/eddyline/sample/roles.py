"""What a relation's message to a link becomes under its role there: outer, semi and anti joins.

A message says for each value of the link how often a row of the other relations meets the relation's side there. Behind
the values a link with roles has one place for each of its relations: rows whose key is NULL stand there, where no other
relation has any.
"""

from enum import Enum

import numpy as np

from eddyline.sample.sorting import BoolArray


class Turn(Enum):
    """What is made of a message."""

    PLAIN = "the message itself"
    OUTER = "once where there is no match"
    FULL = "once where there is no match, but another relation"
    SEMI = "once where there is a match"
    ANTI = "once where there is no match, and not otherwise"
    ANTI_OF_VALUES = "the same, but never for NULL: NOT IN of rows without a NULL"
    NEVER = "nothing: NOT IN of rows with a NULL"


DECIDING = (Turn.SEMI, Turn.ANTI, Turn.ANTI_OF_VALUES, Turn.NEVER)
"""Turns that make 0 or 1 of a message: how many rows a side has does not matter, only whether it has some."""
KEEPS_NULL = ("preserved", "full")
"""Roles of relations whose rows stay where their key is NULL."""
_TURNS = {"outer": Turn.OUTER, "full": Turn.FULL, "semi": Turn.SEMI, "anti": Turn.ANTI}


def turn_of(role: str, *, has_rows: bool, has_null: bool) -> Turn:
    """Return what a role makes of messages; has_rows, has_null: of the side of a NOT IN, and of its column there."""
    if role != "not in":
        return _TURNS.get(role, Turn.PLAIN)
    if has_null:
        return Turn.NEVER
    return Turn.ANTI_OF_VALUES if has_rows else Turn.ANTI


def turned(message: np.ndarray, turn: Turn, values: int, others: BoolArray | None = None) -> np.ndarray:
    """Return what is made of a message.

    values: how many places are values, the others being of NULL. others: for FULL, where another relation has rows.
    """
    if turn is Turn.PLAIN:
        return message
    there = message > 0
    if turn is Turn.OUTER:
        return np.where(there, message, message.dtype.type(1) if message.dtype != object else 1)
    if turn is Turn.FULL:
        assert others is not None
        return np.where(there, message, others.astype(message.dtype))
    kept = (
        np.zeros(len(message), dtype=np.bool_)
        if turn is Turn.NEVER
        else there
        if turn is Turn.SEMI
        else ~there
    )
    if turn is Turn.ANTI_OF_VALUES:
        kept[values:] = False
    return kept.astype(message.dtype)
