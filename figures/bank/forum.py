"""A forum in the order of time: who is active early becomes more active, and a few that come late overtake the rest."""

from collections.abc import Iterator

import numpy as np

from bank.dataset import Data
from bank.draws import LAST, amounts, table
from bank.growth import attached

LATE = 0.6
"""The part of the time after which a late member comes."""
ON_TOPIC = "FROM topics JOIN notes ON topics.t = notes.t"
QUERIES = {
    "two": f"SELECT COUNT(*) {ON_TOPIC}",
    "average": f"SELECT AVG(notes.words) {ON_TOPIC} WHERE topics.board = 1",
    "groups": f"SELECT topics.board AS g, COUNT(*) AS n, SUM(notes.words) AS m {ON_TOPIC} GROUP BY topics.board",
    "left": "SELECT COUNT(*) FROM members LEFT JOIN awards ON members.u = awards.u",
    "chain": f"SELECT COUNT(*) {ON_TOPIC} JOIN awards ON topics.u = awards.u",
    "long chain": f"SELECT COUNT(*) {ON_TOPIC} JOIN awards a ON topics.u = a.u JOIN members b ON notes.u = b.u "
    "JOIN awards c ON b.u = c.u",
    "star": "SELECT COUNT(*) FROM topics JOIN notes ON topics.u = notes.u JOIN awards ON topics.u = awards.u",
}


def forum(
    seed: int, size: int = 100_000, *, new: float = 0.15, recent: float = 0.3, late: float = 0.0
) -> Data:
    """Return members, their topics, the notes on topics and the awards of members, with about `size` rows.

    new: the share of rows that are of a member who was not active before. recent: the share of earlier rows, the
    latest ones, whose member or topic a row takes. The less, the later the heavy ones come.
    late: the share of rows after the first three fifths that are of one new member, and of notes on one of the topics.
    """
    rng = np.random.default_rng([seed, 9, int(100 * new), int(100 * recent), int(100 * late)])
    kind = rng.choice(3, size, p=(0.2, 0.6, 0.2))
    member, at = attached(rng, size, new, recent), np.sort(LAST * rng.random(size))
    member[(at > LATE * LAST) & (rng.random(size) < late)] = member.max() + 1
    author, fan, honored = (member[kind == each] for each in range(3))
    written, noted, given = (at[kind == each] for each in range(3))
    members, topics, notes = int(member.max()) + 1, len(author), len(fan)
    joined = np.full(members, LAST)
    np.minimum.at(joined, member, at)
    topic = np.minimum(attached(rng, notes, topics / notes / 2, recent), topics - 1)
    topic[(noted > LATE * LAST) & (rng.random(notes) < late)] = rng.integers(topics // 2)
    of_topics = {"t": np.arange(topics), "u": author, "board": rng.integers(0, 6, topics)}
    of_notes = {"t": topic, "u": fan, "words": amounts(rng, notes)}
    return Data(
        {
            "members": table("u BIGINT", {"u": np.arange(members)}, joined - 1e-9),
            "topics": table("t BIGINT, u BIGINT, board BIGINT", of_topics, written),
            "notes": table("t BIGINT, u BIGINT, words BIGINT", of_notes, noted),
            "awards": table("u BIGINT", {"u": honored}, given),
        },
        QUERIES,
        seed,
    )


def truths(data: Data) -> Iterator[tuple[str, list[tuple[float, ...]]]]:
    """Yield the exact rows of each answer, by key: the joined rows are too many for an engine that makes them."""
    topics, notes, members = (data.tables[name].columns for name in ("topics", "notes", "members"))
    by_member = np.bincount(data.tables["awards"].columns["u"], minlength=len(members["u"]))
    author, board = topics["u"][notes["t"]], topics["board"][notes["t"]]
    words, first = notes["words"], board == 1
    yield "two", [(float(len(words)),)]
    yield "average", [(float(words[first].mean()),)]
    yield "groups", [(float(g), float((board == g).sum()), float(words[board == g].sum())) for g in range(6)]
    yield "left", [(float(np.maximum(by_member, 1).sum()),)]
    yield "chain", [(float(by_member[author].sum()),)]
    yield "long chain", [(float((by_member[author] * by_member[notes["u"]]).sum()),)]
    each = (np.bincount(own["u"], minlength=len(by_member)) for own in (topics, notes))
    yield "star", [(float((next(each) * next(each) * by_member).sum()),)]
