"""Frames that only read Parquet files: columns selected, renamed and filtered as Arrow can."""

import re
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from eddyline.spark.causes import SPARK_ERRORS
from eddyline.spark.direct.files import Doubt, Listing, listing_of
from eddyline.spark.direct.filters import Filter, read_filter
from eddyline.sql.frame_conditions import read_type

# Frames that are nothing but a read of Parquet files: columns of a relation, selected, renamed and
# filtered.


_PACKAGE = "org.apache.spark.sql."
_RELATION = "execution.datasources.LogicalRelation"
_HADOOP = "execution.datasources.HadoopFsRelation"
_PARQUET = "execution.datasources.parquet.ParquetFileFormat"
_INDEX = "execution.datasources.InMemoryFileIndex"
_PROJECT = "catalyst.plans.logical.Project"
_FILTER = "catalyst.plans.logical.Filter"
_NAMED = ("catalyst.plans.logical.SubqueryAlias", "catalyst.plans.logical.View")
_ATTRIBUTE = "catalyst.expressions.AttributeReference"
_ALIAS = "catalyst.expressions.Alias"
_FILE = re.compile(r"path=(.+?); isDirectory=false; length=(\d+);")
_OPTIONS = {"path"}


@dataclass(frozen=True)
class PlainRead:
    """The files that a frame reads, the column of the files for each of the frame's columns, and its filters."""

    listing: Listing
    columns: dict[str, str]
    filters: tuple[Filter, ...]


@dataclass
class _Condition:
    """A filter on the way down to the relation: its text, and Spark's ids of the columns in it, by name."""

    text: str
    columns: dict[str, int]


def plain_read(frame: DataFrame) -> PlainRead:
    """Return what a frame reads that is a plain read, or raise Doubt."""
    if not isinstance(frame.sparkSession, SparkSession):
        raise Doubt("over Spark Connect frames do not show their files")
    try:
        return _read(frame)
    except SPARK_ERRORS:
        raise Doubt("Spark does not show how the frame is made") from None


def _read(frame: DataFrame) -> PlainRead:
    plan: Any = frame._jdf.queryExecution().withCachedData()  # noqa: SLF001 - the plan has no other door
    names = frame.columns
    if len({name.lower() for name in names}) < len(names):
        raise Doubt("two columns of the frame have one name")
    selected: list[int] | None = None
    conditions: list[_Condition] = []
    while _kind(plan) != _RELATION:
        if _kind(plan) == _PROJECT:
            below = _below(plan)
            selected = list(below.values()) if selected is None else [below[each] for each in selected]
            for each in conditions:
                each.columns = {name: below[identity] for name, identity in each.columns.items()}
        elif _kind(plan) == _FILTER:
            conditions.append(_condition(plan.condition()))
        elif _kind(plan) not in _NAMED:
            raise Doubt("the frame is more than a read of files")
        plan = plan.child()
    _check(plan.relation())
    output = _each(plan.output())
    stored = [str(each.name()) for each in output]
    partitions = {str(field) for field in plan.relation().partitionSchema().fieldNames()}
    columns = dict(zip(names, stored if selected is None else _named(selected, output), strict=True))
    zone = str(frame.sparkSession.conf.get("spark.sql.session.timeZone"))
    filters = tuple(_filter(each, output, partitions, zone) for each in conditions)
    readable = {name: of for name, of in columns.items() if of not in partitions}
    return PlainRead(_files(plan.relation()), readable, filters)


def _below(project: Any) -> dict[int, int]:
    """Return the column below a projection that each of its columns is, by Spark's ids, or raise Doubt."""
    ids: dict[int, int] = {}
    for each in _each(project.projectList()):
        inner = each.child() if _kind(each) == _ALIAS else each
        if _kind(inner) != _ATTRIBUTE:
            raise Doubt("the frame computes columns")
        ids[_identity(each)] = _identity(inner)
    return ids


def _named(identities: list[int], output: list[Any]) -> list[str]:
    """Return the names of a relation's columns by Spark's ids, or raise Doubt."""
    names = {_identity(each): str(each.name()) for each in output}
    if not names.keys() >= set(identities):
        raise Doubt("the frame does not show where its columns come from")
    return [names[identity] for identity in identities]


def _condition(condition: Any) -> _Condition:
    read = _each(condition.references().toSeq())
    columns = {str(each.name()): _identity(each) for each in read}
    if len(columns) < len(read) or not condition.deterministic():
        raise Doubt("the frame's filter is not a condition on the columns of a row")
    return _Condition(str(condition.sql()), columns)


def _filter(condition: _Condition, output: list[Any], partitions: set[str], zone: str) -> Filter:
    """Return a condition as a filter of the files' columns, or raise Doubt."""
    stored = _named(list(condition.columns.values()), output)
    columns = dict(zip(condition.columns, stored, strict=True))
    if not partitions.isdisjoint(stored):
        raise Doubt("the frame's filter reads a column of its folders' names")
    types_of = {str(each.name()): read_type(str(each.dataType().sql())) for each in output}
    types = {name: kind for name, of in columns.items() if (kind := types_of[of]) is not None}
    if types.keys() != columns.keys():
        raise Doubt(f"the filter {condition.text!r} can only be evaluated by Spark")
    return read_filter(condition.text, columns, types, zone)


def _check(relation: Any) -> None:
    """Raise Doubt unless a relation is files of Parquet as Spark reads them by default."""
    if _kind(relation) != _HADOOP or _kind(relation.fileFormat()) != _PARQUET:
        raise Doubt("the frame does not read files of Parquet")
    if _kind(relation.location()) != _INDEX or relation.bucketSpec().isDefined():
        raise Doubt("a catalog decides which files the frame reads")
    options = {str(option) for option in _each(relation.options().keys().toSeq())}
    if not options <= _OPTIONS:
        raise Doubt(f"the frame was read with the option {min(options - _OPTIONS)}")


def _files(relation: Any) -> Listing:
    """Return the files of a relation, as one text: a call for each file would take longer than reading it."""
    files = relation.location().allFiles()
    found = [(path, int(size)) for path, size in _FILE.findall(files.mkString("\n"))]
    if len(found) != files.size():
        raise Doubt("Spark does not show the sizes of the files")
    return listing_of(found)


def _kind(thing: Any) -> str:
    return str(thing.getClass().getName()).removeprefix(_PACKAGE)


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]


def _identity(attribute: Any) -> int:
    return int(attribute.exprId().id())
