"""The screens of one skill, and `GET /catalog/{name}`: text, files, problems, requirements, tokens, trust and runs."""

import asyncio
import base64
import hashlib
import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote, urlencode

from openskills.errors import Forbidden, InvalidArgument, LimitExceeded, SkillError, UnknownSkill
from openskills.host.auth import Principal
from openskills.host.console.catalog import can_see_name, describe_path, describe_source, open_snapshot
from openskills.host.history import RunFilter
from openskills.host.http import HttpExchange, HttpResponse, build_document, build_file_headers, trace_headers
from openskills.host.parts import HostParts
from openskills.host.routes import find_owner
from openskills.host.service import check_scope
from openskills.project import combine_grants

if TYPE_CHECKING:
    from openskills.catalog.skill import Skill
    from openskills.catalog.snapshot import CatalogSnapshot
    from openskills.host.console.pages import PageRequest
    from openskills.host.history import RunRecord
    from openskills.host.registry.registry import RegistryEntry
    from openskills.runtime.details import SkillDetails

TABS = ("instructions", "files", "problems", "requirements", "runs")
_MAX_SHOWN_BYTES = 200 * 1024
_MAX_RUNS = 20
_DOCTOR_SECONDS = 90.0
_IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}
_PREVIEWS = {".html": "text/html; charset=utf-8", ".htm": "text/html; charset=utf-8", ".svg": "image/svg+xml"}
_MAX_PREVIEW_BYTES = 1024 * 1024
_MAX_STYLES = 20


class Requirement(NamedTuple):
    """Something that a skill needs. `is_met` is None if that is known only where its commands run."""

    kind: str
    name: str
    detail: str = ""
    is_met: bool | None = None
    fix: str = ""


async def find_skill(parts: HostParts, name: str, principal: Principal) -> "tuple[Skill, CatalogSnapshot]":
    """The skill with this name, hidden ones included, and the catalog. Raises `UnknownSkill` and `Forbidden`.

    Administrators find the private uploads of others as `NAME~OWNER`.
    """
    private = await parts.catalogs.find_private(principal, name)
    if private is not None and can_see_name(principal, private[0].name):
        return private[0], (await parts.catalogs.open_catalog(private[1])).snapshot
    if not can_see_name(principal, name):
        raise Forbidden(f"the key {principal.name!r} has no scope for {name[:100]!r}", scope=name[:100])
    snapshot = await open_snapshot(parts, principal)
    try:
        return snapshot.find(name), snapshot
    except UnknownSkill as error:
        near = tuple(other for other in error.near if can_see_name(principal, other))
        raise UnknownSkill(name[:200], near) from None


async def _load_details(parts: HostParts, skill: "Skill", snapshot: "CatalogSnapshot") -> "SkillDetails":
    from openskills.runtime.details import collect_details

    hidden = snapshot.hidden.get(skill.name)
    return await asyncio.to_thread(collect_details, skill, hidden and hidden.reason, snapshot, parts.settings)


