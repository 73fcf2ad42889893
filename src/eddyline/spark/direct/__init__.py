"""Direct scans: Spark only schedules, and the tasks read Parquet files themselves.

| | file | what happens |
| --- | --- | --- |
| 1 | `plain_read.py` | is a frame nothing but a read of Parquet files, of which columns, with which filters |
| 2 | `filters.py` | conditions of the frame that Arrow evaluates as Spark does |
| 3 | `files.py` | the files of a path; files cut into tasks of balanced bytes |
| 4 | `planning.py` | can Arrow do all that the stream's synopses ask; what travels to the tasks |
| 5 | `scan.py` | a task: its row groups, read, evaluated and fed to the pass |
| 6 | `footer.py` | what a file says of itself: its types must be the expected ones, its calendar ours |
| 7 | `skipping.py` | row groups in which no row counts or passes, by their statistics |

Whatever is in doubt raises `Doubt`, on the driver or in a task, and the pass goes through the JVM as if nothing had
been tried: a direct scan gives the counters of that path, bit for bit, or none.
"""
