"""`openskills config`: the effective settings and where each comes from."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from openskills.cli.output import Column, escape_line, say_json, show_table, warn
from openskills.cli.parameters import Json, Text, argument, get_settings, option
from openskills.cli.skills import problem_json_with_path, report_problems
from openskills.errors import MissingExtra
from openskills.settings import VARIABLES, Settings, find_variable

if TYPE_CHECKING:
    from openskills.host.registry.registry import RegistryEntry


_WRITTEN_AS = {"environment": "env", "kind": "type"}
_SECRET = frozenset({"host_api_key", "mcp_keys"})
_NOT_SHOWN = "(set, not shown)"
_PASSWORD = re.compile(r"://[^/@\s]*@")
_OURS = re.compile(r"OPENSKILLS?_[A-Z_]+")


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting, and in `why` where its value comes from: a variable, a file, or `default`."""

    name: str
    value: object
    why: str
    variables: tuple[str, ...] = ()


def config(
    context: typer.Context,
    skill: Annotated[Text, argument("[SKILL]", "Show the settings of a hosted skill.")] = None,
    manifests: Annotated[
        list[Path] | None, option("--manifests", "DIR", "Another directory with manifests, as for `serve`.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the effective settings and where each comes from: a variable, a file, or the default.

    With the id of a hosted skill, print the settings of that skill: its manifest overrides the variables.

    Examples:
      openskills config
      openskills config --json
      openskills config calculator

    In a pipe each setting is one line of tab-separated fields: name, value, where it comes from.

    Exit codes: 0 done, 1 unknown skill or invalid manifest, 2 invalid value of a variable.
    """
    settings = get_settings(context)
    if skill is not None:
        _show_skill(skill, settings, manifests or [], as_json)
        return
    rows = list(list_settings(settings))
    if as_json:
        unread = [{"variable": name, "near": near} for name, near in find_unread_variables(settings.environment)]
        say_json({"settings": [_row_json(row) for row in rows], "unread": unread})
        return
    _show_rows(rows)
    for name, near in find_unread_variables(settings.environment):
        hint = f"; did you mean {near}?" if near else ""
        warn(("warning", "yellow"), f": unknown variable {escape_line(name)}{hint}")


def list_settings(settings: Settings) -> Iterator[SettingRow]:
    """All settings of this process, with passwords and API keys masked."""
    for name, variables in VARIABLES.items():
        value = getattr(settings, name)
        if name in _SECRET and value:
            value = dict.fromkeys(value, _NOT_SHOWN) if name == "mcp_keys" else _NOT_SHOWN
        elif isinstance(value, str):
            value = _PASSWORD.sub("://…@", value)
        yield SettingRow(name, value, find_variable(name, settings.environment) or "default", variables)


def find_unread_variables(environment: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Variables that look like ours but are unknown, each with the closest known name."""
    from difflib import get_close_matches

    known = [name for names in VARIABLES.values() for name in names]
    for name in sorted(environment):
        if _OURS.fullmatch(name) and name not in known:
            yield name, next(iter(get_close_matches(name, known, n=1)), None)


def _show_skill(skill: str, settings: Settings, manifests: list[Path], as_json: bool) -> None:
    try:
        from openskills.host.registry.registry import Registry
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("openskills"):
            raise
        raise MissingExtra("host", "reading manifests") from None
    entry = Registry.load(settings, manifests=manifests).get_entry(skill)
    rows = list(_skill_rows(entry, settings))
    if as_json:
        problems = [problem_json_with_path(problem) for problem in entry.problems]
        fields = {"id": entry.id, "status": entry.status, "origin": str(entry.origin) if entry.origin else None}
        say_json({**fields, "settings": [_row_json(row) for row in rows], "problems": problems})
    else:
        _show_rows(rows)
        report_problems(entry.problems)
    if entry.registration is None:
        raise typer.Exit(1)


def _skill_rows(entry: "RegistryEntry", settings: Settings) -> Iterator[SettingRow]:
    from openskills.host.registry.manifest import SECRET_NAME_PATTERN

    if entry.registration is None:
        return
    for name, value in asdict(entry.registration).items():
        field = _WRITTEN_AS.get(name, name)
        if field in entry.lines:
            line = entry.lines[field]
            why = f"{entry.origin}:{line}" if line else str(entry.origin)
        elif name in {"id", "entry", "origin"}:
            why = str(entry.origin)
        else:
            why = (find_variable(name, settings.environment) if name in VARIABLES else None) or "default"
        masked = {key for key in value if SECRET_NAME_PATTERN.search(key)} if name == "environment" else ()
        yield SettingRow(name, {**value, **dict.fromkeys(masked, _NOT_SHOWN)} if masked else value, why)


def _show_rows(rows: list[SettingRow]) -> None:
    columns = (Column("setting", "bold cyan"), Column("value", wide=True), Column("from"))
    show_table(columns, [(row.name, escape_line(_to_text(row.value)), escape_line(row.why)) for row in rows])


def _to_text(value: object) -> str:
    found = _to_json_value(value)
    if found in (None, [], {}):
        return "none"
    if isinstance(found, list):
        return ", ".join(map(str, cast("list[object]", found)))
    return str(found)


def _row_json(row: SettingRow) -> dict[str, object]:
    found: dict[str, object] = {"name": row.name, "value": _to_json_value(row.value), "decided_by": row.why}
    return {**found, "variables": list(row.variables)} if row.variables else found


def _to_json_value(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _to_json_value(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, tuple | list):
        return [_to_json_value(item) for item in cast("Sequence[object]", value)]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
