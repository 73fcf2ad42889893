"""`method="document"`: the documents' own synopses and estimators for every kind of query, as any other method."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.api.pipeline import parse_pipeline
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.dyadic import DyadicSpec
from eddyline.sketch.jd_sketch import JdSketchSpec
from eddyline.sketch.two_level import TwoLevelSpec
from tests.data.documents import QUERIES, SCHEMAS, asked, by_duckdb, drawn, filled
from tests.oracles import skimmed as naive

KINDS = {"two": DyadicSpec, "chain": AgmsSpec, "both": TwoLevelSpec, "pairs": JdSketchSpec}


@pytest.fixture(scope="module")
def plan():
    return asked().plan()


@pytest.fixture(scope="module")
def sites():
    return [drawn(seed) for seed in (1, 2, 3)]


@pytest.fixture(scope="module")
def whole(sites):
    return {name: pa.concat_tables([site[name] for site in sites]) for name in SCHEMAS}


@pytest.fixture(scope="module")
def state(plan, sites):
    return churned(plan, sites)


def churned(plan, sites):
    """Return the state of three sites, one of which had rows of a fourth and deleted them, merged, sent as bytes."""
    guests = drawn(9)
    merged = sum((filled(plan, site) for site in sites[1:]), filled(plan, sites[0]))
    found = merged + filled(plan, guests) + filled(plan, guests, -1)
    return el.State.from_bytes(found.to_bytes())


def test_every_kind_of_query_keeps_what_its_document_keeps(plan):
    by_id = plan.layout.by_id
    for planned in plan.layout.queries:
        assert planned.method == ("skimmed" if planned.name == "rows" else "document")
        if planned.name in KINDS:
            assert {type(by_id[name].spec) for name in planned.ids} == {KINDS[planned.name]}
    assert plan.nbytes <= 16_000_000


def test_sites_deletes_and_bytes_leave_the_counters_of_the_net_rows(plan, state, whole):
    direct = filled(plan, whole)
    for name, counters in direct.snapshot.counters.items():
        np.testing.assert_array_equal(state.snapshot.counters[name], counters)


@pytest.mark.parametrize("query", sorted(QUERIES))
def test_intervals_hold_the_exact_answer(state, whole, query):
    # one seed, so that this is a test of the path; coverage over seeds is in tests/answer/test_document_*.py
    estimate, truth = state.answer(query), by_duckdb(QUERIES[query], whole)
    assert estimate.method == ("exact" if query == "rows" else "document")
    assert estimate.low <= truth <= estimate.high
    if query in ("two", "sum", "mean", "itself", "wide", "ints", "longs"):
        assert estimate.value == pytest.approx(truth, rel=0.25)


@pytest.mark.parametrize(("query", "key", "bits"), [("two", "b", 16), ("ints", "i", 32), ("longs", "l", 64)])
def test_two_way_joins_are_the_documents_procedure(sites, whole, query, key, bits):
    state = churned(asked({query: QUERIES[query]}, budget="8 MB").plan(), sites)
    (planned,) = state.snapshot.layout.queries
    sides = [state.snapshot.layout.by_id[name] for name in planned.ids]
    spec, leaves = sides[0].spec, sides[0].spec.level(0)
    assert (spec.bits, spec.kept_levels) == (
        bits,
        1 if bits == 16 else bits,
    )  # of 16 bits, every key is tried
    rows, totals = [], []
    for side in sides:
        counters = state.snapshot.counters[side.id]
        rows.append(leaves.rows(spec.levels(counters)[0]).tolist())
        totals.append(int(counters[-1]))
    # nothing but the keys that occur is near the threshold of 8 n / width, so that the oracle tries only these
    occurring = np.unique(np.concatenate([whole[name][key].to_numpy() for name in "rs"]))
    domain = [int(each) % (1 << bits) for each in occurring]
    dense = [
        len(naive.skim_dense(leaves, *each, 4.0)[1]) for each in zip(rows, [domain] * 2, totals, strict=True)
    ]
    assert min(dense) >= 3
    expected = naive.est_skim_join_size(leaves, *rows, domain, totals, 4.0)
    assert state.answer(query).value == round(expected)
    (shown,) = (
        each for word, each in json.loads(state.explain(query, form="json")).items() if "sketches" in word
    )
    assert shown[0]["dense keys"] == dense


def test_ad_hoc_queries_read_the_same_synopses(state):
    text = "SELECT COUNT(*) FROM s JOIN r ON s.b = r.b"
    assert state.answer(text, method="document").value == state.answer("two").value
    sides = "SELECT COUNT(*) FROM (SELECT b FROM s INTERSECT SELECT b FROM r)"
    assert state.answer(sides, method="document").value == state.answer("both").value


def test_next_to_a_sample_answers_are_exact_while_everything_fits(sites):
    names = ("two", "chain", "both", "pairs")
    small = asked({name: QUERIES[name] for name in names}, samples=True, budget="9 MB").plan()
    state = filled(small, sites[0])
    assert all(state.answer(name).exact for name in names)
    overflowing = asked({"both": QUERIES["both"], "two": QUERIES["two"]}, samples=True, budget="90 KB").plan()
    rng = np.random.default_rng(4)
    many = {name: pa.table({"b": rng.integers(-32768, 32768, 20_000).astype(np.int16)}) for name in "rs"}
    many["r"] = many["r"].append_column("a", many["r"]["b"])
    many["s"] = many["s"].append_column("c", many["s"]["b"])
    state = filled(overflowing, many)
    for name in ("both", "two"):
        assert state.answer(name).method == "document"
        assert state.answer(name).low <= by_duckdb(QUERIES[name], many) <= state.answer(name).high
    with pytest.raises(
        el.PlanError, match="raise it to that"
    ):  # what a query asks for is not left out in silence
        asked({"both": QUERIES["both"]}, samples=True, budget="20 KB").plan()


def test_both_forms_of_two_level_sketches(sites):
    workload = asked({}, method="skimmed")
    workload.query("spread", QUERIES["both"], method="document")
    workload.query("copies", QUERIES["both"], method="document-copies")
    plan = workload.plan()
    by_id = plan.layout.by_id
    forms = {each.name: {by_id[name].spec.spread for name in each.ids} for each in plan.layout.queries}
    assert forms == {"spread": {True}, "copies": {False}}
    state, truth = filled(plan, sites[0]), by_duckdb(QUERIES["both"], sites[0])
    for name in forms:
        assert state.answer(name).low <= truth <= state.answer(name).high


@pytest.mark.parametrize(
    ("query", "method", "known"),
    [
        (QUERIES["both"], "agms", "skimmed, document, document-copies"),
        (QUERIES["pairs"], "hash", "skimmed, document"),
        (QUERIES["rows"], "document", "skimmed"),
        (QUERIES["two"], "document-copies", "skimmed, hash, agms, document"),
    ],
)
def test_a_method_without_effect_is_refused_with_those_that_have_one(state, query, method, known):
    with pytest.raises(el.PlanError, match=f"has no effect on it; its methods are {known}"):
        asked({}).query("q", query, method=method)
    with pytest.raises(el.PlanError, match=f"has no effect on this query: its methods are {known}"):
        state.answer(query, method=method)


def test_a_workloads_method_is_refused_for_groups_and_can_be_overridden():
    groups = "SELECT b, COUNT(*) FROM r GROUP BY b"
    with pytest.raises(el.PlanError, match="method='document' has no effect on it: name one of its own"):
        asked({}, samples=True).query("g", groups)
    asked({}, samples=True).query("g", groups, method="skimmed")
    with pytest.raises(el.PlanError, match="is not one of skimmed, hash, agms, document"):
        el.Workload(method="documents")


def pipeline(workload, queries):
    streams = "".join(
        f'[streams.{name}]\nschema = "{schema}"\nformat = "parquet"\npath = "{name}"\n'
        for name, schema in SCHEMAS.items()
    )
    return parse_pipeline(f"[workload]\n{workload}\n{streams}[queries]\n{queries}\n", Path("pipeline.toml"))


def test_a_pipeline_file_plans_what_the_same_workload_plans():
    read = pipeline(
        'budget = "16 MB"\nseed = 5\nsamples = false\nmethod = "document"\nmax_distinct = 1024\nhash = "poly4"',
        "\n".join(
            [f'{name} = "{sql}"' for name, sql in QUERIES.items()]
            + [f'atomic = {{ sql = "{QUERIES["two"]}", method = "agms", partitions = "off" }}']
            + [f'copies = {{ sql = "{QUERIES["both"]}", method = "document-copies" }}']
        ),
    )
    made = asked(hash="poly4")
    made.query("atomic", QUERIES["two"], method="agms", partitions="off")
    made.query("copies", QUERIES["both"], method="document-copies")
    assert read.plan() == made.plan()
    for kept in made.plan().layout.kept:
        assert getattr(kept.spec, "hash", "poly4") == "poly4"


def test_a_pipeline_file_has_guarantees_and_parts(tmp_path):
    sized = pipeline(
        'guarantee = [0.3, 0.2]\nmethod = "document"\nmax_distinct = 256\nseed = 5',
        f'd = "{QUERIES["distinct"]}"\nu = {{ sql = "{QUERIES["union"]}", guarantee = [0.5, 0.2] }}',
    ).plan()
    found = {each.name: (each.guarantee.epsilon, each.guarantee.delta) for each in sized.layout.queries}
    assert found == {"d": (0.3, 0.2), "u": (0.5, 0.2)}
    known = filled(asked({"two": QUERIES["two"]}, method="agms").analysis(budget="4 MB"), drawn(1))
    (tmp_path / "known.json").write_text(known.statistics().to_json())
    divided = pipeline(
        f'budget = "60 KB"\nsamples = false\nstatistics = "{tmp_path / "known.json"}"',
        f'two = {{ sql = "{QUERIES["two"]}", method = "agms", partitions = 3 }}',
    ).plan()
    assert len(divided.layout.queries[0].decision.parts) == 3


@pytest.mark.parametrize("most", [0, -1, 2.5, True, "many", 2**61])
def test_a_number_of_elements_that_cannot_be_is_refused(most):
    with pytest.raises(el.PlanError, match=r"max_distinct=.* is not a whole number from 1 to"):
        el.Workload(max_distinct=most)
