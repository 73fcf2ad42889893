"""`eddyline verify --source`: what a source has next to what a store counted."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from typer.testing import CliRunner

from eddyline.api.jobs import build_without_spark
from eddyline.api.operations.reconcile import (
    RECONCILED,
    Reconciled,
    count_rows,
    last_reconciliation,
    reconcile,
)
from eddyline.api.pipeline import StreamSource, load_pipeline
from eddyline.cli import app
from eddyline.errors import PipelineError
from eddyline.store import Reader, verify
from eddyline.store.filesystem import LocalFiles
from tests.data.lines import LINES


@pytest.fixture
def pipeline(tmp_path):
    """A pipeline of two streams, one with deletes, and its store."""
    (tmp_path / "orders").mkdir()
    for part in range(2):
        pq.write_table(pa.table({"k": list(range(50))}), tmp_path / "orders" / f"{part}.parquet")
    pq.write_table(pa.table({"k": [1, 2, 1], "w": [1, 1, -1]}), tmp_path / "visits.parquet")
    (tmp_path / "pipeline.toml").write_text(
        f"""
[workload]
budget = "1 MB"
store = "state"

[streams.orders]
schema = "k BIGINT"
format = "parquet"
path = "{tmp_path}/orders"

[streams.visits]
schema = "k BIGINT"
changes = "w"
format = "parquet"
path = "{tmp_path}/visits.parquet"

[queries]
joined = "SELECT COUNT(*) FROM orders o JOIN visits v ON o.k = v.k"
"""
    )
    loaded = load_pipeline(tmp_path / "pipeline.toml")
    build_without_spark(loaded, loaded.plan())
    return tmp_path / "pipeline.toml"


def verified(pipeline):
    store = str(pipeline.parent / "state")
    done = CliRunner().invoke(app, ["verify", store, "--source", str(pipeline)])
    return done.exit_code, " ".join(done.output.split())


def test_a_store_that_has_all_rows_agrees(pipeline):
    code, output = verified(pipeline)
    assert code == 0, output
    assert "orders: the source has 100 rows and the store counted 100: they agree" in output
    assert "visits: the source has 3 rows and the store counted 3: they agree" in output
    assert last_reconciliation(Reader(pipeline.parent / "state")).missing == {"orders": 0, "visits": 0}
    assert verify(pipeline.parent / "state") == []


def test_rows_that_the_store_lacks_are_counted(pipeline):
    pq.write_table(pa.table({"k": [7] * 11}), pipeline.parent / "orders" / "late.parquet")
    code, output = verified(pipeline)
    assert code == 1
    assert "11 too few: the run is behind, or rows were lost" in output
    reader = Reader(pipeline.parent / "state")
    assert last_reconciliation(reader).missing == {"orders": 11, "visits": 0}
    reader.files.replace(RECONCILED, b"{")
    assert last_reconciliation(reader) is None


def test_a_store_that_cannot_be_written_is_compared_all_the_same(pipeline, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LocalFiles, "replace", full)
    code, output = verified(pipeline)
    assert code == 0
    assert "the comparison cannot be written into the store" in output


def test_rows_that_the_store_has_too_many_of_are_counted(pipeline):
    (pipeline.parent / "orders" / "0.parquet").unlink()
    code, output = verified(pipeline)
    assert code == 1
    assert "50 too many" in output


def counted(form, path, **options):
    return count_rows("s", StreamSource("k BIGINT", form, path=str(path), options=options))


def test_lines_of_csv_and_json_are_counted_as_spark_reads_them(tmp_path):
    """tests/spark/test_reconcile.py reads the same files with Spark."""
    for name, (options, lines, rows) in LINES.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_bytes(lines)
        assert counted(name.split("-")[0], tmp_path / name, **options) == rows
    with gzip.open(tmp_path / "csv" / "b.gz", "wb") as more:
        more.write(b"5\n6\n")
    assert counted("csv", tmp_path / "csv") == LINES["csv"][2] + 2


def test_orc_files_and_folders_of_partitions_are_counted(tmp_path):
    for day, rows in ((1, 3), (2, 4)):
        (tmp_path / f"day={day}").mkdir()
        orc.write_table(pa.table({"k": range(rows)}), str(tmp_path / f"day={day}" / "a.orc"))
    assert counted("orc", tmp_path) == 7


def test_sources_that_are_not_counted_are_named_with_the_reason(pipeline, tmp_path):
    text = pipeline.read_text().replace('format = "parquet"\npath', 'format = "text"\npath', 1)
    pipeline.write_text(text)
    found = reconcile(str(pipeline.parent / "state"), load_pipeline(pipeline))[0]
    assert (found.store, found.difference) == (100, None)
    assert "orders: not compared; its rows are not counted here" in str(found)
    assert "multiLine may change which rows" in counted("csv", tmp_path, multiLine="true")
    assert "startingOffsets may change" in counted("kafka", "", startingOffsets="latest")
    assert "need SASL_SSL" in counted(
        "kafka", "", **{"kafka.security.protocol": "SASL_SSL", "subscribe": "t"}
    )
    assert "not Parquet, ORC" in counted("delta", tmp_path / "none") or "local disk" in counted(
        "delta", tmp_path
    )


def test_files_that_cannot_be_counted(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"not parquet")
    with pytest.raises(PipelineError, match="cannot be counted"):
        counted("parquet", tmp_path / "a.parquet")


def test_skipped_changes_of_a_table_excuse_as_many_rows():
    for source, difference in ((10, 0), (7, 0), (13, 0), (14, 1), (6, -1)):
        assert Reconciled("s", source, 10, bad=3, is_net=True).difference == difference
    assert "skipped 3 changes, which may explain as many rows: they agree" in str(
        Reconciled("s", 12, 10, bad=3, is_net=True)
    )


def test_skipped_rows_count(pipeline):
    assert Reconciled("s", 10, 8, bad=2).difference == 0
    assert "and skipped 2: they agree" in str(Reconciled("s", 10, 8, bad=2))


def test_another_pipeline_is_refused(pipeline):
    pipeline.write_text(
        pipeline.read_text().replace("visits", "visitors").replace("visitors.parquet", "visits.parquet")
    )
    with pytest.raises(PipelineError, match="is it the right file"):
        reconcile(str(pipeline.parent / "state"), load_pipeline(pipeline))
