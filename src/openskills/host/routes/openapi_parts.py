"""The pieces of the OpenAPI document that do not depend on the skills. Pure."""

from collections.abc import Mapping
from typing import Any

from openskills.host.routes.tool_export import FORMS
from openskills.host.wire.trace_ids import LONGEST

Piece = dict[str, Any]

ERRORS: Mapping[int, str] = {
    400: "The request, or the input of the skill, is not acceptable; `error.details.field` says where.",
    401: "No valid key came with the request.",
    403: "Who called may not do this, or the skill may not touch what it was asked to.",
    404: "There is no such skill, run, verb or address.",
    408: "The request did not arrive in time.",
    409: "The first request with this Idempotency-Key is still under way.",
    413: "The body is larger than this host takes.",
    415: "The body is not application/json.",
    421: "The request was meant for another host.",
    422: "The manifest of the skill is broken, or an Idempotency-Key came with another body before.",
    429: "Too many requests; `Retry-After` says when to come back.",
    499: "The call was cancelled.",
    500: "A fault of the host or of the skill.",
    501: "Something that the skill needs is not installed.",
    502: "The skill did not answer as it has promised; `error.details` has the evidence.",
    503: "The skill or the host cannot be used just now.",
    504: "The skill took longer than it may.",
}
"""Statuses of answers that are failures. A skill may have others of its own, which the `default` is for."""

RESULT: Piece = {
    "type": "object",
    "title": "Normalized Skill Result",
    "required": ["success", "skill_id", "trace_id", "data", "error", "meta"],
    "properties": {
        "success": {"type": "boolean"},
        "skill_id": {"type": "string"},
        "trace_id": {"type": "string", "maxLength": LONGEST},
        "data": {"type": ["object", "null"]},
        "error": {"oneOf": [{"$ref": "#/components/schemas/Error"}, {"type": "null"}]},
        "meta": {
            "type": "object",
            "required": ["latency_ms", "version"],
            "properties": {
                "latency_ms": {"type": "number", "minimum": 0},
                "version": {"type": "string"},
                "truncated": {"type": "boolean"},
            },
        },
    },
}
ERROR: Piece = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {
        "code": {"type": "integer", "description": "Also the HTTP status."},
        "message": {"type": "string"},
        "details": {
            "type": "object",
            "properties": {
                "reason": {"type": "string", "examples": ["INVALID_ARGUMENT"]},
                "retryable": {"type": "boolean"},
            },
        },
    },
}
FAILURE: Piece = {
    "allOf": [{"$ref": "#/components/schemas/Result"}],
    "properties": {
        "success": {"const": False},
        "data": {"type": "null"},
        "error": {"$ref": "#/components/schemas/Error"},
    },
}
EVENT: Piece = {
    "type": "object",
    "description": "One of the server-sent events of a stream.",
    "required": ["event", "data"],
    "properties": {
        "id": {"type": "string", "description": "Go on after it with `Last-Event-ID`; only of runs."},
        "event": {"type": "string", "examples": ["start", "stdout", "stderr", "progress", "artifact", "result"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
HEADERS: Piece = {
    "X-Trace-Id": {
        "description": "Under which id the request is known: yours, or a new one.",
        "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST},
    },
    "traceparent": {
        "description": "The W3C trace context of the answer.",
        "schema": {"type": "string", "pattern": "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"},
    },
    "Retry-After": {
        "description": "After how many seconds to come back.",
        "schema": {"type": "integer", "minimum": 1},
    },
}
TRACE_ID: Piece = {
    "name": "X-Trace-Id",
    "in": "header",
    "description": "An id of yours for this request; without it there is a new one.",
    "schema": {"type": "string", "maxLength": LONGEST, "pattern": r"^[\x20-\x7e]*$"},
}
IDEMPOTENCY_KEY: Piece = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same key with the same body within 24 hours gets the answer of the first request.",
    "schema": {
        "type": "string",
        "minLength": 1,
        "maxLength": 255,
        "pattern": r"^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$",
    },
}
MODE: Piece = {
    "name": "mode",
    "in": "query",
    "description": "`async` answers at once with a run to look at, as `Prefer: respond-async` does.",
    "schema": {"type": "string", "enum": ["sync", "async"]},
}
RUN_ID: Piece = {"name": "run_id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
SKILL_ID: Piece = {
    "name": "skill_id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,63}$"},
}
FORMAT: Piece = {"name": "format", "in": "query", "schema": {"type": "string", "enum": list(FORMS)}}
LAST_EVENT_ID: Piece = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "Go on after this event.",
    "schema": {"type": "string", "pattern": "^[0-9]{1,15}$"},
}


def parameters() -> Piece:
    """The parameters that several operations share."""
    return {"TraceId": TRACE_ID, "IdempotencyKey": IDEMPOTENCY_KEY, "Mode": MODE}


def headers(*more: str) -> Piece:
    """The headers of an answer."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Trace-Id", "traceparent", *more)}


def failures(*statuses: int) -> Piece:
    """The answers that are failures; all that are known without statuses."""
    known = statuses or tuple(ERRORS)
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in known}


def failure_responses() -> Piece:
    """What they look like."""
    return {str(status): _failure(status, said) for status, said in ERRORS.items()}


def json_answer(description: str, schema: Piece, *more: str) -> Piece:
    """An answer in JSON."""
    return {
        "description": description,
        "headers": headers(*more),
        "content": {"application/json": {"schema": schema}},
    }


def ref(name: str) -> Piece:
    """A schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def _failure(status: int, said: str) -> Piece:
    later = ("Retry-After",) if status in {408, 409, 429, 503} else ()
    return json_answer(said, ref("Failure"), *later)
