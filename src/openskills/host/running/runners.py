"""The table from the kind of a skill (`type:runtime`) to the runner that calls it.

An installed package adds a kind with an entry point in the group `openskills.runners`: its name is the kind, and it
leads to a callable that takes the settings and returns a `Runner`. Those of this package cannot be replaced.
"""

import asyncio
import importlib
import os
from collections.abc import Callable
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

from openskills.errors import ExecutorUnavailable
from openskills.host.registration import Registration
from openskills.host.runner import Runner
from openskills.host.running.manifest_fault import ManifestFault
from openskills.host.running.places import Places
from openskills.settings import Settings

GROUP = "openskills.runners"
KINDS = {
    "cli:python": "openskills.host.running.python_runner:PythonRunner",
    "cli:exec": "openskills.host.running.exec_runner:ExecRunner",
    "http": "openskills.host.running.http_runner:HttpRunner",
    "docker": "openskills.host.running.docker_runner:DockerRunner",
    "inproc": "openskills.host.running.function_runner:FunctionRunner",
}


class Runners:
    """Makes each runner when a skill first wants it. It belongs to one event loop.

    `directory` is where commands begin: the one that the host was started in, because manifests are written for it.
    """

    def __init__(self, settings: Settings, *, directory: Path | None = None) -> None:
        self._settings = settings
        self._places = Places(settings, directory or Path.cwd())
        self._runners: dict[str, Runner] = {}
        self._others: dict[str, EntryPoint] | None = None

    def for_(self, registration: Registration) -> Runner:
        """The runner of a skill's kind; raises `ManifestFault` when there is none."""
        found = self._runners.get(registration.kind)
        if found is None:
            found = self._runners[registration.kind] = self._made(registration.kind)
        return found

    async def close(self) -> None:
        """End everything that was started."""
        runners = list(self._runners.values())
        self._runners.clear()
        await asyncio.gather(*(runner.close() for runner in runners))
        await self._places.close()

    def _made(self, kind: str) -> Runner:
        concurrency = self._settings.host_concurrency or 2 * (os.cpu_count() or 1)
        if kind in ("cli:python", "cli:exec"):
            return cast("Runner", _imported(KINDS[kind])(self._places, concurrency=concurrency))
        if kind in KINDS:
            return cast("Runner", _imported(KINDS[kind])(self._settings))
        if self._others is None:
            self._others = {found.name: found for found in entry_points(group=GROUP)}
        if kind not in self._others:
            raise ManifestFault("type", _unknown(kind, (*KINDS, *self._others)))
        return foreign_runner(self._others[kind], self._settings)


def _imported(dotted: str) -> Callable[..., object]:
    module, _, name = dotted.partition(":")
    return cast("Callable[..., object]", getattr(importlib.import_module(module), name))


def foreign_runner(found: EntryPoint, settings: Settings) -> Runner:
    """The runner of another package; raises `ExecutorUnavailable` when it cannot be imported."""
    try:
        make = found.load()
    except (ImportError, AttributeError) as error:
        raise ExecutorUnavailable(f"the runner {found.name!r} ({found.value}) cannot be imported: {error}") from error
    return cast("Runner", make(settings))


def _unknown(kind: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(kind, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
    return f"there is no runner for {kind!r}; {hint}"
