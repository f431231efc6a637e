"""Lines that a person types, edited with readline where there is one."""

import contextlib
import glob
import os
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

Complete: TypeAlias = Callable[[str], Sequence[str]]
"""How a word that was begun may go on."""


class Keyboard:
    """Reads lines from the terminal. With a terminal for stdout, too, lines can be edited, recalled and completed."""

    def __init__(self, complete: Complete) -> None:
        self._complete = complete
        self._found: Sequence[str] = ()
        self._edits = sys.stdin.isatty() and sys.stdout.isatty()
        reconfigure = getattr(sys.stdin, "reconfigure", None)
        if reconfigure is not None:
            # Bytes that are no text must not end a conversation.
            reconfigure(errors="replace")
        if self._edits:
            self._edits = self._set_up()

    def line(self, prompt: str) -> str | None:
        """What was typed, None at the end of input. A line that ends with a backslash goes on. Raises Ctrl-C."""
        lines: list[str] = []
        while True:
            typed = self._typed(prompt if not lines else "." * (len(prompt) - 1) + " ")
            if typed is None:
                return "\n".join(lines) or None
            if not typed.endswith("\\"):
                return "\n".join([*lines, typed])
            lines.append(typed[:-1])

    def _typed(self, prompt: str) -> str | None:
        if not self._edits:
            sys.stderr.write(prompt)
            sys.stderr.flush()
        try:
            return input(prompt if self._edits else "")
        except EOFError:
            sys.stderr.write("\n")
            return None

    def _set_up(self) -> bool:
        try:
            import readline
        except ImportError:
            # Not every Python was built with it; then lines are read as the terminal gives them.
            return False
        readline.set_completer_delims(" \t\n")
        readline.set_completer(self._completion)
        libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
        return True

    def _completion(self, text: str, state: int) -> str | None:
        if state == 0:
            self._found = paths(text) if text.startswith("@") else self._complete(text) if text[:1] in "/$" else ()
        return self._found[state] if state < len(self._found) else None


def paths(text: str) -> Sequence[str]:
    """Paths that begin like the one behind the `@`; directories end with a slash, so that one can go on."""
    begun = os.path.expanduser(text[1:].lstrip('"'))
    found: list[str] = []
    with contextlib.suppress(OSError):
        found = sorted(glob.glob(f"{glob.escape(begun)}*"))
    return [f"@{path}/" if os.path.isdir(path) else f"@{path}" for path in found]
