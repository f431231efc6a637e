"""What the specification says about `name`."""

import re
import unicodedata
from collections.abc import Iterator

from openskills.skillmd.parse import normal_name
from openskills.skillmd.problem import Edit, Fix
from openskills.skillmd.rules.rule import Finding, Subject, at_value, kind

MAX_NAME = 64

_PLAIN_NAME = re.compile(r"[a-z0-9-]*")
_UNSAFE_ASCII = re.compile(r"[/\\\x00-\x1f\x7f]")
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
_MARKS = frozenset({"Mn", "Mc"})
_EXPECTED = "lowercase letters, digits and hyphens"


def name_required(subject: Subject) -> Iterator[Finding]:
    """There is a name, and it is not blank."""
    value = subject.fields.get("name")
    if value is None or (isinstance(value, str) and not value.strip()):
        message = f"there is no name; expected `name:` with 1 to {MAX_NAME} {_EXPECTED}"
        yield at_value(subject, "name", message, _added(subject))


def name_type(subject: Subject) -> Iterator[Finding]:
    """The name is text."""
    value = subject.fields.get("name")
    if value is not None and not isinstance(value, str):
        yield at_value(subject, "name", f"the name is {kind(value)}; expected text")


def name_length(subject: Subject) -> Iterator[Finding]:
    """The name has at most 64 characters, counted after NFKC."""
    if len(subject.manifest.name) > MAX_NAME:
        found = len(subject.manifest.name)
        yield at_value(subject, "name", f"the name has {found} characters; expected at most {MAX_NAME}")


def name_unsafe(subject: Subject) -> Iterator[Finding]:
    """The name cannot lead out of a folder or hide what it is."""
    what = unsafe_in(subject.manifest.name)
    if what:
        message = f"the name {_shown(subject.manifest.name)} {what}; expected {_EXPECTED} only"
        yield at_value(subject, "name", message)


def name_uppercase(subject: Subject) -> Iterator[Finding]:
    """The name is lower case."""
    name = subject.manifest.name
    if name != name.lower():
        better = suggested_name(name) or name.lower()
        message = f"the name {_shown(name)} has upper-case letters; expected lower case, such as {_shown(better)}"
        yield at_value(subject, "name", message, _renamed(subject))


def name_characters(subject: Subject) -> Iterator[Finding]:
    """The name has only letters, digits and hyphens."""
    name = subject.manifest.name
    if _PLAIN_NAME.fullmatch(name) or unsafe_in(name):
        return
    wrong = dict.fromkeys(character for character in name if not _allowed(character))
    if wrong:
        shown = ", ".join(_character(character) for character in list(wrong)[:5])
        message = f"the name {_shown(name)} contains {shown}; expected {_EXPECTED} only"
        yield at_value(subject, "name", message, _renamed(subject))


def name_hyphen_edge(subject: Subject) -> Iterator[Finding]:
    """The name neither starts nor ends with a hyphen."""
    name = subject.manifest.name
    if name[:1] == "-" or name[-1:] == "-":
        message = f"the name {_shown(name)} starts or ends with a hyphen; expected a letter or digit there"
        yield at_value(subject, "name", message)


def name_hyphen_double(subject: Subject) -> Iterator[Finding]:
    """The name has no two hyphens in a row."""
    if "--" in subject.manifest.name:
        message = f"the name {_shown(subject.manifest.name)} has two hyphens in a row; expected single ones"
        yield at_value(subject, "name", message)


def name_folder(subject: Subject) -> Iterator[Finding]:
    """The name is that of the folder."""
    name, folder = subject.manifest.name, subject.folder
    if folder is None or folder == name or not name or normal_name(folder) == name or unsafe_in(name):
        return
    message = f"the name is {_shown(name)} and the folder {_shown(folder)}; expected the same name for both"
    yield at_value(subject, "name", message, _renamed(subject))


def is_valid_name(name: str) -> bool:
    """Whether the specification allows this name, however portable it is."""
    return (
        0 < len(name) <= MAX_NAME
        and name == normal_name(name) == name.lower()
        and name[0] != "-"
        and name[-1] != "-"
        and "--" not in name
        and all(map(_allowed, name))
    )


def suggested_name(text: str) -> str:
    """The nearest name that the specification allows; empty when the text has nothing to make one of."""
    lowered = normal_name(text.strip()).lower()
    kept = "".join(character if _allowed(character) else "-" for character in lowered)
    return re.sub(r"-{2,}", "-", kept).strip("-")[:MAX_NAME].rstrip("-")


def unsafe_in(name: str) -> str:
    """What makes a name dangerous as part of a path or deceptive to a reader, in words; empty when nothing does."""
    if name in (".", ".."):
        return "stands for a folder"
    if name.isascii() and not _UNSAFE_ASCII.search(name):
        return ""
    for climb in ("../", "..\\"):
        if climb in name:
            return f"contains '{climb}', which leads out of its folder"
    for character in name:
        if character in "/\\" or unicodedata.category(character) in _UNSAFE_CATEGORIES:
            return f"contains {_character(character)}"
    return ""


def _allowed(character: str) -> bool:
    # Vowel signs are marks, not letters: without them there are no names in Hindi or Thai.
    return character == "-" or character.isalnum() or unicodedata.category(character) in _MARKS


def _character(character: str) -> str:
    if character == " ":
        return "a blank"
    return f"'{character}'" if character.isprintable() else f"U+{ord(character):04X}"


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:80] + "…")


def _renamed(subject: Subject) -> Fix | None:
    """Write the folder's name, when that is what the written name clearly means."""
    folder = subject.folder
    meant = re.sub(r"[_\s]+", "-", subject.manifest.name.lower())
    place = subject.front.value("name")
    # The end of a block scalar is a line end that must stay.
    if folder is None or place is None or place.style in ("|", ">") or meant != folder or not is_valid_name(folder):
        return None
    return Fix(f"name it {folder}, as its folder", (Edit(place.start, place.end, folder),))


def _added(subject: Subject) -> Fix | None:
    """Write the folder's name, which is what a loader takes anyway, before the first field."""
    folder = subject.folder
    first = next((subject.front.key(key) for key in subject.fields), None)
    if folder is None or not is_valid_name(folder) or "name" in subject.fields or first is None or first.column != 1:
        return None
    line_end = "\r\n" if "\r\n" in subject.front.text else "\r" if "\r" in subject.front.text else "\n"
    return Fix(f"name it {folder}, as its folder", (Edit(first.start, first.start, f"name: {folder}{line_end}"),))
