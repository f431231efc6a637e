"""What is an answer, and what becomes of it."""

import asyncio
import logging
from typing import Any

import pytest

from openskills.errors import CommandDenied, InvalidArgument, UnknownSkill
from openskills.executors.rules.approval import ApprovalRequest, Approved
from openskills.sync import run
from openskills.tools.approvals import ApprovalQuestion, Approvals, Decision
from tests.tools.asking import Person, ask_about, request

ONCE, SESSION, DENY = Decision.ALLOW_ONCE, Decision.ALLOW_SESSION, Decision.DENY


def refusal(approvals: Approvals, wanted: ApprovalRequest) -> CommandDenied:
    with pytest.raises(CommandDenied) as raised:
        ask_about(approvals, wanted)
    return raised.value


def test_who_gives_up_does_not_take_the_question_from_the_others() -> None:
    async def scenario() -> None:
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        asked: list[str] = []

        async def ask(question: ApprovalQuestion) -> bool:
            asked.append(question.command)
            return await answer

        approvals = Approvals(ask)
        first, second = (asyncio.ensure_future(approvals(request())) for _ in range(2))
        while not asked:
            await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        answer.set_result(True)
        assert await second == Approved("allow_once")
        assert len(asked) == 1

    run(scenario())


def test_when_everybody_gives_up_the_question_is_withdrawn_and_can_be_asked_anew() -> None:
    async def scenario() -> None:
        waits, ended = asyncio.Event(), asyncio.Event()

        async def ask(question: ApprovalQuestion) -> bool:
            del question
            if ended.is_set():
                return True
            waits.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return True

        approvals = Approvals(ask)
        waiting = asyncio.ensure_future(approvals(request()))
        await waits.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await ended.wait()
        assert (await approvals(request())).how == "allow_once"

    run(scenario())


def test_a_preapproved_command_is_asked_about_when_that_is_wanted() -> None:
    person = Person(ONCE)
    approvals = Approvals(person, allowed_tools_of=lambda _: ("Bash",), skip_preapproved=False)
    assert ask_about(approvals, request()) == "allow_once"
    assert person.asked[0].preapproved


def test_restricted_without_a_person_what_is_preapproved_runs() -> None:
    approvals = Approvals(None, allowed_tools_of=lambda _: ("Bash(ls:*)",), restrict=True)
    assert ask_about(approvals, request("ls -l")) == "preapproved"
    refusal(approvals, request("cat"))
    both = Approvals(Person(DENY), allowed_tools_of=lambda _: ("Bash",), restrict=True, skip_preapproved=False)
    assert refusal(both, request("ls")).details["rule"] == "approval"


@pytest.mark.parametrize("tools", [(), ("Read",), ("Bash(ls",)])
def test_restricted_a_skill_that_allows_no_command_runs_none(tools: tuple[str, ...]) -> None:
    said = str(refusal(Approvals(None, allowed_tools_of=lambda _: tools, restrict=True), request()))
    assert "only commands in a skill's allowed-tools may run, and those of 'demo' name none; ask the user" in said


def test_a_skill_that_is_gone_preapproves_nothing() -> None:
    def gone(skill: str) -> tuple[str, ...]:
        raise UnknownSkill(skill)

    refusal(Approvals(None, allowed_tools_of=gone, restrict=True), request())


def test_without_a_person_and_without_restriction_everything_runs() -> None:
    assert ask_about(Approvals(None), request()) == ""


@pytest.mark.parametrize(("answer", "how"), [(True, "allow_once"), ("allow_once", "allow_once"), (ONCE, "allow_once")])
def test_a_yes_can_be_said_in_several_ways(answer: object, how: str) -> None:
    assert ask_about(Approvals(Person(answer)), request()) == how


@pytest.mark.parametrize("answer", [False, DENY, "deny", "", " "])
def test_a_no_can_be_said_in_several_ways(answer: object) -> None:
    assert "'ls' was not approved: do not" in str(refusal(Approvals(Person(answer)), request()))


