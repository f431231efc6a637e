"""Descriptions of hosted skills: OpenAPI 3.1 with a typed path per skill, tools for models, and `GET /skills`.

Paths of files are relative to the directory of the host, or reduced to their names.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from openskills.errors import InvalidArgument
from openskills.host.auth import OWNER_MARK, Principal
from openskills.host.model import MAX_TRACE_ID_LENGTH, RESULT_SCHEMA, Registration
from openskills.host.registry.manifest import ID_PATTERN
from openskills.host.registry.registry import Registry, RegistryEntry, build_tool_names
from openskills.host.registry.scripts import SkippedFile
from openskills.host.runners.kinds import describe_isolation
from openskills.settings import Settings
from openskills.skillmd.problem import Problem
from openskills.version import __version__

ANY_OBJECT: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
"""The input schema of a skill without one."""


def build_tools(registrations: Iterable[Registration], form: str, *, known: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The skills as tools in a format of `TOOL_FORMATS`. Raises `InvalidArgument` for an unknown format.

    `known` are further ids of the host, which the names must not stand for (see `build_tool_names`). A private skill of
    the caller has precedence over another with the same name.
    """
    made = TOOL_FORMATS.get(form)
    if made is None:
        raise InvalidArgument("format", f"{form[:50]!r} is not one of {', '.join(TOOL_FORMATS)}")
    offered = list(registrations)
    names = build_tool_names((*known, *(registration.id for registration in offered)))
    plain = {one.id: names[one.id].partition(OWNER_MARK)[0] for one in offered}
    # Private skills come last here, so that they win.
    winners = {plain[one.id]: one for one in sorted(offered, key=lambda one: OWNER_MARK in one.id)}
    return [made(one, plain[one.id]) for one in offered if winners[plain[one.id]] is one]


def list_tools(registry: Registry, principal: Principal, form: str) -> list[dict[str, Any]]:
    """The ready skills that a caller may invoke, as tools. Raises like `build_tools`."""
    entries = registry.list_entries()
    ready = {entry.id for entry in entries if entry.status == "ready" and principal.can_invoke(entry.id)}
    offered = [one for one in registry.list_registrations() if one.id in ready]
    return build_tools(offered, form, known=[entry.id for entry in entries if principal.can_see(entry.id)])


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
    return {"name": name, "description": registration.description, "input_schema": _tool_schema(registration)}


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


def _tool_schema(registration: Registration) -> dict[str, Any]:
    # All formats require an object at the top.
    return {"type": "object", **(registration.input_schema or ANY_OBJECT)}


Fragment = dict[str, Any]

