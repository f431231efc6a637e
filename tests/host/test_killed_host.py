"""When the host is killed without a word, nothing of its skills goes on."""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.host.calls_made import script

ENDS_WITHIN = 20.0


def running(mark: str) -> list[int]:
    """The processes of this machine that have the mark on their command line."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line and int(name) != os.getpid():
                found.append(int(name))
    return found


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + ENDS_WITHIN
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


WAYS = [("local", "fork"), ("local", "spawn"), ("local", "reuse"), ("sandbox", "fork"), ("sandbox", "spawn")]


@pytest.mark.parametrize(("executor", "warm"), WAYS)
def test_a_killed_host_leaves_no_process_behind(
    tmp_path: Path, executor: str, warm: str, require_program: Callable[[str], str]
) -> None:
    if executor == "sandbox":
        require_program("bwrap")
    mark = f"mark{secrets.token_hex(8)}"
    tmp_path.chmod(0o755)
    (tmp_path / "data").mkdir(mode=0o755)
    text = f"""
        import os
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execvp("sh", ["sh", "-c", "trap '' TERM HUP INT; while :; do sleep 1; done", "{mark}"])
            os._exit(0)
        os.execvp("sh", ["sh", "-c", "while :; do sleep 1; done", "{mark}"])
    """
    script(tmp_path, text)
    host = subprocess.Popen(
        [sys.executable, "-m", "tests.host.killed_host", str(tmp_path), executor, warm],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    with host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"begun\n"
        wait_until(lambda: len(running(mark)) >= 6)
        host.kill()
    wait_until(lambda: not running(mark))
