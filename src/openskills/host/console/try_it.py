"""The screen Try it: a form for hosted skills, and a command line in a workspace for any skill."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, urlencode

from openskills.errors import Forbidden, InvalidArgument, SkillError, UnknownSkill
from openskills.executors.files.tree import choose_upload_name
from openskills.executors.spec import INPUTS
from openskills.host.commands import MAX_UPLOAD_BYTES
from openskills.host.console.pages import PageRequest
from openskills.host.console.runs import format_command, load_run
from openskills.host.http import HttpRefusal, HttpResponse, read_body
from openskills.host.invoke import RunStarter
from openskills.host.registry.registry import RegistryEntry
from openskills.host.service import InvokeRequest, check_scope
from openskills.host.strict_json import read_json

DEFAULT_WORKSPACE = "default"
_MAX_LISTED = 200
_MAX_COMMAND = 20_000
_UPLOAD_SECONDS = 60.0


async def show_choices(request: PageRequest) -> HttpResponse:
    """All skills that can be tried: hosted ones, and those with a folder."""
    query = request.query.get("q", "").strip().casefold()[:100]
    caller = request.caller
    hosted = [one for one in request.host.registry.list_entries() if caller.can_invoke(one.id)]
    skills = await request.host.commands.list_skills(caller)
    rows = [
        {
            "name": one.id,
            "about": one.registration.description if one.registration else "",
            "place": "hosted",
            "status": one.status,
        }
        for one in hosted
    ] + [{"name": one.name, "about": one.description, "place": "skill", "status": "ready"} for one in skills]
    matching = [row for row in rows if query in f"{row['name']} {row['about']}".casefold()]
    context = {"rows": matching[:_MAX_LISTED], "total": len(rows), "left": len(matching) - _MAX_LISTED, "query": query}
    return request.render("try.html", context, block="results")


def _find_entry(request: PageRequest) -> RegistryEntry:
    name = request.params["skill_id"]
    found = request.host.registry.find(name)
    check_scope(request.caller, name, None if found is None else found.id)
    return request.host.registry.get_entry(name)


async def show_form(request: PageRequest) -> HttpResponse:
    """The form of a hosted skill; with `run` it has the input of that run."""
    entry = _find_entry(request)
    given: Mapping[str, Any] = {}
    if request.query.get("run"):
        view = await load_run(request, request.query["run"])
        given = (view.request or {}).get("input") or {}
    elif entry.registration is not None and entry.registration.input_schema:
        given = build_defaults(entry.registration.input_schema)
    return _render_form(request, entry, json.dumps(given, ensure_ascii=False, indent=2))


def build_defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of the fields of a schema."""
    fields = cast("Mapping[str, Any]", schema.get("properties") or {})
    return {name: one["default"] for name, one in fields.items() if isinstance(one, Mapping) and "default" in one}


def _render_form(
    request: PageRequest,
    entry: RegistryEntry,
    text: str,
    errors: Sequence[Mapping[str, str]] = (),
    *,
    status: int = 200,
) -> HttpResponse:
    registration = entry.registration
    schema = registration.input_schema if registration is not None else None
    context = {
        "entry": entry,
        "registration": registration,
        "schema": json.dumps(schema or {"type": "object"}, ensure_ascii=False),
        "has_schema": bool(schema),
        "text": text,
        "errors": errors,
        "errors_json": json.dumps([dict(one) for one in errors], ensure_ascii=False),
        "tab": "json" if request.query.get("tab") == "json" else "form",
    }
    return request.render("try_hosted.html", context, status=status)


async def call_skill(request: PageRequest) -> HttpResponse:
    """Start a run with the input of the form, or show what is wrong with it at its fields."""
    entry = _find_entry(request)
    fields = await request.form()
    text = fields.get("input", ["{}"])[-1]
    try:
        value = _read_input(text)
        trace = request.exchange.trace
        asked = InvokeRequest(entry.id, value, trace.id, request.caller, time.perf_counter(), text.encode())
        asked = asked._replace(traceparent=trace.here, parent=trace.parent)
        run = await RunStarter(request.host.host, request.host.runs).start_run(asked)
    except HttpRefusal as refused:
        other = [{"pointer": "", "message": refused.failure.message}]
        errors = cast("list[dict[str, str]]", refused.failure.details.get("errors") or other)
        return _render_form(request, entry, text, errors, status=refused.failure.code)
    except InvalidArgument as error:
        return _render_form(request, entry, text, [{"pointer": "", "message": error.message}], status=400)
    return request.redirect(f"/console/runs/{run.id}")


def _read_input(text: str) -> dict[str, Any]:
    value = read_json(text.encode("utf-8", "replace"))
    if not isinstance(value, dict):
        raise InvalidArgument("input", "expected a JSON object")
    return cast("dict[str, Any]", value)


