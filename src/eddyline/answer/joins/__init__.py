"""Joins: from what is kept of the relations to COUNT, SUM, AVG and variances over them.

Read in this order:

1. `query` chooses the reading: exact while the sample holds everything, else one of the three below.
2. *Sketches.* `quantities` gathers the sketches of each quantity; `two_way` and `tree` read them row by row; `skimming`
   finds the dense keys, `contraction` multiplies a tree of sketches out, `agms` is the classic estimator.
   `row_estimates` is what they return; `ratio` and `sketched` make AVG and variances of it.
3. *Samples.* `sampled` puts the steps together: `sampled_values` (what each followed value adds), `calibration` (what
   the exact totals tell), `missing` (rows that the sample does not show), `sampled_ratios` (AVG and variances).
   `sample_estimate` is what they return.
4. *Combination.* `residual` reads two-way joins by both: the sketch tells what the sample does not follow.
"""
