"""Frames that are nothing but a read of Parquet files: a bare relation, or columns of one, selected and renamed."""

import re
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from eddyline.spark.causes import SPARK_ERRORS
from eddyline.spark.direct.doubt import Doubt
from eddyline.spark.direct.files import Listing, listing_of

_PACKAGE = "org.apache.spark.sql."
_RELATION = "execution.datasources.LogicalRelation"
_HADOOP = "execution.datasources.HadoopFsRelation"
_PARQUET = "execution.datasources.parquet.ParquetFileFormat"
_INDEX = "execution.datasources.InMemoryFileIndex"
_PROJECT = "catalyst.plans.logical.Project"
_NAMED = ("catalyst.plans.logical.SubqueryAlias", "catalyst.plans.logical.View")
_ATTRIBUTE = "catalyst.expressions.AttributeReference"
_ALIAS = "catalyst.expressions.Alias"
_FILE = re.compile(r"path=(.+?); isDirectory=false; length=(\d+);")
_OPTIONS = {"path"}


def plain_read(frame: DataFrame) -> tuple[Listing, dict[str, str]]:
    """Return (files, column of the files by name of the frame's column) of a plain read, or raise Doubt."""
    if not isinstance(frame.sparkSession, SparkSession):
        raise Doubt("over Spark Connect frames do not tell their files")
    try:
        return _read(frame)
    except SPARK_ERRORS:
        raise Doubt("Spark does not tell how the frame is made") from None


def _read(frame: DataFrame) -> tuple[Listing, dict[str, str]]:
    plan: Any = frame._jdf.queryExecution().withCachedData()  # noqa: SLF001 - the plan has no other door
    names = frame.columns
    if len({name.lower() for name in names}) < len(names):
        raise Doubt("two columns of the frame have one name")
    selected: list[int] | None = None
    while _kind(plan) != _RELATION:
        if _kind(plan) == _PROJECT:
            selected = _below(plan, selected)
        elif _kind(plan) not in _NAMED:
            raise Doubt("the frame is more than a read of files")
        plan = plan.child()
    _check(plan.relation())
    stored = names
    if selected is not None:
        by_identity = {_identity(each): str(each.name()) for each in _each(plan.output())}
        stored = [by_identity.get(identity, "") for identity in selected]
        if "" in stored:
            raise Doubt("the frame does not tell where its columns come from")
    partitions = {str(field) for field in plan.relation().partitionSchema().fieldNames()}
    columns = dict(zip(names, stored, strict=True))
    return _files(plan.relation()), {name: of for name, of in columns.items() if of not in partitions}


def _below(project: Any, selected: list[int] | None) -> list[int]:
    """Return the columns below a projection that columns above it are, by Spark's ids, or raise Doubt."""
    ids: dict[int, int] = {}
    for each in _each(project.projectList()):
        inner = each.child() if _kind(each) == _ALIAS else each
        if _kind(inner) != _ATTRIBUTE:
            raise Doubt("the frame computes columns")
        ids[_identity(each)] = _identity(inner)
    return list(ids.values()) if selected is None else [ids[identity] for identity in selected]


def _check(relation: Any) -> None:
    """Raise Doubt unless a relation is files of Parquet as Spark reads them by default."""
    if _kind(relation) != _HADOOP or _kind(relation.fileFormat()) != _PARQUET:
        raise Doubt("the frame does not read files of Parquet")
    if _kind(relation.location()) != _INDEX or relation.bucketSpec().isDefined():
        raise Doubt("a catalog tells which files the frame reads")
    options = {str(option) for option in _each(relation.options().keys().toSeq())}
    if not options <= _OPTIONS:
        raise Doubt(f"the frame was read with the option {min(options - _OPTIONS)}")


def _files(relation: Any) -> Listing:
    """Return the files of a relation, told in one text: a call for each file would take longer than reading it."""
    files = relation.location().allFiles()
    found = [(path, int(size)) for path, size in _FILE.findall(files.mkString("\n"))]
    if len(found) != files.size():
        raise Doubt("Spark does not tell the sizes of the files")
    return listing_of(found)


def _kind(thing: Any) -> str:
    return str(thing.getClass().getName()).removeprefix(_PACKAGE)


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]


def _identity(attribute: Any) -> int:
    return int(attribute.exprId().id())
