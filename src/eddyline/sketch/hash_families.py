"""Hash families, seeded by the plan: from a seed to the parameters that the kernels take."""

from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from eddyline.errors import SketchError
from eddyline.kernels.mixing import MIX, PARAMETERS, POLY4, PRIME61

HashFamily = Literal["mix", "poly4"]
HASH_FAMILIES: tuple[HashFamily, ...] = get_args(HashFamily)
_KERNEL_ID: dict[HashFamily, int] = {"mix": MIX, "poly4": POLY4}
_MASK64 = (1 << 64) - 1


def kernel_id(family: HashFamily) -> int:
    """Return the number by which the kernels know a family."""
    if family not in _KERNEL_ID:
        raise SketchError(f"unknown hash family {family!r}: use one of {', '.join(HASH_FAMILIES)}.")
    return _KERNEL_ID[family]


def splitmix64(state: int) -> int:
    """Return the output of the splitmix64 generator at a state: how seeds beget seeds."""
    z = (state + 0x9E3779B97F4A7C15) & _MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
    return z ^ (z >> 31)


def derive_seed(seed: int, *labels: str | int) -> int:
    """Return a seed for a named purpose: the same on every platform, different for different labels."""
    state = splitmix64(seed & _MASK64)
    for label in labels:
        data = label.encode() if isinstance(label, str) else label.to_bytes(8, "little")
        for byte in data:
            state = splitmix64(state ^ byte)
        state = splitmix64(state ^ len(data) ^ 0xEDD1)
    return state


@lru_cache(maxsize=1024)
def parameters(family: HashFamily, seeds: tuple[int, ...], functions: int) -> np.ndarray:
    """Return read-only parameters, uint64 (len(seeds), functions, PARAMETERS): one independent hash
    function for each edge seed and each row (or copy) of the sketch.
    """  # noqa: D205
    kernel_id(family)
    out = np.empty((len(seeds), functions, PARAMETERS), dtype=np.uint64)
    for edge, seed in enumerate(seeds):
        for index in range(functions):
            base = derive_seed(seed, index)
            words = [splitmix64(base + j) for j in range(PARAMETERS)]
            if family == "poly4":
                words = [word % int(PRIME61) for word in words]
            else:
                words = [words[0], *(word | 1 for word in words[1:])]
            out[edge, index] = words
    out.setflags(write=False)
    return out