async def describe_catalog_skill(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """`GET /catalog/{name}`: everything about a skill; with `?file=PATH` the bytes of one of its files."""
    from openskills.runtime.details import details_json

    skill, snapshot = await find_skill(parts, exchange.scope["path_params"]["name"], principal)
    if path := exchange.read_query().get("file"):
        data = await asyncio.to_thread(_read_file, skill, path)
        headers = [*build_file_headers(path, "application/octet-stream"), (b"content-length", b"%d" % len(data))]
        return HttpResponse(200, [*headers, *trace_headers(exchange.trace)], data)
    details = details_json(await _load_details(parts, skill, snapshot))
    for field in ("location", "source", "shadowed_by"):
        details[field] = details[field] and describe_path(str(details[field]), parts, principal)
    details["shadows"] = [describe_path(one, parts, principal) for one in cast("list[str]", details["shadows"])]
    details["digest"] = await asyncio.to_thread(_compute_digest, skill)
    details["hosted_as"] = [entry.id for entry in _find_hosted(parts, skill) if principal.can_invoke(entry.id)]
    return build_document(details, exchange.trace, skill_id=skill.name, latency_ms=exchange.latency_ms)


def _read_file(skill: "Skill", path: str) -> bytes:
    return skill.body().encode() if skill.remote is not None and path == "SKILL.md" else skill.read(path)


def _compute_digest(skill: "Skill") -> str | None:
    from openskills.catalog.trust import hash_folder

    try:
        return f"sha256:{hash_folder(skill.path, skill.path)[0]}"
    except (LimitExceeded, OSError):
        return None


def _find_hosted(parts: HostParts, skill: "Skill") -> "list[RegistryEntry]":
    """What the host serves of the scripts of a skill."""
    # Uploads are links to folders, which the host knows by where they are.
    folders = {Path(skill.directory), Path(skill.directory).resolve()}
    return [
        entry
        for entry in parts.registry.list_entries()
        if entry.origin is not None and folders & {entry.origin, *entry.origin.parents}
    ]


async def show_skill_page(request: "PageRequest") -> HttpResponse:
    parts, caller = request.host, request.caller
    skill, snapshot = await find_skill(parts, request.params["name"], caller)
    tab = request.query.get("tab", TABS[0])
    if tab not in TABS:
        raise InvalidArgument("tab", f"{tab[:50]!r} is not one of {', '.join(TABS)}")
    facts = await _load_details(parts, skill, snapshot)
    hosted = [entry for entry in _find_hosted(parts, skill) if caller.can_invoke(entry.id)]
    folder = describe_path(skill.directory, parts, caller)
    context: dict[str, Any] = {
        "skill": skill,
        # Of a private upload of another key, it also names the owner.
        "page_name": request.params["name"],
        "is_private": parts.uploads is not None and skill.path.is_relative_to(parts.uploads.live / "keys"),
        "folder": folder,
        "source": describe_path(describe_source(skill, parts), parts, caller),
        "shadows": [describe_path(one.location, parts, caller) for one in facts.shadows],
        "facts": facts,
        "tab": tab,
        "tabs": TABS,
        "hosted": hosted,
        "digest": await asyncio.to_thread(_compute_digest, skill),
        "snippets": build_skill_snippets(skill.name, folder, request.base_url, needs_key=_needs_key(request)),
        "runs": await find_runs(parts, caller, [request.params["name"], *(entry.id for entry in hosted)])
        if tab == "runs"
        else [],
    }
    if tab == "instructions":
        context |= await asyncio.to_thread(_build_instructions, request, skill)
    elif tab == "files":
        path = request.query.get("file", "")
        problems = {problem.line for problem in facts.problems if problem.line} if path == "SKILL.md" else set[int]()
        view = await asyncio.to_thread(_view_file, request, skill, path) if path else None
        context |= {"view": view, "problem_lines": problems}
    elif tab == "requirements":
        if request.query.get("check"):
            caller.require_role("run")
        checks = await run_doctor(parts, facts.skill) if request.query.get("check") else []
        context |= {"requirements": list(find_requirements(parts, facts)), "checks": checks}
    return request.render("skill.html", context, block="panel")


def _build_instructions(request: "PageRequest", skill: "Skill") -> dict[str, Any]:
    from openskills.host.console.pages import render_markdown
    from openskills.runtime.details import manifest_fields

    address = f"{request.root}/console/skills/{quote(request.params['name'], safe='')}"

    def link(path: str) -> str:
        plain = path.partition("#")[0].removeprefix("./")
        return f"{address}?{urlencode({'tab': 'files', 'file': plain})}"

    plain = {
        name.replace("_", "-"): value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        for name, value in manifest_fields(skill.manifest).items()
    }
    return {"body": render_markdown(skill.body(), link), "fields": plain}


class FileView(NamedTuple):
    """A file in the viewer. `kind` is `text`, `markdown`, `image`, `preview` or `binary`."""

    path: str
    kind: str
    size: int
    lines: Sequence[str] = ()
    html: str = ""
    is_cut: bool = False
    can_preview: bool = False
    error: str = ""


def _view_file(request: "PageRequest", skill: "Skill", path: str) -> FileView:
    from openskills.host.console.pages import MAX_CHARACTERS, render_markdown

    suffix = Path(path).suffix.lower()
    try:
        data = _read_file(skill, path)
    except SkillError as error:
        return FileView(path, "binary", 0, error=error.message)
    if suffix in _IMAGES:
        return FileView(path, "image", len(data))
    if suffix in _PREVIEWS and request.query.get("preview"):
        if len(data) > _MAX_PREVIEW_BYTES:
            return FileView(path, "binary", len(data), error=_describe_large(data))
        return FileView(path, "preview", len(data), can_preview=True)
    is_cut = len(data) > _MAX_SHOWN_BYTES
    try:
        # The last character may be cut in the middle.
        text = data[:_MAX_SHOWN_BYTES].decode("utf-8", "ignore" if is_cut else "strict")
    except UnicodeDecodeError:
        return FileView(path, "binary", len(data))
    if "\0" in text:
        return FileView(path, "binary", len(data))
    if suffix in (".md", ".markdown") and not request.query.get("source"):
        is_cut = is_cut or len(text) > MAX_CHARACTERS
        return FileView(path, "markdown", len(data), html=render_markdown(text), is_cut=is_cut)
    return FileView(path, "text", len(data), text.splitlines(), is_cut=is_cut, can_preview=suffix in _PREVIEWS)


def _describe_large(data: bytes) -> str:
    limit = f"{_MAX_PREVIEW_BYTES:,} bytes"
    return f"the file has {len(data):,} bytes, and previews are made of at most {limit}; download it instead"


def find_requirements(parts: HostParts, facts: "SkillDetails") -> Iterator[Requirement]:
    """What a skill declares or seems to need, and whether this machine has it."""
    needs, manifest, missing = facts.needs, facts.skill.manifest.requirements, facts.missing
    declared = ", ".join(needs.declared.sources)
    for package in (*needs.declared.packages.python, *(f"npm:{name}" for name in needs.declared.packages.npm)):
        yield Requirement("package", package, declared)
    yield from (Requirement("import", module, file) for module, file in needs.imports.items())
    from openskills.catalog.snapshot import Machine
    from openskills.executors.hints import PROGRAMS

    machine = Machine.current(parts.settings)
    for program, file in {**needs.programs, **dict.fromkeys(manifest.bins, "SKILL.md")}.items():
        fix = f"apt-get install {PROGRAMS.get(program, program)}"
        yield Requirement("program", program, file, machine.has_program(program), fix)
    if manifest.any_bins:
        yield Requirement("program", " | ".join(manifest.any_bins), "SKILL.md", not missing.any_bins)
    grants = combine_grants(parts.options.grants, facts.skill.name)
    for name in manifest.env:
        fix = f"export {name}=… ; --secret {name}"
        yield Requirement("secret", name, "SKILL.md", bool(parts.settings.environment.get(name)), fix)
    for name in manifest.optional_env:
        yield Requirement("optional", name, "SKILL.md", bool(parts.settings.environment.get(name)) or None)
    if manifest.platforms:
        yield Requirement("platform", ", ".join(manifest.platforms), "SKILL.md", not missing.platforms)
    yield from (Requirement("network", host, "openskills.toml, --network", True) for host in grants.network)
    yield from (Requirement("secret", name, "openskills.toml, --secret", True) for name in grants.secrets)


async def run_doctor(parts: HostParts, skill: "Skill | None" = None) -> list[Mapping[str, Any]]:
    """The checks of `openskills doctor`, about this machine or a skill, in a process of their own."""
    from openskills.subprocesses import run_program

    argv = [sys.executable, "-m", "openskills", "doctor", "--json"]
    argv += [] if skill is None else ["--skill", skill.directory]
    environment = parts.settings.environment
    result = await asyncio.to_thread(
        run_program, argv, environment=environment, cwd=parts.start, timeout=_DOCTOR_SECONDS, max_output=1024 * 1024
    )
    try:
        return cast("dict[str, Any]", json.loads(result.stdout))["checks"]
    except (ValueError, LookupError):
        raise SkillError(f"openskills doctor failed: {result.stderr.decode('utf-8', 'replace')[-500:]}") from None


async def find_runs(parts: HostParts, caller: Principal, ids: Iterable[str]) -> "list[RunRecord]":
    """The latest runs of these skills that the caller may see: its own, or all for an administrator."""
    found: list[RunRecord] = []
    for skill_id in islice(ids, _MAX_RUNS):
        found += await parts.runs.list(RunFilter(skill_id, who=find_owner(caller)), limit=_MAX_RUNS)
    return sorted(found, key=lambda one: one.id, reverse=True)[:_MAX_RUNS]


async def send_file(request: "PageRequest") -> HttpResponse:
    """A file of a skill: images as they are, others as a download, HTML and SVG as a document that can do nothing."""
    from openskills.host.console.pages import build_page

    skill, _ = await find_skill(request.host, request.params["name"], request.caller)
    path = request.query.get("file", "")
    data = await asyncio.to_thread(_read_file, skill, path)
    suffix = Path(path).suffix.lower()
    if suffix in _PREVIEWS and request.query.get("preview"):
        if len(data) > _MAX_PREVIEW_BYTES:
            raise LimitExceeded(_describe_large(data))
        frame = await asyncio.to_thread(preview_headers, data)
        return build_page(request.exchange, data, kind=_PREVIEWS[suffix], headers=frame)
    disposition = "inline" if suffix in _IMAGES else f"attachment; filename*=UTF-8''{quote(Path(path).name, safe='')}"
    headers = [("content-disposition", disposition), ("content-security-policy", "default-src 'none'; sandbox")]
    return build_page(request.exchange, data, kind=_IMAGES.get(suffix, "application/octet-stream"), headers=headers)


def preview_headers(data: bytes) -> list[tuple[str, str]]:
    """Headers for a document that may be hostile and is shown in a frame of a page of ours.

    It has an origin of its own, and runs and loads nothing. Its `style` elements apply, allowed by their hashes.
    """
    digests = (hashlib.sha256(style).digest() for style in islice(_find_styles(data), _MAX_STYLES))
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    styles = f"style-src {hashes}; " if hashes else ""
    policy = f"sandbox; default-src 'none'; img-src data:; {styles}frame-ancestors 'self'"
    return [("content-security-policy", policy), ("x-frame-options", "SAMEORIGIN")]


def _find_styles(data: bytes) -> Iterator[bytes]:
    """What is in the `style` elements. Every search begins where the last one ended, so that no text is slow."""
    lower, end = data.lower(), 0
    while (start := lower.find(b"<style", end)) >= 0:
        begin = lower.find(b">", start) + 1
        end = lower.find(b"</style", begin)
        if not begin or end < 0:
            return
        yield data[begin:end]


def find_entry(parts: HostParts, name: str, principal: Principal) -> "RegistryEntry":
    """A skill of the host. Raises `Forbidden`, and `UnknownSkill` with similar names that the caller may use."""
    try:
        entry = parts.registry.get_entry(name)
    except UnknownSkill as error:
        check_scope(principal, name, None)
        raise UnknownSkill(name, tuple(filter(principal.can_invoke, error.near))) from None
    check_scope(principal, name, entry.id)
    return entry


async def show_hosted_page(request: "PageRequest") -> HttpResponse:
    """A skill of the host, given by its id."""
    from openskills.host.openapi import describe_skill

    parts, caller = request.host, request.caller
    entry = find_entry(parts, request.params["skill_id"], caller)
    described = describe_skill(entry, parts.start, parts.settings)
    context = {
        "entry": entry,
        "described": described,
        "input_schema": format_json(described.get("input_schema")),
        "output_schema": format_json(described.get("output_schema")),
        "runs": await find_runs(parts, caller, [entry.id]),
        "snippets": build_hosted_snippets(entry, request.base_url, needs_key=_needs_key(request)),
    }
    return request.render("hosted.html", context)


def format_json(value: object) -> str:
    """Indented JSON; empty for None."""
    return "" if value is None else json.dumps(value, ensure_ascii=False, indent=2)


def _needs_key(request: "PageRequest") -> bool:
    return request.host.authenticator.is_key_required(request.exchange)


_KEY_HEADER = ' \\\n  -H "Authorization: Bearer $OPENSKILL_API_KEY"'


def build_skill_snippets(name: str, folder: str, url: str, *, needs_key: bool) -> dict[str, str]:
    """How to use a skill from Python, curl, the command line and MCP clients."""
    place = json.dumps(folder, ensure_ascii=False)
    python = (
        "from openskills import Agent, Catalog, Runner, SkillRuntime\n"
        "from openskills.sync import run\n\n"
        f'runtime = SkillRuntime(Catalog.from_paths({place}), executor="sandbox")\n'
        'agent = Agent("assistant", model="rule", runtime=runtime)\n'
        'print(run(Runner("my-app", agent).reply(user="u1", session="s1", message="…")).text)\n'
        "run(runtime.close())\n"
    )
    address = shlex.quote(f"{url}/catalog/{quote(name, safe='')}")
    curl = f"curl -sS {address}{_KEY_HEADER * needs_key}\n"
    path = shlex.quote(folder)
    commands = f"openskills info {path}\nopenskills run {path} -- ls\nopenskills chat --skills {path}\n"
    return {"Python": python, "curl": curl, "CLI": commands, "MCP": _build_mcp_config(url, needs_key=needs_key)}


def build_hosted_snippets(entry: "RegistryEntry", url: str, *, needs_key: bool) -> dict[str, str]:
    """How to invoke a hosted skill from Python, curl, the command line and MCP clients."""
    schema = entry.registration.input_schema if entry.registration is not None else None
    example = build_example(schema or {})
    text = json.dumps(example, ensure_ascii=False)
    python = (
        "from openskills.host import Client, unwrap\n"
        "from openskills.sync import run\n\n\n"
        "async def main():\n"
        f"    async with Client({json.dumps(url)}) as client:\n"
        f"        print(unwrap(await client.invoke({json.dumps(entry.id)}, {example!r})))\n\n\n"
        "run(main())\n"
    )
    body = shlex.quote(json.dumps({"input": example}, ensure_ascii=False))
    curl = (
        f"curl -sS -X POST {shlex.quote(f'{url}/skills/{entry.id}:invoke')} \\\n"
        f"  -H 'Content-Type: application/json'{_KEY_HEADER * needs_key} \\\n  -d {body}\n"
    )
    command = f"openskills invoke {shlex.quote(entry.id)} --input {shlex.quote(text)}\n"
    return {"Python": python, "curl": curl, "CLI": command, "MCP": _build_mcp_config(url, needs_key=needs_key)}


def _build_mcp_config(url: str, *, needs_key: bool) -> str:
    server: dict[str, Any] = {"type": "http", "url": f"{url}/mcp"}
    if needs_key:
        server["headers"] = {"Authorization": "Bearer ${OPENSKILL_API_KEY}"}
    return json.dumps({"mcpServers": {"openskills": server}}, indent=2) + "\n"


_EXAMPLES: Mapping[str, object] = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "array": []}


def build_example(schema: Mapping[str, Any], depth: int = 0) -> Any:
    """A value that a schema probably accepts: its example, default or first choice, with all required fields."""
    for key in ("example", "default", "const"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        values = schema.get(key)
        if isinstance(values, list) and values:
            return cast("list[Any]", values)[0]
    properties = schema.get("properties")
    if isinstance(properties, dict) and depth < 5:
        known = cast("dict[str, Any]", properties)
        wanted = [name for name in cast("Sequence[Any]", schema.get("required") or ()) if name in known]
        return {name: build_example(known[name], depth + 1) for name in wanted if isinstance(known[name], dict)}
    return _EXAMPLES.get(str(schema.get("type")), {})


PAGES = (
    ("GET", "/console/skills/{name:path}", show_skill_page),
    ("GET", "/console/files/{name:path}", send_file),
    ("GET", "/console/hosted/{skill_id}", show_hosted_page),
)
