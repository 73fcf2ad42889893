"""Numba functions on arrays: no classes, and no imports from eddyline except each other."""
