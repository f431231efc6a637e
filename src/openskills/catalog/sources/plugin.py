"""Agent Plugins 1.0.0 and marketplaces of plugins as sources of skills.

A plugin is a directory with a `plugin.json`. Its skills are the immediate children of `skills/`. Its MCP servers are
checked and reported, never started. Nothing of a plugin is used that resolves outside of its directory.
"""

import json
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, cast
from urllib.parse import quote, urlsplit

from openskills.addresses import is_loopback
from openskills.catalog.root import FetchResult, Progress, Root, Source
from openskills.catalog.skill import SKILL_FILE
from openskills.errors import DeadlineExceeded, ForbiddenPath, InvalidArgument, InvalidSkill, LimitExceeded, SkillError
from openskills.paths import inside, open_inside
from openskills.settings import Settings
from openskills.skillmd.problem import Problem, Severity

PLUGIN_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
MCP_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json"
PLUGIN_NAME = re.compile(r"(?!.*(?:--|\.\.))[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?")
"""Names of Agent Plugins."""
MANIFEST, MCP_FILE, MARKETPLACE = "plugin.json", "mcp.json", "marketplace.json"
MAX_PLUGINS = 1000
FETCH_TIMEOUT = 600.0
"""Seconds for all plugins of a marketplace together."""
_MAX_MANIFEST = 1 << 20
_MAX_MARKETPLACE = 5 << 20
_TEXT_FIELDS = ("version", "description", "homepage", "repository", "license")
_FIELDS = {"$schema", "name", *_TEXT_FIELDS, "author", "keywords", "extensions"}
_CWD = re.compile(r"(?:\./|\$\{PLUGIN_ROOT\}(?:/|$)|\$\{PLUGIN_DATA\}(?:/|$))")
_ENTRY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

Fields = Mapping[str, object]


def open_plugin(root: Root) -> FetchResult:
    """The skills of the plugin in this directory, and its problems. A plugin with a fault in its manifest has none."""
    base, path = Path(os.path.realpath(root.path)), str(root.path / MANIFEST)
    try:
        problems = [problem.with_path(path) for problem in _check_manifest(_read_object(base, MANIFEST))]
    except (SkillError, OSError) as error:
        message = f"{describe_fault(error)}; its skills are not used"
        return FetchResult((), (Problem("plugin-invalid", message, path=path),))
    roots, faults = _find_skills(replace(root, strict=True), base, "skills")
    return FetchResult(roots, (*problems, *faults, *_check_servers(root, base)))


def describe_fault(error: SkillError | OSError) -> str:
    """What is wrong with a file."""
    return error.message if isinstance(error, SkillError) else f"cannot be read: {error.strerror or error}"


