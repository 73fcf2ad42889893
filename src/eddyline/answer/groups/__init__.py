"""GROUP BY: aggregates for each combination of group columns, from a stream sample.

The walk: `query.py` sums over the join with the groups carried along (sample/grouped_messages), exactly while
everything is held; `conditions.py` leaves out what does not meet conditions between relations. Beyond that, groups of
one stream are followed whole, each exact, and groups of a join are sampled: `sampled.py` gives each its interval, from
what values add to groups (`entries.py`; `table_moments.py` where most values stand in most groups), and `whole.py`
reads the join without groups. `columns.py` makes columns of them, `selection.py` applies HAVING, ORDER BY and LIMIT to
what is known, and `table.py` is what the reader gets.
"""
