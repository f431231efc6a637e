"""OpenAPI document.

Skills of the host as tools for models: OpenAI, Anthropic, MCP. Pure.

The pieces of the OpenAPI document that do not depend on the skills. Pure.

The host as an OpenAPI 3.1 document: one typed path per skill, so that generated clients know every input. Pure.

What the host says of its skills: manifest, schemas, status and problems. Pure.

Callers need no paths of this machine, so files are told relative to where the host was started, or by their name alone.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from openskills.errors import InvalidArgument
from openskills.host.http import MAX_TRACE_ID_LENGTH
from openskills.host.model import Registration
from openskills.host.registry.registry import RegistryEntry
from openskills.skillmd.problem import Problem
from openskills.version import __version__

ANY_OBJECT: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
"""The input of a skill that says nothing about it."""


def build_tools(registrations: Iterable[Registration], form: str, *, known: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Each skill as a tool. Names have `-` for `_`, as the Agent Skills specification wants; the host knows both.

    Where two ids differ in nothing else, both stay as they are. `known` are ids that the host has beside these.

    Raises `InvalidArgument` for a form that is not known.
    """
    made = TOOL_FORMATS.get(form)
    if made is None:
        raise InvalidArgument("format", f"{form[:50]!r} is not one of {', '.join(TOOL_FORMATS)}")
    offered = list(registrations)
    taken = Counter(map(_replace_underscores, {*known, *(registration.id for registration in offered)}))
    return [
        made(
            registration,
            registration.id
            if taken[_replace_underscores(registration.id)] > 1
            else _replace_underscores(registration.id),
        )
        for registration in offered
    ]


def _to_openai(registration: Registration, name: str) -> dict[str, Any]:
    return {
        "type": "function",
        "name": name,
        "description": registration.description,
        "parameters": _tool_schema(registration),
        "strict": False,
    }


def _to_openai_chat(registration: Registration, name: str) -> dict[str, Any]:
    function = {key: value for key, value in _to_openai(registration, name).items() if key not in {"type", "strict"}}
    return {"type": "function", "function": function}


def _to_anthropic(registration: Registration, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": registration.description,
        "input_schema": _tool_schema(registration),
    }


def _to_mcp(registration: Registration, name: str) -> dict[str, Any]:
    tool = {"name": name, "description": registration.description, "inputSchema": _tool_schema(registration)}
    if registration.output_schema is not None:
        tool["outputSchema"] = dict(registration.output_schema)
    return tool


TOOL_FORMATS: Mapping[str, Callable[[Registration, str], dict[str, Any]]] = {
    "openai": _to_openai,
    "openai-chat": _to_openai_chat,
    "anthropic": _to_anthropic,
    "mcp": _to_mcp,
}


def _replace_underscores(skill_id: str) -> str:
    return skill_id.replace("_", "-")


def _tool_schema(registration: Registration) -> dict[str, Any]:
    # Every form wants an object at the top.
    return {"type": "object", **(registration.input_schema or ANY_OBJECT)}


Fragment = dict[str, Any]

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

