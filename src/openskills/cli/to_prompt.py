"""`openskills to-prompt`: skills as the XML block of the specification, as its reference tool prints it."""

import html
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from openskills.cli.output import say_text
from openskills.cli.progress import Waiting
from openskills.cli.properties import complain, properties_of
from openskills.errors import InvalidSkill
from openskills.paths import printable
from openskills.prompt.escape import visible


def to_prompt(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="A skill's folder, its SKILL.md, or a directory of skills.")
    ],
) -> None:
    """Print skills as <available_skills> XML for a system prompt.

    Skills stand in the order given, each folder once. A skill that cannot be read is reported and left out; the others
    are printed.

    Examples:
      openskills to-prompt skills/
      openskills to-prompt skills/pdf-tools skills/brand-voice > prompt.xml

    Exit codes: 0 done, 1 some skill cannot be read, 2 wrong usage or no such path.
    """
    entries: list[str] = []
    failed = False
    for folder in _folders(paths):
        try:
            entries.append(_entry(folder))
        except InvalidSkill as error:
            complain(error)
            failed = True
    say_text("\n".join(["<available_skills>", *entries, "</available_skills>"]))
    if failed:
        raise typer.Exit(1)


def _folders(paths: Sequence[str]) -> list[Path]:
    from openskills.catalog.validate import survey

    with Waiting("looking for skills") as progress:
        return list(dict.fromkeys(Path(os.path.realpath(folder)) for folder in survey(paths, progress).skills))


def _entry(folder: Path) -> str:
    properties = properties_of(folder)
    values = {
        "name": visible(str(properties["name"])),
        "description": visible(str(properties["description"])),
        # Without a character it would be another path.
        "location": printable(str(folder / "SKILL.md")),
    }
    lines = [f"<{tag}>\n{html.escape(value)}\n</{tag}>" for tag, value in values.items()]
    return "\n".join(["<skill>", *lines, "</skill>"])
