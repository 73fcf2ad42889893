"""Metrics for Prometheus: every estimate with its interval, how fresh they are, and how the server is doing."""

from collections.abc import Iterable, Iterator
from math import inf

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from eddyline.answer.estimate import Estimate
from eddyline.answer.freshness import finite, plain
from eddyline.answer.groups.table import Groups
from eddyline.api.operations.reconcile import Reconciliation
from eddyline.errors import EddylineError
from eddyline.expressions.arrow_values import python_rows
from eddyline.sample.packing import process_memory
from eddyline.serve.view import SHOWN_GROUPS, AnswersView
from eddyline.serve.watcher import Events, Watcher

_ESTIMATE = {
    "eddyline_estimate_value": "The estimate of a query.",
    "eddyline_estimate_low": "The lower end of its interval.",
    "eddyline_estimate_high": "The upper end of its interval.",
    "eddyline_estimate_exact": "1 if the estimate is exact.",
}
_PROCESS = {"resident": "Resident memory", "peak": "The peak of resident memory"}
_LABELS = ("query", "aggregate", "group")
_SECONDS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class StoreCollector(Collector):
    """Collects the metrics of a store when Prometheus asks for them."""

    def __init__(self, watcher: Watcher, events: Events) -> None:
        self._watcher = watcher
        self._events = events

    def collect(self) -> Iterable[Metric]:
        """Yield all metrics of the newest view."""
        view = self._watcher.view
        yield from _estimates(view)
        yield from _freshness(view)
        yield from _comparison(self._watcher.comparison())
        yield _gauge(
            "eddyline_running", "1 while a writer holds the store.", float(view.sighting.writer is not None)
        )
        yield _gauge(
            "eddyline_store_readable", "0 if the store could not be read.", float(not view.sighting.problem)
        )
        yield _gauge("eddyline_event_clients", "Clients that follow the events.", self._events.clients)
        for name, bytes_ in process_memory().items():
            yield _gauge(f"eddyline_{name}_bytes", f"{_PROCESS[name]} of the server's process.", bytes_)
        taken = GaugeMetricFamily(
            "eddyline_planned_answer_seconds", "Seconds that an answer took.", labels=["query"]
        )
        for query, seconds in view.seconds.items():
            taken.add_metric([query], seconds)
        yield taken


def _gauge(name: str, about: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, about, value=value)


def _estimates(view: AnswersView) -> Iterator[Metric]:
    """Yield the value and both ends of every number; for groups, of those that the page shows."""
    value, low, high, exact = (
        GaugeMetricFamily(name, about, labels=_LABELS) for name, about in _ESTIMATE.items()
    )
    for labels, estimate in _labelled(view):
        if (number := finite(estimate.value)) is not None:
            value.add_metric(labels, number)
            low.add_metric(labels, _end(estimate.low, -inf))
            high.add_metric(labels, _end(estimate.high, inf))
        exact.add_metric(labels, float(estimate.exact))
    answered = GaugeMetricFamily(
        "eddyline_query_answered", "0 if what is kept no longer answers it.", labels=["query"]
    )
    for query, answer in view.answers.items():
        answered.add_metric([query], float(not isinstance(answer, EddylineError)))
    yield from (value, low, high, exact, answered)


def _labelled(view: AnswersView) -> Iterator[tuple[list[str], Estimate]]:
    """Yield every estimate with its labels: the query, the aggregate and the group, empty if there is none."""
    for query, answer in view.answers.items():
        if isinstance(answer, Estimate):
            yield [query, "", ""], answer
        elif isinstance(answer, Groups):
            for row in python_rows(answer.table.slice(0, SHOWN_GROUPS)):
                group = ", ".join(f"{name}={_literal(row[name])}" for name in answer.group_columns)
                for name in answer.aggregates:
                    yield [query, name, group], answer.estimate(row, name)


def _end(end: object, unbounded: float) -> float:
    number = finite(end)
    return unbounded if number is None else number


def _literal(value: object) -> str:
    """Return a value as SQL writes it, so that no two groups share a label: a string in quotes, NULL without."""
    shown = plain(value)
    if isinstance(shown, str):
        return "'" + shown.replace("'", "''") + "'"
    return "NULL" if shown is None else str(shown).lower()


def _freshness(view: AnswersView) -> Iterator[Metric]:
    state, fresh = view.state, view.freshness
    if state is None or fresh is None:
        return
    yield _gauge("eddyline_epoch", "The epoch that answers are read from.", fresh.epoch)
    yield _gauge("eddyline_state_bytes", "Bytes of counters, hints and samples.", state.nbytes)
    about = {
        "rows": "Rows applied, deletes among them.",
        "deletes": "Rows applied that took rows away.",
        "bad": "Rows skipped because their change could not be read.",
        "late": "Rows that came after the panes of their windows were dropped.",
        "last_batch_time": "When the last batch was committed, in seconds since 1970.",
    }
    for name, sentence in about.items():
        unit = "_seconds" if name == "last_batch_time" else ""
        family = GaugeMetricFamily(f"eddyline_stream_{name}{unit}", sentence, labels=["stream"])
        for stream in fresh.streams:
            if getattr(stream, name) is not None:
                family.add_metric([stream.stream], getattr(stream, name))
        yield family


def _comparison(found: Reconciliation | None) -> Iterator[Metric]:
    """Yield what `eddyline verify --source` found last."""
    if found is None:
        return
    yield _gauge(
        "eddyline_source_compared_time_seconds",
        "When the store was last compared with its sources.",
        found.time,
    )
    missing = GaugeMetricFamily(
        "eddyline_source_missing_rows",
        "Rows that the source had and the store lacked; negative: too many.",
        labels=["stream"],
    )
    for stream, rows in found.missing.items():
        missing.add_metric([stream], rows)
    yield missing


def registry_of(watcher: Watcher, events: Events) -> tuple[CollectorRegistry, Histogram]:
    """Return the registry of a server, and the histogram of the seconds that ad hoc questions take."""
    registry = CollectorRegistry()
    registry.register(StoreCollector(watcher, events))
    took = Histogram(
        "eddyline_answer_seconds",
        "Seconds that a question over HTTP took.",
        buckets=_SECONDS,
        registry=registry,
    )
    return registry, took
