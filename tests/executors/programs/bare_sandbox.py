"""A sandbox with none of our own parts in it but the files of `openskills.executors.programs`, to run a program in."""

import os
import subprocess
import sys
from pathlib import Path

from openskills.executors import programs

PYTHON = os.path.realpath(sys.executable)
"""Where the environment of the tests lies is hidden in these sandboxes."""
INSIDE = "/home/inside"
# bwrap has used a socket to set up the network, and the kernel counts it for a moment after that is closed.
_SETTLED = """
import time
until = time.monotonic() + 10
while "sockets: used 0" not in open("/proc/net/sockstat").read() and time.monotonic() < until:
    time.sleep(0.001)
"""


def printed(bwrap: str, program: str, code: str) -> str:
    """What a program prints that is told where those files lie, and some code."""
    files = str(Path(str(programs.__file__)).parent)
    view = ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/dev/shm", "--tmpfs", "/home"]
    view += ["--tmpfs", "/tmp", "--dir", "/home/u", "--ro-bind", files, INSIDE]
    argv = [bwrap, *view, "--unshare-all", PYTHON, "-c", f"{_SETTLED}{program}", INSIDE, code]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.strip()
