"""Outer, semi and anti joins: streams with NULL keys, texts of every form, and texts made at random."""

import numpy as np
import pyarrow as pa

STREAMS = {
    "a": "k BIGINT, j BIGINT, x INT, g STRING",
    "b": "k BIGINT, j BIGINT, y INT, h STRING",
    "c": "k BIGINT, j BIGINT, z INT, w STRING",
}
QUERIES = [
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k",
    "SELECT SUM(a.x) FROM a LEFT JOIN b ON a.k = b.k",
    "SELECT SUM(b.y) FROM a LEFT JOIN b ON a.k = b.k",
    "SELECT SUM(a.x * b.y) FROM a LEFT JOIN b ON a.k = b.k",
    "SELECT COUNT(b.y) FROM a LEFT JOIN b ON a.k = b.k AND a.x > 2 AND b.y < 4",
    "SELECT AVG(a.x) FROM a LEFT OUTER JOIN b ON a.k = b.k AND a.x > 2 AND b.y < 4 WHERE a.j > 1",
    "SELECT VAR_POP(a.x) FROM a LEFT JOIN b ON a.k = b.k LEFT SEMI JOIN c ON c.j = a.j",
    "SELECT COUNT(*) FROM a RIGHT JOIN b ON a.k = b.k AND a.x > 2 AND b.y < 4",
    "SELECT SUM(7) FROM a RIGHT JOIN b ON a.k = b.k",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k AND a.k = b.j",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k AND a.j = b.k",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k AND 1 = 0",
    "SELECT COUNT(*) FROM a FULL OUTER JOIN b ON a.k = b.k",
    "SELECT COUNT(*) FROM a FULL JOIN b ON a.k = b.k AND a.x > 2 AND b.y < 4",
    "SELECT SUM(a.x) FROM a FULL JOIN b ON a.k = b.k AND a.x > 2 AND b.y < 4",
    "SELECT SUM(b.y) FROM a FULL JOIN b ON a.k = b.k AND a.x > 2 AND b.y < 4",
    "SELECT SUM(b.y * a.x) FROM a FULL JOIN b USING (k)",
    "SELECT COUNT(*) FROM a FULL JOIN b ON a.k = b.k WHERE a.x > 2",
    "SELECT COUNT(*) FROM a FULL JOIN b ON a.k = b.k AND b.y > 1 AND a.x < 4 WHERE b.y > 2",
    "SELECT COUNT(*) FROM a FULL JOIN b ON a.k = b.k WHERE b.y > 2 AND a.x < 3",
    "SELECT COUNT(*) FROM a FULL JOIN b ON a.k = b.k WHERE a.x > 1 AND b.k IS NULL",
    "SELECT COUNT(*) FROM a FULL JOIN b ON a.k = b.k WHERE b.j IN (SELECT j FROM c)",
    "SELECT COUNT(*) FROM a FULL JOIN b ON a.k = b.k WHERE 1 = 1",
    "SELECT COUNT(*) FROM a LEFT SEMI JOIN b ON a.k = b.k",
    "SELECT COUNT(*) FROM a LEFT ANTI JOIN b ON a.k = b.k AND b.y > 1 AND a.x < 3",
    "SELECT COUNT(*) FROM a WHERE k IN (SELECT k FROM b)",
    "SELECT COUNT(*) FROM a WHERE k NOT IN (SELECT k FROM b)",
    "SELECT COUNT(*) FROM a WHERE k NOT IN (SELECT k FROM b WHERE k IS NOT NULL)",
    "SELECT COUNT(*) FROM a WHERE k NOT IN (SELECT k FROM b WHERE y > 100)",
    "SELECT COUNT(*) FROM a WHERE NOT (x IN (SELECT y FROM b WHERE y IS NOT NULL AND b.h = 'u'))",
    "SELECT COUNT(*) FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND y > 2 AND x < 4)",
    "SELECT COUNT(*) FROM a WHERE NOT EXISTS (SELECT * FROM b WHERE b.k = a.k AND b.j = a.j AND x > 2)",
    "SELECT SUM(x) FROM a WHERE (k, j) IN (SELECT k, j FROM b) AND x > 1",
    "SELECT COUNT(*) FROM a WHERE EXISTS (SELECT 1 FROM b JOIN c ON b.j = c.j WHERE b.k = a.k AND c.z > 1)",
    "SELECT COUNT(*) FROM a WHERE NOT EXISTS (SELECT 1 FROM b, c WHERE b.j = c.j AND b.k = a.k)",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.j = c.j",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.k = c.k",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON a.k = c.k",
    "SELECT SUM(c.z) FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.j = c.j",
    "SELECT SUM(c.z) FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON a.j = c.j",
    "SELECT SUM(b.y) FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.j = c.j",
    "SELECT SUM(a.x) FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.j = c.j",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k JOIN c ON a.j = c.j",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k JOIN c ON b.j = c.j",
    "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k RIGHT JOIN c ON b.j = c.j",
    "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k AND a.x > 1 RIGHT JOIN c ON a.j = c.j AND b.y > 1 AND c.z < 4",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k RIGHT JOIN c ON a.j = c.j",
    "SELECT SUM(a.x) FROM a LEFT JOIN b ON a.k = b.k RIGHT JOIN c ON b.j = c.j",
    "SELECT COUNT(*) FROM a RIGHT JOIN b ON a.k = b.k RIGHT JOIN c ON b.j = c.j",
    "SELECT COUNT(*) FROM a RIGHT JOIN b USING (k) LEFT JOIN c USING (k) WHERE k > 1",
    "SELECT COUNT(*) FROM a LEFT JOIN b USING (k) LEFT JOIN c USING (k) WHERE k > 1",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k AND a.j = b.j WHERE b.j IS NULL AND a.x > 1",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k WHERE b.y > 1 OR b.h = 'u'",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k WHERE b.y > 1 AND b.k IS NULL",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.j = c.j WHERE b.k IS NULL",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.j = c.j WHERE c.z = 3",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k WHERE b.j IN (SELECT j FROM c)",
    "SELECT COUNT(*) FROM a t LEFT JOIN a u ON t.k = u.j",
    "SELECT COUNT(*) FROM a WHERE k IN (SELECT j FROM a)",
    "SELECT COUNT(*) FROM a WHERE k NOT IN (SELECT j FROM a WHERE j IS NOT NULL)",
    (
        "SELECT COUNT(*) FROM a, b WHERE a.k = b.k AND a.j IN (SELECT j FROM c) "
        "AND NOT EXISTS (SELECT 1 FROM c WHERE c.k = b.k AND z > 2)"
    ),
    "SELECT COUNT(*) FROM a JOIN c ON c.k = a.k LEFT JOIN b ON a.k = b.k LEFT ANTI JOIN b d ON d.k = a.k AND d.y = 1",
]
"""Texts of one number; also those that a condition makes an inner join."""
GROUPED = [
    (
        "SELECT a.g, COUNT(*) AS n, SUM(a.x) AS s, SUM(b.y) AS t, COUNT(b.y) AS c, AVG(b.y) AS v "
        "FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.g"
    ),
    "SELECT b.h, COUNT(*) AS n, SUM(a.x) AS s, SUM(b.y) AS t FROM a LEFT JOIN b ON a.k = b.k GROUP BY b.h",
    "SELECT b.y, COUNT(*) AS n FROM a LEFT JOIN b ON a.k = b.k AND a.x > 2 GROUP BY b.y",
    "SELECT a.g, b.h, COUNT(*) AS n, SUM(b.y) AS t FROM a FULL JOIN b ON a.k = b.k GROUP BY a.g, b.h",
    (
        "SELECT a.k, b.k AS bk, COUNT(*) AS n, SUM(b.y) AS t, SUM(a.x) AS u FROM a FULL JOIN b ON a.k = b.k AND a.x > 1 "
        "GROUP BY a.k, b.k"
    ),
    (
        "SELECT b.h, c.w, COUNT(*) AS n, SUM(c.z) AS z, SUM(b.y) AS y, AVG(a.x) AS x "
        "FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.j = c.j GROUP BY b.h, c.w"
    ),
    (
        "SELECT b.h, c.w, COUNT(*) AS n, SUM(c.z) AS z, SUM(b.y) AS y, AVG(a.x) AS x "
        "FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON a.k = c.k GROUP BY b.h, c.w"
    ),
    (
        "SELECT c.w, a.g, COUNT(*) AS n, SUM(a.x) AS z, SUM(b.y) AS y "
        "FROM a JOIN b ON a.k = b.k RIGHT JOIN c ON b.j = c.j GROUP BY c.w, a.g"
    ),
    (
        "SELECT g, COUNT(*) AS n, SUM(x) AS s FROM a WHERE k NOT IN (SELECT k FROM b WHERE k IS NOT NULL) "
        "GROUP BY g HAVING COUNT(*) > 1"
    ),
    "SELECT g, COUNT(*) AS n, SUM(x) AS s FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND y > 2) GROUP BY g",
    "SELECT a.g, COUNT(*) AS n FROM a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL GROUP BY a.g HAVING COUNT(*) >= 2",
    "SELECT COUNT(*) AS n, SUM(b.y) AS y, SUM(a.x) AS x FROM a FULL JOIN b ON a.k = b.k",
    "SELECT a.k, COUNT(*) AS n, COUNT(b.k) AS m FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.k",
    "SELECT a.g, COUNT(*) AS n, SUM(CASE WHEN b.y > 2 THEN 1 END) AS m FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.g",
    "SELECT b.h, COUNT(*) AS n FROM a LEFT SEMI JOIN c ON a.j = c.j LEFT JOIN b ON a.k = b.k AND b.y < 3 GROUP BY b.h",
    "SELECT b.h, COUNT(*) AS n FROM a LEFT JOIN b ON a.k = b.k GROUP BY b.h HAVING b.h > 'u'",
]


