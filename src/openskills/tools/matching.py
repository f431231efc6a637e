"""Which lines match: plain text here, regular expressions in a process that can be ended when they take too long.

Python's `re` can need longer than the universe for a short pattern, and holds the interpreter meanwhile. A thread with
a deadline would not help; a process does, and needs no library that every machine would have to have.
"""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from openskills.artifacts.threads import to_the_end
from openskills.child import Helper, begin
from openskills.errors import DeadlineExceeded, InvalidArgument, LimitExceeded

PROGRAM = Path(__file__).with_name("regex_program.py")
MAX_PATTERN = 1000
MOST = 500
"""At most so many lines of one text are told."""
SECONDS = 10.0
"""How long one search may wait for its regular expression in all."""


class Matcher(Protocol):
    """Finds lines."""

    async def hits(self, text: str) -> Sequence[tuple[int, int]]:
        """The indices of the lines of a text that match, each with the column of its first match.

        Every line has its newline. After `MOST` lines that match the others are not looked at.
        """
        ...


@asynccontextmanager
async def matching(
    pattern: str, *, regex: bool = False, ignore_case: bool = False, seconds: float = SECONDS
) -> AsyncGenerator[Matcher]:
    """What finds the lines with this pattern. Raises `InvalidArgument` for what is no pattern, and while searching
    `DeadlineExceeded` or `LimitExceeded` for a regular expression that takes too long or too much memory."""
    if not pattern:
        raise InvalidArgument("pattern", "is empty; write what to search for")
    if "\n" in pattern:
        raise InvalidArgument("pattern", "has a newline; files are searched line by line")
    if len(pattern) > MAX_PATTERN:
        raise InvalidArgument("pattern", f"has {len(pattern):,} characters; {MAX_PATTERN:,} is the most")
    try:
        encoded = pattern.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgument("pattern", "contains half a character (a lone surrogate)") from None
    if not regex:
        yield _Plain(pattern, ignore_case=ignore_case)
        return
    flags = int(re.IGNORECASE if ignore_case else 0)
    helper = begin([sys.executable, "-I", "-S", str(PROGRAM), str(flags), str(MOST)], {})
    try:
        found = _Regex(helper, seconds)
        await found.ask(encoded)
        yield found
    finally:
        await to_the_end(lambda: helper.end(patience=0))


class _Plain:
    def __init__(self, pattern: str, *, ignore_case: bool) -> None:
        self._ignore_case = ignore_case
        self._pattern = pattern.casefold() if ignore_case else pattern

    async def hits(self, text: str) -> Sequence[tuple[int, int]]:
        folded = text.casefold() if self._ignore_case else text
        found: list[tuple[int, int]] = []
        line = start = 0
        while len(found) < MOST and (place := folded.find(self._pattern, start)) >= 0:
            line += folded.count("\n", start, place)
            found.append((line, place - max(start, folded.rfind("\n", start, place) + 1)))
            start = folded.find("\n", place) + 1
            line += 1
        return found


class _Regex:
    def __init__(self, helper: Helper, seconds: float) -> None:
        self._connection = helper.connection
        self._connection.setblocking(False)
        self._left = seconds
        self._seconds = seconds

    async def hits(self, text: str) -> Sequence[tuple[int, int]]:
        if not text:
            return ()
        found = await self.ask(text.removesuffix("\n").encode("utf-8"))
        pairs = (pair.split(",") for pair in found.split())
        return [(int(line), int(column)) for line, column in pairs]

    async def ask(self, frame: bytes) -> str:
        """What the program answers to a frame."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with asyncio.timeout(self._left):
                await loop.sock_sendall(self._connection, len(frame).to_bytes(4, "big") + frame)
                size = int.from_bytes(await self._exactly(4), "big")
                answer = (await self._exactly(size)).decode("utf-8")
        except TimeoutError:
            raise DeadlineExceeded(
                f"the regular expression took more than {self._seconds:g} seconds; write a simpler one without a"
                " repetition inside a repetition, a narrower glob, or plain text"
            ) from None
        finally:
            self._left -= loop.time() - begun
        if answer.startswith("-"):
            raise InvalidArgument("pattern", f"is no regular expression that can be used: {answer[1:]}")
        return answer[1:]

    async def _exactly(self, size: int) -> bytes:
        loop = asyncio.get_running_loop()
        pieces: list[bytes] = []
        while size:
            try:
                piece = await loop.sock_recv(self._connection, min(size, 65536))
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise LimitExceeded("the regular expression needed too much memory; write a simpler one")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)
