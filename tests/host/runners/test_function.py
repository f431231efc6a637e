"""Functions as skills."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openskills.host.model import HostLimits, ManifestFault, Registration, SkillOutputEvent
from tests.host import sample_functions
from tests.host.calls_made import called, invoke, open_runner


def function(name: str) -> Registration:
    """A skill that is one of the sample functions."""
    return Registration("skill", "inproc", f"tests.host.sample_functions:{name}", "1")


async def test_a_plain_function_runs_in_a_thread(tmp_path: Path) -> None:
    assert (await invoke(tmp_path, function("plain"), input={"a": 1})).data == {"got": {"a": 1}, "thread": True}


async def test_an_async_function_gets_a_context_when_it_takes_one(tmp_path: Path) -> None:
    told: list[SkillOutputEvent] = []
    outcome = await invoke(tmp_path, function("awaited"), input={"a": 1}, secrets={"TOKEN": "t"}, listener=told.append)
    assert outcome.data == {"got": {"a": 1}, "trace": "trace-1", "token": "t"}
    assert told == [SkillOutputEvent("progress", {"percent": 50})]
    assert outcome.notes["isolation"] == "none"


async def test_an_object_with_an_async_call_can_be_called(tmp_path: Path) -> None:
    assert (await invoke(tmp_path, function("instance"))).data == {"called": True}


async def test_an_error_of_ours_keeps_its_word(tmp_path: Path) -> None:
    failure = (await invoke(tmp_path, function("refuses"))).failure
    assert failure is not None
    assert (failure.code, failure.details["reason"]) == (403, "FORBIDDEN_PATH")


async def test_any_other_exception_is_an_internal_failure_without_secrets(tmp_path: Path) -> None:
    failure = (await invoke(tmp_path, function("fails"), input={"text": "sesame"}, secrets={"TOKEN": "sesame"})).failure
    assert failure is not None
    assert (failure.code, failure.details["exception"]) == (500, "KeyError")
    assert "sesame" not in failure.message


async def test_a_function_that_closes_stdout_closes_it_for_nobody(tmp_path: Path) -> None:
    skill = function("closes")
    async with open_runner(tmp_path, skill) as runner:
        outcomes = [await runner.invoke(skill, called()) for _ in range(2)]
    assert [outcome.notes["stray_stdout"] for outcome in outcomes] == ["open", "open"]


@pytest.mark.parametrize("name", ["raises", "raises_later"])
@pytest.mark.parametrize("kind", sample_functions.ERRORS)
async def test_an_error_with_any_attributes_is_a_failure_at_once(tmp_path: Path, name: str, kind: str) -> None:
    failure = (await invoke(tmp_path, function(name), input={"kind": kind})).failure
    assert failure is not None
    assert failure.code in {500, 502}
    assert failure.details["reason"] in {"INTERNAL", "BAD_SKILL_OUTPUT", "ABC"}
    assert len(json.dumps([failure.message, dict(failure.details)], allow_nan=False).encode()) < 10_000
    assert failure.retry_after is None


@pytest.mark.parametrize("kind", ["list", "set", "none"])
async def test_a_result_that_is_not_a_json_object_is_an_error(tmp_path: Path, kind: str) -> None:
    failure = (await invoke(tmp_path, function("returns"), input={"kind": kind})).failure
    assert failure is not None
    assert failure.code == 502


async def test_an_async_function_is_ended_at_the_deadline(tmp_path: Path) -> None:
    sample_functions.ended.clear()
    outcome = await invoke(tmp_path, function("endless"), seconds=0.1)
    assert outcome.failure is not None
    assert (outcome.failure.code, outcome.notes) == (504, {"isolation": "none"})
    assert sample_functions.ended == ["endless"]


async def test_nobody_waits_for_a_plain_function_after_the_deadline(tmp_path: Path) -> None:
    failure = (await invoke(tmp_path, function("slow"), seconds=0.1)).failure
    assert failure is not None
    assert failure.code == 504


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [("stubborn", 504, "timed out"), ("impatient", 500, "TimeoutError"), ("gives_up", 500, "CancelledError")],
)
async def test_only_the_deadline_of_the_call_is_too_late(tmp_path: Path, name: str, code: int, said: str) -> None:
    failure = (await invoke(tmp_path, function(name), seconds=0.1)).failure
    assert failure is not None
    assert failure.code == code
    assert said in failure.message


async def test_a_cancelled_call_is_cancelled_even_if_its_function_goes_on(tmp_path: Path) -> None:
    skill = function("stubborn")

    async with open_runner(tmp_path, skill) as runner:
        task = asyncio.ensure_future(runner.invoke(skill, called()))
        await asyncio.wait((task,), timeout=0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_cancelled_call_ends_its_function(tmp_path: Path) -> None:
    sample_functions.ended.clear()
    skill = function("endless")

    async with open_runner(tmp_path, skill) as runner:
        task = asyncio.ensure_future(runner.invoke(skill, called()))
        await asyncio.sleep(0)
        await asyncio.wait((task,), timeout=0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert sample_functions.ended == ["endless"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("no.such.module:f", "cannot import"),
        ("tests.host.sample_functions:nothing", "has no 'nothing'"),
        ("tests.host.sample_functions:NOT_CALLABLE", "is not callable"),
        ("tests.host.sample_functions", "use package.module:callable"),
    ],
)
async def test_an_entry_that_is_not_a_function_cannot_be_prepared(tmp_path: Path, entry: str, said: str) -> None:
    skill = Registration("skill", "inproc", entry, "1")
    async with open_runner(tmp_path, skill) as runner:
        with pytest.raises(ManifestFault, match=said):
            await runner.prepare(skill)


async def test_what_a_function_prints_is_shown_and_noted_and_not_mixed_into_the_output_of_the_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[SkillOutputEvent] = []
    given = {"secret": "sesame"}
    outcome = await invoke(tmp_path, function("talks"), input=given, secrets={"TOKEN": "sesame"}, listener=told.append)
    assert outcome.data == {"talked": True}
    assert str(outcome.notes["stray_stdout"]).startswith("to stdout")
    assert [(event.kind, str(event.data["text"])[:9]) for event in told] == [
        ("stdout", "to stdout"),
        ("stderr", "to stderr"),
    ]
    assert "sesame" not in f"{outcome} {told}"
    assert capsys.readouterr() == ("", "")
    failure = (await invoke(tmp_path, function("talks"), input={"fails": True})).failure
    assert failure is not None
    assert (failure.details["stdout"], failure.details["stderr"]) == ("to stdout", "to stderr")


async def test_events_of_an_async_function_come_in_order(tmp_path: Path) -> None:
    told: list[SkillOutputEvent] = []
    assert (await invoke(tmp_path, function("talks_async"), listener=told.append)).data == {"talked": True}
    assert told == [
        SkillOutputEvent("stdout", {"text": "first"}),
        SkillOutputEvent("progress", {"percent": 50}),
        SkillOutputEvent("stdout", {"text": "last"}),
    ]


@pytest.mark.parametrize("given", [{"size": 2000}, {"printed": True}])
async def test_output_beyond_the_limit_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    skill = replace(function("large"), limits=HostLimits(output_bytes=1500))
    failure = (await invoke(tmp_path, skill, input=given)).failure
    assert failure is not None
    assert (failure.code, failure.details["limit_bytes"]) == (502, 1500)
    assert (await invoke(tmp_path, skill, input={"size": 1000})).data is not None


@pytest.mark.parametrize("kind", ["list", "key", "infinite", "data"])
async def test_a_number_that_json_does_not_have_is_refused(tmp_path: Path, kind: str) -> None:
    failure = (await invoke(tmp_path, function("number"), input={"kind": kind})).failure
    assert failure is not None
    assert (failure.code, failure.details["reason"]) == (502, "BAD_SKILL_OUTPUT")
    assert "NaN" in failure.message
    assert (await invoke(tmp_path, function("number"), input={"kind": "none"})).data == {"value": None}


async def test_an_async_function_that_blocks_stops_no_other_call(tmp_path: Path) -> None:
    sample_functions.unblocked.clear()
    skill, other = function("blocks"), function("awaited")

    async with open_runner(tmp_path, skill) as runner:
        blocked = await runner.invoke(skill, called(seconds=0.1))
        assert blocked.failure is not None
        assert blocked.failure.code == 504
        assert (await runner.invoke(other, called())).failure is None
        # The next call does not wait for the thread that is still blocked.
        again = asyncio.ensure_future(runner.invoke(skill, called()))
        await asyncio.sleep(0)
        sample_functions.unblocked.set()
        assert (await again).data == {"blocked": True}
