"""Random queries of the fuzzer: aggregates over one stream, joins, semi-joins and set expressions."""

from tests.fuzz.grammar import Grammar


def one_stream(rng):
    """(function, argument, condition) over t: its answer is exact, so that its number shows the value of any expression."""
    grammar = Grammar(rng)
    function, argument = rng.choice(
        [
            lambda: ("COUNT", "*"),
            lambda: ("COUNT", "*"),
            lambda: ("COUNT", grammar.any("boolean", 2)),
            lambda: ("COUNT", grammar.any(rng.choice(["number", "string", "date", "time"]), 1)),
            lambda: ("SUM", grammar.any("number", 2)),
            lambda: ("AVG", grammar.any("number", 1)),
        ]
    )()
    return function, argument, grammar.any("boolean", 3) if rng.random() < 0.8 else None


def text_of(function, argument, condition):
    """A query over t as one text."""
    return f"SELECT {function}({argument}) FROM t" + (f" WHERE {condition}" if condition else "")


def several_streams(rng):
    """A query over t and u."""
    t, u = (Grammar(rng, relation, qualified=True, ill_typed=0.005) for relation in "tu")
    where = f" WHERE {t.boolean(1)}" if rng.random() < 0.6 else ""
    on = "t.b = u.b" + (f" AND ({u.boolean(1)})" if rng.random() < 0.5 else "")
    selected = rng.choice(["1", "u.z", "*", "COUNT(*)", "MAX(u.z)", "1 + SUM(u.z)"])
    end = rng.choice(["", "", "", " LIMIT 0", " GROUP BY u.z"])
    counted = rng.choice(["t.a", "t.s", "t.d, t.a", "t.a, 1", "t.p", "t.i, NULL"])
    return rng.choice(
        [
            lambda: f"SELECT COUNT(*) FROM t JOIN u ON {on}{where}",
            lambda: f"SELECT COUNT({rng.choice([t, u]).any('boolean', 1)}) FROM t JOIN u ON {on}{where}",
            lambda: f"SELECT COUNT(t.a {rng.choice('*+-')} u.z) FROM t JOIN u ON {on}{where}",
            lambda: (
                f"SELECT SUM({rng.choice(['t.a * u.z', '-(t.a * u.z)', '-t.m * (u.v * 2)', 't.m', '-u.z'])}) FROM t JOIN u ON {on}{where}"
            ),
            lambda: f"SELECT COUNT(DISTINCT {counted}) FROM t{where}",
            lambda: f"SELECT COUNT(DISTINCT {counted}) FROM t JOIN u ON {on}{where}",
            lambda: f"SELECT COUNT(DISTINCT {counted}) FROM t LEFT SEMI JOIN u ON {on}{where}",
            lambda: f"SELECT COUNT(DISTINCT {counted}) FROM t LEFT SEMI JOIN u ON {on} WHERE {u.boolean(0)}",
            lambda: (
                f"SELECT COUNT(DISTINCT {counted}) FROM t WHERE EXISTS (SELECT {selected} FROM u WHERE {on}{end})"
            ),
            lambda: (
                f"SELECT COUNT(DISTINCT {counted}) FROM t WHERE t.b IN (SELECT u.b FROM u WHERE {u.boolean(1)})"
            ),
            lambda: (
                f"SELECT COUNT(*) FROM (SELECT t.b FROM t{where} {rng.choice(['UNION', 'INTERSECT', 'EXCEPT'])} SELECT u.b FROM u WHERE {u.boolean(1)})"
            ),
            lambda: f"SELECT COUNT(*) FROM (SELECT DISTINCT {counted} FROM t{where})",
        ]
    )()
