"""Plots: what is drawn are the numbers of the answers, and matplotlib is only needed by who plots."""

import subprocess
import sys
from math import inf

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.answer.estimate import Estimate
from eddyline.answer.groups.table import Groups
from eddyline.api.plots import plot_answers, plot_groups
from eddyline.api.run import Run, StartOptions, open_store
from eddyline.ingest.sections import to_sections

QUERIES = {
    "n": "SELECT COUNT(*) FROM a",
    "pairs": "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k",
    "nothing": "SELECT SUM(x) FROM a WHERE x > 99",
    "by_kind": "SELECT kind, COUNT(*) AS n, SUM(x) AS money FROM a GROUP BY kind ORDER BY n DESC",
    "by_kind_seen": "SELECT a.kind, COUNT(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY a.kind",
}


@pytest.fixture(scope="module")
def plan():
    made = (
        el.Workload(budget="16 KB", seed=3)
        .stream("a", "k BIGINT, kind STRING, x INT")
        .stream("b", "k BIGINT")
    )
    for name, text in QUERIES.items():
        made.query(name, text)
    return made.plan()


def rows(number=20_000):
    rng = np.random.default_rng(5)
    kinds = np.array(["$x$", "left", "right"])[rng.choice(3, number, p=[0.2, 0.5, 0.3])]
    keys = (4_000 * rng.random((2, number)) ** 2).astype(np.int64)
    return {
        "a": pa.table({"k": keys[0], "kind": kinds, "x": rng.integers(0, 9, number, dtype=np.int32)}),
        "b": pa.table({"k": keys[1]}),
    }


@pytest.fixture(scope="module")
def state(plan):
    made = plan.empty()
    for name, table in rows().items():
        made.update(name, table)
    return made


def lines(panel, row):
    """The intervals that are drawn in a row of a panel."""
    drawn = [each.get_xydata() for each in panel.lines]
    return [(data[0][0], data[1][0]) for data in drawn if len(data) == 2 and data[0][1] == data[1][1] == row]


def test_all_queries_are_rows_with_intervals_relative_to_their_values(state):
    figure = state.plot()
    panel = figure.axes[0]
    assert [label.get_text() for label in panel.get_yticklabels()] == sorted(QUERIES)
    pairs, row = state.answer("pairs"), sorted(QUERIES).index("pairs")
    assert not pairs.exact
    assert lines(panel, row) == [
        pytest.approx(((pairs.low - pairs.value) / pairs.value, (pairs.high - pairs.value) / pairs.value))
    ]
    printed = dict(
        zip(
            sorted(QUERIES),
            (label.get_text() for label in panel.child_axes[0].get_yticklabels()),
            strict=True,
        )
    )
    assert printed["n"] == "20,000 (exact)"
    assert printed["nothing"] == "NULL (exact)"
    assert printed["by_kind"] == "3 groups"
    assert printed["pairs"].startswith(f"{pairs.value:,.0f} ±")


def test_groups_are_bars_as_long_as_their_numbers(state):
    figure, groups = state.plot("by_kind"), state.answer("by_kind")
    table = groups.to_arrow()
    for panel, name in zip(figure.axes, ("n", "money"), strict=True):
        assert [bar.get_width() for bar in panel.patches] == table[name].to_pylist()
        assert panel.get_xlabel() == name
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["left", "right", r"\$x\$"]
    assert figure.axes[0].get_ylim()[0] > figure.axes[0].get_ylim()[1]  # the first one on top


def test_groups_with_intervals_have_them_drawn(state):
    panel = state.plot("by_kind_seen", aggregate="n").axes[0]
    for row, found in enumerate(state.answer("by_kind_seen")):
        assert not found["exact"]
        assert lines(panel, row) == [pytest.approx((found["n_low"], found["n_high"]))]