async def show_command(request: PageRequest) -> HttpResponse:
    """The command line of a skill in a workspace; with `run` it has the command of that run."""
    return await _render_command(request, await _read_earlier(request))


async def _read_earlier(request: PageRequest) -> dict[str, Any]:
    given: dict[str, Any] = {"workspace": request.query.get("workspace") or DEFAULT_WORKSPACE}
    if request.query.get("run"):
        given |= (await load_run(request, request.query["run"])).request or {}
    return given


async def _render_command(
    request: PageRequest, given: Mapping[str, Any], error: str = "", *, status: int = 200
) -> HttpResponse:
    commands, caller = request.host.commands, request.caller
    skill = await commands.find_skill(caller, request.params["name"])
    try:
        files = await commands.list_files(caller, str(given["workspace"]))
    except InvalidArgument as fault:
        error, files = error or fault.message, ()
    context = {
        "skill": skill,
        "given": given,
        "command": format_command(given.get("command")),
        "files": files,
        "error": error,
        "scripts_of_skill": [one.path for one in skill.resources() if one.path.startswith("scripts/")][:50],
    }
    return request.render("try_skill.html", context, status=status)


async def run_command(request: PageRequest) -> HttpResponse:
    """Store the files of the form in the workspace and start its command."""
    form = await read_upload(request)
    workspace = form.text("workspace") or DEFAULT_WORKSPACE
    asked: dict[str, Any] = {"skill": request.params["name"], "command": form.text("command")[:_MAX_COMMAND]}
    if form.text("stdin"):
        asked["stdin"] = form.text("stdin")
    if form.text("timeout"):
        asked["timeout"] = form.text("timeout")
    mode = form.text("mode")
    asked |= {"tty": True, "rows": 24, "columns": 80} if mode == "terminal" else {}
    asked |= {"interactive": True} if mode == "interactive" else {}
    commands, caller = request.host.commands, request.caller
    try:
        for name, data in form.files:
            await commands.write_file(caller, workspace, f"{INPUTS}/{choose_upload_name(name)}", data)
        if form.text("action") == "upload":
            query = urlencode({"workspace": workspace})
            return request.redirect(f"/console/try/skill/{quote(request.params['name'], safe='')}?{query}")
        run = await commands.start(caller, workspace, asked, request.exchange.trace)
    except (UnknownSkill, Forbidden):
        raise
    except SkillError as error:
        return await _render_command(request, {**asked, "workspace": workspace}, error.message, status=error.code)
    return request.redirect(f"/console/runs/{run.id}")


@dataclass(frozen=True, slots=True)
class UploadForm:
    """The fields and files of a form."""

    fields: Mapping[str, str]
    files: tuple[tuple[str, bytes], ...]

    def text(self, name: str) -> str:
        """A field with plain line feeds: browsers send the lines of a text area with carriage returns."""
        return self.fields.get(name, "").replace("\r\n", "\n")


async def read_upload(request: PageRequest) -> UploadForm:
    """Read a form with files (`multipart/form-data`) or without. Raises `SkillError` and `HttpRefusal`."""
    kind = request.exchange.header(b"content-type") or ""
    if not kind.startswith("multipart/form-data"):
        return UploadForm({name: values[-1] for name, values in (await request.form()).items()}, ())
    body = await read_body(request.exchange, MAX_UPLOAD_BYTES, timeout=_UPLOAD_SECONDS)
    from python_multipart.exceptions import FormParserError

    try:
        return _parse_multipart(kind, body)
    except FormParserError as error:
        raise InvalidArgument("body", f"not a valid form: {str(error)[:200]}") from None


def _parse_multipart(kind: str, body: bytes) -> UploadForm:
    from python_multipart import create_form_parser

    fields: dict[str, str] = {}
    files: list[tuple[str, bytes]] = []

    def on_field(field: Any) -> None:
        fields[(field.field_name or b"").decode("utf-8", "replace")] = (field.value or b"").decode("utf-8", "replace")

    def on_file(file: Any) -> None:
        name = (file.file_name or b"").decode("utf-8", "replace")
        if name:
            file.file_object.seek(0)
            files.append((name, file.file_object.read()))
        file.close()

    headers = {"Content-Type": kind.encode("latin-1")}
    # Files stay in memory: the body was read as a whole.
    parser = create_form_parser(headers, on_field, on_file, config={"MAX_MEMORY_FILE_SIZE": MAX_UPLOAD_BYTES})
    parser.write(body)
    parser.finalize()
    return UploadForm(fields, tuple(files))


PAGES = (
    ("GET", "/console/try", show_choices),
    ("GET", "/console/try/hosted/{skill_id}", show_form),
    ("POST", "/console/try/hosted/{skill_id}", call_skill, "run"),
    ("GET", "/console/try/skill/{name}", show_command),
    ("POST", "/console/try/skill/{name}", run_command, "run"),
)
