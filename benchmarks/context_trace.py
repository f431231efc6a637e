"""What is done to files: as the interpreter tells its audit hooks, and as a tracer of system calls writes it down."""

import os
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager

BEGIN, END = "/openskills-bench-begins-here", "/openskills-bench-ends-here"
"""Files that nobody has. They are looked for, so that it can be seen in a trace where to count."""

_FILES = ("open", "os.", "shutil.", "pathlib.", "glob.", "tempfile.", "mmap.", "fcntl.", "sqlite3.")


@contextmanager
def file_events() -> Generator[list[str]]:
    """The audit events about files, from here to the end of the block. A hook cannot be removed again."""
    found: list[str] = []
    counting = True

    def note(event: str, _: tuple[object, ...]) -> None:
        if counting and event.startswith(_FILES):
            found.append(event)

    os.access(BEGIN, os.F_OK)
    sys.addaudithook(note)
    try:
        yield found
    finally:
        counting = False
        os.access(END, os.F_OK)


def between(lines: Iterable[str]) -> list[str]:
    """The lines of a trace after the one that looks for `BEGIN`, and before the one that looks for `END`."""
    found: list[str] | None = None
    for line in lines:
        if END in line and found is not None:
            return found
        if BEGIN in line:
            found = []
        elif found is not None:
            found.append(line)
    raise ValueError("the trace has no beginning or no end")
