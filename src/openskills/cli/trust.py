"""`openskills trust`: trust the skills of a project, revoke trust, and list trusted projects."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from openskills.cli.output import can_ask, escape_line, pluralize, say, say_json, warn
from openskills.cli.parameters import Json, argument, get_settings
from openskills.cli.skills import (
    ask_to_use_skills,
    display_folder,
    load_project_skills,
    problem_json_with_path,
    report_problems,
    select_covered_skills,
    show_names,
    show_server_skills,
)
from openskills.errors import InvalidArgument

if TYPE_CHECKING:
    from openskills.catalog.locations import ProjectSource, SkillLocation
    from openskills.catalog.snapshot import CatalogSnapshot
    from openskills.catalog.sources.mcp import McpSkill, McpSource
    from openskills.settings import Settings
    from openskills.skillmd.problem import Problem


def trust(
    context: typer.Context,
    path: Annotated[str, argument("PATH", "A folder of the project, or an MCP server.", show_default=".")] = ".",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Trust the skills without asking.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the decision about it.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List the trusted projects and servers.")] = False,
    as_json: Json = False,
) -> None:
    """Trust the skills of a project or of an MCP server, so that agents may use them.

    Shows the skill directories of the project, a digest of all files in each, and the skills; then asks, and stores the
    answer for each directory. Trust ends when a file in the directory changes. For a server, the answer is stored for
    each skill, with the digests of its files. With --json it never asks: it reports, or decides with --yes or --remove.

    Examples:
      openskills trust
      openskills trust ../other --yes
      openskills trust mcp+https://mcp.example.org/mcp
      openskills trust --list
      openskills trust --remove

    Exit codes: 0 done, 1 not trusted, 2 wrong usage or no such path.
    """
    settings = get_settings(context)
    if yes and remove:
        raise InvalidArgument("--remove", "cannot be combined with --yes; choose one")
    if list_all:
        _list(settings, as_json)
        return
    from openskills.catalog.locations import project_source
    from openskills.catalog.sources.parse import is_server_address, parse_source

    if is_server_address(path):
        server = cast("McpSource", parse_source(path, settings))
        if remove:
            _remove_server(server, as_json)
        else:
            _decide_server(server, yes, as_json)
        return
    if not os.path.isdir(path):
        raise InvalidArgument("path", f"{path} is not a directory")
    project = project_source(Path(path), settings)
    if remove:
        _remove(project, as_json)
    else:
        _decide(project, settings, yes, as_json)


def _list(settings: "Settings", as_json: bool) -> None:
    from openskills.catalog.trust import TrustAnswer, TrustStore

    agreed: dict[str, list[dict[str, str]]] = {}
    for place, decision in sorted(TrustStore(settings.config_dir).read_decisions().items()):
        if decision.answer is TrustAnswer.YES:
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
        warn("no trusted projects")


def _remove(project: "ProjectSource", as_json: bool) -> None:
    removed = project.forget()
    if as_json:
        say_json({"project": str(project.project), "places": sorted(removed), "removed": bool(removed)})
    elif any(decision.answer == "yes" for decision in removed.values()):
        say("The skills of ", (display_folder(project), "bold"), " will not be used any more.")
    elif removed:
        say("Removed the decision about the skills of ", (display_folder(project), "bold"), ".")
    else:
        say("The skills of ", (display_folder(project), "bold"), " were not trusted.")


def _remove_server(server: "McpSource", as_json: bool) -> None:
    removed = server.forget()
    if as_json:
        say_json({"server": server.label, "places": sorted(removed), "removed": bool(removed)})
    else:
        verb = "Removed the decisions about" if removed else "There were no decisions about"
        say(f"{verb} the skills of ", (escape_line(server.label), "bold"), ".")


def _decide_server(server: "McpSource", yes: bool, as_json: bool) -> None:
    from openskills.catalog.sources.mcp import digest_skills
    from openskills.catalog.trust import TrustAnswer

    skills, problems = server.list_skills()
    new = [skill for skill in skills if skill.answer is not TrustAnswer.YES]
    digest = digest_skills(skills)
    if not as_json:
        say("server   ", (escape_line(server.label), "bold"))
        say(f"digest   sha256:{digest}")
        say(f"skills   {pluralize(len(skills), 'skill')}")
        show_server_skills(skills, say)
        report_problems(problems)
    agreed = yes or (ask_to_use_skills("Use the skills of this server?") if not as_json and can_ask() and new else None)
    if agreed is not None:
        server.remember(new, TrustAnswer.YES if agreed else TrustAnswer.NO)
    trusted = bool(skills) and (bool(agreed) or not new)
    if as_json:
        say_json(_server_json(server, digest, trusted, server.list_skills()))
    elif trusted:
        say(("trusted" if new else "already trusted", "bold green"), ": agents may use these skills")
    elif new:
        hint = f": agents do not use these skills; trust them with `openskills trust {shlex.quote(server.label)} --yes`"
        warn(("not trusted", "bold yellow"), hint)
    if not trusted and (yes or not as_json):
        raise typer.Exit(1)


def _server_json(
    server: "McpSource", digest: str, trusted: bool, found: "tuple[list[McpSkill], list[Problem]]"
) -> dict[str, object]:
    return {
        "server": server.label,
        "digest": digest,
        "trusted": trusted,
        "skills": [
            {
                "name": skill.name,
                "description": skill.fields.get("description"),
                "uri": skill.uri,
                "digest": skill.digest,
                "trusted": skill.answer == "yes",
                "files": {path: {"sha256": file.sha256, "size": file.size} for path, file in skill.files.items()},
            }
            for skill in found[0]
        ],
        "problems": [problem_json_with_path(problem) for problem in found[1]],
    }


def _decide(project: "ProjectSource", settings: "Settings", yes: bool, as_json: bool) -> None:
    # Compute the digests first, so that later changes are not trusted.
    before = project.find_locations()
    found = load_project_skills(project, settings)
    if not as_json:
        _show(project, before, found)
    agreed = yes or (ask_to_use_skills() if not as_json and can_ask() and any(map(_can_ask_about, before)) else None)
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


def _can_ask_about(place: "SkillLocation") -> bool:
    return place.digest is not None and not place.is_trusted


def _remember(project: "ProjectSource", places: "Sequence[SkillLocation]", agreed: bool) -> "list[SkillLocation]":
    """Store an answer for all undecided places, and return the places with it."""
    from openskills.catalog.trust import TrustAnswer

    answer = TrustAnswer.YES if agreed else TrustAnswer.NO
    project.remember((place for place in places if _can_ask_about(place)), answer)
    return [replace(place, answer=answer) if _can_ask_about(place) else place for place in places]


def _report_untrusted(places: "Sequence[SkillLocation]") -> None:
    for place in places:
        if place.fault is not None:
            warn(("not trusted", "bold yellow"), f": {escape_line(place.fault)}")
    undecided = ", ".join(place.label for place in places if _can_ask_about(place))
    if undecided:
        hint = f": agents do not use {escape_line(undecided)}; trust it with `openskills trust --yes`"
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
        say("The project ", name, " has no skills in the standard directories.")
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
