"""Commands that a SKILL.md documents, and filling in the user's files, words and numbers for their examples."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from openskills.agent.rules.routing import extract_task_words
from openskills.agent.rules.turn import extract_payload, find_formulas, find_numbers, find_option_value

INPUTS = "inputs/"

_WORD = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'])+""")
_OPTIONAL = re.compile(r"""[ \t]+\[[^\]"']*\](?:\.{3}|…)?""")
_INTERPRETERS = frozenset({"python", "python3", "bash", "sh", "node", "uv", "run"})
_OPERATORS = frozenset({"|", "||", "&&", ";", "&"})
_OUTPUT_OPTION = re.compile(r"--?(?:o|out|output|outfile|(?:out|output)-(?:file|dir)|dest)|1?>>?")
_OPTION_VALUE = re.compile(r"(?P<option>--[\w-]+)=(?P<value>.+)", re.DOTALL)
_OWN_PATH = re.compile(r"(?:\./)?(?:scripts|references|assets)/|\$OUTPUT_DIR|out/")
_FILE_NAME = re.compile(r"(?=.*[A-Za-z])[^\s*?:;|&<>(){}=]*\w\.\w{1,8}")
_FOLDERS = frozenset({"docs", "folder", "data", "notes"})
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_PLACEHOLDER = re.compile(r"<(?P<what>[^<>]+)>|(?P<loud>[A-Z][A-Z0-9_]+)(?:\.{3}|…)?")
_FORMULA = re.compile(r".*(?:\d.*[-+*/^=(]|[-+*/^=(].*\d)", re.DOTALL)
_VALUE_WORD = re.compile(r"[\w%°.-]+")
_ELLIPSES = frozenset({"...", "…"})


class SlotKind(StrEnum):
    """What a word of a command is. A `VALUE` follows an option; a `WORD` is a separate argument."""

    PLAIN = "plain"
    FILE = "file"
    OUTPUT = "output"
    TEXT = "text"
    NUMBERS = "numbers"
    FORMULA = "formula"
    VALUE = "value"
    WORD = "word"
    UNKNOWN = "unknown"


_MERGED_KINDS = (SlotKind.FILE, SlotKind.NUMBERS, SlotKind.FORMULA)
_MEANINGS = (
    (
        SlotKind.FILE,
        re.compile(r"(?:input_?)?(?:files?|paths?|inputs?|csv|tsv|tables?|logs?|pdf|document|folder|dir).*"),
    ),
    (SlotKind.TEXT, re.compile(r"(?:your_)?(?:text|message|query|words|pattern|question|request)(?:_here)?")),
    (SlotKind.NUMBERS, re.compile(r"numbers?|values?")),
    (SlotKind.FORMULA, re.compile(r"expression|formula|equation")),
)


@dataclass(slots=True)
class CommandSlot:
    """Adjacent words of one kind. `option` is the word before, `prefix` an option in the same word."""

    kind: SlotKind
    examples: list[str]
    prefix: str = ""
    option: str = ""


def is_placeholder(word: str) -> bool:
    """Whether a word is a placeholder (`<file>`, `FILE`), not an example."""
    return _PLACEHOLDER.fullmatch(word.strip("\"'")) is not None


def has_file_slot(command: str) -> bool:
    """Whether a command takes files of the user."""
    return any(slot.kind is SlotKind.FILE for slot in parse_slots(command))


def strip_option_values(command: str) -> str:
    """The words of a command without the values of its options."""
    slots = (slot for slot in parse_slots(command) if slot.kind is not SlotKind.VALUE)
    return " ".join(f"{slot.prefix}{word}" for slot in slots for word in slot.examples)


def parse_slots(command: str) -> list[CommandSlot]:
    """The words of a command without optional parts; adjacent files, numbers and formulas are one slot."""
    slots: list[CommandSlot] = []
    for slot in _iter_slots(_WORD.findall(_OPTIONAL.sub("", command))):
        last = slots[-1] if slots else None
        alike = last is not None and last.kind is slot.kind and not (last.prefix or slot.prefix)
        if last is not None and alike and slot.kind in _MERGED_KINDS:
            last.examples += slot.examples
        elif slot.examples[0] not in _ELLIPSES:
            slots.append(slot)
    return slots


