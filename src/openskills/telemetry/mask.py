"""Masking of secrets in command output, results, events, log lines, the database and spans.

A secret is found as it is, without surrounding white space, and in these forms: escaped as in JSON (also twice), in
HTML or by Python's `repr` (also that of bytes), percent-encoded, in hex, and in base64 (both alphabets, at any position
in the encoded data, with or without padding), also in the lines that `base64`, `openssl` and `xxd` write. Lines of a
multi-line secret are masked one by one.

Secrets shorter than `MIN_SECRET_LENGTH` and lines shorter than `MIN_LINE_LENGTH` are not masked: they would match
unrelated words.
"""

import json
import re
from base64 import b64encode
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from html import escape
from typing import Any, AnyStr, Generic, cast
from urllib.parse import quote, quote_plus

MIN_SECRET_LENGTH = 4
MIN_LINE_LENGTH = 8

_MAX_FORM = 1024
# The lines of `base64`, of `openssl base64`, and of `xxd -p`.
_BASE64_WIDTHS = (76, 64)
_HEX_WIDTH = 60


def get_masker(secrets: Mapping[str, str]) -> "Masker":
    """The masker of these secrets, values by name. It is built once and cached."""
    return _build_masker(tuple(secrets.items())) if secrets else _NOTHING


class Masker:
    """Replaces secrets by `[secret NAME]`, overlapping ones by one name. False if there is nothing to mask."""

    def __init__(self, secrets: Iterable[tuple[str, str]]) -> None:
        tags: dict[str, str] = {}
        for name, value in secrets:
            for form in _list_forms(value):
                tags.setdefault(form, f"[secret {name}]")
        self._text = _Matcher(tags)
        self._bytes = _Matcher({_encode(form): tag.encode() for form, tag in tags.items()})

    def __bool__(self) -> bool:
        return bool(self._text.tags)

    @property
    def context(self) -> int:
        """How many bytes around a piece of output have to be known in order to mask it."""
        return max(self._bytes.longest - 1, 0)

    def mask_text(self, text: str) -> str:
        return self._text.mask(text)

    def mask_bytes(self, data: bytes, *, truncated: bool = False) -> bytes:
        """Mask bytes. If their end was cut off, the beginning of a secret there is masked too."""
        if not truncated:
            return self._bytes.mask(data)
        end = self._bytes.find_partial_end(data)
        masked, covered, _ = self._bytes.replace(data, end)
        rest = data[end + covered :]
        return masked + (rest if len(rest) < MIN_SECRET_LENGTH else b"*" * len(rest))

    def mask_json(self, value: Any) -> Any:
        """Mask the strings, keys and numbers of a JSON value; a number with a secret becomes a string."""
        if not self:
            return value
        if isinstance(value, str):
            return self._text.mask(value)
        if isinstance(value, Mapping):
            items = cast("Mapping[Any, Any]", value).items()
            return {self._text.mask(key) if isinstance(key, str) else key: self.mask_json(item) for key, item in items}
        if isinstance(value, list | tuple):
            return [self.mask_json(item) for item in cast("Sequence[Any]", value)]
        if isinstance(value, int | float) and not isinstance(value, bool):
            written = _write_number(value)
            return value if (masked := self._text.mask(written)) == written else masked
        return value

    def blank(self, data: bytes, *, cut_start: bool = False, cut_end: bool = False) -> bytes:
        """Replace secrets by as many asterisks, so that offsets stay valid. A cut may have left a part of one there."""
        blanks = self._bytes.find(data)
        if cut_start:
            blanks.append((0, self._bytes.find_partial_start(data)))
        if cut_end:
            blanks.append((self._bytes.find_partial_end(data), len(data)))
        if not any(end - start >= MIN_SECRET_LENGTH for start, end in blanks):
            return data
        blanked = bytearray(data)
        for start, end in blanks:
            if end - start >= MIN_SECRET_LENGTH:
                blanked[start:end] = b"*" * (end - start)
        return bytes(blanked)

    def find_partial_end(self, data: bytes) -> int:
        """Where a secret may begin that continues after the end of the data; their length if nowhere."""
        return self._bytes.find_partial_end(data)

    def open_stream(self) -> "StreamMasker":
        """A masker for bytes that arrive in chunks."""
        return StreamMasker(self._bytes)


class StreamMasker:
    """Masks a stream chunk by chunk, with the same result as all at once.

    It holds back the end of a chunk only if a secret may begin there, and never more than 1 KiB.
    """

    def __init__(self, matcher: "_Matcher[bytes]") -> None:
        self._matcher = matcher
        self._held = b""
        self._covered = 0
        self._tag = b""

    def feed(self, data: bytes) -> bytes:
        """The masked output that can be returned after this chunk."""
        if not self._matcher.tags:
            return data
        data = self._held + data
        end = self._matcher.find_partial_end(data)
        masked, self._covered, self._tag = self._matcher.replace(data, end, self._covered, self._tag)
        self._held = data[end:]
        return masked

    def flush(self) -> bytes:
        """The rest, at the end of the stream."""
        data, self._held = self._held, b""
        masked, self._covered, self._tag = self._matcher.replace(data, len(data), self._covered, self._tag)
        return masked


