"""`openskills config`: the effective settings and where each comes from."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from openskills.cli.output import Column, escape_line, say_json, show_table, warn
from openskills.cli.parameters import Json, Project, Text, argument, get_settings, option
from openskills.cli.skills import problem_json_with_path, report_problems
from openskills.errors import MissingExtra, SkillError
from openskills.settings import VARIABLES, Settings, find_variable

if TYPE_CHECKING:
    from openskills.host.registry.registry import Registry, RegistryEntry
    from openskills.project import ProjectFile


_WRITTEN_AS = {"environment": "env", "kind": "type"}
_SECRET = frozenset({"host_api_key", "host_database", "mcp_keys"})
_PASSWORD = re.compile(r"://[^/@\s]*@")
_OURS = re.compile(r"OPENSKILLS?_[A-Z_]+")


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting, and in `why` where its value comes from: a variable, a file, or `default`.

    It has no effect if it is in a project file that is not trusted.
    """

    name: str
    value: object
    why: str
    variables: tuple[str, ...] = ()
    in_effect: bool = True


def complete_configured_skill(context: typer.Context, incomplete: str) -> list[str]:
    """Shell completion for ids of the skills that a host would serve here."""
    try:
        entries = _load_registry(get_settings(context), context.params.get("manifests") or [], None).list_entries()
    except (SkillError, OSError):
        return []
    return [entry.id for entry in entries if entry.id.startswith(incomplete)]


