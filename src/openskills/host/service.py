"""The host without HTTP: the way of one invocation from the input to the one result."""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any, Protocol

from openskills.errors import ExecutorUnavailable, Forbidden, RunCancelled, RunInterrupted, SkillError
from openskills.host.books.admission import Admission
from openskills.host.books.keys import Principal
from openskills.host.invocation import Asked, Invocation, Watcher
from openskills.host.masking import masked_listener, masked_outcome
from openskills.host.registration import Registration
from openskills.host.result import Failure, InvokeResult, Outcome, failed, normalised
from openskills.host.runner import Call, Emitted, Listener, Runner
from openskills.host.schemas import Checks
from openskills.host.spans import invocation, traceparent_here
from openskills.host.wire import faults
from openskills.host.wire.answers import wire_form
from openskills.version import __version__

_log = logging.getLogger("openskills.host")


class Skills(Protocol):
    """What can be invoked: all that the way of an invocation wants of a registry."""

    def get(self, skill_id: str) -> Registration:
        """The skill of this id; raises `SkillError`."""
        ...

    def known(self, skill_id: str) -> Registration | None:
        """The same, or None."""
        ...


class RunnerTable(Protocol):
    """Who calls a skill: all that the way of an invocation wants of the runners."""

    def for_(self, registration: Registration) -> Runner:
        """The runner of a skill's kind; raises `SkillError` when there is none."""
        ...


