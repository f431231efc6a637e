"""A program that searches lines for a regular expression in its own process, so that it can be killed.

Run as `python -I -S regex_program.py FLAGS MAX_MATCHES FD`. Frames on the socket FD are four bytes of length and the
content. The first frame is the pattern, every other has lines joined by newlines. Each is answered with a frame: `+`
and the first MAX_MATCHES matches as `line,column` separated by spaces, or `-` and an error. It ends at end of file.
"""

import io
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
"""CPU time limit, in case the parent process is gone; it normally kills this program much earlier."""


def main() -> None:
    """Answer frames until the connection is closed."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    with suppress(ValueError, OSError):  # not every system has this limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    with socket.socket(fileno=int(sys.argv[3])) as connection, connection.makefile("rb") as frames:
        pattern = None
        while (frame := _read_frame(frames)) is not None:
            try:
                if pattern is None:
                    pattern = re.compile(frame.decode("utf-8"), int(sys.argv[1]))
                    answer = "+"
                else:
                    answer = "+" + " ".join(islice(_find_matches(pattern, frame.decode("utf-8")), int(sys.argv[2])))
            except (re.error, RecursionError, OverflowError, MemoryError) as error:
                answer = f"-{error or type(error).__name__}"
            data = answer.encode("utf-8")
            connection.sendall(len(data).to_bytes(4, "big") + data)


def _find_matches(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    for number, line in enumerate(text.split("\n")):
        match = pattern.search(line)
        if match:
            yield f"{number},{match.start()}"


def _read_frame(frames: io.BufferedReader) -> bytes | None:
    head = frames.read(4)
    size = int.from_bytes(head, "big")
    data = frames.read(size)
    return data if len(head) == 4 and len(data) == size else None


if __name__ == "__main__":
    main()