RESULT_SCHEMA: Fragment = {
    "type": "object",
    "title": "Normalized Skill Result",
    "required": ["success", "skill_id", "trace_id", "data", "error", "meta"],
    "properties": {
        "success": {"type": "boolean"},
        "skill_id": {"type": "string"},
        "trace_id": {"type": "string", "maxLength": MAX_TRACE_ID_LENGTH},
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
ERROR_SCHEMA: Fragment = {
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
FAILURE_SCHEMA: Fragment = {
    "allOf": [{"$ref": "#/components/schemas/Result"}],
    "properties": {
        "success": {"const": False},
        "data": {"type": "null"},
        "error": {"$ref": "#/components/schemas/Error"},
    },
}
EVENT_SCHEMA: Fragment = {
    "type": "object",
    "description": "One of the server-sent events of a stream.",
    "required": ["event", "data"],
    "properties": {
        "id": {"type": "string", "description": "Go on after it with `Last-Event-ID`; only of runs."},
        "event": {"type": "string", "examples": ["start", "stdout", "stderr", "progress", "artifact", "result"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
HEADER_PARAMETERS: Fragment = {
    "X-Trace-Id": {
        "description": "Under which id the request is known: yours, or a new one.",
        "schema": {"type": "string", "minLength": 1, "maxLength": MAX_TRACE_ID_LENGTH},
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
TRACE_ID: Fragment = {
    "name": "X-Trace-Id",
    "in": "header",
    "description": "An id of yours for this request; without it there is a new one.",
    "schema": {"type": "string", "maxLength": MAX_TRACE_ID_LENGTH, "pattern": r"^[\x20-\x7e]*$"},
}
IDEMPOTENCY_KEY: Fragment = {
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
MODE: Fragment = {
    "name": "mode",
    "in": "query",
    "description": "`async` answers at once with a run to look at, as `Prefer: respond-async` does.",
    "schema": {"type": "string", "enum": ["sync", "async"]},
}
RUN_ID_PARAMETER: Fragment = {
    "name": "run_id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "minLength": 1},
}
SKILL_ID_PARAMETER: Fragment = {
    "name": "skill_id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,63}$"},
}
FORMAT_PARAMETER: Fragment = {"name": "format", "in": "query", "schema": {"type": "string", "enum": list(TOOL_FORMATS)}}
LAST_EVENT_ID_PARAMETER: Fragment = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "Go on after this event.",
    "schema": {"type": "string", "pattern": "^[0-9]{1,15}$"},
}


def operation_parameters() -> Fragment:
    """The parameters that several operations share."""
    return {"TraceId": TRACE_ID, "IdempotencyKey": IDEMPOTENCY_KEY, "Mode": MODE}


def response_headers(*more: str) -> Fragment:
    """The headers of an answer."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Trace-Id", "traceparent", *more)}


def failure_references(*statuses: int) -> Fragment:
    """The answers that are failures; all that are known without statuses."""
    known = statuses or tuple(ERRORS)
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in known}


def failure_responses() -> Fragment:
    """What they look like."""
    return {str(status): _failure_response(status, said) for status, said in ERRORS.items()}


def json_response(description: str, schema: Fragment, *more: str) -> Fragment:
    """An answer in JSON."""
    return {
        "description": description,
        "headers": response_headers(*more),
        "content": {"application/json": {"schema": schema}},
    }


def schema_reference(name: str) -> Fragment:
    """A schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def _failure_response(status: int, said: str) -> Fragment:
    later = ("Retry-After",) if status in {408, 409, 429, 503} else ()
    return json_response(said, schema_reference("Failure"), *later)


_TRACE_PARAMETERS = [{"$ref": "#/components/parameters/TraceId"}]
_INTRODUCTION = (
    "Every answer in JSON is a Normalized Skill Result: `success`, `skill_id`, `trace_id`, `data`, `error` and `meta`. "
    "The HTTP status is `error.code`."
)


def build_openapi(registrations: Iterable[Registration], *, url: str, keys_needed: bool) -> Fragment:
    """The document of a host at this address with these skills."""
    skills = tuple(registrations)
    paths: Fragment = {}
    schemas: Fragment = {
        "Result": RESULT_SCHEMA,
        "Error": ERROR_SCHEMA,
        "Failure": FAILURE_SCHEMA,
        "Event": EVENT_SCHEMA,
    }
    for registration in skills:
        schemas |= _skill_schemas(registration)
        paths[f"/skills/{registration.id}:invoke"] = {"post": _invoke_operation(registration)}
        paths[f"/skills/{registration.id}:stream"] = {"post": _stream_operation(registration)}
    document: Fragment = {
        "openapi": "3.1.0",
        "info": {"title": "OpenSkill host", "version": __version__, "description": _INTRODUCTION},
        "servers": [{"url": url}],
        "paths": paths | _build_fixed_paths(),
        "components": {
            "schemas": schemas,
            "parameters": operation_parameters(),
            "headers": HEADER_PARAMETERS,
            "responses": failure_responses(),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }
    if keys_needed:
        document["security"] = [{"key": []}]
    return document


def _skill_schemas(registration: Registration) -> Fragment:
    """The input and the result of a skill, under names of its own."""
    name = registration.id
    data = registration.output_schema
    result: Fragment = {
        "allOf": [schema_reference("Result")],
        "properties": {"success": {"const": True}, "error": {"type": "null"}},
    }
    found: Fragment = {f"{name}.input": _embed_schema(registration.input_schema or ANY_OBJECT, f"{name}.input")}
    result["properties"]["data"] = {"type": "object"}
    if data is not None:
        found[f"{name}.data"] = _embed_schema(data, f"{name}.data")
        result["properties"]["data"] = schema_reference(f"{name}.data")
    return found | {f"{name}.result": result}


def _embed_schema(schema: Mapping[str, Any], name: str) -> Any:
    """A schema as a part of the document: what refers to its own top refers to its place here."""
    if "$id" in schema:
        return schema
    return _move_references(schema, f"#/components/schemas/{name}")


def _move_references(value: Any, place: str) -> Any:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {
            key: _move_reference(item, place) if key == "$ref" else _move_references(item, place) for key, item in items
        }
    if isinstance(value, list):
        return [_move_references(item, place) for item in cast("list[Any]", value)]
    return value


def _move_reference(value: Any, place: str) -> Any:
    return place + value[1:] if isinstance(value, str) and value.startswith("#") else _move_references(value, place)


def _request_body(registration: Registration) -> Fragment:
    schema: Fragment = {
        "type": "object",
        "required": ["input"],
        "properties": {"input": schema_reference(f"{registration.id}.input")},
        "additionalProperties": False,
    }
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _invoke_operation(registration: Registration) -> Fragment:
    done = json_response("What the skill has done.", schema_reference(f"{registration.id}.result"))
    begun = json_response("The run has begun; `Location` says where to look.", schema_reference("Result"))
    begun["headers"]["Location"] = {"schema": {"type": "string", "pattern": "^/runs/"}}
    return {
        "operationId": f"invoke_{registration.id}",
        "summary": f"Invoke {registration.id}",
        "description": registration.description,
        "tags": ["skills"],
        "parameters": [
            *_TRACE_PARAMETERS,
            {"$ref": "#/components/parameters/IdempotencyKey"},
            {"$ref": "#/components/parameters/Mode"},
        ],
        "requestBody": _request_body(registration),
        "responses": {
            "200": done,
            "202": begun,
            **failure_references(),
            "default": json_response("A failure.", schema_reference("Failure")),
        },
    }


def _stream_operation(registration: Registration) -> Fragment:
    return {
        "operationId": f"stream_{registration.id}",
        "summary": f"Invoke {registration.id} and watch it",
        "description": "Events `start`, `stdout`, `stderr`, `progress`, `artifact`, `error`, and last `result`.",
        "tags": ["skills"],
        "parameters": _TRACE_PARAMETERS,
        "requestBody": _request_body(registration),
        "responses": {
            "200": _events_response(),
            **failure_references(),
            "default": json_response("A failure.", schema_reference("Failure")),
        },
    }


def _events_response() -> Fragment:
    return {
        "description": "Server-sent events.",
        "headers": response_headers(),
        "content": {"text/event-stream": {"schema": schema_reference("Event")}},
    }


def _build_fixed_paths() -> Fragment:
    return {
        "/skills": {"get": _read_operation("listSkills", "What is served, and what is wrong with the rest", "skills")},
        "/skills/{skill_id}": {
            "get": _read_operation("getSkill", "One skill", "skills", SKILL_ID_PARAMETER, more=(404,))
        },
        "/tools": {"get": _read_operation("exportTools", "The skills as tools for models", "skills", FORMAT_PARAMETER)},
        "/runs/{run_id}": {"get": _read_operation("getRun", "How a run stands", "runs", RUN_ID_PARAMETER, more=(404,))},
        "/runs/{run_id}/events": {"get": _run_events_operation()},
        "/runs/{run_id}:cancel": {
            "post": _read_operation("cancelRun", "End a run", "runs", RUN_ID_PARAMETER, more=(404,))
        },
        "/healthz": {"get": _public_operation("healthz", "Whether the process is alive")},
        "/readyz": {"get": _public_operation("readyz", "Whether invocations should be sent here", more=(503,))},
        "/metrics": {"get": _metrics_operation()},
    }


def _read_operation(name: str, summary: str, tag: str, *parameters: Fragment, more: tuple[int, ...] = ()) -> Fragment:
    statuses = (400, 401, 403, *more, 421, 500, 503)
    return {
        "operationId": name,
        "summary": summary,
        "tags": [tag],
        "parameters": [*_TRACE_PARAMETERS, *parameters],
        "responses": {"200": json_response(summary + ".", schema_reference("Result")), **failure_references(*statuses)},
    }


def _public_operation(name: str, summary: str, more: tuple[int, ...] = ()) -> Fragment:
    responses = {"200": json_response(summary + ".", schema_reference("Result")), **failure_references(400, *more)}
    described = {"operationId": name, "summary": summary, "tags": ["health"], "parameters": _TRACE_PARAMETERS}
    return {**described, "security": [], "responses": responses}


def _run_events_operation() -> Fragment:
    found = _read_operation(
        "watchRun", "What a run shows", "runs", RUN_ID_PARAMETER, LAST_EVENT_ID_PARAMETER, more=(404,)
    )
    return {**found, "responses": {**found["responses"], "200": _events_response()}}


def _metrics_operation() -> Fragment:
    found = _read_operation("metrics", "Numbers for Prometheus", "health")
    text = {"text/plain": {"schema": {"type": "string"}}}
    answer = {"description": "The numbers.", "headers": response_headers(), "content": text}
    return {**found, "responses": {**found["responses"], "200": answer}}


def describe_skill(entry: RegistryEntry, start: Path) -> dict[str, Any]:
    """One skill, for `GET /skills` and `GET /skills/{id}`."""
    found: dict[str, Any] = {
        "id": entry.id,
        "status": entry.status,
        "problems": [_describe_problem(problem, start) for problem in entry.problems],
        "origin": _relative_path(entry.origin, start) if entry.origin is not None else None,
    }
    if entry.registration is not None:
        found |= _describe_manifest(entry.registration, start)
    return found


def _describe_manifest(registration: Registration, start: Path) -> dict[str, Any]:
    kind, _, runtime = registration.kind.partition(":")
    return {
        "kind": registration.kind,
        "type": kind,
        "runtime": runtime or None,
        "entry": _describe_entry(registration, start),
        "version": registration.version,
        "description": registration.description,
        "timeout_ms": registration.timeout_ms,
        "allowed_root": _relative_path(registration.allowed_root, start)
        if registration.allowed_root is not None
        else None,
        "writable": registration.writable,
        "input_schema": _copy_schema(registration.input_schema),
        "output_schema": _copy_schema(registration.output_schema),
        "env": sorted(registration.environment),
        "secrets": list(registration.secrets),
        "limits": asdict(registration.limits),
        "executor": registration.executor,
        "warm": str(registration.warm),
    }


def _describe_entry(registration: Registration, start: Path) -> str:
    return (
        _relative_path(Path(registration.entry), start) if registration.kind.startswith("cli") else registration.entry
    )


def _describe_problem(problem: Problem, start: Path) -> dict[str, Any]:
    return {
        "rule": problem.rule,
        "severity": str(problem.severity),
        "message": problem.message.replace(f"{start}/", ""),
        "line": problem.line,
        "file": _relative_path(Path(problem.path), start) if problem.path else None,
    }


def _relative_path(path: Path, start: Path) -> str:
    return str(path.relative_to(start)) if path.is_relative_to(start) else path.name


def _copy_schema(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if schema is None else dict(schema)
