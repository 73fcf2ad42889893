"""PostgreSQL functions that tools call on the catalog, as macros of DuckDB.

A store has no indexes, constraints, triggers or sequences, and one role that may read everything. Functions about
them return that. The tables that macros look up have columns such as "#oid": DuckDB inserts a macro's argument into
the macro's SQL, and would take a column of the same name in the caller's query for the macro's own.
"""

import duckdb

import eddyline
from eddyline.serve.postgres.settings import SERVER_VERSION

_ANY = ("a", "b", "c", "d")
_TRUE = [
    "pg_type_is_visible",
    "pg_function_is_visible",
    "pg_operator_is_visible",
    "pg_opclass_is_visible",
    "pg_collation_is_visible",
    "pg_conversion_is_visible",
    "pg_ts_config_is_visible",
    "pg_statistics_obj_is_visible",
    "pg_has_role",
    "pg_ts_dict_is_visible",
    "pg_ts_parser_is_visible",
    "pg_ts_template_is_visible",
    "pg_opfamily_is_visible",
]
_FALSE = [
    "pg_is_in_recovery",
    "pg_is_wal_replay_paused",
    "pg_is_other_temp_schema",
    "pg_relation_is_publishable",
    "pg_cancel_backend",
    "pg_terminate_backend",
    "pg_index_column_has_property",
    "pg_indexam_has_property",
    "pg_index_has_property",
    "row_security_active",
]
_NULL = [
    "pg_get_expr",
    "pg_get_indexdef",
    "pg_get_constraintdef",
    "pg_get_ruledef",
    "pg_get_triggerdef",
    "pg_get_function_sqlbody",
    "pg_get_partkeydef",
    "pg_get_partition_constraintdef",
    "pg_get_statisticsobjdef_columns",
    "pg_get_statisticsobjdef",
    "pg_get_serial_sequence",
    "pg_get_function_arg_default",
    "pg_tablespace_location",
    "inet_server_addr",
    "inet_client_addr",
    "inet_server_port",
    "inet_client_port",
    "pg_last_xact_replay_timestamp",
    "pg_last_wal_receive_lsn",
    "pg_last_wal_replay_lsn",
    "pg_advisory_unlock_all",
    "shobj_description",
    "col_description",
    "pg_relation_filenode",
    "pg_relation_filepath",
    "acldefault",
    "pg_stat_get_last_vacuum_time",
    "pg_stat_get_last_analyze_time",
    "pg_stat_get_last_autovacuum_time",
    "pg_current_wal_lsn",
    "pg_stat_get_last_autoanalyze_time",
    "pg_column_compression",
    "pg_sequence_last_value",
    "pg_describe_object",
]
_ZERO = [
    "pg_relation_size",
    "pg_total_relation_size",
    "pg_table_size",
    "pg_indexes_size",
    "pg_database_size",
    "pg_tablespace_size",
    "pg_my_temp_schema",
    "txid_current",
    "pg_stat_get_numscans",
    "pg_stat_get_tuples_returned",
    "pg_stat_get_live_tuples",
    "pg_stat_get_dead_tuples",
    "pg_stat_get_tuples_inserted",
    "pg_stat_get_tuples_updated",
    "pg_stat_get_tuples_deleted",
    "age",
    "pg_backend_memory",
    "pg_blocking_pids",
    "pg_partition_root",
]
_READS = (
    "CASE WHEN upper(trim(split_part(split_part({}, ',', 1), ' WITH', 1))) IN ('SELECT', 'USAGE', 'CONNECT', "
    "'EXECUTE', 'TEMP', 'TEMPORARY', 'MEMBER') THEN true ELSE false END"
)
_PRIVILEGES = [
    "table",
    "schema",
    "database",
    "any_column",
    "sequence",
    "function",
    "language",
    "tablespace",
    "type",
    "server",
]


def _of_function(column: str) -> str:
    return f'(a) AS (SELECT "#{column}" FROM cat."#functions" WHERE "#oid" = CAST(a AS BIGINT))'


