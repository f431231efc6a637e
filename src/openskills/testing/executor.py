"""Conformance checks for executors: `run(check_executor(lambda: MyExecutor(...)))`."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from openskills.arguments import check_arguments
from openskills.errors import InvalidArgument
from openskills.executors.protocol import Executor
from openskills.executors.spec import Isolation
from openskills.testing.checks import ExecutorTrial, Promise, check_promise
from openskills.testing.executor_commands import ENDINGS, ENVIRONMENT, LIMITS, PROCESSES, STREAMS
from openskills.testing.executor_files import FILES, LINK_CHECKS, PATHS, WORKSPACES
from openskills.testing.executor_isolation import INTERACTIVE, ISOLATION, TERMINAL
from openskills.testing.executor_skills import SKILLS, STAGING

WITHOUT_COMMANDS = ("files", "paths", "staging", "workspaces")
"""The groups of checks that start no command."""

_GROUPS: Mapping[str, Sequence[Promise]] = {
    "files": FILES,
    "paths": PATHS,
    "staging": STAGING,
    "workspaces": WORKSPACES,
    "environment": ENVIRONMENT,
    "endings": ENDINGS,
    "processes": PROCESSES,
    "streams": STREAMS,
    "interactive": INTERACTIVE,
    "terminal": TERMINAL,
    "links": LINK_CHECKS,
    "skills": SKILLS,
    "limits": LIMITS,
    "isolation": ISOLATION,
}
GROUPS = tuple(_GROUPS)
"""All groups of checks. Those about isolation run if there is some."""


@check_arguments
async def check_executor(
    make: Callable[[], Executor], *, groups: Iterable[str] = GROUPS, timeout: float = 60.0
) -> None:
    """Check that an executor implements `Executor`; raises `AssertionError` with the broken promise.

    `make` is called once per group of promises, and for some promises once more; every executor is closed. They may
    share files: only unique workspace keys are used, and removed. Commands need `sh` and `python3`. `timeout` is the
    limit in seconds for one promise. Raises `ExecutorUnavailable` when the executor does not work here. Performance,
    crashes and hostile commands are not checked.
    """
    for group in groups:
        if group not in _GROUPS:
            raise InvalidArgument("groups", f"unknown group {group!r}; use {', '.join(GROUPS)}")
        await check_promises(make, _GROUPS[group], timeout=timeout)


async def check_promises(make: Callable[[], Executor], promises: Sequence[Promise], *, timeout: float) -> None:
    """Run these checks one after the other with one executor."""
    executor = make()
    try:
        isolation = await executor.check()
        if promises is not ISOLATION or isolation is not Isolation.NONE:
            for promise in promises:
                await check_promise(promise, _run_promise(promise, executor, isolation, make, timeout))
    finally:
        await executor.close()


async def _run_promise(
    promise: Promise, executor: Executor, isolation: Isolation, make: Callable[[], Executor], timeout: float
) -> None:
    key = f"check-{uuid4()}"
    with TemporaryDirectory(prefix="openskills-check-") as directory:
        timer = asyncio.timeout(timeout)
        try:
            async with timer:
                workspace = await executor.open(key)
                await promise(ExecutorTrial(executor, workspace, key, isolation, Path(directory), make))
        except TimeoutError:
            if timer.expired():
                raise AssertionError(f"it was not kept within {timeout:g} seconds") from None
            raise
        finally:
            await executor.remove(key)
