"""Calls skills that are Python scripts (`cli:python`): a fresh process for each call, usually a warm one."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openskills.child import finish
from openskills.errors import ExecutorUnavailable, SkillError
from openskills.executors.processes.keeping import Kept
from openskills.host.registration import Registration, Warmth
from openskills.host.result import Outcome
from openskills.host.runner import Call
from openskills.host.running.adapting import Written, adapted, too_late
from openskills.host.running.cold_process import STDERR_BYTES, run_cold
from openskills.host.running.command_input import arguments, call_input
from openskills.host.running.fork_mother import Mother, Refused, Wanted
from openskills.host.running.fork_pool import ForkPool
from openskills.host.running.fork_protocol import Ended, Late, encoded_call
from openskills.host.running.live_lines import LiveLines
from openskills.host.running.manifest_fault import ManifestFault
from openskills.host.running.place import Place
from openskills.host.running.places import Places
from openskills.host.running.preloading import modules_ahead, worth_loading
from openskills.host.running.skill_environment import call_environment

_LOOKING_MAY_TAKE = 20.0
_SHOWN = 300
_LESSONS = 3
_REUSED = 1000
_MAX_SOURCE = 8 * 1024 * 1024


class PythonRunner:
    """Implements `Runner`. `concurrency` is how many calls of one skill run at a time, if the skill does not say."""

    def __init__(self, places: Places, *, concurrency: int) -> None:
        self._places = places
        self._concurrency = concurrency
        self._skills: dict[str, _Served] = {}
        self._newest: dict[str, Registration] = {}
        self._retiring: dict[asyncio.Task[None], _Served] = {}
        self._paths: dict[str, tuple[str, ...]] = {}

    async def prepare(self, registration: Registration) -> None:
        """See `Runner.prepare`."""
        # Said at once: one that takes long to make never takes the place of one that came after it.
        self._newest[registration.id] = registration
        served = await self._served(registration)
        if self._skills.get(registration.id) is served:
            await served.prepare()

    async def invoke(self, registration: Registration, call: Call) -> Outcome:
        """See `Runner.invoke`."""
        served = self._skills.get(registration.id)
        if served is None or served.registration is not registration:
            self._newest.setdefault(registration.id, registration)
            served = await self._served(registration)
        return await served.invoke(call)

    async def forget(self, skill_id: str) -> None:
        """See `Runner.forget`."""
        self._newest.pop(skill_id, None)
        served = self._skills.pop(skill_id, None)
        if served is not None:
            self._retire(served)

    async def close(self) -> None:
        """See `Runner.close`."""
        for skill_id in list(self._skills):
            await self.forget(skill_id)
        retiring = dict(self._retiring)
        await asyncio.gather(*(served.close() for served in retiring.values()), *retiring)

    async def _served(self, registration: Registration) -> "_Served":
        """What serves this registration: for good if it is the newest, else for the call that comes with it."""
        place = await self._places.for_(registration)
        python = interpreter(registration)
        path = await self._path(python)
        known = self._skills.get(registration.id)
        if known is not None and known.registration == registration:
            return known
        most = registration.limits.concurrency or self._concurrency
        found = _Served(registration, place, python, path, most)
        if self._newest.get(registration.id, registration) != registration:
            self._retire(found)
            return found
        self._skills[registration.id] = found
        if known is not None:
            self._retire(known)
        return found

    def _retire(self, served: "_Served") -> None:
        task = asyncio.get_running_loop().create_task(served.retire())
        self._retiring[task] = served
        task.add_done_callback(self._retiring.pop)

    async def _path(self, python: str) -> tuple[str, ...]:
        if python not in self._paths:
            self._paths[python] = await asyncio.to_thread(search_path, python)
        return self._paths[python]


def interpreter(registration: Registration) -> str:
    """The interpreter of a skill: the one its manifest names in `python`, or ours."""
    chosen = registration.options.get("python")
    return str(chosen) if chosen else sys.executable


def search_path(python: str) -> tuple[str, ...]:
    """Where an interpreter looks for modules when it starts as usual, but for the script's own directory. Blocking."""
    argv = (python, "-I", "-c", "import json, sys; print(json.dumps(sys.path))")
    try:
        done = finish(argv, environment={}, cwd=Path("/"), timeout=_LOOKING_MAY_TAKE, max_output=1024 * 1024)
    except SkillError as error:
        raise _broken(python, error.message) from None
    try:
        return tuple(json.loads(done.stdout))
    except ValueError:
        said = done.stderr.decode("utf-8", "replace").strip()[-_SHOWN:]
        raise _broken(python, f"it ended with {done.returncode} and said {said!r}") from None


