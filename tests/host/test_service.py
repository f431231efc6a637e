"""The way of one invocation, without HTTP."""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any

import pytest

from openskills.errors import DeadlineExceeded, UnknownSkill
from openskills.host.books.admission import Admission
from openskills.host.books.keys import ANONYMOUS, Principal
from openskills.host.invocation import Asked, Invocation
from openskills.host.registration import Registration
from openskills.host.result import Failure, InvokeResult, Outcome, failed, ok
from openskills.host.runner import Call, Emitted
from openskills.host.service import Host
from tests.host.hosting import ECHO_SCHEMA, Function, FunctionTable, Waiting, echo


class Shelf:
    """A registry of given registrations."""

    def __init__(self, *registrations: Registration) -> None:
        self.found = {registration.id: registration for registration in registrations}

    def get(self, skill_id: str) -> Registration:
        if skill_id not in self.found:
            raise UnknownSkill(skill_id)
        return self.found[skill_id]

    def known(self, skill_id: str) -> Registration | None:
        return self.found.get(skill_id)


class Notebook:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.over: list[Invocation] = []

    def began(self, registration: Registration) -> None:
        self.begun.append(registration.id)

    def ended(self, invocation: Invocation) -> None:
        self.over.append(invocation)


def registration(skill_id: str, **more: Any) -> Registration:
    return Registration(skill_id, "inproc", f"x:{skill_id}", "1.2.3", **more)


def host_of(functions: Mapping[str, Function], notebook: Notebook | None = None, **more: Any) -> Host:
    registrations = [registration(name, **more) for name in functions]
    admission = Admission(capacity=4, queue=4)
    watchers = () if notebook is None else (notebook,)
    return Host(
        Shelf(*registrations), FunctionTable(functions), admission, secrets={"TOKEN": "s3cret"}, watchers=watchers
    )


async def invoke(host: Host, skill_id: str, value: dict[str, Any] | None = None, **more: Any) -> InvokeResult:
    return await host.invoke(skill_id, value or {}, trace_id="t-1", principal=more.pop("principal", ANONYMOUS), **more)


def test_an_invocation_ends_in_the_one_result() -> None:
    async def ask() -> InvokeResult:
        return await invoke(host_of({"echo": echo}), "echo", {"text": "hello"})

    result = asyncio.run(ask())
    assert (result.success, result.skill_id, result.trace_id, result.version) == (True, "echo", "t-1", "1.2.3")
    assert result.outcome.data == {"echoed": "hello"}
    assert result.latency_ms >= 0


@pytest.mark.parametrize(("skill_id", "value", "code"), [("nope", {}, 404), ("echo", {"text": 1}, 400)])
def test_what_is_wrong_with_a_call_is_its_result(skill_id: str, value: dict[str, Any], code: int) -> None:
    async def ask() -> InvokeResult:
        return await invoke(host_of({"echo": echo}, input_schema=ECHO_SCHEMA), skill_id, value)

    assert asyncio.run(ask()).status == code


def test_who_has_no_scope_is_refused() -> None:
    async def ask() -> InvokeResult:
        return await invoke(
            host_of({"echo": echo}), "echo", {"text": "a"}, principal=Principal("me", scopes=("other",))
        )

    result = asyncio.run(ask())
    assert result.status == 403
    assert result.outcome.failure is not None
    assert result.outcome.failure.details["scope"] == "echo"


def test_a_skill_gets_its_own_secrets_and_no_other() -> None:
    seen: list[Mapping[str, str]] = []

    async def secretive(call: Call) -> Outcome:
        seen.append(call.secrets)
        return ok({})

    async def ask() -> list[int]:
        host = host_of({"secretive": secretive}, secrets=("TOKEN",))
        poor = host_of({"secretive": secretive}, secrets=("MISSING",))
        plain = host_of({"secretive": secretive})
        return [(await invoke(each, "secretive")).status for each in (host, plain, poor)]

    assert asyncio.run(ask()) == [200, 200, 503]
    assert seen == [{"TOKEN": "s3cret"}, {}]


def test_the_deadline_is_that_of_the_skill_and_passing_it_is_a_result() -> None:
    async def late(call: Call) -> Outcome:
        await asyncio.sleep(max(call.deadline - asyncio.get_running_loop().time(), 0))
        raise DeadlineExceeded("it took too long")

    async def ask() -> InvokeResult:
        return await invoke(host_of({"late": late}, timeout_ms=20), "late")

    result = asyncio.run(ask())
    assert result.status == 504
    assert result.latency_ms >= 20


