"""Direct scans: Spark only schedules, and the tasks read Parquet files themselves.

| | file | what happens |
| --- | --- | --- |
| 1 | `plain_read.py` | checks that a frame only reads Parquet files; its columns, and filters that Arrow supports |
| 2 | `files.py` | the files of a path, split into tasks of balanced bytes; types and calendar in their footers |
| 3 | `planning.py` | checks that Arrow can do all that the stream's synopses need; what is sent to the tasks |
| 4 | `scan.py` | a task: row groups skipped by their statistics, or read, evaluated and fed to the pass |

Any doubt raises `Doubt`, on the driver or in a task, and the pass then goes through the JVM as if nothing had been
tried: a direct scan gives the counters of that path, bit for bit, or no counters.
"""