def _broken(python: str, because: str) -> ExecutorUnavailable:
    return ExecutorUnavailable(
        f"the interpreter {python} does not work: {because}; install it or correct `python` in the manifest"
    )


class _Served:
    """One skill and what is kept for it."""

    def __init__(self, registration: Registration, place: Place, python: str, path: tuple[str, ...], most: int) -> None:
        self.registration = registration
        self._place = place
        self._python = python
        self._path = path
        self._environment = place.environment(registration)
        self._notes: dict[str, Any] = {"isolation": str(place.isolation)}
        self._cold_because = "" if registration.warm is not Warmth.SPAWN and sys.platform == "linux" else "it says so"
        self._pool = ForkPool(self._begin, most=most, alone=place.alone)
        self._learned: tuple[str, ...] = ()
        self._lessons = 0

    async def prepare(self) -> None:
        """Have an interpreter ready; raises `SkillError` when the script is not there or nothing can be started."""
        if not os.path.isfile(self.registration.entry):
            raise ManifestFault("entry", f"there is no file {self.registration.entry}; correct it in the manifest")
        if not self._cold_because:
            try:
                await self._pool.prepare()
            except Refused as error:
                self._turn_cold(error)

    async def invoke(self, call: Call) -> Outcome:
        """One call."""
        stdin = call_input(call.input)
        lines = None if call.listener is None else LiveLines(call.listener, call.secrets)
        heard = None if lines is None else lines.heard
        try:
            ended = None
            if not self._cold_because:
                message = _message(stdin, call)
                try:
                    ended = await self._pool.call(message, call.deadline, heard)
                except Refused as error:
                    self._turn_cold(error)
            if ended is None:
                argv = (self._python, self.registration.entry, *arguments(self.registration))
                env = {**self._environment, **call_environment(call)}
                ended = await run_cold(self._place, self.registration, argv, env, stdin, call.deadline, heard)
        except Late as late:
            written = Written(late.stdout, late.stderr, secrets=call.secrets, notes=self._notes)
            return too_late(self.registration.timeout_ms, written)
        finally:
            if lines is not None:
                lines.end()
        if ended.imported:
            self._learn(ended.imported)
        return self._outcome(ended, call)

    async def retire(self) -> None:
        """End what is kept behind the last of the calls that have begun."""
        await self._pool.retire()

    async def close(self) -> None:
        """End what is kept, and the calls that it serves."""
        await self._pool.close()

    def _outcome(self, ended: Ended, call: Call) -> Outcome:
        limit = self.registration.limits.output_bytes if ended.cut else None
        return adapted(Written(ended.stdout, ended.stderr, ended.returncode, limit, call.secrets, self._notes))

    def _learn(self, imported: Sequence[str]) -> None:
        """What a call had to import, the next ones have ready."""
        new = tuple(name for name in worth_loading(imported) if name not in self._learned)
        if new and self._lessons < _LESSONS:
            self._lessons += 1
            self._learned += new
            self._pool.refresh()

    def _turn_cold(self, error: Refused) -> None:
        self._cold_because = str(error)
        self._notes = {**self._notes, "cold_start": str(error)}

    async def _begin(self) -> Mother:
        registration = self.registration
        ahead = (*await asyncio.to_thread(_ahead, registration.entry), *self._learned)
        wanted = Wanted(
            entry=registration.entry,
            args=arguments(registration),
            path=(os.path.dirname(os.path.realpath(registration.entry)), *self._path),
            preload=(*ahead, *(name for name in registration.preload if name not in ahead)),
            named=registration.preload,
            stdout=registration.limits.output_bytes,
            stderr=STDERR_BYTES,
            tidy=self._place.alone,
            reuse=_REUSED if registration.warm is Warmth.REUSE else 0,
        )
        return await Mother.begin(self._launch, self._python, wanted)

    async def _launch(self, argv: Sequence[str], stdin: int, stderr: int) -> Kept:
        with open(os.devnull, "r+b", 0) as null:
            stdio = (stdin, null.fileno(), stderr)
            return await self._place.start(self.registration, argv, self._environment, stdio)


def _ahead(entry: str) -> tuple[str, ...]:
    try:
        with open(entry, "rb") as file:
            return modules_ahead(file.read(_MAX_SOURCE))
    except OSError:
        raise ManifestFault("entry", f"{entry} cannot be read; correct it in the manifest") from None


def _message(stdin: bytes, call: Call) -> bytes:
    try:
        return encoded_call(stdin, call_environment(call), live=call.listener is not None)
    except ValueError as error:
        raise ManifestFault("secrets", f"the variable {error} cannot be set: it has a NUL byte in it") from None
