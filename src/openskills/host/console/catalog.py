"""The screen Catalog and `GET /catalog`: all skills with search, filters, states and tokens."""

import asyncio
import os
import re
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from openskills.errors import InvalidArgument, SkillError
from openskills.host.auth import OWNER_MARK, Principal
from openskills.host.http import HttpExchange, HttpResponse, build_document
from openskills.host.parts import HostParts
from openskills.host.skills import SHARED
from openskills.tokens import estimate_tokens

if TYPE_CHECKING:
    from openskills.catalog.skill import Skill
    from openskills.catalog.snapshot import CatalogSnapshot
    from openskills.host.console.pages import PageRequest
    from openskills.host.registry.registry import RegistryEntry
    from openskills.host.skills import StoredSkill
    from openskills.skillmd.problem import Problem

PAGE_SIZE = 50
MAX_PAGE_SIZE = 500
STATES = ("ready", "hidden", "left_out", "shadowed", "broken", "unavailable")
"""States of a row: what models see, what they do not, files that are not usable, and hosted skills that fail."""
PRIVATE = "private uploads"
"""The source of skills that only the key that uploaded them, and administrators, can see."""
UPLOADS = "shared uploads"
"""The source of uploaded skills that everybody can see."""
_HOSTED = "hosted"
_EXCERPT = 220
_MAX_QUERY = 300
_NOTED_RULES = frozenset({"source-missing", "source-unavailable", "source-stale", "project-untrusted", "mcp-untrusted"})


@dataclass(frozen=True, slots=True)
class CatalogRow:
    """A skill in the list. `reason` says why it is not ready. `tokens` is what it costs in every request.

    `skill` is None for files that are not usable and for hosted skills without a SKILL.md; `hosted` is the id of the
    latter. `owner` is the key whose private upload it is.
    """

    name: str
    description: str
    source: str
    state: str
    reason: str = ""
    tokens: int | None = None
    errors: int = 0
    warnings: int = 0
    path: str = ""
    hosted: str = ""
    owner: str = ""
    skill: "Skill | None" = field(default=None, repr=False)

    def to_dict(self) -> dict[str, object]:
        names = ("name", "description", "source", "state", "reason", "tokens", "errors", "warnings", "path", "hosted")
        return {name: getattr(self, name) for name in (*names, "owner")}


@dataclass(frozen=True, slots=True)
class CatalogRows:
    """All rows of one state of the catalog, and what is wrong with its sources.

    `bodies` has the tokens of instructions that were counted so far, by folder; `faults` the numbers of errors and
    warnings of the skills that were validated so far.
    """

    rows: tuple[CatalogRow, ...]
    notes: "tuple[Problem, ...]"
    overview_tokens: int
    bodies: dict[str, int | None] = field(default_factory=dict[str, int | None], compare=False, repr=False)
    faults: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]], compare=False, repr=False)


class CatalogFilter(NamedTuple):
    """What is asked for; empty means everything. `problems` is `yes` or `no`."""

    query: str = ""
    source: str = ""
    state: str = ""
    problems: str = ""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> "CatalogFilter":
        """Read the parameters `q`, `source`, `state` and `problems`. Raises `InvalidArgument`."""
        state, problems = query.get("state", ""), query.get("problems", "")
        if state and state not in STATES:
            raise InvalidArgument("state", f"{state[:50]!r} is not one of {', '.join(STATES)}")
        if problems not in ("", "yes", "no"):
            raise InvalidArgument("problems", f"{problems[:50]!r} is not one of yes, no")
        return cls(query.get("q", "").strip()[:_MAX_QUERY], query.get("source", ""), state, problems)


async def open_snapshot(parts: HostParts, principal: Principal) -> "CatalogSnapshot":
    """The catalog of a caller as it is now, with its private uploads; an empty one for callers for whom it is not.

    It is for everybody if its skills were named to be served, and for administrators. Without `--skills` and without
    uploads it has the personal skills of whoever started the host.
    """
    from openskills.catalog.snapshot import CatalogSnapshot

    if not (parts.options.skills or parts.uploads is not None or principal.has_role("admin")):
        return CatalogSnapshot()
    return (await parts.catalogs.open_catalog(parts.catalogs.find_owner(principal))).snapshot


