"""The list of available skills for the model, within a token budget."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple
from unicodedata import combining

from openskills.arguments import check_arguments
from openskills.catalog.skill import Skill
from openskills.errors import InvalidArgument
from openskills.prompt.blocks import escape_xml, quote_name, to_json_text, to_one_line
from openskills.tokens import TokenCounter, estimate_tokens

MIN_DESCRIPTION_CHARS = 40
"""Descriptions are not cut below this length."""


class OverviewFormat(StrEnum):
    """The format of the list: XML as in the specification, compact bullets, or one JSON object."""

    XML = "xml"
    BULLETS = "bullets"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Overview:
    """The text for the prompt, its tokens, and the names of the skills that it does not show in full."""

    text: str
    tokens: int
    shortened: tuple[str, ...] = ()
    names_only: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class _OverviewEntry(NamedTuple):
    name: str
    label: str
    description: str
    location: str
    pinned: bool


class _OverviewForm(NamedTuple):
    """What a renderer writes: skills with name, description and location, names alone, and what was left out."""

    skills: Sequence[tuple[str, str, str]]
    names: Sequence[str]
    note: str


@check_arguments
def overview(
    skills: Iterable[Skill],
    format: OverviewFormat | str = OverviewFormat.XML,  # noqa: A002
    budget_tokens: int | None = None,
    *,
    pinned: Collection[str] = (),
    locations: bool = False,
    count: TokenCounter = estimate_tokens,
) -> Overview:
    """List names and descriptions, sorted by name; the same skills always give the same text.

    With a budget, the first of these forms that fits is used, and the text says what was left out:

    1. Full descriptions.
    2. Descriptions cut to a common length of at least 40 characters: the longest that fits, within 1 % of the budget.
    3. Only the names of all skills that are not pinned.
    4. As many names as fit, and a hint to use `skill_search` for the rest.

    Skills in `pinned` keep their full description; unknown names are ignored. If nothing fits, the form with the fewest
    tokens is returned and exceeds the budget. `tokens` is always `count(text)`. Without skills the text is empty.

    Names and descriptions are put on one line, without invisible characters. Raises `InvalidArgument` for an unknown
    format and for a budget that is not positive.
    """
    if budget_tokens is not None and budget_tokens <= 0:
        raise InvalidArgument("budget_tokens", f"must be at least 1, or None for no limit; got {budget_tokens}")
    composer = _OverviewRenderer(_find_renderer(format), count)
    always = frozenset(pinned)
    entries = [
        _OverviewEntry(
            skill.name,
            to_one_line(skill.name) or "?",
            to_one_line(skill.description),
            to_one_line(skill.location) if locations else "",
            skill.name in always,
        )
        for skill in sorted(skills, key=lambda skill: (skill.name, skill.directory, skill.description))
    ]
    if not entries:
        return Overview("", 0)
    whole = composer.render_descriptions(entries)
    if budget_tokens is None or whole.tokens <= budget_tokens:
        return whole
    return _fit_budget(budget_tokens, entries, whole, composer)


def shorten(text: str, limit: int) -> str:
    """Cut to `limit` characters, after a sentence that ends in the last quarter, else after a word."""
    if len(text) <= limit:
        return text
    earliest = limit * 3 // 4
    sentence = max([text.rfind(stop, earliest, limit - 1) for stop in (_STOPS[:3] if text.isascii() else _STOPS)])
    if sentence >= 0:
        return text[: sentence + 1] + (" …" if text[sentence].isascii() else "…")
    end = limit - 1
    while end > earliest and combining(text[end]):
        end -= 1
    # Chinese can be cut between any two characters, other text at a space if there is one.
    if text[end] != " " and text[end] < "\u2e80":
        space = text.rfind(" ", limit // 2, end)
        end = space if space >= 0 else end
    return text[:end].rstrip(" ,;:-–—(、，：（") + "…"


_STOPS = (". ", "! ", "? ", "。", "！", "？", "；")


@dataclass(frozen=True, slots=True)
class _OverviewRenderer:
    render: Callable[[_OverviewForm], str]
    count: TokenCounter

    def render_descriptions(self, entries: Sequence[_OverviewEntry], limit: int | None = None) -> Overview:
        """All entries with their descriptions, those that are not pinned cut to `limit`."""
        shown: list[tuple[str, str, str]] = []
        cut: list[str] = []
        for name, label, description, location, pinned in entries:
            text = description if limit is None or pinned else shorten(description, limit)
            shown.append((label, text, location))
            if text is not description:
                cut.append(name)
        return self._build(_OverviewForm(shown, (), _format_note(len(cut), 0, 0)), shortened=tuple(cut))

    def render_names(self, entries: Sequence[_OverviewEntry], max_names: int | None = None) -> Overview:
        """The pinned entries in full, and the first `max_names` of the others by name."""
        shown = [(entry.label, entry.description, entry.location) for entry in entries if entry.pinned]
        others = [entry for entry in entries if not entry.pinned]
        named, left = others[:max_names], others[len(others) if max_names is None else max_names :]
        form = _OverviewForm(shown, [entry.label for entry in named], _format_note(0, len(named), len(left)))
        return self._build(
            form, names_only=tuple(entry.name for entry in named), left_out=tuple(entry.name for entry in left)
        )

    def _build(
        self,
        form: _OverviewForm,
        shortened: tuple[str, ...] = (),
        names_only: tuple[str, ...] = (),
        left_out: tuple[str, ...] = (),
    ) -> Overview:
        text = self.render(form)
        return Overview(text, self.count(text), shortened, names_only, left_out)


def _fit_budget(
    budget: int, entries: Sequence[_OverviewEntry], whole: Overview, composer: _OverviewRenderer
) -> Overview:
    shortest = composer.render_descriptions(entries, MIN_DESCRIPTION_CHARS)
    if shortest.tokens <= budget:
        lengths = [len(entry.description) for entry in entries if not entry.pinned]
        span = _SizeRange(MIN_DESCRIPTION_CHARS, shortest, max(lengths), whole.tokens)
        return _find_largest(
            budget, span, lambda limit: composer.render_descriptions(entries, limit), _build_size_function(lengths)
        )
    names = composer.render_names(entries)
    if names.tokens <= budget:
        return names
    hint = composer.render_names(entries, 0)
    if hint.tokens <= budget:
        span = _SizeRange(0, hint, len(names.names_only), names.tokens)
        return _find_largest(budget, span, lambda number: composer.render_names(entries, number), float)
    return min((whole, shortest, names, hint), key=lambda form: form.tokens)


class _SizeRange(NamedTuple):
    """A number whose form fits, and a larger one whose form has too many tokens."""

    fits: int
    form: Overview
    too_much: int
    tokens: int


def _find_largest(
    budget: int, span: _SizeRange, form: Callable[[int], Overview], size: Callable[[int], float]
) -> Overview:
    """The form of the largest number that fits, or that uses at least 99 % of the budget.

    `size` is cheap and roughly proportional to the tokens, so that few forms have to be rendered.
    """
    fits, best, too_much, tokens = span
    tries = 0
    while too_much - fits > 1 and best.tokens < 0.99 * budget:
        tries += 1
        # After a few interpolated guesses, fall back to bisection.
        share = (budget - best.tokens) / (tokens - best.tokens) if tries < 6 else 0.5
        wanted = size(fits) + share * (size(too_much) - size(fits))
        middle = fits + max(1, bisect_right(range(fits + 1, too_much), wanted, key=size))
        candidate = form(middle)
        if candidate.tokens <= budget:
            fits, best = middle, candidate
        else:
            too_much, tokens = middle, candidate.tokens
    return best


def _build_size_function(lengths: Iterable[int]) -> Callable[[int], float]:
    """The total length when every description is cut to a limit, as a function of the limit."""
    ordered = sorted(lengths)
    sums = list(accumulate(ordered, initial=0))

    def size(limit: int) -> float:
        whole = bisect_right(ordered, limit)
        return sums[whole] + (len(ordered) - whole) * limit

    return size


def _format_note(shortened: int, named: int, left_out: int) -> str:
    parts = [
        f"{shortened} {'description is' if shortened == 1 else 'descriptions are'} shortened." if shortened else "",
        f"{named} {'skill is' if named == 1 else 'skills are'} listed by name only." if named else "",
        "1 more skill is not listed; find it with skill_search." if left_out == 1 else "",
        f"{left_out} more skills are not listed; find them with skill_search." if left_out > 1 else "",
    ]
    return " ".join(filter(None, parts))


def _find_renderer(name: OverviewFormat | str) -> Callable[[_OverviewForm], str]:
    try:
        return _RENDERERS[OverviewFormat(name)]
    except ValueError:
        raise InvalidArgument("format", f"unknown format {name!r}; use one of {', '.join(OverviewFormat)}") from None


def _render_xml(form: _OverviewForm) -> str:
    lines = ["<available_skills>"]
    for name, description, location in form.skills:
        place = f"\n    <location>{escape_xml(location)}</location>" if location else ""
        lines.append(
            f"  <skill>\n    <name>{escape_xml(name)}</name>\n"
            f"    <description>{escape_xml(description)}</description>{place}\n  </skill>"
        )
    if form.names:
        lines.append(f"  <more_skills>{escape_xml(', '.join(map(quote_name, form.names)))}</more_skills>")
    if form.note:
        lines.append(f"  <note>{form.note}</note>")
    lines.append("</available_skills>")
    return "\n".join(lines)


def _render_bullets(form: _OverviewForm) -> str:
    lines = ["Available skills:"]
    for name, description, location in form.skills:
        place = f" ({location})" if location else ""
        lines.append(f"- {quote_name(name)}{': ' if description else ''}{description}{place}")
    if form.names:
        lines.append(f"By name only: {', '.join(map(quote_name, form.names))}")
    if form.note:
        lines.append(f"Note: {form.note}")
    return "\n".join(lines)


def _render_json(form: _OverviewForm) -> str:
    value: dict[str, object] = {
        "available_skills": [
            {"name": name, "description": text, "location": place} if place else {"name": name, "description": text}
            for name, text, place in form.skills
        ]
    }
    if form.names:
        value["more_skills"] = list(form.names)
    if form.note:
        value["note"] = form.note
    return to_json_text(value)


_RENDERERS: dict[OverviewFormat, Callable[[_OverviewForm], str]] = {
    OverviewFormat.XML: _render_xml,
    OverviewFormat.BULLETS: _render_bullets,
    OverviewFormat.JSON: _render_json,
}