def _read_object(base: Path, name: str) -> Fields:
    """A JSON object in a file of a plugin. Raises `SkillError` or `OSError`."""
    with os.fdopen(open_inside(str(base), name), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InvalidSkill(f"{name} is not a file")
        return _parse_object(file.read(_MAX_MANIFEST + 1), name, _MAX_MANIFEST)


def _parse_object(data: bytes, name: str, limit: int) -> Fields:
    if len(data) > limit:
        raise LimitExceeded(f"{name} is larger than {limit:,} bytes")
    try:
        found: object = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise InvalidSkill(f"{name} is not valid JSON") from None
    return _check_object(found, f"{name}: expected a JSON object")


def _check_object(value: object, message: str = "expected an object") -> Fields:
    if not isinstance(value, dict):
        raise InvalidSkill(message)
    return cast("Fields", value)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _check_manifest(fields: Fields) -> Iterator[Problem]:
    """The problems that do not matter. Raises `InvalidSkill` for any that does."""
    schema = fields.get("$schema")
    if schema != PLUGIN_SCHEMA:
        raise InvalidSkill(f'"$schema": unsupported version {str(schema)[:100]!r}; use {PLUGIN_SCHEMA}')
    name = fields.get("name")
    if not isinstance(name, str) or PLUGIN_NAME.fullmatch(name) is None:
        allowed = "use 1 to 64 of a-z, 0-9, - and ., not -- or .., with a letter or digit at both ends"
        raise InvalidSkill(f'"name": invalid name {str(name)[:80]!r}; {allowed}')
    for field in _TEXT_FIELDS:
        if not isinstance(fields.get(field, ""), str):
            raise InvalidSkill(f'"{field}": expected a text')
    author = fields.get("author", {})
    if not isinstance(author, dict) or not cast("Fields", author).keys() <= {"name", "email", "url"}:
        raise InvalidSkill('"author": expected an object with name, email and url only')
    if not all(isinstance(one, str) for one in cast("Fields", author).values()):
        raise InvalidSkill('"author": name, email and url must be texts')
    if not _is_list_of_texts(fields.get("keywords", [])):
        raise InvalidSkill('"keywords": expected a list of texts')
    extensions = fields.get("extensions", {})
    if not isinstance(extensions, dict):
        yield Problem("plugin-field", '"extensions": expected an object; it is ignored', Severity.WARNING)
    elif not all(isinstance(one, dict) for one in cast("Fields", extensions).values()):
        raise InvalidSkill('"extensions": the value of each namespace must be an object')
    for field in sorted(fields.keys() - _FIELDS):
        message = f'unknown field "{field[:80]}" is ignored; data for one client belongs into "extensions"'
        yield Problem("plugin-field", message, Severity.WARNING)


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in cast("list[object]", value))


def _find_skills(root: Root, base: Path, place: str) -> tuple[tuple[Root, ...], tuple[Problem, ...]]:
    """The skills in one folder of a plugin: its immediate children, or the folder itself if it is not `skills`."""
    path = root.path / place
    if not os.path.lexists(path):
        return (), ()
    try:
        if not inside(base, place).is_dir():
            raise InvalidSkill(f"{place} is not a directory")
    except SkillError as error:
        return (), (Problem("plugin-skills", f"{error.message}; its skills are not used", path=str(path)),)
    found = replace(root, path=path, confine=base, max_depth=1)
    if place != "skills" or not os.path.lexists(path / SKILL_FILE):
        return (found,), ()
    # A SKILL.md in `skills` itself does not count.
    children = sorted(one.name for one in path.iterdir() if os.path.lexists(one / SKILL_FILE))
    inner = [path / one for one in children if found.can_follow(os.path.realpath(path / one))]
    return tuple(replace(found, path=one, max_depth=0) for one in inner), ()


def _check_servers(root: Root, base: Path) -> Iterator[Problem]:
    """A note for each MCP server of a plugin, which is not started, and the problems of `mcp.json`."""
    path = str(root.path / MCP_FILE)
    if not os.path.lexists(path):
        return
    try:
        fields = _read_object(base, MCP_FILE)
        if fields.get("$schema") != MCP_SCHEMA:
            raise InvalidSkill(f'"$schema": must be {MCP_SCHEMA}')
        if unknown := fields.keys() - {"$schema", "mcpServers"}:
            raise InvalidSkill(f"unknown field {sorted(unknown)[0][:80]!r}")
        servers = _check_object(fields.get("mcpServers"), '"mcpServers": expected an object')
    except (SkillError, OSError) as error:
        message = f"{describe_fault(error)}; the MCP servers of this plugin are not used"
        yield Problem("plugin-mcp", message, path=path)
        return
    for name, server in servers.items():
        try:
            about = _check_server(server, base)
            message = f"the MCP server {name[:80]!r} ({about}) is not started; add it to your client if you trust it"
            yield Problem("plugin-server", message, Severity.NOTE, path=path)
        except SkillError as error:
            yield Problem("plugin-mcp", f"server {name[:80]!r}: {error.message}; it is not used", path=path)


