"""A documented command with the user's files, words and numbers in the place of its examples. Pure."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from openskills.agent.rule_kinds import INPUTS, Kind, Slot, is_placeholder, slots_of
from openskills.agent.rule_request import formulas_in, numbers_in, payload, value_of

OUT = "out/"
_IN_PLACE = re.compile(r"\$OUTPUT_DIR|out/")
_ENDINGS = re.compile(r"[\"'<>]")


@dataclass(frozen=True, slots=True)
class Filled:
    """A command that can be run, unless something is `missing`: a kind of thing, or a word that is only an example.

    `used` are the user's files in it; it `repeats` when it takes one file and can be run again for another.
    """

    command: str
    used: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    repeats: bool = False


@dataclass(slots=True)
class _Filling:
    """What there is to put into slots, and what became of it."""

    files: Sequence[str]
    text: str
    label: str
    says_values: bool
    used: list[str] = field(default_factory=list[str])
    missing: list[str] = field(default_factory=list[str])


def filled(command: str, files: Sequence[str], text: str, *, label: str = "") -> Filled:
    """The command for these files and what the request says. What it writes goes to `out/`, with `label` in its name.

    A place for one file takes the first that has the same ending, or just the first; a row of them takes all. An
    argument that is only an example is never passed on as if the user had said it; values of options are.
    """
    slots = _in_order_of(text, slots_of(command))
    filling = _Filling(files, text, label, _is_said(slots, text))
    words = [f"{slot.prefix}{word}" for slot in slots for word in _put(slot, filling)]
    places = [slot for slot in slots if slot.kind is Kind.FILE]
    repeats = len(places) == 1 and len(places[0].examples) == 1
    missing = tuple(dict.fromkeys(filling.missing))
    return Filled(" ".join(words), tuple(filling.used), missing, repeats and not missing)


def assumed(command: str, text: str) -> list[str]:
    """The values of options in a command that the request does not have: they are from the skill's example."""
    slots = [slot for slot in slots_of(command) if slot.kind is Kind.VALUE]
    return [f"{slot.option} {slot.examples[0]}" for slot in slots if not _stands_in(slot.examples[0], text)]


def _put(slot: Slot, filling: _Filling) -> list[str]:
    match slot.kind:
        case Kind.FILE:
            return _put_files(slot, filling)
        case Kind.OUTPUT:
            return [_output(slot.examples[0], filling.label)]
        case Kind.VALUE:
            return _value(slot, filling)
        case Kind.TEXT:
            return [shlex.quote(payload(filling.text))]
        case Kind.NUMBERS:
            return _found(numbers_in(filling.text), slot, filling)
        case Kind.FORMULA:
            return [shlex.quote(one) for one in _found(formulas_in(filling.text), slot, filling)]
        case Kind.WORD | Kind.UNKNOWN:
            filling.missing += [word for word in slot.examples if not _stands_in(word, filling.text)]
            return slot.examples
        case Kind.PLAIN:
            return slot.examples


def _value(slot: Slot, filling: _Filling) -> list[str]:
    said = _said(slot, filling.text)
    if said:
        return [shlex.quote(said)]
    if filling.says_values and slot.examples[0].isalpha() and not _stands_in(slot.examples[0], filling.text):
        # Who says what to find has not said what to put there: the word of an example is no answer to that.
        filling.missing += slot.examples
    return slot.examples


def _is_said(slots: Sequence[Slot], text: str) -> bool:
    """Whether a request says the value of any option."""
    values = [slot for slot in slots if slot.kind is Kind.VALUE]
    return any(_said(slot, text) or _stands_in(slot.examples[0], text) for slot in values)


def _said(slot: Slot, text: str) -> str:
    """What a request says for an option; a word is nothing where a number is wanted."""
    said = value_of(slot.option.lstrip("-"), text)
    return "" if slot.examples[0].isdigit() and not numbers_in(said) else said


def _in_order_of(text: str, slots: list[Slot]) -> list[Slot]:
    """The same slots; words that the request has, too, in its order: 5 miles to km, and 5 km to miles."""
    words = [slot for slot in slots if slot.kind is Kind.WORD and _stands_in(slot.examples[0], text)]
    ordered = iter(sorted(words, key=lambda slot: _place(slot.examples[0], text)))
    return [next(ordered) if slot in words else slot for slot in slots]


def _found(found: list[str], slot: Slot, filling: _Filling) -> list[str]:
    """One for one example; all for a row of them, or for a placeholder."""
    filling.missing += [] if found else [slot.kind]
    return found if len(slot.examples) > 1 or is_placeholder(slot.examples[0]) else found[:1]


def _put_files(slot: Slot, filling: _Filling) -> list[str]:
    left = [name for name in filling.files if name not in filling.used]
    if len(slot.examples) == 1:
        ending = _ENDINGS.sub("", slot.examples[0]).rpartition(".")[2].lower()
        left = sorted(left, key=lambda name: not name.lower().endswith(f".{ending}"))[:1]
    filling.used += left
    filling.missing += [] if left else [slot.kind]
    return [shlex.quote(INPUTS + name) for name in left]


def _output(example: str, label: str) -> str:
    bare = _ENDINGS.sub("", example)
    if _IN_PLACE.match(bare) and not label:
        return example
    name = bare.rstrip("/").rpartition("/")[2].strip(".") or "result"
    return shlex.quote(f"{OUT}{label}-{name}" if label else f"{OUT}{name}")


def _stands_in(word: str, text: str) -> bool:
    return _place(word, text) >= 0


def _place(word: str, text: str) -> int:
    found = re.search(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", text, re.IGNORECASE)
    return found.start() if found else -1
