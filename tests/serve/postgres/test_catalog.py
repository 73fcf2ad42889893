"""The catalog against a real PostgreSQL: what tools send gives the same columns, and the same rows where they say so."""

import pathlib
import re

import psycopg
import pytest

STATEMENTS = pathlib.Path(__file__).parent / "statements"


def statements():
    """Yield tool, purpose and text of each statement."""
    for path in sorted(STATEMENTS.glob("*.sql")):
        purpose = ""
        for part in re.split(r";[ \t]*(?:\n|$)", path.read_text()):
            said = re.match(r"-- (.*)", part.strip())
            purpose = said[1] if said else purpose
            if part.strip():
                yield pytest.param(purpose, part, id=f"{path.stem}: {purpose}")


def asked(dsn, text):
    """Return the columns and rows of a statement as texts, sent by the simple protocol."""
    with psycopg.connect(dsn, autocommit=True) as client:
        result = client.pgconn.exec_(text.encode())
        assert not result.error_message, result.error_message.decode()
        columns = [result.fname(i).decode() for i in range(result.nfields)]
        rows = [[result.get_value(i, j) for j in range(result.nfields)] for i in range(result.ntuples)]
        return columns, rows


OURS = {"a panel with a band"}  # like all with n_low, it reads columns that PostgreSQL's view does not have
OWN = (
    # names and numbers of this server, its user and its database
    r"session_user", r"pg_backend_pid\(\)", r"version\(\)", r"\bpg_database\b", r"\bpg_roles\b",
    r"pg_get_userbyid",
    r"\bpg_settings where", r"show time", r"pg_total_relation_size", r"reltuples", r"has_any_column_privilege",
    # views of the shop, comments and columns that a PostgreSQL's view does not have
    r"relkind IN \('v', 'm'\)", r"information_schema\.tables", r"information_schema\.columns", r"pg_get_viewdef",
    r"relname='by_day'", r"table_comment", r"\bas schema,", r"c\.oid, n\.nspname",
    r"pg_catalog\.format_type\(a\.att",
    # PostgreSQL's own catalog is longer: keywords, types, functions, schemas, access methods
    r"pg_get_keywords", r"\bpg_am\b", r"pg_catalog\.pg_namespace", r"pg_type (typ|t)\b", r"schema_name, [cp]\.",
    r"dependent_namespace", r"\"udt_schema\"", r"typ\.typnamespace", r"dep\.objid", r"pg_get_partkeydef", r"c\.relchecks",
    r"schema_name, cls",
    # any rows of a stream
    r"from orders\s+limit", r"total AS total",
)  # fmt: skip
OWN_ROWS = re.compile("|".join(OWN), re.IGNORECASE)
"""Statements whose rows may differ from a PostgreSQL's; those of all others are compared."""


def has_own_rows(purpose, text):
    return OWN_ROWS.search(text) is not None and not purpose.startswith("same")


def test_the_rows_of_most_statements_are_compared():
    compared = [
        text for purpose, text in (each.values for each in statements()) if not has_own_rows(purpose, text)
    ]
    assert len(compared) >= 53


@pytest.mark.parametrize(("purpose", "text"), list(statements()))
def test_what_a_tool_sends_is_answered_as_by_postgresql(purpose, text, dsn, real):
    columns, rows = asked(dsn, text)
    if purpose in OURS or "n_low" in text:
        return
    expected, their_rows = asked(real, text.replace('"shop"."public"', '"public"'))
    assert [
        name for name in columns if name != "weight"
    ] == expected  # rows of a stream come with their weights
    if not has_own_rows(purpose, text):
        in_order = "order by" in text.lower()
        assert (rows if in_order else sorted(rows)) == (their_rows if in_order else sorted(their_rows))


