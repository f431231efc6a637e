"""`openskills trust`: trust the skills and the project file of a project; consent to variables that skills declare."""

import os
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from openskills.cli.output import can_ask, escape_line, pluralize, read_reply, say, say_json, warn
from openskills.cli.parameters import GrantOptions, Json, Project, argument
from openskills.cli.skills import (
    ask_to_use_skills,
    display_folder,
    load_project_skills,
    problem_json_with_path,
    report_problems,
    select_covered_skills,
    show_names,
    show_server_skills,
    to_trust_answer,
)
from openskills.errors import InvalidArgument, shorten
from openskills.settings import Settings

if TYPE_CHECKING:
    from openskills.catalog.locations import ProjectSource, SkillLocation
    from openskills.catalog.snapshot import CatalogSnapshot
    from openskills.catalog.sources.mcp import McpSkill, McpSource
    from openskills.executors.requests import SecretRequest
    from openskills.project import ProjectFile, SkillGrants
    from openskills.skillmd.problem import Problem


def trust(
    settings: Settings,
    path: Annotated[str, argument("PATH", "A folder of the project, or an MCP server.", show_default=".")] = ".",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Trust the skills without asking.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Forget the decision about PATH.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List the trusted projects and servers.")] = False,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Trust the skills of a project or of an MCP server, and what the project file grants.

    Shows the skill directories of the project, a digest of all files in each, and the skills; the project file
    (openskills.toml) and what it grants; then asks, and stores the answer for each directory and the file. Trust ends
    when a file in the directory, or the project file, changes. For a server, the answer is stored for each skill, with
    the digests of its files. With --json it never asks: it reports, or decides with --yes or --remove.

    Examples:
      openskills trust
      openskills trust ../other --yes
      openskills trust mcp+https://mcp.example.org/mcp
      openskills trust --list
      openskills trust --remove

    Exit codes: 0 done, 1 not trusted, 2 wrong usage or no such path.
    """
    if yes and remove:
        raise InvalidArgument("--remove", "cannot be combined with --yes; choose one")
    if list_all:
        _list(settings, as_json)
        return
    from openskills.catalog.locations import project_source
    from openskills.catalog.sources.parse import is_server_address, parse_source
    from openskills.project import open_project

    if is_server_address(path):
        server = cast("McpSource", parse_source(path, settings))
        if remove:
            _remove_server(server, as_json)
        else:
            _decide_server(server, yes, as_json)
        return
    if not os.path.isdir(path):
        raise InvalidArgument("path", f"{path} is not a directory")
    found = project_source(Path(path), settings)
    file = open_project(project, settings, Path(path))
    if remove:
        _remove(found, file, as_json)
    else:
        _decide(found, file, settings, yes, as_json)


def _list(settings: Settings, as_json: bool) -> None:
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


def _remove(project: "ProjectSource", file: "ProjectFile | None", as_json: bool) -> None:
    removed = project.forget()
    if file is not None:
        # It may lie outside of the project, or above a folder that is not a repository.
        place = os.path.realpath(file.path)
        if (decision := project.store.read_decisions().get(place)) is not None:
            removed[place] = decision
            project.store.forget([place])
    result = {"project": str(project.project), "places": sorted(removed), "removed": bool(removed)}
    before, after = "The skills of ", " were not trusted."
    if any(decision.answer == "yes" for decision in removed.values()):
        after = " will not be used any more."
    elif removed:
        before, after = "Removed the decision about the skills of ", "."
    say(before, (display_folder(project), "bold"), after, json=as_json and result)


def _remove_server(server: "McpSource", as_json: bool) -> None:
    removed = server.forget()
    verb = "Removed the decisions about" if removed else "There were no decisions about"
    result = {"server": server.label, "places": sorted(removed), "removed": bool(removed)}
    say(f"{verb} the skills of ", (escape_line(server.label), "bold"), ".", json=as_json and result)


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
        server.remember(new, to_trust_answer(agreed))
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


def _decide(project: "ProjectSource", file: "ProjectFile | None", settings: Settings, yes: bool, as_json: bool) -> None:
    # Compute the digests first, so that later changes are not trusted.
    before = [*project.find_locations(), *_locate_grants(project, file)]
    found = load_project_skills(project, settings)
    if not as_json:
        _show(project, file, before, found)
    granted = file.describe_grants() if file is not None else []
    can_decide = not as_json and can_ask() and any(map(_can_ask_about, before))
    more = ", and grant them what the project file says" if granted else ""
    agreed = yes or (ask_to_use_skills(f"Use the skills of this project{more}?") if can_decide else None)
    places = before
    if agreed is not None:
        answer = to_trust_answer(agreed)
        project.remember(filter(_can_ask_about, before), answer)
        places = [replace(place, answer=answer) if _can_ask_about(place) else place for place in before]
    trusted = all(place.is_trusted for place in places)
    if as_json:
        say_json({**_json(project, places, found), "grants": granted})
    elif trusted and places:
        new = any(not place.is_trusted for place in before)
        grants = " and what the project file grants" if granted else ""
        say(("trusted" if new else "already trusted", "bold green"), f": agents may use these skills{grants}")
    elif not trusted:
        for fault in (place.fault for place in places if place.fault is not None):
            warn(("not trusted", "bold yellow"), f": {escape_line(fault)}")
        if undecided := ", ".join(place.label for place in places if _can_ask_about(place)):
            hint = f": agents do not use {escape_line(undecided)}; trust it with `openskills trust --yes`"
            warn(("not trusted", "bold yellow"), hint)
    if not trusted and (yes or not as_json):
        raise typer.Exit(1)


def _locate_grants(project: "ProjectSource", file: "ProjectFile | None") -> "Sequence[SkillLocation]":
    """The project file as a place to trust, if it grants anything."""
    from openskills.catalog.locations import SkillLocation

    if file is None or not file.describe_grants():
        return ()
    real = os.path.realpath(file.path)
    decision = project.store.read_decisions().get(real)
    answer = decision.answer_for(file.digest) if decision else None
    return (SkillLocation(file.path, real, file.path.name, file.digest, answer),)


def _can_ask_about(place: "SkillLocation") -> bool:
    return place.digest is not None and not place.is_trusted


def _show(
    project: "ProjectSource",
    file: "ProjectFile | None",
    places: "Sequence[SkillLocation]",
    found: "CatalogSnapshot",
) -> None:
    if places:
        skills = select_covered_skills(places, found)
        say("project  ", (display_folder(project), "bold"))
        for place in places:
            say(f"place    {escape_line(str(place.path))}")
            say(f"digest   {f'sha256:{place.digest}' if place.digest else 'none'}")
        say(f"skills   {pluralize(len(skills), 'skill')}")
        show_names(skills, say)
        for line in file.describe_grants() if file is not None else ():
            say(f"grants   {escape_line(line)}")
    else:
        nothing = "no skills in the standard directories, and no project file with grants"
        say("The project ", (display_folder(project), "bold"), f" has {nothing}.")
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


_MAX_LISTED = 1_000
"""Characters of a warning about grants that are ignored; `openskills trust` shows all."""


def collect_grants(
    own: "SkillGrants", options: GrantOptions, settings: Settings, skill: str | None = None
) -> "dict[str, SkillGrants]":
    """The grants of the command line, over those of the project file if the user trusts it, by skill.

    Prints one warning about grants that are ignored, and one about secrets that are not set; if only one `skill` will
    be used, only about its own. Raises `InvalidArgument` for an invalid file.
    """
    from openskills.catalog.trust import TrustStore
    from openskills.project import open_project, override_grants

    project = open_project(options.project, settings)
    grants: dict[str, SkillGrants] = {}
    if project is not None and (granted := project.describe_grants()):
        if options.trust or TrustStore(settings.config_dir).is_trusted(project.path, project.digest):
            grants = _check_project_grants(project, settings, skill)
        else:
            named = "" if options.project is None else f" --project {options.project}"
            listed = shorten("; ".join(granted), _MAX_LISTED)
            why = f"not trusted yet, or changed since, so it grants nothing ({listed})"
            hint = f"review it, then run `openskills trust{named}`"
            warn(("warning", "yellow"), escape_line(f": {project.path}: {why}; {hint}"))
    return override_grants(grants, own)


def _check_project_grants(project: "ProjectFile", settings: Settings, skill: str | None) -> "dict[str, SkillGrants]":
    from openskills.executors.environment import check_grants
    from openskills.project import combine_grants, drop_secrets

    for name, entry in project.grants.items():
        try:
            check_grants(entry)
        except InvalidArgument as error:
            key = error.field
            raise InvalidArgument(f"{project.locate('skills', name, key)}: skills.{name}", error.message) from None
    used = project.grants.values() if skill is None else (combine_grants(project.grants, skill),)
    names = dict.fromkeys(name for entry in used for name in entry.secrets)
    unset = [name for name in names if not settings.environment.get(name)]
    if unset:
        warn(("warning", "yellow"), f": {escape_line(str(project.path))}: secrets that are not set: {', '.join(unset)}")
    return drop_secrets(project.grants, unset)


async def ask_on_terminal(question: str) -> bool | None:
    """Ask a question; None without a terminal or at the end of input."""
    if not can_ask():
        return None
    answer = await read_reply(f"{question} [y/N] ")
    return None if answer is None else answer.strip().lower() in {"y", "yes"}


class SecretConsent:
    """Asks the user once whether a skill may use the variables that it declares; implements `SecretCallback`.

    Answers are bound to the digest of the skill's folder, stored in the state directory and written to the audit log.
    With `ask` None, or without a terminal, nothing is granted that was not granted before, and nothing is stored.
    """

    def __init__(self, settings: Settings, ask: Callable[[str], Awaitable[bool | None]] | None) -> None:
        import asyncio

        from openskills.catalog.trust import TrustStore
        from openskills.executors.records.audit import AuditLog

        self._environment = settings.environment
        # In a directory of its own, which only the user can write to.
        self._store = TrustStore(settings.state_dir / "grants", "secrets")
        self._log = AuditLog(settings.state_dir / "audit.jsonl")
        self._ask = ask
        # Calls of a model may run concurrently, and only one may ask.
        self._turn = asyncio.Lock()
        self._withheld: set[tuple[str, str]] = set()

    async def __call__(self, request: "SecretRequest") -> Mapping[str, str]:
        """The values that the user grants."""
        granted: dict[str, str] = {}
        async with self._turn:
            known = self._store.read_decisions()
            for name in (name for name in request.names if self._environment.get(name)):
                decision = known.get(f"{request.directory}#{name}")
                answer = decision.answer_for(request.digest) if decision else None
                if answer == "no":
                    self._report_once(request, name, "which you refused")
                elif answer == "yes" or await self._decide(request, name):
                    granted[name] = self._environment[name]
        return granted

    async def _decide(self, request: "SecretRequest", name: str) -> bool:
        if (request.digest, name) in self._withheld:
            return False
        question = f"The skill {escape_line(request.skill)} needs the variable {name}. Pass it on to its commands?"
        agreed = None if self._ask is None else await self._ask(question)
        if agreed is None:
            self._report_once(request, name, "which was not granted")
            self._record(request, name, "not granted: nobody to ask")
            return False
        self._withheld.add((request.digest, name))  # a refusal needs no note
        decided = {f"{request.directory}#{name}": request.digest}
        self._store.remember(Path(request.directory), decided, to_trust_answer(agreed))
        self._record(request, name, "granted by the user" if agreed else "refused by the user")
        return agreed

    def _report_once(self, request: "SecretRequest", name: str, why: str) -> None:
        if (request.digest, name) not in self._withheld:
            self._withheld.add((request.digest, name))
            needs = f"{escape_line(request.skill)} needs {name}, {why}"
            warn(("note", "yellow"), f": {needs}; allow it with --secret {name}")

    def _record(self, request: "SecretRequest", name: str, detail: str) -> None:
        from dataclasses import asdict

        who = {**asdict(request.scope), "agent": request.agent, "skill": request.skill, "digest": request.digest}
        self._log.write({"event": "grant", **who, "secrets": [name], "detail": detail})
