"""What the words of a documented command are examples of: files, results, numbers, texts. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

INPUTS = "inputs/"

_WORD = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'])+""")
_OPTIONAL = re.compile(r"""[ \t]+\[[^\]"']*\](?:\.{3}|…)?""")
_INTERPRETERS = frozenset({"python", "python3", "bash", "sh", "node", "uv", "run"})
_OPERATORS = frozenset({"|", "||", "&&", ";", "&"})
_OUTPUT_OPTION = re.compile(r"--?(?:o|out|output|outfile|(?:out|output)-(?:file|dir)|dest)|1?>>?")
_OPTION_VALUE = re.compile(r"(?P<option>--[\w-]+)=(?P<value>.+)", re.DOTALL)
_OURS = re.compile(r"(?:\./)?(?:scripts|references|assets)/|\$OUTPUT_DIR|out/")
_FILE_NAME = re.compile(r"(?=.*[A-Za-z])[^\s*?:;|&<>(){}=]*\w\.\w{1,8}")
_FOLDERS = frozenset({"docs", "folder", "data", "notes"})
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_PLACEHOLDER = re.compile(r"<(?P<what>[^<>]+)>|(?P<loud>[A-Z][A-Z0-9_]+)(?:\.{3}|…)?")
_FORMULA = re.compile(r".*(?:\d.*[-+*/^=(]|[-+*/^=(].*\d)", re.DOTALL)
_VALUE_WORD = re.compile(r"[\w%°.-]+")
_DOTS = frozenset({"...", "…"})


class Kind(StrEnum):
    """What a word stands for. A `VALUE` follows an option; a `WORD` is an argument by itself."""

    PLAIN = "plain"
    FILE = "file"
    OUTPUT = "output"
    TEXT = "text"
    NUMBERS = "numbers"
    FORMULA = "formula"
    VALUE = "value"
    WORD = "word"
    UNKNOWN = "unknown"


_TOGETHER = (Kind.FILE, Kind.NUMBERS, Kind.FORMULA)
_MEANINGS = (
    (Kind.FILE, re.compile(r"(?:input_?)?(?:files?|paths?|inputs?|csv|tsv|tables?|logs?|pdf|document|folder|dir).*")),
    (Kind.TEXT, re.compile(r"(?:your_)?(?:text|message|query|words|pattern|question|request)(?:_here)?")),
    (Kind.NUMBERS, re.compile(r"numbers?|values?")),
    (Kind.FORMULA, re.compile(r"expression|formula|equation")),
)


@dataclass(slots=True)
class Slot:
    """Neighbouring words of a kind. `option` is the word before it, `prefix` an option in one word with it."""

    kind: Kind
    examples: list[str]
    prefix: str = ""
    option: str = ""


def is_placeholder(word: str) -> bool:
    """`<file>` or `FILE`, and no example."""
    return _PLACEHOLDER.fullmatch(word.strip("\"'")) is not None


def takes_files(command: str) -> bool:
    """Whether a command is for files of the user."""
    return any(slot.kind is Kind.FILE for slot in slots_of(command))


def without_values(command: str) -> str:
    """The words of a command but for the values of its options."""
    slots = (slot for slot in slots_of(command) if slot.kind is not Kind.VALUE)
    return " ".join(f"{slot.prefix}{word}" for slot in slots for word in slot.examples)


def slots_of(command: str) -> list[Slot]:
    """The words of a command without what is optional; files, numbers and formulas in a row are one slot."""
    slots: list[Slot] = []
    for slot in _single_slots(_WORD.findall(_OPTIONAL.sub("", command))):
        last = slots[-1] if slots else None
        alike = last is not None and last.kind is slot.kind and not (last.prefix or slot.prefix)
        if last is not None and alike and slot.kind in _TOGETHER:
            last.examples += slot.examples
        elif slot.examples[0] not in _DOTS:
            slots.append(slot)
    return slots


def _single_slots(words: Sequence[str]) -> Iterator[Slot]:
    script = next((index for index, word in enumerate(words) if word not in _INTERPRETERS), 0)
    later = False
    for index, word in enumerate(words):
        # What another program is given is not ours to change.
        later = later or word in _OPERATORS
        if index <= script or later:
            yield Slot(Kind.PLAIN, [word])
        else:
            yield _slot(word, words[index - 1], words[index + 1 : index + 2], first=index == script + 1)


def _slot(word: str, before: str, after: Sequence[str], *, first: bool) -> Slot:
    option = _OPTION_VALUE.fullmatch(word)
    if option is not None:
        kind = Kind.OUTPUT if _OUTPUT_OPTION.fullmatch(option["option"]) else _kind(option["value"])
        return Slot(kind, [option["value"]], f"{option['option']}=")
    if _OUTPUT_OPTION.fullmatch(before):
        return Slot(Kind.OUTPUT, [word])
    if word in _FOLDERS and after and _kind(after[0]) is Kind.FILE:
        return Slot(Kind.FILE, [word])
    if _is_option(word):
        return Slot(Kind.PLAIN, [word])
    kind = _kind(word)
    if _is_option(before) and before != "--" and kind in (Kind.PLAIN, Kind.NUMBERS):
        return Slot(Kind.VALUE, [word], option=before)
    # The first argument may be the name of a task (`count`); every other one is an example.
    task = first and word.isalpha()
    return Slot(Kind.WORD if kind is Kind.PLAIN and not task and _VALUE_WORD.fullmatch(word) else kind, [word])


def _is_option(word: str) -> bool:
    return word.startswith("-") and not _NUMBER.fullmatch(word)


def _kind(word: str) -> Kind:
    bare = word.strip("\"'")
    placeholder = _PLACEHOLDER.fullmatch(bare)
    if placeholder is not None:
        return _meaning(placeholder["what"] or placeholder["loud"], certain=placeholder["what"] is not None)
    if _OURS.match(bare) or "://" in bare:
        return Kind.PLAIN
    if _NUMBER.fullmatch(bare):
        return Kind.NUMBERS
    if word[:1] in ("'", '"') and _FORMULA.match(bare):
        return Kind.FORMULA
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
