"""Forms that were once read wrongly, asked in every run next to the random texts."""

COUNTED = (
    "p AND q", "p OR q", "NOT p", "NOT p AND q", "a > 1 AND b > 1", "p IS NULL OR q", "s NOT LIKE 'x%'", "NULL", "-a",
)  # fmt: skip
CONDITIONS = (
    # NOT as an argument of a node
    "s NOT LIKE 'x%'", "NOT s LIKE 'x%'", "NOT s NOT LIKE '_'", "s NOT IN ('x', 'X')", "a NOT BETWEEN 0 AND 2", "p IS NOT TRUE",
    # doubles next to decimals
    "x = 0.3", "x = m", "m = x", "x IN (0.3, 1.1)", "k <= x", "x BETWEEN 0.3 AND 1.1", "COALESCE(m, x) = x",
    # NULL as a condition or an operand
    "NULL", "NOT NULL", "NULL OR p", "NULL AND p", "p OR NOT NULL", "CASE WHEN NULL THEN p ELSE q END", "NULL IS TRUE",
    "substring(s, 1, 2) LIKE 'x%' AND (NULL)", "(NULL) AND p",
    # comparisons and tests without parentheses, which Spark reads from left to right
    "p = q LIKE 't%'", "p = a < b", "a < b = p", "p = (s LIKE 'x%')",
    "a = NULL", "s LIKE NULL", "upper(NULL) = s", "year(NULL) = 2001", "abs(NULL) = a", "-NULL = a",
    # operands of other types, some of which Spark casts and some of which it refuses
    "a", "NOT a", "a AND p", "s OR p", "a IS TRUE", "upper(a) = '1'", "a LIKE '1%'", "abs(s) > 1", "-s > 1", "year(s) = 2001",
    "abs(CASE WHEN s = '5' THEN s END) > 1", "-(CASE WHEN s = '5' THEN s END) < 1", "year(a) = 1", "abs(p) = 1", "-p = 1", "hour(d) = 0",
    "year(CASE WHEN s = 'none' THEN s END) = 2001", "CASE WHEN a THEN p END", "p = a", "d = 'x'", "d < a",
)  # fmt: skip
JOINED = (
    "SELECT COUNT(t.p AND t.q) FROM t JOIN u ON t.b = u.b",
    "SELECT COUNT(NOT u.r) FROM t JOIN u ON t.b = u.b",
    "SELECT COUNT(DISTINCT t.a) FROM t WHERE EXISTS (SELECT COUNT(*) FROM u WHERE u.b = t.b AND u.z > 3)",
    "SELECT COUNT(DISTINCT t.a) FROM t WHERE EXISTS (SELECT MAX(u.z) FROM u WHERE u.b = t.b AND u.z > 3)",
    "SELECT COUNT(DISTINCT t.a) FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.b = t.b AND u.z > 3)",
    "SELECT COUNT(DISTINCT t.a) FROM t LEFT SEMI JOIN u ON t.b = u.b WHERE u.z > 1",
    "SELECT COUNT(DISTINCT t.a) FROM t LEFT SEMI JOIN u ON t.b = u.b WHERE z > 1",
    "SELECT COUNT(DISTINCT t.a) FROM t LEFT SEMI JOIN u ON t.b = u.b AND u.z > 1",
)


def all_forms():
    """({name: (function, argument, condition)} over t, {name: text} over t and u)."""
    counted = {f"a{i}": ("COUNT", text, None) for i, text in enumerate(COUNTED)}
    asked = {f"c{i}": ("COUNT", "*", text) for i, text in enumerate(CONDITIONS)}
    return counted | asked, {f"f{i}": text for i, text in enumerate(JOINED)}
