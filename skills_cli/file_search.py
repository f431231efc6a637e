"""Search lines in the files of the allowed directory, in constant memory."""

import codecs
import io
import time
from collections.abc import Iterator
from typing import BinaryIO

from openskills.skillkit.entry import Answer, SkillRefusal, main, progress, seconds_left
from openskills.skillkit.files import MAX_FILE, MAX_RESULTS, SAMPLE_BYTES, Glob, Walk, detect_encoding, root

MAX_LIMIT = 1000
MAX_QUERY_LENGTH = 1000
MAX_SNIPPET_LENGTH = 200
BLOCK = 256 * 1024
RESERVE = 0.2
"""The share of the timeout that is reserved for returning partial results."""


class Search:
    """The query, and the matches so far."""

    def __init__(self, query: str, limit: int) -> None:
        self.query = query.lower()
        self.limit = limit
        self.matches: list[dict[str, object]] = []
        self.full = False
        self.searched = self.binary = self.cut = 0

    def look_in(self, path: str, file: BinaryIO) -> None:
        """Add the lines of one file that contain the query."""
        first = file.read(SAMPLE_BYTES)
        encoding = detect_encoding(first)
        if encoding is None:
            self.binary += 1
            return
        self.searched += 1
        line_no = 1
        for text in self._texts(first, file, encoding):
            lowered = text.lower()
            if self.query in lowered:
                self._add(path, line_no, text)
                if self.full:
                    return
            line_no += lowered.count("\n")

    def _texts(self, first: bytes, file: BinaryIO, encoding: str) -> Iterator[str]:
        """The first 5 MB of a file as texts of whole lines."""
        decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(encoding)("replace"), translate=True)
        rest, done, block = "", 0, first
        while block:
            done += len(block)
            whole, newline, rest = (rest + decoder.decode(block)).rpartition("\n")
            if newline:
                yield whole + newline
            block = file.read(min(BLOCK, MAX_FILE - done))
        is_cut = bool(file.read(1))
        self.cut += is_cut
        yield rest + decoder.decode(b"", final=not is_cut)

    def _add(self, path: str, line_no: int, text: str) -> None:
        for number, line in enumerate(text.split("\n"), line_no):
            place = line.lower().find(self.query)
            if place < 0:
                continue
            if len(self.matches) == self.limit:
                self.full = True
                return
            self.matches.append({"path": path, "line_no": number, "snippet": _snippet(line, place, len(self.query))})


def search(query: str, root_dir: str | None = None, glob: str | None = None, limit: int | None = None) -> Answer:
    """Find the lines that contain `query`, whatever the case of its letters."""
    limit = MAX_RESULTS if limit is None else limit
    _check(query, limit)
    allowed = root()
    walk = Walk(allowed, root_dir or "", glob=Glob(glob) if glob else None, field="root_dir")
    found = Search(query, limit)
    stop = time.monotonic() + seconds_left() * (1 - RESERVE)
    out_of_time = False
    for number, (path, file) in enumerate(walk.files()):
        found.look_in(allowed.outer(path), file)
        out_of_time = time.monotonic() > stop
        if found.full or out_of_time:
            break
        if number % 1000 == 999:
            progress(number + 1, message=f"{len(found.matches)} matches so far")
    notes: dict[str, int | str] = {
        "files_searched": found.searched,
        "files_binary": found.binary,
        "files_cut": found.cut,
        "files_skipped": walk.links + walk.special + walk.unreadable + walk.too_deep,
    }
    if out_of_time:
        notes["stopped"] = "out of time"
    return Answer({"matches": found.matches}, truncated=found.full or out_of_time or found.cut > 0, notes=notes)


def _check(query: str, limit: int) -> None:
    if not query.strip():
        raise SkillRefusal("INVALID_ARGUMENT", "query: must not be empty", field="query")
    if len(query) > MAX_QUERY_LENGTH or "\n" in query or "\r" in query:
        raise SkillRefusal(
            "INVALID_ARGUMENT", f"query: expected one line of at most {MAX_QUERY_LENGTH} characters", field="query"
        )
    if not 1 <= limit <= MAX_LIMIT:
        raise SkillRefusal("INVALID_ARGUMENT", f"limit: {limit} is not between 1 and {MAX_LIMIT}", field="limit")


def _snippet(line: str, place: int, length: int) -> str:
    """The line, or what of it is around the match."""
    line, before = line.rstrip(), len(line) - len(line.lstrip())
    start = max(before, place - max(0, MAX_SNIPPET_LENGTH - length) // 2)
    end = min(len(line), start + MAX_SNIPPET_LENGTH)
    start = max(before, min(start, end - MAX_SNIPPET_LENGTH))
    return f"{'…' if start > before else ''}{line[start:end]}{'…' if end < len(line) else ''}"


if __name__ == "__main__":
    main(search, version="0.1.0")
