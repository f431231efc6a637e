"""Where hosted skills run: from the word in a manifest to a place, and nothing weaker than what was asked for."""

import asyncio
from pathlib import Path

from openskills.errors import ExecutorUnavailable
from openskills.host.registration import Registration
from openskills.host.running.local_place import LocalPlace
from openskills.host.running.manifest_fault import ManifestFault
from openskills.host.running.place import Place
from openskills.host.running.sandboxed import SandboxPlace
from openskills.settings import Settings

_NAMES = ("auto", "sandbox", "local")
_ALLOW_LOCAL = "To run hosted skills without any isolation, set OPENSKILL_ALLOW_LOCAL=1 or `executor: local`."


class Places:
    """The places of a host, each made when a skill first wants it."""

    def __init__(self, settings: Settings, directory: Path) -> None:
        self._settings = settings
        self._directory = directory
        self._places: dict[str, Place] = {}
        self._choosing = asyncio.Lock()

    async def for_(self, registration: Registration) -> Place:
        """Where a skill runs; raises `ExecutorUnavailable` when it cannot run there, and says what to do.

        Nothing weaker is ever taken instead, unless the settings allow `local` and nothing was asked for.
        """
        name = self._settings.executor if registration.executor == "auto" else registration.executor
        if name not in _NAMES:
            raise ManifestFault(
                "executor", f"a hosted command cannot run in {name!r}; use one of {', '.join(_NAMES)}, or type: docker"
            )
        async with self._choosing:
            if name == "local":
                return self._local()
            place = self._sandbox()
            try:
                await place.check()
            except ExecutorUnavailable as error:
                if name != "auto":
                    raise
                if not self._settings.allow_local:
                    raise ExecutorUnavailable(f"{error.message}. {_ALLOW_LOCAL}") from error
                return self._local()
            return place

    async def close(self) -> None:
        """End everything."""
        for place in self._places.values():
            await place.close()
        self._places.clear()

    def _local(self) -> Place:
        return self._places.setdefault("local", LocalPlace(self._directory))

    def _sandbox(self) -> Place:
        return self._places.setdefault("sandbox", SandboxPlace(self._settings, self._directory))
