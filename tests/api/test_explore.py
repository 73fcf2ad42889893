"""Ad hoc SQL over explored columns: exact while everything is held, intervals that hold beyond, refusals in sentences."""

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import eddyline as el
from eddyline.api.pipeline import load_pipeline
from eddyline.sql.query import Expression, Key
from eddyline.types import SqlType
from tests.data import explored
from tests.data.changes import inserted_and_deleted
from tests.oracles.duckdb_sql import exact
from tests.oracles.grouped import exact_groups, values_by_group


def changes(rng, rows, keys):
    """States of inserts and of deletes, and the net rows."""
    made = {
        "orders": explored.orders(rng, rows, keys),
        "items": explored.items(rng, rows, keys),
        "skus": explored.skus(rng),
    }
    inserts, deletes, net = inserted_and_deleted(rng, explored.plan(), made)
    return deletes, inserts, net


def in_second_stage(state):
    """The same state after an overflow that dropped nothing."""
    snapshot = state.snapshot
    for sample in snapshot.layout.samples:
        snapshot = snapshot.in_second_stage(sample.id)
    return el.State(snapshot)


def assert_exact(answer, text, columns, net):
    assert answer.exact
    if columns:
        shown, truth = values_by_group(answer), exact_groups(text, net, columns)
        assert shown.keys() == truth.keys(), text
        for group, values in truth.items():
            for found, value in zip(shown[group], values, strict=True):
                assert found == (None if value is None else pytest.approx(value, rel=1e-9, abs=1e-6)), text
        return
    value = exact(text, net)
    assert answer.value == (None if value is None else pytest.approx(value, rel=1e-9, abs=1e-6)), text


@given(st.data(), st.integers(0, 2**30), st.sampled_from([0, 1, 40, 200]), st.sampled_from([3, 40]))
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_random_texts_are_exact_while_everything_is_held(data, seed, rows, keys):
    """All types, NULLs, deletes before inserts, merged states, stored bytes, either stage."""
    deletes, inserts, net = changes(np.random.default_rng(seed), rows, keys)
    state = el.State.from_bytes((deletes + inserts).to_bytes())
    overflowed = in_second_stage(state)
    for text, columns in data.draw(st.lists(explored.texts(), min_size=4, max_size=8)):
        for each in (state, overflowed):
            assert_exact(each.answer(text), text, columns, net)


def small_state():
    """A state that holds everything, and its rows."""
    rng = np.random.default_rng(1)
    tables = {"orders": explored.orders(rng, 200, 20), "items": explored.items(rng, 200, 20)}
    tables["skus"] = explored.skus(rng)
    state = explored.plan().empty()
    for name, table in tables.items():
        state.update(name, table)
    return state, tables


BESIDE_OTHER_LINKS = {
    "SELECT COUNT(*) FROM orders o LEFT JOIN items i ON o.k = i.k": 0,
    "SELECT COUNT(*) FROM items i RIGHT JOIN orders o ON o.k = i.k WHERE o.status = 1": 0,
    "SELECT COUNT(*) FROM orders o FULL JOIN items i ON o.k = i.k": 0,
    "SELECT SUM(o.status) FROM orders o LEFT ANTI JOIN items i ON o.k = i.k": 0,
    "SELECT COUNT(*) FROM orders o LEFT SEMI JOIN items i ON o.k = i.k": 0,
    "SELECT COUNT(*) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.k = o.k AND i.qty > 1)": 0,
    "SELECT COUNT(*) FROM items i WHERE i.k NOT IN (SELECT k FROM orders WHERE k IS NOT NULL)": 0,
    "SELECT COUNT(*) FROM orders WHERE k IN (SELECT k FROM items)": 0,
    "SELECT o.region, COUNT(*) AS n, SUM(i.qty) AS q FROM orders o LEFT JOIN items i ON o.k = i.k GROUP BY o.region": 1,
    "SELECT o.status, COUNT(DISTINCT i.qty) AS d FROM orders o LEFT JOIN items i ON o.k = i.k GROUP BY o.status": 1,
    "SELECT COUNT(*) FROM orders o JOIN items i ON o.k = i.k WHERE o.status < i.qty": 0,
    "SELECT AVG(i.qty) FROM orders o JOIN items i ON o.k = i.k WHERE o.status + i.qty > 2": 0,
    "SELECT i.qty, COUNT(*) AS n FROM orders o JOIN items i ON o.k = i.k WHERE o.status <> i.qty GROUP BY i.qty": 1,
    "SELECT COUNT(*) FROM items i JOIN skus s ON i.sku = s.sku WHERE i.qty > s.tiny": 0,
}
"""Texts over items, whose rows are held for two joins together, that join on one of the columns alone."""


