"""The table from kinds of skills (`type:runtime`) to runners.

An installed package adds a kind with an entry point in the group `openskills.runners`: its name is the kind, and its
value a callable that takes the settings and returns a `SkillRunner`. Built-in kinds cannot be replaced.
"""

import asyncio
import os
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

from openskills.errors import ExecutorUnavailable
from openskills.host.model import ManifestFault, Registration, SkillRunner
from openskills.host.runners.isolation import IsolationProvider
from openskills.host.runners.kinds import ENTRY_POINT_GROUP, RUNNER_KINDS, find_installed_kinds
from openskills.settings import Settings


class Runners:
    """Creates runners on first use. Belongs to one event loop.

    `directory` is the working directory of commands: by default the one in which the host was started.
    """

    def __init__(self, settings: Settings, *, directory: Path | None = None) -> None:
        self._settings = settings
        self._places = IsolationProvider(settings, directory or Path.cwd())
        self._runners: dict[str, SkillRunner] = {}

    def get_runner(self, registration: Registration) -> SkillRunner:
        """The runner for a skill's kind; raises `ManifestFault` if there is none."""
        found = self._runners.get(registration.kind)
        if found is None:
            found = self._runners[registration.kind] = self._create(registration.kind)
        return found

    async def close(self) -> None:
        runners = list(self._runners.values())
        self._runners.clear()
        await asyncio.gather(*(runner.close() for runner in runners))
        await self._places.close()

    def _create(self, kind: str) -> SkillRunner:
        if (known := RUNNER_KINDS.get(kind)) is not None:
            make = EntryPoint(kind, known.runner, ENTRY_POINT_GROUP).load()
            concurrency = self._settings.host_concurrency or 2 * (os.cpu_count() or 1)
            runner = make(self._places, concurrency=concurrency) if known.isolated else make(self._settings)
            return cast("SkillRunner", runner)
        found = next(iter(entry_points(group=ENTRY_POINT_GROUP, name=kind)), None)
        if found is None:
            kinds = (*RUNNER_KINDS, *find_installed_kinds())
            near = get_close_matches(kind, kinds, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(sorted(kinds))}"
            raise ManifestFault("type", f"unknown kind {kind!r}; {hint}")
        return load_foreign_runner(found, self._settings)


def load_foreign_runner(found: EntryPoint, settings: Settings) -> SkillRunner:
    """The runner of another package; raises `ExecutorUnavailable` if it cannot be imported."""
    try:
        make = found.load()
    except (ImportError, AttributeError) as error:
        raise ExecutorUnavailable(f"cannot import the runner {found.name!r} ({found.value}): {error}") from error
    return cast("SkillRunner", make(settings))
