"""Somebody who tries the examples: an empty home, an empty place for temporary files, no key, no settings."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from tests.servers.warm_openskills import run_script

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TIMEOUT = 120


@dataclass(frozen=True)
class Newcomer:
    """What a program prints is all that they see of it."""

    home: Path

    def run(
        self,
        program: Path,
        *arguments: str | Path,
        typed: str = "",
        variables: Mapping[str, str] | None = None,
        new: bool = False,
    ) -> list[str]:
        """The lines that a program prints. It has to end well, to complain about nothing, and to leave nothing behind.

        What the catalog remembers between runs is in the user's cache, as always; that may stay. With `new` it runs in
        a new interpreter, otherwise in one that has imported the package.
        """
        temporary = self.home / "tmp"
        temporary.mkdir(parents=True)
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.home), "TMPDIR": str(temporary)}
        words = [str(argument) for argument in arguments]
        known = {**environment, **(variables or {})}
        stdin = typed.encode()
        if new:
            line = [sys.executable, "-W", "error", str(program), *words]
            ended = subprocess.run(line, cwd=self.home, env=known, input=stdin, capture_output=True, timeout=TIMEOUT)
        else:
            ended = run_script(program, *words, cwd=self.home, env=known, stdin=stdin, timeout=TIMEOUT, kind="program")
        output, errors = ended.stdout.decode(), ended.stderr.decode()
        said = f"{program.name} ended with {ended.returncode}:\n{output}{errors}"
        assert (ended.returncode, errors) == (0, ""), said
        left = self._left(temporary)
        assert not left, f"{program.name} left {', '.join(left)}"
        return output.splitlines()

    def _left(self, temporary: Path) -> list[str]:
        """Every temporary file and directory, and every other file that is not the catalog's."""
        found = [path for path in self.home.rglob("*") if path.is_file() or path.is_relative_to(temporary)]
        names = [path.relative_to(self.home).as_posix() for path in found if path != temporary]
        return [name for name in names if not name.startswith(".cache/openskills/index/")]


def below(title: str, lines: list[str]) -> list[str]:
    """The lines after the one that begins with `title`, up to the next empty one."""
    start = next(number for number, line in enumerate(lines, 1) if line.startswith(title))
    return [line.strip() for line in takewhile(bool, lines[start:])]
