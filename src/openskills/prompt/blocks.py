"""Loaded texts as blocks, cut to a budget.

Text from somebody's skill, made harmless before a model reads it: one line, nothing invisible, no way out.

What has to be in the model's sight, and where it may stand. Plain values.

Loaded texts as the model reads them: blocks with the markers of the mission documents. Pure.

Parts of a document by lines: `guide.md#L120`, `guide.md#L120-L180`, `guide.md#L1C4000`. Pure.

Texts cut to a budget of tokens, at a stated place. Pure.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from openskills.errors import InvalidArgument
from openskills.tokens import TokenCounter

# What a reader of the prompt cannot see but a model reads, or what reorders or breaks the text around it. Among them:
# zero-width and bidi controls, soft hyphen, fillers, variation selectors (emoji lose nothing that a model needs), tag
# characters and lone surrogates. White space is not among them: it becomes a space.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]+"
)
_ODD_SPACE = re.compile("[\x0b\x0c\r\x1c-\x1f\x85\u2028\u2029]")
_NOT_PLAIN = re.compile(r"[,;:\"'`\[\](){}<>|\\]")


def to_one_line(text: str) -> str:
    """The text without control, bidi, zero-width, tag and other invisible characters; white space is single spaces."""
    if not (text.isascii() and text.isprintable()):
        text = _INVISIBLE.sub("", text)
    return " ".join(text.split())


def strip_invisible(text: str) -> str:
    """The text without what nobody can see; its lines stay lines."""
    return _INVISIBLE.sub("", _ODD_SPACE.sub(" ", text))


def escape_xml(line: str) -> str:
    """As the content of an XML element. Quotes stay: they are harmless there and would cost tokens."""
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def quote_name(line: str) -> str:
    """A name as it stands in a bullet or a list of names: in quotes if it could be taken for anything but one name."""
    return line if line[:1].isalnum() and not _NOT_PLAIN.search(line) else json.dumps(line, ensure_ascii=False)


def to_json_text(value: object) -> str:
    """Compact JSON on one line that can also stand inside XML-like tags: `<` and `>` are written as escapes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


class Placement(StrEnum):
    """Where loaded texts stand: in the result of the call that asked for them, or in the system message."""

    TOOL_RESULT = "tool_result"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class LoadedText:
    """A text as the model sees it. `path` is `SKILL.md` or the path of a document in its skill.

    `cut_after` is the last line that is shown when the text did not fit, of `lines` in all; `text` says so then.
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
    """What the tokens of a request are spent on.

    `fallback` is what stands in the extra message because history lost its place, `other` is what is not ours.
    """

    OVERVIEW = "overview"
    GUIDANCE = "guidance"
    BODY = "body"
    DOCS = "docs"
    FALLBACK = "fallback"
    OTHER = "other"


class PromptPart(NamedTuple):
    """A text of ours in a request; `skill` is empty for what belongs to none."""

    layer: PromptLayer
    skill: str
    text: str


CONTEXT = "Loaded skill context:"
"""The first line of the message that carries what has no other place."""


class SkillBlock(NamedTuple):
    """Texts of one skill that stand together: its body, unless that stands elsewhere, and documents."""

    skill: str
    body: LoadedText | None = None
    docs: tuple[LoadedText, ...] = ()

    def render(self) -> str:
        """`[Loaded] name`, a blank line, the body; `Docs loaded:` and the paths; each document under `[Doc] path`."""
        head = "" if self.body is None else _format_section(f"[Loaded] {to_one_line(self.skill)}", self.body.text)
        docs = [_format_section(f"[Doc] {to_one_line(doc.path)}", doc.text) for doc in self.docs]
        return "\n".join([f"{head}{format_docs_line(self.docs)}\n", *docs]).rstrip("\n")


Addition: TypeAlias = tuple[str | SkillBlock, ...]
"""What is put at the end of a message, a blank line before each."""


def render_addition(added: Addition) -> str:
    """An addition as one text."""
    return "\n\n".join(part if isinstance(part, str) else part.render() for part in added)


def format_docs_line(docs: Sequence[LoadedText]) -> str:
    """`Docs loaded: a.md, b.md`, or `none`."""
    return f"Docs loaded: {', '.join(_quote_path(doc.path) for doc in docs) or 'none'}"


def format_docs_heading(skill: str) -> str:
    """Stands above documents whose skill's body is somewhere else."""
    return f"Documents of {to_one_line(skill)}, whose instructions stand in their own place:"