async def load_rows(parts: HostParts, principal: Principal) -> "tuple[CatalogSnapshot, CatalogRows]":
    """The current rows, with paths of the machine only for administrators.

    They are built once for each state of the catalog and of the registry.
    """
    snapshot, entries = await open_snapshot(parts, principal), tuple(parts.registry.list_entries())
    owner, others = parts.catalogs.find_owner(principal), tuple(await parts.catalogs.list_private(principal))
    known = _cache.get(snapshot)
    if known is None or known[0] != (entries, others):

        def find_source(skill: "Skill") -> tuple[str, str]:
            is_private = parts.catalogs.is_private(skill, owner)
            return (PRIVATE, owner) if is_private else (describe_source(skill, parts), "")

        rows = await asyncio.to_thread(_build_rows, snapshot, entries, others, find_source)
        known = ((entries, others), rows, _hide_paths(rows, parts))
        _cache[snapshot] = known
    return snapshot, known[1] if principal.has_role("admin") else known[2]


_CachedRows = tuple[tuple[object, object], CatalogRows, CatalogRows]
_cache: "weakref.WeakKeyDictionary[CatalogSnapshot, _CachedRows]" = weakref.WeakKeyDictionary()


def describe_path(path: str, parts: HostParts, principal: Principal | None = None) -> str:
    """A path for a caller: the whole one for administrators, else relative to where the host was started, or a name.

    Of an upload it is always the name: where uploads are is for administrators only.
    """
    if not os.path.isabs(path) or (principal is not None and principal.has_role("admin")):
        return path
    inside, start, uploads = Path(path), parts.start, parts.settings.host_uploads
    is_upload = uploads is not None and inside.is_relative_to(uploads)
    return str(inside.relative_to(start)) if inside.is_relative_to(start) and not is_upload else inside.name


def describe_source(skill: "Skill", parts: HostParts) -> str:
    """Where a skill comes from; of shared uploads not the directory that the host keeps them in."""
    uploads = parts.uploads
    is_upload = uploads is not None and skill.path.is_relative_to(uploads.get_live(SHARED))
    return UPLOADS if is_upload else skill.source


def _hide_paths(found: CatalogRows, parts: HostParts) -> CatalogRows:
    rows = tuple(
        replace(
            row,
            source=describe_path(row.source, parts),
            path=describe_path(row.path, parts),
            reason=describe_path(row.reason, parts) if row.state == "shadowed" else row.reason,
        )
        for row in found.rows
    )
    return replace(found, rows=rows)


def _build_rows(
    snapshot: "CatalogSnapshot",
    entries: "Sequence[RegistryEntry]",
    others: "Sequence[StoredSkill]",
    find_source: "Callable[[Skill], tuple[str, str]]",
) -> CatalogRows:
    """The rows; `find_source` is where a skill comes from, in words for an upload, and the owner of a private one."""
    from openskills.prompt.overview import overview

    faults: dict[str, Counter[str]] = {}
    for problem in snapshot.problems:
        if problem.path:
            faults.setdefault(os.path.dirname(problem.path), Counter())[problem.severity.value] += 1
    found = [(skill, "ready", "") for skill in snapshot.skills]
    found += [(one.skill, "hidden", one.reason) for one in snapshot.hidden.values()]
    found += [(one.skill, "shadowed", one.by.location) for one in snapshot.shadowed]
    rows: list[CatalogRow] = []
    for skill, state, reason in found:
        counts, (source, owner) = faults.get(skill.directory, Counter()), find_source(skill)
        tokens = estimate_tokens(f"{skill.name}: {skill.description}")
        about = (source, state, reason, tokens, counts["error"], counts["warning"], skill.directory, "", owner, skill)
        rows.append(CatalogRow(skill.name, skill.description, *about))
    folders = {row.path for row in rows}
    rows += _find_left_out(snapshot.problems, folders, {os.path.dirname(row.path): row.source for row in rows})
    # Uploads are links to folders, which the host knows by where they are.
    rows += _find_hosted(entries, folders | {os.path.realpath(folder) for folder in folders if os.path.islink(folder)})
    rows += [_row_from_upload(one) for one in others]
    rows.sort(key=lambda row: (row.name.casefold(), row.path))
    notes = tuple(problem for problem in snapshot.problems if problem.rule in _NOTED_RULES)
    return CatalogRows(tuple(rows), notes, overview(snapshot.skills).tokens if snapshot.skills else 0)


