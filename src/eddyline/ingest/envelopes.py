"""Debezium envelopes as JSON text, as Kafka delivers them: how they become images of rows, and what is refused.

Text comes with or without its schema (`{"schema": ..., "payload": ...}`) and is read by the declared columns;
`ingest.connect_types` has what the schema says of a field. What is refused, each with its reason:

- text that is not JSON of the declared types; an op other than c, r, u, d; a missing image;
- an image without a column that a query reads: Debezium sends all columns of a row, also those that are NULL, so that
  this one was dropped, or left out by the connector;
- a `before` that holds only the key, which a delete cannot be undone by: one whose columns beside those of the record's
  key are all NULL, or what Debezium puts into NOT NULL columns instead. `changes="debezium:full"` says that such rows
  are meant;
- a value that the database did not send (TOAST), does not fit its column, or has no unit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import UNSET

from eddyline.errors import ChangeError
from eddyline.ingest.changes import DEBEZIUM_OPS
from eddyline.ingest.connect_types import (
    REPLICA_IDENTITY,
    FieldSchema,
    Reader,
    field_array,
    field_reader,
    json_type,
)
from eddyline.types import Column

_NO_DELETE = "a NULL value that does not follow the delete of its key: deletes must come with their row"
_WEIGHTS = {"before": -1, "after": 1}
_HINTS = {"before": f"; {REPLICA_IDENTITY}", "after": ": it was dropped, renamed or left out"}


Asked = list[tuple[tuple[object, ...], int | None]]
"""Rows and their weights."""


class _ImageSchema(msgspec.Struct):
    field: str = ""
    fields: tuple[FieldSchema, ...] = ()


class _Schema(msgspec.Struct):
    fields: tuple[_ImageSchema, ...] = ()


@dataclass
class Images:
    """Rows that envelopes ask for; of one that cannot be used, a row with its reason and neither values nor weight.

    records: the number of the envelope that each row is of; deletes: whether that one is a delete.
    """

    records: list[int] = field(default_factory=list)
    rows: list[tuple[object, ...]] = field(default_factory=list)
    weights: list[int | None] = field(default_factory=list)
    deletes: list[bool] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)


class EnvelopeReader:
    """Reads envelopes of a stream's declared columns, of which those named are returned; zone: of text without one."""

    def __init__(self, columns: Sequence[Column], names: Sequence[str], zone: tzinfo, *, full: bool) -> None:
        kinds = {column.name: column.type for column in columns}
        self._columns = [Column(name, kinds[name]) for name in names]
        self._zone, self._full = zone, full
        self._nothing = (None,) * len(names)
        self._decoder = msgspec.json.Decoder(_envelope_type(columns))
        self._places = [f"f{list(kinds).index(name)}" for name in names]
        self._known: dict[bytes, dict[str, list[Reader | None]]] = {}

    def read(self, keys: Iterable[bytes | None], values: Iterable[bytes | None]) -> Images:
        """Return the images of records; a NULL value is refused here, and is for others to pass over."""
        images = Images()
        for record, (key, value) in enumerate(zip(keys, values, strict=True)):
            asked, delete, why = self._images(key, value)
            for row, weight in asked:
                images.records.append(record)
                images.rows.append(row)
                images.weights.append(weight)
                images.deletes.append(delete)
                images.reasons.append(None if why is None else _shown(why, key, value))
        return images

    def arrays(self, images: Images) -> list[pa.Array]:
        """Return the values of images as arrays, one for each named column."""
        values = list(zip(*images.rows, strict=True)) if images.rows else [()] * len(self._columns)
        return [field_array(column.type, each) for column, each in zip(self._columns, values, strict=True)]

    def _images(self, key: bytes | None, value: bytes | None) -> tuple[Asked, bool, str | None]:
        """Return the images of a record, whether it is a delete, and why it cannot be used: then it has no images."""
        envelope = None
        try:
            schema, envelope = self._envelope(value)
            asked = self._asked(schema, envelope)
            if key is not None and not self._full and "before" in DEBEZIUM_OPS[envelope.op]:
                self._refuse_key_alone(key, value, asked[-1][0])
        except ChangeError as why:
            return [(self._nothing, None)], envelope is not None and envelope.op == "d", str(why)
        return asked, envelope.op == "d", None

    def _envelope(self, value: bytes | None) -> tuple[bytes, Any]:
        """Return the text of an envelope's schema, empty where it has none, and the envelope."""
        if value is None:
            raise ChangeError(_NO_DELETE)
        try:
            whole = self._decoder.decode(value)
        except (msgspec.MsgspecError, ValueError) as error:
            raise ChangeError(f"it is not JSON of the declared columns: {error}") from error
        return b"" if whole.schema is UNSET else bytes(whole.schema), whole.payload or whole

    def _asked(self, schema: bytes, envelope: Any) -> Asked:
        """Return the images that the op asks for, `after` first: a value that was not sent is told by its column."""
        if envelope.op not in DEBEZIUM_OPS:
            raise ChangeError("its op is not c, r, u or d")
        readers = self._known.get(schema) or self._learn(schema)
        return [
            (self._row(side, getattr(envelope, side), readers[side]), _WEIGHTS[side])
            for side in reversed(DEBEZIUM_OPS[envelope.op])
        ]

    def _learn(self, schema: bytes) -> dict[str, list[Reader | None]]:
        """Return the readers of the named columns of both images; they are kept, as few schemas come with many rows."""
        try:
            told = msgspec.json.decode(schema or b"null", type=_Schema | None) or _Schema()
        except msgspec.MsgspecError as error:
            raise ChangeError(f"its schema is not one of Kafka Connect: {error}") from error
        known = {}
        for side in _WEIGHTS:
            fields = next((image.fields for image in told.fields if image.field == side), ())
            by_name = {each.field: each for each in fields}
            known[side] = [
                field_reader(column.type, by_name.get(column.name), self._zone, schema=bool(fields))
                for column in self._columns
            ]
        self._known[schema] = known
        return known

    def _row(self, side: str, image: Any, readers: list[Reader | None]) -> tuple[object, ...]:
        if image is None:
            raise ChangeError(f"its op needs {side}, which is missing{_HINTS[side]}")
        row = []
        for column, place, reader in zip(self._columns, self._places, readers, strict=True):
            value = getattr(image, place)
            if value is UNSET:
                raise ChangeError(f"its {side} has no column {column.name}{_HINTS[side]}")
            try:
                row.append(value if reader is None or value is None else reader(value))
            except ChangeError as why:
                raise ChangeError(f"its {side}.{column.name} {why}") from why
        return tuple(row)

    def _refuse_key_alone(self, key: bytes, value: bytes | None, row: tuple[object, ...]) -> None:
        """Raise ChangeError if `before` is empty but for the columns of the record's key.

        Debezium fills columns that are NOT NULL with 0, an empty text or FALSE where the log has only the key.
        """
        names = _key_names(key)
        if names is None or any(
            isinstance(each, str | int | float) and each and column.name not in names
            for column, each in zip(self._columns, row, strict=True)
        ):
            return
        whole = _BEFORE.decode(value or b"")
        before = (whole.payload or whole).before or {}
        others = [each for name, each in before.items() if name not in names]
        if others and all(each in _EMPTY for each in others):
            raise ChangeError(
                f'its before holds only the key; {REPLICA_IDENTITY}, then say changes="debezium:full"'
            )