POSTGRES_VERSION = f"PostgreSQL {SERVER_VERSION} (eddyline {eddyline.__version__})"

_MACROS = {
    "pg_table_is_visible": "(a) AS a < 13000 OR a >= 16384",
    "version": f"() AS '{POSTGRES_VERSION}'",
    "current_database": "() AS getvariable('database')",
    "current_catalog": "() AS getvariable('database')",
    "current_user": "() AS getvariable('user')",
    "session_user": "() AS getvariable('user')",
    "user": "() AS getvariable('user')",
    "current_role": "() AS getvariable('user')",
    "current_schema": "() AS 'public'",
    "current_schemas": "(a) AS CASE WHEN a THEN ['pg_catalog', 'public'] ELSE ['public'] END",
    "pg_backend_pid": "() AS getvariable('process')",
    "pg_postmaster_start_time": "() AS CAST(getvariable('started') AS TIMESTAMPTZ)",
    "pg_conf_load_time": "() AS CAST(getvariable('started') AS TIMESTAMPTZ)",
    "pg_get_userbyid": "(a) AS CASE WHEN a = 10 THEN getvariable('user') ELSE 'unknown (OID=' || a || ')' END",
    "getdatabaseencoding": "() AS 'UTF8'",
    "pg_client_encoding": "() AS 'UTF8'",
    "pg_encoding_to_char": "(a) AS CASE WHEN a = 6 THEN 'UTF8' WHEN a = 0 THEN 'SQL_ASCII' ELSE '' END",
    "pg_char_to_encoding": "(a) AS CASE WHEN upper(a) IN ('UTF8', 'UTF-8') THEN 6 ELSE -1 END",
    "pg_encoding_max_length": "(a) AS 4",
    "format_type": (
        '(a, b) AS CASE WHEN a IS NULL THEN NULL ELSE coalesce((SELECT CASE WHEN "#oid" = 1700 AND b > 0 '
        "THEN 'numeric(' || ((b - 4) >> 16) || ',' || ((b - 4) & 65535) || ')' "
        'WHEN "#oid" IN (1042, 1043) AND b > 4 THEN "#name" || \'(\' || (b - 4) || \')\' ELSE "#name" END '
        'FROM cat."#types" WHERE "#oid" = CAST(a AS BIGINT)), \'???\') END'
    ),
    "pg_get_viewdef": (
        '(a) AS (SELECT "#text" FROM cat."#classes" WHERE "#oid" = CAST(a AS BIGINT)), '
        '(a, b) AS (SELECT "#text" FROM cat."#classes" WHERE "#oid" = CAST(a AS BIGINT))'
    ),
    "obj_description": (
        '(a) AS (SELECT "#comment" FROM cat."#classes" WHERE "#oid" = CAST(a AS BIGINT)), '
        '(a, b) AS (SELECT "#comment" FROM cat."#classes" WHERE "#oid" = CAST(a AS BIGINT) AND b = \'pg_class\')'
    ),
    "to_regclass": (
        '(a) AS (SELECT CAST(min("#oid") AS UINTEGER) FROM cat."#classes" WHERE lower("#name") = '
        "lower(replace(regexp_extract(a, '([^.]+)$', 1), '\"', '')) AND (NOT contains(a, '.') OR \"#schema\" = "
        "lower(replace(regexp_extract(a, '([^.]+)[.][^.]+$', 1), '\"', ''))))"
    ),
    "regclass_oid": (
        "(a) AS CAST(coalesce(try_cast(a AS BIGINT), cat.to_regclass(a), "
        "CASE WHEN a IS NOT NULL THEN cat.raised('42P01', 'relation \"' || a || '\" does not exist') END) AS UINTEGER)"
    ),
    "regclass_name": (
        "(a) AS (SELECT CASE WHEN \"#schema\" IN ('pg_catalog', 'public') THEN \"#name\" ELSE \"#schema\" || '.' || "
        '"#name" END FROM cat."#classes" WHERE "#oid" = CAST(a AS BIGINT))'
    ),
    "regtype_oid": (
        '(a) AS CAST(coalesce(try_cast(a AS BIGINT), (SELECT min("#oid") FROM cat."#types" WHERE '
        "replace(replace(a, 'pg_catalog.', ''), '\"', '') IN (\"#name\", \"#typname\"))) AS UINTEGER)"
    ),
    "to_regtype": (
        "(a) AS (SELECT min(\"#oid\") FROM cat.\"#types\" WHERE replace(a, 'pg_catalog.', '') "
        'IN ("#name", "#typname"))'
    ),
    "regproc_oid": '(a) AS (SELECT min("#oid") FROM cat."#functions" WHERE "#name" = a)',
    "one_function": (
        '(a) AS (SELECT CASE count(*) WHEN 1 THEN min("#oid") WHEN 0 THEN '
        "cat.raised('42883', 'function \"' || a || '\" does not exist') "
        "ELSE cat.raised('42725', 'more than one function named \"' || a || '\"') END "
        'FROM cat."#functions" WHERE "#name" = a)'
    ),
    "pg_get_functiondef": (
        "(a) AS (SELECT CASE WHEN \"#kind\" = 'a' THEN "
        "cat.raised('42809', '\"' || \"#name\" || '\" is an aggregate function') "
        'ELSE "#text" END FROM cat."#functions" WHERE "#oid" = CAST(a AS BIGINT))'
    ),
    "pg_get_function_result": _of_function("result"),
    "pg_get_function_arguments": _of_function("arguments"),
    "pg_get_function_identity_arguments": _of_function("arguments"),
    "regnamespace_oid": (
        '(a) AS CAST(coalesce(try_cast(a AS BIGINT), (SELECT min("#oid") FROM cat."#schemas" '
        "WHERE \"#name\" = replace(a, '\"', ''))) AS UINTEGER)"
    ),
    "regnamespace_name": '(a) AS (SELECT "#name" FROM cat."#schemas" WHERE "#oid" = CAST(a AS BIGINT))',
    "regrole_name": "(a) AS getvariable('user')",
    "regrole_oid": "(a) AS 10",
    "quote_ident": (
        "(a) AS CASE WHEN regexp_full_match(a, '[a-z_][a-z0-9_$]*') THEN a "
        "ELSE '\"' || replace(a, '\"', '\"\"') || '\"' END"
    ),
    "parse_ident": (
        '(a) AS list_transform(regexp_extract_all(a, \'"(?:[^"]|"")*"|[^."]+\'), lambda part: '
        "CASE WHEN part[1] = '\"' THEN replace(part[2:-2], '\"\"', '\"') ELSE lower(trim(part)) END)"
    ),
    "quote_literal": "(a) AS '''' || replace(CAST(a AS VARCHAR), '''', '''''') || ''''",
    "quote_nullable": "(a) AS coalesce('''' || replace(CAST(a AS VARCHAR), '''', '''''') || '''', 'NULL')",
    "pg_size_pretty": "(a) AS a || ' bytes'",
    "array_upper": "(a, b) AS nullif(len(a), 0)",
    "array_lower": "(a, b) AS CASE WHEN len(a) > 0 THEN 1 END",
    "array_ndims": "(a) AS CASE WHEN len(a) > 0 THEN 1 END",
    "array_position": "(a, b) AS nullif(list_position(a, b), 0)",
    "array_remove": "(a, b) AS [x FOR x IN a IF x IS DISTINCT FROM b]",
    "array_cat": "(a, b) AS list_concat(a, b)",
    "_pg_expandarray": (
        "(a) AS unnest([{'x': a[i], 'n': CAST(i AS INTEGER)} FOR i IN range(1, len(a) + 1)])"
    ),
    "_pg_truetypid": "(a, b) AS a.atttypid",
    "_pg_truetypmod": "(a, b) AS a.atttypmod",
    "_pg_char_max_length": "(a, b) AS CASE WHEN a IN (1042, 1043) AND b > 4 THEN b - 4 END",
    "_pg_numeric_precision": (
        "(a, b) AS CASE a WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 20 THEN 64 WHEN 1700 THEN CASE WHEN b > 0 THEN "
        "(b - 4) >> 16 END WHEN 700 THEN 24 WHEN 701 THEN 53 END"
    ),
    "_pg_numeric_scale": (
        "(a, b) AS CASE WHEN a IN (20, 21, 23) THEN 0 WHEN a = 1700 AND b > 0 THEN (b - 4) & 65535 END"
    ),
    "_pg_datetime_precision": "(a, b) AS CASE WHEN a = 1082 THEN 0 WHEN a IN (1083, 1114, 1184) THEN 6 END",
    "pg_options_to_table": "(a) AS TABLE SELECT '' AS option_name, '' AS option_value WHERE false",
    "aclexplode": (
        "(a) AS TABLE SELECT 10::UINTEGER AS grantor, 10::UINTEGER AS grantee, 'SELECT' AS privilege_type, "
        "false AS is_grantable WHERE false"
    ),
    "pg_get_keywords": (
        "() AS TABLE SELECT unnest(['all', 'and', 'any', 'array', 'as', 'asc', 'between', 'by', 'case', 'cast', "
        "'column', 'cross', 'desc', 'distinct', 'else', 'end', 'except', 'exists', 'false', 'for', 'from', 'full', "
        "'group', 'having', 'in', 'inner', 'intersect', 'is', 'join', 'left', 'like', 'limit', 'not', 'null', "
        "'offset', 'on', 'or', 'order', 'outer', 'right', 'select', 'then', 'true', 'union', 'using', 'when', "
        "'where', 'window', 'with']) AS word, 'R' AS catcode, true AS barelabel, 'reserved' AS catdesc, "
        "'bare label' AS baredesc"
    ),
    "pg_stat_get_activity": "(a) AS TABLE SELECT * FROM cat.pg_stat_activity",
    "pg_show_all_settings": "() AS TABLE SELECT * FROM cat.pg_settings",
    "pg_available_extensions": "() AS TABLE SELECT * FROM cat.pg_available_extensions",
}
TABLE_FUNCTIONS = frozenset(name for name, text in _MACROS.items() if ") AS TABLE " in text)
"""Macros that are used in FROM."""


