"""`openskills read-properties`: the fields of one skill as JSON, as the reference tool prints them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from openskills.cli.output import plain, say_json, warn
from openskills.errors import InvalidSkill
from openskills.paths import printable
from openskills.skillmd.value import Value

_ORDER = ("name", "description", "license", "compatibility", "allowed-tools", "metadata")
"""The fields in the order of the reference tool, which is not that of the specification."""


def read_properties(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A skill's folder or its SKILL.md.")],
) -> None:
    """Print the fields of a skill as JSON.

    Only the fields of the specification; those that are absent are left out. Values are as written:
    text stays text, nested metadata stays nested. The skill need not be valid, it must be readable.

    Examples:
      openskills read-properties skills/pdf-tools
      openskills read-properties . | jq -r .description

    Exit codes: 0 done, 1 the skill cannot be read, 2 wrong usage or no such path.
    """
    from openskills.catalog.validate import skill_folder

    try:
        properties = properties_of(skill_folder(path))
    except InvalidSkill as error:
        complain(error)
        raise typer.Exit(1) from None
    say_json(properties)


def complain(error: InvalidSkill) -> None:
    """Say it in the form of the reference tool, for scripts that look for it."""
    warn(("Error", "bold red"), f": {plain(error.message)}")


def properties_of(folder: Path) -> dict[str, Value]:
    """The fields of the specification that the skill in `folder` gives. Raises `InvalidSkill` when it has no name or
    description, or cannot be read."""
    fields = _fields(folder)
    properties = {key: _filled(fields[key]) for key in _ORDER if key in fields}
    for key in ("name", "description"):
        value = properties.get(key)
        if not isinstance(value, str) or not value.strip():
            raise InvalidSkill(f"{_file(folder)}: {key} is missing or is not text; every skill needs one")
        properties[key] = value.strip()
    if not properties.get("metadata"):
        properties.pop("metadata", None)
    return properties


def _filled(value: Value) -> Value:
    """Where nothing was written the reference tool has an empty text."""
    if isinstance(value, Mapping):
        return {key: _filled(inner) for key, inner in value.items()}
    return "" if value is None else value


def _fields(folder: Path) -> "dict[str, Value]":
    from openskills.catalog.skillfile import read_skill_text
    from openskills.skillmd.parse import parse

    text, problem = read_skill_text(str(folder))
    if problem is not None:
        raise InvalidSkill(str(problem.at(_file(folder))), (problem,))
    parsed = parse(text)
    if parsed.manifest is None:
        worst = parsed.problems[-1]
        raise InvalidSkill(str(worst.at(_file(folder))), parsed.problems)
    return dict(parsed.front.fields)


def _file(folder: Path) -> str:
    return printable(str(folder / "SKILL.md"))