def test_any_sql_that_is_covered_is_plotted_and_first_groups_are_named(state):
    figure = state.plot(
        "SELECT kind, COUNT(*) AS rows FROM a GROUP BY kind ORDER BY rows DESC LIMIT 3", top=2
    )
    assert len(figure.axes[0].patches) == 2
    assert "the first 2" in figure.get_suptitle()
    assert len(state.plot("pairs").axes[0].get_yticklabels()) == 1


def test_what_is_not_there_is_refused_in_a_sentence(state):
    with pytest.raises(el.PlanError, match="no aggregate 'm': its aggregates are n, money"):
        state.plot("by_kind", aggregate="m")
    with pytest.raises(el.PlanError, match="top=0"):
        state.plot("by_kind", top=0)


def test_open_ends_are_arrows_and_what_is_no_number_is_written():
    odd = {
        "open": Estimate("open", 10, 8, inf, 0.95, "sample"),
        "zero": Estimate("zero", 0, 0, 5, 0.95, "sample"),
        "text": Estimate.exactly("text", "$a$\nb" * 30, 0.95),
        "unknown": Estimate("unknown", None, None, None, 0.95, "sample"),
        "refused": el.PlanError("no"),
    }
    figure = plot_answers(odd)
    panel = figure.axes[0]
    assert [each.get_marker() for each in panel.lines if each.get_marker() in "<>"] == [">"]
    printed = [label.get_text() for label in panel.child_axes[0].get_yticklabels()]
    assert printed[1:2] + printed[3:] == ["0", "not known", "refused"]
    figure._repr_png_()
    table = pa.table(
        {"g": [1, 2], "m": ["x", None], "m_low": ["x", None], "m_high": ["x", None], "exact": [True, False]}
    )
    drawn = plot_groups(Groups("q", ("g",), ("m",), table, {}, 0.95, "sample"))
    assert [each.get_text().strip() for each in drawn.axes[0].texts] == ["x", "not known"]
    plot_groups(Groups("q", ("g",), ("m",), table.slice(0, 0), {}, 0.95, "sample"))._repr_png_()


def test_a_figure_shows_itself_in_a_notebook_without_pyplot(plan):
    code = """
import sys, numpy as np, eddyline as el
w = el.Workload(budget="4 KB").stream("a", "k BIGINT").query("n", "SELECT COUNT(*) FROM a")
figure = w.plan().empty().update("a", {"k": np.arange(5)}).plot()
png, size = figure._repr_png_()
assert png.startswith(b"\\x89PNG") and size["width"] > 400
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_matplotlib_a_sentence_says_what_to_install():
    code = """
import sys
sys.modules["matplotlib"] = None
import eddyline as el
w = el.Workload(budget="4 KB").stream("a", "k BIGINT").query("n", "SELECT COUNT(*) FROM a")
try:
    w.plan().empty().plot()
except el.EddylineError as error:
    print(error)
"""
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert shown == 'plots need matplotlib: pip install "eddyline[plot]".\n'


def test_a_run_plots_how_its_answers_moved(plan, tmp_path):
    """A run without Spark: batches are committed as it would."""
    with open_store(plan.layout, str(tmp_path), StartOptions()) as store:
        run, state = Run(None, plan.layout, store, "fail", None), plan.empty()
        for batch in range(4):
            state.update("a", rows(1_000)["a"]).update("b", rows(1_000)["b"])
            store.commit("a", "q", batch, to_sections(state.snapshot), rows=1_000)
            assert run.answer("n").value == 1_000 * (batch + 1)
        tracked = run.plot("n").axes[0]
        (line,) = tracked.lines
        assert list(line.get_ydata()) == [1_000, 2_000, 3_000, 4_000, 4_000]
        assert list(line.get_xdata()) == sorted(line.get_xdata())
        assert tracked.get_title(loc="left") == "n: 4,000"
        assert len(run.plot("nothing").axes[0].lines) == 0
        assert len(run.plot().axes[0].get_yticklabels()) == len(QUERIES)
        assert len(run.plot("by_kind", aggregate="n").axes[0].patches) == 3
        run.answer("n", confidence=0.5)
        assert len(run.plot("n").axes[0].lines[0].get_ydata()) == 6
