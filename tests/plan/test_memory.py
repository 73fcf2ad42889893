"""Where a plan's memory goes: every byte is somebody's, and every reader is named."""

from pathlib import Path

import pytest

from eddyline.api.pipeline import load_pipeline
from eddyline.plan.show.explain import memory_of

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.toml"))


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_the_shares_are_the_whole_memory_and_name_every_query(path):
    layout = load_pipeline(path).plan().layout
    shares = memory_of(layout)
    assert sum(share.nbytes for share in shares) == layout.nbytes
    assert min(share.nbytes for share in shares) > 0
    assert len({share.id for share in shares}) == len(shares)
    assert {name for share in shares for name in share.readers} == set(layout.query_names)
    named = {name for share in shares for name in share.stream.split(", ")}
    assert named == {stream.name for stream in layout.streams}


def test_a_stream_sample_is_shared_by_its_queries_and_its_sketches_are_apart():
    layout = load_pipeline(Path(__file__).parent / "fixtures" / "two_way_join.toml").plan().layout
    shares = {share.id: share for share in memory_of(layout)}
    (sample,) = layout.samples
    assert shares[sample.id].stream == "orders, visits"
    assert shares[sample.id].nbytes == sample.spec.kept_budget
    assert set(shares[sample.id].readers) == {"money", "pairs"}
    assert {shares[kept.id].readers for kept in sample.sketches} == {("money",), ("pairs",)}


def test_a_window_is_one_share_of_all_its_panes():
    layout = load_pipeline(Path(__file__).parent / "fixtures" / "windows.toml").plan().layout
    shares = {share.id: share for share in memory_of(layout)}
    for group in layout.windows:
        assert shares[group.id].nbytes == group.nbytes
        assert shares[group.id].holds == "window of 6 x 600 s, 7 panes"
