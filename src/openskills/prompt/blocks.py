"""Loaded texts as blocks of a prompt, sanitized and cut to a token budget. No I/O."""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from openskills.arguments import check_arguments
from openskills.errors import InvalidArgument
from openskills.tokens import TokenCounter

# Characters that are invisible to people but not to a model, or that reorder or break the text around them: zero-width
# and bidi controls, soft hyphen, fillers, variation selectors, tag characters, lone surrogates. Not white space.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]+"
)
_ODD_SPACE = re.compile("[\x0b\x0c\r\x1c-\x1f\x85\u2028\u2029]")
_NOT_PLAIN = re.compile(r"[,;:\"'`\[\](){}<>|\\]")


def to_one_line(text: str) -> str:
    """Remove invisible characters and collapse white space to single spaces."""
    if not (text.isascii() and text.isprintable()):
        text = _INVISIBLE.sub("", text)
    return " ".join(text.split())


def strip_invisible(text: str) -> str:
    """Remove invisible characters; line breaks stay."""
    return _INVISIBLE.sub("", _ODD_SPACE.sub(" ", text))


def escape_xml(line: str) -> str:
    """Escape text for an XML element. Quotes stay, they are harmless there."""
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def quote_name(line: str) -> str:
    """Quote a name for a list of names if it would be ambiguous."""
    return line if line[:1].isalnum() and not _NOT_PLAIN.search(line) else json.dumps(line, ensure_ascii=False)


def to_json_text(value: object) -> str:
    """Compact JSON on one line, with `<` and `>` escaped for use inside XML-like tags."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


class Placement(StrEnum):
    """Where loaded texts are placed: in the result of the call that loaded them, or in the system message."""

    TOOL_RESULT = "tool_result"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class LoadedText:
    """A text as the model sees it. `path` is `SKILL.md` or the path of a document in its skill.

    `cut_after` is the last shown line of `lines` if the text was cut; `text` says so.
    """

    path: str
    text: str
    tokens: int
    lines: int
    cut_after: int | None = None


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """A loaded skill with its body and its selected documents, in order of path."""

    skill: str
    body: LoadedText
    docs: tuple[LoadedText, ...] = ()


class PromptLayer(StrEnum):
    """What the tokens of a request are used for.

    `tools` are the descriptions of tools; `fallback` are texts in the extra message, because their place in the history
    was lost; `other` is everything else.
    """

    TOOLS = "tools"
    OVERVIEW = "overview"
    GUIDANCE = "guidance"
    BODY = "body"
    DOCS = "docs"
    FALLBACK = "fallback"
    OTHER = "other"


class PromptPart(NamedTuple):
    """A text that was added to a request; `skill` may be empty."""

    layer: PromptLayer
    skill: str
    text: str


LOADED_MARK, DOC_MARK, DOCS_MARK = "[Loaded] ", "[Doc] ", "Docs loaded: "
"""The beginnings of the lines before a body, before a document and between them."""
_BODY = re.compile(rf"^{re.escape(LOADED_MARK)}(?P<name>[^\n]+)\n", re.MULTILINE)
_BODY_END = re.compile("^(?:" + "|".join(map(re.escape, (LOADED_MARK, DOC_MARK, DOCS_MARK))) + ")", re.MULTILINE)

CONTEXT = "Loaded skill context:"
"""The first line of the extra message."""


class SkillBlock(NamedTuple):
    """Texts of one skill that are placed together: its body, unless it is elsewhere, and documents."""

    skill: str
    body: LoadedText | None = None
    docs: tuple[LoadedText, ...] = ()

    def render(self) -> str:
        """`[Loaded] name`, a blank line, the body; `Docs loaded:` and the paths; each document under `[Doc] path`."""
        head = "" if self.body is None else _format_section(f"{LOADED_MARK}{to_one_line(self.skill)}", self.body.text)
        docs = [_format_section(f"{DOC_MARK}{to_one_line(doc.path)}", doc.text) for doc in self.docs]
        return "\n".join([f"{head}{format_docs_line(self.docs)}\n", *docs]).rstrip("\n")


Addition: TypeAlias = tuple[str | SkillBlock, ...]
"""Texts to append to a message, separated by blank lines."""


def render_addition(added: Addition) -> str:
    return "\n\n".join(part if isinstance(part, str) else part.render() for part in added)


def find_bodies(text: str) -> Iterator[tuple[str, str]]:
    """The skills whose bodies a rendered text has, and the bodies."""
    for loaded in _BODY.finditer(text):
        end = _BODY_END.search(text, loaded.end())
        yield loaded["name"], text[loaded.end() : end.start() if end else len(text)].strip()


def format_docs_line(docs: Sequence[LoadedText]) -> str:
    """`Docs loaded: a.md, b.md`, or `none`."""
    return f"{DOCS_MARK}{', '.join(_quote_path(doc.path) for doc in docs) or 'none'}"


def format_docs_heading(skill: str) -> str:
    """The heading of documents whose skill's body is elsewhere."""
    return f"Documents of {to_one_line(skill)}, whose instructions stand in their own place:"


