"""GROUP BY: aggregates for each combination of group columns, from a stream sample.

The call path: `query.py` sums over the join by group (sample/grouped_messages), exactly while everything is held;
`tuples.py` leaves out rows that do not meet conditions between relations. Once not everything is held, groups of
one stream are followed whole, each exact, and groups of a join are sampled: `sampled.py` gives each its interval,
from what values add to groups (`entries.py`, by tables where most values occur in most groups), and `whole.py`
reads the join without groups. `columns.py` makes columns of them, `selection.py` applies HAVING, ORDER BY and LIMIT
to what is known, and `table.py` is the table that is returned.
"""
