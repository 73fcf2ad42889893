"""The OpenAPI document of the HTTP API, as it is sent."""

import eddyline
from eddyline.plan.size.specs import HIGHEST_CONFIDENCE
from eddyline.serve.requests import DEFAULT_GROUPS, LEAST_GROUPS, MOST_GROUPS

Json = dict[str, object]
_ANY: Json = {"type": ["number", "string", "boolean", "null"]}
_END: Json = {"type": ["number", "string", "boolean", "null"], "description": "null: without a bound"}
_TEXT: Json = {"type": "string"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_MAYBE_TEXT: Json = {"type": ["string", "null"]}
_MAYBE_NUMBER: Json = {"type": ["number", "null"]}


def _object(properties: Json, *, optional: tuple[str, ...] = ()) -> Json:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _named(schema: str) -> Json:
    return {"$ref": f"#/components/schemas/{schema}"}


_NUMBERS: Json = {
    "value": _ANY,
    "low": _END,
    "high": _END,
    "exact": {"type": "boolean"},
    "known": {"type": "boolean"},
    "shown": _TEXT,
    "shown_interval": _MAYBE_TEXT,
}
_ABOUT: Json = {
    "confidence": {"type": "number"},
    "method": _TEXT,
    "notes": _list(_TEXT),
    "freshness": {"anyOf": [_named("Freshness"), {"type": "null"}]},
}
_STREAM_COUNTS: Json = dict.fromkeys(("rows", "deletes", "bad", "late"), _COUNT)
_GROUP = _object(
    {
        "group": {"type": "object", "additionalProperties": _ANY},
        "aggregates": {"type": "object", "additionalProperties": _named("Numbers")},
        "selected": {"enum": ["in", "undecided"]},
    },
    optional=("selected",),
)
_SCHEMAS: Json = {
    "Numbers": _object(_NUMBERS),
    "Estimate": _object(
        {"query": _TEXT, **_NUMBERS, **_ABOUT, "exact_answer": {"type": "number"}}, optional=("exact_answer",)
    ),
    "Groups": _object(
        {
            "query": _TEXT,
            "group_columns": _list(_TEXT),
            "aggregates": _list(_TEXT),
            "groups": _list(_GROUP),
            "number_of_groups": _COUNT,
            "rest": {"type": "object", "additionalProperties": _named("Numbers")},
            "exact": {"type": "boolean"},
            **_ABOUT,
            "groups_shown": {"enum": ["first", "newest", "largest"]},
        },
        optional=("groups_shown",),
    ),
    "Table": _object(
        {
            "query": _TEXT,
            "columns": _list(
                _object(
                    {
                        "name": _TEXT,
                        "type": _TEXT,
                        "role": {"enum": ["value", "label", "low", "high", "end"]},
                        "exact": {"type": ["boolean", "null"]},
                        "interval": {"enum": ["carried", "not carried", "exact", None]},
                        "low": _MAYBE_TEXT,
                        "high": _MAYBE_TEXT,
                    }
                )
            ),
            "rows": _list({"type": "array"}),
            "number_of_rows": _COUNT,
            "exact": {"type": "boolean"},
            "confidence": {"type": "number"},
            "notes": _list(_TEXT),
            "freshness": {"anyOf": [_named("Freshness"), {"type": "null"}]},
        }
    ),
    "Refusal": _object({"query": _TEXT, "refused": _TEXT}),
    "Answer": {"anyOf": [_named("Estimate"), _named("Groups"), _named("Refusal")]},
    "StreamFreshness": _object(
        {
            "stream": _TEXT,
            **_STREAM_COUNTS,
            "batch": {"type": ["integer", "null"]},
            "last_batch_time": _MAYBE_TEXT,
            "once": {"type": "boolean"},
        }
    ),
    "Freshness": _object(
        {
            "epoch": _COUNT,
            **_STREAM_COUNTS,
            "last_batch_time": _MAYBE_TEXT,
            "lag": _MAYBE_NUMBER,
            "streams": _list(_named("StreamFreshness")),
        }
    ),
    "Status": _object(
        {
            "running": {"type": "boolean"},
            "problem": _MAYBE_TEXT,
            "store": _COUNT,
            "state_bytes": {"type": ["integer", "null"]},
            "plan": _MAYBE_TEXT,
            "freshness": {"anyOf": [_named("Freshness"), {"type": "null"}]},
        }
    ),
    "Query": _object(
        {
            "name": _TEXT,
            "sql": _TEXT,
            "streams": _list(_TEXT),
            "window": {
                "anyOf": [
                    _object({"seconds": {"type": "number"}, "slide": {"type": "number"}}),
                    {"type": "null"},
                ]
            },
            "expected_error": _MAYBE_NUMBER,
        }
    ),
    "Point": {
        "type": "array",
        "description": "epoch, time in seconds since 1970, value, low, high, exact answer if it is known",
        "prefixItems": [_COUNT, {"type": "number"}, *(_MAYBE_NUMBER for _ in range(4))],
    },
    "Plan": _object(
        {
            "digest": _TEXT,
            "confidence": {"type": "number"},
            "bytes": _COUNT,
            "memory": _list(
                _object(
                    {"id": _TEXT, "holds": _TEXT, "stream": _TEXT, "nbytes": _COUNT, "readers": _list(_TEXT)}
                )
            ),
            "streams": _list(
                _object(
                    {
                        "name": _TEXT,
                        "changes": _MAYBE_TEXT,
                        "columns": _list(
                            _object({"name": _TEXT, "type": _TEXT, "held": {"type": "boolean"}})
                        ),
                    }
                )
            ),
        }
    ),
    "Error": _object({"error": _object({"type": _TEXT, "message": _TEXT})}),
}


def _parameter(name: str, schema: Json, about: str, *, required: bool = False) -> Json:
    return {"name": name, "in": "query", "description": about, "required": required, "schema": schema}


_AS_OF = _parameter(
    "as_of",
    {"type": "string"},
    "Answer as of a time (UTC), or of an epoch by its number, that the store still keeps.",
)
_SINCE = _parameter(
    "since",
    {"type": "string"},
    "Return how much the number, or each group, changed since a time (UTC) or an epoch, with its interval.",
)
_CONFIDENCE = _parameter(
    "confidence",
    {"type": "number", "minimum": 0.5, "maximum": HIGHEST_CONFIDENCE},
    "The confidence of the intervals; by default the plan's.",
)
_LIMIT = _parameter(
    "limit",
    {"type": "integer", "minimum": LEAST_GROUPS, "maximum": MOST_GROUPS, "default": DEFAULT_GROUPS},
    "How many groups of an answer to return.",
)
_SQL = _parameter("sql", {"type": "string", "minLength": 1}, "An SQL text, or a query's name.", required=True)
_WINDOW = _parameter("window", _TEXT, 'Of a text: the window to ask over, such as "1 hour".')
_SLIDE = _parameter("slide", _TEXT, "Of a text: by how much the window moves on.")
_TOGETHER = _parameter(
    "simultaneous", {"type": "boolean"}, "Whether the intervals of all groups hold together."
)
_FORM = _parameter(
    "form", {"enum": ["json", "full", "text", "mermaid", "svg"], "default": "json"}, "In which form."
)
_EXPLAIN_FORM = _parameter("form", {"enum": ["json", "text"], "default": "json"}, "In which form.")
_DIGEST = _parameter("digest", _TEXT, "The plan that is meant, for caches; the store's own is returned.")
_NAME: Json = {
    "name": "query",
    "in": "path",
    "required": True,
    "schema": _TEXT,
    "description": "A query's name.",
}
_SENTENCES = {
    "400": "The request is malformed; the sentence says where.",
    "401": "A token is needed.",
    "404": "There is no such query.",
    "422": "The text can be read, and what is kept does not answer it; the sentence says why.",
    "503": "The store cannot be read, or too many questions are being answered.",
    "504": "The answer takes too long.",
}


def _get(
    about: str,
    schema: Json | None,
    *parameters: Json,
    fails: str = "400 503",
    media: str = "application/json",
) -> Json:
    """Return the description of an address that is read with GET."""
    content: Json = {media: {"schema": schema} if schema is not None else {}}
    responses: Json = {"200": {"description": about, "content": content}}
    for code in (*fails.split(), "401"):
        error = {"application/json": {"schema": _named("Error")}}
        responses[code] = {"description": _SENTENCES[code], "content": error}
    return {"get": {"summary": about, "parameters": list(parameters), "responses": responses}}


def document() -> Json:
    """Return the document."""
    asked = "400 422 503 504"
    plan = _get("What is kept, who shares it.", _named("Plan"), _FORM, _DIGEST)
    content = plan["get"]["responses"]["200"]["content"]  # type: ignore[index]
    content |= {"text/plain": {}, "image/svg+xml": {}}
    content["application/json"]["schema"] = {"anyOf": [_named("Plan"), {"type": "object"}]}
    explained = _get(
        "How one query was answered: what was decided for it, and what its synopses show at each step.",
        {"type": "object"},
        _NAME,
        _EXPLAIN_FORM,
        fails=f"404 {asked}",
    )
    explained["get"]["responses"]["200"]["content"] |= {"text/plain": {}}  # type: ignore[index]
    history = _get(
        "How the estimates moved; as a file the answers of all epochs that the store keeps, groups among them.",
        {"type": "object", "additionalProperties": _list(_named("Point"))},
        _parameter("form", {"enum": ["json", "csv", "parquet"], "default": "json"}, "In which form."),
        _parameter("sql", _TEXT, "Of a file: one query, by its name or as SQL."),
        _parameter("since", _TEXT, "Of a file: the first time (UTC), or the first epoch."),
        _parameter("until", _TEXT, "Of a file: the last time (UTC), or the last epoch."),
        _CONFIDENCE,
        fails=asked,
    )
    history["get"]["responses"]["200"]["content"] |= {"text/csv": {}, "application/vnd.apache.parquet": {}}  # type: ignore[index]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "eddyline",
            "version": eddyline.__version__,
            "description": "Answers with intervals from a store that a run keeps current. Nothing is written.",
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{}, {"token": []}],
        "paths": {
            "/queries": _get("The queries of the plan.", _list(_named("Query"))),
            "/answers": _get(
                "The answers of all queries.",
                _list(_named("Answer")),
                _CONFIDENCE,
                _LIMIT,
                _AS_OF,
                _SINCE,
                fails=asked,
            ),
            "/answers/{query}": _get(
                "The answer of one query.",
                _named("Answer"),
                _NAME,
                _CONFIDENCE,
                _LIMIT,
                _AS_OF,
                _SINCE,
                fails=f"404 {asked}",
            ),
            "/answer": _get(
                "The answer of a SQL string from what is kept; a table for SQL around aggregates.",
                {"anyOf": [_named("Answer"), _named("Table")]},
                _SQL,
                _CONFIDENCE,
                _AS_OF,
                _SINCE,
                _LIMIT,
                _WINDOW,
                _SLIDE,
                _TOGETHER,
                fails=asked,
            ),
            "/history": history,
            "/plan": plan,
            "/explain/{query}": explained,
            "/freshness": _get(
                "How far the streams have come, and how the store is doing.", _named("Status")
            ),
            "/events": _get(
                "The answers as they move, as server-sent events.", None, media="text/event-stream"
            ),
            "/openapi.json": _get("This document.", {"type": "object"}),
        },
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
