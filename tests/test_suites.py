"""The suites run on little data; their results at full size are in docs/reference."""

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

SUITES = Path(__file__).parent.parent / "suites"


@pytest.fixture
def cardinality(importing_from):
    return importing_from(SUITES / "cardinality")


@pytest.fixture
def flights(cardinality):
    return cardinality("data").database("flights", 0.02)


def test_counts_along_the_tree_are_those_of_the_query(cardinality, flights):
    queries = cardinality("queries").draw(flights, "ceb", 8, 3)
    assert {2, 3, 4} <= {len(query.tables) for query in queries}, "small and large joins are drawn"
    with flights.connected() as connection:
        for query in queries:
            assert query.exact == connection.sql(query.sql).fetchall()[0][0], query.sql
            assert query.exact >= max(1, 1e-5 * query.full)


def test_the_same_seed_draws_the_same_queries(cardinality, flights):
    draw = cardinality("queries").draw
    assert draw(flights, "light", 4, 3) == draw(flights, "light", 4, 3)


def test_convolution_sketches_are_unbiased(cardinality, flights):
    methods = cardinality("methods")
    queries = cardinality("queries").draw(flights, "ceb", 3, 3)
    largest = {
        key: 1 + max(methods._largest(t, key) for t in flights.tables.values()) for key in flights.keys
    }
    with flights.connected() as connection:
        for query in queries:
            rows = [methods._filtered(query, at, connection) for at in range(len(query.tables))]
            found = [methods._convolved(query, rows, 1 << 14, largest, seed) for seed in range(60)]
            assert abs(np.mean(found) - query.exact) <= 4 * np.std(found) / 60**0.5, query.sql


def test_answers_of_the_product_are_exact_while_everything_fits(cardinality, flights):
    queries = cardinality("queries").draw(flights, "ranges", 8, 3)
    for method in ("planned", "ad_hoc"):
        result = getattr(cardinality("methods"), method)(flights, queries, 64 << 20)
        assert {name: answer.value for name, answer in result.answers.items()} == {
            query.name: query.exact for query in queries
        }


@pytest.mark.slow  # fetches the generator
def test_items_and_customers_of_tpcds_are_skewed_and_refer_to_their_tables(cardinality):
    data = cardinality("data").database("tpcds")
    for fact in ("store_sales", "store_returns", "catalog_sales", "web_sales"):
        for key in ("item", "customer"):
            values, counts = np.unique(data.ordered(fact, key), return_counts=True)
            assert counts.max() > 0.15 * counts.sum(), "1 / sizes ** 0.2 of the rows have the first key"
            assert set(values) <= set(data.ordered(key, key))
    query = cardinality("queries").draw(data, "light", 4, 3)[0]
    with data.connected() as connection:
        assert query.exact == connection.sql(query.sql).fetchall()[0][0]


def test_lines_of_other_databases_stay(cardinality, tmp_path):
    (tmp_path / "results.csv").write_text("database,value\nlahman,1\nflights,2\n")
    others = cardinality("run")._others
    assert others(tmp_path / "results.csv", ["lahman"]) == [{"database": "flights", "value": "2"}]
    assert others(tmp_path / "none.csv", ["lahman"]) == []


def test_q_errors(cardinality):
    q_error = cardinality("run").q_error
    assert [q_error(value, 10) for value in (10, 20, 5, 0)] == [1, 2, 2, 10]


@pytest.mark.figures
def test_the_tables(cardinality, tmp_path, capsys):
    small = f"--databases flights --budgets 64KB --queries 6 --share 0.02 --into {tmp_path}"
    cardinality("run").main(small.split())
    with (tmp_path / "summary.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {"eddyline planned", "convolution sketches", "DuckDB planner", "PostgreSQL planner"} <= {
        line["method"] for line in lines
    }
    for line in lines:
        assert np.isfinite(float(line["max"]))
    assert "flights: " in capsys.readouterr().out


