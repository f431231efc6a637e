"""Configurations of MCP clients for our server: rendered, or merged into their files without losing anything."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from openskills.errors import InvalidArgument
from openskills.filesystem import replace_file, rewrite_file
from openskills.settings import Settings

KEY_VARIABLE = "OPENSKILL_API_KEY"
_CODEX = "codex"
_FORMS = {
    "claude": (".mcp.json", "mcpServers", f"${{{KEY_VARIABLE}}}"),
    _CODEX: ("config.toml", "mcp_servers", KEY_VARIABLE),
    "vscode": (".vscode/mcp.json", "servers", f"${{env:{KEY_VARIABLE}}}"),
    "cursor": (".cursor/mcp.json", "mcpServers", f"${{env:{KEY_VARIABLE}}}"),
}
"""The file of a client, its section of servers, and how it refers to the key. That of Codex is TOML, of the user."""
CLIENTS = tuple(_FORMS)
MAX_CONFIG_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """How a client reaches our server: a command with its arguments, or a URL, with a key if `needs_key`."""

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    needs_key: bool = False


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A file of a client and its new text. `replaces` is the entry of the same name that it had, if it differs."""

    path: Path
    before: str | None
    after: str
    replaces: Mapping[str, Any] | None = None

    @property
    def is_needed(self) -> bool:
        return self.before != self.after

    def write(self) -> None:
        """Write the file atomically. Raises `InvalidArgument` if it has changed meanwhile."""
        if _read(self.path) != self.before:
            raise InvalidArgument("--install", f"{self.path} was changed by another program; try again")
        # A link stays a link: people keep such files elsewhere.
        target = Path(os.path.realpath(self.path))
        target.parent.mkdir(parents=True, exist_ok=True)
        if self.before is None:
            replace_file(target, self.after.encode())
        else:
            rewrite_file(target, self.after.encode())


def find_config_file(client: str, settings: Settings, project: Path) -> Path:
    """The file in which a client looks for servers: of the project, or of the user for Codex."""
    home = settings.environment.get("CODEX_HOME")
    directory = project if client != _CODEX else Path(home) if home else settings.home / ".codex"
    return directory / _FORMS[client][0]


def render_config(client: str, entry: ServerEntry) -> str:
    """The configuration of a client that has only this server."""
    section, values = _FORMS[client][1], _build_entry(client, entry)
    if client != _CODEX:
        return json.dumps({section: {entry.name: values}}, indent=2) + "\n"
    # Strings and lists of JSON are those of TOML, apart from the delete character.
    texts = {key: json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") for key, value in values.items()}
    return "\n".join([f"[{section}.{entry.name}]", *(f"{key} = {text}" for key, text in texts.items())]) + "\n"


def merge_config(client: str, entry: ServerEntry, path: Path) -> ConfigChange:
    """Add the server to the file of a client; everything else in it stays.

    Raises `InvalidArgument` for a file that cannot be changed safely, such as JSON with comments.
    """
    before = _read(path)
    if before is None or not before.strip():
        return ConfigChange(path, before, render_config(client, entry))
    parse, section = _parse_toml if client == _CODEX else _parse_json, _FORMS[client][1]
    found = parse(before, path)
    servers = _to_object(found.get(section, {}), path)
    wanted, earlier = _build_entry(client, entry), servers.get(entry.name)
    if earlier == wanted:
        return ConfigChange(path, before, before)
    merged: dict[str, Any] = {**found, section: {**servers, entry.name: wanted}}
    if client != _CODEX:
        after = json.dumps(merged, indent=_find_indent(before), ensure_ascii=False) + "\n"
        return ConfigChange(path, before, after, earlier)
    kept = before if earlier is None else "".join(_drop_table(before, f"[{section}.{entry.name}]"))
    after = f"{kept.rstrip()}\n\n{render_config(client, entry)}".lstrip("\n")
    try:
        is_safe = parse(after, path) == merged
    except InvalidArgument:
        is_safe = False
    if not is_safe:
        raise InvalidArgument("--install", f"{path} cannot be changed safely; use --print-config and add it yourself")
    return ConfigChange(path, before, after, earlier)


def _read(path: Path) -> str | None:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_CONFIG_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(data) > MAX_CONFIG_BYTES:
        raise InvalidArgument("--install", f"{path} has more than {MAX_CONFIG_BYTES:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidArgument("--install", f"{path} is not UTF-8 text; use --print-config instead") from None


def _build_entry(client: str, entry: ServerEntry) -> dict[str, Any]:
    command = {"command": entry.command[0], "args": list(entry.command[1:])} if entry.command else {}
    key = _FORMS[client][2]
    if client == _CODEX:
        return (
            {"url": entry.url, **({"bearer_token_env_var": key} if entry.needs_key else {})} if entry.url else command
        )
    if not entry.url:
        return {"type": "stdio", **command}
    headers = {"headers": {"Authorization": f"Bearer {key}"}} if entry.needs_key else {}
    return {"type": "http", "url": entry.url, **headers}


def _parse_json(text: str, path: Path) -> dict[str, Any]:
    try:
        return _to_object(json.loads(text, object_pairs_hook=_refuse_duplicates), path)
    except (ValueError, RecursionError) as error:
        hint = "use --print-config and add it yourself"
        raise InvalidArgument("--install", f"{path} is not plain JSON ({str(error)[:200]}); {hint}") from None


def _to_object(value: Any, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgument("--install", f"{path} does not have the expected form; use --print-config instead")
    return cast("dict[str, Any]", value)


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _find_indent(text: str) -> int | str:
    line = next((line for line in text.splitlines()[1:] if line.strip()), "  ")
    blank = line[: len(line) - len(line.lstrip())]
    return blank if blank.startswith("\t") else len(blank) or 2


def _parse_toml(text: str, path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument("--install", f"{path} is not valid TOML ({error}); correct it first") from None


def _drop_table(text: str, header: str) -> Sequence[str]:
    """The lines of a TOML file without those of one table. Comments before the next table stay."""
    kept: list[str] = []
    inside = False
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        if bare.startswith("["):
            inside = bare.partition("#")[0].strip() == header
        if not inside or bare.startswith("#"):
            kept.append(line)
    return kept
