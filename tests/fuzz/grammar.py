"""Random SQL over the fuzzer's tables: typed expressions of everything that the reference documents.

Parentheses are left out where Spark's grammar allows it: what a text means is for Spark to say, never for us.
"""

from tests.fuzz.tables import T_DDL, U_DDL, WORDS, schema_of

_FIELDS = "year quarter month day dayofweek dayofyear weekofyear weekday".split()  # noqa: SIM905
_CLASSES = ("number", "string", "boolean", "date", "time", "local")
_MEETING = {
    "t": [
        ("x", "0.3"),
        ("x", "1.1"),
        ("x", "m"),
        ("x", "k"),
        ("y", "1.1"),
        ("k", "0.3"),
        ("big", "x"),
        ("f", "0.5"),
        ("y", "x"),
    ],
    "u": [("z", "1.0"), ("v", "0.3"), ("v", "3e-1"), ("z", "v"), ("b", "z")],
}
ILL_TYPED = 0.02
"""How often an operand of another class stands where one of this class should."""


def _names(ddl):
    return schema_of(ddl).names


def quoted(word):
    """A string as Spark writes it."""
    return "'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Grammar:
    """Makes texts from a random source; `relation` qualifies the columns of t or u."""

    def __init__(self, rng, relation="t", qualified=False, ill_typed=ILL_TYPED):
        self.rng = rng
        self.relation = relation
        self.prefix = f"{relation}." if qualified else ""
        self.ill_typed = ill_typed

    def column(self, *names):
        """A column that the relation has."""
        of = {"t": _names(T_DDL), "u": _names(U_DDL)}[self.relation]
        found = [name for name in names if name in of]
        return self.prefix + self.rng.choice(found) if found else "NULL"

    def any(self, kind, depth):
        """An expression of a class, now and then of another or NULL."""
        if self.rng.random() < self.ill_typed:
            kind = self.rng.choice(_CLASSES)
        if self.rng.random() < 0.03:
            return "NULL"
        return getattr(self, kind)(depth)

    def pick(self, *makers):
        """The text of one of several makers."""
        return self.rng.choice(makers)()

    def number(self, depth):
        """A number; the extreme ones stand in no arithmetic, where they would overflow."""
        extreme = ("i", "ti", "big", "y") if self.rng.random() < 0.3 else ()
        literal = lambda: self.rng.choice(
            ["0", "1", "-1", "2", "0.3", "1.10", "-2.5", "100", "1e0", "3.0D", "2L", "1.50BD"]
        )
        column = lambda: self.column(
            "a", "b", "m", "k", "x", "z", "v", "f", "a", "x", "m", *(extreme if depth <= 0 else ())
        )
        if depth <= 0:
            return self.pick(literal, column, column)
        sub = lambda: self.any("number", depth - 1)
        return self.pick(
            column,
            lambda: f"({sub()} {self.rng.choice('+-*')} {sub()})",
            lambda: f"-({sub()})",
            lambda: f"abs({sub()})",
            lambda: f"({sub()} / {self.rng.choice(['2', '7.0D', '3'])})",
            lambda: f"COALESCE({sub()}, {sub()})",
            lambda: f"CASE WHEN {self.any('boolean', depth - 1)} THEN {sub()} ELSE {sub()} END",
            lambda: f"CASE WHEN {self.any('boolean', depth - 1)} THEN {sub()} END",
            lambda: (
                f"CAST({self.column('i', 'ti', 'z')} AS {self.rng.choice(['BIGINT', 'DECIMAL(15,3)', 'DOUBLE'])})"
            ),
            lambda: f"CAST({self.column('m', 'k', 'v')} AS DOUBLE)",
            lambda: (
                f"{self.rng.choice(_FIELDS)}({self.pick(lambda: self.any('date', 0), lambda: self.any('time', 0), lambda: self.any('local', 0))})"
            ),
            lambda: f"{self.rng.choice(['hour', 'minute', 'second'])}({self.any('time', 0)})",
            lambda: self.pick(
                lambda: f"length({self.any('string', 0)})",
                lambda: f"({sub()} % {self.rng.choice(['3', '-2', '0.7', '1.5D', '7L'])})",
                lambda: f"NULLIF({sub()}, {sub()})",
                lambda: f"({self.column('a', 'z')} DIV 3)",
                lambda: f"datediff({self.any('date', 0)}, {self.any('time', 0)})",
            ),
        )

    def string(self, depth):
        """A string."""
        literal = lambda: quoted(self.rng.choice(WORDS))
        column = lambda: self.column("s", "s2", "c")
        if depth <= 0:
            return self.pick(literal, column, column, lambda: "'it''s'")
        sub = lambda: self.any("string", depth - 1)
        return self.pick(
            column,
            lambda: f"upper({sub()})",
            lambda: f"lower({sub()})",
            lambda: f"COALESCE({sub()}, {sub()})",
            lambda: f"CASE WHEN {self.any('boolean', depth - 1)} THEN {sub()} ELSE {sub()} END",
            lambda: f"CAST({self.column('i', 'a', 'z')} AS STRING)",
            lambda: self.pick(lambda: f"substring({sub()}, 1, 2)", lambda: f"concat({sub()}, {sub()})"),
        )

    def date(self, _):
        """A date."""
        return self.pick(
            lambda: self.column("d", "d2"),
            lambda: f"DATE '{self.rng.choice(['1969-12-31', '2001-01-01', '2024-02-29'])}'",
            lambda: f"CAST({self.any('time', 0)} AS DATE)",
            lambda: f"COALESCE({self.column('d', 'd2')}, DATE '1970-01-01')",
            lambda: f"date_add({self.column('d', 'd2')}, {self.rng.choice(['1', '-40', '3 - 2'])})",
            lambda: f"last_day({self.column('d', 'd2')})",
            lambda: f"trunc({self.any('time', 0)}, '{self.rng.choice(['MONTH', 'WEEK', 'QUARTER'])}')",
        )

    def time(self, _):
        """A timestamp."""
        zones = ["", "Z", "+02:00"]
        return self.pick(
            lambda: self.column("ts"),
            lambda: self.column("ts"),
            lambda: (
                f"date_trunc('{self.rng.choice(['YEAR', 'WEEK', 'DAY', 'HOUR', 'MINUTE'])}', {self.column('ts', 'd', 'n')})"
            ),
            lambda: (
                f"TIMESTAMP '{self.rng.choice(['2000-12-31 23:30:00', '2024-10-27 02:30:00', '1950-06-15 12:00:00'])}{self.rng.choice(zones)}'"
            ),
            lambda: f"COALESCE({self.column('ts')}, TIMESTAMP '2001-01-01 00:00:00')",
        )

    def local(self, _):
        """A timestamp without a zone."""
        return self.pick(lambda: self.column("n"), lambda: "TIMESTAMP_NTZ '2001-01-01 00:00:00'")

    def boolean(self, depth):
        """A condition."""
        if depth <= 0:
            return self.pick(
                lambda: self.column("p", "q", "r"),
                lambda: self.compared(0),
                lambda: self.rng.choice(["TRUE", "FALSE"]),
            )
        sub = lambda: self.any("boolean", depth - 1)
        wrapped = lambda: f"({sub()})"
        return self.pick(
            lambda: self.compared(depth - 1),
            lambda: self.compared(depth - 1),
            lambda: f"{self.pick(sub, wrapped)} {self.rng.choice(['AND', 'OR'])} {self.pick(sub, wrapped)}",
            lambda: f"NOT {self.pick(sub, wrapped)}",
            lambda: (
                f"({sub()}) IS {self.rng.choice(['', 'NOT '])}{self.rng.choice(['TRUE', 'FALSE', 'NULL'])}"
            ),
            lambda: self.tested(depth - 1),
            lambda: self.tested(depth - 1),
            lambda: f"{self.any('string', depth - 1)} {self.rng.choice(['', 'NOT '])}LIKE {self.pattern()}",
            lambda: f"COALESCE({sub()}, {sub()})",
            lambda: f"CASE WHEN {sub()} THEN {sub()} ELSE {sub()} END",
        )

    def compared(self, depth):
        """A comparison of two of one class; numbers of different types often such as can be equal."""
        if self.rng.random() < 0.2:
            pairs = _MEETING[self.relation]
            left, right = (self.prefix + side if side.isalpha() else side for side in self.rng.choice(pairs))
            sign = self.rng.choice(["=", "<>", "<", ">=", "IN", "NOT IN"])
            return f"{left} {sign} ({right})"
        kind = self.rng.choice(_CLASSES[:2] * 3 + _CLASSES)
        left, right = (self.operand(kind, depth) for _ in range(2))
        return f"{left} {self.rng.choice(['=', '<>', '<', '<=', '>', '>=', '=', '<=>'])} {right}"

    def operand(self, kind, depth):
        """An operand of a comparison: conditions in parentheses."""
        text = self.any(kind, depth)
        return f"({text})" if " " in text else text

    def tested(self, depth):
        """IN, BETWEEN and IS NULL, and their NOT forms."""
        kind, maybe = self.rng.choice(_CLASSES[:2] * 2 + _CLASSES), self.rng.choice(["", "NOT "])
        value = self.operand(kind, depth)
        return self.pick(
            lambda: (
                f"{value} {maybe}IN ({', '.join(self.any(kind, 0) for _ in range(self.rng.randint(1, 4)))})"
            ),
            lambda: f"{value} {maybe}BETWEEN {self.operand(kind, 0)} AND {self.operand(kind, 0)}",
            lambda: f"{value} IS {maybe}NULL",
        )

    def pattern(self):
        """A LIKE pattern."""
        return quoted(
            self.rng.choice(
                ["x%", "_", "%", "", "%\\%%", "a\\_b", "%'%", "%\\\\%", "gr__e", "X%", "it's", "%ß%"]
            )
        )