def _iter_slots(words: Sequence[str]) -> Iterator[CommandSlot]:
    script = next((index for index, word in enumerate(words) if word not in _INTERPRETERS), 0)
    later = False
    for index, word in enumerate(words):
        # Arguments of other programs in a pipeline stay as they are.
        later = later or word in _OPERATORS
        if index <= script or later:
            yield CommandSlot(SlotKind.PLAIN, [word])
        else:
            yield _parse_slot(word, words[index - 1], words[index + 1 : index + 2], first=index == script + 1)


def _parse_slot(word: str, before: str, after: Sequence[str], *, first: bool) -> CommandSlot:
    option = _OPTION_VALUE.fullmatch(word)
    if option is not None:
        kind = SlotKind.OUTPUT if _OUTPUT_OPTION.fullmatch(option["option"]) else _classify_word(option["value"])
        return CommandSlot(kind, [option["value"]], f"{option['option']}=")
    if _OUTPUT_OPTION.fullmatch(before):
        return CommandSlot(SlotKind.OUTPUT, [word])
    if word in _FOLDERS and after and _classify_word(after[0]) is SlotKind.FILE:
        return CommandSlot(SlotKind.FILE, [word])
    if _is_option(word):
        return CommandSlot(SlotKind.PLAIN, [word])
    kind = _classify_word(word)
    if _is_option(before) and before != "--" and kind in (SlotKind.PLAIN, SlotKind.NUMBERS):
        return CommandSlot(SlotKind.VALUE, [word], option=before)
    # The first argument may be a subcommand (`count`); all others are examples.
    task = first and word.isalpha()
    return CommandSlot(
        SlotKind.WORD if kind is SlotKind.PLAIN and not task and _VALUE_WORD.fullmatch(word) else kind, [word]
    )


def _is_option(word: str) -> bool:
    return word.startswith("-") and not _NUMBER.fullmatch(word)


def _classify_word(word: str) -> SlotKind:
    bare = word.strip("\"'")
    placeholder = _PLACEHOLDER.fullmatch(bare)
    if placeholder is not None:
        return _classify_placeholder(
            placeholder["what"] or placeholder["loud"], certain=placeholder["what"] is not None
        )
    if _OWN_PATH.match(bare) or "://" in bare:
        return SlotKind.PLAIN
    if _NUMBER.fullmatch(bare):
        return SlotKind.NUMBERS
    if word[:1] in ("'", '"') and _FORMULA.match(bare):
        return SlotKind.FORMULA
    if _FILE_NAME.fullmatch(bare) or bare.startswith(("path/to/", INPUTS, f"work/{INPUTS}")):
        return SlotKind.FILE
    # Quoted words with spaces are a sentence.
    return SlotKind.TEXT if word[:1] in ("'", '"') and " " in bare else SlotKind.PLAIN


def _classify_placeholder(what: str, *, certain: bool) -> SlotKind:
    name = what.strip().lower().replace(" ", "_").replace("-", "_").rstrip("._…")
    for kind, pattern in _MEANINGS:
        if pattern.fullmatch(name):
            return kind
    if _FILE_NAME.fullmatch(what):
        return SlotKind.FILE
    return SlotKind.UNKNOWN if certain else SlotKind.PLAIN


_FENCE = re.compile(r"^[ \t>]*(?P<mark>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)")
_INLINE = re.compile(r"(?<!`)(?P<mark>`{1,2})(?!`)(?P<code>[^`\n]+)(?P=mark)(?!`)")
_PROMPT = re.compile(r"^[$%][ \t]+")
_COMMENT = re.compile(r"(?:^|[ \t]+)#[ \t](?P<words>.*)$")
_RUN_COMMAND = re.compile(r"(?:python3?|bash|sh|node|uv run)[ \t]+[^-\s]\S*|\./\S+")
_SCRIPT = re.compile(r"scripts/\S+")
_SET_UP = re.compile(r"(?:^|[ \t])(?:--help|-h|--version|pip|venv|install)(?:[ \t]|$)")
_FILES_WEIGHT = 1.5
_SHELLS = frozenset({"", "bash", "sh", "shell", "console", "text", "terminal", "zsh"})


@dataclass(frozen=True, slots=True)
class CommandExample:
    """A documented command, and the words that introduce it."""

    command: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class _MarkdownBlock:
    """Lines of Markdown. `language` is None outside of fences; `about` is the heading and the line before a fence."""

    lines: tuple[str, ...]
    language: str | None = None
    about: str = ""