SAME = [
    "SELECT column_name, data_type, numeric_precision, numeric_scale, datetime_precision, udt_name, is_nullable FROM information_schema.columns WHERE table_schema = 'public' AND table_name IN ('orders', 'visits') ORDER BY table_name, ordinal_position",
    "SELECT attname, format_type(atttypid, atttypmod), attlen, attnum, atttypid, atttypmod, attalign, attstorage FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attnum > 0 ORDER BY attnum",
    "SELECT relname, relkind FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname IN ('orders', 'visits', 'by_region') ORDER BY 1",
    "SELECT attrelid::regclass, attname FROM pg_attribute WHERE attrelid IN ('public.orders'::regclass) AND attnum = 2",
    "SELECT oid, typname, typlen, typtype, typcategory, typarray, typelem, typinput, typreceive FROM pg_type WHERE typname IN ('int8', 'text', 'numeric', '_int4', 'date', 'oid') ORDER BY oid",
    "SELECT t.typname, p.proname FROM pg_type t JOIN pg_proc p ON p.oid = t.typreceive WHERE t.typname IN ('int8', '_text') ORDER BY 1",
    "SELECT 'orders'::regclass::text, 'int8'::regtype::oid, 'pg_class'::regclass::oid, 1184::regtype::text, 23::regtype",
    "SELECT to_regclass('nothing') IS NULL, quote_ident('a b'), quote_ident('ab'), quote_literal('it''s')",
    "SELECT has_table_privilege('orders', 'SELECT'), has_schema_privilege('public', 'USAGE'), pg_table_is_visible('orders'::regclass), pg_table_is_visible('information_schema.tables'::regclass)",
    "SELECT current_schemas(true), current_schemas(false), current_schema()",
    "SELECT 7 / 2, -7 / 2, 7 % 3, 'a' || 'b', 'by_x' LIKE 'by\\_%', 'byxx' LIKE 'by\\_%', 2.5::int, 1::boolean",
    "SELECT array_to_string(ARRAY['a', 'b'], ','), array_upper(ARRAY[1, 2, 3], 1), 2 = ANY(ARRAY[1, 2]), 'r' = ANY('{r,v}')",
    "SELECT x FROM (VALUES (1), (NULL), (3)) AS t(x) ORDER BY x DESC",
    "SELECT x FROM (VALUES (1), (NULL), (3)) AS t(x) ORDER BY x",
    "SELECT date '2024-02-29' + 1, extract(dow FROM date '2024-02-25'), timestamp '2024-02-29 12:00:00' - interval '1 day'",
    "SELECT count(*) FROM pg_catalog.pg_attrdef",
    "WITH a AS (SELECT 1 AS x UNION ALL SELECT 2) SELECT sum(x), max(x) FROM a WHERE x > 0",
    "SELECT region, n, rank() OVER (ORDER BY n DESC, region) FROM by_region ORDER BY 3",
    "SELECT region, count(*) FROM orders WHERE is_paid GROUP BY region ORDER BY region",
    "SELECT count(*) FROM orders WHERE region = 'O''Hare \\ \"x\"'",
    "SELECT count(*) FROM orders WHERE region LIKE 'O_Hare%'",
    "SELECT day, count(*) FROM visits GROUP BY day ORDER BY day",
    "SELECT count(*) FROM visits WHERE at >= '2024-02-28 12:00:00' AND at < timestamp '2024-02-29'",
    "SELECT count(*) FROM visits WHERE day IN ('2024-02-28', '2024-03-01') OR day > '2024-03-01'",
    "SELECT count(*) FROM visits WHERE seconds BETWEEN 10 AND 20 AND NOT seconds = 15",
    "SELECT count(*) AS n FROM orders o, visits v WHERE o.customer = v.customer",
    "SELECT is_paid, count(*) FROM orders GROUP BY is_paid ORDER BY is_paid",
    "SELECT region FROM orders GROUP BY region ORDER BY region",
    "SELECT DISTINCT region FROM orders ORDER BY region",
    "SELECT count(DISTINCT customer) FROM orders",
    "SELECT sum(seconds), max(seconds), min(seconds) FROM visits",
    "SELECT customer, region, total FROM orders LIMIT 0",
    'SELECT region AS "Region", count(*) AS "Count of Rows" FROM "orders" GROUP BY region ORDER BY "Count of Rows" DESC, "Region"',
    "SELECT count(*) FILTER (WHERE is_paid) AS paid FROM orders",
]


@pytest.mark.parametrize("text", SAME)
def test_a_query_gives_what_postgresql_gives(text, dsn, real):
    assert asked(dsn, text) == asked(real, text)


def test_nothing_of_the_machine_can_be_read(dsn):
    for text in (
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        'SELECT * FROM "/etc/passwd"',
        "SELECT * FROM duckdb_settings()",
        "SELECT getvariable('user')",
        "SELECT * FROM dsn",
        "SELECT * FROM query('SELECT 1')",
        "COPY orders TO '/tmp/x'",
        "COPY (SELECT 1) TO PROGRAM 'id'",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT cat.missing('a', 'b')",
        "SELECT * FROM cat.pg_class",
    ):
        with psycopg.connect(dsn, autocommit=True) as client, pytest.raises(psycopg.Error) as raised:
            client.execute(text)
        assert raised.value.sqlstate in ("42883", "42P01", "0A000", "42601", "42703"), (text, raised.value)
