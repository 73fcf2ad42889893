"""Graphs, for judging: a power-law graph with paths of two and three edges, and a follow graph with unfollows."""

import numpy as np

from bank.dataset import Data
from bank.draws import LAST, amounts, at_once, at_random, table, zipf

PATH_QUERIES = {
    "two_hops": "SELECT COUNT(*) FROM edges x JOIN edges y ON x.dst = y.src",
    "common_target": "SELECT COUNT(*) FROM edges x JOIN edges y ON x.dst = y.dst",
    "weight_from_label": "SELECT SUM(edges.w) FROM nodes JOIN edges ON nodes.n = edges.src WHERE nodes.label = 1",
    "mean_weight": "SELECT AVG(edges.w) FROM edges JOIN nodes ON edges.dst = nodes.n WHERE nodes.label <= 2",
    "three_hops": "SELECT COUNT(*) FROM edges x JOIN edges y ON x.dst = y.src JOIN edges z ON y.dst = z.src",
    "labelled_ends": (
        "SELECT COUNT(*) FROM nodes a JOIN edges ON a.n = edges.src JOIN nodes b ON edges.dst = b.n "
        "WHERE a.label = 1 AND b.label <= 2"
    ),
    "labelled_path": (
        "SELECT SUM(x.w) FROM nodes a JOIN edges x ON a.n = x.src JOIN edges y ON x.dst = y.src "
        "JOIN nodes b ON y.dst = b.n WHERE a.label = 1"
    ),
    "sources": "SELECT COUNT(DISTINCT src) FROM edges",
    "pairs": "SELECT COUNT(DISTINCT src, dst) FROM edges",
    "inner": "SELECT COUNT(*) FROM (SELECT src FROM edges INTERSECT SELECT dst FROM edges)",
}
FOLLOW_QUERIES = {
    "reach": "SELECT COUNT(*) FROM posts JOIN follows ON posts.author = follows.followed",
    "likes_seen": "SELECT SUM(posts.likes) FROM posts JOIN follows ON posts.author = follows.followed",
    "mean_likes": (
        "SELECT AVG(posts.likes) FROM posts JOIN users ON posts.author = users.u WHERE users.country = 1"
    ),
    "shared_taste": "SELECT COUNT(*) FROM follows x JOIN follows y ON x.followed = y.followed",
    "reach_by_country": (
        "SELECT COUNT(*) FROM posts JOIN follows ON posts.author = follows.followed "
        "JOIN users ON follows.fan = users.u WHERE users.country = 1"
    ),
    "friends_of_friends": (
        "SELECT COUNT(*) FROM follows x JOIN follows y ON x.followed = y.fan JOIN users ON y.followed = users.u "
        "WHERE users.country <= 2"
    ),
    "feeds": (
        "SELECT SUM(posts.likes) FROM users a JOIN follows ON a.u = follows.fan "
        "JOIN users b ON follows.followed = b.u JOIN posts ON b.u = posts.author WHERE a.country = 1"
    ),
    "followed": "SELECT COUNT(DISTINCT followed) FROM follows",
    "silent": "SELECT COUNT(*) FROM (SELECT followed FROM follows EXCEPT SELECT author FROM posts)",
}


def paths(seed: int, size: int, *, exponent: float) -> Data:
    """Return directed edges whose in- and out-degrees have power laws, related to each other, and labelled nodes."""
    rng = np.random.default_rng([seed, 11, int(100 * exponent)])
    nodes, edges = size // 10, 9 * size // 10
    place = rng.permutation(nodes)
    near = np.clip(np.arange(nodes) + rng.integers(-nodes // 20, nodes // 20 + 1, nodes), 0, nodes - 1)
    columns = {
        "src": place[zipf(rng, exponent, nodes, edges)],
        "dst": place[near[zipf(rng, 0.8 * exponent, nodes, edges)]],
        "w": amounts(rng, edges, 0.5),
    }
    own = {"n": np.arange(nodes), "label": rng.integers(0, 6, nodes)}
    tables = {
        "nodes": at_random(rng, "n BIGINT, label BIGINT", own),
        "edges": at_random(rng, "src BIGINT, dst BIGINT, w BIGINT", columns),
    }
    return Data(tables, PATH_QUERIES, seed)


def follows(seed: int, size: int, *, celebrities: int = 12) -> Data:
    """Return users who follow each other and their posts; a third unfollows, above all celebrities that came late.

    A celebrity is followed by one in some twenty users from a time of its own on.
    """
    rng = np.random.default_rng([seed, 12])
    users, count, posts = size // 12, size // 2, size // 4
    fan = rng.integers(0, users, count)
    followed = rng.permutation(users)[zipf(rng, 0.75, users, count)]
    born = LAST * rng.random(count)
    famous, rises = rng.integers(0, users, celebrities), 0.9 * rng.random(celebrities)
    which = rng.integers(0, 20 * celebrities // 4, count)
    caught = (which < celebrities) & (born > rises[np.minimum(which, celebrities - 1)])
    followed = np.where(caught, famous[np.minimum(which, celebrities - 1)], followed)
    leaves = rng.random(count) < np.where(caught, 0.6, 0.25)
    dies = np.where(leaves, born + (LAST - born) * rng.random(count) ** 2, np.inf)
    author = np.where(
        rng.random(posts) < 0.9, rng.permutation(users)[zipf(rng, 0.9, users, posts)], followed[:posts]
    )
    columns = {"author": author, "likes": amounts(rng, posts, 1.3)}
    tables = {
        "users": at_once(
            "u BIGINT, country BIGINT", {"u": np.arange(users), "country": zipf(rng, 0.8, 8, users)}
        ),
        "follows": table("fan BIGINT, followed BIGINT", {"fan": fan, "followed": followed}, born, dies),
        "posts": at_random(rng, "author BIGINT, likes BIGINT", columns, dying=0.1),
    }
    return Data(tables, FOLLOW_QUERIES, seed)
