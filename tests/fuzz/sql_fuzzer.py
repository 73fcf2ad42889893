"""The differential SQL fuzzer: random texts on both of our paths against Spark, and against DuckDB where it agrees.

A finding is a wrong number that is called exact, an exception that is not ours, a text that Spark refuses and we
take, or one that Spark takes and we call wrong. Refusals by UnsupportedQuery, and by PipelineError without Spark, are
no findings: they are what the reference promises.
"""

import math
import random
import re
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field

import numpy as np

import eddyline as el
from eddyline.errors import EddylineError, SqlError, UnsupportedQuery
from tests.fuzz import forms, oracle, queries
from tests.fuzz.tables import T_DDL, U_DDL, random_changes

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "-03:30")
_NOT_PORTABLE = re.compile(
    r"(?i)\b(ts|n|x|y|f|m|k|v|bin)\b|timestamp|like|upper|lower|\\|1e0|\d(d|bd|l)\b|/|length|substring|concat|<=>|%|''"
    r"|cast|hour|minute|year|month|day"
)
_ZONE = "spark.sql.session.timeZone"
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""A few rows are evaluated sooner than code for them is compiled."""
_BY_DESIGN = re.compile(r'has the type "VOID"|FILTER_NOT_BOOLEAN. Cannot resolve "NULL"')
"""We take a bare NULL for a condition where Spark wants it cast."""


@dataclass
class Finding:
    """Something that should not be."""

    seed: int
    zone: str
    text: str
    what: str
    rows: list = field(default_factory=list)

    def __str__(self):
        shown = "".join(f"\n    {row}" for row in self.rows[:3])
        return f"seed {self.seed}, time zone {self.zone}\n  {self.text}\n  {self.what}{shown}"


class Round:
    """One random data set, many random texts over it."""

    def __init__(self, spark, seed, rows=30):
        self.spark = spark
        self.seed = seed
        self.rng = random.Random(seed)
        self.zone = self.rng.choice(ZONES)
        self.findings = []
        self.counts = {"asked": 0, "refused": 0, "spark": 0, "arrow": 0, "duckdb": 0}
        self.tables, self.changes = {}, {}
        for name, ddl in (("t", T_DDL), ("u", U_DDL)):
            net, changed, weights = random_changes(self.rng, ddl, rows)
            self.tables[name], self.changes[name] = net, (changed, weights)

    def on(self, table):
        """The same round over other rows of t, all inserted."""
        other = copy(self)
        other.findings = []
        other.tables = {**self.tables, "t": table}
        other.changes = {**self.changes, "t": (table, [1] * table.num_rows)}
        return other

    @contextmanager
    def session(self):
        """The session with the round's views and settings, and as it was afterwards."""
        before = self.spark.conf.get(_ZONE)
        for name, value in {**INTERPRETED, _ZONE: self.zone}.items():
            self.spark.conf.set(name, value)
        try:
            for name, ddl in (("t", T_DDL), ("u", U_DDL)):
                self.spark.createDataFrame(self.tables[name], schema=ddl).createOrReplaceTempView(name)
            changed = self.spark.createDataFrame(self.changes["t"][0], schema=T_DDL)
            changed.createOrReplaceTempView("t_changes")
            yield
        finally:
            for name in INTERPRETED:
                self.spark.conf.unset(name)
            self.spark.conf.set(_ZONE, before)

    def ask_one(self, condition):
        """Count the rows that meet a condition and return the findings."""
        with self.session():
            return self._ask({"q": ("COUNT", "*", condition)}, {})

    def run_forms(self):
        """Ask the forms that were once read wrongly and return the findings."""
        with self.session():
            return self._ask(*forms.all_forms())

    def run(self, single=60, several=20):
        """Ask a number of texts and return the findings."""
        parts = {f"q{i}": queries.one_stream(self.rng) for i in range(single)}
        texts = {f"j{i}": queries.several_streams(self.rng) for i in range(several)}
        with self.session():
            return self._ask(parts, texts)

    def _ask(self, parts, texts):
        parts = {name: each for name, each in parts.items() if self._is_taken(queries.text_of(*each))}
        texts = {name: text for name, text in texts.items() if self._is_taken(text)}
        guarded, plain = {}, {}
        for name, (_, argument, condition) in parts.items():
            value, guard = "1" if argument == "*" else argument, condition or "TRUE"
            guarded[name] = (guard, f"CASE WHEN {guard} THEN {value} END")
            plain[name] = (guard, value)
        found = oracle.rows_of(self.spark, "t", guarded)
        truth = {name: oracle.aggregated(parts[name][0], rows) for name, rows in found.items()}
        truth |= oracle.answers_of(self.spark, texts)
        texts |= {name: queries.text_of(*each) for name, each in parts.items()}
        self._on_arrow(texts, truth)
        texts = {name: text for name, text in texts.items() if name in truth}
        rows = oracle.rows_of(self.spark, "t_changes", plain)
        safe = {name for name, found in rows.items() if parts[name][0] == "COUNT" or _is_summable(found)}
        self._on_spark(
            {name: text for name, text in texts.items() if name in safe or name not in parts}, truth
        )
        self._on_duckdb(texts, truth)
        return self.findings

    def _found(self, text, what):
        self.findings.append(Finding(self.seed, self.zone, text, what))

    def workload(self):
        """A workload over the round's streams, in its time zone."""
        asked = el.Workload(budget="2 MB", seed=1, timezone=self.zone)
        return asked.stream("t", T_DDL, changes="w").stream("u", U_DDL, changes="w")

    def _is_taken(self, text):
        """Whether both we and Spark take a text; that we do not agree is a finding."""
        self.counts["asked"] += 1
        ours, unsupported = None, False
        try:
            self.workload().query("q", text)
        except UnsupportedQuery:
            unsupported = True
        except SqlError as error:
            ours = str(error)
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            self._found(text, f"w.query raises {type(error).__name__}: {error}")
            return False
        if unsupported:
            self.counts["refused"] += 1
            return False
        theirs = oracle.refused_by_spark(self.spark, text)
        if ours and not theirs:
            self._found(text, f"Spark takes it, and w.query says {ours}")
        if theirs and not ours and not _BY_DESIGN.search(theirs):
            self._found(text, f"w.query takes it, and Spark says {theirs}")
        return not ours and not theirs

    def _on_arrow(self, texts, truth):
        """Answer each text without Spark; one that Spark fails on may fail here too, by an error of ours."""
        for name, text in texts.items():
            try:
                state = self.workload().query("q", text).plan().empty()
                for stream in ("t", "u"):
                    changed, weights = self.changes[stream]
                    state.update(stream, changed.append_column("w", [np.array(weights, dtype=np.int64)]))
                estimate = state.answer("q")
            except EddylineError:
                continue
            except Exception as error:  # noqa: BLE001 - that is what is looked for
                self._found(text, f"state.update raises {type(error).__name__}: {str(error)[:300]}")
                continue
            if name not in truth:
                continue
            self.counts["arrow"] += 1
            self._compare("state.update", text, estimate, truth[name])

    def _on_spark(self, texts, truth):
        """Sketch all texts in one pass; where a row fails, halves of them."""
        if not texts:
            return
        try:
            asked = self.workload()
            for name, text in texts.items():
                asked.query(name, text)
            frames = {
                stream: self.spark.createDataFrame(
                    changed.append_column("w", [np.array(weights, dtype=np.int64)]), schema=f"{ddl}, w BIGINT"
                ).coalesce(1)
                for (stream, (changed, weights)), ddl in zip(
                    self.changes.items(), (T_DDL, U_DDL), strict=True
                )
            }
            state = asked.plan().sketch(self.spark, frames)
            estimates = {name: state.answer(name) for name in texts}
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            if len(texts) > 1:
                names = list(texts)
                for half in (names[: len(names) // 2], names[len(names) // 2 :]):
                    self._on_spark({name: texts[name] for name in half}, truth)
            elif not isinstance(error, EddylineError):
                self._found(
                    next(iter(texts.values())),
                    f"plan.sketch raises {type(error).__name__}: {str(error)[:300]}",
                )
            return
        for name, estimate in estimates.items():
            self.counts["spark"] += 1
            self._compare("plan.sketch", texts[name], estimate, truth[name])

    def _on_duckdb(self, texts, truth):
        """Check the oracle itself by another one, where the dialects mean the same."""
        for name, text in texts.items():
            if _NOT_PORTABLE.search(text):
                continue
            try:
                found = oracle.of_duckdb(text, self.tables)
            except Exception:  # noqa: BLE001 - the dialects part
                continue
            self.counts["duckdb"] += 1
            if not _same(found, truth[name]):
                self._found(text, f"DuckDB says {found} and Spark {truth[name]}")

    def _compare(self, path, text, estimate, truth):
        if not estimate.exact:
            return
        over_join = (
            truth is None and estimate.value == 0
        )  # the documented difference: an empty SUM over a join
        if not _same(estimate.value, truth) and not over_join:
            self._found(text, f"{path} says {estimate.value} and Spark {truth}")


def _is_summable(rows):
    """Whether a measure fits fixed point on every row, as the reference says it must."""
    return all(value is None or abs(float(value)) < 1e12 for _, value in rows)


def _same(ours, theirs):
    """Whether two answers are one number: whole numbers exactly, fractions to what fixed point keeps."""
    if ours is None or theirs is None:
        return ours is None and theirs is None
    a, b = float(ours), float(theirs)
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=2e-4)
