"""Pipeline files that nobody wrote: what `eddyline init` makes of files and tables.

| | file | what happens |
| --- | --- | --- |
| 1 | `draft.py` | what is known of a stream: columns, format, options, changes |
| 2 | `files.py` | a draft from a Parquet, CSV or JSON file or folder |
| 3 | `tables.py` | drafts from the tables of a PostgreSQL database |
| 4 | `pipeline_text.py` | the file: drafts, queries to begin with, and what to change as comments |
"""