def config(
    settings: Settings,
    skill: Annotated[
        Text, argument("SKILL", "Show the settings of a hosted skill.", autocompletion=complete_configured_skill)
    ] = None,
    manifests: Annotated[list[Path] | None, option("DIR", "Another directory with manifests, as for `serve`.")] = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Print the effective settings and where each comes from: a variable, a file, or the default.

    The settings of the project file (openskills.toml) come last: what it grants to each skill, if it is trusted, and
    the options of validate. With the id of a hosted skill, print the settings of that skill: the project file overrides
    its manifest, which overrides the variables.

    Examples:
      openskills config
      openskills config --json
      openskills config calculator

    In a pipe each setting is one line of tab-separated fields: name, value, where it comes from.

    Exit codes: 0 done, 1 unknown skill or invalid manifest, 2 invalid value of a variable.
    """
    from openskills.catalog.trust import TrustStore
    from openskills.project import open_project

    file = open_project(project, settings)
    trusted = file is not None and TrustStore(settings.config_dir).is_trusted(file.path, file.digest)
    if skill is not None:
        _show_skill(skill, settings, manifests or [], file if trusted else None, as_json)
        return
    rows, own = list(list_settings(settings)), list[SettingRow]()
    if file is not None:
        own = list(list_project_settings(file, trusted))
        rows = [_locate_project(row, file, project) if row.name == "project" else row for row in rows]
    if as_json:
        unread = [{"variable": name, "near": near} for name, near in find_unread_variables(settings.environment)]
        found: dict[str, object] = {"settings": [_row_json(row) for row in rows], "unread": unread, "project": None}
        if file is not None:
            values = [{**_row_json(row), "in_effect": row.in_effect} for row in own]
            found["project"] = {"file": str(file.path), "trusted": trusted, "settings": values}
        say_json(found)
        return
    _show_rows(rows + [row if row.in_effect else replace(row, why=f"{row.why} (not trusted)") for row in own])
    if file is not None and not all(row.in_effect for row in own):
        hint = "is not trusted, so it grants nothing; run `openskills trust`"
        warn(("warning", "yellow"), f": {escape_line(str(file.path))} {hint}")
    for name, near in find_unread_variables(settings.environment):
        hint = f"; did you mean {near}?" if near else ""
        warn(("warning", "yellow"), f": unknown variable {escape_line(name)}{hint}")


def list_settings(settings: Settings) -> Iterator[SettingRow]:
    """All settings of this process, with passwords and API keys masked."""
    from openskills.project import NOT_SHOWN

    for name, variables in VARIABLES.items():
        value = getattr(settings, name)
        if name in _SECRET and value:
            value = dict.fromkeys(value, NOT_SHOWN) if name == "mcp_keys" else NOT_SHOWN
        elif isinstance(value, str):
            value = _PASSWORD.sub("://…@", value)
        yield SettingRow(name, value, find_variable(name, settings.environment) or "default", variables)


def _locate_project(row: SettingRow, file: "ProjectFile", choice: str | None) -> SettingRow:
    found = "found here or in a parent directory" if row.why == "default" else row.why
    return replace(row, value=file.path, why=found if choice is None else "--project")


def list_project_settings(file: "ProjectFile", trusted: bool) -> Iterator[SettingRow]:
    """The settings of a project file. Those of a skill are combined with those of `*`, as they are for its commands."""
    from openskills.project import EVERY_SKILL, combine_grants, mask_variables

    for name in file.grants:
        grants = asdict(combine_grants(file.grants, name))
        for key, value in grants.items():
            holders = [one for one in dict.fromkeys((EVERY_SKILL, name)) if one in file.grants]
            why = [file.locate("skills", one, key) for one in holders if getattr(file.grants[one], key)]
            if key in ("timeout", "venv"):
                del why[:-1]  # the last one replaces the other
            if why:
                shown = mask_variables(value) if key == "environment" else value
                yield SettingRow(f"skills.{name}.{key}", shown, ", ".join(why), in_effect=trusted)
    for key, value in asdict(file.validate).items():
        if value:
            yield SettingRow(f"validate.{key.replace('_', '-')}", value, file.locate("validate", key.replace("_", "-")))


def find_unread_variables(environment: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Variables that look like ours but are unknown, each with the closest known name."""
    from difflib import get_close_matches

    known = [name for names in VARIABLES.values() for name in names]
    for name in sorted(environment):
        if _OURS.fullmatch(name) and name not in known:
            yield name, next(iter(get_close_matches(name, known, n=1)), None)


def _load_registry(settings: Settings, manifests: list[Path], file: "ProjectFile | None") -> "Registry":
    try:
        from openskills.host.registry.registry import Registry
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("openskills"):
            raise
        raise MissingExtra("host", "reading manifests") from None
    return Registry(settings, manifests=manifests, grants=file.grants if file else None)


def _show_skill(
    skill: str, settings: Settings, manifests: list[Path], file: "ProjectFile | None", as_json: bool
) -> None:
    entry = _load_registry(settings, manifests, file).get_entry(skill)
    rows = list(_skill_rows(entry, settings, file))
    if as_json:
        problems = [problem_json_with_path(problem) for problem in entry.problems]
        fields = {"id": entry.id, "status": entry.status, "origin": str(entry.origin) if entry.origin else None}
        say_json({**fields, "settings": [_row_json(row) for row in rows], "problems": problems})
    else:
        _show_rows(rows)
        report_problems(entry.problems)
    if entry.registration is None:
        raise typer.Exit(1)


def _skill_rows(entry: "RegistryEntry", settings: Settings, file: "ProjectFile | None") -> Iterator[SettingRow]:
    from openskills.project import combine_grants, mask_variables

    if entry.registration is None:
        return
    by_id = {name.replace("-", "_"): grants for name, grants in file.grants.items()} if file else {}
    grants = asdict(combine_grants(by_id, entry.id.replace("-", "_")))
    for name, value in asdict(entry.registration).items():
        field = _WRITTEN_AS.get(name, name)
        if field in entry.lines:
            line = entry.lines[field]
            why = f"{entry.origin}:{line}" if line else str(entry.origin)
        elif name in {"id", "entry", "origin"}:
            why = str(entry.origin)
        else:
            why = (find_variable(name, settings.environment) if name in VARIABLES else None) or "default"
        if file is not None and grants.get("timeout" if name == "timeout_ms" else name):
            why = str(file.path) if why == "default" else f"{file.path}, {why}"
        yield SettingRow(name, mask_variables(value) if name == "environment" else value, why)


def _show_rows(rows: list[SettingRow]) -> None:
    columns = (Column("setting", "bold cyan"), Column("value", wide=True), Column("from"))
    show_table(columns, [(row.name, _to_text(row.value), row.why) for row in rows])


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
