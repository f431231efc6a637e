"""Functions as skills."""

import asyncio
from pathlib import Path

import pytest

from openskills.host.model import ManifestFault, Registration, SkillOutputEvent, SkillRunner
from tests.host import sample_functions
from tests.host.calls_made import called, invoked, with_runner


def function(name: str) -> Registration:
    """A skill that is one of the sample functions."""
    return Registration("skill", "inproc", f"tests.host.sample_functions:{name}", "1")


def test_a_plain_function_runs_in_a_thread(tmp_path: Path) -> None:
    assert invoked(tmp_path, function("plain"), input={"a": 1}).data == {"got": {"a": 1}, "thread": True}


def test_an_async_function_gets_a_context_when_it_takes_one(tmp_path: Path) -> None:
    told: list[SkillOutputEvent] = []
    outcome = invoked(tmp_path, function("awaited"), input={"a": 1}, secrets={"TOKEN": "t"}, listener=told.append)
    assert outcome.data == {"got": {"a": 1}, "trace": "trace-1", "token": "t"}
    assert told == [SkillOutputEvent("progress", {"percent": 50})]
    assert outcome.notes["isolation"] == "none"


def test_an_object_with_an_async_call_can_be_called(tmp_path: Path) -> None:
    assert invoked(tmp_path, function("instance")).data == {"called": True}


def test_an_error_of_ours_keeps_its_word(tmp_path: Path) -> None:
    failure = invoked(tmp_path, function("refuses")).failure
    assert failure is not None
    assert (failure.code, failure.details["reason"]) == (403, "FORBIDDEN_PATH")


def test_any_other_exception_is_an_internal_failure_without_secrets(tmp_path: Path) -> None:
    failure = invoked(tmp_path, function("fails"), input={"text": "sesame"}, secrets={"TOKEN": "sesame"}).failure
    assert failure is not None
    assert (failure.code, failure.details["exception"]) == (500, "KeyError")
    assert "sesame" not in failure.message


@pytest.mark.parametrize("kind", ["list", "set", "none"])
def test_what_is_no_object_of_json_is_told(tmp_path: Path, kind: str) -> None:
    failure = invoked(tmp_path, function("returns"), input={"kind": kind}).failure
    assert failure is not None
    assert failure.code == 502


def test_an_async_function_is_ended_at_the_deadline(tmp_path: Path) -> None:
    sample_functions.ended.clear()
    outcome = invoked(tmp_path, function("endless"), seconds=0.1)
    assert outcome.failure is not None
    assert (outcome.failure.code, outcome.notes) == (504, {"isolation": "none"})
    assert sample_functions.ended == ["endless"]


def test_nobody_waits_for_a_plain_function_after_the_deadline(tmp_path: Path) -> None:
    failure = invoked(tmp_path, function("slow"), seconds=0.1).failure
    assert failure is not None
    assert failure.code == 504


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [("stubborn", 504, "timed out"), ("impatient", 500, "TimeoutError"), ("gives_up", 500, "CancelledError")],
)
def test_only_the_deadline_of_the_call_is_too_late(tmp_path: Path, name: str, code: int, said: str) -> None:
    failure = invoked(tmp_path, function(name), seconds=0.1).failure
    assert failure is not None
    assert failure.code == code
    assert said in failure.message


def test_a_cancelled_call_is_cancelled_even_if_its_function_goes_on(tmp_path: Path) -> None:
    skill = function("stubborn")

    async def work(runner: SkillRunner) -> None:
        task = asyncio.ensure_future(runner.invoke(skill, called()))
        await asyncio.wait((task,), timeout=0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with_runner(tmp_path, skill, work)


def test_a_cancelled_call_ends_its_function(tmp_path: Path) -> None:
    sample_functions.ended.clear()
    skill = function("endless")

    async def work(runner: SkillRunner) -> None:
        task = asyncio.ensure_future(runner.invoke(skill, called()))
        await asyncio.sleep(0)
        await asyncio.wait((task,), timeout=0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with_runner(tmp_path, skill, work)
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
def test_what_is_no_function_cannot_be_prepared(tmp_path: Path, entry: str, said: str) -> None:
    skill = Registration("skill", "inproc", entry, "1")
    with pytest.raises(ManifestFault, match=said):
        with_runner(tmp_path, skill, lambda runner: runner.prepare(skill))
