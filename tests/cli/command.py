"""The real command in a child process, in a pipe or on a terminal, as a user with an empty home directory."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.ran import TIMEOUT, Ran
from tests.cli.terminal import Terminal
from tests.servers.warm_openskills import WarmOpenskills, is_particular


@dataclass
class Command:
    """`python -m openskills` for a user whose home is `home`, in the directory `cwd`.

    It runs in an interpreter that is `warm`, if there is one. Its terminal is its own, as that of a person is.
    """

    home: Path
    cwd: Path
    environment: dict[str, str] = field(default_factory=dict[str, str])
    warm: WarmOpenskills | None = None

    def __call__(
        self, *arguments: str | Path, piped: bytes | None = None, cwd: Path | None = None, **environment: str
    ) -> Ran:
        """Run it without a terminal, and nothing to read unless something is `piped`."""
        variables, directory = self.variables(environment), cwd or self.cwd
        if self.warm and piped is None and not is_particular(variables):
            done = self.warm.run([*map(str, arguments)], cwd=directory, env=variables, timeout=TIMEOUT)
        else:
            done = subprocess.run(
                self.line(arguments),
                cwd=directory,
                env=variables,
                stdin=subprocess.DEVNULL if piped is None else None,
                input=piped,
                capture_output=True,
                timeout=TIMEOUT,
            )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def line(self, arguments: Sequence[str | Path]) -> list[str]:
        """The command line for a shell-less start."""
        return [*(self.warm.line if self.warm else (sys.executable, "-m", "openskills")), *map(str, arguments)]

    def variables(self, more: Mapping[str, str]) -> dict[str, str]:
        """A clean environment: nothing of the machine but where programs are."""
        base = {"HOME": str(self.home), "PATH": os.defpath, "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        return {**base, **self.environment, **more}

    def on_terminal(
        self,
        *arguments: str | Path,
        replies: Mapping[str, str] | None = None,
        columns: int = 100,
        cwd: Path | None = None,
        **environment: str,
    ) -> Ran:
        """Run it on a terminal. When a text of `replies` has appeared, its answer is typed."""
        line, variables = self.line(arguments), self.variables(environment)
        with Terminal(line, cwd=cwd or self.cwd, variables=variables, columns=columns) as terminal:
            for text, answer in (replies or {}).items():
                terminal.wait_for(text)
                terminal.type(answer)
            return terminal.finish()

    def begun(self, *arguments: str | Path) -> Terminal:
        """Start it on a terminal, for who wants to see and do something before it ends."""
        return Terminal(self.line(arguments), cwd=self.cwd, variables=self.variables({}))
