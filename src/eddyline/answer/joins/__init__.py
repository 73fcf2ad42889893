"""Joins: from what is kept of the relations to COUNT, SUM, AVG and variances over them.

Read in this order:

1. `query` chooses the reading: exact while the sample holds everything, else one of the three below.
2. *Sketches.* `quantities` gathers the sketches of each quantity; `two_way` and `tree` read them row by row:
   `two_way` also contracts a tree of sketches, `tree` also has the classic estimator; `skimming` finds the dense
   keys. They return `two_way.RowEstimates`, from which `quantities` computes AVG and variances.
3. *Samples.* `sampled` puts the steps together: `sampled_values` (what each followed value adds), `missing` (what
   the exact totals show, and rows that the sample does not show), `sampled_ratios` (AVG and variances). They return
   `sampled_ratios.SampleEstimate`.
4. *Combination.* `residual` reads two-way joins by both: the sketch estimates what the sample does not follow.
"""
