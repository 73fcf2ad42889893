"""Aggregates as objects: their sums, exact value, linear form of the estimate, NULL rule and messages.

`catalog` finds them by name. `moments` has COUNT, SUM, AVG and variances, `pairs` those of two columns, `skewness`
the third moment, `values` those that need the single values of a group. Sums over rows are computed elsewhere:
nothing here depends on streams, samples or sketches.
"""
