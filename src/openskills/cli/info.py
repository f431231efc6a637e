"""`openskills info`: everything about one skill."""

import json
import os
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.consent import everything_in
from openskills.cli.facts import Facts, facts_json, fields_of, gather
from openskills.cli.listing import Json, Paths, Trust, report_places
from openskills.cli.output import counted, plain, say, say_json
from openskills.cli.problems import count_by_severity, problem_line, report, shown_path
from openskills.cli.skills import open_catalog, settings_of
from openskills.errors import InvalidArgument, InvalidSkill, UnknownSkill

if TYPE_CHECKING:
    from openskills.catalog.skill import Skill
    from openskills.catalog.snapshot import Snapshot
    from openskills.settings import Settings
    from openskills.skillmd.requirements import Requirements


def info(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A skill's name, or the path of its folder.")],
    paths: Paths = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Show everything about one skill: fields, files, problems, where it comes from, what it shadows.

    Numbers of tokens are estimates. Hidden skills are found, too.

    Examples:
      openskills info pdf-tools
      openskills info ./skills/pdf-tools
      openskills info pdf-tools skills/ --json
    """
    settings = settings_of(context)
    if os.sep in name or name in (os.curdir, os.pardir):
        around = open_catalog(paths or (), settings, trusted=trust, asking=False).snapshot
        facts = _at(name, settings, around)
    else:
        around = open_catalog(paths or (), settings, trusted=trust, asking=not as_json).snapshot
        facts = _named(name, settings, around)
    if as_json:
        say_json(facts_json(facts))
    else:
        _show(facts)


def _named(name: str, settings: "Settings", around: "Snapshot") -> Facts:
    try:
        skill = around.find(name)
    except UnknownSkill:
        # A folder right here may be meant; one that is no skill explains itself better than an unknown name.
        if os.path.isdir(name):
            return _at(name, settings, around)
        report_places(around)
        raise
    return gather(skill, _reason(skill, around), around)


def _at(path: str, settings: "Settings", around: "Snapshot") -> Facts:
    from openskills.catalog.validate import skill_folder

    folder = skill_folder(path)
    own = open_catalog([str(folder)], settings).snapshot
    found = everything_in(own)
    if not found:
        report(own.problems)
        raise InvalidSkill(f"{folder} holds no skill that can be used; `openskills validate` says why", own.problems)
    if len(found) > 1:
        names = ", ".join(skill.name for skill in found[:5])
        raise InvalidArgument("NAME", f"{folder} holds {len(found):,} skills ({names} ...); name one of them")
    return gather(found[0], _reason(found[0], own), around)


def _reason(skill: "Skill", snapshot: "Snapshot") -> str | None:
    hidden = snapshot.hidden.get(skill.name)
    return hidden.reason if hidden else None


def _show(facts: Facts) -> None:
    skill = facts.skill
    say((plain(skill.name), "bold cyan"))
    say(plain(skill.description))
    say("")
    _row("location", shown_path(skill.location))
    _row("source", plain(skill.source))
    _row("hidden", plain(facts.hidden) if facts.hidden else "no")
    for key, value in fields_of(skill.manifest).items():
        _row(key.replace("_", "-"), _text(value))
    if skill.manifest.requirements:
        _row("requires", _needs(skill.manifest.requirements))
    for other in facts.shadows:
        _row("shadows", f"{shown_path(other.location)} ({plain(other.source)})")
    if facts.shadowed_by:
        _row("shadowed by", f"{shown_path(facts.shadowed_by.location)} ({plain(facts.shadowed_by.source)})")
    _row("body", f"{counted(facts.body_lines, 'line')}, {counted(facts.body_tokens, 'token')} (estimated)")
    _show_resources(facts)
    _show_problems(facts)


def _row(title: str, text: str) -> None:
    say((f"{title:<14}", "dim"), text)


def _text(value: object) -> str:
    return plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _needs(requirements: "Requirements") -> str:
    parts = {
        "programs": requirements.bins,
        "one of the programs": requirements.any_bins,
        "variables": requirements.env,
        "systems": requirements.platforms,
    }
    return plain("; ".join(f"{title} {', '.join(names)}" for title, names in parts.items() if names))


def _show_resources(facts: Facts) -> None:
    say("")
    if not facts.resources:
        say("no files beside SKILL.md")
        return
    say((f"{counted(len(facts.resources), 'file')} beside SKILL.md (tokens are estimated)", "bold"))
    for resource, tokens in facts.resources:
        cost = f"{tokens:,} tokens" if tokens is not None else "not text"
        say(f"  {resource.kind.value:<9} {resource.size:>10,} bytes  {cost:>14}  ", (plain(resource.path), "cyan"))


def _show_problems(facts: Facts) -> None:
    say("")
    if not facts.problems:
        say(("no problems", "green"))
        return
    say((count_by_severity(facts.problems), "bold"))
    for problem in facts.problems:
        say("  ", *problem_line(problem))
