"""List, info, search.

Asking a person whether the skills of a project may be used.

Which skills a command is about: those of the paths it was given, or those that an agent would find here.

`openskills list`: the skills that are found, where they come from, and why some are hidden.

What can be said about one skill, gathered once for people and for programs.

`openskills info`: everything about one skill.

`openskills search`: the skills that fit a few words.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from openskills.cli.output import CliProgress, Column, escape_line, pluralize, say, say_json, show_table, warn
from openskills.cli.problems import (
    count_by_severity,
    display_path,
    format_problem,
    problem_json,
    problem_json_with_path,
    report_problems,
)
from openskills.errors import InvalidArgument, InvalidSkill, SkillError, UnknownSkill
from openskills.settings import Settings
from openskills.tokens import estimate_tokens

if TYPE_CHECKING:
    from openskills.catalog.catalog import Catalog
    from openskills.catalog.locations import ProjectSource, SkillLocation
    from openskills.catalog.root import Source
    from openskills.catalog.search import Hit
    from openskills.catalog.skill import Resource, Skill
    from openskills.catalog.snapshot import CatalogSnapshot
    from openskills.skillmd.manifest import Requirements, SkillManifest
    from openskills.skillmd.problem import Problem


_MAX_NAMES = 30


def ask_for_trust(project: "ProjectSource", settings: Settings) -> None:
    """Ask about the places of a project that nobody has decided about, once: the answer holds until they change."""
    from openskills.catalog.trust import TrustAnswer as Answer

    # What cannot be agreed to is no question. The catalog reports it.
    undecided = [place for place in project.find_locations() if place.answer is None and place.digest is not None]
    if not undecided:
        return
    warn("The project ", (display_folder(project), "bold"), " brings skills that nobody has agreed to as they are now:")
    show_names(select_covered_skills(undecided, load_project_skills(project, settings)), warn)
    agreed = ask_yes_no()
    if agreed is None:
        return
    project.remember(undecided, Answer.YES if agreed else Answer.NO)
    if not agreed:
        warn("They are not used. `openskills trust` changes your mind.")


def load_project_skills(project: "ProjectSource", settings: Settings) -> "CatalogSnapshot":
    """The skills of a project, trusted or not, for people to look at. Only front matter is read."""
    from dataclasses import replace

    from openskills.catalog.catalog import Catalog

    return Catalog([replace(project, trusted=True)], settings).snapshot


def list_all_skills(snapshot: "CatalogSnapshot") -> "list[Skill]":
    """Visible and hidden skills, by name."""
    hidden = [each.skill for each in snapshot.hidden.values()]
    return sorted([*snapshot.skills, *hidden], key=lambda skill: skill.name)


def select_covered_skills(places: "Sequence[SkillLocation]", found: "CatalogSnapshot") -> "list[Skill]":
    """What an agreement to these places covers: also what is shadowed now, for it may count tomorrow."""
    labels = {place.label for place in places}
    skills = [*list_all_skills(found), *(each.skill for each in found.shadowed)]
    return sorted((skill for skill in skills if skill.source in labels), key=lambda skill: (skill.name, skill.source))


def ask_yes_no() -> bool | None:
    """Wait for an answer on the terminal; anything but yes is no, and an end of input is no answer."""
    warn("Skills tell an agent what to do and may bring programs. Look at them before you agree.")
    sys.stderr.write("Use the skills of this project? [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    return answer.strip().lower() in {"y", "yes"} if answer else None


def show_names(skills: "list[Skill]", write: Callable[..., None]) -> None:
    """A line per skill, written with `say` or `warn`."""
    for skill in skills[:_MAX_NAMES]:
        write("  ", (escape_line(skill.name), "bold cyan"), f"  {display_path(skill.directory)}")
    if len(skills) > _MAX_NAMES:
        write(f"  and {len(skills) - _MAX_NAMES:,} more")


def display_folder(project: "ProjectSource") -> str:
    """The project's folder in full: whoever agrees must know to what."""
    return escape_line(str(project.project))


def get_settings(context: typer.Context) -> Settings:
    """The settings that the door has read."""
    return cast("Settings", context.obj)


