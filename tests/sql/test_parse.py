"""Queries: what is read, what is refused, and that the refusal names the fragment."""

import pytest

from eddyline.errors import PlanError, SqlError, UnsupportedQuery
from eddyline.expressions.schema import parse_schema
from eddyline.sql.parse import MAX_LENGTH, parse_query

STREAMS = {
    "orders": parse_schema(
        "orders",
        "o_orderkey BIGINT, o_custkey BIGINT, o_total DECIMAL(12,2), o_date DATE, status STRING, at TIMESTAMP",
    ),
    "lineitem": parse_schema(
        "lineitem",
        "l_orderkey INT, l_qty INT, l_price DECIMAL(15,2), l_disc DECIMAL(15,2), rate DOUBLE, status STRING",
    ),
}
JOIN = "SELECT COUNT(*) FROM orders o JOIN lineitem l ON o.o_orderkey = l.l_orderkey"


def read(text):
    return parse_query(text, STREAMS)


@pytest.mark.parametrize(
    "text",
    [
        JOIN,
        "select count(*) from Orders O inner join LINEITEM l on l.L_orderkey = o.O_ORDERKEY",
        "SELECT COUNT(1) AS n FROM orders AS o, lineitem l WHERE (o_orderkey = l_orderkey)",
        "SELECT (COUNT(*)) FROM orders o CROSS JOIN lineitem l WHERE l.l_orderkey = o.o_orderkey",
    ],
)
def test_spellings_of_one_join(text):
    query = read(text)
    left, right = query.links[0].members
    assert (left.key.columns[0].text, right.key.columns[0].text) == ("`o_orderkey`", "`l_orderkey`")
    assert (query.aggregate.function, query.aggregate.factors) == ("count", ())
    assert [relation.stream for relation in query.relations] == ["orders", "lineitem"]


def test_using_joins_by_the_shared_column():
    ((left, right),) = [
        link.members for link in read("SELECT COUNT(*) FROM orders JOIN lineitem USING (status)").links
    ]
    assert left.key == right.key
    assert left.key.columns[0].text == "`status`"


def test_predicates_go_to_their_relation_in_a_normal_form():
    a, b = read(
        JOIN + " AND o.status = 'F' WHERE l_qty > 3 AND (l_disc < 0.05 AND o.o_date < DATE '1995-03-15')"
    ).relations
    assert a.predicates == ("`o_date` < CAST('1995-03-15' AS DATE)", "`status` = 'F'")
    assert b.predicates == ("`l_disc` < 0.05", "`l_qty` > 3")


def test_composite_keys_and_self_joins():
    query = read(
        "SELECT COUNT(*) FROM orders a JOIN orders b ON a.status = b.status AND b.o_custkey = a.o_custkey"
    )
    (link,) = query.links
    assert [key.text for key in link.members[0].key.columns] == ["`o_custkey`", "`status`"]
    assert [relation.alias for relation in query.relations] == ["a", "b"]


def test_measures_are_split_by_relation_and_typed_as_spark_does():
    query = read(
        "SELECT SUM(l_price * (1 - l_disc)) FROM orders o JOIN lineitem l ON o_orderkey = l_orderkey"
    )
    (factor,) = query.aggregate.factors
    assert (factor.relation, str(factor.expression.type)) == (1, "DECIMAL(32,4)")
    left, right = read(
        "SELECT AVG(o_total * l_qty * 2) FROM orders o JOIN lineitem l ON o_orderkey = l_orderkey"
    ).aggregate.factors
    assert (left.relation, right.relation) == (0, 1)
    assert right.expression.text == "`l_qty`"


def test_count_of_a_column_counts_what_is_not_null():
    (factor,) = read("SELECT COUNT(status) FROM orders").aggregate.factors
    assert factor.expression.text == "CASE WHEN NOT `status` IS NULL THEN 1 END"


