"""What a store compares of two plans: structures, so that no sentence decides what is kept."""

import pytest

import eddyline as el
from eddyline.api import durable

QUERIES = {
    "pairs": "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k",
    "sums": "SELECT SUM(a.x) FROM a JOIN b ON a.k = b.k WHERE b.x < 5",
    "values": "SELECT COUNT(DISTINCT k) FROM a",
}


def layout(*, seed=1, budget="64 KB", samples=True, queries=QUERIES, **window):
    made = el.Workload(budget=budget, seed=seed, samples=samples)
    for name in "ab":
        made.stream(name, "k BIGINT, x BIGINT, at TIMESTAMP", event_time="at")
    for name, text in queries.items():
        made.query(name, text, **window)
    return made.plan().layout


@pytest.mark.parametrize("samples", [True, False])
@pytest.mark.parametrize("window", [{}, {"window": "10 minutes", "slide": "5 minutes"}])
def test_every_name_has_a_digest_that_words_do_not_change(monkeypatch, samples, window):
    made = layout(budget="1 MB", samples=samples, **window)
    before = durable.stamp(made)
    assert before.identity.keys() == before.describe.keys()
    monkeypatch.setattr(durable, "describe_sample", lambda _: "reworded")
    monkeypatch.setattr(durable, "describe_demand", lambda _: "reworded")
    after = durable.stamp(made)
    assert after.identity == before.identity


def test_another_seed_and_other_queries_change_the_digest_of_a_sample():
    def digests(**changed):
        made = layout(**changed)
        stamped = durable.stamp(made)
        return {stamped.identity[sample.id] for sample in made.samples}

    fewer = {name: QUERIES[name] for name in ("pairs", "values")}
    assert digests() == digests()
    assert not digests() & (digests(seed=2) | digests(queries=fewer))