def _check_server(server: object, base: Path) -> str:
    """What a server is. Raises `SkillError` if its entry is invalid."""
    fields = _check_object(server)
    kind = fields.get("type")
    known = {
        "stdio": ("command", "args", "env", "cwd"),
        "streamable-http": ("url", "headers"),
        "sse": ("url", "headers"),
    }
    if not isinstance(kind, str) or kind not in known:
        raise InvalidSkill(f'"type": {str(kind)[:80]!r} is not one of {", ".join(known)}')
    if unknown := fields.keys() - {"type", *known[kind]}:
        raise InvalidSkill(f"unknown field {sorted(unknown)[0][:80]!r}")
    return f"{kind}: {_check_stdio(fields, base) if kind == 'stdio' else _check_remote(fields)}"


def _check_stdio(fields: Fields, base: Path) -> str:
    command = fields.get("command")
    if not isinstance(command, str) or not command:
        raise InvalidSkill('"command": is missing')
    if command.startswith("./"):
        inside(base, command, field="command")
    elif "/" in command or "\\" in command or command in (".", ".."):
        raise InvalidSkill(f'"command": {command[:80]!r} is neither a plain name nor a path that starts with ./')
    elif any(char.isspace() for char in command):
        raise InvalidSkill(f'"command": {command[:80]!r} has blanks; put arguments into "args"')
    if not _is_list_of_texts(fields.get("args", [])):
        raise InvalidSkill('"args": expected a list of texts')
    env = _check_texts(fields, "env")
    if reserved := {"PLUGIN_ROOT", "PLUGIN_DATA"} & env.keys():
        raise InvalidSkill(f'"env": {sorted(reserved)[0]} is set by the client')
    cwd = fields.get("cwd", "./")
    if not isinstance(cwd, str) or _CWD.match(cwd) is None:
        raise InvalidSkill('"cwd": must start with ./, ${PLUGIN_ROOT} or ${PLUGIN_DATA}')
    is_data = cwd.startswith("${PLUGIN_DATA}")
    below = cwd.removeprefix("${PLUGIN_ROOT}").removeprefix("${PLUGIN_DATA}").strip("/")
    if below not in ("", "."):
        # The data directory is not there yet; a path that stays inside of the plugin would stay inside of it too.
        inside(Path("/nonexistent") if is_data else base, below, field="cwd")
    return command


def _check_remote(fields: Fields) -> str:
    url = fields.get("url")
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc or parts.fragment:
        raise InvalidSkill('"url": expected an absolute http or https URL without user and fragment')
    if parts.scheme == "http" and not is_loopback(host):
        raise InvalidSkill('"url": use https; http is for this machine only')
    headers = _check_texts(fields, "headers")
    if len({name.lower() for name in headers}) < len(headers):
        raise InvalidSkill('"headers": has the same name twice')
    for name, value in headers.items():
        if _HEADER_NAME.fullmatch(name) is None or any(char in value for char in "\r\n\0"):
            raise InvalidSkill(f'"headers": {name[:80]!r} is not a valid header')
    return parts._replace(query="").geturl()


def _check_texts(fields: Fields, field: str) -> Mapping[str, str]:
    found = fields.get(field, {})
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in cast("Fields", found).values()):
        raise InvalidSkill(f'"{field}": expected an object with texts')
    return cast("Mapping[str, str]", found)