REFUSED = {
    "SELECT COUNT(*) FROM orders NATURAL JOIN lineitem": "NATURAL",
    "SELECT COUNT(*) FROM orders o JOIN lineitem l ON o_orderkey < l_orderkey": "cross product",
    "SELECT COUNT(*) FROM orders o JOIN lineitem l ON o_orderkey <=> l_orderkey": "NOT DISTINCT",
    JOIN + " LEFT JOIN orders p ON p.o_custkey = o.o_custkey WHERE o.status = 'F' OR l_qty = 1": "OR",
    "SELECT COUNT(*) FROM orders, lineitem": "cross product",
    JOIN + " WHERE o.o_total < l.rate": "DOUBLE",
    JOIN + " WHERE o.status LIKE l.status": "without Spark",
    JOIN + " WHERE o.o_date < CAST(l.status AS TIMESTAMP)": "time zone",
    "SELECT COUNT(*) FROM (SELECT DISTINCT o.status FROM orders o JOIN lineitem l ON o_orderkey = l_orderkey AND "
    "o_custkey < l_qty)": "only with COUNT(DISTINCT ...)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT o.status FROM orders o JOIN lineitem l ON o_orderkey = l_orderkey JOIN "
    "orders p ON p.o_orderkey = o.o_orderkey)": "of two streams",
    "SELECT COUNT(*) FROM orders HAVING COUNT(*) > 1": "HAVING",
    "SELECT COUNT(*) FROM orders ORDER BY 1": "ORDER BY",
    "SELECT COUNT(*) FROM orders LIMIT 1": "LIMIT",
    "SELECT DISTINCT COUNT(*) FROM orders": "DISTINCT",
    "WITH x AS (SELECT 1) SELECT COUNT(*) FROM orders": "WITH",
    "SELECT COUNT(*) FROM (SELECT * FROM orders) o": "duplicates",
    "SELECT SUM(o_total) FROM (SELECT * FROM orders) o": "not a stream",
    "SELECT COUNT(*) FROM orders TABLESAMPLE (10 PERCENT)": "sample",
    "SELECT COUNT(*) FROM orders LATERAL VIEW explode(array(1)) t": "LATERAL",
    "SELECT ANY_VALUE(o_total) FROM orders": "ANY_VALUE",
    "SELECT o_total FROM orders": "o_total",
    "SELECT SUM(DISTINCT o_custkey) FROM orders": "DISTINCT",
    "SELECT SUM(o_total) OVER () FROM orders": "OVER",
    "SELECT SUM(status) FROM orders": "STRING",
    "SELECT SUM(o_total / l_qty) FROM orders o JOIN lineitem l ON o_orderkey = l_orderkey": "o_total / l_qty",
    "SELECT COUNT(*) FROM orders WHERE rand() < 0.5": "RAND",
    "SELECT COUNT(*) FROM orders WHERE o_date < current_date()": "CURRENT_DATE",
    "SELECT COUNT(*) FROM orders WHERE my_udf(o_total) > 1": "my_udf",
    "SELECT COUNT(*) FROM orders WHERE monotonically_increasing_id() > 1": "monotonically_increasing_id",
    "SELECT COUNT(*) FROM orders WHERE o_total > (SELECT 1)": "SELECT",
    "SELECT COUNT(*) FROM orders WHERE o_custkey IN (SELECT 1)": "SELECT",
    "SELECT COUNT(*) FROM orders WHERE EXISTS (SELECT 1)": "EXISTS",
    "SELECT COUNT(*) FROM orders o JOIN lineitem l ON o.o_total = l.rate": "DOUBLE",
    "INSERT INTO orders VALUES (1)": "INSERT",
    "DROP TABLE orders": "DROP",
    "SELECT COUNT(*) FROM orders UNION ALL SELECT COUNT(*) FROM lineitem": "UNION",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:60])