def format_already_loaded(skill: str) -> str:
    """The text in the result of a repeated load."""
    return f"Already in context: the instructions of {to_one_line(skill)} stand above."


def format_withdrawn(skill: str) -> str:
    """The text in a result whose texts are unloaded. It stays true if the skill is loaded again below."""
    return (
        f"[Unloaded] {to_one_line(skill)}: no longer in context here; unless it is loaded again below, call skill_load."
    )


def _format_section(head: str, text: str) -> str:
    if not text:
        return f"{head}\n"
    return f"{head}\n\n{text}" if text.endswith("\n") else f"{head}\n\n{text}\n"


def _quote_path(path: str) -> str:
    line = to_one_line(path)
    return json.dumps(line, ensure_ascii=False) if "," in line or '"' in line else line


_FRAGMENT = re.compile(
    r"(?P<path>.+)#L(?P<first>[1-9]\d{0,8})(?:C(?P<character>[1-9]\d{0,8}))?(?:-L?(?P<last>[1-9]\d{0,8}))?",
    re.ASCII | re.DOTALL,
)


class LineRange(NamedTuple):
    """A range of lines, inclusive, starting at a character of the first; `last` None is the end of the text."""

    first: int
    last: int | None = None
    character: int = 1


def parse_fragment(name: str) -> tuple[str, LineRange | None]:
    """Split `guide.md#L120`, `#L120-L180` or `#L1C4000` into path and lines; None for all lines."""
    match = _FRAGMENT.fullmatch(name)
    if match is None:
        return name, None
    last = int(match["last"]) if match["last"] else None
    return match["path"], LineRange(int(match["first"]), last, int(match["character"] or 1))


def select_lines(text: str, lines: LineRange) -> str:
    """Select lines of a text; empty if it has fewer."""
    return "".join(split_lines(text)[lines.first - 1 : lines.last])[lines.character - 1 :]


def split_lines(text: str) -> list[str]:
    """Split a text into lines with their ends; only `\\n` ends a line."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


ContinuationNote: TypeAlias = Callable[[int, int], str]
"""How to read on from a line and character: a sentence for the model."""

MIN_TOKENS = 64
"""The minimum number of tokens for a text."""


@check_arguments
@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Maximum tokens of a body, of a document, and of all loaded texts of an agent, including headings."""

    body: int = 20_000
    doc: int = 20_000
    total: int = 80_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < MIN_TOKENS:
                raise InvalidArgument(f"budget.{field.name}", f"{value} is too small, at least {MIN_TOKENS} tokens")


def fit_text(
    path: str, text: str, room: int, count: TokenCounter, rest: ContinuationNote, part: LineRange | None = None
) -> LoadedText:
    """Fit a text into `room` tokens: whole, or its first lines and a note that says how to read on.

    A single line that is too long is cut. Less room than `MIN_TOKENS` counts as that much. With `part`, only those
    lines are used; line numbers still refer to the whole text.
    """
    first, character = (part.first, part.character) if part else (1, 1)
    wanted = select_lines(text, part) if part else text
    whole = text.count("\n") + (not text.endswith("\n") and bool(text))
    room = max(room, MIN_TOKENS)
    tokens = count(wanted)
    if tokens <= room:
        return LoadedText(path, wanted, tokens, whole)
    lines = split_lines(wanted)
    # The parts are counted, and so rounded, separately.
    room -= count(f"\n\n{_format_cut_note(whole, whole, rest(whole, len(wanted)))}\n") + 2
    ends = list(accumulate(map(len, lines)))
    kept = bisect_right(ends, 0, key=lambda end: 0 if count(wanted[:end]) <= room else 1)
    if kept:
        shown, note = wanted[: ends[kept - 1]], _format_cut_note(first + kept - 1, whole, rest(first + kept, 1))
    else:
        shown = _fit_line(lines[0], room, count)
        note = _format_cut_note(first, whole, rest(first, character + len(shown)), within=True)
    cut = f"{shown.rstrip() if kept else shown}\n\n{note}\n"
    return LoadedText(path, cut, count(cut), whole, first + kept - 1)


def _fit_line(line: str, room: int, count: TokenCounter) -> str:
    low, high = 0, len(line)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(line[:middle]) <= room else (low, middle - 1)
    return line[:low]


def _format_cut_note(line: int, lines: int, rest: str, *, within: bool = False) -> str:
    return f"[cut {'within' if within else 'after'} line {line} of {lines}; {rest}]"
