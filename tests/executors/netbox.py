"""A bare sandbox with a network of its own, for tests of what reaches into it."""

import os
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

UID = 64999
TIMEOUT = 20.0
_OPTIONS = [
    *("--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000", "--disable-userns", "--die-with-parent"),
    *("--cap-drop", "ALL", "--clearenv", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin"),
    *("--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev"),
]


class Netbox:
    """A shell in a sandbox. It begins when it is told to, and what it writes is kept."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """The process outside that made the sandbox."""
        return self._process.pid

    def inside(self) -> int:
        """A process in the sandbox, when there is one."""
        deadline = time.monotonic() + TIMEOUT
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        while time.monotonic() < deadline:
            if found := children.read_text().split():
                return int(found[0])
            time.sleep(0.005)
        raise AssertionError("the sandbox has no process")

    def go(self) -> bytes:
        """Let it begin, and wait for what it has to say."""
        self.begin()
        return self.output()

    def begin(self) -> None:
        """Let it begin."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def output(self) -> bytes:
        """What it has to say, up to its end."""
        output, _ = self._process.communicate(timeout=TIMEOUT)
        return output


def dropped(argv: Sequence[str]) -> list[str]:
    """The command line that starts this as an ordinary user, which we may be already."""
    if os.geteuid() != 0:
        return list(argv)
    return ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups", *argv]


@contextmanager
def netbox(script: str) -> Generator[Netbox]:
    """A sandbox with a bash script that waits; everything in it ends with the block."""
    ready = "echo ready; read -r; "
    with subprocess.Popen(
        dropped(["bwrap", *_OPTIONS, "--", "bash", "-c", ready + script]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"PATH": os.defpath},
        cwd="/",
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            yield Netbox(process)
        finally:
            process.kill()
