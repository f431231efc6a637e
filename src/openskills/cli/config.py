"""`openskills config`: what is in force, and what decided it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from openskills.cli.output import Column, escape_line, say_json, show_table, warn
from openskills.cli.problems import problem_json_with_path, report_problems
from openskills.cli.skills import Json, get_settings
from openskills.errors import MissingExtra
from openskills.settings import VARIABLES, Settings, find_variable

if TYPE_CHECKING:
    from openskills.host.registry.registry import RegistryEntry


_WRITTEN_AS = {"environment": "env", "kind": "type"}
_SECRET = frozenset({"host_api_key"})
_NOT_SHOWN = "(set, not shown)"
_PASSWORD = re.compile(r"://[^/@\s]*@")
_OURS = re.compile(r"OPENSKILLS?_[A-Z_]+")


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting: its name, its value, and what decided it: a variable, a file, or `default`."""

    name: str
    value: object
    why: str
    variables: tuple[str, ...] = ()


def config(
    context: typer.Context,
    skill: Annotated[
        str | None, typer.Argument(metavar="[SKILL]", help="A hosted skill whose settings are meant.")
    ] = None,
    manifests: Annotated[
        list[Path] | None,
        typer.Option("--manifests", metavar="DIR", help="A further directory with manifests, as for `serve`."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the settings that are in force and what decided each: a variable, a file, or nobody.

    With the id of a hosted skill, print what counts for that skill: its manifest decides before the variables.

    Examples:
      openskills config
      openskills config --json
      openskills config calculator

    In a pipe each setting is one line: name, value, what decided it, with tabs between.

    Exit codes: 0 done, 1 the skill's manifest is broken or there is no such skill, 2 a variable has a bad value.
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
        warn(
            ("warning", "yellow"),
            f": {escape_line(name)} is set, and nothing reads it",
            f"; did you mean {near}?" if near else "",
        )


def list_settings(settings: Settings) -> Iterator[SettingRow]:
    """Every setting of the process."""
    for name, variables in VARIABLES.items():
        value = getattr(settings, name)
        shown = _NOT_SHOWN if name in _SECRET and value else value
        yield SettingRow(name, _mask_password(shown), find_variable(name, settings.environment) or "default", variables)


def find_unread_variables(environment: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Variables that look like ours and are not, each with the name that was perhaps meant."""
    from difflib import get_close_matches

    known = [name for names in VARIABLES.values() for name in names]
    for name in sorted(environment):
        if _OURS.fullmatch(name) and name not in known:
            yield name, next(iter(get_close_matches(name, known, n=1)), None)


def _mask_password(value: object) -> object:
    return _PASSWORD.sub("://…@", value) if isinstance(value, str) else value


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
        said = {"id": entry.id, "status": entry.status, "origin": str(entry.origin) if entry.origin else None}
        say_json({**said, "settings": [_row_json(row) for row in rows], "problems": problems})
    else:
        _show_rows(rows)
        report_problems(entry.problems)
    if entry.registration is None:
        raise typer.Exit(1)


def _skill_rows(entry: "RegistryEntry", settings: Settings) -> Iterator[SettingRow]:
    from dataclasses import asdict

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
        yield SettingRow(name, _mask_secrets(value) if name == "environment" else value, why)


def _mask_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Values of variables whose names look like secrets are nobody's business."""
    from openskills.host.registry.manifest import SECRET_NAME_PATTERN as LIKE_A_SECRET

    return {name: _NOT_SHOWN if LIKE_A_SECRET.search(name) else value for name, value in environment.items()}


def _show_rows(rows: list[SettingRow]) -> None:
    columns = (Column("setting", "bold cyan"), Column("value", wide=True), Column("decided by"))
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
    """A value as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): _to_json_value(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, tuple | list):
        return [_to_json_value(item) for item in cast("Sequence[object]", value)]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
