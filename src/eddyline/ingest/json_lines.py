"""The first lines of JSON files: which fields their records have, and what a reader would take them for in silence."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from eddyline.errors import PipelineError

_MILLISECONDS = 100_000_000_000
"""From this number on a time is no count of seconds: they would be beyond the year 5138."""


def json_fields(
    stream: str, path: str, lines: Sequence[str], options: Mapping[str, str], wanted: Mapping[str, str]
) -> list[str]:
    """Return the fields of the first records, each once, or raise PipelineError where records would be misread.

    options: the reader's, in lower case. wanted: the declared columns with their types. Of records that span lines no
    field is known.
    """
    records = [record for line in lines if isinstance(record := _parsed(line), dict)]
    if options.get("multiline", "").lower() == "true":
        if len(records) > 1:
            raise PipelineError(
                f"stream {stream!r}: {path!r} has a record a line, and with multiLine only the first of each file is "
                "read: take multiLine out of the options of the stream."
            )
        return []
    first = next((line.strip() for line in lines if line.strip()), "")
    if first in ("{", "["):
        raise PipelineError(
            f"stream {stream!r}: the records of {path!r} span lines: add "
            'multiLine = "true" to the options of the stream.'
        )
    _check_times(stream, records, wanted)
    return _spelled_once(stream, path, records)


def _parsed(line: str) -> Any:
    """Return what a line of JSON holds, None where it holds nothing that can be read."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _check_times(stream: str, records: Sequence[Mapping[str, Any]], wanted: Mapping[str, str]) -> None:
    """Raise PipelineError where a TIMESTAMP is a number of milliseconds, which Spark reads as seconds."""
    times = {name.lower() for name, kind in wanted.items() if kind == "TIMESTAMP"}
    for record in records:
        for name, value in record.items():
            if name.lower() in times and isinstance(value, int) and abs(value) >= _MILLISECONDS:
                raise PipelineError(
                    f"stream {stream!r}: column {name!r} is declared TIMESTAMP and holds {value}, which Spark reads as "
                    f"seconds: declare it BIGINT, and write timestamp_millis({name}) in queries."
                )


def _spelled_once(stream: str, path: str, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the fields of records, or raise PipelineError where one is spelt in several ways: Spark reads only one."""
    fields: dict[str, str] = {}
    for record in records:
        for name in record:
            if fields.setdefault(name.lower(), name) != name:
                raise PipelineError(
                    f"stream {stream!r}: the records of {path!r} have {fields[name.lower()]!r} and {name!r}, of which "
                    "only one would be read: write them alike."
                )
    return list(fields.values())
