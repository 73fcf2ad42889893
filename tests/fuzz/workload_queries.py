"""Random queries of every kind over the streams of a workload case."""

import re
from dataclasses import dataclass

LINKS = ("k", "j")
FUNCTIONS = {
    "count": ("COUNT(*)", "COUNT({0}.v)", "COUNT(*)"),
    "sum": ("SUM({0}.v)", "SUM({0}.v)", "SUM({0}.v - 7)", "SUM(-{0}.v)"),
    "avg": ("AVG({0}.v)", "AVG({0}.v)", "AVG({0}.x)"),
    "variance": ("VAR_POP({0}.v)", "STDDEV({0}.v)", "VARIANCE({0}.v)"),
}
GROUPS = (
    "{0}.k", "{0}.k", "{0}.j", "{0}.v", "{0}.t", "{0}.d", "{0}.m", "{0}.e", "CASE WHEN {0}.v < 20 THEN 0 WHEN {0}.v < 40 THEN 1 END",
    "date_add({0}.d, 1)", "date_sub({0}.d, 1)", "year({0}.d)", "last_day({0}.d)", "CAST({0}.e AS DATE)", "upper({0}.t)",
)  # fmt: skip
MEASURES = {
    "sum": "COUNT(*) AS n, SUM({0}.v) AS s",
    "avg": "AVG({0}.v) AS m, COUNT({0}.v) AS c",
    "variance": "VAR_POP({0}.v) AS x, STDDEV({0}.v) AS y",
    "filtered": "AVG({0}.v) FILTER (WHERE {1}.j < 9) AS m, COUNT(*) FILTER (WHERE {0}.v > 3) AS n",
    "distinct": "COUNT(DISTINCT {0}.j) AS d, COUNT(*) AS n",
    "quantile": "MEDIAN({0}.v) AS m, PERCENTILE_APPROX({0}.v, 0.8) AS p",
    "extremes": "MIN({0}.d) AS l, MAX({0}.m) AS h, MAX({0}.e) AS o",
}
SINGLE = (
    "COUNT(DISTINCT {0}.j)", "MEDIAN({0}.v)", "PERCENTILE_APPROX({0}.v, 0.25)", "PERCENTILE_APPROX({0}.d, 0.5)", "MAX({0}.d)",
)  # fmt: skip
PREDICATES = (
    "{0}.v < {n}", "{0}.v < {n}", "{0}.v > {n}", "{0}.v = {n}", "{0}.j = 3", "{0}.j < 40", "{0}.t = ''", "{0}.t <> 'a'", "{0}.x > 1",
    "{0}.x <= 1 OR {0}.x > 5", "{0}.d >= DATE'2020-06-01'", "date_add({0}.d, 1) > DATE'2020-06-01'", "{0}.k IS NOT NULL",
)  # fmt: skip
OPERATORS = ("<", "<=", ">", ">=", "<>")
COMPARISONS = (
    "{a}.v {o} {b}.v", "{a}.k {o} {b}.v", "{a}.v + {n} {o} {b}.v", "{a}.v + {b}.v {o} {n}", "{a}.v < {n} OR {b}.v {o} {n}",
    "{a}.v BETWEEN {b}.v AND {b}.v + {n}", "{a}.ts < {b}.ts", "{a}.d < {b}.d",
)  # fmt: skip
OUTER = ("LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
JOIN_FORMS = {
    "JOIN": "join", "LEFT JOIN": "outer join", "RIGHT JOIN": "outer join", "FULL JOIN": "full join",
    "LEFT SEMI JOIN": "semi-join", "LEFT ANTI JOIN": "anti-join",
}  # fmt: skip
FORMS = ("stream", *dict.fromkeys(JOIN_FORMS.values()), "chain", "star", "comparison", "set expression")


@dataclass(frozen=True)
class Chain:
    """A join of a path of relations; its exact answer takes a dictionary, where DuckDB would make all joined rows."""

    streams: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    measured: int = 0
    function: str = "count"


@dataclass(frozen=True)
class Asked:
    """One query of a case: what it computes, over what, and its text.

    path: the relations and links of its FROM clause, from which the largest possible answer follows.
    """

    function: str
    form: str
    sql: str
    path: Chain
    windowed: bool = False
    ad_hoc: bool = False
    by_path: bool = False

    @property
    def columns(self):
        """(stream, column) of what it reads of its relations, by alias or without."""
        if self.by_path or not re.search(r"\b[abc]\.", self.sql):
            return set()
        return {
            (self.path.streams["abc".index(a)], column)
            for a, column in re.findall(r"\b([abc])\.(\w+)", self.sql)
        }

    @property
    def links(self):
        """(stream, column, stream, column) of its joins."""
        names = self.path.streams
        return {(names[i], one, names[i + 1], other) for i, (one, other) in enumerate(self.path.columns)}

    @property
    def grouped(self):
        return " GROUP BY " in self.sql

    @property
    def counts(self):
        """The aliases of COUNT among the aggregates; of a query without groups whether it is one."""
        if self.grouped:
            return set(re.findall(r"COUNT\([^()]*\)(?: FILTER \([^()]*\))? AS (\w+)", self.sql))
        return {"value"} if self.sql.startswith("SELECT COUNT(") else set()


def random_query(rng, names, samples=True, form=None):
    """A query of any kind, or of one form; without samples one that sketches answer."""
    simple = (_single, _joined, _joined, _long_chain, _set, _distinct, _join_distinct, _semi_distinct)
    sampled = (_single, _outer, _outer, _outer, _groups, _groups, _groups, _groups, _top, _value, _compared)
    makers = simple + sampled if samples else simple
    while True:
        asked = _one(rng, makers)(rng, names)
        if form in (None, asked.form):
            return asked


def ad_hoc_query(rng, names, planned, explored):
    """A query that what is kept for planned ones and for explored columns should answer; None if none is found."""
    links = {link for asked in planned for link in asked.links}
    linked = {(link[i], link[i + 1]) for link in links for i in (0, 2)}
    held = linked | {(name, column) for name, columns in explored.items() for column in columns}
    makers = (_single, _single, _joined, _outer, _groups, _value, _compared, _join_distinct)
    for _ in range(30):
        asked = _one(rng, makers)(rng, names)
        if asked.columns <= held and asked.links <= links:
            return asked
    return None


def _one(rng, choices):
    return choices[rng.integers(len(choices))]


def _several(rng, names, number):
    """Streams to join: each another one while there are others, but for some self-joins."""
    if rng.random() < 0.2:
        return [_one(rng, names) for _ in range(number)]
    return [names[i % len(names)] for i in range(rng.integers(len(names)), number + len(names))][:number]


def _function(rng, alias):
    name = _one(rng, list(FUNCTIONS))
    return name, _one(rng, FUNCTIONS[name]).format(alias)


def _where(rng, alias, share=0.4):
    if rng.random() > share:
        return ""
    return f" WHERE ({_one(rng, PREDICATES).format(alias, n=rng.integers(-20, 90))})"


def _of_stream(rng, names):
    name = _one(rng, names)
    return "stream", f"{name} a", "a", "a", Chain((name,), ())


def _of_join(rng, names, joins=("JOIN",)):
    """(form, FROM clause, alias that is always there, alias of another relation that may be read, path)."""
    join, (one, other) = _one(rng, joins), _several(rng, names, 2)
    links = tuple(_one(rng, "kkkj") for _ in range(2))  # most joins are on k, so that queries share it
    if rng.random() < 0.1:
        links = (_one(rng, "dm"),) * 2
    there = "b" if join == "RIGHT JOIN" else "a"
    both = there if "SEMI" in join or "ANTI" in join else "ab"[rng.integers(2)]
    source = f"{one} a {join} {other} b ON a.{links[0]} = b.{links[1]}"
    return JOIN_FORMS[join], source, there, both, Chain((one, other), (links,))


def _of_chain(rng, names):
    a, b, c = _several(rng, names, 3)
    link = _one(rng, LINKS)  # k makes it a star
    source = f"{a} a JOIN {b} b ON a.k = b.k JOIN {c} c ON b.{link} = c.{link}"
    return "chain", source, "a", "abc"[rng.integers(3)], Chain((a, b, c), (("k", "k"), (link, link)))


def _aggregate(rng, form, source, there, measured, path):
    if form == "full join":
        there = measured  # a condition on one side makes it an outer join of the other
    function, text = _function(rng, measured)
    return Asked(function, form, f"SELECT {text} FROM {source}{_where(rng, there)}", path)


def _single(rng, names):
    return _aggregate(rng, *_of_stream(rng, names))


def _joined(rng, names):
    return _aggregate(rng, *_of_join(rng, names))


def _outer(rng, names):
    return _aggregate(rng, *_of_join(rng, names, OUTER))


def _long_chain(rng, names):
    streams = tuple(_several(rng, names, int(rng.integers(3, 6))))
    form = _one(rng, ("chain", "star"))
    columns = tuple(
        ("k", "k") if form == "star" else (_one(rng, LINKS), _one(rng, LINKS)) for _ in streams[1:]
    )
    measured, function = int(rng.integers(len(streams))), _one(rng, ("count", "sum", "avg"))
    aggregate = {"count": "COUNT(*)", "sum": f"SUM(r{measured}.v)", "avg": f"AVG(r{measured}.v)"}[function]
    text = f"SELECT {aggregate} FROM {streams[0]} r0"
    for i, (left, right) in enumerate(columns):
        text += f" JOIN {streams[i + 1]} r{i + 1} ON r{i}.{left} = r{i + 1}.{right}"
    return Asked(function, form, text, Chain(streams, columns, measured, function), by_path=True)


def _groups(rng, names):
    makers = (_of_stream, _of_stream, _of_join, lambda *given: _of_join(*given, OUTER), _of_chain)
    form, source, there, other, path = _one(rng, makers)(rng, names)
    group, kind = _one(rng, GROUPS).format(there), _one(rng, list(MEASURES))
    measures = MEASURES[kind].format(_one(rng, (there, other)), other)
    where = _where(rng, there if form in ("outer join", "full join") else other)
    sql = f"SELECT {group} AS g, {measures} FROM {source}{where} GROUP BY {group}"
    return Asked(f"groups: {kind}", form, sql, path)


def _top(rng, names):
    form, source, there, _, path = _one(rng, (_of_stream, _of_join))(rng, names)
    column, k = _one(rng, LINKS), rng.integers(1, 11)
    sql = f"SELECT {there}.{column} AS g, COUNT(*) AS n FROM {source} GROUP BY {there}.{column} ORDER BY n DESC LIMIT {k}"
    return Asked("top", form, sql, path)


def _value(rng, names):
    maker = _one(rng, (_of_stream, _of_join))
    form, source, there, _, path = maker(rng, names)
    text = _one(rng, SINGLE).format(there)
    kind = "distinct" if "DISTINCT" in text else "extreme" if "MAX" in text else "quantile"
    return Asked(kind, form, f"SELECT {text} FROM {source}{_where(rng, there)}", path)


def _compared(rng, names):
    """A condition between relations, or an equality that closes a triangle."""
    maker = _one(rng, (_of_join, _of_join, _of_chain))
    form, source, there, other, path = maker(rng, names)
    ends = ("a", "b") if form == "join" else _one(rng, (("a", "c"), ("b", "c")))
    condition = _one(rng, COMPARISONS).format(
        a=ends[0], b=ends[1], o=_one(rng, OPERATORS), n=rng.integers(-20, 60)
    )
    if form != "join" and rng.random() < 0.4:
        condition = _one(rng, ("c.k = a.j", "c.v = a.v", "c.k = a.v"))
    source = f"{source} WHERE ({condition})"
    if rng.random() < 0.6:
        function, text = _function(rng, there)
        return Asked(function, "comparison", f"SELECT {text} FROM {source}", path)
    group, kind = _one(rng, GROUPS).format(there), _one(rng, list(MEASURES))
    measures = MEASURES[kind].format(other, there)
    sql = f"SELECT {group} AS g, {measures} FROM {source} GROUP BY {group}"
    return Asked(f"groups: {kind}", "comparison", sql, path)


def _set(rng, names):
    column, parts = _one(rng, LINKS), [_one(rng, names) for _ in range(int(rng.integers(2, 4)))]
    text = f"SELECT {column} FROM {parts[0]}"
    for name in parts[1:]:
        text += f" {_one(rng, ('UNION', 'INTERSECT', 'EXCEPT'))} SELECT {column} FROM {name}"
    return Asked("distinct", "set expression", f"SELECT COUNT(*) FROM ({text})", Chain(tuple(parts), ()))


def _distinct(rng, names):
    columns, name = _one(rng, ("k", "j", "k, j", "t", "m")), _one(rng, names)
    sql = f"SELECT COUNT(DISTINCT {columns}) FROM {name} a{_where(rng, 'a')}"
    return Asked("distinct", "stream", sql, Chain((name,), ()))


def _join_distinct(rng, names):
    columns = _one(rng, ("a.j, b.v", "a.j", "a.j, a.k, b.j"))
    a, b = _one(rng, names), _one(rng, names)
    sql = f"SELECT COUNT(DISTINCT {columns}) FROM {a} a JOIN {b} b ON a.k = b.k"
    return Asked("distinct", "join", sql, Chain((a, b), (("k", "k"),)))


def _semi_distinct(rng, names):
    a, b = _one(rng, names), _one(rng, names)
    sql = f"SELECT COUNT(DISTINCT a.j) FROM {a} a WHERE a.k IN (SELECT {_one(rng, LINKS)} FROM {b})"
    return Asked("distinct", "semi-join", sql, Chain((a,), ()))