@pytest.fixture
def warehouse(importing_from, monkeypatch, tmp_path):
    script = importing_from(SUITES / "warehouse")
    monkeypatch.setattr(script("data"), "FOLDER", tmp_path / "data")
    return script


@pytest.mark.figures
def test_published_queries_are_exact_or_refused_while_everything_fits(warehouse, tmp_path, capsys):
    small = f"--benchmarks ssb,tpch --scale 0.001 --budgets 64MB --into {tmp_path}"
    warehouse("run").main(small.split())
    with (tmp_path / "results.csv").open() as file:
        lines = list(csv.DictReader(file))
    answered = {line["query"] for line in lines if line["form"] != "refused"}
    assert len(lines) == 13 + 22
    assert {"1.1", "2.1", "3.1", "4.1", "3", "5", "9", "11", "13", "18", "19", "22"} <= answered
    for line in lines:
        if line["form"] != "refused":
            assert line["exact"] == "True"
            assert not line["note"]
    assert '"ssb 64MB": "13 answered, 13 exactly"' in capsys.readouterr().out


def test_a_wrong_result_that_is_called_exact_is_found(warehouse):
    label, value = ({"eddyline.role": role, "eddyline.exact": "true"} for role in ("label", "value"))
    fields = [pa.field("g", pa.string(), metadata=label), pa.field("n", pa.int64(), metadata=value)]
    schema = pa.schema(fields, metadata={"eddyline.exact": "true"})
    result = pa.table([["a", "b"], [1, 2]], schema=schema)
    compared = warehouse("run").compared
    assert compared(result, [("b", 2), ("a", 1), ("c", 5)])["note"] == ""
    assert compared(result, [("b", 3), ("a", 1), ("c", 5)])["note"] == "WRONG: 1 rows"


@pytest.mark.slow  # fetches the generator
def test_queries_of_tpcds_are_exact_or_refused_while_everything_fits(warehouse, tmp_path):
    warehouse("run").main(f"--benchmarks tpcds --scale 0.01 --budgets 64MB --into {tmp_path}".split())
    with (tmp_path / "results.csv").open() as file:
        answered = [line for line in csv.DictReader(file) if line["form"] != "refused"]
    assert len(answered) >= 45
    for line in answered:
        assert line["exact"] == "True"
        assert not line["note"]


@pytest.mark.parametrize("name", ["eddyline-1MB", "duckdb", "postgres"])
def test_peers_answer_the_net_rows(importing_from, monkeypatch, tmp_path, name):
    script = importing_from(SUITES.parent / "benchmarks" / "peers")
    changes, peer = script("changes"), script("peer")
    monkeypatch.setattr(changes, "FOLDER", tmp_path / "data")
    monkeypatch.setattr(changes, "PIECE", 100)
    for own in peer._peers(name, tmp_path):
        found, ends, _, _ = peer.run(own, 3000)
    truth = changes.exact(3000)
    judged = script("run").judged(found, ends, truth)
    assert {judged[field] for field in ("worst_error", "median_error")} == {"0"}
    assert judged["intervals"] == 0
    assert changes.errors(found | {"buyers": [(1,)]}, truth[-1])["buyers"] > 0.5
    assert found["chain"][0][0] > 0


def test_intervals_of_a_peer_are_counted_where_they_are_no_points(importing_from):
    coverage = importing_from(SUITES.parent / "benchmarks" / "peers")("changes").coverage
    truth = {"pairs": [(10,)], "regions": [(1, 5, 7), (2, 5, 7)]}
    ends = {"pairs": [((11, 12),)], "regions": [(1, (5, 5), (6, 8)), (2, (0, None), (8, 9))]}
    assert coverage(ends, truth) == (4, 2)


@pytest.fixture
def streams(importing_from):
    return importing_from(SUITES / "streams")


