"""`openskills list`, `openskills info` and `openskills search`; the catalog and problems of skills for all commands.

Importing this module must not import pydantic or httpx2, to keep `openskills list` fast.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openskills.cli.output import (
    CliProgress,
    Column,
    Part,
    Row,
    ask,
    can_ask,
    escape_line,
    pluralize,
    say,
    say_json,
    show_table,
    warn,
)
from openskills.cli.parameters import Json, SourceOptions, argument, get_settings
from openskills.errors import InvalidArgument, InvalidSkill, SkillError, UnknownSkill
from openskills.paths import to_printable
from openskills.settings import Settings
from openskills.skillmd.problem import Problem, Severity

if TYPE_CHECKING:
    from openskills.catalog.catalog import Catalog
    from openskills.catalog.locations import ProjectSource, SkillLocation
    from openskills.catalog.root import Source
    from openskills.catalog.skill import Skill
    from openskills.catalog.snapshot import CatalogSnapshot
    from openskills.catalog.sources.mcp import McpSkill, McpSource
    from openskills.catalog.trust import TrustAnswer
    from openskills.executors.hints import SkillNeeds
    from openskills.runtime.details import SkillDetails
    from openskills.skillmd.manifest import Requirements


STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_MAX_PROBLEMS = 50


def display_path(path: str) -> str:
    """A path for display: relative when it is below the current directory, with unprintable characters escaped."""
    if os.path.isabs(path):
        inside = os.path.relpath(path)
        path = path if inside == os.pardir or inside.startswith(os.pardir + os.sep) else inside
    return to_printable(path)


def format_problem(problem: Problem) -> list[Part]:
    """The parts of a line such as `path:line:column: severity: message [rule]`."""
    place = display_path(problem.path) if problem.path else ""
    if problem.line is not None:
        place += f":{problem.line}:{problem.column or 1}"
    parts: list[Part] = [(place, "bold"), ": "] if place else []
    parts += [(problem.severity.value, STYLES[problem.severity]), f": {escape_line(problem.message)} "]
    return [*parts, (f"[{problem.rule}]", "dim")]


def problem_json_with_path(problem: Problem) -> dict[str, object]:
    """A problem as JSON, with its path, for lists of problems in several files."""
    return {"path": problem.path, **problem.to_dict()}


def count_by_severity(problems: Iterable[Problem]) -> str:
    """`1 error, 2 warnings`; empty when there are none."""
    counts = Counter(problem.severity for problem in problems)
    return ", ".join(pluralize(counts[severity], severity.value) for severity in Severity if counts[severity])


def report_problems(problems: Sequence[Problem]) -> None:
    """Print problems to stderr, one per line, errors first, and their number."""
    if not problems:
        return
    order = list(Severity)
    ranked = sorted(problems, key=lambda problem: order.index(problem.severity))
    for problem in ranked[:_MAX_PROBLEMS]:
        warn(*format_problem(problem))
    left = len(ranked) - _MAX_PROBLEMS
    more = f"; {left:,} more not shown, --json has all" if left > 0 else ""
    warn((f"{pluralize(len(problems), 'problem')} ({count_by_severity(problems)}){more}", "bold"))


_MAX_NAMES = 30


def ask_for_trust(project: "ProjectSource", settings: Settings) -> None:
    """Ask whether to trust the undecided skill directories of a project, and store the answer until they change."""
    # Directories without a digest cannot be trusted; the catalog reports them.
    undecided = [place for place in project.find_locations() if place.answer is None and place.digest is not None]
    if not undecided:
        return
    warn("The project ", (display_folder(project), "bold"), " has new or changed skills that are not trusted yet:")
    show_names(select_covered_skills(undecided, load_project_skills(project, settings)), warn)
    agreed = ask_to_use_skills()
    if agreed is None:
        return
    project.remember(undecided, to_trust_answer(agreed))
    if not agreed:
        warn("They are not used. Run `openskills trust` to change that.")


def ask_for_server_trust(server: "McpSource") -> None:
    """Ask whether to trust the undecided skills of an MCP server, and store the answer until they change."""
    try:
        undecided = [skill for skill in server.list_skills()[0] if skill.answer is None]
    except SkillError:
        return  # the catalog reports it
    if not undecided:
        return
    warn("The server ", (escape_line(server.label), "bold"), " has new or changed skills that are not trusted yet:")
    show_server_skills(undecided, warn)
    agreed = ask_to_use_skills("Use the skills of this server?")
    if agreed is not None:
        server.remember(undecided, to_trust_answer(agreed))


def to_trust_answer(agreed: bool) -> "TrustAnswer":
    """The answer that is stored for a user's yes or no."""
    from openskills.catalog.trust import TrustAnswer

    return TrustAnswer.YES if agreed else TrustAnswer.NO