@pytest.mark.parametrize("rows", [0, 60])
def test_texts_over_rows_that_are_held_for_another_join_as_well(rows):
    """Outer, semi and anti joins, and conditions between relations: both were a foreign error."""
    deletes, inserts, net = changes(np.random.default_rng(rows), rows, 12)
    for state in (deletes + inserts, in_second_stage(deletes + inserts)):
        for text, columns in BESIDE_OTHER_LINKS.items():
            written = text.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")
            assert_exact(state.answer(text), written, columns, net)


def test_a_side_that_is_held_for_another_join_as_well_is_refused_once_sampled():
    w = el.Workload(budget="8 KB", seed=1).stream("a", "k BIGINT").stream("b", "k BIGINT, j BIGINT")
    w.stream("c", "j BIGINT").query("q", "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k JOIN c ON b.j = c.j")
    rng = np.random.default_rng(1)
    keys = [rng.integers(0, 3_000, 4_000) for _ in range(4)]
    state = w.plan().empty().update("a", {"k": keys[0]}).update("b", {"k": keys[1], "j": keys[2]})
    state.update("c", {"j": keys[3]})
    with pytest.raises(el.PlanError, match="held for a join on other columns, too"):
        state.answer("SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k")
    found = state.answer("SELECT COUNT(*) FROM b LEFT JOIN a ON a.k = b.k")
    counts = np.bincount(keys[0], minlength=3_000)[keys[1]]
    assert found.low <= np.maximum(counts, 1).sum() <= found.high


def test_an_answer_says_that_its_query_was_not_planned_and_is_remembered():
    state, tables = small_state()
    text = (
        "SELECT SUM(o.amount) FROM orders o JOIN items i ON o.k = i.k WHERE o.region = 'EMEA' AND i.qty > 1"
    )
    answer = state.answer(text)
    assert answer.value == pytest.approx(exact(text, tables))
    assert answer.notes == (
        "this query was not planned: it is answered from the columns that stream samples hold.",
    )
    assert state.answer(text) is answer
    assert state.answer("chain").notes == ()
    state.update("items", tables["items"])
    assert state.answer(text).value == pytest.approx(2 * answer.value)


def test_floats_are_held_to_the_bit():
    state = el.Workload().stream("s", "x DOUBLE, f FLOAT").explore("s", "x", "f").plan().empty()
    values = [0.1, -0.0, 0.0, float("nan"), float("inf"), 1e300, None, 0.1]
    state.update("s", pa.table({"x": pa.array(values, pa.float64()), "f": pa.array(values, pa.float32())}))
    state = el.State.from_bytes(state.to_bytes())
    for text, count in {
        "x = 0": 2, "x > 1e300": 2, "x >= 1e300": 3, "x IS NULL": 1, "x = 0.1": 2, "f = 0.1D": 0, "f = x": 4,
    }.items():  # fmt: skip
        assert state.answer(f"SELECT COUNT(*) FROM s WHERE {text}").value == count, text
    with pytest.raises(el.PipelineError, match="NaN"):
        state.answer("SELECT SUM(x) FROM s")
    assert state.answer("SELECT SUM(CASE WHEN x < 1 THEN x END) FROM s").value == pytest.approx(0.2)