def test_no_stream_deletes_what_is_not_there_and_foreign_keys_hold(streams):
    data = streams("data")
    for name, make in data.STREAMS.items():
        drawn = make(3, 20_000)
        for table in drawn.tables.values():
            assert np.all(table.born < table.dies)
        assert drawn.changes > 20_000 * 1.1, "rows are deleted"
        with data.exact(drawn) as connection:
            lost = {
                "nexmark": "SELECT COUNT(*) FROM bid WHERE auction NOT IN (SELECT id FROM auction)",
                "orderbook": "SELECT COUNT(*) FROM orders GROUP BY id HAVING COUNT(*) > 1",
            }
            assert connection.sql(lost[name]).fetchall() in ([], [(0,)])


def test_the_book_is_not_crossed(streams):
    data = streams("data")
    with data.exact(data.orderbook(3, 20_000)) as connection:
        best = "SELECT symbol, MAX(price) FILTER (WHERE side = 0) AS bid, MIN(price) FILTER (WHERE side = 1) AS ask"
        found = connection.sql(
            f"{best} FROM orders GROUP BY symbol HAVING bid IS NOT NULL AND ask IS NOT NULL"
        ).fetchall()
    assert len(found) > 20
    for _, bid, ask in found:
        assert bid < ask


@pytest.mark.figures
@pytest.mark.parametrize(("name", "queries"), [("nexmark", 20), ("orderbook", 18)])
def test_standing_queries_are_exact_while_everything_fits(streams, tmp_path, name, queries):
    small = f"--streams {name} --events 12000 --seeds 1 --budgets 32KB,16MB --into {tmp_path}"
    streams("run").main(small.split())
    with (tmp_path / f"{name}.csv").open() as file:
        lines = list(csv.DictReader(file))
    whole = [line for line in lines if line["budget"] == "16MB" and not line["note"].startswith("refused")]
    assert len(whole) == queries
    for line in whole:
        assert line["exact_states"] == "1"
        assert not line["note"]
    for line in whole:
        assert line["first"] in ("", "1")
    little = [line for line in lines if line["budget"] == "32KB"]
    assert any(line["exact_states"] == "0" and line["held"] for line in little), "some answers are estimates"


DOCS = SUITES.parent / "docs"


def test_the_table_of_peers_is_that_of_the_results(importing_from):
    run = importing_from(SUITES.parent / "benchmarks" / "peers")("run")
    assert run.table() in (DOCS / "compared.md").read_text(encoding="utf-8")
    readme = " ".join((SUITES.parent / "README.md").read_text(encoding="utf-8").split())
    assert run.caption() in readme


def test_the_tables_of_the_warehouse_benchmarks_are_those_of_the_results(warehouse):
    run = warehouse("run")
    lines = list(run.read(SUITES / "warehouse" / "results.csv").values())
    page = (DOCS / "reference" / "warehouse.md").read_text(encoding="utf-8")
    for name in ("tpch", "ssb", "tpcds"):
        assert run.table(lines, name) in page
    for key, text in run.summary_of(lines).items():
        assert f"{key}: {text}" in page
    assert not [line["note"] for line in lines if line["note"].startswith("WRONG")]


@pytest.mark.parametrize("name", ["nexmark", "orderbook"])
def test_the_tables_of_the_streams_are_those_of_the_results(streams, name):
    row_of = streams("run").row_of
    page = (DOCS / "reference" / "streams.md").read_text(encoding="utf-8")
    with (SUITES / "streams" / f"{name}.csv").open(encoding="utf-8") as file:
        rows = [row_of(line) for line in csv.DictReader(file)]
    assert len(rows) > 40
    assert [row for row in rows if row not in page and "| refused |" not in row] == []


def test_the_tables_of_cardinalities_are_those_of_the_results(cardinality):
    page = (DOCS / "reference" / "cardinality.md").read_text(encoding="utf-8")
    with (SUITES / "cardinality" / "summary.csv").open(encoding="utf-8") as file:
        rows = [(line["database"], cardinality("run").row_of(line)) for line in csv.DictReader(file)]
    assert {name for name, _ in rows} == {"lahman", "flights", "tpcds"}
    for name, row in rows:
        assert row in page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