def find_commands(body: str) -> list[CommandExample]:
    """The commands in a text: those in fenced blocks, then inline ones, without duplicates."""
    blocks = list(_split_blocks(body))
    found: dict[str, CommandExample] = {}
    for one in (
        *(one for block in blocks for one in _find_fenced_commands(block)),
        *(one for block in blocks for one in _find_inline_commands(block)),
    ):
        found.setdefault(one.command, one)
    return list(found.values())


def choose_command(commands: Sequence[CommandExample], request: str, *, files: bool = False) -> CommandExample | None:
    """The first command that shares the most words with a request.

    Taking files if there are some, or none if there are none, counts more than one word. Option values do not count.
    """
    wanted = extract_task_words(request)

    def fits(one: CommandExample) -> float:
        shared = len(
            wanted & extract_task_words(f"{one.about.replace(one.command, ' ')} {strip_option_values(one.command)}")
        )
        return shared + (_FILES_WEIGHT if has_file_slot(one.command) is files else 0)

    return max(commands, key=fits, default=None)


def _split_blocks(body: str) -> Iterator[_MarkdownBlock]:
    heading, mark, language = "", "", None
    lines: list[str] = []
    about = ""
    for line in body.split("\n"):
        fence = _FENCE.match(line)
        if fence is None or (mark and not fence["mark"].startswith(mark)):
            lines.append(line)
            heading = line if not mark and line.startswith("#") else heading
            continue
        yield _MarkdownBlock(tuple(lines), language, about)
        last = next((one for one in reversed(lines) if one.strip()), "")
        about = "" if mark else f"{heading} {last}"
        mark, language = ("", None) if mark else (fence["mark"], fence["language"].lower())
        lines = []
    yield _MarkdownBlock(tuple(lines), language, about)


def _find_fenced_commands(block: _MarkdownBlock) -> Iterator[CommandExample]:
    if block.language is None or block.language not in _SHELLS:
        return
    said = ""
    for line in _join_lines(block.lines):
        comment = _COMMENT.search(line)
        command = _PROMPT.sub("", line[: comment.start()] if comment else line).strip()
        said = f"{said} {comment['words']}" if comment else said
        if not command:
            continue
        if (_RUN_COMMAND.match(command) or _SCRIPT.match(command)) and not _SET_UP.search(command):
            yield CommandExample(command, f"{block.about} {said}".strip())
        said = ""


def _find_inline_commands(block: _MarkdownBlock) -> Iterator[CommandExample]:
    for line in block.lines if block.language is None else ():
        for code in _INLINE.finditer(line):
            command = _PROMPT.sub("", code["code"].strip())
            if _RUN_COMMAND.match(command) and not _SET_UP.search(command):
                yield CommandExample(command, line.strip())


def _join_lines(lines: Sequence[str]) -> Iterator[str]:
    """The lines of a block without indentation and line continuations."""
    text = "\n".join(line.strip() for line in lines)
    yield from re.sub(r"[ \t]*\\\n", " ", text).split("\n")


OUT = "out/"
_IN_PLACE = re.compile(r"\$OUTPUT_DIR|out/")
_ENDINGS = re.compile(r"[\"'<>]")


@dataclass(frozen=True, slots=True)
class CommandInstance:
    """A filled-in command; it can be run if nothing is `missing` (kinds of slots, or words that are only examples).

    `used` are the user's files in it; it `repeats` if it takes one file and can be run again for another.
    """

    command: str
    used: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    repeats: bool = False


@dataclass(slots=True)
class _SlotValues:
    """Values for slots, and which were used or missing."""

    files: Sequence[str]
    text: str
    label: str
    says_values: bool
    used: list[str] = field(default_factory=list[str])
    missing: list[str] = field(default_factory=list[str])


def fill_command(command: str, files: Sequence[str], text: str, *, label: str = "") -> CommandInstance:
    """Fill in a command with files and values of the request. Output goes to `out/`, with `label` in its name.

    A slot for one file takes the first with the same extension, or the first; a row of files takes all. Arguments that
    are only examples are not passed on; option values are.
    """
    slots = _reorder_slots(text, parse_slots(command))
    filling = _SlotValues(files, text, label, _has_option_value(slots, text))
    words = [f"{slot.prefix}{word}" for slot in slots for word in _fill_slot(slot, filling)]
    places = [slot for slot in slots if slot.kind is SlotKind.FILE]
    repeats = len(places) == 1 and len(places[0].examples) == 1
    missing = tuple(dict.fromkeys(filling.missing))
    return CommandInstance(" ".join(words), tuple(filling.used), missing, repeats and not missing)


