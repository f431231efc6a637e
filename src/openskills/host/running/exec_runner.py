"""Calls skills that are programs (`cli:exec`): the same contract as for scripts, a new process for each call."""

import asyncio
import os
from typing import Any

from openskills.errors import InvalidArgument
from openskills.host.registration import Registration
from openskills.host.result import Outcome
from openskills.host.runner import Call
from openskills.host.running.adapting import Written, adapted, too_late
from openskills.host.running.cold_process import run_cold
from openskills.host.running.command_input import arguments, call_input
from openskills.host.running.fork_protocol import Late
from openskills.host.running.live_lines import LiveLines
from openskills.host.running.manifest_fault import ManifestFault
from openskills.host.running.place import Place
from openskills.host.running.places import Places
from openskills.host.running.skill_environment import call_environment


class ExecRunner:
    """Implements `Runner`. `concurrency` is how many calls of one skill run at a time, if the skill does not say."""

    def __init__(self, places: Places, *, concurrency: int) -> None:
        self._places = places
        self._concurrency = concurrency
        self._turns: dict[str, tuple[int, asyncio.Semaphore]] = {}

    async def prepare(self, registration: Registration) -> None:
        """See `Runner.prepare`."""
        entry = registration.entry
        if not os.path.isfile(entry):
            raise ManifestFault("entry", f"there is no file {entry}; correct it in the manifest")
        if not os.access(entry, os.X_OK):
            raise ManifestFault("entry", f"{entry} cannot be executed; make it executable with chmod +x")
        arguments(registration)
        await self._places.for_(registration)

    async def invoke(self, registration: Registration, call: Call) -> Outcome:
        """See `Runner.invoke`."""
        place = await self._places.for_(registration)
        try:
            async with asyncio.timeout_at(call.deadline):
                turn = self._turn(registration)
                await turn.acquire()
        except TimeoutError:
            return too_late(registration.timeout_ms, Written(b"", notes=_notes(place)))
        try:
            return await self._run(place, registration, call)
        finally:
            turn.release()

    async def forget(self, skill_id: str) -> None:
        """See `Runner.forget`."""
        self._turns.pop(skill_id, None)

    async def close(self) -> None:
        """See `Runner.close`. Nothing is kept between calls."""

    def _turn(self, registration: Registration) -> asyncio.Semaphore:
        most = registration.limits.concurrency or self._concurrency
        found = self._turns.get(registration.id)
        if found is None or found[0] != most:
            found = self._turns[registration.id] = (most, asyncio.Semaphore(most))
        return found[1]

    async def _run(self, place: Place, registration: Registration, call: Call) -> Outcome:
        argv = (registration.entry, *arguments(registration))
        env = {**place.environment(registration), **call_environment(call)}
        stdin = call_input(call.input)
        lines = None if call.listener is None else LiveLines(call.listener, call.secrets)
        heard = None if lines is None else lines.heard
        try:
            ended = await run_cold(place, registration, argv, env, stdin, call.deadline, heard)
        except InvalidArgument as error:
            raise ManifestFault("entry", error.message) from None
        except Late as late:
            written = Written(late.stdout, late.stderr, secrets=call.secrets, notes=_notes(place))
            return too_late(registration.timeout_ms, written)
        finally:
            if lines is not None:
                lines.end()
        limit = registration.limits.output_bytes if ended.cut else None
        return adapted(Written(ended.stdout, ended.stderr, ended.returncode, limit, call.secrets, _notes(place)))


def _notes(place: Place) -> dict[str, Any]:
    return {"isolation": str(place.isolation)}