def _row_from_upload(one: "StoredSkill") -> CatalogRow:
    """A private upload of another key, which administrators see as `NAME~OWNER`."""
    tokens = estimate_tokens(f"{one.name}: {one.description}")
    name = f"{one.name}{OWNER_MARK}{one.owner}"
    return CatalogRow(name, one.description, PRIVATE, "ready", tokens=tokens, owner=one.owner)


def _find_left_out(
    problems: "Iterable[Problem]", folders: set[str], sources: Mapping[str, str]
) -> Iterator[CatalogRow]:
    """Folders with a SKILL.md that cannot be used, each with its first error, and the source of its neighbours."""
    found: dict[str, list[Problem]] = {}
    for problem in problems:
        folder = os.path.dirname(problem.path)
        if problem.severity.value == "error" and folder and folder not in folders and problem.rule not in _NOTED_RULES:
            found.setdefault(folder, []).append(problem)
    for folder, faults in found.items():
        line = f" ({os.path.basename(faults[0].path)}:{faults[0].line})" if faults[0].line else ""
        reason = f"{faults[0].message}{line}"
        source = sources.get(os.path.dirname(folder), "")
        yield CatalogRow(os.path.basename(folder), "", source, "left_out", reason, None, len(faults), 0, folder)


def _find_hosted(entries: "Sequence[RegistryEntry]", folders: set[str]) -> Iterator[CatalogRow]:
    """Skills of the host that have no SKILL.md."""
    for entry in entries:
        origin = entry.origin
        if origin is not None and any(str(parent) in folders for parent in (origin, *origin.parents)):
            continue
        found = entry.registration
        reason = entry.problems[0].message if entry.problems else ""
        errors = 0 if entry.status == "ready" else len(entry.problems)
        description = found.description if found is not None else ""
        about = (description, _HOSTED, entry.status, reason, None, errors, 0, str(origin or ""), entry.id)
        yield CatalogRow(entry.id, *about)


def can_see(principal: Principal, row: CatalogRow) -> bool:
    """Whether a scope has the skill, under its name or its id on the host, and it is nobody else's private upload.

    Administrators see those, too.
    """
    name = row.hosted or row.name
    return can_see_name(principal, name.partition(OWNER_MARK)[0] if row.owner else name)


def can_see_name(principal: Principal, name: str) -> bool:
    return principal.can_invoke(name) or principal.can_invoke(name.replace("-", "_"))


def select_rows(
    snapshot: "CatalogSnapshot", found: CatalogRows, wanted: CatalogFilter, principal: Principal
) -> list[CatalogRow]:
    """The rows that match and that the caller may see, best match first if there is a query.

    Blocking: if it is asked for problems, all skills are validated, once for each state of the catalog.
    """
    rows = [row for row in found.rows if can_see(principal, row)]
    if wanted.source:
        rows = [row for row in rows if row.source == wanted.source]
    if wanted.state:
        rows = [row for row in rows if row.state == wanted.state]
    if wanted.problems:
        has_problems = wanted.problems == "yes"
        rows = count_faults(found, rows)
        rows = [row for row in rows if bool(row.errors or row.warnings) == has_problems]
    return _rank(snapshot, rows, wanted.query) if wanted.query else rows


