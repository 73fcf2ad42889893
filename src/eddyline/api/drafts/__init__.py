"""Generated pipeline files: what `eddyline init` writes for files and tables.

| | file | what happens |
| --- | --- | --- |
| 1 | `files.py` | a draft from a Parquet, CSV or JSON file or folder |
| 2 | `tables.py` | drafts from the tables of a PostgreSQL database |
| 3 | `pipeline_text.py` | drafts of streams, and the file: streams, first queries, and comments on what to change |
"""