def test_outside_the_class_is_refused_with_its_fragment(text):
    with pytest.raises(UnsupportedQuery) as caught:
        read(text)
    assert REFUSED[text].lower() in str(caught.value).lower()


WRONG = {
    "SELECT COUNT(*) FROM nowhere": "declared are orders, lineitem",
    "SELECT COUNT(*)": "no FROM",
    "SELECT COUNT(* FROM orders": "cannot be read",
    "": "the SQL has no query",
    "SELECT COUNT() FROM orders": "'COUNT()' does not say what is counted",
    "SELECT COUNT(DISTINCT) FROM orders": "'COUNT(DISTINCT)' does not say what is counted",
    "SELECT status, COUNT(*) AS n FROM orders GROUP BY status HAVING COUNT() > 1": "does not say what is counted",
    "SELECT COUNT(*) FROM orders WHERE status IN ()": "no values to compare with",
    "SELECT COUNT(*) FROM orders WHERE status NOT IN ()": "no values to compare with",
    "SELECT COUNT(*) FROM orders WHERE year() = 1": "'YEAR()' lacks an argument",
    "SELECT COUNT(*) FROM orders WHERE abs() = 1": "Abs lacks an argument",
    "SELECT COUNT(*) FROM orders WHERE date_trunc() = 1": "cannot be read as Spark SQL",
    "SELECT COUNT(*) FROM orders; SELECT COUNT(*) FROM orders": "2 statements",
    "SELECT COUNT(*) FROM orders WHERE nope = 1": "orders.o_orderkey",
    "SELECT COUNT(*) FROM orders WHERE x.o_total = 1": "relations are orders",
    JOIN + " WHERE status = 'F'": "ambiguous between o and l",
    "SELECT COUNT(*) FROM orders JOIN orders ON o_custkey = o_custkey": "alias",
    "SELECT COUNT(*) FROM orders o JOIN lineitem l ON o.o_custkey = l.status": "CAST",
    "SELECT COUNT(*) FROM orders o JOIN lineitem l ON o.o_date = l.l_qty": "CAST",
    "SELECT SUM(*) FROM orders": "star",
    "SELECT COUNT(*) FROM orders WHERE " + "x" * MAX_LENGTH: "characters long",
    "SELECT COUNT(*) FROM orders WHERE o_custkey IN (" + ", ".join(map(str, range(6000))) + ")": "parts",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:60])
def test_wrong_text_says_what_and_where(text):
    with pytest.raises(SqlError) as caught:
        read(text)
    assert WRONG[text].lower() in str(caught.value).lower()


def test_casts_make_types_meet():
    (link,) = read(
        "SELECT COUNT(*) FROM orders o JOIN lineitem l ON o.o_custkey = CAST(l.status AS BIGINT)"
    ).links
    assert str(link.members[1].key.columns[0].type) == "BIGINT"


@pytest.mark.parametrize(
    ("ddl", "reason"),
    [
        ("", "no column"),
        ("a BIGINT, A INT", "twice"),
        ("a ARRAY<INT>", "ARRAY"),
        ("a DECIMAL(50,2)", "DECIMAL"),
        ("a", "name TYPE"),
        ("PRIMARY KEY (a)", "name TYPE"),
        ("`a``b` INT", "backtick"),
        ("a BIGINT b", "cannot be read"),
    ],
)
def test_bad_schemas_are_refused(ddl, reason):
    with pytest.raises(PlanError, match=reason):
        parse_schema("s", ddl)


def test_numbers_of_any_length_are_read_or_refused():
    """Python reads no integer of more than 4,300 digits from a text."""
    streams = {"s": parse_schema("s", "k BIGINT")}
    parse_query(f"SELECT COUNT(*) FROM s WHERE k = {'9' * 20}", streams)
    for digits in (39, 5_000):
        with pytest.raises(SqlError):
            parse_query(f"SELECT COUNT(*) FROM s WHERE k = {'9' * digits}", streams)