def count_faults(found: CatalogRows, rows: Iterable[CatalogRow]) -> list[CatalogRow]:
    """The rows with the numbers of errors and warnings that `openskills validate` finds. Blocking."""
    return [_validate_row(found, row) for row in rows]


def _validate_row(found: CatalogRows, row: CatalogRow) -> CatalogRow:
    from openskills.catalog.validate import validate

    skill = row.skill
    if skill is None or skill.remote is not None:
        return row
    known = found.faults.get(skill.directory)
    if known is None:
        try:
            counts = Counter(problem.severity.value for problem in validate(skill.path).problems)
            known = counts["error"], counts["warning"]
        except (SkillError, OSError):
            # It was removed a moment ago.
            known = row.errors, row.warnings
        found.faults[skill.directory] = known
    return replace(row, errors=known[0], warnings=known[1])


def _rank(snapshot: "CatalogSnapshot", rows: Sequence[CatalogRow], query: str) -> list[CatalogRow]:
    hits = snapshot.search(query, max(len(snapshot.skills), 1))
    order = {id(hit.skill): number for number, hit in enumerate(hits)}
    ranked = sorted((row for row in rows if id(row.skill) in order), key=lambda row: order[id(row.skill)])
    # Skills that models do not see are not in the index: they are found by parts of their text.
    words = query.casefold().split()
    rest = [row for row in rows if id(row.skill) not in order and _contains(row, words)]
    # The beginning of a name is not a word of the index yet, while it is being typed.
    begins = [row for row in rest if row.name.casefold().startswith(query.casefold())]
    return [*begins, *ranked, *(row for row in rest if row not in begins)]


def _contains(row: CatalogRow, words: Sequence[str]) -> bool:
    text = f"{row.name} {row.description} {row.reason}".casefold()
    return all(word in text for word in words)


class TextPart(NamedTuple):
    """A part of a text; `is_match` if it is why a skill was found."""

    text: str
    is_match: bool


_WORD = re.compile(r"[^\W_]+")


def mark_matches(text: str, query: str, limit: int = _EXCERPT) -> list[TextPart]:
    """The text on one line, cut around the first match, with words that match the query marked.

    Words match as in the search: in other forms, as synonyms, and Chinese by pairs of characters.
    """
    text = " ".join(text.split())
    matches = _build_matcher(query) if query else None
    spans = [(at.start(), at.end()) for at in _WORD.finditer(text)] if matches else []
    found = [span for start, end in spans for span in matches(text[start:end], start)] if matches else []
    begin = max(found[0][0] - 60, 0) if found and found[0][1] > limit else 0
    end = min(begin + limit, len(text))
    parts = [TextPart("…", False)] if begin else []
    at = begin
    for first, last in found:
        if first < at or first >= end:
            continue
        parts += [TextPart(text[at:first], False), TextPart(text[first : min(last, end)], True)]
        at = min(last, end)
    parts.append(TextPart(text[at:end] + ("…" if end < len(text) else ""), False))
    return [part for part in parts if part.text]


def _build_matcher(query: str) -> Callable[[str, int], list[tuple[int, int]]]:
    """A function from a word and its position to the spans in it that match the query."""
    from openskills.catalog.vocabulary import STOP_WORDS, default_glossary, fold, split_pairs, split_text, stem

    glossary = default_glossary()
    words, runs = split_text(fold(query))
    stems = {stem(word) for word in words if word not in STOP_WORDS}
    meanings = {meaning for word in stems if (meaning := glossary.find_meaning(word))}
    pairs = {pair for run in runs for pair in (split_pairs(run)[:-1] or [run])}
    meanings |= {meaning for run in runs for _, _, meaning in glossary.find_meanings(run)}

    def match(word: str, start: int) -> list[tuple[int, int]]:
        folded = fold(word)
        if len(folded) != len(word):
            return []
        root = stem(folded)
        is_typed = any(len(one) > 2 and folded.startswith(one) for one in words)
        if root in stems or is_typed or glossary.find_meaning(root) in meanings:
            return [(start, start + len(word))]
        # Occurrences may overlap.
        starts = [(at.start(), pair) for pair in pairs for at in re.finditer(f"(?={re.escape(pair)})", folded)]
        spans = [(at, at + len(pair)) for at, pair in starts]
        spans += [(first, last) for first, last, meaning in glossary.find_meanings(folded) if meaning in meanings]
        return [(start + first, start + last) for first, last in _join_spans(spans)]

    return match