class MarketplaceSource:
    """The skills of all plugins of a marketplace: a local `marketplace.json`, or one at an http(s) URL.

    Plugins come from folders next to a local file, from archives and from git repositories. A plugin that cannot be
    used is a problem and hides no other. Marketplaces inside of plugins are not looked at, so there are no loops.
    """

    def __init__(self, address: str, label: str, settings: Settings, pin: str | None = None) -> None:
        self.label = label
        self._address = address
        self._settings = settings
        self._pin = pin

    @property
    def _is_remote(self) -> bool:
        return self._address.startswith(("http://", "https://"))

    def fetch(self, progress: Progress) -> FetchResult:
        """Fetch the plugins. Raises `SkillError` if the marketplace cannot be used."""
        problems: list[Problem] = []
        fields = _parse_object(self._read(progress, problems), self.label, _MAX_MARKETPLACE)
        plugins = fields.get("plugins")
        if not isinstance(plugins, list):
            raise InvalidSkill(f'{self.label}: not a marketplace: no list "plugins"')
        entries = cast("list[object]", plugins)
        if len(entries) > MAX_PLUGINS:
            raise LimitExceeded(f"{self.label}: lists {len(entries):,} plugins; the limit is {MAX_PLUGINS:,}")
        roots: dict[Root, None] = {}
        seen: set[str] = set()
        deadline = time.monotonic() + FETCH_TIMEOUT
        for number, entry in enumerate(entries, start=1):
            progress(f"fetching the plugins of {self.label}", number - 1, len(entries))
            try:
                about = _check_object(entry)
                name = about.get("name")
                if not isinstance(name, str) or _ENTRY_NAME.fullmatch(name) is None:
                    raise InvalidSkill(f'"name": invalid name {str(name)[:80]!r}')
                if name in seen:
                    raise InvalidSkill(f"the name {name!r} appears twice; the first one is used")
                seen.add(name)
                if time.monotonic() > deadline:
                    raise DeadlineExceeded(f"timed out after {FETCH_TIMEOUT:g} s")
                found = self._fetch_plugin(name, about, fields, progress)
                roots.update(dict.fromkeys(found.roots))
                problems += found.problems
            except (SkillError, OSError, ValueError) as error:
                said = error.message if isinstance(error, SkillError) else str(error)
                problems.append(Problem("marketplace-plugin", f"{self.label}: plugin {number}: {said}"))
        return FetchResult(tuple(roots), tuple(problems))

    def _read(self, progress: Progress, problems: list[Problem]) -> bytes:
        path = Path(self._address)
        if self._is_remote:
            from openskills.catalog.sources.http import Downloader

            with Downloader(self._settings.skills_cache_dir / "downloads") as downloads:
                answer = downloads.get(self._address, pin=self._pin, progress=progress)
            problems += answer.problems
            path = answer.path
        try:
            with path.open("rb") as file:
                return file.read(_MAX_MARKETPLACE + 1)
        except OSError as error:
            raise InvalidSkill(f"{self.label}: {describe_fault(error)}") from None

    def _fetch_plugin(self, name: str, entry: Fields, market: Fields, progress: Progress) -> FetchResult:
        source = entry.get("source")
        label = f"{self.label}#{name}"
        if isinstance(source, str):
            base = self._resolve_folder(source, market)
            fetched = FetchResult((Root(base, label, confine=Path(os.path.realpath(base))),))
        elif isinstance(source, dict):
            fetched = self._parse_remote(cast("Fields", source)).fetch(progress)
        else:
            raise InvalidSkill('"source": expected a path or an object')
        found = [_open_entry(replace(root, label=label), entry) for root in fetched.roots]
        problems = [problem for one in found for problem in one.problems]
        return FetchResult(tuple(root for one in found for root in one.roots), (*fetched.problems, *problems))

    def _resolve_folder(self, source: str, market: Fields) -> Path:
        if self._is_remote:
            raise InvalidSkill(
                f'"source": {source[:80]!r} is a folder of the repository; use the repository as a source'
            )
        metadata = market.get("metadata")
        within = cast("Fields", metadata).get("pluginRoot", "") if isinstance(metadata, dict) else ""
        root = Path(self._address).parent
        for folder in ((".claude-plugin",), (".agents", "plugins")):
            if root.parts[-len(folder) :] == folder:
                root = root.parents[len(folder) - 1]
        path = source if source.startswith(("./", "/")) else f"./{within}/{source}"
        if all(part in ("", ".") for part in path.split("/")) and not path.startswith("/"):
            return root
        inside(root, path, field="source")
        found = root / path
        if not found.is_dir():
            raise InvalidSkill(f'"source": there is no folder {source[:80]!r}')
        return found

    def _parse_remote(self, source: Fields) -> Source:
        """The source of a plugin that is somewhere else. Only https and what a marketplace may choose for us."""
        kind, url = source.get("source"), source.get("url")
        if kind in ("npm", "command"):
            raise InvalidSkill(f'"source": plugins from {kind} are not supported; nothing was run')
        if kind == "archive" and isinstance(url, str):
            from openskills.catalog.sources.cache import check_redirect, has_archive_suffix
            from openskills.catalog.sources.web import WebSource

            check_redirect(self._address if self._is_remote else url, url, field="source")
            if not has_archive_suffix(urlsplit(url).path):
                raise InvalidSkill(f'"url": {url[:100]!r} is not an archive such as NAME.zip')
            pin = source.get("sha256")
            if pin is not None and (not isinstance(pin, str) or re.fullmatch(r"[0-9a-fA-F]{64}", pin) is None):
                raise InvalidSkill('"sha256": expected 64 hex digits')
            return WebSource(url, self._settings.skills_cache_dir, pin.lower() if isinstance(pin, str) else None)
        if kind == "github":
            repo = source.get("repo")
            if not isinstance(repo, str) or re.fullmatch(r"[\w.-]+/[\w.-]+", repo, re.ASCII) is None:
                raise InvalidSkill('"repo": expected OWNER/REPOSITORY')
            url = f"https://github.com/{repo}.git"
        if kind not in ("github", "url", "git-subdir") or not isinstance(url, str):
            raise InvalidSkill(f'"source": unsupported source {str(kind)[:80]!r}')
        if not url.startswith("https://"):
            raise ForbiddenPath(f'"url": {url[:100]!r} is not an https URL')
        return self._parse_repository(url, source)

    def _parse_repository(self, url: str, source: Fields) -> Source:
        from openskills.catalog.sources.git import GitSource, parse_git

        chosen = source.get("sha") or source.get("ref") or ""
        path = source.get("path") or ""
        if not isinstance(chosen, str) or not isinstance(path, str):
            raise InvalidSkill('"ref", "sha" and "path" must be texts')
        ref = f"@{quote(chosen)}" if chosen else ""
        below = f"#subdirectory={quote(path.removeprefix('./'))}" if path else ""
        return GitSource(parse_git(f"git+{url}{ref}{below}"), self._settings)


