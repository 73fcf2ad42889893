"""The relations of pg_catalog and information_schema, as tables and views of a DuckDB database.

catalog.txt has what a real PostgreSQL 15 has: every relation with its columns, the types that we use, and the
functions of those types. A relation for which a store has no data is empty, with the right columns.
"""

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import duckdb
import pyarrow as pa

from eddyline.serve.postgres import values
from eddyline.serve.postgres.settings import DEFAULTS

CATALOG, INFORMATION, PUBLIC = 11, 13_000, 2_200
"""The oids of the schemas pg_catalog, information_schema and public."""
FIRST_OID = 16_384
"""Where PostgreSQL's own oids end and those of users' relations begin."""
OWNER = 10
_SCHEMAS = {"pg_catalog": "cat", "information_schema": "info"}
"""The schemas of DuckDB that hold them: DuckDB's own pg_catalog is not PostgreSQL's."""
_TYPES = {
    "oid": "UINTEGER", "xid": "BIGINT", "regproc": "VARCHAR", "smallint": "SMALLINT", "integer": "INTEGER",
    "bigint": "BIGINT", "real": "FLOAT", "double precision": "DOUBLE", "boolean": "BOOLEAN", "numeric": "DOUBLE",
    "bytea": "BLOB", "timestamp with time zone": "TIMESTAMPTZ", "time_stamp": "TIMESTAMPTZ", "interval": "INTERVAL",
    "int2vector": "SMALLINT[]", "oidvector": "UINTEGER[]", "cardinal_number": "INTEGER", "smallint[]": "SMALLINT[]",
    "oid[]": "UINTEGER[]", "real[]": "FLOAT[]", "double precision[]": "DOUBLE[]", "text[]": "VARCHAR[]",
    "name[]": "VARCHAR[]", "aclitem[]": "VARCHAR[]", '"char"[]': "VARCHAR[]",
}  # fmt: skip


@dataclass(frozen=True)
class CatalogRelation:
    """One of PostgreSQL's own relations: schema, name, kind (r or v), oid, and its columns with their types."""

    schema: str
    name: str
    kind: str
    oid: int
    columns: tuple[tuple[str, str], ...]

    @property
    def place(self) -> str:
        """Its name in DuckDB."""
        return f"{_SCHEMAS[self.schema]}.{self.name}"


@dataclass(frozen=True)
class UserRelation:
    """A stream (kind r) or a planned query (kind v) as clients see it, with its columns."""

    name: str
    kind: str
    schema: pa.Schema
    definition: str = ""
    comment: str = ""
    oid: int = 0


@dataclass(frozen=True)
class _Written:
    relations: dict[tuple[str, str], CatalogRelation] = field(default_factory=dict)
    types: list[tuple[str, ...]] = field(default_factory=list)
    functions: list[tuple[str, ...]] = field(default_factory=list)
    callables: list[tuple[str, ...]] = field(default_factory=list)


@cache
def catalog_relations() -> _Written:
    """Return the content of catalog.txt."""
    found = _Written()
    for line in (
        (files("eddyline.serve.postgres.catalog") / "catalog.txt").read_text(encoding="utf-8").splitlines()
    ):
        what, *parts = line.split("\t")
        if what == "relation":
            schema, name, kind, oid, columns = parts
            named = tuple((n, t) for n, _, t in (each.partition(" ") for each in columns.split(", ")))
            found.relations[schema, name] = CatalogRelation(schema, name, kind, int(oid), named)
        elif what == "type":
            found.types.append(tuple(parts))
        elif what == "function":
            found.functions.append(tuple(parts))
        elif what == "callable":
            found.callables.append(tuple(parts))
    return found


@cache
def column_types() -> dict[str, int]:
    """Return the types of all columns of the catalog, by name: for parameters that are compared with them."""
    oids = {"UINTEGER": values.OID, "SMALLINT": values.INT2, "INTEGER": values.INT4, "BIGINT": values.INT8}
    oids |= {"BOOLEAN": values.BOOL, "FLOAT": values.FLOAT4, "DOUBLE": values.FLOAT8}
    return {
        name: oids.get(_TYPES.get(kind, "VARCHAR"), values.TEXT)
        for relation in catalog_relations().relations.values()
        for name, kind in relation.columns
    }