def open_catalog(paths: Sequence[str], settings: Settings, *, trusted: bool = False, asking: bool = True) -> "Catalog":
    """The catalog of `paths`; without any, that of the standard places and `SKILLS_ROOT`, which wins.

    At a terminal a person is asked about a project's skills that nobody has agreed to, unless `asking` is False.
    `trusted` agrees for this time.
    """
    from openskills.catalog.catalog import Catalog

    sources = (
        _parse_sources(paths, settings) if paths else _find_standard_sources(settings, trusted=trusted, asking=asking)
    )
    with CliProgress("looking for skills") as progress:
        return Catalog(sources, settings, progress)


def _parse_sources(paths: Sequence[str], settings: Settings) -> "list[Source]":
    from openskills.catalog.sources.parse import parse_source

    return [parse_source(path, settings) for path in paths]


def _find_standard_sources(settings: Settings, *, trusted: bool, asking: bool) -> "list[Source]":
    from openskills.catalog.locations import ProjectSource, standard_sources

    sources = standard_sources(Path.cwd(), settings, trusted=trusted)
    if asking and not trusted and sys.stdin.isatty() and sys.stderr.isatty():
        for source in sources:
            if isinstance(source, ProjectSource):
                ask_for_trust(source, settings)
    return list(sources)


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


UNAVAILABLE_RULES = frozenset({"source-missing", "source-unavailable"})
"""The rules that say that a place gave nothing."""

_SOURCE_RULES = UNAVAILABLE_RULES | {"source-stale", "project-untrusted"}


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
    catalog = open_catalog(paths or (), get_settings(context), trusted=trust, asking=not as_json)
    snapshot = catalog.snapshot
    rows = list_entries(snapshot)
    if as_json:
        problems = [problem_json_with_path(problem) for problem in snapshot.problems]
        say_json({"skills": [entry_json(*row) for row in rows], "problems": problems})
    else:
        _show_list(rows)
        report_problems(snapshot.problems)
    exit_if_unreachable(snapshot)


def list_entries(snapshot: "CatalogSnapshot") -> "list[tuple[Skill, str | None]]":
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


def report_sources(snapshot: "CatalogSnapshot") -> None:
    """Say which places gave nothing, or not what they have now: that may be why something is missing."""
    report_problems([problem for problem in snapshot.problems if problem.rule in _SOURCE_RULES])


def exit_if_unreachable(snapshot: "CatalogSnapshot") -> None:
    """Exit with 1 when a place could not be had: the answer is not whole."""
    if any(problem.rule in UNAVAILABLE_RULES for problem in snapshot.problems):
        raise typer.Exit(1)


def _show_list(rows: "Sequence[tuple[Skill, str | None]]") -> None:
    columns = (Column("name", "bold cyan"), Column("description", wide=True), Column("source", "dim"))
    if not sys.stdout.isatty():
        show_table(
            (*columns, Column("hidden")), [(*_list_cells(skill), escape_line(hidden or "")) for skill, hidden in rows]
        )
    else:
        show_table(columns, [_list_cells(skill) for skill, _ in rows])
        # A reason is a sentence to act on; a column would cut it.
        for skill, hidden in rows:
            if hidden is not None:
                say(("hidden", "yellow"), f": {escape_line(skill.name)}: {escape_line(hidden)}")
    if not rows:
        warn("no skills were found; `openskills new NAME` starts one")


def _list_cells(skill: "Skill") -> tuple[str, ...]:
    return (escape_line(skill.name), escape_line(skill.description), escape_line(skill.source))


_MAX_READ_BYTES = 1024 * 1024
_SEPARATE_FIELDS = frozenset({"name", "description", "requirements"})


@dataclass(frozen=True, slots=True)
class SkillDetails:
    """A skill with everything around it. All token counts are estimates; None where a file is not text."""

    skill: "Skill"
    hidden: str | None
    body_lines: int
    body_tokens: int
    resources: "tuple[tuple[Resource, int | None], ...]"
    shadows: "tuple[Skill, ...]"
    shadowed_by: "Skill | None"
    problems: "tuple[Problem, ...]"


