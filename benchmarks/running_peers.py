"""What a user would use instead: other libraries, and the programs that are underneath."""

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from peer_process import Installed, PeerProcess, new_home, peer_process
from running_part import NotMeasured
from sampling import Way

TRPC_AGENT = Installed("trpc-agent-py", "running", "trpc_agent_sdk")


def bare(argv: Sequence[str]) -> Way:
    """`subprocess.run` with captured output: what a script of one's own would do."""

    async def once() -> float:
        begin = time.perf_counter()
        subprocess.run(argv, capture_output=True, check=True)
        return time.perf_counter() - begin

    return once


def bubblewrap() -> Callable[[Sequence[str]], Way]:
    """`bwrap` with new namespaces around the whole file system, read-only: the least that the kernel takes for it."""
    program = shutil.which("bwrap")
    if program is None:
        raise NotMeasured("`bwrap` alone: bubblewrap is not installed")
    options = ("--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
    return lambda argv: bare([program, *options, *argv])


def trpc_agent(
    scratch: Path, *arguments: str | Path, script: str = "running_trpc.py", home: Path | None = None
) -> AbstractAsyncContextManager[PeerProcess]:
    """trpc-agent-py, told what to do by a script of ours, with a temporary directory, where it leaves everything.

    Its home is empty, unless one is given: its login shells read the profile that is there.
    """
    variables = new_home(scratch)
    if home is not None:
        variables["HOME"] = str(home)
    return peer_process(TRPC_AGENT, script, *arguments, variables=variables)