def test_decimals_are_held_without_labels_where_64_bits_hold_their_digits():
    kinds = {"a": (18, 2), "b": (18, 6), "c": (18, 7), "d": (28, 4), "e": (19, 2), "g": (1, 1)}
    schema = ", ".join(f"{name} DECIMAL({digits},{scale})" for name, (digits, scale) in kinds.items())
    state = el.Workload().stream("s", schema).explore("s", *kinds).plan().empty()
    table = pa.table(
        {
            name: pa.array(
                [Decimal(sign * (10**digits - 1)).scaleb(-scale) for sign in (1, -1)] + [Decimal(0), None],
                pa.decimal128(digits, scale),
            )
            for name, (digits, scale) in kinds.items()
        }
    )
    state.update("s", table)
    assert state.snapshot.layout.samples[0].exact[0].labelled == tuple(
        Key((Expression(f"`{name}`", SqlType("decimal", *kinds[name])),)) for name in "cde"
    )
    for each in (state, in_second_stage(el.State.from_bytes(state.to_bytes()))):
        for name in kinds:
            groups = each.answer(
                f"SELECT {name}, COUNT(*) AS n FROM s WHERE {name} < 0 OR {name} >= 0 GROUP BY {name}"
            )
            assert set(groups.to_arrow()[name].to_pylist()) == set(table[name].to_pylist()[:3])
            assert groups.to_arrow()["n"].to_pylist() == [1, 1, 1]  # NULL has the code of 0, and is not 0


def test_distinct_values_of_a_link_under_any_predicate():
    state, tables = small_state()
    for text in (
        "SELECT COUNT(DISTINCT k) FROM orders WHERE region = 'EMEA'",
        "SELECT COUNT(*) FROM (SELECT k FROM orders WHERE flag EXCEPT SELECT k FROM orders WHERE status = 1)",
    ):
        for each in (state, in_second_stage(state)):
            assert each.answer(text).value == exact(text, tables), text


def test_distinct_values_that_nothing_follows_are_read_from_what_is_held():
    state, tables = small_state()
    for text in (
        "SELECT COUNT(DISTINCT region) FROM orders",
        "SELECT COUNT(DISTINCT status) FROM orders WHERE region = 'EMEA'",
        "SELECT COUNT(DISTINCT o.region) FROM orders o JOIN items i ON o.k = i.k WHERE i.qty > 1",
    ):
        for each in (state, in_second_stage(state)):
            assert each.answer(text).value == exact(text, tables), text


def test_few_combinations_stay_exact_while_links_overflow():
    w = el.Workload(budget="20 KB").stream("s", "k BIGINT, g STRING")
    w.query("pairs", "SELECT COUNT(*) FROM s a JOIN s b ON a.k = b.k").explore("s", "g")
    state = w.plan().empty()
    state.update("s", pa.table({"k": np.arange(20_000), "g": ["u", "v", None, "u"] * 5_000}))
    assert not state.answer("pairs").exact
    assert state.answer("SELECT g, COUNT(*) AS n FROM s GROUP BY g").exact
    for text, value in {"g = 'u'": 10_000, "g IS NULL": 5_000, "g > 'u'": 5_000}.items():
        answer = state.answer(f"SELECT COUNT(*) FROM s WHERE {text}")
        assert (answer.exact, answer.value) == (True, value)
    both = state.answer("SELECT COUNT(*) FROM s WHERE g = 'u' AND k < 10000")
    assert not both.exact
    assert both.low <= 5_000 <= both.high


def test_planned_predicates_and_measures_meet_explored_columns():
    w = el.Workload().stream("a", "k INT, x BIGINT, y INT, g STRING").stream("b", "k INT")
    w.query("planned", "SELECT SUM(a.x) FROM a JOIN b ON a.k = b.k WHERE a.y > 2").explore("a", "g")
    rng = np.random.default_rng(2)
    tables = {
        "a": pa.table(
            {
                "k": rng.integers(0, 9, 300).astype(np.int32),
                "x": explored.with_nulls(rng, rng.integers(-9, 9, 300), pa.int64()),
                "y": rng.integers(0, 5, 300).astype(np.int32),
                "g": rng.choice(["u", "v"], 300),
            }
        ),
        "b": pa.table({"k": rng.integers(0, 9, 50).astype(np.int32)}),
    }
    state = w.plan().empty().update("a", tables["a"]).update("b", tables["b"])
    text = "SELECT a.g, SUM(a.x) AS s, AVG(a.x) AS m, COUNT(*) AS n FROM a JOIN b ON a.k = b.k WHERE a.y > 2 GROUP BY a.g"
    for each in (state, in_second_stage(state)):
        assert_exact(each.answer(text), text, 1, tables)


