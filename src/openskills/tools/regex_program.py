"""Searches lines for a regular expression, as a process of its own: what takes for ever can be ended from outside.

Run as `python -I -S regex_program.py FLAGS MOST FD`. On the connection FD come frames: four bytes of length, then
content. The first has the pattern; every other has lines, joined by newlines. Each is answered with a frame: `+` and
the first MOST matches as `line,column` with blanks between them, or `-` and what is wrong. It ends when the connection
does.
"""

import re
import resource
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

MEMORY = 512 * 1024 * 1024
SECONDS = 30
"""Who started it ends it long before; this is for the case that he is gone."""


def main() -> None:
    """Answer until nobody asks."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    with suppress(ValueError, OSError):  # not every system has this limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    with socket.socket(fileno=int(sys.argv[3])) as connection:
        asked = _read_frame(connection)
        pattern = None
        while asked is not None:
            try:
                if pattern is None:
                    pattern = re.compile(asked.decode("utf-8"), int(sys.argv[1]))
                    answer = "+"
                else:
                    answer = "+" + " ".join(islice(_find_matches(pattern, asked.decode("utf-8")), int(sys.argv[2])))
            except (re.error, RecursionError, OverflowError, MemoryError) as error:
                answer = f"-{error or type(error).__name__}"
            said = answer.encode("utf-8")
            connection.sendall(len(said).to_bytes(4, "big") + said)
            asked = _read_frame(connection)


def _find_matches(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    for number, line in enumerate(text.split("\n")):
        match = pattern.search(line)
        if match:
            yield f"{number},{match.start()}"


def _read_frame(connection: socket.socket) -> bytes | None:
    head = _read_exactly(connection, 4)
    return None if head is None else _read_exactly(connection, int.from_bytes(head, "big"))


def _read_exactly(connection: socket.socket, size: int) -> bytes | None:
    pieces: list[bytes] = []
    while size:
        piece = connection.recv(min(size, 65536))
        if not piece:
            return None
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


if __name__ == "__main__":
    main()
