"""Pictures of plans: what they show of sharing, and that they are well-formed."""

import json
import xml.etree.ElementTree as ET

import pytest

import eddyline as el
from eddyline.plan.show.picture import sharing_of

STREAMS = {"follows": "src BIGINT, dst BIGINT", "posts": "author BIGINT, likes INT"}
QUERIES = {
    "reach": "SELECT COUNT(*) FROM follows f JOIN posts p ON f.dst = p.author",
    "paths": "SELECT COUNT(*) FROM follows a JOIN follows b ON a.dst = b.src JOIN posts p ON b.dst = p.author",
    "back": "SELECT COUNT(*) FROM follows a JOIN follows b ON a.dst = b.src",
    "authors": "SELECT COUNT(DISTINCT author) FROM posts",
}


@pytest.fixture(scope="module")
def plan():
    made = el.Workload(budget="2 MB", seed=1, samples=False)
    for name, schema in STREAMS.items():
        made.stream(name, schema)
    for name, text in QUERIES.items():
        made.query(name, text)
    return made.plan()


def test_the_text_says_why_two_sketches_are_not_one(plan):
    (line,) = [line for line in plan.explain().splitlines() if "are two" in line]
    assert "query paths would hash its joins on (dst) = (src) and on (dst) = (author) alike" in line


def test_mermaid_shows_joins_synopses_readers_and_what_is_apart(plan):
    lines = plan.explain("mermaid").splitlines()
    assert lines[0] == "flowchart LR"
    assert sum("cannot share" in line for line in lines) == 1
    assert sum(line.strip().startswith("subgraph") for line in lines) == len(QUERIES) + len(STREAMS)
    assert sum(line.strip() == "end" for line in lines) == len(QUERIES) + len(STREAMS)
    shared = next(kept for kept in plan.layout.kept if sum(kept.id in q.ids for q in plan.layout.queries) > 1)
    reads = sum(kept.id in query.ids for kept in plan.layout.kept for query in plan.layout.queries)
    assert sum("-->" in line for line in lines) == reads
    assert any(f"{shared.nbytes:,} bytes" in line for line in lines), lines


def test_svg_is_well_formed_and_names_every_query_and_conflict(plan):
    root = ET.fromstring(plan.explain("svg"))
    assert root.get("font-family") == "sans-serif"
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    for name in QUERIES:
        assert any(text.startswith(name) for text in texts), texts
    assert sum(text.startswith("not shared") for text in texts) == 1


def test_other_forms_are_refused(plan):
    with pytest.raises(el.PlanError, match="text, json, mermaid, svg"):
        plan.explain("png")


def test_text_and_json_show_weights_sizes_and_components(plan):
    """W / M of each query is its expected squared error; components hold every sketch of a join once."""
    found = json.loads(plan.explain("json"))
    sharing, sizes = found["sharing"], {each["id"]: each["counters"] for each in found["synopses"]}
    reads = {each["name"]: each["reads"].get("count", []) for each in found["queries"]}
    errors, z = plan.expected_errors(), 1.959964
    for each in sharing["queries"]:
        (ids,) = reads[each["query"]]
        assert each["size"] == min(sizes[name] for name in ids)
        assert (each["weight"] / each["size"]) ** 0.5 * z == pytest.approx(errors[each["query"]], rel=1e-6)
        assert f"{each['query']}: W {each['weight']:,.3g}, M {each['size']:,} counters" in plan.explain()
    held = [name for each in sharing["components"] for name in each["sketches"]]
    joins = {name for query in ("reach", "paths", "back") for name in reads[query][0]}
    assert sorted(held) == sorted(joins)
    assert {name for each in sharing["components"] for name in each["queries"]} == {"reach", "paths", "back"}
    assert [each["why"] for each in sharing["apart"]] == [each.why for each in sharing_of(plan.layout).apart]
    assert "component 1: " in plan.explain()


def test_a_join_that_was_added_to_a_running_plan_is_drawn_without_slots():
    made = el.Workload(budget="100 KB", seed=1)
    for name, schema in STREAMS.items():
        made.stream(name, schema)
    before = made.query("reach", QUERIES["reach"]).plan()
    added = made.query("again", QUERIES["reach"].lower()).plan(keep=before)
    assert [each.ad_hoc for each in added.layout.queries] == [True, False]
    lines = added.explain("mermaid").splitlines()
    assert any('subgraph q0["again' in line for line in lines), lines
    assert sum("---|" in line for line in lines) == 1
