"""Glob patterns for workspace files: `**`, `*`, `?`, `[a-z]`, `{a,b}`. Pure; matching takes linear time.

A pattern is a list of segments. A walk keeps a set of positions in them; each entry name advances or drops every
position. So nothing is tried twice, and a directory without remaining positions is never read. `*` and `**` match names
that begin with a dot, but never the temporary names of files that are still being written.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from glob import escape
from itertools import pairwise
from typing import NamedTuple

from openskills.errors import ForbiddenPath, InvalidArgument, shorten
from openskills.executors.spec import expand_path, normalize_parts
from openskills.filesystem import TEMPORARY_PREFIX

MAX_ALTERNATIVES = 64


def expand_braces(pattern: str, *, field: str) -> list[str]:
    """Expand the braces of a pattern, in order; a pattern without braces gives itself.

    A backslash escapes the next character, brackets hide braces, `{a}` and `{}` are literal as in a shell. Raises
    `InvalidArgument` for more than 64 alternatives.
    """
    found: list[str] = []
    waiting = [pattern]
    while waiting:
        current = waiting.pop()
        group = _find_first_group(current)
        if group is None:
            found.append(current)
        else:
            start, end, commas = group
            edges = [start, *commas, end]
            middles = [current[left + 1 : right] for left, right in pairwise(edges)]
            waiting.extend(current[:start] + middle + current[end + 1 :] for middle in reversed(middles))
        if len(found) + len(waiting) > MAX_ALTERNATIVES:
            raise InvalidArgument(field, f"{pattern!r} expands to more than {MAX_ALTERNATIVES} patterns; use fewer")
    return found


def _find_first_group(pattern: str) -> tuple[int, int, list[int]] | None:
    """The start, end and commas of the first group that has a comma."""
    opened: list[tuple[int, list[int]]] = []
    outermost: tuple[int, int, list[int]] | None = None
    for place, char in _iterate_brace_characters(pattern):
        if char == "{":
            opened.append((place, []))
        elif char == "," and opened:
            opened[-1][1].append(place)
        elif char == "}" and opened:
            start, commas = opened.pop()
            if commas and (outermost is None or start < outermost[0]):
                outermost = (start, place, commas)
    return outermost


def _iterate_brace_characters(pattern: str) -> Iterator[tuple[int, str]]:
    """The characters outside of escapes and character classes, with their positions."""
    place, in_class = 0, False
    while place < len(pattern):
        char = pattern[place]
        if in_class:
            in_class = char != "]"
        elif char == "\\":
            place += 1
        elif char == "[" and "]" in pattern[place + 2 :]:
            in_class = True
            place += 1  # the first character of a class is never its end
        else:
            yield place, char
        place += 1


MAX_PATTERN = 1024
MAX_SEGMENTS = 64
MAX_PATTERNS = 256

_ANY_DIRECTORIES = "**"
_RANGE = re.compile("(.)-(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _GlobSegment:
    """One segment of a pattern: a literal name, a test for names, or any directories (both None)."""

    literal: str | None = None
    test: Callable[[str], object] | None = None

    @property
    def is_recursive(self) -> bool:
        return self.literal is None and self.test is None

    def matches(self, name: str) -> bool:
        if self.literal is not None:
            return name == self.literal
        return self.test is not None and bool(self.test(name))


class _GlobToken(NamedTuple):
    """A literal character (`kind` is empty) or a wildcard: `*`, `?`, or `[` for a class. `text` is for `fnmatch`."""

    kind: str
    text: str
    char: str = ""


class GlobSet:
    """Compiled patterns; `compile_globs` makes them."""

    def __init__(self, patterns: Sequence[Sequence[_GlobSegment]]) -> None:
        self._segments: list[_GlobSegment | None] = []
        starts: list[int] = []
        for pattern in patterns:
            starts.append(len(self._segments))
            self._segments.extend([*pattern, None])  # None marks the end of a pattern
        self.start = GlobPosition(self._segments, _expand_recursive(self._segments, starts))

    def matches(self, path: str) -> bool:
        """Whether a path, relative to the workspace, matches any pattern."""
        position = self.start
        *directories, name = path.split("/")
        for directory in directories:
            position = position.descend(directory)
        return position.matches(name)


class GlobPosition:
    """The state of a walk: the segments that the next name is matched against."""

    __slots__ = ("_places", "_segments", "names")

    def __init__(self, segments: Sequence[_GlobSegment | None], places: tuple[int, ...]) -> None:
        self._segments = segments
        self._places = places
        literals = [segment.literal for place in places if (segment := segments[place]) is not None]
        self.names = None if None in literals else frozenset(literal for literal in literals if literal is not None)
        """The only names that can match here; None if there is a wildcard, so the directory must be read."""

    def __bool__(self) -> bool:
        return bool(self._places)

    def matches(self, name: str) -> bool:
        """Whether a file of this name, in this directory, matches a pattern."""
        if name.startswith(TEMPORARY_PREFIX):
            return False
        for place in self._places:
            segment = self._segments[place]
            if segment is not None and not segment.is_recursive and segment.matches(name) and self._is_end(place + 1):
                return True
        return False

    def descend(self, name: str) -> "GlobPosition":
        """The position in the directory of this name; falsy if nothing below it can match."""
        if name.startswith(TEMPORARY_PREFIX):
            return GlobPosition(self._segments, ())
        moved: list[int] = []
        for place in self._places:
            segment = self._segments[place]
            if segment is None:
                continue
            if segment.is_recursive:
                moved.append(place)
            elif segment.matches(name) and not self._is_end(place + 1):
                moved.append(place + 1)
        places = _expand_recursive(self._segments, moved)
        return self if places == self._places else GlobPosition(self._segments, places)

    def _is_end(self, place: int) -> bool:
        return self._segments[place] is None


def compile_globs(patterns: Sequence[str], *, run_dir: str | None = None, field: str = "glob") -> GlobSet:
    """Compile patterns relative to the workspace, or behind variables such as `$OUTPUT_DIR`.

    Raises `InvalidArgument` for invalid, too long or too many patterns; `ForbiddenPath` for absolute ones and `..`.
    """
    # The run directory only matters to patterns with variables; without it, the cache serves every run.
    place = run_dir if any("$" in pattern for pattern in patterns) else None
    return _compile_cached(tuple(patterns), place, field)


@lru_cache(maxsize=256)
def _compile_cached(patterns: tuple[str, ...], run_dir: str | None, field: str) -> GlobSet:
    found: list[list[_GlobSegment]] = []
    for pattern in patterns:
        _check_text(pattern, field)
        place = expand_path(pattern, run_dir=run_dir, field=field)
        found.extend(_parse_segments(one, pattern, field) for one in expand_braces(place, field=field))
        if len(found) > MAX_PATTERNS:
            raise InvalidArgument(field, f"the patterns expand to more than {MAX_PATTERNS}; use fewer")
    return GlobSet(found)


def escape_glob(path: str) -> str:
    """A pattern that matches this path and nothing else."""
    return re.sub(r"([*?\[\\{}])", r"\\\1", path)


def _check_text(pattern: str, field: str) -> None:
    if not pattern or "\0" in pattern:
        raise InvalidArgument(field, f"invalid pattern {pattern[:40]!r}; use one such as out/**/*.txt")
    if len(pattern) > MAX_PATTERN:
        shown = shorten(pattern, 40)
        raise InvalidArgument(field, f"{shown!r} has {len(pattern):,} characters; the maximum is {MAX_PATTERN:,}")
    try:
        os.fsencode(pattern)
    except UnicodeEncodeError:
        raise InvalidArgument(field, f"{pattern!r} contains a lone surrogate") from None


def _parse_segments(place: str, pattern: str, field: str) -> list[_GlobSegment]:
    if place.startswith("/"):
        raise ForbiddenPath(f"{field}: {pattern!r} is absolute; use a path in the workspace, such as out/*.txt")
    parts = [part for part in place.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ForbiddenPath(f"{field}: {pattern!r} leaves the workspace with '..'")
    if not parts:
        raise InvalidArgument(field, f"{pattern!r} does not match any file; use one such as out/**")
    parts = list(normalize_parts(parts))
    if len(parts) > MAX_SEGMENTS:
        raise InvalidArgument(field, f"{pattern!r} has {len(parts)} parts; the maximum is {MAX_SEGMENTS}")
    # `out/` and `out/**` both mean everything in a directory, at any depth.
    if place.endswith("/") or parts[-1] == _ANY_DIRECTORIES:
        parts += [_ANY_DIRECTORIES, "*"]
    return [
        _parse_segment(part, pattern, field)
        for number, part in enumerate(parts)
        if part != _ANY_DIRECTORIES or parts[number - 1 : number] != [_ANY_DIRECTORIES]
    ]


def _parse_segment(part: str, pattern: str, field: str) -> _GlobSegment:
    if part == _ANY_DIRECTORIES:
        return _GlobSegment()
    if not part.strip("*"):
        return _GlobSegment(test=lambda _: True)
    tokens = list(_tokenize(part, pattern, field))
    if any(token.kind for token in tokens):
        # An expression that never backtracks.
        return _GlobSegment(test=re.compile(translate("".join(token.text for token in tokens))).match)
    name = "".join(token.char for token in tokens)
    if name in (".", ".."):
        raise ForbiddenPath(f"{field}: {pattern!r} leaves the workspace with '..'")
    return _GlobSegment(literal=name)


def _tokenize(part: str, pattern: str, field: str) -> Iterator[_GlobToken]:
    place = 0
    while place < len(part):
        char = part[place]
        if char == "[":
            begin = place + 2 if part[place + 1 : place + 2] in ("!", "^") else place + 1
            end = part.find("]", begin + 1)
            if end < 0:
                raise InvalidArgument(field, f"{pattern!r} has an unclosed '['; use \\[ for the character itself")
            yield _GlobToken("[", _parse_character_class(part[place + 1 : end], pattern, field))
            place = end
        elif char in "*?":
            yield _GlobToken(char, char)
        else:
            if char == "\\":
                place += 1
                if place == len(part):
                    raise InvalidArgument(field, f"{pattern!r} has a trailing backslash; remove it")
            yield _GlobToken("", escape(part[place]), part[place])
        place += 1


def _parse_character_class(inside: str, pattern: str, field: str) -> str:
    negated = inside[:1] in ("!", "^")
    body = inside[1:] if negated else inside
    if any(first > last for first, last in _RANGE.findall(body)):
        raise InvalidArgument(field, f"{pattern!r} has the invalid range [{inside}]; use one such as [a-z]")
    return f"[{'!' if negated else ''}{body}]"


def _expand_recursive(segments: Sequence[_GlobSegment | None], places: Sequence[int]) -> tuple[int, ...]:
    """Add the places after recursive segments, which may also match zero directories."""
    found: dict[int, None] = {}
    for place in places:
        current = place
        while current not in found:
            found[current] = None
            segment = segments[current]
            if segment is None or not segment.is_recursive:
                break
            current += 1
    return tuple(found)
