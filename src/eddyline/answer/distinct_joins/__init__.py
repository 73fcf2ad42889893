"""COUNT(DISTINCT ...) over a join of two streams.

`query` chooses the reading. While exact dictionaries hold everything, it joins them. Afterwards `followed` counts
from followed values and estimates the pairs that they miss, or `samples` decodes the coordinated samples
of both sides, and `reading` combines the estimates of `pairs` (both sides projected, one side, heavy values) and
`filters` (values that samples on the other column miss). `document` has the estimator of the document.
"""
