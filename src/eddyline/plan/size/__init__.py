"""Sizes of everything: memory divided so that the average or the largest error is least."""
