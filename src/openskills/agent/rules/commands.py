"""Filling in the user's files, words and numbers for the examples of documented commands."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from openskills.agent.rules.routing import extract_words
from openskills.catalog.vocabulary import STOP_WORDS
from openskills.skillmd.markdown import CommandExample

INPUTS = "inputs/"
OUT = "out/"


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


@dataclass(slots=True)
class CommandSlot:
    """Adjacent words of one kind. `option` is the word before, `prefix` an option in the same word."""

    kind: SlotKind
    examples: list[str]
    prefix: str = ""
    option: str = ""


_WORD = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'])+""")
_OPTIONAL = re.compile(r"""[ \t]+\[[^\]"']*\](?:\.{3}|…)?""")
_INTERPRETERS = frozenset({"python", "python3", "-m", "bash", "sh", "node", "uv", "run"})
_OPERATORS = frozenset({"|", "||", "&&", ";", "&"})
_OUTPUT_NAME = re.compile(
    r"(?:.*[/_-])?(?:out|output|results?|merged|filled|converted|unpacked|clean(?:ed)?|final|modified|annotated"
    r"|compressed|extracted|dest(?:ination)?|target)(?:[/_.-].*|\d*)",
    re.IGNORECASE,
)
_OUTPUT_OPTION = re.compile(r"--?(?:o|out|output|outfile|(?:out|output)-(?:file|dir)|dest)|1?>>?")
_OPTION_VALUE = re.compile(r"(?P<option>--[\w-]+)=(?P<value>.+)", re.DOTALL)
_OWN_PATH = re.compile(r"(?:\./)?(?:scripts|references|assets)/|\$OUTPUT_DIR|out/")
_FILE_NAME = re.compile(r"(?=.*[A-Za-z])[^\s*?:;|&<>(){}=]*(?:\w\.\w{1,8}|\w/)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_PLACEHOLDER = re.compile(r"<(?P<what>[^<>]+)>|(?P<loud>[A-Z][A-Z0-9_]+)(?:\.{3}|…)?")
_FORMULA = re.compile(r".*(?:\d.*[-+*/^=(]|[-+*/^=(].*\d)", re.DOTALL)
_PLAIN_WORD = re.compile(r"[\w%°.-]+")
_MERGED_KINDS = (SlotKind.FILE, SlotKind.NUMBERS, SlotKind.FORMULA)
_MEANINGS = (
    (SlotKind.FILE, re.compile(r"(?:input_?)?(?:files?|paths?|inputs?|csv|tables?|logs?|pdf|document|folder|dir).*")),
    (SlotKind.TEXT, re.compile(r"(?:your_)?(?:text|message|query|words|pattern|question|request)(?:_here)?")),
    (SlotKind.NUMBERS, re.compile(r"numbers?|values?")),
    (SlotKind.FORMULA, re.compile(r"expression|formula|equation")),
)


def parse_slots(command: str) -> list[CommandSlot]:
    """The words of a command without optional parts; adjacent files, numbers and formulas are one slot."""
    words = _WORD.findall(_OPTIONAL.sub("", command))
    script = next((index for index, word in enumerate(words) if word not in _INTERPRETERS), 0)
    # Arguments of other programs in a pipeline stay as they are.
    end = next((index for index, word in enumerate(words) if word in _OPERATORS), len(words))
    slots: list[CommandSlot] = []
    for index, word in enumerate(words):
        if index <= script or index >= end:
            slot = CommandSlot(SlotKind.PLAIN, [word])
        else:
            slot = _parse_slot(word, words[index - 1], first=index == script + 1)
            # `in.docx output.docx`: a file after the first one that is named like a result.
            is_later = any(earlier.kind is SlotKind.FILE for earlier in slots)
            if slot.kind in (SlotKind.FILE, SlotKind.WORD) and is_later and _OUTPUT_NAME.fullmatch(word.strip("<>\"'")):
                slot.kind = SlotKind.OUTPUT
        last = slots[-1] if slots else None
        if last and last.kind is slot.kind and slot.kind in _MERGED_KINDS and not (last.prefix or slot.prefix):
            last.examples += slot.examples
        elif word not in ("...", "…"):
            slots.append(slot)
    return slots


def _parse_slot(word: str, before: str, *, first: bool) -> CommandSlot:
    option = _OPTION_VALUE.fullmatch(word)
    if option is not None:
        kind = SlotKind.OUTPUT if _OUTPUT_OPTION.fullmatch(option["option"]) else _classify_word(option["value"])
        return CommandSlot(kind, [option["value"]], f"{option['option']}=")
    if _OUTPUT_OPTION.fullmatch(before):
        return CommandSlot(SlotKind.OUTPUT, [word])
    if _is_option(word):
        return CommandSlot(SlotKind.PLAIN, [word])
    kind = _classify_word(word)
    if _is_option(before) and before != "--" and kind in (SlotKind.PLAIN, SlotKind.NUMBERS):
        return CommandSlot(SlotKind.VALUE, [word], option=before)
    # The first argument may be a subcommand (`count`); all others are examples.
    if kind is SlotKind.PLAIN and _PLAIN_WORD.fullmatch(word) and not (first and word.isalpha()):
        kind = SlotKind.WORD
    return CommandSlot(kind, [word])


def _is_option(word: str) -> bool:
    return word.startswith("-") and not _NUMBER.fullmatch(word)


def _classify_word(word: str) -> SlotKind:
    bare, quoted = word.strip("\"'"), word[:1] in ("'", '"')
    placeholder = _PLACEHOLDER.fullmatch(bare)
    if placeholder is not None:
        what = placeholder["what"] or placeholder["loud"]
        name = what.strip().lower().replace(" ", "_").replace("-", "_").rstrip("._…")
        unknown = SlotKind.WORD if placeholder["what"] else SlotKind.PLAIN
        kind = next((kind for kind, pattern in _MEANINGS if pattern.fullmatch(name)), unknown)
        return SlotKind.FILE if kind is unknown and _FILE_NAME.fullmatch(what) else kind
    if _OWN_PATH.match(bare) or "://" in bare:
        return SlotKind.PLAIN
    if _NUMBER.fullmatch(bare):
        return SlotKind.NUMBERS
    if quoted and _FORMULA.match(bare):
        return SlotKind.FORMULA
    if _FILE_NAME.fullmatch(bare) or bare.startswith(("path/to/", INPUTS, f"work/{INPUTS}")):
        return SlotKind.FILE
    # Quoted words with spaces are a sentence.
    return SlotKind.TEXT if quoted and " " in bare else SlotKind.PLAIN


@dataclass(frozen=True, slots=True)
class CommandInstance:
    """A filled-in command; it can be run if nothing is `missing` (kinds of slots, or words that are only examples).

    `used` are the user's files in it, `example` the documented command.
    """

    command: str
    example: str
    used: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


_FILES_WEIGHT, _COMPLETE_WEIGHT, _OWN_WEIGHT = 1.5, 0.5, 0.25


def choose_command(
    commands: Sequence[CommandExample], request: str, words: str, files: Sequence[str]
) -> CommandInstance | None:
    """The command that shares the most `words` with a request, filled in; the first of several.

    That it takes files if and only if there are some counts more than one word; that nothing is missing, less,
    and so does a word in the command itself.
    """
    wanted = extract_words(words)
    best: tuple[float, CommandInstance] | None = None
    for one in commands:
        filled = fill_command(one.command, files, request)
        # Values of options say nothing about what a command does.
        slots = (slot for slot in parse_slots(one.command) if slot.kind is not SlotKind.VALUE)
        about = " ".join((one.about.replace(one.command, " "), *(word for slot in slots for word in slot.examples)))
        takes_files = any(slot.kind is SlotKind.FILE for slot in parse_slots(one.command))
        score = len(wanted & extract_words(about)) + (_FILES_WEIGHT if takes_files is bool(files) else 0)
        score += _OWN_WEIGHT * len(wanted & extract_words(one.command)) + (0 if filled.missing else _COMPLETE_WEIGHT)
        if best is None or score > best[0]:
            best = score, filled
    return best[1] if best else None


def fill_command(command: str, files: Sequence[str], text: str) -> CommandInstance:
    """Fill in a command with files and values of the request. Output goes to `out/`.

    Files are those that came with the request, or else the paths that it names. A slot for one file takes the first
    with the same extension, or the first; a row of files takes all. Words that are only examples are `missing`; numbers
    after an option stay as they are if the request has none for it.
    """
    target, named = find_paths(text, files)
    paths = {name: INPUTS + name for name in files} or {name: name for name in named}
    slots = _reorder_words(text, parse_slots(command))
    words: list[str] = []
    used: list[str] = []
    missing: list[str] = []
    for slot in slots:
        filled = slot.examples
        match slot.kind:
            case SlotKind.FILE:
                left = _select_files(slot, [name for name in paths if name not in used])
                used += left
                filled = [shlex.quote(paths[name]) for name in left]
            case SlotKind.OUTPUT:
                filled = [_build_output_path(slot.examples[0], target)]
            case SlotKind.TEXT:
                filled = [shlex.quote(one) for one in find_quotation(text)]
            case SlotKind.NUMBERS:
                filled = _take(find_numbers(text), slot)
            case SlotKind.FORMULA:
                filled = [shlex.quote(one) for one in _take(find_formulas(text), slot)]
            case SlotKind.VALUE:
                said = find_option_value(slot.option.lstrip("-"), text, number=slot.examples[0].isdigit())
                filled = [shlex.quote(said)] if said else slot.examples
                known = said or slot.examples[0].isdigit() or _find_word(slot.examples[0], text) >= 0
                missing += [] if known else slot.examples
            case SlotKind.WORD:
                missing += [word for word in slot.examples if _find_word(word, text) < 0]
            case SlotKind.PLAIN:
                pass
        missing += [] if filled else [slot.kind]
        words += [f"{slot.prefix}{word}" for word in filled]
    return CommandInstance(" ".join(words), command, tuple(used), tuple(dict.fromkeys(missing)))


def _reorder_words(text: str, slots: list[CommandSlot]) -> list[CommandSlot]:
    """Put words that the request also has into its order: 5 miles to km, 5 km to miles."""
    words = [slot for slot in slots if slot.kind is SlotKind.WORD and _find_word(slot.examples[0], text) >= 0]
    ordered = iter(sorted(words, key=lambda slot: _find_word(slot.examples[0], text)))
    return [next(ordered) if slot in words else slot for slot in slots]


def _take(found: list[str], slot: CommandSlot) -> list[str]:
    """One value for one example; all for several examples or a placeholder."""
    several = len(slot.examples) > 1 or _PLACEHOLDER.fullmatch(slot.examples[0].strip("\"'"))
    return found if several else found[:1]


def _select_files(slot: CommandSlot, files: list[str]) -> list[str]:
    if len(slot.examples) > 1:
        return files
    ending = slot.examples[0].strip("\"'<>").rpartition(".")[2].lower()
    return sorted(files, key=lambda name: not name.lower().endswith(f".{ending}"))[:1]


def _build_output_path(example: str, target: str = "") -> str:
    if target:
        return shlex.quote(target if target.startswith(OUT) else OUT + target)
    bare = example.strip("\"'<>")
    if bare.startswith(("$OUTPUT_DIR", OUT)):
        return example
    return shlex.quote(OUT + (bare.rstrip("/").rpartition("/")[2].strip(".") or "result"))


def _find_word(word: str, text: str) -> int:
    found = re.search(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", text, re.IGNORECASE)
    return found.start() if found else -1


_PATH = re.compile(r"(?<![\w./\\:@-])(?:[\w-]+/){0,8}[\w-]+(?:\.[A-Za-z]\w{0,7}|/)(?![\w/@])", re.ASCII)
_TARGET = re.compile(r"(?:\b(?:to|into|as|in|named|called)|->|→|到|为|成)\s*[`'\"]?$", re.IGNORECASE)


def find_paths(text: str, files: Sequence[str] = ()) -> tuple[str, list[str]]:
    """The file that a request wants written ("to report.md"), or nothing, and other files that it names.

    `files` are known already. A path that is named first is not the target: "look in a.csv".
    """
    found = [match for match in _PATH.finditer(text) if match.group() not in files]
    is_first = not files and len(found) < 2
    targets = [one for one in found if not is_first and _TARGET.search(text[max(0, one.start() - 20) : one.start()])]
    target = targets[-1] if targets else None
    return (target.group() if target else ""), [one.group() for one in found if one is not target]


_QUOTED = re.compile('"([^"\n]+)"|“([^”\n]+)”|「([^」\n]+)」|『([^』\n]+)』|`([^`\n]+)`|《([^》\n]+)》')
_COMMAND_PREFIX = re.compile(r"[\w-]{1,32}\s?[:：]\s*(?=\S)")
_NUMBERS = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\w)", re.ASCII)
# Numbers, one-letter names (but not "a" and "I"), functions, and operators between them.
_CALCULATION = re.compile(
    r"(?:\d+[b-hj-z]?(?![a-z])|(?<![a-z])(?:[b-hj-z](?![a-z])|[a-z]{2,8}\d{0,2}(?=\())|[-+*/^=<>×÷(),.%!²³ ])+",
    re.IGNORECASE,
)


def find_quotation(text: str) -> list[str]:
    """The text for a command: what is in quotes, else what follows `echo:`, else nothing."""
    quoted = _QUOTED.search(text)
    if quoted is not None:
        return [next(found for found in quoted.groups() if found is not None)]
    prefix = _COMMAND_PREFIX.match(text.strip())
    return [text.strip()[prefix.end() :]] if prefix else []


def find_option_value(option: str, text: str, *, number: bool = False) -> str:
    """What a request says for an option: the word or the quotation after its name, or the number before; or nothing.

    In "the top 5 errors" it is `5` for `top`, in "to 10 digits" `10` for `digits`. With `number`, only numbers count.
    """
    name = re.escape(option.replace("-", " "))
    after = re.search(rf"(?<![\w-]){name}(?:\s*[:=]\s*|\s+)(?P<value>[\w.+-]*\w)?", text, re.IGNORECASE)
    if after is not None:
        quoted = None if after["value"] else _QUOTED.match(text, after.end())
        value = next(filter(None, quoted.groups())) if quoted else after["value"] or ""
        if value and value.lower() not in STOP_WORDS and not (number and not _NUMBER.fullmatch(value)):
            return value
    before = re.search(rf"(?<![\w.])(?P<value>\d+)\s+{name}(?![\w-])", text, re.IGNORECASE)
    return before["value"] if before else ""


def find_numbers(text: str) -> list[str]:
    """The numbers of a text as a command takes them: without separators of thousands."""
    return [found.replace(",", "") for found in _NUMBERS.findall(text)]


def find_formulas(text: str) -> list[str]:
    """The calculations and equations of a text, the longest first: `17 * 23`, `x^2 - x - 1 = 0`, `sqrt(2)`."""
    found = [one.group().strip(" ,.=<>*/+!").replace("×", "*").replace("÷", "/") for one in _CALCULATION.finditer(text)]
    kept = [one for one in found if re.search(r"[-+*/^=(]", one) and re.search(r"\d", one)]
    return sorted((one for one in kept if not _NUMBER.fullmatch(one)), key=len, reverse=True)