class _Matcher(Generic[AnyStr]):
    """Finds forms of secrets, in texts or in bytes. `tags` has the replacement of each form."""

    def __init__(self, tags: Mapping[AnyStr, AnyStr]) -> None:
        self.tags = tags
        self.longest = max(map(len, tags), default=0)
        self._starts: set[AnyStr] = {form[:MIN_SECRET_LENGTH] for form in tags}
        self._sorted = sorted(tags)
        self._reversed: list[AnyStr] = sorted(form[::-1] for form in tags)
        # Nearly all data contain no secret, and searching for substrings is fast.
        self._needles: list[AnyStr] = []
        for form in sorted(tags, key=len):
            if not any(needle in form for needle in self._needles):
                self._needles.append(form)

    def mask(self, data: AnyStr) -> AnyStr:
        return self.replace(data, len(data))[0]

    def find(self, data: AnyStr) -> list[tuple[int, int]]:
        """Where all forms begin and end, also overlapping ones; of those that begin together the longest first."""
        found: list[tuple[int, int]] = []
        if any(needle in data for needle in self._needles):
            for form in self.tags:
                start = data.find(form)
                while start >= 0:
                    found.append((start, start + len(form)))
                    start = data.find(form, start + 1)
        return sorted(found, key=lambda span: (span[0], -span[1]))

    def replace(
        self, data: AnyStr, end: int, covered: int = 0, tag: AnyStr | None = None
    ) -> tuple[AnyStr, int, AnyStr]:
        """Mask what begins before `end`, for data of which `covered` are masked already, with `tag`.

        Returns how much after `end` is masked too, and the tag if the output ends with it.
        """
        none = data[:0]
        parts: list[AnyStr] = []
        for start, stop in self.find(data):
            if start >= end:
                break
            found = self.tags[data[start:stop]]
            if start > covered or (start == covered and found != tag):
                parts += [data[covered:start], found]
                covered, tag = stop, found
            covered = max(covered, stop)
        if covered < end:
            parts.append(data[covered:end])
            tag = none
        return cast("Any", none).join(parts), max(covered - end, 0), tag or none

    def find_partial_end(self, data: AnyStr) -> int:
        """Where the data end with the beginning of a form; their length if nowhere."""
        last = len(data) - MIN_SECRET_LENGTH
        for start in range(max(0, len(data) - self.longest + 1), len(data)):
            # Nearly all positions can be excluded by a few characters.
            is_candidate = start > last or data[start : start + MIN_SECRET_LENGTH] in self._starts
            if is_candidate and _is_prefix(data[start:], self._sorted):
                return start
        return len(data)

    def find_partial_start(self, data: AnyStr) -> int:
        """The length of the end of a form with which the data begin."""
        for length in range(min(len(data), max(self.longest - 1, 0)), 0, -1):
            if _is_prefix(data[:length][::-1], self._reversed):
                return length
        return 0


def _is_prefix(part: AnyStr, forms: Sequence[AnyStr]) -> bool:
    """Whether one of the sorted forms is longer than the part and starts with it."""
    at = bisect_left(forms, part)
    if at < len(forms) and forms[at] == part:
        at += 1
    return at < len(forms) and forms[at].startswith(part)


def _list_forms(secret: str) -> Iterator[str]:
    if len(secret) < MIN_SECRET_LENGTH:
        return
    lines = [line.strip() for line in secret.splitlines()]
    values = [secret, secret.strip(), *(line for line in lines if len(line) >= MIN_LINE_LENGTH)]
    for value in dict.fromkeys(values):
        forms = {*_escape(value)}
        if value.isdecimal():
            forms.add(value.lstrip("0"))
        if value in values[:2]:
            forms.update(_encode_value(_encode(value)))
        for form in forms:
            if len(form) >= MIN_SECRET_LENGTH:
                yield from _split(form)


def _escape(value: str) -> Iterator[str]:
    yield value
    for ascii_only in (True, False):
        escaped = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield from (escaped, escaped.replace("/", "\\/"), json.dumps(escaped)[1:-1])
    data = _encode(value)
    yield from (repr(value)[1:-1], ascii(value)[1:-1], repr(data)[2:-1], escape(value), escape(value, quote=False))
    for quoted in (quote(data), quote(data, safe=""), quote_plus(data)):
        yield quoted
        yield re.sub("%..", lambda match: match[0].lower(), quoted)


def _encode_value(data: bytes) -> Iterator[str]:
    for digits in (data.hex(), data.hex().upper()):
        yield from (digits, *_wrap(digits, _HEX_WIDTH))
    for before in range(3):
        # Characters at both ends also depend on the bytes before and after the secret.
        whole = b64encode(b"\0" * before + data).decode()[(before * 8 + 5) // 6 :]
        inner = whole[: (before + len(data)) * 8 // 6 - (before * 8 + 5) // 6]
        for form in (whole, whole.rstrip("="), inner):
            lines = () if before else (line for width in _BASE64_WIDTHS for line in _wrap(form, width))
            for part in (form, *lines):
                yield from (part, part.replace("+", "-").replace("/", "_"))


def _wrap(text: str, width: int) -> list[str]:
    lines = [text[at : at + width] for at in range(0, len(text), width)]
    return [line for line in lines if len(line) >= MIN_LINE_LENGTH]


def _split(form: str) -> Iterator[str]:
    """A long form in parts, so that a stream has to hold back little."""
    size = -(-len(form) // -(-len(form) // _MAX_FORM))
    for start in range(0, len(form), size):
        yield form[start : start + size]


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _write_number(value: float) -> str:
    try:
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    except ValueError:  # Python refuses to write an integer of thousands of digits.
        return ""


@lru_cache(maxsize=128)
def _build_masker(secrets: tuple[tuple[str, str], ...]) -> Masker:
    return Masker(secrets)


_NOTHING = Masker(())
