"""What is kept: `planner` makes the layout of a workload; `samples` and `elements` decide what its stream samples hold.

`facets` says what each relation of a query needs of its stream, `shapes` how the query reads the dictionaries.
`decisions` has for each query the hash functions and parts of its sketches; `coverage` finds, for a query that was not
planned, what is kept and can answer it; `exploring` plans the columns that such queries may read, `ad_hoc` binds them.
"""
