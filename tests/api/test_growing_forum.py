"""Seven queries over a forum that grows in the order of time: chains and stars whose heaviest keys come late."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from tests.data.arrivals import growing, zipf
from tests.oracles.coverage import Coverage

ROWS, BATCHES = 9_000, 20
SCHEMAS = {
    "members": "u BIGINT",
    "topics": "t BIGINT, u BIGINT, board BIGINT",
    "notes": "t BIGINT, u BIGINT, words BIGINT",
    "awards": "u BIGINT",
}
ON_TOPIC = "FROM topics JOIN notes ON topics.t = notes.t"
QUERIES = {
    "two": f"SELECT COUNT(*) {ON_TOPIC}",
    "average": f"SELECT AVG(notes.words) {ON_TOPIC} WHERE topics.board < 3",
    "groups": f"SELECT topics.board, COUNT(*) AS n {ON_TOPIC} GROUP BY topics.board",
    "left_join": "SELECT COUNT(*) FROM members LEFT JOIN awards ON members.u = awards.u",
    "chain": f"SELECT COUNT(*) {ON_TOPIC} JOIN awards ON topics.u = awards.u",
    "long_chain": f"SELECT COUNT(*) {ON_TOPIC} JOIN awards a ON topics.u = a.u JOIN members b ON notes.u = b.u "
    "JOIN awards c ON b.u = c.u",
    "star": "SELECT COUNT(*) FROM topics JOIN notes ON topics.u = notes.u JOIN awards ON topics.u = awards.u",
}


def forum(seed, late):
    """The streams in the order of time; late: the share of the last two fifths that is of one new member."""
    rng = np.random.default_rng([seed, 29])
    member = growing(rng, ROWS, zipf(rng, ROWS, 0), new=0.15, recent=0.3).keys
    member[(np.arange(ROWS) > ROWS * 3 // 5) & (rng.random(ROWS) < late)] = member.max() + 1
    kind = rng.choice(3, ROWS, p=(0.2, 0.6, 0.2))
    topics, notes, awards = (np.flatnonzero(kind == each) for each in range(3))
    topic = growing(rng, len(notes), zipf(rng, ROWS, 0), new=len(topics) / len(notes) / 2).keys
    _, joined = np.unique(member, return_index=True)
    at = {"members": np.sort(joined), "topics": topics, "notes": notes, "awards": awards}
    made = {name: {"u": member[rows]} for name, rows in at.items()}
    made["topics"] |= {"t": np.arange(len(topics)), "board": rng.integers(0, 6, len(topics))}
    made["notes"] |= {
        "t": np.minimum(topic, len(topics) - 1),
        "words": rng.lognormal(3, 1, len(notes)).astype(int),
    }
    return {name: (pa.table(columns), at[name]) for name, columns in made.items()}


def exact(tables):
    """The exact answers, by key; of groups by board."""
    topics, notes = (
        {name: t[name].to_numpy() for name in t.column_names} for t in (tables["topics"], tables["notes"])
    )
    members = int(max(table["u"].to_numpy().max() for table in tables.values())) + 1
    awarded = np.bincount(tables["awards"]["u"].to_numpy(), minlength=members)
    author, board = topics["u"][notes["t"]], topics["board"][notes["t"]]
    by_member = [np.bincount(own["u"], minlength=members) for own in (topics, notes)]
    return {
        "two": len(board),
        "average": notes["words"][board < 3].mean(),
        "groups": np.bincount(board, minlength=6),
        "left_join": np.maximum(awarded[tables["members"]["u"].to_numpy()], 1).sum(),
        "chain": awarded[author].sum(),
        "long_chain": (awarded[author] * awarded[notes["u"]]).sum(),
        "star": (by_member[0] * by_member[1] * awarded).sum(),
    }


def filled(streams, budget, seed):
    w = el.Workload(budget=budget, seed=seed)
    for name, schema in SCHEMAS.items():
        w.stream(name, schema)
    for name, text in QUERIES.items():
        w.query(name, text)
    state, ends = w.plan().empty(), np.linspace(0, ROWS, BATCHES + 1)
    for start, end in pairwise(ends):
        for name, (table, at) in streams.items():
            state.update(name, table.slice(*_part(at, start, end)))
    return state


def _part(at, start, end):
    first, last = np.searchsorted(at, (start, end))
    return int(first), int(last - first)


def held(answer, truth):
    """Which intervals hold: that of one number, or those of all groups."""
    if isinstance(answer, el.Estimate):
        return [answer.low - 1e-6 <= truth <= answer.high + 1e-6]
    rows = answer.to_arrow().to_pylist()
    return [row["n_low"] <= truth[row["board"]] <= row["n_high"] for row in rows]


@pytest.mark.calibration
@pytest.mark.parametrize(("budget", "late"), [("24 KB", 0.0), ("48 KB", 0.0), ("48 KB", 0.1)])
def test_intervals_hold_on_a_forum_in_the_order_of_time(budget, late):
    """24 seeds of seven queries.

    Without what exact totals show to be missing, and without sketches of keys that are not followed, chains held in 60%
    to 70% and stars in 90%, with errors of 44%. Below 48 KB no sketch fits beside seven queries, and a star does not hold
    where its heaviest member comes late: docs/reference/accuracy/hard-cases.md.
    """
    coverage, exactly = Coverage(), 0
    for seed in range(24):
        streams = forum(seed, late)
        truths = exact({name: table for name, (table, _) in streams.items()})
        state = filled(streams, budget, seed)
        for name, truth in truths.items():
            answer = state.answer(name)
            exactly += answer.exact
            for inside in [] if answer.exact else held(answer, truth):
                coverage.add(seed, inside, name)
    assert exactly < 24 * len(QUERIES) / 4
    coverage.check()
