"""`openskills list`: the skills that are found, where they come from, and why some are hidden."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import plain, say, say_json, warn
from openskills.cli.problems import problem_json_with_path, report
from openskills.cli.skills import open_catalog, settings_of
from openskills.cli.table import Column, show_table

if TYPE_CHECKING:
    from openskills.catalog.skill import Skill
    from openskills.catalog.snapshot import Snapshot

Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH",
        help="Where to look: directories, archives, URLs, git repositories, package:NAME. The later one wins.",
        show_default="the standard places and SKILLS_ROOT",
    ),
]
Trust = Annotated[bool, typer.Option("--trust", help="Use the project's skills without asking, this time.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


NOT_HAD = frozenset({"source-missing", "source-unavailable"})
"""The rules that say that a place gave nothing."""

_ABOUT_PLACES = NOT_HAD | {"source-stale", "project-untrusted"}


def list_skills(context: typer.Context, paths: Paths = None, trust: Trust = False, as_json: Json = False) -> None:
    """List skills: what agents would find here, or what is in the given places.

    Without PATH these places are searched, later ones win: .claude/skills, .agents/skills and .openskills/skills in
    your home directory, then in the project, then SKILLS_ROOT. The project's skills count once you have agreed to them.

    Examples:
      openskills list
      openskills list skills/ --json
      openskills list https://example.org/skills.zip
      openskills list package:my_skills

    In a pipe each skill is one line: name, description, source and the reason why it is hidden, with tabs between.
    """
    catalog = open_catalog(paths or (), settings_of(context), trusted=trust, asking=not as_json)
    snapshot = catalog.snapshot
    rows = entries(snapshot)
    if as_json:
        problems = [problem_json_with_path(problem) for problem in snapshot.problems]
        say_json({"skills": [entry_json(*row) for row in rows], "problems": problems})
    else:
        _show(rows)
        report(snapshot.problems)
    leave_if_unreachable(snapshot)


def entries(snapshot: "Snapshot") -> "list[tuple[Skill, str | None]]":
    """Every skill that has its name, with the reason why it is hidden, by name."""
    rows: list[tuple[Skill, str | None]] = [(skill, None) for skill in snapshot.skills]
    rows += [(each.skill, each.reason) for each in snapshot.hidden.values()]
    return sorted(rows, key=lambda row: row[0].name)


def entry_json(skill: "Skill", hidden: str | None) -> dict[str, object]:
    """What programs are told about a skill in a list."""
    return {
        "name": skill.name,
        "description": skill.description,
        "location": skill.location,
        "source": skill.source,
        "hidden": hidden,
    }


def report_places(snapshot: "Snapshot") -> None:
    """Say which places gave nothing, or not what they have now: that may be why something is missing."""
    report([problem for problem in snapshot.problems if problem.rule in _ABOUT_PLACES])


def leave_if_unreachable(snapshot: "Snapshot") -> None:
    """Exit with 1 when a place could not be had: the answer is not whole."""
    if any(problem.rule in NOT_HAD for problem in snapshot.problems):
        raise typer.Exit(1)


def _show(rows: "Sequence[tuple[Skill, str | None]]") -> None:
    columns = (Column("name", "bold cyan"), Column("description", wide=True), Column("source", "dim"))
    if not sys.stdout.isatty():
        show_table((*columns, Column("hidden")), [(*_cells(skill), plain(hidden or "")) for skill, hidden in rows])
    else:
        show_table(columns, [_cells(skill) for skill, _ in rows])
        # A reason is a sentence to act on; a column would cut it.
        for skill, hidden in rows:
            if hidden is not None:
                say(("hidden", "yellow"), f": {plain(skill.name)}: {plain(hidden)}")
    if not rows:
        warn("no skills were found; `openskills new NAME` starts one")


def _cells(skill: "Skill") -> tuple[str, ...]:
    return (plain(skill.name), plain(skill.description), plain(skill.source))