REFUSED = {
    "SELECT COUNT(*) FROM orders WHERE k = 1 AND day > 1": "no column 'day'",
    "SELECT COUNT(*) FROM extra WHERE a = 1": r'reads a of stream .extra.*w\.explore\("extra", "a"\)',
    "SELECT COUNT(*) FROM items WHERE sku = 's1'": r'reads sku of stream .items.*w\.explore\("items", "sku"\)',
    "SELECT i.sku, COUNT(*) FROM items i GROUP BY i.sku": r'w\.explore\("items", "sku"\)',
    "SELECT COUNT(*) FROM orders o JOIN items i ON o.status = i.qty": r"no planned query joins on \(status\) of stream .orders",
    "SELECT COUNT(*) FROM orders o JOIN skus s ON o.region = s.sku": r"no planned query joins on \(region\)",
    "SELECT COUNT(*) FROM items i JOIN items j ON i.k = j.k AND i.sku = j.sku": "no planned query joins on",
    "SELECT COUNT(*) FROM (SELECT DISTINCT region FROM orders)": r"no planned query counts or joins \(region\) of stream .orders",
    "SELECT COUNT(*) FROM orders WHERE region RLIKE 'x'": "only be evaluated by Spark",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_asked_is_refused_in_a_sentence(text):
    w = el.Workload(timezone="UTC")
    for name, schema in explored.STREAMS.items():
        w.stream(name, schema).explore(name, *explored.EXPLORED[name])
    w.stream("extra", "a INT")
    state = w.query("chain", explored.CHAIN).plan().empty()
    with pytest.raises(el.EddylineError, match=REFUSED[text]) as error:
        state.answer(text)
    assert str(error.value).endswith(".")


def test_what_cannot_be_explored_is_refused_in_a_sentence():
    w = el.Workload().stream("s", "a INT, b STRING")
    for arguments, sentence in {
        ("t", "a"): "there is no stream 't' to explore: the streams are s.",
        ("s", "c"): "stream 's' has no column 'c' to explore: its columns are a, b.",
        ("s", "a", "A"): "column 'a' of stream 's' is explored twice: name it once.",
    }.items():
        with pytest.raises(el.PlanError) as error:
            w.explore(*arguments)
        assert str(error.value) == sentence
    w.explore("s", "a")
    with pytest.raises(el.PlanError, match="explored twice"):
        w.explore("s", "a")
    with pytest.raises(el.PlanError, match=r"samples=False.*\.$"):
        el.Workload(samples=False).stream("s", "a INT").explore("s", "a")
    assert w.explore("s", "b").plan().layout.digest == (
        el.Workload().stream("s", "a INT, b STRING").explore("s", "b", "a").plan().layout.digest
    )


def test_explain_says_what_can_be_asked():
    shown = explored.plan().explain()
    assert "SQL that was not planned may read day, k, qty, small of items, joined on (k) and (sku)\n" in shown
    assert "may read kind, tiny of skus, joined on (sku)\n" in shown
    state, _ = small_state()
    assert "may read kind, tiny of skus, joined on (sku)\n" in state.explain()
    assert (
        "not planned"
        not in el.Workload().stream("s", "a INT").query("n", "SELECT COUNT(*) FROM s").plan().explain()
    )


def test_states_of_other_explored_columns_are_not_combined():
    plans = [
        el.Workload().stream("s", "a INT, b INT").explore("s", *names).plan() for names in (["a"], ["a", "b"])
    ]
    with pytest.raises(el.IncompatibleSpecs):
        plans[0].empty() + plans[1].empty()


def test_what_is_explored_stays_with_a_plan_that_is_kept():
    def workload():
        return el.Workload(budget="64 KB").stream("s", "a INT, b INT").explore("s", "a")

    plan = workload().plan()
    again = workload().query("pairs", "SELECT COUNT(*) FROM s p JOIN s q ON p.b = q.b").plan(keep=plan)
    assert plan.layout.samples[0].id in [sample.id for sample in again.layout.samples]
    assert len(again.layout.samples) == 2
    assert again.nbytes <= 64_000
    state = again.empty().update(
        "s", {"a": np.array([1, 2, 2], np.int32), "b": np.array([1, 1, 3], np.int32)}
    )
    assert state.answer("SELECT COUNT(*) FROM s WHERE a = 2").value == 2
    assert state.answer("pairs").value == 5


def test_times_are_read_in_the_zone_of_the_plan():
    stamp = pa.table(
        {"ts": pa.array([1_704_063_600_000_000], pa.timestamp("us", "UTC"))}
    )  # 2023-12-31 23:00 UTC
    for zone, year in (("UTC", 2023), ("Europe/Berlin", 2024)):
        plan = el.Workload(timezone=zone).stream("s", "ts TIMESTAMP").explore("s", "ts").plan()
        assert plan.layout.timezone == zone
        state = plan.empty().update("s", stamp)
        assert state.answer(f"SELECT COUNT(*) FROM s WHERE year(ts) = {year}").value == 1
    w = el.Workload(timezone="Europe/Berlin").stream("s", "ts TIMESTAMP")
    state = (
        w.query("pairs", "SELECT COUNT(*) FROM s a JOIN s b ON a.ts = b.ts").plan().empty().update("s", stamp)
    )
    with pytest.raises(el.PlanError, match=r"depends on the time zone.*\.$"):
        state.answer("SELECT COUNT(*) FROM s WHERE year(ts) = 2024")


NTZ_FORMS = [
    ("hour(n)", {5: 1, 12: 1}),
    ("EXTRACT(MINUTE FROM n)", {0: 1, 30: 1}),
    ("weekday(n)", {2: 1, 3: 1}),
    ("n + INTERVAL 1 DAY > TIMESTAMP_NTZ '2020-01-03 00:00:00'", {False: 1, True: 1}),
    ("n >= DATE '2020-01-02'", {False: 1, True: 1}),
]


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize(("text", "groups"), NTZ_FORMS)
def test_times_without_a_zone_are_asked_whatever_the_zone(zone, text, groups):
    clocks = [dt.datetime(2020, 1, 1, 5), dt.datetime(2020, 1, 2, 12, 30)]
    w = el.Workload(timezone=zone).stream("s", "n TIMESTAMP_NTZ").explore("s", "n")
    state = w.plan().empty().update("s", pa.table({"n": pa.array(clocks, pa.timestamp("us"))}))
    found = state.answer(f"SELECT {text} AS g, COUNT(*) AS c FROM s GROUP BY {text}")
    assert {row["g"]: row["c"] for row in found} == groups


def test_times_without_a_zone_are_timestamps_in_the_zone_of_the_plan(monkeypatch):
    clocks = pa.table({"n": pa.array([dt.datetime(2020, 7, 1, 0, 30)], pa.timestamp("us"))})
    texts = {
        "SELECT CAST(n AS TIMESTAMP) AS g, COUNT(*) FROM s GROUP BY 1": dt.datetime(2020, 6, 30, 22, 30),
        "SELECT date_trunc('DAY', n) AS g, COUNT(*) FROM s GROUP BY 1": dt.datetime(2020, 6, 30, 22),
    }
    monkeypatch.setattr("eddyline.api.workload.session_zone", lambda: None)
    monkeypatch.setenv("TZ", "Europe/Berlin")  # the machine's zone, which a workload without one takes
    for zone in (None, "Europe/Berlin"):
        state = el.Workload(timezone=zone).stream("s", "n TIMESTAMP_NTZ").explore("s", "n").plan().empty()
        assert state.snapshot.layout.timezone == "Europe/Berlin"
        state.update("s", clocks)
        for text, moment in texts.items():
            assert [row["g"] for row in state.answer(text)] == [moment.replace(tzinfo=dt.UTC)]
        with pytest.raises(el.PlanError, match="of a TIMESTAMP_NTZ column write TIMESTAMP_NTZ"):
            state.answer("SELECT COUNT(*) FROM s WHERE n > TIMESTAMP '2020-01-01 12:00:00'")


def test_texts_are_asked_over_the_window_of_a_planned_query():
    w = el.Workload(budget="400 KB", timezone="UTC").stream(
        "s", "k INT, g STRING, ts TIMESTAMP", event_time="ts"
    )
    w.query(
        "recent", "SELECT COUNT(*) FROM s a JOIN s b ON a.k = b.k", window="10 minutes", slide="5 minutes"
    )
    plan = w.explore("s", "g").plan()
    assert plan.nbytes <= 400_000
    state, window = plan.empty(), {"window": "10 minutes", "slide": "5 minutes"}
    minutes = np.arange(31)
    table = pa.table(
        {
            "k": pa.array(minutes % 3, pa.int32()),
            "g": pa.array(["u" if m % 2 else "v" for m in minutes]),
            "ts": pa.array(minutes * 60_000_000, pa.timestamp("us", "UTC")),
        }
    )
    state.update("s", table)
    inside = {"s": table.filter(pa.array((minutes >= 20) & (minutes < 30)))}
    for text in (
        "SELECT COUNT(*) FROM s WHERE g = 'u'",
        "SELECT COUNT(*) FROM s a JOIN s b ON a.k = b.k WHERE a.g = 'u' AND b.g = 'v'",
    ):
        answer = state.answer(text, **window)
        assert answer.exact
        assert answer.value == exact(text, inside)
        assert answer.notes[0].startswith("over event times from")
        assert (
            state.answer(text.replace(" a JOIN", " c JOIN").replace("a.", "c."), **window).value
            == answer.value
        )
    assert state.answer("SELECT COUNT(*) FROM s WHERE g = 'u'").value == 15
    for query, settings_, sentence in (
        ("recent", window, "a planned query has its own window"),
        ("SELECT COUNT(*) FROM s WHERE g = 'u'", {"slide": "5 minutes"}, "takes window="),
        (
            "SELECT COUNT(*) FROM s WHERE g = 'u'",
            {"window": "5 minutes"},
            "no planned query has a window of 5 minutes",
        ),
        ("SELECT COUNT(*) FROM s WHERE k = 'u' AND ts IS NULL", window, "reads ts"),
    ):
        with pytest.raises(el.EddylineError, match=sentence):
            state.answer(query, **settings_)


PIPELINE = """
[workload]
budget = "64 KB"
[streams.s]
schema = "k INT, g STRING"
format = "parquet"
explore = {columns}
"""


def test_a_pipeline_file_names_explored_columns(tmp_path):
    file = tmp_path / "pipeline.toml"
    file.write_text(PIPELINE.format(columns='["g"]'))
    state = load_pipeline(file).plan().empty()
    state.update("s", pa.table({"k": pa.array([1, 2], pa.int32()), "g": ["u", None]}))
    assert state.answer("SELECT COUNT(*) FROM s WHERE g IS NULL").value == 1
    for columns, sentence in {
        "[]": "names no column",
        '["h"]': "has no column 'h'",
        '["g", "g"]': "explored twice",
        '"g"': "is invalid",
        "[1]": "is invalid",
    }.items():
        file.write_text(PIPELINE.format(columns=columns))
        with pytest.raises(el.EddylineError, match=sentence) as error:
            load_pipeline(file).plan()
        assert str(error.value).endswith(".")


def test_the_page_on_unplanned_questions_runs():
    page = (Path(__file__).parents[2] / "docs/how-to/ad-hoc-queries.md").read_text(encoding="utf-8")
    names = {}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code, names)
    assert names["shares"].schema.metadata[b"eddyline.exact"] == b"true"
    assert names["per_customer"].num_rows == names["above"].num_rows == 1
    assert "not held: photo" in names["plan"].explain()
    assert names["money"].exact
    assert names["baskets"].exact
    assert len(names["baskets"]) == 4
