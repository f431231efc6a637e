"""A documented command with the user's files, words and numbers in the place of its examples. Pure."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from openskills.agent.rule_request import numbers_in, payload, value_of

INPUTS = "inputs/"
OUT = "out/"

_WORD = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'])+""")
_OPTIONAL = re.compile(r"""[ \t]+\[[^\]"']*\](?:\.{3}|…)?""")
_INTERPRETERS = frozenset({"python", "python3", "bash", "sh", "node", "uv", "run"})
_OUTPUT_OPTION = re.compile(r"--?(?:o|out|output|outfile|(?:out|output)-(?:file|dir)|dest)|1?>>?")
_OPTION_VALUE = re.compile(r"(?P<option>--[\w-]+)=(?P<value>.+)", re.DOTALL)
_OURS = re.compile(r"(?:\./)?(?:scripts|references|assets)/|\$OUTPUT_DIR|out/")
_FILE_NAME = re.compile(r"[^\s*?:;|&<>(){}]*\w\.[A-Za-z]\w{0,7}")
_FOLDERS = frozenset({"docs", "folder", "data", "notes"})
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_PLACEHOLDER = re.compile(r"<(?P<what>[^<>]+)>|(?P<loud>[A-Z][A-Z0-9_]+)(?:\.{3}|…)?")
_DOTS = frozenset({"...", "…"})


class Kind(StrEnum):
    """What a word of a command stands for."""

    PLAIN = "plain"
    FILE = "file"
    OUTPUT = "output"
    VALUE = "value"
    TEXT = "text"
    NUMBERS = "numbers"
    UNKNOWN = "unknown"


_MEANINGS = (
    (Kind.FILE, re.compile(r"(?:input_?)?(?:files?|paths?|inputs?|csv|tsv|tables?|logs?|pdf|document|folder|dir).*")),
    (Kind.TEXT, re.compile(r"(?:your_)?(?:text|message|query|words|pattern|question|request)(?:_here)?")),
    (Kind.NUMBERS, re.compile(r"numbers?|values?")),
)


@dataclass(frozen=True, slots=True)
class Filled:
    """A command that can be run, unless something is `missing`: `file`, `numbers`, or a placeholder as it stands.

    `used` are the user's files in it; it `repeats` when it takes one file and can be run again for another.
    """

    command: str
    used: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    repeats: bool = False


@dataclass(slots=True)
class _Slot:
    """Neighbouring words of a kind. `prefix` is the option of a value that stands in one word with it.

    `option` is the word before it.
    """

    kind: Kind
    examples: list[str]
    prefix: str = ""
    option: str = ""


@dataclass(slots=True)
class _Filling:
    """What there is to put into slots, and what became of it."""

    files: Sequence[str]
    text: str
    label: str
    used: list[str] = field(default_factory=list[str])
    missing: list[str] = field(default_factory=list[str])


def filled(command: str, files: Sequence[str], text: str, *, label: str = "") -> Filled:
    """The command for these files and what the request says. What it writes goes to `out/`, with `label` in its name.

    A place for one file takes the first that has the same ending, or just the first; a row of them takes all.
    """
    slots = _slots(_WORD.findall(_OPTIONAL.sub("", command)))
    filling = _Filling(files, text, label)
    words = [f"{slot.prefix}{word}" for slot in slots for word in _put(slot, filling)]
    places = [slot for slot in slots if slot.kind is Kind.FILE]
    repeats = len(places) == 1 and len(places[0].examples) == 1
    missing = tuple(dict.fromkeys(filling.missing))
    return Filled(" ".join(words), tuple(filling.used), missing, repeats and not missing)


def _slots(words: Sequence[str]) -> list[_Slot]:
    slots: list[_Slot] = []
    for slot in _single_slots(words):
        last = slots[-1] if slots else None
        together = last is not None and last.kind is slot.kind and not last.prefix and not slot.prefix
        if together and last is not None and slot.kind in (Kind.FILE, Kind.NUMBERS):
            last.examples += slot.examples
        elif slot.kind is not Kind.PLAIN or slot.examples[0] not in _DOTS:
            slots.append(slot)
    for slot in slots:
        # One number is a setting (`--top 20`); a row of them is an example of what the user has.
        if slot.kind is Kind.NUMBERS and len(slot.examples) == 1 and _NUMBER.fullmatch(slot.examples[0]):
            slot.kind = Kind.PLAIN
    return slots


