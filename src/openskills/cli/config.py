"""`openskills config`: what is in force, and what decided it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from openskills.cli.listing import Json
from openskills.cli.output import plain, say_json, warn
from openskills.cli.problems import problem_json_with_path, report
from openskills.cli.skills import settings_of
from openskills.cli.table import Column, show_table
from openskills.errors import MissingExtra
from openskills.settings import VARIABLES, Settings, decided_by

if TYPE_CHECKING:
    from openskills.host.registry.entries import Entry

_WRITTEN_AS = {"environment": "env", "kind": "type"}
_SECRET = frozenset({"host_api_key"})
_NOT_SHOWN = "(set, not shown)"
_PASSWORD = re.compile(r"://[^/@\s]*@")
_OURS = re.compile(r"OPENSKILLS?_[A-Z_]+")


@dataclass(frozen=True, slots=True)
class Row:
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
    settings = settings_of(context)
    if skill is not None:
        _one_skill(skill, settings, manifests or [], as_json)
        return
    rows = list(in_force(settings))
    if as_json:
        unread = [{"variable": name, "near": near} for name, near in unread_variables(settings.environment)]
        say_json({"settings": [_json(row) for row in rows], "unread": unread})
        return
    _show(rows)
    for name, near in unread_variables(settings.environment):
        warn(
            ("warning", "yellow"),
            f": {plain(name)} is set, and nothing reads it",
            f"; did you mean {near}?" if near else "",
        )


def in_force(settings: Settings) -> Iterator[Row]:
    """Every setting of the process."""
    for name, variables in VARIABLES.items():
        value = getattr(settings, name)
        shown = _NOT_SHOWN if name in _SECRET and value else value
        yield Row(name, _without_password(shown), decided_by(name, settings.environment) or "default", variables)


def unread_variables(environment: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Variables that look like ours and are not, each with the name that was perhaps meant."""
    from difflib import get_close_matches

    known = [name for names in VARIABLES.values() for name in names]
    for name in sorted(environment):
        if _OURS.fullmatch(name) and name not in known:
            yield name, next(iter(get_close_matches(name, known, n=1)), None)


def _without_password(value: object) -> object:
    return _PASSWORD.sub("://…@", value) if isinstance(value, str) else value


def _one_skill(skill: str, settings: Settings, manifests: list[Path], as_json: bool) -> None:
    try:
        from openskills.host.registry.registry import Registry
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("openskills"):
            raise
        raise MissingExtra("host", "reading manifests") from None
    entry = Registry.load(settings, manifests=manifests).entry(skill)
    rows = list(_of_skill(entry, settings))
    if as_json:
        problems = [problem_json_with_path(problem) for problem in entry.problems]
        said = {"id": entry.id, "status": entry.status, "origin": str(entry.origin) if entry.origin else None}
        say_json({**said, "settings": [_json(row) for row in rows], "problems": problems})
    else:
        _show(rows)
        report(entry.problems)
    if entry.registration is None:
        raise typer.Exit(1)


def _of_skill(entry: "Entry", settings: Settings) -> Iterator[Row]:
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
            why = (decided_by(name, settings.environment) if name in VARIABLES else None) or "default"
        yield Row(name, _masked(value) if name == "environment" else value, why)


def _masked(environment: Mapping[str, str]) -> dict[str, str]:
    """Values of variables whose names look like secrets are nobody's business."""
    from openskills.host.registry.manifest import LIKE_A_SECRET

    return {name: _NOT_SHOWN if LIKE_A_SECRET.search(name) else value for name, value in environment.items()}


def _show(rows: list[Row]) -> None:
    columns = (Column("setting", "bold cyan"), Column("value", wide=True), Column("decided by"))
    show_table(columns, [(row.name, plain(_text(row.value)), plain(row.why)) for row in rows])


def _text(value: object) -> str:
    found = _simple(value)
    if found in (None, [], {}):
        return "none"
    if isinstance(found, list):
        return ", ".join(map(str, cast("list[object]", found)))
    return str(found)


def _json(row: Row) -> dict[str, object]:
    found: dict[str, object] = {"name": row.name, "value": _simple(row.value), "decided_by": row.why}
    return {**found, "variables": list(row.variables)} if row.variables else found


def _simple(value: object) -> object:
    """A value as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): _simple(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, tuple | list):
        return [_simple(item) for item in cast("Sequence[object]", value)]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