def show_server_skills(skills: "Sequence[McpSkill]", write: Callable[..., None]) -> None:
    """Print each skill of a server with `say` or `warn`, as the server describes it."""
    for skill in skills[:_MAX_NAMES]:
        size = sum(file.size for file in skill.files.values())
        about = f"  {pluralize(len(skill.files), 'file')}, {size:,} bytes  {escape_line(skill.uri)}"
        write("  ", (escape_line(skill.name), "bold cyan"), about)
        write(f"    {escape_line(str(skill.fields.get('description', '')))}")
    if len(skills) > _MAX_NAMES:
        write(f"  and {len(skills) - _MAX_NAMES:,} more")


def load_project_skills(project: "ProjectSource", settings: Settings) -> "CatalogSnapshot":
    """The skills of a project, trusted or not, for display. Reads only front matter."""
    from openskills.catalog.catalog import Catalog

    return Catalog([replace(project, trusted=True)], settings).snapshot


def list_all_skills(snapshot: "CatalogSnapshot") -> "list[Skill]":
    """Visible and hidden skills, sorted by name."""
    hidden = [each.skill for each in snapshot.hidden.values()]
    return sorted([*snapshot.skills, *hidden], key=lambda skill: skill.name)


def select_covered_skills(places: "Sequence[SkillLocation]", found: "CatalogSnapshot") -> "list[Skill]":
    """The skills that trusting these directories covers, including those that are shadowed now."""
    labels = {place.label for place in places}
    skills = [*list_all_skills(found), *(each.skill for each in found.shadowed)]
    return sorted((skill for skill in skills if skill.source in labels), key=lambda skill: (skill.name, skill.source))


def ask_to_use_skills(question: str = "Use the skills of this project?") -> bool | None:
    """Ask whether to use skills; see `ask`."""
    warn("Skills instruct agents and may contain programs. Review them before you agree.")
    return ask(question)


def show_names(skills: "list[Skill]", write: Callable[..., None]) -> None:
    """Print one line per skill with `say` or `warn`."""
    for skill in skills[:_MAX_NAMES]:
        write("  ", (escape_line(skill.name), "bold cyan"), f"  {display_path(skill.directory)}")
    if len(skills) > _MAX_NAMES:
        write(f"  and {len(skills) - _MAX_NAMES:,} more")


def display_folder(project: "ProjectSource") -> str:
    """The full path of the project, so that users know what they trust."""
    return escape_line(str(project.project))