def function_names() -> frozenset[str]:
    """Return the names of all functions that are macros here."""
    plain = (
        *_TRUE,
        *_FALSE,
        *_NULL,
        *_ZERO,
        *(f"has_{each}_privilege" for each in _PRIVILEGES),
        "has_column_privilege",
    )
    return frozenset((*_MACROS, *plain))


CATALOG_FUNCTIONS = function_names()


def create_functions(database: duckdb.DuckDBPyConnection) -> None:
    """Create all macros."""
    database.execute("CREATE MACRO cat.raised(state, said) AS error(state || ' raised: ' || said)")
    for names, value in (
        (_TRUE, "true"),
        (_FALSE, "false"),
        (_NULL, "CAST(NULL AS VARCHAR)"),
        (_ZERO, "0::BIGINT"),
    ):
        for name in names:
            _create(database, name, ", ".join(f"({', '.join(_ANY[:n])}) AS {value}" for n in range(5)))
    for name in _PRIVILEGES:
        _create(
            database,
            f"has_{name}_privilege",
            f"(a, b) AS {_READS.format('b')}, (a, b, c) AS {_READS.format('c')}",
        )
    _create(
        database,
        "has_column_privilege",
        f"(a, b, c) AS {_READS.format('c')}, (a, b, c, d) AS {_READS.format('d')}",
    )
    for name, text in _MACROS.items():
        _create(database, name, text)


def _create(database: duckdb.DuckDBPyConnection, name: str, text: str) -> None:
    database.execute(f'CREATE MACRO cat."{name}"{text}')