def test_a_fault_of_a_runner_is_told_in_the_log_only(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(call: Call) -> Outcome:
        raise ZeroDivisionError("hunter22")

    async def ask() -> InvokeResult:
        return await invoke(host_of({"broken": broken}), "broken")

    with caplog.at_level(logging.ERROR, "openskills.host"):
        result = asyncio.run(ask())
    assert result.status == 500
    assert "hunter22" not in str(result)
    assert "hunter22" in caplog.text


def test_every_end_stands_in_the_books_once() -> None:
    notebook = Notebook()
    waiting = Waiting()

    async def ask() -> None:
        host = host_of({"echo": echo, "waiting": waiting}, notebook, input_schema=None)
        await invoke(host, "echo", {"text": "a"})
        await invoke(host, "nope")
        task = asyncio.create_task(invoke(host, "waiting"))
        while not waiting.began.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert host.running == 0

    asyncio.run(ask())
    assert notebook.begun == ["echo", "waiting"]
    assert [(each.result.skill_id, each.result.status) for each in notebook.over] == [
        ("echo", 200),
        ("nope", 404),
        ("waiting", 499),
    ]


def test_what_is_shown_begins_when_the_skill_has_got_its_place() -> None:
    shown: list[Emitted] = []

    async def ask() -> None:
        await invoke(host_of({"echo": echo}), "echo", {"text": "a"}, listener=shown.append)

    asyncio.run(ask())
    assert [(each.kind, each.data["trace_id"]) for each in shown] == [("start", "t-1")]


def test_what_is_interrupted_twice_ends_its_children_and_says_so() -> None:
    async def body() -> None:
        began, ending, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def careful(call: Call) -> Outcome:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ending.set()
                await may_end.wait()
            raise AssertionError(call)

        host = host_of({"careful": careful})
        calling = asyncio.create_task(invoke(host, "careful"))
        await began.wait()
        host.interrupt()
        await ending.wait()
        host.interrupt()
        may_end.set()
        result = await calling
        assert result.outcome.failure is not None
        assert result.outcome.failure.details["reason"] == "INTERRUPTED"

    asyncio.run(body())


def test_a_host_that_ends_takes_nothing_new_and_says_so_to_what_it_interrupts() -> None:
    waiting = Waiting()

    async def ask() -> list[InvokeResult]:
        host = host_of({"waiting": waiting})
        task = asyncio.create_task(invoke(host, "waiting"))
        while not waiting.began.is_set():
            await asyncio.sleep(0.001)
        host.interrupt()
        await host.idle()
        return [await task, await invoke(host, "waiting")]

    reasons = [
        each.outcome.failure.details["reason"] for each in asyncio.run(ask()) if each.outcome.failure is not None
    ]
    assert reasons == ["INTERRUPTED", "DRAINING"]
    assert waiting.cancelled.is_set()


def test_a_registration_that_has_changed_is_checked_by_its_new_schema() -> None:
    async def ask() -> list[int]:
        first, second = registration("echo"), registration("echo", input_schema=ECHO_SCHEMA)
        shelf = Shelf(first)
        host = Host(shelf, FunctionTable({"echo": echo}), Admission(capacity=1, queue=1), secrets={})
        before = await invoke(host, "echo", {"text": 1})
        shelf.found["echo"] = second
        after = await invoke(host, "echo", {"text": 1})
        host.forget("echo")
        return [before.status, after.status, (await invoke(host, "echo", {"text": "a"})).status]

    assert asyncio.run(ask()) == [200, 400, 200]


def test_a_secret_is_in_nothing_that_is_answered_shown_or_told_to_the_books() -> None:
    notebook, shown = Notebook(), list[Emitted]()

    async def leaks(call: Call) -> Outcome:
        assert call.listener is not None
        call.listener(Emitted("progress", {"using": [call.secrets["TOKEN"]]}))
        return ok({"deep": [{"key s3cret": "s3cret"}]}, version="s3cret", notes={"note": "s3cret"})

    async def fails(call: Call) -> Outcome:
        return failed(Failure(500, "no s3cret", {"reason": "INTERNAL", "tried": ("s3cret",)}), notes={"note": "s3cret"})

    async def raises(call: Call) -> Outcome:
        raise DeadlineExceeded("s3cret took too long", stdout="s3cret")

    async def ask() -> list[InvokeResult]:
        host = host_of({"leaks": leaks, "fails": fails, "raises": raises}, notebook, secrets=("TOKEN",))
        return [await invoke(host, name, listener=shown.append) for name in ("leaks", "fails", "raises")]

    results = asyncio.run(ask())
    assert [each.status for each in results] == [200, 500, 504]
    assert results[0].outcome.data == {"deep": [{"key [secret TOKEN]": "[secret TOKEN]"}]}
    assert "s3cret" not in f"{results} {shown} {[each.result for each in notebook.over]}"
    assert not any(b"s3cret" in each.body for each in notebook.over)


def test_what_is_refused_stands_in_the_books_with_its_skill_and_the_caller_learns_nothing_of_it() -> None:
    notebook = Notebook()

    async def ask() -> list[InvokeResult]:
        host = host_of({"echo": echo}, notebook)
        stranger = Principal("me", scopes=("other",))
        found = [await invoke(host, "echo", {"text": "a"}, principal=stranger)]
        for name in ("echo", "nope"):
            asked = Asked(name, {}, "t-1", ANONYMOUS, time.perf_counter())
            found.append(host.refused(Failure(401, "who are you?"), asked).result)
        return found

    results = asyncio.run(ask())
    assert [each.registration and each.registration.id for each in notebook.over] == ["echo", "echo", None]
    assert notebook.begun == ["echo", "echo"]
    assert results[1].version == results[2].version != "1.2.3"
