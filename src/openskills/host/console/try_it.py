"""The screen Try it: a form for hosted skills, and a command line in a workspace for any skill."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast
from urllib.parse import quote, urlencode

from openskills.errors import Forbidden, InvalidArgument, SkillError, UnknownSkill
from openskills.executors.files.tree import choose_upload_name
from openskills.executors.spec import INPUTS
from openskills.host.commands import MAX_UPLOAD_BYTES
from openskills.host.console.pages import PageRequest
from openskills.host.console.runs import format_command, load_run
from openskills.host.http import HttpRefusal, HttpResponse, stream_body
from openskills.host.invoke import start_run
from openskills.host.registry.registry import RegistryEntry
from openskills.host.service import InvokeRequest, check_scope
from openskills.host.strict_json import read_json

DEFAULT_WORKSPACE = "default"
_MAX_LISTED = 200
_MAX_COMMAND = 20_000
_UPLOAD_SECONDS = 60.0
_PIECE = 1024 * 1024


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
    context = {
        "rows": matching[:_MAX_LISTED],
        "total": len(rows),
        "left": len(matching) - _MAX_LISTED,
        "query": query,
        # Measuring them takes a moment, and typing does not change them.
        "workspaces": () if request.is_partial else await _list_workspaces(request),
        "max_workspaces": None if caller.has_role("admin") else request.host.settings.host_quota_workspaces,
    }
    return request.render("try.html", context, block="results")


async def _list_workspaces(request: PageRequest) -> Sequence[tuple[str, Any]]:
    return await request.host.commands.list_workspaces(request.caller) if request.caller.has_role("run") else ()


async def delete_workspace(request: PageRequest) -> HttpResponse:
    """Remove a workspace with its files, and go back to the list."""
    await request.host.commands.remove_workspace(request.caller, request.params["workspace"])
    return request.redirect("/console/try#workspaces")


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
    variants: str = "",
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
        "variants": variants,
    }
    return request.render("try_hosted.html", context, status=status)


async def call_skill(request: PageRequest) -> HttpResponse:
    """Start a run with the input of the form, or show what is wrong with it at its fields."""
    entry = _find_entry(request)
    fields = await request.form()
    text, variants = fields.get("input", ["{}"])[-1], fields.get("variants", [""])[-1]
    try:
        value = _read_input(text)
        trace = request.exchange.trace
        asked = InvokeRequest(entry.id, value, trace.id, request.caller, time.perf_counter(), text.encode())
        asked = asked._replace(traceparent=trace.here, parent=trace.parent)
        run = await start_run(request.host.host, request.host.runs, asked)
    except HttpRefusal as refused:
        other = [{"pointer": "", "message": refused.failure.message}]
        errors = cast("list[dict[str, str]]", refused.failure.details.get("errors") or other)
        return _render_form(request, entry, text, errors, variants=variants, status=refused.failure.code)
    except InvalidArgument as error:
        errors = [{"pointer": "", "message": error.message}]
        return _render_form(request, entry, text, errors, variants=variants, status=400)
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
    # Of an earlier run only the names of its variables are known.
    names = cast("Sequence[str]", given.get("env") or ())
    context = {
        "skill": skill,
        "page_name": request.params["name"],
        "given": given,
        "variables": given.get("variables") or "".join(f"{name}=\n" for name in names),
        "missing": names,
        "command": format_command(given.get("command")),
        "files": files,
        "error": error,
        "scripts_of_skill": [one.path for one in skill.resources() if one.path.startswith("scripts/")][:50],
    }
    return request.render("try_skill.html", context, status=status)


async def run_command(request: PageRequest) -> HttpResponse:
    """Store the files of the form in the workspace and start its command."""
    async with open_upload(request) as form:
        return await _run_form(request, form)


async def _run_form(request: PageRequest, form: "UploadForm") -> HttpResponse:
    workspace = form.text("workspace") or DEFAULT_WORKSPACE
    asked: dict[str, Any] = {"skill": request.params["name"], "command": form.text("command")[:_MAX_COMMAND]}
    if form.text("stdin"):
        asked["stdin"] = form.text("stdin")
    if form.text("timeout"):
        asked["timeout"] = form.text("timeout")
    variables, mode = form.text("variables"), form.text("mode")
    asked |= {"tty": True, "rows": 24, "columns": 80} if mode == "terminal" else {}
    asked |= {"interactive": True} if mode == "interactive" else {}
    commands, caller = request.host.commands, request.caller
    try:
        asked |= {"env": env} if (env := parse_variables(variables)) else {}
        for name, file in form.files:
            await commands.write_file(caller, workspace, f"{INPUTS}/{choose_upload_name(name)}", _read_pieces(file))
        if form.text("action") == "upload":
            query = urlencode({"workspace": workspace})
            return request.redirect(f"/console/try/skill/{quote(request.params['name'], safe='')}?{query}")
        run = await commands.start(caller, workspace, asked, request.exchange.trace)
    except UnknownSkill:
        raise
    except SkillError as error:
        if isinstance(error, Forbidden) and "quota" not in error.details:
            raise
        given = {**asked, "workspace": workspace, "variables": variables, "env": ()}
        return await _render_command(request, given, error.message, status=error.code)
    return request.redirect(f"/console/runs/{run.id}")


def parse_variables(text: str) -> dict[str, str]:
    """Variables from lines `NAME=VALUE`; empty lines are skipped. Raises `InvalidArgument` with the line."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, mark, value = line.partition("=")
        if not line.strip():
            continue
        if not mark or not name.strip():
            # Not the line itself, which may be a secret.
            raise InvalidArgument("env", f"line {number}: expected NAME=VALUE")
        found[name.strip()] = value
    return found