def create_relations(database: duckdb.DuckDBPyConnection, users: tuple[UserRelation, ...]) -> None:
    """Create all relations of the catalog that are not computed, with the data of a store."""
    for schema in _SCHEMAS.values():
        database.execute(f"CREATE SCHEMA {schema}")
    for (schema, name), relation in catalog_relations().relations.items():
        if (schema, name) not in _VIEWS:
            columns = ", ".join(f'"{n}" {_TYPES.get(t, "VARCHAR")}' for n, t in relation.columns)
            database.execute(f"CREATE TABLE {relation.place} ({columns})")
    database.execute("CREATE TABLE cat.definitions (oid UINTEGER, definition VARCHAR)")
    database.execute(
        "CREATE TABLE cat.signatures (oid UINTEGER, arguments VARCHAR, result VARCHAR, definition VARCHAR)"
    )
    database.execute("CREATE TABLE cat.type_names (oid UINTEGER, typname VARCHAR, name VARCHAR)")
    _fill(database, users)


def create_views(database: duckdb.DuckDBPyConnection) -> None:
    """Create the computed relations, after the functions that they call."""
    for (schema, name), query in _VIEWS.items():
        relation = catalog_relations().relations[schema, name]
        given = [part.strip().split(" AS ")[-1] for part in query[0]]
        parts = [
            query[0][given.index(n)] if n in given else f'CAST(NULL AS {_TYPES.get(t, "VARCHAR")}) AS "{n}"'
            for n, t in relation.columns
        ]
        database.execute(f"CREATE VIEW {relation.place} AS SELECT {', '.join(parts)} FROM {query[1]}")


