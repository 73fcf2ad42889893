"""COUNT(DISTINCT ...) over a join of two streams.

`query` chooses the reading. While exact dictionaries hold everything, `counted` joins them. Afterwards `samples`
decodes the coordinated samples of both sides, and `reading` combines the estimates of `pairs` (both sides projected),
`semi` (one side), `heavy` and `hubs` (values that samples on the other column miss).
"""
