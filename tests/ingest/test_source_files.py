"""Which files of a folder count as there."""

from eddyline.ingest.files import lacks_files


def test_files_that_a_job_has_not_finished_are_not_there_yet(tmp_path):
    for name in ("_temporary/0/task/part-0.csv", ".staging/part-0.csv", "_SUCCESS"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("k,x\n")
    assert lacks_files("csv", str(tmp_path), {})
    (tmp_path / "_day=2024-01-01").mkdir()
    (tmp_path / "_day=2024-01-01" / "part-0.csv").write_text("k,x\n")
    assert not lacks_files("csv", str(tmp_path), {})
