"""Kernels: what they may write, one compiled form for any caller, and a machine that cannot keep them."""

import numpy as np
import pytest

from eddyline.kernels.jit import helper, kernel
from eddyline.kernels.linear import absolute_total


@helper
def twice(value: int) -> int:
    return 2 * value


@kernel("out")
def doubled(values: np.ndarray, out: np.ndarray) -> None:
    for i in range(values.shape[0]):
        out[i] = twice(values[i])


@kernel()
def spoils(values: np.ndarray) -> None:
    values[0] = 0


def test_kernels_call_helpers_and_write_what_they_declare():
    out = np.zeros(3, dtype=np.int64)
    doubled(np.arange(3), out)
    assert out.tolist() == [0, 2, 4]


def test_an_array_that_is_not_declared_cannot_be_written():
    from numba.core.errors import TypingError

    with pytest.raises(TypingError, match="readonly"):
        spoils(np.arange(3))


def test_one_compiled_form_serves_arrays_that_can_be_written_and_those_that_cannot():
    weights = np.arange(4)
    assert absolute_total(weights) == 6.0
    weights.flags.writeable = False
    assert absolute_total(weights) == 6.0
    assert len(absolute_total.compiled.signatures) == 1


def test_the_callers_array_stays_writable():
    weights = np.arange(4)
    absolute_total(weights)
    assert weights.flags.writeable


def test_a_name_that_is_no_argument_is_refused():
    with pytest.raises(AssertionError, match="not all of"):
        kernel("output")(twice.function)


def test_without_a_folder_kernels_are_compiled_in_each_process_and_a_warning_is_printed():
    scope: dict[str, object] = {"__name__": "nowhere"}
    exec(compile("def total(values):\n    return values[0] + values[1]\n", "<nowhere>", "exec"), scope)
    total = kernel()(scope["total"])
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR"):
        assert total(np.arange(1, 3)) == 3
