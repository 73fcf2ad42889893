"""Key arrays as the kernels take them: uint64, one row per join edge."""

import numpy as np

KeyArray = np.ndarray[tuple[int, int], np.dtype[np.uint64]]


def key_array(*columns: np.ndarray) -> KeyArray:
    """Return one key array of the int64 or uint64 columns, one per edge."""
    views = [np.ascontiguousarray(column).view(np.uint64) for column in columns]
    return views[0].reshape(1, -1) if len(views) == 1 else np.stack(views)
