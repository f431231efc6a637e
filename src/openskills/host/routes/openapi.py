"""The host as an OpenAPI 3.1 document: one typed path per skill, so that generated clients know every input. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from openskills.host.registration import Registration
from openskills.host.routes import openapi_parts as parts
from openskills.host.routes.openapi_parts import Piece, failures, json_answer, ref
from openskills.host.routes.tool_export import ANYTHING
from openskills.version import __version__

_TRACED = [{"$ref": "#/components/parameters/TraceId"}]
_INTRODUCTION = (
    "Every answer in JSON is a Normalized Skill Result: `success`, `skill_id`, `trace_id`, `data`, `error` and `meta`. "
    "The HTTP status is `error.code`."
)


def openapi(registrations: Iterable[Registration], *, url: str, keys_needed: bool) -> Piece:
    """The document of a host at this address with these skills."""
    skills = tuple(registrations)
    paths: Piece = {}
    schemas: Piece = {"Result": parts.RESULT, "Error": parts.ERROR, "Failure": parts.FAILURE, "Event": parts.EVENT}
    for registration in skills:
        schemas |= _schemas(registration)
        paths[f"/skills/{registration.id}:invoke"] = {"post": _invoke(registration)}
        paths[f"/skills/{registration.id}:stream"] = {"post": _stream(registration)}
    document: Piece = {
        "openapi": "3.1.0",
        "info": {"title": "OpenSkill host", "version": __version__, "description": _INTRODUCTION},
        "servers": [{"url": url}],
        "paths": paths | _fixed_paths(),
        "components": {
            "schemas": schemas,
            "parameters": parts.parameters(),
            "headers": parts.HEADERS,
            "responses": parts.failure_responses(),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }
    if keys_needed:
        document["security"] = [{"key": []}]
    return document


def _schemas(registration: Registration) -> Piece:
    """The input and the result of a skill, under names of its own."""
    name = registration.id
    data = registration.output_schema
    result: Piece = {"allOf": [ref("Result")], "properties": {"success": {"const": True}, "error": {"type": "null"}}}
    found: Piece = {f"{name}.input": _embedded(registration.input_schema or ANYTHING, f"{name}.input")}
    result["properties"]["data"] = {"type": "object"}
    if data is not None:
        found[f"{name}.data"] = _embedded(data, f"{name}.data")
        result["properties"]["data"] = ref(f"{name}.data")
    return found | {f"{name}.result": result}


def _embedded(schema: Mapping[str, Any], name: str) -> Any:
    """A schema as a part of the document: what refers to its own top refers to its place here."""
    if "$id" in schema:
        return schema
    return _moved(schema, f"#/components/schemas/{name}")


def _moved(value: Any, place: str) -> Any:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {key: _reference(item, place) if key == "$ref" else _moved(item, place) for key, item in items}
    if isinstance(value, list):
        return [_moved(item, place) for item in cast("list[Any]", value)]
    return value


def _reference(value: Any, place: str) -> Any:
    return place + value[1:] if isinstance(value, str) and value.startswith("#") else _moved(value, place)


def _request(registration: Registration) -> Piece:
    schema: Piece = {
        "type": "object",
        "required": ["input"],
        "properties": {"input": ref(f"{registration.id}.input")},
        "additionalProperties": False,
    }
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _invoke(registration: Registration) -> Piece:
    done = json_answer("What the skill has done.", ref(f"{registration.id}.result"))
    begun = json_answer("The run has begun; `Location` says where to look.", ref("Result"))
    begun["headers"]["Location"] = {"schema": {"type": "string", "pattern": "^/runs/"}}
    return {
        "operationId": f"invoke_{registration.id}",
        "summary": f"Invoke {registration.id}",
        "description": registration.description,
        "tags": ["skills"],
        "parameters": [
            *_TRACED,
            {"$ref": "#/components/parameters/IdempotencyKey"},
            {"$ref": "#/components/parameters/Mode"},
        ],
        "requestBody": _request(registration),
        "responses": {"200": done, "202": begun, **failures(), "default": json_answer("A failure.", ref("Failure"))},
    }


def _stream(registration: Registration) -> Piece:
    return {
        "operationId": f"stream_{registration.id}",
        "summary": f"Invoke {registration.id} and watch it",
        "description": "Events `start`, `stdout`, `stderr`, `progress`, `artifact`, `error`, and last `result`.",
        "tags": ["skills"],
        "parameters": _TRACED,
        "requestBody": _request(registration),
        "responses": {"200": _events(), **failures(), "default": json_answer("A failure.", ref("Failure"))},
    }


def _events() -> Piece:
    return {
        "description": "Server-sent events.",
        "headers": parts.headers(),
        "content": {"text/event-stream": {"schema": ref("Event")}},
    }


def _fixed_paths() -> Piece:
    return {
        "/skills": {"get": _read("listSkills", "What is served, and what is wrong with the rest", "skills")},
        "/skills/{skill_id}": {"get": _read("getSkill", "One skill", "skills", parts.SKILL_ID, more=(404,))},
        "/tools": {"get": _read("exportTools", "The skills as tools for models", "skills", parts.FORMAT)},
        "/runs/{run_id}": {"get": _read("getRun", "How a run stands", "runs", parts.RUN_ID, more=(404,))},
        "/runs/{run_id}/events": {"get": _watch_run()},
        "/runs/{run_id}:cancel": {"post": _read("cancelRun", "End a run", "runs", parts.RUN_ID, more=(404,))},
        "/healthz": {"get": _open("healthz", "Whether the process is alive")},
        "/readyz": {"get": _open("readyz", "Whether invocations should be sent here", more=(503,))},
        "/metrics": {"get": _metrics()},
    }


def _read(name: str, summary: str, tag: str, *parameters: Piece, more: tuple[int, ...] = ()) -> Piece:
    statuses = (400, 401, 403, *more, 421, 500, 503)
    return {
        "operationId": name,
        "summary": summary,
        "tags": [tag],
        "parameters": [*_TRACED, *parameters],
        "responses": {"200": json_answer(summary + ".", ref("Result")), **failures(*statuses)},
    }


def _open(name: str, summary: str, more: tuple[int, ...] = ()) -> Piece:
    responses = {"200": json_answer(summary + ".", ref("Result")), **failures(400, *more)}
    described = {"operationId": name, "summary": summary, "tags": ["health"], "parameters": _TRACED}
    return {**described, "security": [], "responses": responses}


def _watch_run() -> Piece:
    found = _read("watchRun", "What a run shows", "runs", parts.RUN_ID, parts.LAST_EVENT_ID, more=(404,))
    return {**found, "responses": {**found["responses"], "200": _events()}}


def _metrics() -> Piece:
    found = _read("metrics", "Numbers for Prometheus", "health")
    text = {"text/plain": {"schema": {"type": "string"}}}
    answer = {"description": "The numbers.", "headers": parts.headers(), "content": text}
    return {**found, "responses": {**found["responses"], "200": answer}}