def complete_skill(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Shell completion for names of skills, from the sources that are already on the command line."""
    sources = [*(context.params.get("paths") or ()), *(context.params.get("skills") or ())]
    try:
        skills = open_catalog(sources, get_settings(context), asking=False).skills
    except (SkillError, OSError):
        return []
    return [(skill.name, escape_line(skill.description)) for skill in skills if skill.name.startswith(incomplete)]


def open_catalog(paths: Sequence[str], settings: Settings, *, trusted: bool = False, asking: bool = True) -> "Catalog":
    """The catalog of `paths`, or by default of the standard directories and `SKILLS_ROOT`, which comes last and wins.

    On a terminal the user is asked about untrusted skills of the project, unless `asking` is False. With `trusted` they
    are used without asking.
    """
    from openskills.catalog.catalog import Catalog
    from openskills.catalog.locations import standard_sources
    from openskills.catalog.sources.parse import parse_source

    if paths:
        sources = [parse_source(path, settings, trusted=trusted) for path in paths]
    else:
        sources = list(standard_sources(Path.cwd(), settings, trusted=trusted))
    if asking and not trusted and can_ask():
        for source in sources:
            _ask_about_source(source, settings)
    with CliProgress("looking for skills") as progress:
        return Catalog(sources, settings, progress)


def open_sources(settings: Settings, sources: SourceOptions, *, asking: bool = True) -> "Catalog":
    """The catalog of the sources of a command line; see `open_catalog`."""
    return open_catalog(sources.addresses, settings, trusted=sources.trust, asking=asking)


def _ask_about_source(source: "Source", settings: Settings) -> None:
    from openskills.catalog.locations import ProjectSource
    from openskills.catalog.sources.parse import is_server_address

    if isinstance(source, ProjectSource):
        ask_for_trust(source, settings)
    elif is_server_address(source.label):
        from openskills.catalog.sources.mcp import McpSource

        if isinstance(source, McpSource):
            ask_for_server_trust(source)


UNAVAILABLE_RULES = frozenset({"source-missing", "source-unavailable"})
"""The rules for sources that could not be read."""

_COLUMNS = (Column("name", "bold cyan"), Column("description", wide=True), Column("source", "dim"))
_SOURCE_RULES = UNAVAILABLE_RULES | {"source-stale", "project-untrusted", "mcp-untrusted", "mcp-mismatch"}


def list_skills(settings: Settings, sources: SourceOptions, as_json: Json = False) -> None:
    """List the skills that agents find here, or those of the given sources.

    Without PATH these directories are searched, and later ones win: .claude/skills, .agents/skills and
    .openskills/skills in your home directory, then in the project, then SKILLS_ROOT. Skills of the project are ignored
    until you trust them.

    Examples:
      openskills list
      openskills list skills/ --json
      openskills list https://example.org/skills.zip
      openskills list package:my_skills

    In a pipe each skill is one line of tab-separated fields: name, description, source, why it is hidden.
    """
    snapshot = open_sources(settings, sources, asking=not as_json).snapshot
    hidden = {name: each.reason for name, each in snapshot.hidden.items()}
    found = [(skill, count_resources(skill)) for skill in list_all_skills(snapshot)]
    if as_json:
        rows = [{**_identity_json(one), "hidden": hidden.get(one.name), "resources": counts} for one, counts in found]
        say_json({"skills": rows, "problems": [problem_json_with_path(problem) for problem in snapshot.problems]})
    else:
        cells: list[Row] = []
        for skill, counts in found:
            kinds = (f"{n} {kind}{'s' if n > 1 and kind != 'other' else ''}" for kind, n in counts.items() if n)
            cells.append((*_list_cells(skill), (None, hidden.get(skill.name, "")), ", ".join(kinds)))
        empty = "no skills found; `openskills new NAME` creates one"
        show_table((*_COLUMNS, Column("resources", "dim")), cells, empty)
        # Not in a column, which would truncate the reason.
        for name, reason in sorted(hidden.items()) if sys.stdout.isatty() else ():
            say(("hidden", "yellow"), f": {escape_line(name)}: {escape_line(reason)}")
        report_problems(snapshot.problems)
    exit_if_unreachable(snapshot)


def count_resources(skill: "Skill") -> dict[str, int]:
    """How many files of each kind a skill has besides SKILL.md."""
    from openskills.catalog.skill import ResourceKind, find_resources

    resources = skill.resources() if skill.remote is not None else find_resources(skill.directory)
    found = [resource.kind for resource in resources]
    return {kind.value: found.count(kind) for kind in ResourceKind}


def _identity_json(skill: "Skill") -> dict[str, object]:
    return {
        "name": skill.name,
        "description": skill.manifest.description,
        "location": skill.location,
        "source": skill.source,
    }


def report_sources(snapshot: "CatalogSnapshot") -> None:
    """Print the problems of sources that are missing, stale or untrusted."""
    report_problems([problem for problem in snapshot.problems if problem.rule in _SOURCE_RULES])


def exit_if_unreachable(snapshot: "CatalogSnapshot") -> None:
    """Exit with 1 when a source could not be read, because the output is incomplete."""
    if any(problem.rule in UNAVAILABLE_RULES for problem in snapshot.problems):
        raise typer.Exit(1)


def _list_cells(skill: "Skill") -> tuple[str, ...]:
    return (skill.name, skill.manifest.description, skill.source)


def info(
    settings: Settings,
    name: Annotated[str, argument("NAME", "A skill's name, or the path of its folder.", autocompletion=complete_skill)],
    sources: SourceOptions,
    as_json: Json = False,
) -> None:
    """Show everything about one skill: fields, files, problems, source, and what it shadows.

    Token counts are estimates. Hidden skills are shown, too.

    Examples:
      openskills info pdf-tools
      openskills info ./skills/pdf-tools
      openskills info pdf-tools skills/ --json
    """
    from openskills.runtime.details import collect_details, details_json

    is_path = is_skill_path(name)
    around = open_sources(settings, sources, asking=not as_json and not is_path).snapshot
    try:
        skill, own = find_skill_at(name, "NAME", settings) if is_path else (around.find(name), around)
    except UnknownSkill:
        # The name may be that of a folder in the current directory.
        if not os.path.isdir(name):
            report_sources(around)
            raise
        skill, own = find_skill_at(name, "NAME", settings)
    hidden = own.hidden.get(skill.name)
    facts = collect_details(skill, hidden.reason if hidden else None, around, settings)
    if as_json:
        say_json(details_json(facts))
    else:
        _show_info(facts)


def is_skill_path(name: str) -> bool:
    """Whether an argument is the path of a skill, not its name."""
    return os.sep in name or name in (os.curdir, os.pardir)


def find_skill_at(path: str, field: str, settings: Settings) -> "tuple[Skill, CatalogSnapshot]":
    """The only skill in a folder, which may be hidden, and the snapshot of the folder.

    Raises `InvalidSkill` if there is none, and `InvalidArgument` that names `field` if there are several.
    """
    from openskills.catalog.validate import resolve_skill_folder

    folder = resolve_skill_folder(path)
    own = open_catalog([str(folder)], settings).snapshot
    found = list_all_skills(own)
    if not found:
        report_problems(own.problems)
        raise InvalidSkill(f"no valid skill in {folder}; `openskills validate` shows why", own.problems)
    if len(found) > 1:
        names = ", ".join(skill.name for skill in found[:_MAX_NAMES])
        more = ", ..." if len(found) > _MAX_NAMES else ""
        example = display_path(found[0].directory)
        hint = f"choose one by its folder, such as {example if os.sep in example else f'./{example}'}"
        raise InvalidArgument(field, f"{folder} contains {len(found):,} skills ({names}{more}); {hint}")
    return found[0], own


def _show_info(facts: "SkillDetails") -> None:
    from openskills.runtime.details import manifest_fields

    skill = facts.skill
    say((escape_line(skill.name), "bold cyan"))
    say(escape_line(skill.manifest.description))
    say("")
    _print_row("location", display_path(skill.location))
    _print_row("source", escape_line(skill.source))
    _print_row("hidden", escape_line(facts.hidden) if facts.hidden else "no")
    for key, value in manifest_fields(skill.manifest).items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        _print_row(key.replace("_", "-"), escape_line(text))
    if _format_requirements(skill.manifest.requirements):
        _print_row("requires", _format_requirements(skill.manifest.requirements))
        _print_row("missing", _format_requirements(facts.missing) or "nothing")
    _show_needs(facts.needs)
    for other in facts.shadows:
        _print_row("shadows", f"{display_path(other.location)} ({escape_line(other.source)})")
    if (by := facts.shadowed_by) is not None:
        _print_row("shadowed by", f"{display_path(by.location)} ({escape_line(by.source)})")
    _print_row("body", f"{pluralize(facts.body_lines, 'line')}, {pluralize(facts.body_tokens, 'token')} (estimated)")
    say("")
    if facts.resources:
        say((f"{pluralize(len(facts.resources), 'other file')} (tokens are estimated)", "bold"))
    else:
        say("no other files")
    for resource, tokens in facts.resources:
        cost = f"{tokens:,} tokens" if tokens is not None else "not text"
        size = f"  {resource.kind.value:<9} {resource.size:>10,} bytes  {cost:>14}  "
        say(size, (escape_line(resource.path), "cyan"))
    say("")
    say((count_by_severity(facts.problems), "bold") if facts.problems else ("no problems", "green"))
    for problem in facts.problems:
        say("  ", *format_problem(problem))


def _show_needs(needs: "SkillNeeds") -> None:
    from openskills.executors.staging.packages import distribution_from_module

    if needs.declared.packages:
        sources = ", ".join(needs.declared.sources)
        _print_row("packages", escape_line(f"{needs.declared.packages} (declared in {sources})"))
    if needs.imports:
        found = {distribution_from_module(module): None for module in needs.imports}
        _print_row("imports", escape_line(f"{', '.join(needs.imports)} (probably: {', '.join(found)})"))
    if needs.programs:
        _print_row("programs", escape_line(", ".join(needs.programs)))


def _print_row(title: str, text: str) -> None:
    say((f"{title:<14}", "dim"), text)


def _format_requirements(requirements: "Requirements") -> str:
    parts = {
        "programs": requirements.bins,
        "one of the programs": requirements.any_bins,
        "variables": requirements.env,
        "optional variables": requirements.optional_env,
        "platforms": requirements.platforms,
    }
    return escape_line("; ".join(f"{title} {', '.join(names)}" for title, names in parts.items() if names))


def search(
    settings: Settings,
    query: Annotated[str, argument("QUERY", "Search words, in English or Chinese.")],
    sources: SourceOptions,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of skills.")] = 10,
    as_json: Json = False,
) -> None:
    """Find skills by what they do, best match first.

    Searches names, keywords and descriptions of the skills that models can see; misspelled names are found, too.

    Examples:
      openskills search "merge two pdfs"
      openskills search 表格 skills/ --limit 3
      openskills search invoices --json

    In a pipe each skill is one line of tab-separated fields: name, description, source.
    """
    snapshot = open_sources(settings, sources, asking=not as_json).snapshot
    hits = snapshot.search(query, limit)
    show_table(
        _COLUMNS,
        [_list_cells(hit.skill) for hit in hits],
        empty=f"none of {len(snapshot.skills):,} visible skills matches {escape_line(query)!r}",
        json=as_json and {"skills": [{**_identity_json(one.skill), "score": round(one.score, 4)} for one in hits]},
    )
    # Only problems of sources, which may explain a missing result; `list` shows those of skills.
    report_sources(snapshot)
    exit_if_unreachable(snapshot)