def collect_details(skill: "Skill", hidden: str | None, around: "CatalogSnapshot") -> SkillDetails:
    """Read the skill's files and find its relations among the skills `around` it. Raises `InvalidSkill`."""
    from openskills.catalog.validate import validate

    body = skill.body()
    return SkillDetails(
        skill=skill,
        hidden=hidden,
        body_lines=len(body.splitlines()),
        body_tokens=estimate_tokens(body),
        resources=tuple((resource, _count_tokens(skill, resource)) for resource in skill.resources()),
        shadows=tuple(each.skill for each in around.shadowed if _is_same(each.by, skill)),
        shadowed_by=next((each.by for each in around.shadowed if _is_same(each.skill, skill)), None),
        problems=validate(skill.path).problems,
    )


def manifest_fields(manifest: "SkillManifest") -> dict[str, object]:
    """The fields that were given, beside those that are shown on their own."""
    given: dict[str, object] = {}
    for field in fields(manifest):
        value = getattr(manifest, field.name)
        if field.name not in _SEPARATE_FIELDS and value not in (None, (), {}, _DEFAULTS.get(field.name)):
            given[field.name] = value
    return given


def details_json(facts: SkillDetails) -> dict[str, object]:
    """The facts for a program."""
    skill = facts.skill
    return {
        "name": skill.name,
        "description": skill.description,
        "location": skill.location,
        "source": skill.source,
        "hidden": facts.hidden,
        "fields": manifest_fields(skill.manifest),
        "requirements": asdict(skill.manifest.requirements),
        "body": {"lines": facts.body_lines, "estimated_tokens": facts.body_tokens},
        "resources": [
            {"path": resource.path, "kind": resource.kind.value, "size": resource.size, "estimated_tokens": tokens}
            for resource, tokens in facts.resources
        ],
        "shadows": [other.location for other in facts.shadows],
        "shadowed_by": facts.shadowed_by.location if facts.shadowed_by else None,
        "problems": [problem_json(problem) for problem in facts.problems],
    }


_DEFAULTS = {"disable_model_invocation": False, "user_invocable": True}


def _is_same(one: "Skill", other: "Skill") -> bool:
    return os.path.realpath(one.directory) == os.path.realpath(other.directory)


def _count_tokens(skill: "Skill", resource: "Resource") -> int | None:
    """None for what is not text, has gone meanwhile, or is too large for anybody to load."""
    try:
        text = skill.read(resource.path, limit=_MAX_READ_BYTES).decode("utf-8")
    except (UnicodeDecodeError, SkillError, OSError):
        return None
    return None if "\0" in text else estimate_tokens(text)


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
    settings = get_settings(context)
    if os.sep in name or name in (os.curdir, os.pardir):
        around = open_catalog(paths or (), settings, trusted=trust, asking=False).snapshot
        facts = _find_at_path(name, settings, around)
    else:
        around = open_catalog(paths or (), settings, trusted=trust, asking=not as_json).snapshot
        facts = _find_named(name, settings, around)
    if as_json:
        say_json(details_json(facts))
    else:
        _show_info(facts)


def _find_named(name: str, settings: "Settings", around: "CatalogSnapshot") -> SkillDetails:
    try:
        skill = around.find(name)
    except UnknownSkill:
        # A folder right here may be meant; one that is no skill explains itself better than an unknown name.
        if os.path.isdir(name):
            return _find_at_path(name, settings, around)
        report_sources(around)
        raise
    return collect_details(skill, _find_hidden_reason(skill, around), around)


def _find_at_path(path: str, settings: "Settings", around: "CatalogSnapshot") -> SkillDetails:
    from openskills.catalog.validate import resolve_skill_folder as skill_folder

    folder = skill_folder(path)
    own = open_catalog([str(folder)], settings).snapshot
    found = list_all_skills(own)
    if not found:
        report_problems(own.problems)
        raise InvalidSkill(f"{folder} holds no skill that can be used; `openskills validate` says why", own.problems)
    if len(found) > 1:
        names = ", ".join(skill.name for skill in found[:5])
        raise InvalidArgument("NAME", f"{folder} holds {len(found):,} skills ({names} ...); name one of them")
    return collect_details(found[0], _find_hidden_reason(found[0], own), around)