def find_assumed_values(command: str, text: str) -> list[str]:
    """Option values that come from the skill's example, not from the request."""
    slots = [slot for slot in parse_slots(command) if slot.kind is SlotKind.VALUE]
    return [f"{slot.option} {slot.examples[0]}" for slot in slots if not _is_in_text(slot.examples[0], text)]


def _fill_slot(slot: CommandSlot, filling: _SlotValues) -> list[str]:
    match slot.kind:
        case SlotKind.FILE:
            return _fill_files(slot, filling)
        case SlotKind.OUTPUT:
            return [_build_output_path(slot.examples[0], filling.label)]
        case SlotKind.VALUE:
            return _fill_value(slot, filling)
        case SlotKind.TEXT:
            return [shlex.quote(extract_payload(filling.text))]
        case SlotKind.NUMBERS:
            return _take_values(find_numbers(filling.text), slot, filling)
        case SlotKind.FORMULA:
            return [shlex.quote(one) for one in _take_values(find_formulas(filling.text), slot, filling)]
        case SlotKind.WORD | SlotKind.UNKNOWN:
            filling.missing += [word for word in slot.examples if not _is_in_text(word, filling.text)]
            return slot.examples
        case SlotKind.PLAIN:
            return slot.examples


def _fill_value(slot: CommandSlot, filling: _SlotValues) -> list[str]:
    said = _find_value(slot, filling.text)
    if said:
        return [shlex.quote(said)]
    if filling.says_values and slot.examples[0].isalpha() and not _is_in_text(slot.examples[0], filling.text):
        # If the request sets other options, do not guess this one from the example.
        filling.missing += slot.examples
    return slot.examples


def _has_option_value(slots: Sequence[CommandSlot], text: str) -> bool:
    values = [slot for slot in slots if slot.kind is SlotKind.VALUE]
    return any(_find_value(slot, text) or _is_in_text(slot.examples[0], text) for slot in values)


def _find_value(slot: CommandSlot, text: str) -> str:
    """The value of an option in a request; where the example is a number, only numbers count."""
    said = find_option_value(slot.option.lstrip("-"), text)
    return "" if slot.examples[0].isdigit() and not find_numbers(said) else said


def _reorder_slots(text: str, slots: list[CommandSlot]) -> list[CommandSlot]:
    """Put words that the request also has into its order: 5 miles to km, 5 km to miles."""
    words = [slot for slot in slots if slot.kind is SlotKind.WORD and _is_in_text(slot.examples[0], text)]
    ordered = iter(sorted(words, key=lambda slot: _find_word(slot.examples[0], text)))
    return [next(ordered) if slot in words else slot for slot in slots]


def _take_values(found: list[str], slot: CommandSlot, filling: _SlotValues) -> list[str]:
    """One value for one example; all for several examples or a placeholder."""
    filling.missing += [] if found else [slot.kind]
    return found if len(slot.examples) > 1 or is_placeholder(slot.examples[0]) else found[:1]


def _fill_files(slot: CommandSlot, filling: _SlotValues) -> list[str]:
    left = [name for name in filling.files if name not in filling.used]
    if len(slot.examples) == 1:
        ending = _ENDINGS.sub("", slot.examples[0]).rpartition(".")[2].lower()
        left = sorted(left, key=lambda name: not name.lower().endswith(f".{ending}"))[:1]
    filling.used += left
    filling.missing += [] if left else [slot.kind]
    return [shlex.quote(INPUTS + name) for name in left]


def _build_output_path(example: str, label: str) -> str:
    bare = _ENDINGS.sub("", example)
    if _IN_PLACE.match(bare) and not label:
        return example
    name = bare.rstrip("/").rpartition("/")[2].strip(".") or "result"
    return shlex.quote(f"{OUT}{label}-{name}" if label else f"{OUT}{name}")


def _is_in_text(word: str, text: str) -> bool:
    return _find_word(word, text) >= 0


def _find_word(word: str, text: str) -> int:
    found = re.search(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", text, re.IGNORECASE)
    return found.start() if found else -1
