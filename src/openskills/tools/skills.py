"""Tools for reading skills: `skill_load`, `skill_unload`, `skill_select_docs`, `skill_list_docs`, `skill_search`."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Literal

from pydantic import Field

from openskills.catalog.skill import SKILL_FILE, ResourceKind, Skill
from openskills.errors import InvalidArgument, NotLoaded, SkillError, shorten
from openskills.executors.environment import can_grant
from openskills.paths import to_printable
from openskills.prompt.blocks import parse_fragment, to_one_line
from openskills.prompt.history import COMPATIBILITY, LEFT_OUT, REQUIRES
from openskills.session.state import ALL, Change, DocsChosen, Loaded, Unloaded
from openskills.tools.tool import Arguments, TextList, Tool, ToolContext, ToolResult, build_result_schema


def resolve_docs(skill: Skill, docs: Sequence[str] | None, *, include_all: bool = False) -> tuple[str, ...] | None:
    """The selected paths without duplicates; `(ALL,)` for every document, None if `docs` is None.

    A path may end in `#L10` or `#L10-L20`. Raises `InvalidArgument` with the nearest paths for unknown documents.
    """
    if include_all or (docs and ALL in docs):
        return (ALL,)
    if docs is None:
        return None
    known = [resource.path for resource in skill.docs()]
    return tuple(dict.fromkeys(_check_doc(skill, path.removeprefix("./"), known) for path in docs))


def _check_doc(skill: Skill, wanted: str, known: Sequence[str]) -> str:
    path, lines = parse_fragment(wanted)
    if path in known or (path == SKILL_FILE and lines is not None):
        return wanted
    if path == SKILL_FILE:
        raise InvalidArgument("docs", f"{SKILL_FILE} is already shown by skill_load; name other documents")
    hint = _suggest_docs(skill, path, known)
    raise InvalidArgument("docs", f"{skill.name!r} has no document {wanted[:200]!r}; {hint}")


def _suggest_docs(skill: Skill, path: str, known: Sequence[str]) -> str:
    if not known:
        return "it has none"
    if any(resource.path == path for resource in skill.resources()):
        return f"only .md and .txt files are documents; read it as skill://{skill.name}/{path}"
    same = [one for one in known if path and one.endswith(f"/{path}")]
    near = same[:3] or get_close_matches(path[:300], known, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    few = ", ".join(known[:10])
    return f"it has {few}" + (f" and {len(known) - 10} more; see skill_list_docs" if len(known) > 10 else "")


_MAX_NAMED = 20
_MAX_COMPATIBILITY_CHARS = 500


class LoadArguments(Arguments):
    skill: str = Field(description="As it is listed")
    docs: TextList | None = Field(default=None, description="Paths of documents to show as well")
    include_all_docs: bool = False


async def load(context: ToolContext, arguments: LoadArguments) -> ToolResult:
    """Load a skill. Named documents replace the selected ones."""
    skill = context.skills.get(arguments.skill)
    docs = resolve_docs(skill, arguments.docs, include_all=arguments.include_all_docs)
    digest = ""
    if context.prepare_workspace is not None and any(one.kind is ResourceKind.SCRIPT for one in skill.resources()):
        # The model will probably run one, and has to answer first.
        context.prepare_workspace()
    # The files of a server's skill are bound to digests already, and are downloaded when a command needs them.
    if context.take_snapshot is not None and skill.remote is None:
        with suppress(SkillError):  # a command will report it
            snapshot = await context.take_snapshot(skill)
            await asyncio.to_thread(skill.check_unchanged)
            context.loaded_texts.keep_snapshot(skill.name, snapshot)
            digest = snapshot.digest
    # Read now, so that a skill that cannot be read is an error of this call.
    body = await asyncio.to_thread(context.loaded_texts.load, skill)
    pieces = await asyncio.to_thread(context.loaded_texts.select, skill, docs or ())
    data: dict[str, object] = {
        "skill": skill.name,
        "docs": [piece.path for piece in pieces],
        "estimated_tokens": body.tokens + sum(piece.tokens for piece in pieces),
        "cut": [piece.path for piece in (body, *pieces) if piece.cut_after is not None],
    }
    text = "\n".join([f"loaded: {skill.name}", *await _describe_requirements(context, skill, digest, data)])
    if docs == (ALL,) and (left_out := context.loaded_texts.list_left_out(skill.name)):
        data["left_out"] = dict(left_out)
        text += f"\n{LEFT_OUT} {_describe_left_out(left_out)}"
    return ToolResult(text, data, changes=(Loaded(skill.name, docs),))


async def _describe_requirements(
    context: ToolContext, skill: Skill, digest: str, data: dict[str, object]
) -> Sequence[str]:
    """Lines about what a skill declares, and which of its variables its commands do not get; also added to `data`."""
    manifest, needs = skill.manifest, skill.manifest.requirements
    lines: list[str] = []
    variables = (*needs.env, *needs.optional_env)
    if needs.bins or needs.any_bins or variables:
        declared = {"programs": needs.bins, "one of the programs": needs.any_bins, "variables": variables}
        parts = [f"{what} {', '.join(map(to_one_line, names))}" for what, names in declared.items() if names]
        grants = context.options.grants_for(skill.name)
        granted = {*grants.secrets, *grants.environment, *await context.request_secrets(skill, digest)}
        withheld = [name for name in variables if name not in granted and can_grant(name)]
        if withheld and context.take_snapshot is not None:
            data["not_granted"] = withheld
            parts.append(f"not granted, so commands do not have it: {', '.join(withheld)}")
        lines.append(f"{REQUIRES} {'; '.join(parts)}")
    if manifest.compatibility:
        lines.append(f"{COMPATIBILITY} {to_one_line(manifest.compatibility)[:_MAX_COMPATIBILITY_CHARS]}")
    return lines


def _describe_left_out(left_out: Mapping[str, str]) -> str:
    """Documents by reason; most of them have the same one."""
    by_reason: dict[str, list[str]] = {}
    for path, reason in left_out.items():
        # Without the path, which is named before it, equal reasons are the same text.
        short = re.sub(rf"(?:docs: )?'?{re.escape(path)}'?(?: of '[^']*')?", "it", reason, count=1)
        by_reason.setdefault(short, []).append(to_one_line(path))
    return "; ".join(
        f"{', '.join(paths[:_MAX_NAMED])}{f' and {len(paths) - _MAX_NAMED} more' if len(paths) > _MAX_NAMED else ''} "
        f"({reason})"
        for reason, paths in by_reason.items()
    )


SKILL_LOAD = Tool(
    "skill_load",
    "Show the instructions of a skill. Do this before you rely on it or run it.",
    LoadArguments,
    load,
    build_result_schema(
        {"skill": "string", "docs": "string[]", "estimated_tokens": "integer", "cut": "string[]"},
        {"left_out": "object", "evicted": "string[]"},
    ),
)


class SkillArguments(Arguments):
    skill: str


async def unload(context: ToolContext, arguments: SkillArguments) -> ToolResult:
    """Unload a skill with its documents, even if it left the catalog."""
    name, view = arguments.skill.strip(), context.view()
    known = name if name in view.entries else context.skills.get(name).name
    was_loaded = view.can_run(known)
    text = f"unloaded: {known}" if was_loaded else f"{known} was not loaded; nothing has changed"
    data = {"skill": known, "was_loaded": was_loaded}
    return ToolResult(text, data, changes=(Unloaded(known),) if was_loaded else ())


SKILL_UNLOAD = Tool(
    "skill_unload",
    "Unload a skill when you are done with it.",
    SkillArguments,
    unload,
    build_result_schema({"skill": "string", "was_loaded": "boolean"}),
)


class SelectDocsArguments(SkillArguments):
    docs: TextList | None = Field(default=None, description="Such as guide.md or guide.md#L120-L180")
    include_all_docs: bool = False
    mode: Literal["add", "replace", "clear"] = Field(default="replace")


async def select_docs(context: ToolContext, arguments: SelectDocsArguments) -> ToolResult:
    """Select documents of a loaded skill."""
    skill = context.skills.get(arguments.skill)
    view = context.view()
    if not view.can_run(skill.name):
        raise NotLoaded(f'{skill.name!r} is not loaded; call skill_load with {{"skill": "{skill.name}"}} first')
    wanted = ()
    if arguments.mode != "clear":
        wanted = resolve_docs(skill, arguments.docs, include_all=arguments.include_all_docs) or ()
    added = arguments.mode == "add"
    await asyncio.to_thread(context.loaded_texts.select, skill, wanted)
    # In the mode `once`, documents are useless without the instructions, which are shown again.
    changes: tuple[Change, ...] = (Loaded(skill.name), DocsChosen(skill.name, wanted, added))
    after = tuple(dict.fromkeys((*view.docs(skill.name), *wanted))) if added else wanted
    selection: dict[str, object] = {"include_all_docs": True} if ALL in after else {"selected_docs": sorted(after)}
    if wanted == (ALL,) and (left_out := context.loaded_texts.list_left_out(skill.name)):
        selection["left_out"] = _describe_left_out(left_out)
    return ToolResult.from_data({"skill": skill.name, "mode": arguments.mode, **selection}, changes)


async def list_docs(context: ToolContext, arguments: SkillArguments) -> ToolResult:
    """List a skill's documents with their sizes, and which of them are selected."""
    skill = context.skills.get(arguments.skill)
    selected = context.view().docs(skill.name)
    docs = [
        {
            "path": doc.path,
            "size_bytes": doc.size,
            "estimated_tokens": (doc.size + 3) // 4,
            "selected": selected == (ALL,) or doc.path in selected,
        }
        for doc in await asyncio.to_thread(skill.docs)
    ]
    return ToolResult.from_data({"skill": skill.name, "docs": docs})


