"""Kernels: functions that numba compiles on their first call, cached on disk for the next process.

Numba is also imported at that first call: planning and opening a store run without it. A new machine compiles
what its first pass uses; `eddyline warm` does it ahead. To keep that short, kernels are plain loops over
scalars: numba takes up to three seconds to compile an array expression, a sort or the assignment of a row.
"""

import warnings
from collections.abc import Callable
from functools import update_wrapper
from threading import RLock
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

_NOT_KEPT = (
    "numba finds no folder in which to keep compiled kernels, so every process compiles them again, for many seconds: "
    "set NUMBA_CACHE_DIR to a folder that can be written."
)
_TURN = RLock()
P = ParamSpec("P")
R = TypeVar("R")


class Kernel(Generic[P, R]):
    """A function on arrays and its compiled form; options are numba's.

    writes: the arrays that it may change. All others are passed as read-only, so that there is one compiled form
    whether or not the caller's arrays are writable, and so that it cannot change them.
    """

    def __init__(self, function: Callable[P, R], writes: tuple[str, ...] = (), **options: Any) -> None:
        assert isinstance(function, FunctionType)
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        assert set(writes) <= set(names), f"{function.__name__} takes {names}, not all of {writes}"
        self.function = function
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.options = options
        self._compiled: Any = None
        self._written = [name in writes for name in names]
        update_wrapper(self, function)

    @property
    def compiled(self) -> Any:
        """Numba's dispatcher."""
        if self._compiled is None:
            with _TURN:
                self._compiled = self._compiled or self._compile()
        return self._compiled

    def _compile(self) -> Any:
        """Return the dispatcher, for which the kernels that the function calls are dispatchers, too."""
        from numba import njit  # noqa: PLC0415 - it would take half of the time of importing eddyline

        function = self.function
        used = {*function.__code__.co_names, "__name__"}
        seen = {
            name: value.compiled if isinstance(value, Kernel) else value
            for name, value in function.__globals__.items()
            if name in used
        }
        copy = FunctionType(function.__code__, seen, function.__name__, function.__defaults__)
        copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
        try:
            return njit(copy, **self.options)
        except RuntimeError as error:
            if not self.options.get("cache") or "no locator" not in str(error):
                raise
            warnings.warn(_NOT_KEPT, RuntimeWarning, stacklevel=3)
            return njit(copy, **(self.options | {"cache": False}))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the compiled function."""
        assert not kwargs, "kernels take their arguments by position"
        shown = [
            _read_only(each) if isinstance(each, np.ndarray) and not written else each
            for each, written in zip(args, self._written, strict=True)
        ]
        result: R = self.compiled(*shown)
        return result


def _read_only(array: np.ndarray) -> np.ndarray:
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def kernel(*writes: str) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """Compile a function that Python calls and that changes the arrays of these names; it releases the GIL."""
    return lambda function: Kernel(function, writes, cache=True, nogil=True, no_cfunc_wrapper=True)


def helper(function: Callable[P, R]) -> Kernel[P, R]:
    """Compile a function that only kernels call: it is cached as a part of them."""
    return Kernel(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined(function: Callable[P, R]) -> Kernel[P, R]:
    """Compile a small function into each kernel that calls it."""
    return Kernel(function, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def row_helper(function: Callable[P, R]) -> Kernel[P, R]:
    """Compile a loop over rows that only kernels call, with several numbers at once.

    Dividing by zero gives inf or nan, as in numpy: a loop that may raise an error runs number by number.
    """
    return Kernel(function, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
