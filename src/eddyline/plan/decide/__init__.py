"""What is kept: `planner` makes the layout of a workload; `samples` and `elements` decide what its stream samples hold.

`choices` decides for each query which hash functions and parts its sketches use; `coverage` finds, for a query that was
not planned, what is kept and can answer it.
"""