class _Before(msgspec.Struct):
    before: dict[str, Any] | None = None
    payload: "_Before | None" = None


_EMPTY = (None, 0, "", "AA==")
"""What stands for a value that the log does not have; the last is 0 as Connect's Decimal."""
_BEFORE = msgspec.json.Decoder(_Before)
_KEY = msgspec.json.Decoder(dict[str, Any])


def _key_names(key: bytes) -> set[str] | None:
    """Return the columns that the key of a record has, None where it is not of columns."""
    try:
        read = _KEY.decode(key)
    except (msgspec.MsgspecError, ValueError):
        return None
    inner = read.get("payload") if "schema" in read else read
    return set(inner) if isinstance(inner, dict) else None


def _envelope_type(columns: Sequence[Column]) -> Any:
    """Return the type of envelopes of such columns, each in a place of its own name, with its schema as it is."""
    names = {f"f{place}": column.name for place, column in enumerate(columns)}
    places = [(place, json_type(column.type), UNSET) for place, column in zip(names, columns, strict=True)]
    row = msgspec.defstruct("Row", places, rename=names)
    images: list[Any] = [("op", str | None, None), *((side, row | None, None) for side in _WEIGHTS)]
    payload = msgspec.defstruct("Payload", images)
    return msgspec.defstruct(
        "Envelope", [*images, ("schema", msgspec.Raw, UNSET), ("payload", payload | None, None)]
    )


def _shown(why: str, key: bytes | None, value: bytes | None) -> str:
    """Return a record and why it cannot be used, as JSON."""
    texts = {"key": key, "value": value}
    told = {name: text.decode(errors="replace") for name, text in texts.items() if text is not None}
    return msgspec.json.encode({"reason": why, **told}).decode()
