"""Direct scans: Spark only schedules, and the tasks read Parquet files themselves.

| | file | what happens |
| --- | --- | --- |
| 1 | `planning.py` | the frame only reads Parquet files, and Arrow can do all that the stream's synopses need |
| 2 | `files.py` | the files of a path, split into tasks of balanced bytes; types, calendar and filters |
| 3 | `scan.py` | a task: row groups skipped by their statistics, or read, evaluated and fed to the pass |

Any doubt raises `Doubt`, on the driver or in a task, and the pass then goes through the JVM as if nothing had been
tried: a direct scan gives the counters of that path, bit for bit, or no counters.
"""