def made_table(rng, stream, rows, keys):
    """Rows of a stream; every column has NULLs, and keys have the value 0, whose code is NULL's."""
    columns = {}
    for column in STREAMS[stream].split(", "):
        name, kind = column.split()
        if kind == "BIGINT":
            values = pa.array(rng.integers(0, keys, rows), pa.int64(), mask=rng.random(rows) < 0.15)
        elif kind == "INT":
            values = pa.array(rng.integers(-1, 6, rows), pa.int32(), mask=rng.random(rows) < 0.15)
        else:
            values = pa.array(rng.choice(["u", "v", "w"], rows), pa.string(), mask=rng.random(rows) < 0.2)
        columns[name] = values
    return pa.table(columns)


def for_duckdb(text):
    """The text as DuckDB reads it."""
    return text.replace("LEFT SEMI JOIN", "SEMI JOIN").replace("LEFT ANTI JOIN", "ANTI JOIN")


MEASURES = {"a": "x", "b": "y", "c": "z"}
GROUPS = {"a": "g", "b": "h", "c": "w"}


def random_text(rng):
    """A text over two or three relations, joined in any way, of one number or of groups; not all of them are answered."""
    streams = list(rng.choice(list(STREAMS), size=int(rng.integers(2, 4))))
    aliases = [f"t{i}" for i in range(len(streams))]
    visible, text = [0], f"FROM {streams[0]} t0"
    for i in range(1, len(streams)):
        kind = str(
            rng.choice(
                [
                    "JOIN",
                    "LEFT JOIN",
                    "LEFT JOIN",
                    "RIGHT JOIN",
                    "FULL JOIN",
                    "LEFT SEMI JOIN",
                    "LEFT ANTI JOIN",
                ]
            )
        )
        other = int(rng.choice(visible))
        on = f"{aliases[other]}.{rng.choice(['k', 'j'])} = {aliases[i]}.{rng.choice(['k', 'j'])}"
        if rng.random() < 0.3:
            on += f" AND {condition(rng, streams, aliases, int(rng.choice([i, other])))}"
        text += f" {kind} {streams[i]} {aliases[i]} ON {on}"
        if "SEMI" not in kind and "ANTI" not in kind:
            visible.append(i)
    where = [
        condition(rng, streams, aliases, int(rng.choice(visible))) for _ in range(int(rng.integers(0, 3)))
    ]
    if rng.random() < 0.3:
        where.append(subquery(rng, aliases[int(rng.choice(visible))]))
    measured = int(rng.choice(visible))
    measure = f"{aliases[measured]}.{MEASURES[streams[measured]]}"
    aggregate = str(rng.choice(["COUNT(*)", f"SUM({measure})", f"COUNT({measure})", f"AVG({measure})"]))
    text += f" WHERE {' AND '.join(where)}" if where else ""
    if rng.random() < 0.5:
        return f"SELECT {aggregate} {text}"
    grouped = list(rng.choice(visible, size=int(rng.integers(1, len(visible) + 1)), replace=False))
    columns = [f"{aliases[i]}.{rng.choice([GROUPS[streams[i]], 'k'])}" for i in grouped]
    named = ", ".join(f"{column} AS g{i}" for i, column in enumerate(columns))
    return f"SELECT {named}, COUNT(*) AS n, SUM({measure}) AS s {text} GROUP BY {', '.join(columns)}"