@dataclass(frozen=True, slots=True)
class UploadForm:
    """The fields of a form, and its files: names, and open files at their beginning."""

    fields: dict[str, str] = field(default_factory=dict[str, str])
    files: list[tuple[str, BinaryIO]] = field(default_factory=list[tuple[str, BinaryIO]])

    def text(self, name: str) -> str:
        """A field with plain line feeds: browsers send the lines of a text area with carriage returns."""
        return self.fields.get(name, "").replace("\r\n", "\n")


@asynccontextmanager
async def open_upload(request: PageRequest) -> AsyncGenerator[UploadForm]:
    """Read a form with files (`multipart/form-data`) or without; large files are on disk until the end of the block.

    Raises `SkillError` and `HttpRefusal`.
    """
    form = UploadForm()
    kind = request.exchange.header(b"content-type") or ""
    try:
        if kind.startswith("multipart/form-data"):
            await _receive_multipart(request, kind, form)
        else:
            form.fields.update({name: values[-1] for name, values in (await request.form()).items()})
        yield form
    finally:
        for _, file in form.files:
            file.close()


async def _receive_multipart(request: PageRequest, kind: str, form: UploadForm) -> None:
    from python_multipart import create_form_parser
    from python_multipart.exceptions import FormParserError

    def on_field(field: Any) -> None:
        name, value = field.field_name or b"", field.value or b""
        form.fields[name.decode("utf-8", "replace")] = value.decode("utf-8", "replace")

    def on_file(file: Any) -> None:
        name = (file.file_name or b"").decode("utf-8", "replace")
        if name:
            file.file_object.seek(0)
            form.files.append((name, file.file_object))
        else:
            file.close()

    try:
        parser = create_form_parser({"Content-Type": kind.encode("latin-1")}, on_field, on_file)
        async with aclosing(stream_body(request.exchange, MAX_UPLOAD_BYTES, timeout=_UPLOAD_SECONDS)) as body:
            async for piece in body:
                await asyncio.to_thread(parser.write, piece)
        parser.finalize()
    except FormParserError as error:
        raise InvalidArgument("body", f"not a valid form: {str(error)[:200]}") from None


async def _read_pieces(file: BinaryIO) -> AsyncGenerator[bytes]:
    while piece := await asyncio.to_thread(file.read, _PIECE):
        yield piece


PAGES = (
    ("GET", "/console/try", show_choices),
    ("GET", "/console/try/hosted/{skill_id}", show_form),
    ("POST", "/console/try/hosted/{skill_id}", call_skill, "run"),
    ("GET", "/console/try/skill/{name}", show_command),
    ("POST", "/console/try/skill/{name}", run_command, "run"),
    ("POST", "/console/workspaces/{workspace}/delete", delete_workspace, "run"),
)
