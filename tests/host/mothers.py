"""Warm interpreters without a runner around them, for tests."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from openskills.executors.processes.keeping import Kept
from openskills.host.registration import Registration
from openskills.host.running.fork_mother import Mother, Wanted
from openskills.host.running.fork_protocol import Ended, encoded_call
from openskills.host.running.fork_slot import Slot
from openskills.host.running.local_place import LocalPlace
from openskills.sync import run
from tests.host.calls_made import script

T = TypeVar("T")


def with_mothers(
    directory: Path, text: str, work: Callable[[Callable[..., Awaitable[Mother]]], Awaitable[T]], **more: Any
) -> T:
    """Do some work with what begins interpreters for this script."""
    entry = script(directory, text)
    fields: dict[str, Any] = {"preload": ("json",), "named": (), "stdout": 100_000, "stderr": 1000, **more}
    wanted = Wanted(str(entry), (), (str(directory), *(path for path in sys.path if path)), **fields)
    skill = Registration("s", "cli:python", str(entry), "1")

    async def whole() -> T:
        place = LocalPlace(directory)

        async def launch(argv: Sequence[str], stdin: int, stderr: int) -> Kept:
            with open(os.devnull, "r+b", 0) as null:
                return await place.start(skill, argv, place.environment(skill), (stdin, null.fileno(), stderr))

        async def begin(**options: Any) -> Mother:
            return await Mother.begin(launch, sys.executable, wanted, **options)

        try:
            return await work(begin)
        finally:
            await place.close()

    return run(whole())


async def call(slot: Slot, stdin: bytes = b"", **variables: str) -> Ended:
    """One call, with time enough."""
    deadline = asyncio.get_running_loop().time() + 20
    return await slot.call(encoded_call(stdin, variables, live=False), deadline)