def _fill(database: duckdb.DuckDBPyConnection, users: tuple[UserRelation, ...]) -> None:
    own = list(catalog_relations().relations.values())
    _insert(database, "pg_namespace", [
        {"oid": oid, "nspname": name, "nspowner": OWNER}
        for name, oid in (("pg_catalog", CATALOG), ("public", PUBLIC), ("information_schema", INFORMATION))
    ])  # fmt: skip
    classes = [
        _class(
            each.oid,
            each.name,
            CATALOG if each.schema == "pg_catalog" else INFORMATION,
            each.kind,
            len(each.columns),
        )
        for each in own
    ]
    classes += [_class(each.oid, each.name, PUBLIC, each.kind, len(each.schema)) for each in users]
    _insert(database, "pg_class", classes)
    by_name = {row[18]: row for row in catalog_relations().types}
    by_oid = {int(row[0]): row for row in catalog_relations().types}
    columns = []
    for relation in own:
        for place, (name, kind) in enumerate(relation.columns, 1):
            columns.append(_attribute(relation.oid, name, place, by_name.get(kind) or by_name["text"], -1))
    for user in users:
        for place, of in enumerate(user.schema, 1):
            column = values.column_of(of)
            columns.append(_attribute(user.oid, column.name, place, by_oid[column.oid], column.modifier))
    _insert(database, "pg_attribute", columns)
    _insert(database, "pg_type", [_type(row) for row in catalog_relations().types])
    _insert(database, "pg_proc", [
        {"oid": int(oid), "proname": name, "pronamespace": CATALOG, "proowner": OWNER, "prolang": 12, "prokind": "f",
         "pronargs": 1, "prorettype": 2281, "proretset": False, "provolatile": "i", "prosrc": name}
        for oid, name in catalog_relations().functions
    ])  # fmt: skip
    _insert(database, "pg_proc", [_callable(row) for row in catalog_relations().callables])
    _insert(database, "signatures", [
        {"oid": int(row[0]), "arguments": row[8], "result": row[9], "definition": _definition(row)}
        for row in catalog_relations().callables
    ])  # fmt: skip
    _insert(database, "pg_description", [
        {"objoid": each.oid, "classoid": 1259, "objsubid": 0, "description": each.comment}
        for each in users if each.comment
    ])  # fmt: skip
    _insert(
        database, "pg_am", [{"oid": 2, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"}]
    )
    _insert(database, "pg_tablespace", [{"oid": 1663, "spcname": "pg_default", "spcowner": OWNER}])
    _insert(database, "pg_language", [
        {"oid": oid, "lanname": name, "lanowner": OWNER, "lanispl": False, "lanpltrusted": name == "sql"}
        for oid, name in ((12, "internal"), (13, "c"), (14, "sql"))
    ])  # fmt: skip
    _insert(database, "pg_collation", [
        {"oid": oid, "collname": name, "collnamespace": CATALOG, "collowner": OWNER, "collprovider": "d",
         "collisdeterministic": True, "collencoding": -1}
        for oid, name in ((100, "default"), (950, "C"), (951, "POSIX"))
    ])  # fmt: skip
    _insert(database, "pg_settings", [
        {"name": name, "setting": value, "category": "eddyline" if "." in name else "PostgreSQL", "short_desc": "",
         "context": "user", "vartype": "string", "source": "default", "boot_val": value, "reset_val": value,
         "pending_restart": False}
        for name, value in DEFAULTS.items()
    ])  # fmt: skip
    rows = [{"oid": each.oid, "definition": each.definition} for each in users if each.definition]
    _insert(database, "definitions", rows)
    _insert(database, "type_names", [
        {"oid": int(row[0]), "typname": row[1], "name": row[18]} for row in catalog_relations().types
    ])  # fmt: skip
    for name, query in _LOOKUPS.items():
        database.execute(f'CREATE TABLE cat."#{name}" AS {query}')


def _insert(database: duckdb.DuckDBPyConnection, name: str, rows: list[dict[str, object]]) -> None:
    """Add rows; missing columns are NULL."""
    if not rows:
        return
    table = pa.Table.from_pylist(rows)
    database.register("rows_to_insert", table)
    database.execute(f"INSERT INTO cat.{name} BY NAME SELECT * FROM rows_to_insert")
    database.unregister("rows_to_insert")


def _class(oid: int, name: str, schema: int, kind: str, columns: int) -> dict[str, object]:
    return {
        "oid": oid, "relname": name, "relnamespace": schema, "reltype": 0, "reloftype": 0, "relowner": OWNER,
        "relam": 2 if kind == "r" else 0, "relfilenode": 0, "reltablespace": 0, "relpages": 0, "reltuples": -1.0,
        "relallvisible": 0, "reltoastrelid": 0, "relhasindex": False, "relisshared": False, "relpersistence": "p",
        "relkind": kind, "relnatts": columns, "relchecks": 0, "relhasrules": kind == "v", "relhastriggers": False,
        "relhassubclass": False, "relrowsecurity": False, "relforcerowsecurity": False, "relispopulated": True,
        "relreplident": "d", "relispartition": False, "relrewrite": 0, "relfrozenxid": 0, "relminmxid": 0,
    }  # fmt: skip


def _attribute(
    relation: int, name: str, place: int, kind: tuple[str, ...], modifier: int
) -> dict[str, object]:
    return {
        "attrelid": relation, "attname": name, "atttypid": int(kind[0]), "attstattarget": -1, "attlen": int(kind[2]),
        "attnum": place, "attndims": 1 if int(kind[7]) and kind[5] == "A" else 0, "attcacheoff": -1,
        "atttypmod": modifier, "attbyval": kind[3] == "t", "attalign": kind[15], "attstorage": kind[16],
        "attcompression": "", "attnotnull": False, "atthasdef": False, "atthasmissing": False, "attidentity": "",
        "attgenerated": "", "attisdropped": False, "attislocal": True, "attinhcount": 0, "attcollation": int(kind[17]),
    }  # fmt: skip


def _type(row: tuple[str, ...]) -> dict[str, object]:
    return {
        "oid": int(row[0]), "typname": row[1], "typnamespace": CATALOG, "typowner": OWNER, "typlen": int(row[2]),
        "typbyval": row[3] == "t", "typtype": row[4], "typcategory": row[5], "typispreferred": row[6] == "t",
        "typisdefined": True, "typdelim": ",", "typrelid": 0, "typsubscript": row[19], "typelem": int(row[7]),
        "typarray": int(row[8]), "typinput": row[9], "typoutput": row[10], "typreceive": row[11], "typsend": row[12],
        "typmodin": row[13], "typmodout": row[14], "typanalyze": "-", "typalign": row[15], "typstorage": row[16],
        "typnotnull": False, "typbasetype": 0, "typtypmod": -1, "typndims": 0, "typcollation": int(row[17]),
    }  # fmt: skip


def _callable(row: tuple[str, ...]) -> dict[str, object]:
    return {
        "oid": int(row[0]), "proname": row[1], "pronamespace": CATALOG, "proowner": OWNER, "prolang": 12,
        "prokind": row[2], "provolatile": row[3], "proisstrict": row[4] == "t", "proretset": row[5] == "t",
        "prorettype": int(row[6]), "pronargs": len(row[7].split()), "prosrc": row[10],
        "proargtypes": [int(each) for each in row[7].split()],
    }  # fmt: skip


def _definition(row: tuple[str, ...]) -> str | None:
    """Return the statement that would create a function, as PostgreSQL writes it; an aggregate has none."""
    _, name, kind, *_, arguments, result, source, properties = row
    return None if kind == "a" else (
        f"CREATE OR REPLACE FUNCTION pg_catalog.{name}({arguments})\n RETURNS {result}\n LANGUAGE internal\n "
        f"{properties}\nAS $function${source}$function$\n"
    )  # fmt: skip


_LOOKUPS = {
    "types": 'SELECT oid AS "#oid", typname AS "#typname", name AS "#name" FROM cat.type_names',
    "classes": 'SELECT c.oid AS "#oid", c.relname AS "#name", n.nspname AS "#schema", d.definition AS "#text", '
    's.description AS "#comment" FROM cat.pg_class c JOIN cat.pg_namespace n ON n.oid = c.relnamespace '
    "LEFT JOIN cat.definitions d ON d.oid = c.oid LEFT JOIN cat.pg_description s ON s.objoid = c.oid",
    "functions": 'SELECT p.oid AS "#oid", proname AS "#name", prokind AS "#kind", arguments AS "#arguments", '
    'result AS "#result", definition AS "#text" FROM cat.pg_proc p LEFT JOIN cat.signatures s ON s.oid = p.oid',
    "schemas": 'SELECT oid AS "#oid", nspname AS "#name" FROM cat.pg_namespace',
}
"""Tables that the macros of `catalog_functions` look up."""
_USERS = "cat.pg_class c JOIN cat.pg_namespace n ON n.oid = c.relnamespace"
_NAMES = ("getvariable('database') AS table_catalog", "n.nspname AS table_schema", "c.relname AS table_name")
_ROLE = ("getvariable('user') AS rolname", "false AS rolsuper", "true AS rolinherit", "false AS rolcreaterole",
         "false AS rolcreatedb", "true AS rolcanlogin", "false AS rolreplication", "-1 AS rolconnlimit",
         "false AS rolbypassrls", f"{OWNER}::UINTEGER AS oid")  # fmt: skip
_VIEWS: dict[tuple[str, str], tuple[tuple[str, ...], str]] = {
    ("pg_catalog", "pg_database"): (
        ("1::UINTEGER AS oid", "getvariable('database') AS datname", f"{OWNER}::UINTEGER AS datdba", "6 AS encoding",
         "'c' AS datlocprovider", "false AS datistemplate", "true AS datallowconn", "-1 AS datconnlimit",
         "0::BIGINT AS datfrozenxid", "0::BIGINT AS datminmxid", "1663::UINTEGER AS dattablespace",
         "'C.UTF-8' AS datcollate", "'C.UTF-8' AS datctype"),
        "(SELECT 1)",
    ),
    ("pg_catalog", "pg_roles"): (_ROLE, "(SELECT 1)"),
    ("pg_catalog", "pg_authid"): (_ROLE, "(SELECT 1)"),
    ("pg_catalog", "pg_user"): (
        ("getvariable('user') AS usename", f"{OWNER}::UINTEGER AS usesysid", "false AS usecreatedb",
         "false AS usesuper", "false AS userepl", "false AS usebypassrls", "'********' AS passwd"),
        "(SELECT 1)",
    ),
    ("pg_catalog", "pg_tables"): (
        ("n.nspname AS schemaname", "c.relname AS tablename", "getvariable('user') AS tableowner",
         "false AS hasindexes", "false AS hasrules", "false AS hastriggers", "false AS rowsecurity"),
        f"{_USERS} WHERE c.relkind = 'r'",
    ),
    ("pg_catalog", "pg_views"): (
        ("n.nspname AS schemaname", "c.relname AS viewname", "getvariable('user') AS viewowner",
         "d.definition AS definition"),
        f"{_USERS} LEFT JOIN cat.definitions d ON d.oid = c.oid WHERE c.relkind = 'v'",
    ),
    ("information_schema", "schemata"): (
        ("getvariable('database') AS catalog_name", "n.nspname AS schema_name", "getvariable('user') AS schema_owner"),
        "cat.pg_namespace n",
    ),
    ("information_schema", "tables"): (
        (*_NAMES, "CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'BASE TABLE' END AS table_type",
         "'NO' AS is_insertable_into", "'NO' AS is_typed"),
        _USERS,
    ),
    ("information_schema", "views"): (
        (*_NAMES, "d.definition AS view_definition", "'NONE' AS check_option", "'NO' AS is_updatable",
         "'NO' AS is_insertable_into", "'NO' AS is_trigger_updatable", "'NO' AS is_trigger_deletable",
         "'NO' AS is_trigger_insertable_into"),
        f"{_USERS} LEFT JOIN cat.definitions d ON d.oid = c.oid WHERE c.relkind = 'v'",
    ),
    ("information_schema", "columns"): (
        (*_NAMES, "a.attname AS column_name", "a.attnum::INTEGER AS ordinal_position", "'YES' AS is_nullable",
         "CASE WHEN t.typcategory = 'A' THEN 'ARRAY' ELSE cat.format_type(t.oid, NULL) END AS data_type",
         ("CASE t.typname WHEN 'int2' THEN 16 WHEN 'int4' THEN 32 WHEN 'int8' THEN 64 WHEN 'float4' THEN 24 "
         "WHEN 'float8' THEN 53 WHEN 'numeric' THEN CASE WHEN a.atttypmod > 0 THEN (a.atttypmod - 4) >> 16 END END "
         "AS numeric_precision"),
         ("CASE WHEN t.typname IN ('int2', 'int4', 'int8', 'float4', 'float8') THEN 2 WHEN t.typname = 'numeric' "
         "THEN 10 END AS numeric_precision_radix"),
         ("CASE WHEN t.typname IN ('int2', 'int4', 'int8') THEN 0 WHEN t.typname = 'numeric' AND a.atttypmod > 0 "
         "THEN (a.atttypmod - 4) & 65535 END AS numeric_scale"),
         ("CASE WHEN t.typname IN ('timestamp', 'timestamptz', 'time') THEN 6 WHEN t.typname = 'date' THEN 0 END "
         "AS datetime_precision"),
         "getvariable('database') AS udt_catalog", "'pg_catalog' AS udt_schema", "t.typname AS udt_name",
         "a.attnum::VARCHAR AS dtd_identifier", "'NO' AS is_self_referencing", "'NO' AS is_identity",
         "'NEVER' AS is_generated", "'NO' AS is_updatable"),
        f"{_USERS} JOIN cat.pg_attribute a ON a.attrelid = c.oid JOIN cat.pg_type t ON t.oid = a.atttypid",
    ),
}  # fmt: skip
"""Computed relations: their columns that are not NULL, and where they come from."""
