"""`openskills trust`: agree to the skills of a project, take it back, and see what was agreed to."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import escape_line, pluralize, say, say_json, warn
from openskills.cli.problems import problem_json_with_path, report_problems
from openskills.cli.skills import (
    Json,
    ask_yes_no,
    display_folder,
    get_settings,
    load_project_skills,
    select_covered_skills,
    show_names,
)
from openskills.errors import InvalidArgument

if TYPE_CHECKING:
    from openskills.catalog.locations import ProjectSource, SkillLocation
    from openskills.catalog.snapshot import CatalogSnapshot
    from openskills.settings import Settings


def trust(
    context: typer.Context,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A folder of the project.", show_default="here")] = ".",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Agree without being asked.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take back what was decided about the project.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="Show every project that was agreed to.")] = False,
    as_json: Json = False,
) -> None:
    """Agree to the skills of a project, so that agents may use them.

    Shows the places that can be seen from here, a digest of all files in each, and the skills; asks, and remembers
    the answer for each place. When a file changes, the agreement to its place ends. With --json nothing is asked:
    it reports, and with --yes or --remove it decides.

    Examples:
      openskills trust
      openskills trust ../other --yes
      openskills trust --list
      openskills trust --remove

    Exit codes: 0 done, 1 nobody agreed or could agree, 2 wrong usage or no such path.
    """
    settings = get_settings(context)
    if yes and remove:
        raise InvalidArgument("--remove", "cannot be combined with --yes; choose one")
    if list_all:
        _list(settings, as_json)
        return
    project = _open_project(path, settings)
    if remove:
        _remove(project, as_json)
    else:
        _decide(project, settings, yes, as_json)


def _open_project(path: str, settings: "Settings") -> "ProjectSource":
    from openskills.catalog.locations import project_source

    if not os.path.isdir(path):
        raise InvalidArgument("path", f"{path} is not a directory")
    return project_source(Path(path), settings)


def _list(settings: "Settings", as_json: bool) -> None:
    from openskills.catalog.trust import TrustAnswer as Answer
    from openskills.catalog.trust import TrustStore

    agreed: dict[str, list[dict[str, str]]] = {}
    for place, decision in sorted(TrustStore(settings.config_dir).read_decisions().items()):
        if decision.answer is Answer.YES:
            known = agreed.setdefault(decision.project, [])
            known.append({"path": place, "digest": decision.digest, "at": decision.at})
    if as_json:
        say_json({"projects": [{"path": project, "places": agreed[project]} for project in sorted(agreed)]})
        return
    for project in sorted(agreed):
        say((escape_line(project), "bold"))
        for place in agreed[project]:
            say((f"  {escape_line(place['at'])}  ", "dim"), escape_line(place["path"]))
    if not agreed:
        warn("no project has been agreed to")


def _remove(project: "ProjectSource", as_json: bool) -> None:
    removed = project.forget()
    if as_json:
        say_json({"project": str(project.project), "places": sorted(removed), "removed": bool(removed)})
    elif any(decision.answer == "yes" for decision in removed.values()):
        say("The skills of ", (display_folder(project), "bold"), " are no longer used.")
    elif removed:
        say("What was said about the skills of ", (display_folder(project), "bold"), " is forgotten.")
    else:
        say("Nobody had agreed to the skills of ", (display_folder(project), "bold"), ".")


def _decide(project: "ProjectSource", settings: "Settings", yes: bool, as_json: bool) -> None:
    # The digests first: what changes after this moment was not agreed to.
    before = project.find_locations()
    found = load_project_skills(project, settings)
    if not as_json:
        _show(project, before, found)
    agreed = yes or (None if as_json else _ask_person(before))
    places = before if agreed is None else _remember(project, before, agreed)
    trusted = all(place.is_trusted for place in places)
    if as_json:
        say_json(_json(project, places, found))
    elif trusted and places:
        new = any(not place.is_trusted for place in before)
        say(("trusted" if new else "already trusted", "bold green"), ": agents may use these skills")
    elif not trusted:
        _report_untrusted(places)
    if not trusted and (yes or not as_json):
        raise typer.Exit(1)


def _ask_person(places: "Sequence[SkillLocation]") -> bool | None:
    """The answer of a person who can be asked, where there is something to ask about."""
    if sys.stdin.isatty() and sys.stderr.isatty() and any(_can_ask_about(place) for place in places):
        return ask_yes_no()
    return None


def _can_ask_about(place: "SkillLocation") -> bool:
    return place.digest is not None and not place.is_trusted


def _remember(project: "ProjectSource", places: "Sequence[SkillLocation]", agreed: bool) -> "list[SkillLocation]":
    """The places after an answer to all that one can agree to and that nobody agreed to before."""
    from dataclasses import replace

    from openskills.catalog.trust import TrustAnswer as Answer

    answer = Answer.YES if agreed else Answer.NO
    project.remember((place for place in places if _can_ask_about(place)), answer)
    return [replace(place, answer=answer) if _can_ask_about(place) else place for place in places]


def _report_untrusted(places: "Sequence[SkillLocation]") -> None:
    for place in places:
        if place.fault is not None:
            warn(("not trusted", "bold yellow"), f": {escape_line(place.fault)}")
    undecided = ", ".join(place.label for place in places if _can_ask_about(place))
    if undecided:
        hint = f": agents do not use {escape_line(undecided)}; agree with `openskills trust --yes`"
        warn(("not trusted", "bold yellow"), hint)


def _show(project: "ProjectSource", places: "Sequence[SkillLocation]", found: "CatalogSnapshot") -> None:
    if places:
        skills = select_covered_skills(places, found)
        say("project  ", (display_folder(project), "bold"))
        for place in places:
            say(f"place    {escape_line(str(place.path))}")
            say(f"digest   {f'sha256:{place.digest}' if place.digest else 'none'}")
        say(f"skills   {pluralize(len(skills), 'skill')}")
        show_names(skills, say)
    else:
        name = (display_folder(project), "bold")
        say("The project ", name, " has no skills in the standard places; nothing to decide.")
    report_problems(found.problems)


def _json(project: "ProjectSource", places: "Sequence[SkillLocation]", found: "CatalogSnapshot") -> dict[str, object]:
    return {
        "project": str(project.project),
        "places": [
            {"path": str(place.path), "digest": place.digest, "trusted": place.is_trusted, "fault": place.fault}
            for place in places
        ],
        "trusted": bool(places) and all(place.is_trusted for place in places),
        "skills": [
            {"name": skill.name, "description": skill.description, "location": skill.location}
            for skill in select_covered_skills(places, found)
        ],
        "problems": [problem_json_with_path(problem) for problem in found.problems],
    }
