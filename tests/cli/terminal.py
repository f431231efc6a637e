"""A program on a pseudo terminal, which is read until something appears and typed at."""

import errno
import os
import pty
import select
import signal
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.cli.ran import TIMEOUT, Ran


class Terminal:
    """A program with a terminal of its own as all three streams, unless `stdout` says where its output goes."""

    def __init__(
        self,
        line: Sequence[str],
        *,
        cwd: Path,
        variables: Mapping[str, str],
        columns: int = 100,
        stdout: int | None = None,
    ) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, columns))
        self._process = subprocess.Popen(
            line,
            cwd=cwd,
            env=variables,
            stdin=slave,
            stdout=slave if stdout is None else stdout,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self._seen = b""
        self._deadline = time.monotonic() + TIMEOUT

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        os.close(self._master)

    @property
    def written(self) -> bytes:
        """Everything that was written so far."""
        return self._seen

    @property
    def screen(self) -> str:
        """Everything that was written so far, with its escape sequences."""
        return self._seen.decode("utf-8", "replace").replace("\r\n", "\n")

    def wait_for(self, text: str, behind: int = 0) -> None:
        """Read until `text` has been written, behind so many characters of the screen."""
        while text not in self.screen[behind:]:
            assert self.more(), f"{text!r} never appeared in {self.screen[behind:]!r}"

    def type(self, text: str | bytes) -> None:
        """Type on the keyboard."""
        os.write(self._master, text.encode() if isinstance(text, str) else text)

    def interrupt(self) -> None:
        """What Ctrl-C does to the command."""
        self._process.send_signal(signal.SIGINT)

    def terminate(self) -> None:
        """What a shutdown does to the command."""
        self._process.terminate()

    def finish(self) -> Ran:
        """Read to the end."""
        while self.more():
            pass
        return Ran(self._process.wait(), self.screen, "")

    def output(self) -> str:
        """What was written to a stdout that is a pipe, to its end."""
        assert self._process.stdout is not None
        return self._process.stdout.read().decode()

    def writes_within(self, seconds: float) -> bool:
        """Whether there is something to read, or the end, before so much time has passed."""
        return bool(select.select([self._master], [], [], max(seconds, 0))[0])

    def more(self) -> bool:
        """Wait for what is written next, and read it; whether it was anything but the end."""
        ready = self.writes_within(self._deadline - time.monotonic())
        assert ready, f"still running after {TIMEOUT} seconds: {self.screen!r}"
        try:
            chunk = os.read(self._master, 65536)
        except OSError as error:
            # Linux says so when the last process has closed the other side.
            if error.errno != errno.EIO:
                raise
            chunk = b""
        self._seen += chunk
        return bool(chunk)
