"""Commands that do not want to end, that leave something, or that give too much: run through an executor or a library.

Part of the program `safety_host.py`.
"""

import asyncio
import os
import resource
import secrets
import shlex
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safety_ways import WAYS

from openskills.executors.protocol import Workspace
from openskills.executors.spec import MIB, Limits
from openskills.executors.staging.outputs import OutputSpec, collect_outputs
from tests.hostile import bare
from tests.hostile.deadlines import HANDING_OVER, NOISY, STUBBORN
from tests.hostile.opening import end_marked, gone, opened, python, run, with_battery
from tests.hostile.planting import VARIABLE, token
from tests.hostile.probes.tricking import traps
from tests.hostile.skill import write_battery

HELD, LEAKED, HUNG = "held", "leaked", "hung"
LIMIT, LATE = 1.0, 3.0
"""The time limit of a command, and how long after it, or after its end, an answer is late: then it hung."""
LONG = 20.0
FLOOD, MAX_GROWTH = 200_000_000, 64 * MIB
WRITES, HANDS_OVER = "writes 200 MB", "exits, and a grandchild keeps its pipes open"
STAYS = "starts ten processes that try to survive"
LINKS, PIPE = "leaves links to the outside to be collected", "leaves a named pipe without a writer to be collected"

_VARIABLE = os.environ.get(VARIABLE, "").encode() or b"no secret was planted"

Work = Callable[[], Coroutine[Any, Any, object]]


@dataclass(frozen=True)
class Subject:
    """Somebody who runs commands in `tree`. `on_loop`: in the loop of this program, which it does not block."""

    way: Any
    tree: Path
    on_loop: bool


class Ours:
    """An executor of ours, with a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def run(self, shell: str, timeout: float) -> None:
        """Run a command to its end."""
        await run(self._workspace, "bash", "-c", shell, limits=Limits(timeout=timeout, grace=0.5))

    async def collected(self, names: Sequence[str]) -> dict[str, bytes]:
        """Files of the workspace."""
        spec = OutputSpec(tuple(names), max_files=1000, max_file_bytes=64 * 1024)
        return {file.path: file.data for file in (await collect_outputs(self._workspace, spec)).files}


async def endings(name: str, directory: Path) -> dict[str, str]:
    """What came of each case: held, leaked, hung; without a word where there is nothing to try."""
    async with _subject(name, directory) as subject:
        # First, because what it measures is the most memory that this process ever had.
        flooded = await _flooded(subject)
        quiet = {what: _python(code) for what, code in STUBBORN.items() if what != NOISY}
        tries = [_ended(subject, argv, LIMIT, LIMIT + LATE) for argv in quiet.values()]
        tries.append(_ended(subject, _python(HANDING_OVER), LONG, LATE))
        tries.append(_ended(subject, python("tests.hostile.probes.staying"), LONG, LATE))
        found = dict(zip((*quiet, HANDS_OVER, STAYS), await asyncio.gather(*tries), strict=True))
        found[NOISY] = await _ended(subject, _python(STUBBORN[NOISY]), LIMIT, LIMIT + LATE)
        found[WRITES] = flooded
        return {**found, **(await _tricked(subject, directory) if hasattr(subject.way, "collected") else {})}


def _python(code: str) -> list[str]:
    return ["python3", "-c", code]


@asynccontextmanager
async def _subject(name: str, directory: Path) -> AsyncGenerator[Subject]:
    if name in WAYS:
        tree = bare.make_place(directory, write_battery(directory)).tree
        yield Subject(WAYS[name](tree), tree, on_loop=False)
        return
    async with opened(name, directory) as chosen:
        workspace = await with_battery(chosen, "one", directory)
        # Objects made at the first use are not part of any case.
        await run(workspace, "true")
        tree = directory / "state" / "workspaces" / workspace.id / "tree"
        yield Subject(Ours(workspace), tree, on_loop=True)


async def _ended(subject: Subject, argv: Sequence[str], limit: float, late: float) -> str:
    """Whether there was an answer in time, and whether nothing of the command runs two seconds later."""
    marker = f"safety-{secrets.token_hex(8)}"
    shell = shlex.join([*argv, marker])
    try:
        if not await _answered(subject, lambda: subject.way.run(shell, limit), late):
            return HUNG
        return LEAKED if await asyncio.to_thread(gone, marker, 2.0) else HELD
    finally:
        await asyncio.to_thread(end_marked, marker)


async def _flooded(subject: Subject) -> str:
    shell = f"head -c {FLOOD} /dev/zero | tr '\\0' y"
    before = _peak()
    if not await _answered(subject, lambda: subject.way.run(shell, LONG), LONG):
        return HUNG
    return LEAKED if _peak() - before > MAX_GROWTH else HELD


async def _tricked(subject: Subject, directory: Path) -> dict[str, str]:
    """Whether what is collected has anything from outside in it; hard links to what the command can read are fair."""
    outside, secret = directory / "outside", token()
    outside.mkdir()
    (outside / "secret.txt").write_text(secret, "ascii")
    outside.chmod(0o755)
    command = shlex.join(python("tests.hostile.probes.tricking", str(outside), str(os.getpid())))
    await _answered(subject, lambda: subject.way.run(command, LONG), LONG)
    links = [f"out/{name}" for name in traps("", "") if (subject.tree / "out" / name).is_symlink()]
    found: dict[str, bytes] = {}

    async def collecting(names: Sequence[str]) -> None:
        found.update(await subject.way.collected(names))

    in_time = await _answered(subject, lambda: collecting([*links, "out/real.txt"]), LATE)
    leaked = any(secret.encode() in data or _VARIABLE in data for data in found.values())
    not_stuck = await _answered(subject, lambda: collecting(["out/fifo", "out/real.txt"]), LATE)
    # Whoever waits for a writer gets one, so that this program can end.
    with suppress(OSError):
        os.close(os.open(subject.tree / "out" / "fifo", os.O_WRONLY | os.O_NONBLOCK))
    return {LINKS: LEAKED if leaked else HELD if in_time else HUNG, PIPE: HELD if not_stuck else HUNG}


async def _answered(subject: Subject, work: Work, seconds: float) -> bool:
    """Whether work comes to an end in time; it may fail, as a command that is ended does."""
    if subject.on_loop:
        try:
            await asyncio.wait_for(work(), seconds)
        except TimeoutError:
            return False
        return True
    # A library may block its loop: each call has a thread and a loop of its own, and nobody waits for it for ever.
    thread = threading.Thread(target=_quietly, args=(work,), daemon=True)
    thread.start()
    until = time.monotonic() + seconds
    while thread.is_alive() and time.monotonic() < until:
        await asyncio.sleep(0.01)
    return not thread.is_alive()


def _quietly(work: Work) -> None:
    with suppress(Exception):
        asyncio.run(work())


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