def _open_entry(root: Root, entry: Fields) -> FetchResult:
    """The skills of a plugin of a marketplace: an Agent Plugin, or one whose entry or own file names its skills."""
    if entry.get("strict", True) is not False and os.path.lexists(root.path / MANIFEST):
        return open_plugin(root)
    base = Path(os.path.realpath(root.path))
    own: Fields = {}
    with suppress(FileNotFoundError, NotADirectoryError):
        own = _read_object(base, ".claude-plugin/plugin.json")
    places = ["skills", *_list_places(entry), *_list_places(own)]
    roots: list[Root] = []
    problems: list[Problem] = []
    for place in dict.fromkeys(places):
        found, faults = _find_skills(root, base, place)
        roots += found
        problems += faults
    if not roots and not problems and os.path.lexists(root.path / SKILL_FILE):
        roots.append(replace(root, confine=base, max_depth=0))
    return FetchResult(tuple(roots), (*problems, *_check_servers(root, base)))


def _list_places(fields: Fields) -> Sequence[str]:
    """The folders that a manifest names besides `skills`. Raises `InvalidArgument`."""
    found = fields.get("skills", [])
    places = [found] if isinstance(found, str) else found
    if not _is_list_of_texts(places):
        raise InvalidArgument("skills", "expected a path or a list of paths")
    listed = [one.removeprefix("./").rstrip("/") for one in cast("list[str]", places)]
    return [one for one in listed if one not in ("", ".")]
