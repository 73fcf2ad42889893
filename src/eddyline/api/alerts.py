"""Alerts: a message when a query's answer crosses a limit, once per crossing, even if the run restarts.

    [alerts.too_many]
    query = "orders_kept"                 # the name of a query, or sql = "SELECT ..."
    when = "> 1000"                       # or "< 0.95 * value 7 days ago", of an epoch that the store keeps
    sure = "certain"                      # the whole interval is past the limit; "likely": the estimate is
    webhook = "https://example.org/hook"  # or command = ["notify", "me"], or log = true

The file ALERTS of the store has what was found and sent. A message is recorded before it is sent and again
afterwards: a message that a crash interrupted, or that its receiver refused, is sent again under the same id. An
alert is armed again when its condition no longer holds.

Messages are sent by threads, one for each alert: a receiver that hangs delays neither the run nor another alert.
"""

import logging
import re
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from http.client import HTTPException
from typing import Literal

import msgspec

from eddyline.answer.estimate import Estimate
from eddyline.api.durable import from_epoch, origin_of
from eddyline.api.state import State
from eddyline.errors import CorruptState, EddylineError, PipelineError, PlanError, without_secrets
from eddyline.plan.windows import parse_duration
from eddyline.store import Epoch, Reader, parse_retention
from eddyline.store.filesystem import at_most

ALERTS = "ALERTS"
_LOG = logging.getLogger("eddyline.alerts")
_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
_WHEN = re.compile(rf"\s*(<=|>=|<|>)\s*({_NUMBER})\s*(?:\*\s*value\s+(.+?)\s+ago)?\s*", re.IGNORECASE)
_PATIENCE = 5.0
"""Seconds for a receiver to answer, and for a run that ends to wait for its last messages."""
_PAUSES = 1.0, 60.0
"""Seconds before a message is sent again: the first pause and, doubled each time, the longest. Chosen."""
_MOST_WAITING = 20
"""Messages of an alert that wait for a receiver that is down; older ones are dropped. Chosen."""
_LONGEST = 8 << 20  # bytes of the file of what was sent: thousands of messages