ERRORS: Mapping[int, str] = {
    400: "Invalid request or input; `error.details.field` says where.",
    401: "Missing or invalid API key.",
    403: "The caller or the skill is not allowed to do this.",
    404: "Unknown skill, run, verb or path.",
    408: "The request did not arrive in time.",
    409: "The first request with this Idempotency-Key is still running.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    421: "The request was sent to the wrong host.",
    422: "The manifest of the skill is invalid, or the Idempotency-Key was used with another body or mode.",
    429: "Too many requests; `Retry-After` says when to retry.",
    499: "The call was cancelled.",
    500: "Internal error of the host or the skill.",
    501: "A dependency of the skill is not installed.",
    502: "Invalid output of the skill; `error.details` has the evidence.",
    503: "The skill or the host is unavailable.",
    504: "The skill timed out.",
}
"""Error statuses. Skills may use others, which are covered by `default`."""
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
        "id": {"type": "string", "description": "For `Last-Event-ID`; only in events of runs."},
        "event": {"type": "string", "examples": ["start", "stdout", "stderr", "progress", "artifact", "result"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
HEADER_PARAMETERS: Fragment = {
    "X-Trace-Id": {
        "description": "The id of the request.",
        "schema": {"type": "string", "minLength": 1, "maxLength": MAX_TRACE_ID_LENGTH},
    },
    "traceparent": {
        "description": "The W3C trace context of the response.",
        "schema": {"type": "string", "pattern": "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"},
    },
    "Retry-After": {"description": "Seconds to wait before a retry.", "schema": {"type": "integer", "minimum": 1}},
}


def _parameter(name: str, place: str, description: str = "", **schema: Any) -> Fragment:
    said = {"description": description} if description else {}
    required = {"required": True} if place == "path" else {}
    return {"name": name, "in": place, **said, **required, "schema": {"type": "string", **schema}}


_KEY_PATTERN = r"^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$"
_KEY_USE = "The same key with the same body within 24 hours gets the stored response."
_MODE_USE = "`async` starts an asynchronous run, like `Prefer: respond-async`."
_TRACE_USE = "Your id for this request; by default a new one."
TRACE_ID = _parameter("X-Trace-Id", "header", _TRACE_USE, maxLength=MAX_TRACE_ID_LENGTH, pattern=r"^[\x20-\x7e]*$")
IDEMPOTENCY_KEY = _parameter("Idempotency-Key", "header", _KEY_USE, minLength=1, maxLength=255, pattern=_KEY_PATTERN)
MODE = _parameter("mode", "query", _MODE_USE, enum=["sync", "async"])
RUN_ID_PARAMETER = _parameter("run_id", "path", minLength=1)
CONVERSATION_ID_PARAMETER = _parameter("conversation_id", "path", minLength=1)
APPROVAL_ID_PARAMETER = _parameter("approval_id", "path", minLength=1)
REQUEST_NUMBER_PARAMETER = _parameter("number", "path", pattern="^[1-9][0-9]{0,8}$")
SEARCH_PARAMETER = _parameter("search", "query", "Only conversations with this text in their name or title.")
SKILL_ID_PARAMETER = _parameter("skill_id", "path", pattern=f"^{ID_PATTERN.pattern}$")
FORMAT_PARAMETER = _parameter("format", "query", enum=list(TOOL_FORMATS))
LAST_EVENT_ID_PARAMETER = _parameter("Last-Event-ID", "header", "Resume after this event.", pattern="^[0-9]{1,15}$")


def response_headers(*more: str) -> Fragment:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Trace-Id", "traceparent", *more)}


def failure_references(*statuses: int) -> Fragment:
    """References to error responses; to all of them by default."""
    known = statuses or tuple(ERRORS)
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in known}


def json_response(description: str, schema: Fragment, *more: str) -> Fragment:
    return _build_response(description, "application/json", schema, *more)


def _build_response(description: str, kind: str, schema: Fragment, *more: str) -> Fragment:
    return {"description": description, "headers": response_headers(*more), "content": {kind: {"schema": schema}}}


def schema_reference(name: str) -> Fragment:
    """A reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def failure_responses() -> Fragment:
    def respond(status: int, said: str) -> Fragment:
        later = ("Retry-After",) if status in {408, 409, 429, 503} else ()
        return json_response(said, schema_reference("Failure"), *later)

    return {str(status): respond(status, said) for status, said in ERRORS.items()}


_TRACE_PARAMETERS = [{"$ref": "#/components/parameters/TraceId"}]
_INTRODUCTION = (
    "Every JSON response is a Normalized Skill Result: `success`, `skill_id`, `trace_id`, `data`, `error` and `meta`. "
    "The HTTP status is `error.code`."
)


def build_openapi(
    registrations: Iterable[Registration], *, url: str, keys_needed: bool, models: Sequence[str] = ("rule",)
) -> Fragment:
    """The OpenAPI document of a host with these skills."""
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
        "paths": paths | _build_fixed_paths(models),
        "components": {
            "schemas": schemas,
            "parameters": {"TraceId": TRACE_ID, "IdempotencyKey": IDEMPOTENCY_KEY, "Mode": MODE},
            "headers": HEADER_PARAMETERS,
            "responses": failure_responses(),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }
    if keys_needed:
        document["security"] = [{"key": []}]
    return document


def _skill_schemas(registration: Registration) -> Fragment:
    name, data = registration.id, {"type": "object"}
    found: Fragment = {f"{name}.input": _embed_schema(registration.input_schema or ANY_OBJECT, f"{name}.input")}
    if registration.output_schema is not None:
        found[f"{name}.data"] = _embed_schema(registration.output_schema, f"{name}.data")
        data = schema_reference(f"{name}.data")
    properties = {"success": {"const": True}, "error": {"type": "null"}, "data": data}
    return found | {f"{name}.result": {"allOf": [schema_reference("Result")], "properties": properties}}


def _embed_schema(schema: Mapping[str, Any], name: str) -> Any:
    # Local references must point to the new place of the schema.
    if "$id" in schema:
        return schema
    return _move_references(schema, f"#/components/schemas/{name}")


def _move_references(value: Any, place: str) -> Any:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {
            key: place + item[1:]
            if key == "$ref" and isinstance(item, str) and item.startswith("#")
            else _move_references(item, place)
            for key, item in items
        }
    if isinstance(value, list):
        return [_move_references(item, place) for item in cast("list[Any]", value)]
    return value


def _invoke_operation(registration: Registration) -> Fragment:
    done = json_response("The result of the skill.", schema_reference(f"{registration.id}.result"))
    begun = json_response("The run has started; see `Location`.", schema_reference("Result"))
    begun["headers"]["Location"] = {"schema": {"type": "string", "pattern": "^/runs/"}}
    summary, responses = f"Invoke {registration.id}", {"200": done, "202": begun}
    return _call_operation(registration, "invoke", summary, registration.description, responses, "Mode")


def _stream_operation(registration: Registration) -> Fragment:
    summary = f"Invoke {registration.id} with events"
    description = "Events `start`, `stdout`, `stderr`, `progress`, `artifact`, `error`, and last `result`."
    return _call_operation(registration, "stream", summary, description, {"200": _events_response()})


def _call_operation(
    registration: Registration, verb: str, summary: str, description: str, responses: Fragment, *parameters: str
) -> Fragment:
    schema: Fragment = {
        "type": "object",
        "required": ["input"],
        "properties": {"input": schema_reference(f"{registration.id}.input")},
        "additionalProperties": False,
    }
    failure = json_response("A failure.", schema_reference("Failure"))
    names = ("TraceId", "IdempotencyKey", *parameters)
    return {
        "operationId": f"{verb}_{registration.id}",
        "summary": summary,
        "description": description,
        "tags": ["skills"],
        "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in names],
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {**responses, **failure_references(), "default": failure},
    }


def _events_response() -> Fragment:
    return _build_response("Server-sent events.", "text/event-stream", schema_reference("Event"))


def _build_fixed_paths(models: Sequence[str]) -> Fragment:
    after = (RUN_ID_PARAMETER, LAST_EVENT_ID_PARAMETER)
    events = _read_operation("watchRun", "The events of a run", "runs", *after, answer=_events_response())
    text = _build_response("Metrics.", "text/plain", {"type": "string"})
    return {
        "/skills": {"get": _read_operation("listSkills", "All skills, with problems of broken ones", "skills")},
        "/skills/{skill_id}": {"get": _read_operation("getSkill", "One skill", "skills", SKILL_ID_PARAMETER)},
        "/tools": {"get": _read_operation("exportTools", "The skills as tools for models", "skills", FORMAT_PARAMETER)},
        "/runs/{run_id}": {"get": _read_operation("getRun", "The state of a run", "runs", RUN_ID_PARAMETER)},
        "/runs/{run_id}/events": {"get": events},
        "/runs/{run_id}:cancel": {"post": _read_operation("cancelRun", "Cancel a run", "runs", RUN_ID_PARAMETER)},
        **_build_conversation_paths(models),
        "/healthz": {"get": _public_operation("healthz", "Whether the process is alive")},
        "/readyz": {"get": _public_operation("readyz", "Whether the host accepts invocations", more=(503,))},
        "/metrics": {"get": _read_operation("metrics", "Prometheus metrics", "health", answer=text)},
    }


MAX_MESSAGE_CHARS, MAX_MESSAGE_FILES = 256 * 1024, 20
"""Of a message of a conversation."""


def _build_conversation_paths(models: Sequence[str]) -> Fragment:
    tag, one, text = "conversations", CONVERSATION_ID_PARAMETER, {"type": "string"}
    model = {"enum": list(models)}
    created = {"title": text, "model": model, "ask": {"type": "boolean"}}
    named = {
        "name": {"type": "string", "minLength": 1, "maxLength": 512, "pattern": r"^[!-~]+$"},
        "data": {"type": "string", "contentEncoding": "base64", "pattern": "^([A-Za-z0-9+/]{4})*$"},
    }
    file = {"type": "object", "required": ["name", "data"], "properties": named}
    said = {"type": "string", "minLength": 1, "maxLength": MAX_MESSAGE_CHARS, "pattern": r"^[!-~]"}
    message = {"text": said, "model": model, "files": {"type": "array", "items": file, "maxItems": MAX_MESSAGE_FILES}}
    decision = {"enum": ["allow_once", "allow_session", "deny"]}
    answer = _write_operation(
        "answerApproval",
        "Answer a command that waits for approval",
        {"decision": decision, "reason": text},
        one,
        APPROVAL_ID_PARAMETER,
        required=("decision",),
    )
    return {
        "/models": {"get": _read_operation("listModels", "The models that conversations may use", tag)},
        "/conversations": {
            "get": _read_operation("listConversations", "Your conversations", tag, SEARCH_PARAMETER),
            "post": _write_operation("createConversation", "Create a conversation", created, status="201"),
        },
        "/conversations/{conversation_id}": {
            "get": _read_operation("getConversation", "A conversation with everything in it", tag, one),
            "delete": _read_operation("deleteConversation", "Delete a conversation", tag, one, more=(409,)),
        },
        "/conversations/{conversation_id}:cancel": {
            "post": _read_operation("cancelTurn", "Cancel the running turn", tag, one)
        },
        "/conversations/{conversation_id}/messages": {
            "post": _write_operation("sendMessage", "Send a message", message, one, required=("text",), status="202")
        },
        "/conversations/{conversation_id}/approvals/{approval_id}": {"post": answer},
        "/conversations/{conversation_id}/requests": {
            "get": _read_operation("listRequests", "The recorded requests to the model", tag, one)
        },
        "/conversations/{conversation_id}/requests/{number}": {
            "get": _read_operation("getRequest", "A recorded request", tag, one, REQUEST_NUMBER_PARAMETER)
        },
    }


def _write_operation(
    name: str,
    summary: str,
    properties: Fragment,
    *parameters: Fragment,
    required: tuple[str, ...] = (),
    status: str = "200",
) -> Fragment:
    found = _read_operation(name, summary, "conversations", *parameters, more=(408, 409, 413, 415, 429))
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    found["requestBody"] = {"required": bool(required), "content": {"application/json": {"schema": schema}}}
    found["responses"][status] = found["responses"].pop("200")
    return found


def _read_operation(
    name: str,
    summary: str,
    tag: str,
    *parameters: Fragment,
    more: tuple[int, ...] = (),
    answer: Fragment | None = None,
) -> Fragment:
    # What the path names may not exist.
    unknown = (404,) if any(one["in"] == "path" for one in parameters) else ()
    statuses = (400, 401, 403, *unknown, *more, 421, 500, 503)
    answer = answer or json_response(f"{summary}.", schema_reference("Result"))
    return {
        "operationId": name,
        "summary": summary,
        "tags": [tag],
        "parameters": [*_TRACE_PARAMETERS, *parameters],
        "responses": {"200": answer, **failure_references(*statuses)},
    }


def _public_operation(name: str, summary: str, more: tuple[int, ...] = ()) -> Fragment:
    responses = {"200": json_response(summary + ".", schema_reference("Result")), **failure_references(400, *more)}
    described = {"operationId": name, "summary": summary, "tags": ["health"], "parameters": _TRACE_PARAMETERS}
    return {**described, "security": [], "responses": responses}


def describe_skill(entry: RegistryEntry, start: Path, settings: Settings) -> dict[str, Any]:
    """One skill, for `GET /skills` and `GET /skills/{id}`."""
    found: dict[str, Any] = {
        "id": entry.id,
        "status": entry.status,
        "problems": [_describe_problem(problem, start) for problem in entry.problems],
        "origin": _relative_path(entry.origin, start) if entry.origin is not None else None,
    }
    if (skill := entry.registration) is not None:
        isolation = describe_isolation(skill.kind, skill.executor, settings)
        found |= {**_describe_manifest(skill, start), "isolation": isolation}
    return found


def describe_skipped(skipped: SkippedFile) -> dict[str, Any]:
    """A skill or script that is not served, for `GET /skills`."""
    return {"skill": skipped.skill, "script": skipped.script or None, "reason": skipped.reason}


def _describe_manifest(registration: Registration, start: Path) -> dict[str, Any]:
    kind, _, runtime = registration.kind.partition(":")
    root, entry = registration.allowed_root, registration.entry
    return {
        "kind": registration.kind,
        "type": kind,
        "runtime": runtime or None,
        "entry": _relative_path(Path(entry), start) if kind == "cli" else entry,
        "version": registration.version,
        "description": registration.description,
        "timeout_ms": registration.timeout_ms,
        "allowed_root": _relative_path(root, start) if root is not None else None,
        "writable": registration.writable,
        "input_schema": registration.input_schema,
        "output_schema": registration.output_schema,
        "derived": registration.derived or None,
        "env": sorted(registration.environment),
        "secrets": list(registration.secrets),
        "limits": asdict(registration.limits),
        "executor": registration.executor,
        "warm": str(registration.warm),
    }


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