def condition(rng, streams, aliases, relation):
    """A condition on one relation."""
    alias, measure = aliases[relation], MEASURES[streams[relation]]
    return str(
        rng.choice(
            [
                f"{alias}.{measure} > {int(rng.integers(-1, 4))}",
                f"{alias}.{measure} IN (1, 2, 3)",
                f"{alias}.k IS NULL",
                f"{alias}.j IS NULL",
                f"{alias}.{measure} IS NOT NULL",
                f"COALESCE({alias}.{measure}, 3) < 4",
                f"NOT {alias}.{measure} BETWEEN 1 AND 2",
                f"({alias}.{measure} = 1 OR {alias}.k > 2)",
            ]
        )
    )


def subquery(rng, alias):
    """A condition on a subquery."""
    stream = str(rng.choice(list(STREAMS)))
    key, own = (str(each) for each in rng.choice(["k", "j"], 2))
    filtered = f"{MEASURES[stream]} > {int(rng.integers(-1, 4))}"
    return str(
        rng.choice(
            [
                f"{alias}.{key} IN (SELECT {own} FROM {stream} WHERE {filtered})",
                f"{alias}.{key} NOT IN (SELECT {own} FROM {stream} WHERE {filtered} AND {own} IS NOT NULL)",
                f"{alias}.{key} NOT IN (SELECT {own} FROM {stream} WHERE {filtered})",
                f"EXISTS (SELECT 1 FROM {stream} s WHERE s.{own} = {alias}.{key} AND s.{filtered})",
                f"NOT EXISTS (SELECT 1 FROM {stream} s WHERE s.{own} = {alias}.{key} AND s.{filtered})",
            ]
        )
    )


def skewed_tables(seed, rows=8_000, keys=4_000):
    """Tables a and b for samples: skewed keys, half of them in both, some NULL."""
    rng = np.random.default_rng(seed)
    order = np.random.default_rng(7).permutation(keys)

    def made(number, start, measure, group, groups):
        return pa.table(
            {
                "k": pa.array(
                    order[(keys * rng.random(number) ** 2).astype(np.int64)] + start,
                    mask=rng.random(number) < (0.01 if start == 0 else 0),
                ),
                "j": pa.nulls(number, pa.int64()),
                measure: pa.array(rng.integers(0, 6, number), pa.int32()),
                group: [f"{group}{int(each)}" for each in groups * rng.random(number) ** 2],
            }
        )

    return {"a": made(rows, 0, "x", "g", 12), "b": made(rows // 2, keys // 2, "y", "h", 8)}