SKILL_SELECT_DOCS = Tool(
    "skill_select_docs",
    "Show or hide documents of a loaded skill, all at once.",
    SelectDocsArguments,
    select_docs,
    build_result_schema(
        {"skill": "string", "mode": "string"},
        {"include_all_docs": "boolean", "selected_docs": "string[]", "left_out": "string", "evicted": "string[]"},
    ),
)
SKILL_LIST_DOCS = Tool(
    "skill_list_docs",
    "List a skill's documents with their sizes.",
    SkillArguments,
    list_docs,
    build_result_schema({"skill": "string", "docs": "object[]"}),
    read_only=True,
)


MAX_RESULTS = 20
_MAX_QUERY_CHARS = 200
_MAX_DESCRIPTION_CHARS = 2_000
_GOOD_FIT = 0.5


class SearchArguments(Arguments):
    query: str = Field(description="What to do, in a few words")
    limit: int = Field(default=5, ge=1, le=MAX_RESULTS)


async def search(context: ToolContext, arguments: SearchArguments) -> ToolResult:
    """Find skills by query, best first."""
    # The first search builds the index.
    hits = await asyncio.to_thread(context.skills.search, arguments.query, arguments.limit)
    found = [
        {
            "name": to_printable(hit.skill.name),
            "description": to_one_line(hit.skill.description)[:_MAX_DESCRIPTION_CHARS],
        }
        for hit in hits
    ]
    asked = shorten(arguments.query, _MAX_QUERY_CHARS)
    data = {"query": to_printable(asked), "skills": found}
    if not found:
        data["hint"] = "no matches; try other words, or words from the task itself"
    elif hits[0].fit < _GOOD_FIT:
        data["hint"] = "no good match; try other words, or go on without a skill"
    return ToolResult.from_data(data)


SKILL_SEARCH = Tool(
    "skill_search",
    "Find skills that are not in the list of available skills, by what they do.",
    SearchArguments,
    search,
    build_result_schema({"query": "string", "skills": "object[]"}, {"hint": "string"}),
    read_only=True,
)