class Alert(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An alert of a pipeline file."""

    when: str
    query: str | None = None
    sql: str | None = None
    sure: Literal["likely", "certain"] = "certain"
    webhook: str | None = None
    command: list[str] | None = None
    log: bool = False

    @property
    def asks(self) -> str:
        """The name of a query, or SQL."""
        return self.query or self.sql or ""


@dataclass(frozen=True)
class Threshold:
    """A limit, or a part of an earlier answer; ago: seconds back, None for a fixed limit."""

    above: bool
    with_equal: bool
    number: float
    ago: float | None

    def holds(self, now: Estimate, then: Estimate | None, *, certain: bool) -> bool:
        """Return whether an answer is past the limit; False if the answer or the limit is not known."""
        ends = _ends(now)
        limits = (self.number,) * 3 if self.ago is None else _ends(then, self.number)
        if ends is None or limits is None:
            return False
        if certain:
            one, other = (ends[0], limits[2]) if self.above else (ends[2], limits[0])
        else:
            one, other = ends[1], limits[1]
        if self.with_equal and one == other:
            return True
        return one > other if self.above else one < other


def _ends(answer: Estimate | None, factor: float = 1.0) -> tuple[float, float, float] | None:
    """Return low, value and high of an answer, multiplied; None if it is not a number."""
    if answer is None or not isinstance(answer.value, int | float | Decimal):
        return None
    ends = [
        float(end) if isinstance(end, int | float | Decimal) else default
        for end, default in ((answer.low, float("-inf")), (answer.value, 0.0), (answer.high, float("inf")))
    ]
    low, value, high = (end * factor for end in ends)
    return (low, value, high) if factor >= 0 else (high, value, low)


def parse_condition(name: str, when: str) -> Threshold:
    """Return the condition that a string describes, or raise PipelineError."""
    match = _WHEN.fullmatch(when)
    if match is None:
        raise PipelineError(
            f'alert {name!r}: when = {when!r} cannot be read: write for example "> 1000" or "< 0.95 * value 7 days '
            'ago".'
        )
    ago = None if match[3] is None else parse_duration(match[3]) / 1e6
    return Threshold(match[1][0] == ">", len(match[1]) == 2, float(match[2]), ago)


def check_alerts(alerts: Mapping[str, Alert]) -> None:
    """Raise PipelineError if an alert cannot work."""
    for name, alert in alerts.items():
        parse_condition(name, alert.when)
        if (alert.query is None) == (alert.sql is None):
            raise PipelineError(f"alert {name!r} needs either query, the name of a query, or sql.")
        ways = [alert.webhook is not None, alert.command is not None, alert.log]
        if sum(ways) != 1:
            raise PipelineError(
                f"alert {name!r} needs one of webhook, command and log = true: where its message goes."
            )
        if alert.webhook is not None and not re.match(r"https?://", alert.webhook):
            raise PipelineError(
                f"alert {name!r}: webhook is not an address that begins with http:// or https://."
            )
        if alert.command is not None and not alert.command:
            raise PipelineError(f"alert {name!r}: command is empty: name a program, and its arguments.")


def check_kept(alerts: Mapping[str, Alert], keep: int | str) -> None:
    """Raise PipelineError if an alert compares with an answer that a store with this rule does not keep so long."""
    for name, alert in alerts.items():
        ago = parse_condition(name, alert.when).ago
        if ago is not None and not any(
            span >= ago + period for period, span in parse_retention(keep).periods
        ):
            days = int(ago // 86_400) + 2
            raise PipelineError(
                f"alert {name!r} compares with an earlier answer ({alert.when}), and the store does not keep one so "
                f'long: its keep is {keep!r}. Write for example keep = "hourly for {days} days" in [run].'
            )


def check_queries(alerts: Mapping[str, Alert], state: State) -> None:
    """Raise PipelineError if an alert does not ask for one number that a plan answers. state: an empty one of it."""
    for name, alert in alerts.items():
        try:
            _number(name, alert, state)
        except EddylineError as error:
            raise PipelineError(str(error) if name in str(error) else f"alert {name!r}: {error}") from error


def _number(name: str, alert: Alert, state: State) -> Estimate:
    """Return the answer that an alert asks for, or raise PlanError if it is not one number."""
    answer = state.answer(alert.asks)
    if not isinstance(answer, Estimate):
        raise PlanError(
            f"alert {name!r} asks for {alert.asks!r}, which has groups or several aggregates: an alert is about one "
            "number, such as sql = \"SELECT COUNT(*) FROM orders WHERE region = 'north'\"."
        )
    return answer


def _state_of(epoch: Epoch) -> State:
    snapshot = from_epoch(epoch)
    return State(snapshot, origin_of(epoch, snapshot.layout))


class Fired(msgspec.Struct, frozen=True):
    """The last crossing of an alert: its epoch, whether it still holds, and messages that were not accepted yet."""

    epoch: int
    holds: bool
    waiting: tuple[str, ...] = ()


class Alerts:
    """The alerts of a store. The run that writes the store evaluates them, so that there is only one sender."""

    def __init__(self, store: str, alerts: Mapping[str, Alert]) -> None:
        check_alerts(alerts)
        self._alerts = {name: (alert, parse_condition(name, alert.when)) for name, alert in alerts.items()}
        self._reader = Reader(store)
        self._fired = self._load() if alerts else {}
        self._seen: tuple[int, str] | None = None
        self._earlier: dict[int, State] = {}
        self._turn = threading.Lock()
        self._senders: dict[str, threading.Thread] = {}
        self._ended = threading.Event()

    def look(self) -> None:
        """Evaluate all alerts if there is a new epoch, and begin to send what was not accepted yet; it never raises."""
        if not self._alerts:
            return
        try:
            stamp = self._reader.stamp()
            if stamp != self._seen:
                self._evaluate(self._reader.latest())
                self._seen = stamp
        except (EddylineError, OSError) as error:
            _LOG.warning("alerts were not looked at: %s", error)
        for name in self._unsent():
            sender = self._senders.get(name)
            if sender is None or not sender.is_alive():
                sender = threading.Thread(target=self._send, args=(name,), name=f"alert-{name}", daemon=True)
                self._senders[name] = sender
                sender.start()

    def close(self) -> None:
        """Wait a little for messages that are being sent; what is not accepted by then is sent by the next run."""
        self._ended.set()
        end = time.monotonic() + _PATIENCE
        for sender in self._senders.values():
            sender.join(max(end - time.monotonic(), 0.0))

    def _evaluate(self, epoch: Epoch) -> None:
        state, found = _state_of(epoch), dict[str, str | None]()
        earlier, self._earlier = self._earlier, {}
        for name, (alert, condition) in self._alerts.items():
            last = self._fired.get(name)
            try:
                answer = _number(name, alert, state)
                then = None
                if condition.ago is not None:
                    number = self._reader.number_as_of(epoch.time - condition.ago, epoch.commit)
                    if number not in self._earlier:  # alerts share it, and so do epochs in a row
                        self._earlier[number] = earlier.get(number) or _state_of(self._reader.at(number))
                    then = _number(name, alert, self._earlier[number])
                holds = condition.holds(answer, then, certain=alert.sure == "certain")
            except EddylineError as error:
                _LOG.warning("alert %s was not evaluated: %s", name, error)
                continue
            if holds and (last is None or not last.holds):
                found[name] = _message(name, alert, epoch.number, answer)
            elif not holds and last is not None and last.holds:
                found[name] = None
        if found:
            with self._turn:
                for name, message in found.items():
                    waiting = self._fired[name].waiting if name in self._fired else ()
                    if message is not None:
                        waiting = (*waiting, message)[-_MOST_WAITING:]
                    self._fired[name] = Fired(epoch.number, message is not None, waiting)
                self._save()

    def _unsent(self) -> list[str]:
        with self._turn:
            return [name for name in self._alerts if name in self._fired and self._fired[name].waiting]

    def _send(self, name: str) -> None:
        """Send the messages of an alert, each until it is accepted."""
        pause, longest = _PAUSES
        while True:
            with self._turn:
                waiting = self._fired[name].waiting
            if not waiting:
                return
            if _is_accepted(name, self._alerts[name][0], waiting[0].encode()):
                pause = _PAUSES[0]
                with self._turn:
                    fired = self._fired[name]
                    rest = tuple(each for each in fired.waiting if each != waiting[0])
                    self._fired[name] = msgspec.structs.replace(fired, waiting=rest)
                    self._save()
            elif self._ended.wait(pause):
                return
            else:
                pause = min(2 * pause, longest)

    def _save(self) -> None:
        try:
            self._reader.files.replace(ALERTS, msgspec.json.encode(self._fired))
        except OSError as error:
            _LOG.warning("%s was not written, so a restart may send a message again: %s", ALERTS, error)

    def _load(self) -> dict[str, Fired]:
        """Return what was found and sent before, or raise CorruptState: guessing would repeat or lose messages."""
        try:
            written = self._reader.files.read(ALERTS, at_most(_LONGEST))
            return msgspec.json.decode(written, type=dict[str, Fired])
        except FileNotFoundError:
            return {}
        except (OSError, CorruptState, msgspec.DecodeError) as error:
            raise CorruptState(
                f"the file {ALERTS} of the store {self._reader.where} cannot be read ({str(error).rstrip('.')}), so it "
                "is not known which alerts were sent. Remove it and start again: messages that waited in it are lost, "
                "and each alert whose condition holds is sent once more."
            ) from error


def _message(name: str, alert: Alert, epoch: int, answer: Estimate) -> str:
    """Return the message of a crossing as JSON."""
    message = {
        "alert": name,
        "id": f"{name}-{epoch}",
        "when": alert.when,
        "sure": alert.sure,
        "epoch": epoch,
        **answer.to_dict(),
    }
    return msgspec.json.encode(message, enc_hook=str).decode()


def _is_accepted(name: str, alert: Alert, message: bytes) -> bool:
    """Return whether a message was accepted."""
    send: Callable[[], object]
    if alert.webhook is not None:
        request = urllib.request.Request(  # noqa: S310 - its scheme was checked
            alert.webhook, message, {"content-type": "application/json"}
        )
        send = lambda: urllib.request.urlopen(request, timeout=_PATIENCE).close()  # noqa: E731, S310
    elif alert.command is not None:
        command = alert.command
        send = lambda: subprocess.run(command, input=message, timeout=_PATIENCE, check=True)  # noqa: E731, S603
    else:
        _LOG.warning("alert %s: %s", name, message.decode())
        return True
    try:
        send()
    except (OSError, ValueError, HTTPException, subprocess.SubprocessError) as error:
        _LOG.warning("the message of alert %s was not taken, and is sent again: %s", name, _reason(error))
        return False
    return True


def _reason(error: Exception) -> str:
    """Return why a message was not taken, without the arguments of a command or the parts of an address."""
    if isinstance(error, subprocess.CalledProcessError):
        return f"its command ended with exit code {error.returncode}"
    if isinstance(error, subprocess.TimeoutExpired):
        return f"its command did not end within {_PATIENCE:g} s"
    return without_secrets(str(error)) if isinstance(error, OSError) else type(error).__name__
