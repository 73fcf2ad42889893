"""Random set expressions over four streams."""

from hypothesis import strategies as st

from eddyline.answer.sets.expression import Except, Intersect, StreamLeaf, Union

EXPRESSIONS = st.recursive(
    st.integers(0, 3).map(StreamLeaf),
    lambda inner: st.one_of(*(st.builds(kind, inner, inner) for kind in (Union, Intersect, Except))),
    max_leaves=8,
)