def _find_hidden_reason(skill: "Skill", snapshot: "CatalogSnapshot") -> str | None:
    hidden = snapshot.hidden.get(skill.name)
    return hidden.reason if hidden else None


def _show_info(facts: SkillDetails) -> None:
    skill = facts.skill
    say((escape_line(skill.name), "bold cyan"))
    say(escape_line(skill.description))
    say("")
    _print_row("location", display_path(skill.location))
    _print_row("source", escape_line(skill.source))
    _print_row("hidden", escape_line(facts.hidden) if facts.hidden else "no")
    for key, value in manifest_fields(skill.manifest).items():
        _print_row(key.replace("_", "-"), _to_text(value))
    if skill.manifest.requirements:
        _print_row("requires", _format_requirements(skill.manifest.requirements))
    for other in facts.shadows:
        _print_row("shadows", f"{display_path(other.location)} ({escape_line(other.source)})")
    if facts.shadowed_by:
        _print_row(
            "shadowed by", f"{display_path(facts.shadowed_by.location)} ({escape_line(facts.shadowed_by.source)})"
        )
    _print_row("body", f"{pluralize(facts.body_lines, 'line')}, {pluralize(facts.body_tokens, 'token')} (estimated)")
    _show_resources(facts)
    _show_problems(facts)


def _print_row(title: str, text: str) -> None:
    say((f"{title:<14}", "dim"), text)


def _to_text(value: object) -> str:
    return escape_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _format_requirements(requirements: "Requirements") -> str:
    parts = {
        "programs": requirements.bins,
        "one of the programs": requirements.any_bins,
        "variables": requirements.env,
        "systems": requirements.platforms,
    }
    return escape_line("; ".join(f"{title} {', '.join(names)}" for title, names in parts.items() if names))


def _show_resources(facts: SkillDetails) -> None:
    say("")
    if not facts.resources:
        say("no files beside SKILL.md")
        return
    say((f"{pluralize(len(facts.resources), 'file')} beside SKILL.md (tokens are estimated)", "bold"))
    for resource, tokens in facts.resources:
        cost = f"{tokens:,} tokens" if tokens is not None else "not text"
        say(
            f"  {resource.kind.value:<9} {resource.size:>10,} bytes  {cost:>14}  ", (escape_line(resource.path), "cyan")
        )


def _show_problems(facts: SkillDetails) -> None:
    say("")
    if not facts.problems:
        say(("no problems", "green"))
        return
    say((count_by_severity(facts.problems), "bold"))
    for problem in facts.problems:
        say("  ", *format_problem(problem))


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A few words, in English or Chinese.")],
    paths: Paths = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many skills at most.")] = 10,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Find skills by what they do, best first.

    Looks at names, keywords and descriptions of the skills that a model may see; names may be misspelt.

    Examples:
      openskills search "merge two pdfs"
      openskills search 表格 skills/ --limit 3
      openskills search invoices --json

    In a pipe each skill is one line: name, description and source, with tabs between.
    """
    snapshot = open_catalog(paths or (), get_settings(context), trusted=trust, asking=not as_json).snapshot
    hits = snapshot.search(query, limit)
    if as_json:
        say_json({"skills": [_hit_json(hit) for hit in hits]})
    else:
        columns = (Column("name", "bold cyan"), Column("description", wide=True), Column("source", "dim"))
        show_table(columns, [_search_cells(hit.skill) for hit in hits])
        if not hits:
            warn(f"none of {len(snapshot.skills):,} visible skills fits {escape_line(query)!r}")
    # What is wrong with single skills is for `list`; a place that is missing explains a missing result.
    report_sources(snapshot)
    exit_if_unreachable(snapshot)


def _hit_json(hit: "Hit") -> dict[str, object]:
    skill = hit.skill
    return {
        "name": skill.name,
        "description": skill.description,
        "location": skill.location,
        "source": skill.source,
        "score": round(hit.score, 4),
    }


def _search_cells(skill: "Skill") -> tuple[str, ...]:
    return (escape_line(skill.name), escape_line(skill.description), escape_line(skill.source))
