"""How a run is doing, told while it runs: a line that moves on a terminal, a line every ten seconds elsewhere."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from rich.status import Status

from eddyline.answer.plain import plain_time
from eddyline.api.run import Run
from eddyline.cli.console import err

_EVERY = 10.0


class LogFormat(StrEnum):
    """How progress is told where there is no terminal."""

    text = "text"
    json = "json"


class Progress:
    """Tells the progress of a run, at most as often as someone may want to read it."""

    def __init__(self, run: Run, form: LogFormat, status: Status | None) -> None:
        self._run = run
        self._form = form
        self._status = status
        self._told = 0.0
        self._noted: set[str] = set()

    def note(self) -> None:
        """Tell what the input check finds striking about rows, and what a stream warns of, each thing once."""
        for each in self._run.progress().values():
            found = {note: note for note in each.notes}
            if each.warning is not None:
                found[each.stream] = (
                    f"stream {each.stream!r}: {each.warning}"  # its numbers change all the time
                )
            for about, told in found.items():
                if about not in self._noted:
                    said = f"note: {told}" if self._form is LogFormat.text else json.dumps({"note": told})
                    err.print(said, markup=False, highlight=False, soft_wrap=True)
                self._noted.add(about)

    def tell(self) -> None:
        """Tell how the run is doing, if it is time to."""
        self.note()
        if self._status is not None:
            self._status.update(f"running: {self.text()}")
        elif time.monotonic() - self._told >= _EVERY:
            self._told = time.monotonic()
            told = self.text() if self._form is LogFormat.text else json.dumps(self.numbers())
            err.print(told, markup=False, highlight=False, soft_wrap=True)

    def numbers(self) -> dict[str, object]:
        """Return the progress as plain values, ready for JSON."""
        fresh, streams = self._run.freshness, self._run.progress()
        rates = [each.rows_per_second for each in streams.values() if each.rows_per_second is not None]
        return {
            "time": plain_time(time.time()),
            "epoch": fresh.epoch,
            "rows": fresh.rows,
            "rows_per_second": round(sum(rates), 1) if rates else None,
            "deletes": fresh.deletes,
            "bad": fresh.bad,
            "late": fresh.late,
            "lag": fresh.lag,
            "state_bytes": self._run.state().nbytes,
            "streams": {name: each.status for name, each in streams.items()},
            "logs": {
                name: {"behind_bytes": each.behind, "retained_bytes": each.retained}
                for name, each in streams.items()
                if each.behind is not None
            },
            "notes": [note for each in streams.values() for note in each.notes],
        }

    def text(self) -> str:
        """Return the progress in words."""
        told = self.numbers()
        waits = "".join(f"; {name} {what}" for name, what in self._run.waiting().items())
        rate = f", {told['rows_per_second']:,} rows/s" if told["rows_per_second"] else ""
        late = f"{self._run.freshness.late:,} late, {told['state_bytes']:,} bytes of state"
        return f"{self._run.freshness}{rate}, {late}{self._logs()}{waits}"

    def _logs(self) -> str:
        """Return how far streams of PostgreSQL tables are behind the server's log."""
        streams = [each for each in self._run.progress().values() if each.behind is not None]
        return "".join(
            f"; {each.stream} {f'{each.behind:,} bytes behind, ' if each.behind else ''}"
            f"{each.retained:,} bytes of log kept"
            for each in streams
        )


@contextmanager
def progress_of(run: Run, form: LogFormat) -> Iterator[Progress]:
    """Yield what tells the progress of a run, on a terminal in one line that moves."""
    if err.is_terminal and form is LogFormat.text:
        with err.status("running") as status:
            yield Progress(run, form, status)
    else:
        yield Progress(run, form, None)
