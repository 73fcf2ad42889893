"""Numba functions on arrays: no classes, nothing of ours imported but each other."""