def format_already_loaded(skill: str) -> str:
    """Stands in the result of a load of what was loaded already."""
    return f"Already in context: the instructions of {to_one_line(skill)} stand above."


def format_withdrawn(skill: str) -> str:
    """Stands in a result whose texts have gone. It stays true when the skill is loaded again further below."""
    return (
        f"[Unloaded] {to_one_line(skill)}: no longer in context here; unless it is loaded again below, call skill_load."
    )


def _format_section(head: str, text: str) -> str:
    if not text:
        return f"{head}\n"
    return f"{head}\n\n{text}" if text.endswith("\n") else f"{head}\n\n{text}\n"


def _quote_path(path: str) -> str:
    """A path in a list of paths, in quotes if it could be taken for two."""
    line = to_one_line(path)
    return json.dumps(line, ensure_ascii=False) if "," in line or '"' in line else line


_FRAGMENT = re.compile(
    r"(?P<path>.+)#L(?P<first>[1-9]\d{0,8})(?:C(?P<character>[1-9]\d{0,8}))?(?:-L?(?P<last>[1-9]\d{0,8}))?",
    re.ASCII | re.DOTALL,
)


class LineRange(NamedTuple):
    """Some lines of a text, both ends included: from a character of the first one on; None is the end of the text."""

    first: int
    last: int | None = None
    character: int = 1


def parse_fragment(name: str) -> tuple[str, LineRange | None]:
    """A path, and the lines that are meant; None for all of them."""
    match = _FRAGMENT.fullmatch(name)
    if match is None:
        return name, None
    last = int(match["last"]) if match["last"] else None
    return match["path"], LineRange(int(match["first"]), last, int(match["character"] or 1))


def select_lines(text: str, lines: LineRange) -> str:
    """These lines of a text; nothing when it has fewer."""
    return "".join(split_lines(text)[lines.first - 1 : lines.last])[lines.character - 1 :]


def split_lines(text: str) -> list[str]:
    """The lines of a text with their ends; only `\\n` ends a line, as for everybody who counts lines."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


ContinuationNote: TypeAlias = Callable[[int, int], str]
"""How to read on from a line, and from a character of it: a sentence for the model."""

MIN_TOKENS = 64
"""With less room than this many tokens, showing a text makes no sense."""


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """How many tokens one body, one document, and all loaded texts of an agent may have, their headings included."""

    body: int = 20_000
    doc: int = 20_000
    total: int = 80_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < MIN_TOKENS:
                raise InvalidArgument(
                    f"budget.{field.name}", f"{value} is too little; {MIN_TOKENS} tokens is the least"
                )


def fit_text(
    path: str, text: str, room: int, count: TokenCounter, rest: ContinuationNote, part: LineRange | None = None
) -> LoadedText:
    """The text, or as many of its first lines as fit into `room` tokens and a line that says how to read on.

    A first line that is too long by itself is cut within. Less room than `LEAST` counts as that much. With `part`, only
    those lines of the text are meant; lines are counted from its beginning all the same.
    """
    first, character = (part.first, part.character) if part else (1, 1)
    wanted = select_lines(text, part) if part else text
    whole = text.count("\n") + (not text.endswith("\n") and bool(text))
    room = max(room, MIN_TOKENS)
    tokens = count(wanted)
    if tokens <= room:
        return LoadedText(path, wanted, tokens, whole)
    lines = split_lines(wanted)
    # Each part is counted by itself, and so rounded by itself.
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
    """As much of one line as fits."""
    low, high = 0, len(line)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(line[:middle]) <= room else (low, middle - 1)
    return line[:low]


def _format_cut_note(line: int, lines: int, rest: str, *, within: bool = False) -> str:
    return f"[cut {'within' if within else 'after'} line {line} of {lines}; {rest}]"
