"""`openskills new`, `openskills read-properties` and `openskills to-prompt`.

The last two print the same output as the reference tool of the Agent Skills specification.
"""

import html
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from openskills.cli.output import CliProgress, escape_line, say, say_json, say_text, warn
from openskills.cli.parameters import Folders, FoldersOption, Json, Text, argument, join_folders, option
from openskills.cli.skills import display_path, format_problem
from openskills.errors import InvalidArgument, InvalidSkill
from openskills.paths import inside, parse_relative, to_printable
from openskills.prompt.blocks import strip_invisible
from openskills.skillmd.yaml import Value


def new(
    name: Annotated[str, argument("NAME", "Lower-case letters, digits and hyphens, such as pdf-tools.")],
    directory: Annotated[str, option("DIR", "Where to create it.", names="--directory -d")] = ".",
    description: Annotated[Text, option("TEXT", "What it does and when to use it.")] = None,
    as_json: Json = False,
) -> None:
    """Create a valid skill: a folder with SKILL.md, scripts/, references/ and assets/.

    Existing files are never changed.

    Examples:
      openskills new pdf-tools
      openskills new pdf-tools --directory .agents/skills
      openskills new pdf-tools --description "Merge PDF files. Use when asked to."
    """
    from openskills.catalog.validate import validate
    from openskills.skillmd.scaffold import scaffold

    files = scaffold(name, description) if description is not None else scaffold(name)
    folder = _create(Path(directory), name, files)
    problems = validate(folder).problems
    if as_json:
        details = {"problems": [problem.to_dict() for problem in problems], "files": sorted(files)}
        say_json({"name": name, "path": str(folder), **details})
        return
    for problem in problems:
        say(*format_problem(problem))
    shown = display_path(str(folder))
    say(("created ", "bold green"), (shown, "bold"))
    for path in sorted(files):
        say(f"  {path}")
    say("")
    say("Next:")
    say(f"  1. Describe what it does and when to use it in {shown}/SKILL.md; agents choose skills by the description.")
    say("  2. Put programs into scripts/, long texts into references/, templates into assets/.")
    say(f"  3. openskills validate {shown}")


def _create(directory: Path, name: str, files: Mapping[str, str]) -> Path:
    """Write the files into a new folder. Raises `InvalidArgument` when it exists."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # Not `inside`, which would follow a link of this name.
        folder = Path(os.path.abspath(directory)) / parse_relative(name, field="NAME")
        folder.mkdir()
    except FileExistsError as error:
        raise InvalidArgument("NAME", f"{error.filename} already exists; choose another name") from None
    for path, text in files.items():
        target = inside(folder, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            if path.startswith("scripts/"):
                os.fchmod(file.fileno(), 0o755)
    return folder


_ORDER = ("name", "description", "license", "compatibility", "allowed-tools", "metadata")
"""The fields in the order of the reference tool, which differs from that of the specification."""


def read_properties(
    path: Annotated[Text, argument("PATH", "A skill's folder or its SKILL.md.")] = None,
    skills: Annotated[Text, option("PATH", "The same as PATH.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, which is the only format.")] = True,
) -> None:
    """Print the fields of a skill as JSON.

    Prints only fields of the specification that are present, with their values as written: text stays text, nested
    metadata stays nested. The skill must be readable, but not necessarily valid.

    Examples:
      openskills read-properties skills/pdf-tools
      openskills read-properties . | jq -r .description

    Exit codes: 0 done, 1 the skill cannot be read, 2 wrong usage or no such path.
    """
    from openskills.catalog.validate import resolve_skill_folder

    del as_json
    given = path or skills
    if not given or (path and skills):
        raise InvalidArgument("PATH", "give one: a skill's folder or its SKILL.md")
    try:
        properties = read_spec_fields(resolve_skill_folder(given))
    except InvalidSkill as error:
        print_reference_error(error)
        raise typer.Exit(1) from None
    say_json(properties)


def print_reference_error(error: InvalidSkill) -> None:
    """Print an error in the format of the reference tool."""
    warn(("Error", "bold red"), f": {escape_line(error.message)}")


def read_spec_fields(folder: Path) -> dict[str, Value]:
    """The fields of the specification in the skill at `folder`.

    Raises `InvalidSkill` when it cannot be read or has no name or description.
    """
    fields = _read_fields(folder)
    properties = {key: _fill_empty(fields[key]) for key in _ORDER if key in fields}
    for key in ("name", "description"):
        value = properties.get(key)
        if not isinstance(value, str) or not value.strip():
            raise InvalidSkill(f"{_display_file(folder)}: {key} is missing or not text")
        properties[key] = value.strip()
    if not properties.get("metadata"):
        properties.pop("metadata", None)
    return properties


def _fill_empty(value: Value) -> Value:
    """Replace null with an empty string, as the reference tool does."""
    if isinstance(value, Mapping):
        return {key: _fill_empty(inner) for key, inner in value.items()}
    return "" if value is None else value


def _read_fields(folder: Path) -> "dict[str, Value]":
    from openskills.catalog.skill import read_skill_text
    from openskills.skillmd.parse import parse

    text, problem = read_skill_text(str(folder))
    if problem is not None:
        raise InvalidSkill(str(problem.with_path(_display_file(folder))), (problem,))
    parsed = parse(text)
    if parsed.manifest is None:
        worst = parsed.problems[-1]
        raise InvalidSkill(str(worst.with_path(_display_file(folder))), parsed.problems)
    return dict(parsed.front.fields)


def _display_file(folder: Path) -> str:
    return to_printable(str(folder / "SKILL.md"))


def to_prompt(paths: Folders = None, skills: FoldersOption = None, as_json: Json = False) -> None:
    """Print skills as <available_skills> XML for a system prompt.

    Skills are printed in the given order, each folder once. Skills that cannot be read are reported and left out.

    Examples:
      openskills to-prompt skills/
      openskills to-prompt skills/pdf-tools skills/brand-voice > prompt.xml

    Exit codes: 0 done, 1 a skill cannot be read, 2 wrong usage or no such path.
    """
    from openskills.catalog.validate import find_skill_folders

    with CliProgress("looking for skills") as progress:
        found = find_skill_folders(join_folders(paths, skills), progress).skills
    folders = dict.fromkeys(Path(os.path.realpath(path)) for path in found)
    entries: list[dict[str, str]] = []
    failed = False
    for folder in folders:
        try:
            properties = read_spec_fields(folder)
            entry = {key: strip_invisible(str(properties[key])) for key in ("name", "description")}
            # Escaped, not stripped: a path without one of its characters would be another path.
            entries.append({**entry, "location": _display_file(folder)})
        except InvalidSkill as error:
            print_reference_error(error)
            failed = True
    xml = "\n".join(["<available_skills>", *map(_format_entry, entries), "</available_skills>"])
    say_text(xml, json=as_json and {"skills": entries})
    if failed:
        raise typer.Exit(1)


def _format_entry(entry: Mapping[str, str]) -> str:
    lines = [f"<{tag}>\n{html.escape(value)}\n</{tag}>" for tag, value in entry.items()]
    return "\n".join(["<skill>", *lines, "</skill>"])
