"""Alerts: a message when a query's answer crosses a limit, once per crossing, even if the run restarts.

    [alerts.too_many]
    query = "orders_kept"                 # the name of a query, or sql = "SELECT ..."
    when = "> 1000"                       # or "< 0.95 * value 7 days ago", of an epoch that the store keeps
    sure = "certain"                      # the whole interval is past the limit; "likely": the estimate is
    webhook = "https://example.org/hook"  # or command = ["notify", "me"], or log = true

The file ALERTS of the store has what was found and sent. A message is recorded before it is sent and again
afterwards: a message that a crash interrupted, or that its receiver refused, is sent again under the same id. An
alert is armed again when its condition no longer holds.
"""

import logging
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import msgspec

from eddyline.answer.estimate import Estimate
from eddyline.api.durable import from_epoch, origin_of
from eddyline.api.state import State
from eddyline.errors import CorruptState, EddylineError, PipelineError, PlanError
from eddyline.plan.windows import parse_duration
from eddyline.store import Epoch, Reader
from eddyline.store.filesystem import at_most

ALERTS = "ALERTS"
_LOG = logging.getLogger("eddyline.alerts")
_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
_WHEN = re.compile(rf"\s*(<=|>=|<|>)\s*({_NUMBER})\s*(?:\*\s*value\s+(.+?)\s+ago)?\s*", re.IGNORECASE)
_PATIENCE = 5.0  # seconds for a receiver; a run waits for it between two checks
_LONGEST = 1 << 20  # bytes of the file of what was sent: thousands of alerts


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
class Condition:
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


def parse_condition(name: str, when: str) -> Condition:
    """Return the condition that a string describes, or raise PipelineError."""
    match = _WHEN.fullmatch(when)
    if match is None:
        raise PipelineError(
            f'alert {name!r}: when = {when!r} cannot be read: write for example "> 1000" or "< 0.95 * value 7 days '
            'ago".'
        )
    ago = None if match[3] is None else parse_duration(match[3]) / 1e6
    return Condition(match[1][0] == ">", len(match[1]) == 2, float(match[2]), ago)


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
    """The last crossing of an alert: its epoch, whether its message was accepted, and whether it still holds."""

    epoch: int
    holds: bool
    sent: bool


class Alerts:
    """The alerts of a store. The run that writes the store evaluates them, so that there is only one sender."""

    def __init__(self, store: str, alerts: Mapping[str, Alert]) -> None:
        check_alerts(alerts)
        self._alerts = {name: (alert, parse_condition(name, alert.when)) for name, alert in alerts.items()}
        self._reader = Reader(store)
        self._fired = self._load()
        self._seen: tuple[int, str] | None = None

    def look(self) -> None:
        """Evaluate all alerts if there is a new epoch, and send what was not accepted yet; it never raises."""
        if not self._alerts:
            return
        try:
            stamp = self._reader.stamp()
            if stamp != self._seen:
                self._evaluate(self._reader.latest())
                self._seen = stamp
            self._send_all()
        except (EddylineError, OSError) as error:
            _LOG.warning("alerts were not looked at: %s", error)

    def _evaluate(self, epoch: Epoch) -> None:
        state, before = _state_of(epoch), dict(self._fired)
        for name, (_, condition) in self._alerts.items():
            last = self._fired.get(name)
            try:
                holds = self._holds(name, condition, state, epoch)
            except EddylineError as error:
                _LOG.warning("alert %s was not evaluated: %s", name, error)
                continue
            if holds and (last is None or not last.holds):
                self._fired[name] = Fired(epoch.number, holds=True, sent=False)
            elif not holds and last is not None and last.holds:
                self._fired[name] = msgspec.structs.replace(last, holds=False)
        if self._fired != before:
            self._save()

    def _holds(self, name: str, condition: Condition, state: State, epoch: Epoch) -> bool:
        then, alert = None, self._alerts[name][0]
        if condition.ago is not None:
            then = _number(name, alert, _state_of(self._reader.as_of(epoch.time - condition.ago)))
        return condition.holds(_number(name, alert, state), then, certain=alert.sure == "certain")

    def _send_all(self) -> None:
        for name, fired in list(self._fired.items()):
            if fired.sent or name not in self._alerts:
                continue
            alert, _ = self._alerts[name]
            if _send(name, alert, self._message(name, alert, fired)):
                self._fired[name] = msgspec.structs.replace(fired, sent=True)
                self._save()

    def _message(self, name: str, alert: Alert, fired: Fired) -> bytes:
        answer = _state_of(self._reader.latest()).answer(alert.asks)
        message = {
            "alert": name,
            "id": f"{name}-{fired.epoch}",
            "when": alert.when,
            "sure": alert.sure,
            "epoch": fired.epoch,
            **answer.to_dict(),
        }
        return msgspec.json.encode(message, enc_hook=str)

    def _load(self) -> dict[str, Fired]:
        try:
            return msgspec.json.decode(
                self._reader.files.read(ALERTS, at_most(_LONGEST)), type=dict[str, Fired]
            )
        except (OSError, CorruptState, msgspec.DecodeError):
            return {}

    def _save(self) -> None:
        self._reader.files.replace(ALERTS, msgspec.json.encode(self._fired))


def _send(name: str, alert: Alert, message: bytes) -> bool:
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
    except (OSError, urllib.error.URLError, subprocess.SubprocessError) as error:
        _LOG.warning("the message of alert %s was not taken, and is sent again: %s", name, error)
        return False
    return True