class Host:
    """Everything between a request and a runner. It belongs to one event loop. `secrets` are all that there are."""

    def __init__(
        self,
        skills: Skills,
        runners: RunnerTable,
        admission: Admission,
        *,
        secrets: Mapping[str, str],
        watchers: tuple[Watcher, ...] = (),
    ) -> None:
        self._skills = skills
        self._runners = runners
        self._admission = admission
        self._secrets = secrets
        self._watchers = watchers
        self._checks: dict[str, tuple[Registration, Checks]] = {}
        self._running: set[asyncio.Task[Any]] = set()
        self._interrupted: set[asyncio.Task[Any]] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self.draining = False

    @property
    def running(self) -> int:
        """Invocations that are under way; those that wait for a place count, too."""
        return len(self._running)

    async def idle(self) -> None:
        """Wait until nothing is under way."""
        await self._idle.wait()

    def interrupt(self) -> None:
        """End everything that is under way, and begin nothing new. Callers get a result that says so.

        Safe to call twice.
        """
        self.draining = True
        # A second cancellation would end the ending of children.
        for task in self._running - self._interrupted:
            self._interrupted.add(task)
            task.cancel()

    def find(self, skill_id: str, principal: Principal) -> Registration:
        """The skill that somebody may call; raises `SkillError`."""
        registration = self._skills.get(skill_id)
        if not principal.may(registration.id):
            raise Forbidden(f"the key {principal.name!r} has no scope for {registration.id!r}", scope=registration.id)
        return registration

    def fault(self, asked: Asked) -> Failure | None:
        """What keeps an invocation from beginning, as far as that is known without beginning. Raises `SkillError`."""
        if self.draining:
            return faults.draining()
        return self._checks_of(self.find(asked.skill_id, asked.principal)).of_input(asked.input)

    async def invoke(
        self,
        skill_id: str,
        input: Mapping[str, Any],  # noqa: A002 - the word of the protocol
        *,
        trace_id: str,
        principal: Principal,
        listener: Listener | None = None,
        traceparent: str | None = None,
    ) -> InvokeResult:
        """Call a skill once. Whatever happens is in the result; only a cancellation is passed on."""
        asked = Asked(
            skill_id, input, trace_id, principal, time.perf_counter(), listener=listener, traceparent=traceparent
        )
        return (await self.perform(asked)).result

    async def perform(self, asked: Asked) -> Invocation:
        """The same for a request, with the books: what it ended in, as value and as bytes."""
        registration: Registration | None = None
        outcome = failed(RunCancelled("the call was cancelled before the skill was done"))
        task = self._enter()
        try:
            if self.draining:
                outcome = failed(faults.draining())
            else:
                found = self.find(asked.skill_id, asked.principal)
                for watcher in self._watchers:
                    watcher.began(found)
                registration = found
                outcome = await self._call(found, asked)
        except SkillError as error:
            outcome = failed(error)
        except asyncio.CancelledError:
            if not self.draining or task.uncancel():
                raise
            outcome = failed(RunInterrupted("the host ended before the skill was done", retry_after=1.0))
        except Exception:  # noqa: BLE001 - the door: a fault of ours takes nobody's answer away
            _log.exception("the invocation with the trace id %s failed", asked.trace_id)
            outcome = failed(faults.internal(asked.trace_id))
        finally:
            # A cancellation is passed on, and stands in the books all the same.
            ended = self._ended(asked, registration, outcome)
            self._leave(task)
        return ended

    def refused(self, failure: Failure, asked: Asked) -> Invocation:
        """An invocation that does not even begin: no key, no JSON. It stands in the books like all others."""
        return self._ended(asked, None, failed(failure))

    def forget(self, skill_id: str) -> None:
        """A skill has changed, or is gone."""
        self._checks.pop(skill_id, None)

    async def _call(self, registration: Registration, asked: Asked) -> Outcome:
        checks = self._checks_of(registration)
        fault = checks.of_input(asked.input)
        if fault is not None:
            return failed(fault)
        secrets = self._secrets_of(registration)
        deadline = asyncio.get_running_loop().time() + registration.timeout_ms / 1000
        runner = self._runners.for_(registration)
        async with self._admission.admitted(asked.principal, registration, deadline):
            if asked.listener is not None:
                asked.listener(Emitted("start", {"skill_id": registration.id, "trace_id": asked.trace_id}))
            listener = asked.listener and masked_listener(asked.listener, secrets)
            with invocation(registration, asked, secrets) as span:
                parent = traceparent_here(span, asked.traceparent)
                call = Call(asked.input, asked.trace_id, deadline, secrets, listener, parent)
                outcome = await runner.invoke(registration, call)
                if outcome.failure is not None:
                    span.set({"error.type": str(outcome.failure.details.get("reason") or outcome.failure.code)})
        if outcome.failure is None and (fault := checks.of_output(outcome.data or {})) is not None:
            return failed(fault, version=outcome.version, notes=outcome.notes)
        return outcome

    def _checks_of(self, registration: Registration) -> Checks:
        known = self._checks.get(registration.id)
        if known is None or known[0] is not registration:
            known = self._checks[registration.id] = (registration, Checks(registration))
        return known[1]

    def _secrets_of(self, registration: Registration) -> Mapping[str, str]:
        if not registration.secrets:
            return {}
        missing = [name for name in registration.secrets if name not in self._secrets]
        if missing:
            said = f"{registration.id} needs the secret {missing[0]}; set it in the environment of the host"
            raise ExecutorUnavailable(said, secret=missing[0])
        return {name: self._secrets[name] for name in registration.secrets}

    def _enter(self) -> asyncio.Task[Any]:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is a coroutine
        if not self._running:
            self._idle.clear()
        self._running.add(task)
        return task

    def _leave(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        self._interrupted.discard(task)
        if not self._running:
            self._idle.set()

    def _announced(self, skill_id: str) -> Registration | None:
        """The skill of an invocation that never began; for the books it begins and ends at once."""
        found = self._skills.known(skill_id)
        if found is not None:
            for watcher in self._watchers:
                watcher.began(found)
        return found

    def _ended(self, asked: Asked, registration: Registration | None, outcome: Outcome) -> Invocation:
        seconds = time.perf_counter() - asked.began
        about = registration or self._announced(asked.skill_id)
        known = about.secrets if about is not None else ()
        secrets = {name: self._secrets[name] for name in known if name in self._secrets}
        # Who is refused learns nothing of the skill: only the books say which one it was.
        result = normalised(
            masked_outcome(outcome, secrets),
            skill_id=asked.skill_id if registration is None else registration.id,
            trace_id=asked.trace_id,
            latency_ms=seconds * 1000,
            version=__version__ if registration is None else registration.version,
        )
        result, body = wire_form(result)
        ended = Invocation(
            time.time() - seconds, result, body, asked.principal.name, about, asked.body, asked.run_id, secrets
        )
        for watcher in self._watchers:
            watcher.ended(ended)
        return ended