def test_any_other_text_is_a_no_with_that_reason() -> None:
    for answer in ("yes", "ALLOW_ONCE", "allow"):
        assert f"was not approved ({answer}):" in str(refusal(Approvals(Person(answer)), request()))


@pytest.mark.parametrize("answer", [None, 1, 0, ["allow_once"], object()])
def test_what_is_no_answer_is_a_no_and_is_logged(answer: object, caplog: pytest.LogCaptureFixture) -> None:
    said = str(refusal(Approvals(Person(answer)), request()))
    assert f"the answer was no answer but {type(answer).__name__}" in said
    assert "which is no answer" in caplog.text


def test_a_callback_that_fails_is_a_no_with_its_cause_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(question: ApprovalQuestion) -> bool:
        raise ValueError(f"password of {question.skill}")

    error = refusal(Approvals(broken), request())
    assert "nobody could be asked (ValueError)" in str(error)
    assert "password" not in str(error)
    assert isinstance(error.__cause__, ValueError)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "password of demo" in caplog.text


def test_a_callback_that_gives_up_is_a_no() -> None:
    async def cancelled(question: ApprovalQuestion) -> bool:
        raise asyncio.CancelledError(question.skill)

    assert "the question was withdrawn" in str(refusal(Approvals(cancelled), request()))


def test_a_callback_that_cannot_be_awaited_is_a_no() -> None:
    def plain(question: ApprovalQuestion) -> bool:
        return bool(question)

    careless: Any = plain
    assert "nobody could be asked (TypeError)" in str(refusal(Approvals(careless), request()))


def test_who_does_not_answer_in_time_has_said_no() -> None:
    async def never(question: ApprovalQuestion) -> bool:
        del question
        await asyncio.Event().wait()
        return True

    async def own(question: ApprovalQuestion) -> bool:
        raise TimeoutError(question.skill)

    assert "nobody answered within 0.01 seconds" in str(refusal(Approvals(never, timeout=0.01), request()))
    assert "nobody could be asked (TimeoutError)" in str(refusal(Approvals(own, timeout=60), request()))
    for timeout in (0, -1, float("nan")):
        with pytest.raises(InvalidArgument, match="timeout"):
            Approvals(never, timeout=timeout)


def test_an_installation_is_asked_about_and_never_preapproved() -> None:
    person = Person(ONCE)
    approvals = Approvals(person, allowed_tools_of=lambda _: ("Bash",), restrict=True)
    wanted = ApprovalRequest(("install", "demo"), ".", "demo", command="install demo", installs=True)
    assert ask_about(approvals, wanted) == "allow_once"
    assert (person.asked[0].installs, person.asked[0].preapproved) == (True, False)
    person.answer = False
    assert str(refusal(approvals, wanted)).startswith("installing for 'demo' was not approved: ")


def test_two_sessions_do_not_share_what_was_allowed() -> None:
    person = Person(SESSION)
    for _ in range(2):
        approvals = Approvals(person)
        assert [ask_about(approvals, request()) for _ in range(2)] == ["allow_session", "remembered"]
    assert len(person.asked) == 2


def test_requests_without_an_identity_are_told_apart_all_the_same() -> None:
    person = Person(SESSION)
    approvals = Approvals(person)
    for command in ("ls", "rm", "ls"):
        ask_about(approvals, ApprovalRequest((command,), ".", command=command))
    assert person.commands == ["ls", "rm"]


def test_a_long_command_is_shown_shortened() -> None:
    said = str(refusal(Approvals(Person(False)), request("x" * 500)))
    assert f"'{'x' * 200}…' was not approved" in said
    many = tuple(f"Bash(t{number})" for number in range(25))
    assert "Bash(t19) (+5 more); run one" in str(
        refusal(Approvals(None, allowed_tools_of=lambda _: many, restrict=True), request())
    )
