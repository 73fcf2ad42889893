"""SQL around aggregates: a query is split into parts that eddyline answers, and a rest that an engine computes.

rows.py finds what a query reads: planned queries by name, the time of the answer, subqueries that only select rows.
parts.py extracts the aggregates over streams, as large as possible, and replaces each by a table.
part_tables.py has the columns and types of these tables.
intervals.py follows each column of the result back to the parts, and carries intervals where it can.
engine_text.py writes the rest in DuckDB's dialect, and refuses what would have another meaning than in Spark.
patterns.py has the regular expressions and formats of dates that have the same meaning.
"""
