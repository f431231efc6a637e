"""The real command in a child process, in a pipe or on a terminal, as a user with an empty home directory."""

import errno
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATIENCE = 60.0
"""Seconds after which a test gives up on a command that should have ended."""


@dataclass(frozen=True)
class Ran:
    """How a command ended and what it wrote; on a terminal `out` holds both streams unless stdout was a pipe."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What was written for a program."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        """The lines of the answer, without what gives them style."""
        return re.sub("\x1b\\[[0-9;]*m", "", self.out).splitlines()


@dataclass
class Command:
    """`python -m openskills` for a user whose home is `home`, in the directory `cwd`."""

    home: Path
    cwd: Path
    environment: dict[str, str] = field(default_factory=dict[str, str])

    def __call__(self, *arguments: str | Path, cwd: Path | None = None, **environment: str) -> Ran:
        """Run it with pipes and nothing to read."""
        done = subprocess.run(
            self.line(arguments),
            cwd=cwd or self.cwd,
            env=self.variables(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def line(self, arguments: Sequence[str | Path]) -> list[str]:
        """The command line for a shell-less start."""
        return [sys.executable, "-m", "openskills", *map(str, arguments)]

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
        with Terminal(self, arguments, cwd or self.cwd, environment, columns) as terminal:
            for text, answer in (replies or {}).items():
                terminal.wait_for(text)
                terminal.type(answer)
            return terminal.finish()


class Terminal:
    """A command with a terminal of its own as all three streams."""

    def __init__(
        self,
        command: Command,
        arguments: Sequence[str | Path],
        cwd: Path,
        environment: Mapping[str, str],
        columns: int = 100,
    ) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, columns))
        self._process = subprocess.Popen(
            command.line(arguments),
            cwd=cwd,
            env=command.variables(environment),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self._seen = b""
        self._deadline = time.monotonic() + PATIENCE

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    @property
    def screen(self) -> str:
        """Everything that was written so far, with its escape sequences."""
        return self._seen.decode("utf-8", "replace").replace("\r\n", "\n")

    def wait_for(self, text: str) -> None:
        """Read until `text` has been written."""
        while text not in self.screen:
            assert self._read(), f"{text!r} never appeared in {self.screen!r}"

    def type(self, text: str) -> None:
        """Type on the keyboard."""
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """What Ctrl-C does to the command."""
        self._process.send_signal(signal.SIGINT)

    def finish(self) -> Ran:
        """Read to the end."""
        while self._read():
            pass
        return Ran(self._process.wait(), self.screen, "")

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(self._deadline - time.monotonic(), 0))
        assert ready, f"still running after {PATIENCE} seconds: {self.screen!r}"
        try:
            chunk = os.read(self._master, 65536)
        except OSError as error:
            # Linux says so when the last process has closed the other side.
            if error.errno != errno.EIO:
                raise
            chunk = b""
        self._seen += chunk
        return bool(chunk)
