"""Patterns for files of a workspace: `**`, `*`, `?`, `[a-z]`, `{a,b}`. Pure, and linear whatever the pattern.

A pattern is a list of segments. Where a walk stands in it is a set of positions; the name of an entry moves every
position on or drops it. So nothing is ever tried twice, and a directory that no position survives is never read.
`*` and `**` match names that begin with a dot; they never match the names of files that are still arriving.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.files.braces import alternatives
from openskills.executors.files.places import place_parts
from openskills.executors.layout import expanded
from openskills.files import ARRIVING

MAX_PATTERN = 1024
MAX_SEGMENTS = 64
MAX_PATTERNS = 256

_ANY_DIRECTORIES = "**"


@dataclass(frozen=True, slots=True)
class _Segment:
    """One step of a pattern: a literal name, a test for names, or any directories (both None)."""

    literal: str | None = None
    test: Callable[[str], object] | None = None

    @property
    def any_directories(self) -> bool:
        return self.literal is None and self.test is None

    def accepts(self, name: str) -> bool:
        if self.literal is not None:
            return name == self.literal
        return self.test is not None and bool(self.test(name))


class _Token(NamedTuple):
    """One character of a part, or one thing that stands for characters: `*`, `?`, or `[` for a class."""

    kind: str
    regex: str
    char: str = ""


class Globs:
    """Patterns, ready to be asked. `compiled` makes them."""

    def __init__(self, patterns: Sequence[Sequence[_Segment]]) -> None:
        self._segments: list[_Segment | None] = []
        starts: list[int] = []
        for pattern in patterns:
            starts.append(len(self._segments))
            self._segments.extend([*pattern, None])  # None: the pattern has come to its end
        self.start = Position(self._segments, self._closed(starts))

    def matches(self, path: str) -> bool:
        """Whether a path, relative to the workspace, matches any pattern."""
        position = self.start
        *directories, name = path.split("/")
        for directory in directories:
            position = position.below(directory)
        return position.accepts(name)

    def _closed(self, places: Sequence[int]) -> tuple[int, ...]:
        return _closure(self._segments, places)


class Position:
    """Where a walk stands: the segments that the next name is held against."""

    __slots__ = ("_places", "_segments", "names")

    def __init__(self, segments: Sequence[_Segment | None], places: tuple[int, ...]) -> None:
        self._segments = segments
        self._places = places
        self.names = self._only_names()
        """The only names that can match here, or None when it is not so few: then the directory must be read."""

    def __bool__(self) -> bool:
        return bool(self._places)

    def accepts(self, name: str) -> bool:
        """Whether a file of this name, here, matches a pattern."""
        if name.startswith(ARRIVING):
            return False
        for place in self._places:
            segment = self._segments[place]
            if segment is not None and not segment.any_directories and segment.accepts(name) and self._ends(place + 1):
                return True
        return False

    def below(self, name: str) -> "Position":
        """The position in the directory of this name; false when nothing below it can match."""
        if name.startswith(ARRIVING):
            return Position(self._segments, ())
        moved: list[int] = []
        for place in self._places:
            segment = self._segments[place]
            if segment is None:
                continue
            if segment.any_directories:
                moved.append(place)
            elif segment.accepts(name) and not self._ends(place + 1):
                moved.append(place + 1)
        places = _closure(self._segments, moved)
        return self if places == self._places else Position(self._segments, places)

    def _ends(self, place: int) -> bool:
        return self._segments[place] is None

    def _only_names(self) -> frozenset[str] | None:
        segments = [self._segments[place] for place in self._places]
        literals = [segment.literal for segment in segments if segment is not None]
        return None if None in literals else frozenset(literal for literal in literals if literal is not None)


def compiled(patterns: Sequence[str], *, run_dir: str | None = None, field: str = "glob") -> Globs:
    """Patterns as somebody wrote them, relative to the workspace or behind `$OUTPUT_DIR` and its kin.

    Raises `InvalidArgument` for what is no pattern, is too long or is too many; `ForbiddenPath` for what is absolute
    or climbs with `..`.
    """
    # What stands for a place of one run is all that a run can make another of.
    place = run_dir if any("$" in pattern for pattern in patterns) else None
    return _compiled(tuple(patterns), place, field)


@lru_cache(maxsize=256)
def _compiled(patterns: tuple[str, ...], run_dir: str | None, field: str) -> Globs:
    found: list[list[_Segment]] = []
    for pattern in patterns:
        _check_text(pattern, field)
        place = expanded(pattern, run_dir=run_dir, field=field)
        found.extend(_segments(one, pattern, field) for one in alternatives(place, field=field))
        if len(found) > MAX_PATTERNS:
            raise InvalidArgument(field, f"the patterns stand for more than {MAX_PATTERNS}; write fewer")
    return Globs(found)


def escaped(path: str) -> str:
    """A pattern that matches this path and nothing else."""
    return re.sub(r"([*?\[\\{}])", r"\\\1", path)


def _check_text(pattern: str, field: str) -> None:
    if not pattern or "\0" in pattern:
        raise InvalidArgument(field, f"{pattern[:40]!r} is no pattern; write one such as out/**/*.txt")
    if len(pattern) > MAX_PATTERN:
        shown = pattern[:40] + "…"
        raise InvalidArgument(field, f"{shown!r} has {len(pattern):,} characters; {MAX_PATTERN:,} is the most")
    try:
        os.fsencode(pattern)
    except UnicodeEncodeError:
        raise InvalidArgument(field, f"{pattern!r} contains half a character (a lone surrogate)") from None


def _segments(place: str, pattern: str, field: str) -> list[_Segment]:
    if place.startswith("/"):
        raise ForbiddenPath(f"{field}: {pattern!r} is absolute; write it relative to the workspace, such as out/*.txt")
    parts = [part for part in place.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ForbiddenPath(f"{field}: {pattern!r} climbs out with '..'")
    if not parts:
        raise InvalidArgument(field, f"{pattern!r} names no file; write one such as out/**")
    parts = list(place_parts(parts))
    if len(parts) > MAX_SEGMENTS:
        raise InvalidArgument(field, f"{pattern!r} has {len(parts)} parts; {MAX_SEGMENTS} is the most")
    # What is in a directory, at any depth: `out/` and `out/**` both mean that.
    if place.endswith("/") or parts[-1] == _ANY_DIRECTORIES:
        parts += [_ANY_DIRECTORIES, "*"]
    return [
        _segment(part, pattern, field)
        for number, part in enumerate(parts)
        if part != _ANY_DIRECTORIES or parts[number - 1 : number] != [_ANY_DIRECTORIES]
    ]


def _segment(part: str, pattern: str, field: str) -> _Segment:
    if part == _ANY_DIRECTORIES:
        return _Segment()
    if not part.strip("*"):
        return _Segment(test=_anything)
    tokens = list(_tokens(part, pattern, field))
    if any(token.kind for token in tokens):
        return _Segment(test=re.compile(_regex(tokens), re.DOTALL).fullmatch)
    name = "".join(token.char for token in tokens)
    if name in (".", ".."):
        raise ForbiddenPath(f"{field}: {pattern!r} climbs out with '..'")
    return _Segment(literal=name)


def _anything(_: str) -> bool:
    return True


def _regex(tokens: Sequence[_Token]) -> str:
    """A regular expression that never goes back: between two stars the first match is as good as any other."""
    pieces = [""]
    for token in tokens:
        if token.kind == "*":
            pieces.append("")
        else:
            pieces[-1] += token.regex
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    return first + "".join(f"(?>.*?{piece})" for piece in middle if piece) + f".*{last}"


def _tokens(part: str, pattern: str, field: str) -> Iterator[_Token]:
    place = 0
    while place < len(part):
        char = part[place]
        if char == "[":
            end = _end_of_class(part, place, pattern, field)
            yield _Token("[", _character_class(part[place + 1 : end], pattern, field))
            place = end
        elif char in "*?":
            yield _Token(char, ".")
        else:
            if char == "\\":
                place += 1
                if place == len(part):
                    raise InvalidArgument(field, f"{pattern!r} has a part that ends with a backslash; remove it")
            yield _Token("", re.escape(part[place]), part[place])
        place += 1


def _end_of_class(part: str, start: int, pattern: str, field: str) -> int:
    begin = start + 2 if part[start + 1 : start + 2] in ("!", "^") else start + 1
    end = part.find("]", begin + 1)
    if end < 0:
        raise InvalidArgument(field, f"{pattern!r} has a '[' without its ']'; write \\[ for the character itself")
    return end


def _character_class(inside: str, pattern: str, field: str) -> str:
    negated = inside[:1] in ("!", "^")
    body = inside[1:] if negated else inside
    found, place = "", 0
    while place < len(body):
        first = last = body[place]
        if body[place + 1 : place + 2] == "-" and place + 2 < len(body):
            last = body[place + 2]
            place += 2
        if first > last:
            raise InvalidArgument(field, f"{pattern!r} has [{inside}], which is no range; write one such as [a-z]")
        found += re.escape(first) if first == last else f"{re.escape(first)}-{re.escape(last)}"
        place += 1
    return f"[{'^' if negated else ''}{found}]"


def _closure(segments: Sequence[_Segment | None], places: Sequence[int]) -> tuple[int, ...]:
    """The same places, and the ones after segments that stand for no directory at all."""
    found: dict[int, None] = {}
    for place in places:
        current = place
        while current not in found:
            found[current] = None
            segment = segments[current]
            if segment is None or not segment.any_directories:
                break
            current += 1
    return tuple(found)
