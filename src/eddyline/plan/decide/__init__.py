"""What is kept: `planner` makes a workload's layout; `samples` and `elements` decide what stream samples hold.

`facets` describes what each relation of a query needs from its stream, and `shapes` how the query reads the
dictionaries. `samples` also decides the hash functions and parts of the sketches of each query. `coverage` finds
kept state that can answer an ad hoc query; `elements` plans the columns that such queries may read, and `ad_hoc`
binds them.
"""
