"""`openskills trust`: agree to the skills of a project, take it back, and see what was agreed to."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.consent import ask, everything_in, show_names, shown_folder, skills_of
from openskills.cli.listing import Json
from openskills.cli.output import counted, plain, say, say_json, warn
from openskills.cli.problems import problem_json_with_path, report
from openskills.cli.skills import settings_of
from openskills.errors import InvalidArgument

if TYPE_CHECKING:
    from openskills.catalog.snapshot import Snapshot
    from openskills.catalog.standard import ProjectSource
    from openskills.settings import Settings


def trust(
    context: typer.Context,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A folder of the project.", show_default="here")] = ".",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Agree without being asked.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take the agreement back.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="Show every project that was agreed to.")] = False,
    as_json: Json = False,
) -> None:
    """Agree to the skills of a project, so that agents may use them.

    Shows the skills and the digest of all their files, asks, and remembers the answer. When a file changes, the
    agreement ends. With --json nothing is asked: it reports, and with --yes or --remove it decides.

    Examples:
      openskills trust
      openskills trust ../other --yes
      openskills trust --list
      openskills trust --remove

    Exit codes: 0 done, 1 nobody agreed, 2 wrong usage or no such path.
    """
    settings = settings_of(context)
    if yes and remove:
        raise InvalidArgument("--remove", "cannot be combined with --yes; choose one")
    if list_all:
        _list(settings, as_json)
        return
    project = _project(path, settings)
    if remove:
        _remove(project, as_json)
    elif not project.places():
        _nothing(project, as_json)
    else:
        _decide(project, settings, yes, as_json)


def _project(path: str, settings: "Settings") -> "ProjectSource":
    from openskills.catalog.standard import project_source

    if not os.path.isdir(path):
        raise InvalidArgument("path", f"{path} is not a directory")
    return project_source(Path(path), settings)


def _list(settings: "Settings", as_json: bool) -> None:
    from openskills.catalog.trust import TrustStore

    projects = sorted(TrustStore(settings.config_dir).projects().items())
    if as_json:
        say_json({"projects": [{"path": path, "at": at} for path, at in projects]})
        return
    for path, at in projects:
        say((f"{plain(at):<26}", "dim"), plain(path))
    if not projects:
        warn("no project has been agreed to")


def _remove(project: "ProjectSource", as_json: bool) -> None:
    known = project.store.forget(project.project)
    if as_json:
        say_json({"project": str(project.project), "removed": known})
    elif known:
        say("The skills of ", (shown_folder(project), "bold"), " are no longer used.")
    else:
        say("Nobody had agreed to the skills of ", (shown_folder(project), "bold"), ".")


def _nothing(project: "ProjectSource", as_json: bool) -> None:
    if as_json:
        say_json(_json(project, None, trusted=False, found=None))
        return
    say("The project ", (shown_folder(project), "bold"), " has no skills in the standard places; nothing to decide.")


def _decide(project: "ProjectSource", settings: "Settings", yes: bool, as_json: bool) -> None:
    # The digest first: what changes after this moment was not agreed to.
    digest = project.digest()
    found = skills_of(project, settings)
    trusted = project.store.trusts(project.project, digest)
    before = trusted
    if not as_json:
        _show(project, found, digest)
    if not trusted:
        trusted = yes or (not as_json and sys.stdin.isatty() and sys.stderr.isatty() and ask() is True)
        if trusted:
            project.store.trust(project.project, digest)
    if as_json:
        say_json(_json(project, digest, trusted=trusted, found=found))
    elif trusted:
        say(("already trusted" if before else "trusted", "bold green"), ": agents may use these skills")
    else:
        warn(("not trusted", "bold yellow"), ": agents do not use these skills; agree with `openskills trust --yes`")
        raise typer.Exit(1)


def _show(project: "ProjectSource", found: "Snapshot", digest: str) -> None:
    skills = everything_in(found)
    say("project  ", (shown_folder(project), "bold"))
    for place in project.places():
        say(f"place    {plain(str(place))}")
    say(f"digest   sha256:{digest}")
    say(f"skills   {counted(len(skills), 'skill')}")
    show_names(skills, say)
    report(found.problems)


def _json(
    project: "ProjectSource", digest: str | None, *, trusted: bool, found: "Snapshot | None"
) -> dict[str, object]:
    skills = everything_in(found) if found else []
    return {
        "project": str(project.project),
        "places": [str(place) for place in project.places()],
        "digest": digest,
        "trusted": trusted,
        "skills": [
            {"name": skill.name, "description": skill.description, "location": skill.location} for skill in skills
        ],
        "problems": [problem_json_with_path(problem) for problem in found.problems] if found else [],
    }
