"""`openskills new`: a skill to start from."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from openskills.cli.output import say
from openskills.cli.problems import problem_line, shown_path
from openskills.errors import InvalidArgument
from openskills.paths import inside, relative


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Lower-case letters, digits and hyphens, as in pdf-tools.")
    ],
    directory: Annotated[str, typer.Option("--directory", "-d", metavar="DIR", help="Where to put its folder.")] = ".",
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="What it does and when to use it.")
    ] = None,
) -> None:
    """Start a skill: a folder with SKILL.md, scripts/, references/ and assets/ that validates.

    Nothing that exists is touched.

    Examples:
      openskills new pdf-tools
      openskills new pdf-tools --directory .agents/skills
      openskills new pdf-tools --description "Merge and split PDF files. Use when the user has PDFs."
    """
    from openskills.catalog.validate import validate
    from openskills.skillmd.scaffold import scaffold

    files = scaffold(name, description) if description is not None else scaffold(name)
    folder = _create(Path(directory), name, files)
    verdict = validate(folder)
    for problem in verdict.problems:
        say(*problem_line(problem))
    _next_steps(folder, files)


def _create(directory: Path, name: str, files: Mapping[str, str]) -> Path:
    """Write the files into a folder that did not exist. Raises `InvalidArgument` when it does."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # Not `inside`, which follows a link that has this name.
        folder = Path(os.path.abspath(directory)) / relative(name, field="NAME")
        folder.mkdir()
    except FileExistsError as error:
        raise InvalidArgument("NAME", f"{error.filename} exists; nothing was changed, choose another name") from None
    for path, text in files.items():
        target = inside(folder, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            if path.startswith("scripts/"):
                os.fchmod(file.fileno(), 0o755)
    return folder


def _next_steps(folder: Path, files: Mapping[str, str]) -> None:
    shown = shown_path(str(folder))
    say(("created ", "bold green"), (shown, "bold"))
    for path in sorted(files):
        say(f"  {path}")
    say("")
    say("Next:")
    say(f"  1. Say what it does and when to use it in {shown}/SKILL.md; an agent decides by the description.")
    say("  2. Put programs into scripts/, long texts into references/, templates into assets/.")
    say(f"  3. openskills validate {shown}")
