"""The screen Try it: a form for hosted skills, and a command line in a workspace for any skill."""

import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote, urlencode

from starlette.datastructures import FormData, UploadFile

from openskills.errors import Forbidden, InvalidArgument, SkillError, UnknownSkill
from openskills.executors.files.tree import choose_upload_name
from openskills.executors.spec import INPUTS
from openskills.host.bodies import open_form
from openskills.host.commands import MAX_UPLOAD_BYTES
from openskills.host.console.pages import PageRequest
from openskills.host.console.runs import format_command, load_run
from openskills.host.console.skill import find_entry
from openskills.host.http import HttpRefusal, HttpResponse
from openskills.host.invoke import start_run
from openskills.host.registry.registry import RegistryEntry
from openskills.host.service import InvokeRequest
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
    is_reader = not caller.has_role("run")
    context = {
        "rows": matching[:_MAX_LISTED],
        "total": len(rows),
        "left": len(matching) - _MAX_LISTED,
        "query": query,
        # Measuring them takes a moment, and typing does not change them.
        "workspaces": () if is_reader or request.is_partial else await request.host.commands.list_workspaces(caller),
        "max_workspaces": None if caller.has_role("admin") else request.host.settings.host_quota_workspaces,
    }
    return request.render("try.html", context, block="results")


async def delete_workspace(request: PageRequest) -> HttpResponse:
    """Remove a workspace with its files, and go back to the list."""
    await request.host.commands.remove_workspace(request.caller, request.params["workspace"])
    return request.redirect("/console/try#workspaces")


async def show_form(request: PageRequest) -> HttpResponse:
    """The form of a hosted skill; with `run` it has the input of that run."""
    entry = find_entry(request.host, request.params["skill_id"], request.caller)
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
    entry = find_entry(request.host, request.params["skill_id"], request.caller)
    fields = await request.form()
    text, variants = fields.get("input", "{}"), fields.get("variants", "")
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
    given: dict[str, Any] = {"workspace": request.query.get("workspace") or DEFAULT_WORKSPACE}
    if request.query.get("run"):
        given |= (await load_run(request, request.query["run"])).request or {}
    return await _render_command(request, given)


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
    if not (request.exchange.header(b"content-type") or "").startswith("multipart/form-data"):
        return await _run_form(request, FormData(await request.form()))
    async with open_form(request.exchange, MAX_UPLOAD_BYTES, timeout=_UPLOAD_SECONDS) as form:
        return await _run_form(request, form)


async def _run_form(request: PageRequest, form: FormData) -> HttpResponse:
    # With plain line feeds: browsers send the lines of a text area with carriage returns.
    fields = {name: value.replace("\r\n", "\n") for name, value in form.items() if isinstance(value, str)}
    workspace = fields.get("workspace") or DEFAULT_WORKSPACE
    asked: dict[str, Any] = {"skill": request.params["name"], "command": fields.get("command", "")[:_MAX_COMMAND]}
    asked |= {name: fields[name] for name in ("stdin", "timeout") if fields.get(name)}
    variables, mode = fields.get("variables", ""), fields.get("mode", "")
    asked |= {"tty": True, "rows": 24, "columns": 80} if mode == "terminal" else {}
    asked |= {"interactive": True} if mode == "interactive" else {}
    commands, caller = request.host.commands, request.caller
    try:
        asked |= {"env": env} if (env := parse_variables(variables)) else {}
        for _, file in form.multi_items():
            if isinstance(file, UploadFile) and file.filename:
                path = f"{INPUTS}/{choose_upload_name(file.filename)}"
                await commands.write_file(caller, workspace, path, _read_pieces(file))
        if fields.get("action") == "upload":
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


async def _read_pieces(file: UploadFile) -> AsyncGenerator[bytes]:
    while piece := await file.read(_PIECE):
        yield piece


PAGES = (
    ("GET", "/console/try", show_choices),
    ("GET", "/console/try/hosted/{skill_id}", show_form),
    ("POST", "/console/try/hosted/{skill_id}", call_skill, "run"),
    ("GET", "/console/try/skill/{name}", show_command),
    ("POST", "/console/try/skill/{name}", run_command, "run"),
    ("POST", "/console/workspaces/{workspace}/delete", delete_workspace, "run"),
)
