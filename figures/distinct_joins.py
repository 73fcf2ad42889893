"""Distinct counts over joins once sampled, on data like a forum's: error, coverage and width by form and by arrival.

    python figures/distinct_joins.py [--seeds 20] [--first 5000] [--budgets 64KB,256KB] [--arrivals late,sorted]
    python figures/distinct_joins.py --data flights

prints for each distinct count the values a pair joins through, the root mean square of the relative error, how often
95% intervals hold with the upper end of the Clopper-Pearson bound, and the median half-width over the answer. A cell
whose bound is below 93% is marked with "short". The last line of a setting is the error of the other queries of the
workload, which share the memory. Constants were chosen on seeds below 5,000 of `forum`.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import scipy
from bank.flights import read_flights

import eddyline as el

POSTS, USERS, COMMENTS, VOTES, COMMUNITIES, TYPES = 8_000, 1_200, 50_000, 80_000, 30, 12
BATCHES, LEAST = 10, 0.93
FORUM = {
    "posts": "id BIGINT, owner BIGINT, community BIGINT, score BIGINT",
    "comments": "post BIGINT, author BIGINT, score BIGINT",
    "votes": "post BIGINT, voter BIGINT, type BIGINT",
}
ON_POST, OF_POST = "votes v JOIN comments c ON v.post = c.post", "posts p JOIN comments c ON p.id = c.post"
FORUM_QUERIES = {
    "types": f"SELECT COUNT(DISTINCT v.type, c.author) FROM {ON_POST}",
    "owners": f"SELECT COUNT(DISTINCT p.owner, c.author) FROM {OF_POST}",
    "authors": "SELECT COUNT(DISTINCT c.author) FROM comments c JOIN votes v ON c.post = v.post WHERE v.type = 9",
    "threads": f"SELECT COUNT(DISTINCT p.owner, p.id, c.author) FROM {OF_POST}",
    "n": f"SELECT COUNT(*) FROM {ON_POST}",
    "n2": f"SELECT COUNT(*) FROM {ON_POST} WHERE v.type = 2",
    "n3": f"SELECT COUNT(*) FROM {ON_POST} WHERE c.score > 5",
    "scores": f"SELECT SUM(c.score) FROM {OF_POST}",
    "mean": f"SELECT AVG(c.score) FROM {OF_POST} WHERE p.score > 10",
    "star": f"SELECT COUNT(*) FROM {OF_POST} JOIN votes v ON v.post = p.id",
    "star2": f"SELECT SUM(c.score) FROM {OF_POST} JOIN votes v ON v.post = p.id WHERE v.type < 3",
    "self": "SELECT COUNT(*) FROM comments c JOIN posts p ON c.author = p.owner",
    "both": "SELECT COUNT(*) FROM (SELECT author FROM comments INTERSECT SELECT voter FROM votes)",
    "voters": "SELECT COUNT(DISTINCT voter) FROM votes WHERE type = 3",
}
FLIGHTS = {
    "planes": "tailnum STRING, maker STRING, model STRING",
    "flights": "carrier STRING, tailnum STRING, origin STRING, dest STRING, day BIGINT",
}
OF_PLANE = "flights f JOIN planes p ON f.tailnum = p.tailnum"
SAME_PLANE = "flights f JOIN flights g ON f.tailnum = g.tailnum"
FLIGHTS_QUERIES = {
    "models": f"SELECT COUNT(DISTINCT f.dest, p.model) FROM {OF_PLANE}",
    "days": f"SELECT COUNT(DISTINCT f.day, p.model) FROM {OF_PLANE}",
    "onward": f"SELECT COUNT(DISTINCT f.dest, g.day) FROM {SAME_PLANE} WHERE g.carrier = 'DL'",
    "places": f"SELECT COUNT(DISTINCT f.dest, f.day) FROM {OF_PLANE} WHERE p.maker = 'BOEING'",
    "n": f"SELECT COUNT(*) FROM {OF_PLANE} WHERE p.maker = 'BOEING'",
    "tails": "SELECT COUNT(DISTINCT tailnum) FROM flights",
}
ARRIVALS = ("stationary", "late", "sorted", "churning")
Tables = dict[str, pa.Table]
Fed = list[tuple[str, pa.Table, int]]
"""Changes in their order: the stream, rows, and 1 for inserts or -1 for deletes."""


def weighted(rng: np.random.Generator, values: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """Return values drawn in proportion to their weights."""
    return values[rng.choice(len(values), size, p=weights / weights.sum())]


class Forum:
    """Users and posts of communities; activity and popularity fall off by a power of the rank."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.activity = rng.permutation(np.arange(1, USERS + 1) ** -rng.uniform(0.6, 1.0))
        self.popularity = rng.permutation(np.arange(1, POSTS + 1) ** -rng.uniform(0.6, 0.9))
        share = np.arange(1, COMMUNITIES + 1) ** -0.7
        self.of_user = weighted(rng, np.arange(COMMUNITIES), share, USERS)
        self.of_post = weighted(rng, np.arange(COMMUNITIES), share, POSTS)

    def users_of(self, posts: np.ndarray, inside: float) -> np.ndarray:
        """Return a user for each post, of its own community in a share of cases."""
        users = weighted(self.rng, np.arange(USERS), self.activity, len(posts))
        own = self.rng.random(len(posts)) < inside
        for community in range(COMMUNITIES):
            at, members = (
                np.flatnonzero(own & (self.of_post[posts] == community)),
                np.flatnonzero(self.of_user == community),
            )
            if len(at) and len(members):
                users[at] = weighted(self.rng, members, self.activity[members], len(at))
        return users

    def tables(self, arrival: str) -> Tables:
        """Return the net rows of all streams, in the order of their arrival."""
        rng = self.rng
        made = {}
        late = rng.choice(POSTS, 3)
        for name, size, inside in (("comments", COMMENTS, 0.8), ("votes", VOTES, 0.6)):
            posts = weighted(rng, np.arange(POSTS), self.popularity, size)
            if arrival == "late":
                posts = posts[~np.isin(posts, late)]
                posts = np.append(posts, rng.choice(late, size // 8))
            if arrival == "sorted":
                posts = posts[np.argsort(self.popularity[posts], kind="stable")]
            made[name] = posts, self.users_of(posts, inside)
        comments, votes = made["comments"], made["votes"]
        types = weighted(rng, np.arange(TYPES), np.arange(1, TYPES + 1) ** -1.2, len(votes[0]))
        everyone = np.arange(POSTS)
        return {
            "posts": pa.table(
                {
                    "id": everyone,
                    "owner": self.users_of(everyone, 0.9),
                    "community": self.of_post,
                    "score": rng.poisson(12, POSTS),
                }
            ),
            "comments": pa.table(
                {"post": comments[0], "author": comments[1], "score": rng.poisson(3, len(comments[0]))}
            ),
            "votes": pa.table({"post": votes[0], "voter": votes[1], "type": types}),
        }


def flight_tables(arrival: str, rng: np.random.Generator) -> Tables:
    """Return planes and half of the departures, in the order of the calendar, of planes, or in none."""
    found = read_flights()
    flights = found["flights"][["carrier", "tailnum", "origin", "dest"]].assign(
        day=found["flights"]["hour"] // 24
    )
    planes = found["planes"][["tailnum", "manufacturer", "model"]].rename(columns={"manufacturer": "maker"})
    chosen = flights.sample(frac=0.5, random_state=int(rng.integers(1 << 31)))
    order = {"sorted": ["tailnum"], "late": ["day"]}.get(arrival)
    chosen = chosen.sort_values(order, kind="stable") if order else chosen
    return {
        "planes": pa.Table.from_pandas(planes, preserve_index=False),
        "flights": pa.Table.from_pandas(chosen, preserve_index=False),
    }


def changes(tables: Tables, arrival: str, rng: np.random.Generator) -> Iterator[tuple[str, pa.Table, int]]:
    """Yield the changes that leave the tables: where rows churn, as many more come and go."""
    extra = {}
    if arrival == "churning":
        for name, rows in tables.items():
            more = rows.take(rng.integers(0, len(rows), len(rows) // 2))
            first = more.column_names[0]
            extra[name] = more.set_column(0, first, more[first].take(rng.permutation(len(more))))
    for batch in range(BATCHES):
        for name, rows in tables.items():
            size = len(rows) // BATCHES
            yield name, rows.slice(batch * size, size if batch < BATCHES - 1 else None), 1
            if name in extra:
                size = len(extra[name]) // BATCHES
                yield name, extra[name].slice(batch * size, size), 1
                if batch >= BATCHES // 2:
                    for earlier in (2 * batch - BATCHES, 2 * batch - BATCHES + 1):
                        yield name, extra[name].slice(earlier * size, size), -1


def measured(
    data: str, arrival: str, budget: str, seed: int, *, first: bool
) -> Iterator[tuple[str, float, float, float, float]]:
    """Yield of each query its name, the truth, the estimate and its ends; of the first seed also its witnesses."""
    rng = np.random.default_rng(seed)
    tables = Forum(rng).tables(arrival) if data == "forum" else flight_tables(arrival, rng)
    schemas, queries = (FORUM, FORUM_QUERIES) if data == "forum" else (FLIGHTS, FLIGHTS_QUERIES)
    connection = duckdb.connect()
    w = el.Workload(budget=budget, seed=seed)
    for name, schema in schemas.items():
        connection.register(name, tables[name])
        w.stream(name, schema)
    for name, text in queries.items():
        w.query(name, text)
    state = w.plan().empty()
    for name, rows, sign in changes(tables, arrival, rng):
        state.update(name, rows, weights=np.full(len(rows), sign))
    for name, text in queries.items():
        found = state.answer(name)
        (truth,) = connection.sql(as_rows(text)).fetchall()[0]
        ends = (-np.inf if found.low is None else found.low, np.inf if found.high is None else found.high)
        yield name, float(truth), float(found.value or 0), *map(float, ends)
    for name, text in queries.items():
        if first and "DISTINCT" in text and " JOIN " in text:
            yield name + "/joined", *witnesses(connection, text)


def as_rows(text: str) -> str:
    """Return a count of several distinct columns as DuckDB has it, of a row."""
    head, counted, rest = text.partition("COUNT(DISTINCT ")
    columns, _, rest = rest.partition(")")
    return f"{head}{counted}({columns})){rest}" if "," in columns else text


def witnesses(connection: duckdb.DuckDBPyConnection, text: str) -> tuple[float, float, float, float]:
    """Return how many values of the join column a distinct tuple joins through, on the average."""
    columns = text.partition("DISTINCT ")[2].partition(")")[0]
    source = text.partition(" FROM ")[2]
    key = source.partition(" ON ")[2].partition(" ")[0]
    (pairs,) = connection.sql(f"SELECT COUNT(DISTINCT ({columns},)) FROM {source}").fetchall()[0]
    (joined,) = connection.sql(f"SELECT COUNT(DISTINCT ({columns}, {key})) FROM {source}").fetchall()[0]
    return joined / max(pairs, 1), 0.0, 0.0, 0.0


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=5000)
    parser.add_argument("--budgets", default="64KB,256KB")
    parser.add_argument("--arrivals", default=",".join(ARRIVALS))
    parser.add_argument("--data", default="forum", choices=("forum", "flights"))
    asked = parser.parse_args()
    for budget in asked.budgets.split(","):
        for arrival in asked.arrivals.split(","):
            found = defaultdict(list)
            for seed in range(asked.first, asked.first + asked.seeds):
                for name, *numbers in measured(asked.data, arrival, budget, seed, first=seed == asked.first):
                    found[name].append(numbers)
            report(
                f"{asked.data}, {arrival}, {budget}", {name: np.array(each) for name, each in found.items()}
            )


def report(setting: str, found: dict[str, np.ndarray]) -> None:
    """Print a line for each distinct count over a join, and one for the other queries."""
    print(f"\n{setting}\n{'':10} values  error   bias   held (at most)  half-width")
    joined = {name for name in found if f"{name}/joined" in found}
    others = []
    for name, rows in found.items():
        if "/" in name:
            continue
        truth, value, low, high = rows.T
        error = np.sqrt(np.mean((value / truth - 1) ** 2))
        if name not in joined:
            others.append(error)
            continue
        held = int(((low <= truth) & (truth <= high)).sum())
        most = 1.0 if held == len(truth) else float(scipy.stats.beta.ppf(0.975, held + 1, len(truth) - held))
        width = np.median((high - low) / 2 / truth)
        mean = found[f"{name}/joined"][:, 0].mean()
        print(
            f"{name:10} {mean:6.1f} {error:6.3f} {np.mean(value / truth - 1):+6.3f}   "
            f"{held / len(truth):5.3f} ({most:.3f}){' short' if most < LEAST else '      '} {width:6.3f}"
        )
    print(f"{'others':10} {'':6} {np.mean(others):6.4f} mean, {np.median(others):.4f} median", flush=True)


if __name__ == "__main__":
    main()