def _join_spans(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def _count_body_tokens(found: CatalogRows, rows: Sequence[CatalogRow]) -> list[int | None]:
    """Estimated tokens of the instructions of each row; None if they cannot be read or are on a server. Blocking."""
    for row in rows:
        skill = row.skill
        if skill is not None and skill.remote is None and skill.directory not in found.bodies:
            try:
                found.bodies[skill.directory] = estimate_tokens(skill.body())
            except (SkillError, OSError):
                found.bodies[skill.directory] = None
    return [None if row.skill is None else found.bodies.get(row.skill.directory) for row in rows]


async def show_catalog(request: "PageRequest") -> HttpResponse:
    parts = request.host
    snapshot, found = await load_rows(parts, request.caller)
    wanted = CatalogFilter.parse(request.query)
    rows = await asyncio.to_thread(select_rows, snapshot, found, wanted, request.caller)
    page = _parse_number(request.query.get("page", "1"), "page", 1, 1_000_000)
    pages = max(-(-len(rows) // PAGE_SIZE), 1)
    page = min(page, pages)
    shown = await asyncio.to_thread(count_faults, found, rows[(page - 1) * PAGE_SIZE : page * PAGE_SIZE])
    bodies = await asyncio.to_thread(_count_body_tokens, found, shown)
    visible = [row for row in found.rows if can_see(request.caller, row)]
    counts = Counter(row.state for row in visible)
    given = {name: value for name, value in zip(("q", *wanted._fields[1:]), wanted, strict=True) if value}
    context: dict[str, Any] = {
        "rows": [
            {
                "row": row,
                "body": body,
                "name": mark_matches(row.name, wanted.query),
                "description": mark_matches(row.description, wanted.query),
            }
            for row, body in zip(shown, bodies, strict=True)
        ],
        "wanted": wanted,
        "address": f"?{urlencode(given | {'page': ''})}",
        "page": page,
        "pages": pages,
        "matching": len(rows),
        "counts": counts,
        "total": len(visible),
        "own_sources": (_HOSTED, PRIVATE, UPLOADS),
        "sources": sorted({row.source for row in visible if row.source}),
        "states": [state for state in STATES if counts[state]],
        "notes": found.notes if request.caller.has_role("admin") else (),
        "overview_tokens": found.overview_tokens,
    }
    return request.render("catalog.html", context, block="results")


def _parse_number(text: str, name: str, low: int, high: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 8 and low <= int(text) <= high):
        raise InvalidArgument(name, f"{text[:20]!r} is not a number from {low:,} to {high:,}")
    return int(text)


async def list_catalog(exchange: HttpExchange, parts: HostParts, principal: Principal) -> HttpResponse:
    """`GET /catalog`: the skills that the caller may see, with the parameters of the page, `limit` and `offset`."""
    query = exchange.read_query()
    limit = _parse_number(query.get("limit", str(PAGE_SIZE)), "limit", 1, MAX_PAGE_SIZE)
    offset = _parse_number(query.get("offset", "0"), "offset", 0, 1_000_000)
    snapshot, found = await load_rows(parts, principal)
    rows = await asyncio.to_thread(select_rows, snapshot, found, CatalogFilter.parse(query), principal)
    shown = await asyncio.to_thread(count_faults, found, rows[offset : offset + limit])
    listed = {
        "skills": [row.to_dict() for row in shown],
        "total": len(rows),
        "overview_tokens": found.overview_tokens,
        "problems": [str(problem) for problem in found.notes] if principal.has_role("admin") else [],
    }
    return build_document(listed, exchange.trace, latency_ms=exchange.latency_ms)


PAGES = (("GET", "/", show_catalog),)