def _single_slots(words: Sequence[str]) -> Iterator[_Slot]:
    script = next((index for index, word in enumerate(words) if word not in _INTERPRETERS), 0)
    for index, word in enumerate(words):
        option = _OPTION_VALUE.fullmatch(word)
        if index <= script:
            yield _Slot(Kind.PLAIN, [word])
        elif option is not None:
            kind = Kind.OUTPUT if _OUTPUT_OPTION.fullmatch(option["option"]) else _kind(option["value"])
            yield _Slot(kind, [option["value"]], f"{option['option']}=")
        elif _OUTPUT_OPTION.fullmatch(words[index - 1]):
            yield _Slot(Kind.OUTPUT, [word])
        elif word in _FOLDERS and index + 1 < len(words) and _kind(words[index + 1]) is Kind.FILE:
            yield _Slot(Kind.FILE, [word])
        else:
            yield _Slot(_kind_after(words[index - 1], word), [word], option=words[index - 1])


def _kind_after(before: str, word: str) -> Kind:
    if word.startswith("-") and not _NUMBER.fullmatch(word):
        return Kind.PLAIN
    kind = _kind(word)
    return Kind.VALUE if before.startswith("--") and kind in (Kind.PLAIN, Kind.NUMBERS) else kind


def _kind(word: str) -> Kind:
    bare = word.strip("\"'")
    placeholder = _PLACEHOLDER.fullmatch(bare)
    if placeholder is not None:
        return _meaning(placeholder["what"] or placeholder["loud"], certain=placeholder["what"] is not None)
    if _OURS.match(bare) or "://" in bare:
        return Kind.PLAIN
    if _NUMBER.fullmatch(bare):
        return Kind.NUMBERS
    if _FILE_NAME.fullmatch(bare) or bare.startswith(("path/to/", INPUTS, f"work/{INPUTS}")):
        return Kind.FILE
    # What is quoted and has blanks is a sentence.
    return Kind.TEXT if word[:1] in ("'", '"') and " " in bare else Kind.PLAIN


def _meaning(what: str, *, certain: bool) -> Kind:
    name = what.strip().lower().replace(" ", "_").replace("-", "_").rstrip("._…")
    for kind, pattern in _MEANINGS:
        if pattern.fullmatch(name):
            return kind
    if _FILE_NAME.fullmatch(what):
        return Kind.FILE
    return Kind.UNKNOWN if certain else Kind.PLAIN


def _put(slot: _Slot, filling: _Filling) -> list[str]:
    match slot.kind:
        case Kind.FILE:
            return _put_files(slot, filling)
        case Kind.OUTPUT:
            return [_output(slot.examples[0], filling.label)]
        case Kind.VALUE:
            said = value_of(slot.option.lstrip("-"), filling.text)
            return [shlex.quote(said)] if said else slot.examples
        case Kind.TEXT:
            return [shlex.quote(payload(filling.text))]
        case Kind.NUMBERS:
            numbers = numbers_in(filling.text)
            filling.missing += [] if numbers else [slot.kind]
            return numbers
        case Kind.UNKNOWN:
            filling.missing += slot.examples
            return slot.examples
        case Kind.PLAIN:
            return slot.examples


def _put_files(slot: _Slot, filling: _Filling) -> list[str]:
    left = [name for name in filling.files if name not in filling.used]
    if len(slot.examples) == 1:
        ending = slot.examples[0].strip("\"'<>").rpartition(".")[2].lower()
        left = sorted(left, key=lambda name: not name.lower().endswith(f".{ending}"))[:1]
    filling.used += left
    filling.missing += [] if left else [slot.kind]
    return [shlex.quote(INPUTS + name) for name in left]


def _output(example: str, label: str) -> str:
    bare = example.strip("\"'<>")
    if _OURS.match(bare) and not label:
        return example
    name = bare.rstrip("/").rpartition("/")[2].strip(".") or "result"
    return shlex.quote(f"{OUT}{label}-{name}" if label else f"{OUT}{name}")
