"""Approval of commands: patterns of `allowed-tools`, questions to a person, and what an answer covers."""

import asyncio
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import CommandDenied, InvalidArgument, UnknownSkill
from openskills.executors.approval import ApprovalGrant, ApprovalRequest
from openskills.executors.commands import CommandRules
from openskills.executors.interactive import InteractiveCommands, ProcessOwner, ProcessTable
from openskills.executors.requests import RunRequest
from openskills.tools.approvals import (
    AllowedToolEntry,
    ApprovalDecision,
    ApprovalQuestion,
    Approvals,
    is_preapproved,
    matches_pattern,
    parse_allowed_tools,
    select_command_entries,
)
from tests.executors.benches import audit_lines, demo, workbench
from tests.tools.asking import Person, ask_about, request

ONCE, SESSION, DENY = ApprovalDecision.ALLOW_ONCE, ApprovalDecision.ALLOW_SESSION, ApprovalDecision.DENY


def refusal(approvals: Approvals, wanted: ApprovalRequest) -> CommandDenied:
    with pytest.raises(CommandDenied) as raised:
        ask_about(approvals, wanted)
    return raised.value


async def test_who_gives_up_does_not_take_the_question_from_the_others() -> None:
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
    assert await second == ApprovalGrant("allow_once")
    assert len(asked) == 1


async def test_when_everybody_gives_up_the_question_is_withdrawn_and_can_be_asked_anew() -> None:
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
    assert "only commands in a skill's allowed-tools may run, and 'demo' names none; ask the user" in said


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
def test_an_invalid_answer_means_no_and_is_logged(answer: object, caplog: pytest.LogCaptureFixture) -> None:
    said = str(refusal(Approvals(Person(answer)), request()))
    assert f"invalid answer of type {type(answer).__name__}" in said
    assert "returned an invalid answer" in caplog.text


def test_a_callback_that_fails_is_a_no_with_its_cause_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(question: ApprovalQuestion) -> bool:
        raise ValueError(f"password of {question.skill}")

    error = refusal(Approvals(broken), request())
    assert "asking failed (ValueError)" in str(error)
    assert "password" not in str(error)
    assert isinstance(error.__cause__, ValueError)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "password of demo" in caplog.text


def test_a_callback_that_gives_up_is_a_no() -> None:
    async def cancelled(question: ApprovalQuestion) -> bool:
        raise asyncio.CancelledError(question.skill)

    assert "the request for approval was cancelled" in str(refusal(Approvals(cancelled), request()))


def test_a_callback_that_cannot_be_awaited_is_a_no() -> None:
    def plain(question: ApprovalQuestion) -> bool:
        return bool(question)

    careless: Any = plain
    assert "asking failed (TypeError)" in str(refusal(Approvals(careless), request()))


def test_who_does_not_answer_in_time_has_said_no() -> None:
    async def never(question: ApprovalQuestion) -> bool:
        del question
        await asyncio.Event().wait()
        return True

    async def own(question: ApprovalQuestion) -> bool:
        raise TimeoutError(question.skill)

    assert "no answer within 0.01 seconds" in str(refusal(Approvals(never, timeout=0.01), request()))
    assert "asking failed (TimeoutError)" in str(refusal(Approvals(own, timeout=60), request()))
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


def covered(allowed: str, command: str, **where: bool) -> bool:
    return is_preapproved((allowed,), "skill_run", command, **where)


def test_entries_are_read_however_they_are_written() -> None:
    expected = (
        AllowedToolEntry("Bash", "git:*"),
        AllowedToolEntry("Bash", "python scripts/*.py:*"),
        AllowedToolEntry("Read"),
        AllowedToolEntry("mcp__x__y"),
    )
    assert parse_allowed_tools(["Bash(git:*) Bash(python scripts/*.py:*) Read mcp__x__y"]) == expected
    assert parse_allowed_tools(["Bash(git:*), Bash(python scripts/*.py:*), Read, mcp__x__y"]) == expected
    assert parse_allowed_tools(["Bash(git:*)", " Bash( python scripts/*.py:* ) ", "Read", "mcp__x__y"]) == expected
    assert parse_allowed_tools(["Bash(*)", "Read()"]) == (AllowedToolEntry("Bash"), AllowedToolEntry("Read", ""))


@pytest.mark.parametrize("broken", ["Bash(git", "Bash)", "(git:*)", "Bash(git:*)x", "", "()"])
def test_an_entry_that_cannot_be_read_means_nothing(broken: str) -> None:
    assert parse_allowed_tools([broken]) == ()
    assert not covered(broken, "git status")


@pytest.mark.parametrize("tool", ["skill_run", "skill_exec", "Bash", "bash", "Shell"])
@pytest.mark.parametrize("entry", ["Bash", "bash", "Shell", "skill_run", "skill_exec", "Bash(*)", "skill_run(*)", "*"])
def test_a_plain_tool_for_commands_covers_every_command(tool: str, entry: str) -> None:
    assert is_preapproved(("Read", entry), tool, "a | b; c > d", at_home=False, variables=True)


def test_other_tools_are_matched_by_name() -> None:
    assert is_preapproved(("Read", "mcp__x__y"), "mcp__x__y")
    assert is_preapproved(("mcp__x__*",), "mcp__x__y")
    assert not is_preapproved(("mcp__x__*",), "mcp__z__y")
    assert not is_preapproved(("Read(docs/**)",), "Read")
    assert not is_preapproved(("Read", "Write"), "skill_run", "ls")
    assert not is_preapproved(("read",), "Read")
    assert not is_preapproved((), "skill_run", "ls")


@pytest.mark.parametrize(
    ("entry", "command"),
    [
        ("Bash(git:*)", "git"),
        ("Bash(git:*)", "git status"),
        ("Bash(git:*)", "git commit -m 'a; b && c'"),
        ("Bash(git:*)", "'git' add *.py $OUTPUT_DIR/x ~/y {a,b}"),
        ("Bash(git *)", "git log"),
        ("Bash(git commit:*)", "git commit --amend"),
        ("Bash(git commit *)", "git  commit"),
        ("Bash(npm run build)", "npm run build"),
        ("skill_run(python:*)", "python -V"),
        ("skill_exec(python:*)", "python -V"),
        ("Bash(python scripts/*.py:*)", "python scripts/fill.py in.pdf $OUTPUT_DIR/out.pdf"),
        ("Bash(./scripts/run.sh:*)", "./scripts/run.sh x"),
        ("Bash(test-*:*)", "test-unit x"),
        ("Bash(a*b*c*d)", "aXbYcZd"),
        ("Bash(* --version)", "node --version"),
        ("Bash(echo 'a b':*)", 'echo "a b" c'),
    ],
)
def test_an_entry_with_a_command_covers_it_with_what_may_follow(entry: str, command: str) -> None:
    assert covered(entry, command)


@pytest.mark.parametrize(
    ("entry", "command"),
    [
        ("Bash(git:*)", "gitk"),
        ("Bash(git:*)", "git-evil status"),
        ("Bash(git:*)", "./git status"),
        ("Bash(git:*)", "/tmp/git status"),
        ("Bash(git:*)", "$GIT status"),
        ("Bash(git:*)", "gi? status"),
        ("Bash(git)", "git status"),
        ("Bash(git commit:*)", "git -c core.pager=x commit"),
        ("Bash(git commit:*)", "git commi{t,} x"),
        ("Bash(npm run build)", "npm run build x"),
        ("Bash(npm run build)", "npm run"),
        ("Bash(python scripts/*.py:*)", "python -c 'x' scripts/a.py"),
        ("Bash(python scripts/*.py:*)", "python scripts/../../../work/evil.py"),
        ("Bash(python scripts/*.py:*)", "python scripts/sub/evil.py"),
        ("Bash(python scripts/*.py:*)", "python scripts/$X.py"),
        ("Bash(python scripts/*.py:*)", "python scripts/*.py"),
        ("Bash(python scripts/*.py:*)", "python scripts/.hidden.py"),
        ("Bash(python */run.py:*)", "python work/run.py"),
        ("Bash(python */run.py:*)", "python ../run.py"),
        ("Bash(python */run.py:*)", "python .venv/run.py"),
        ("Bash(a*b*c)", "acb"),
        ("Bash(a*b*b)", "aXb"),
        ("Bash(cat */x)", "cat /x"),
        ("Bash(cat .*/x)", "cat ../x"),
        ("Bash(ab*bc)", "abc"),
        ("Bash(:*)", "ls"),
        ("Bash()", "ls"),
        ("Bash(echo 'a *':*)", "echo 'a b'"),
        ("Bash(a; b:*)", "a"),
        ("Bash('a; $(b)':*)", "a"),
    ],
)
def test_nothing_else_is_covered(entry: str, command: str) -> None:
    assert not covered(entry, command)


TRICKS = [
    *("git status; rm -rf x", "git status && rm x", "git status || rm x", "git status | sh", "git status & rm x"),
    *("git $(rm x)", "git `rm x`", 'git "$(rm x)"', "git <(rm x)", "git status > ~/.bashrc", "git log < /etc/passwd"),
    *("git status\nrm x", "git status\r\nrm x", "A=b git status", "GIT_PAGER=x git log", "(git status)", "! git x; y"),
    *("git ${x:=$(rm x)}", "git $'x'", "git 'unfinished", "git \\", "git # x", "git[$(rm x)]=1 git", "\0git"),
]


@pytest.mark.parametrize("command", TRICKS)
def test_a_preapproved_program_does_not_approve_another_one(command: str) -> None:
    for entry in ("Bash(git:*)", "Bash(git *)", "Bash(*:*)"):
        assert not covered(entry, command)
    assert covered("Bash", command)


def test_a_variable_of_the_call_is_like_one_before_the_command() -> None:
    assert not covered("Bash(git:*)", "git log", variables=True)


@pytest.mark.parametrize("entry", ["Bash(scripts/run.sh:*)", "Bash(python run.py:*)", "Bash(bash ./x:*)"])
def test_an_entry_that_names_a_file_means_the_one_in_the_skills_folder(entry: str) -> None:
    command = entry.removeprefix("Bash(").removesuffix(":*)")
    assert covered(entry, command)
    assert not covered(entry, command, at_home=False)


@pytest.mark.parametrize("entry", ["Bash(git log:*)", "Bash(/usr/bin/git log:*)", "Bash(python3.11 -V)"])
def test_an_entry_that_names_none_holds_in_every_directory(entry: str) -> None:
    command = entry.removeprefix("Bash(").removesuffix(")").removesuffix(":*")
    assert covered(entry, command, at_home=False)


def test_a_pattern_with_many_stars_takes_no_longer_than_it_should() -> None:
    assert not covered(f"Bash({'a*' * 50}b)", "a" * 10_000)


def test_the_entries_about_commands_are_told_from_the_others() -> None:
    written = ("Bash(git:*), Read", "shell", "Write(x)", "skill_*", "Bash(git", "*")
    assert select_command_entries(written) == ("Bash(git:*)", "shell", "skill_*", "*")


@pytest.mark.parametrize(
    ("pattern", "name", "fit"),
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("*", "", True),
        ("a*a", "a", False),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "a-c", False),
        ("a.c", "abc", False),
        ("*b*", "abc", True),
    ],
)
def test_a_name_fits_or_does_not(pattern: str, name: str, fit: bool) -> None:
    assert matches_pattern(pattern, name) is fit


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_it_is_what_an_expression_would_say(pattern: str, name: str) -> None:
    assert matches_pattern(pattern, name) == bool(re.fullmatch(pattern.replace("*", ".*"), name))


def rules(person: Person | None, tools: tuple[str, ...] = (), **how: Any) -> CommandRules:
    return CommandRules(approve=Approvals(person, allowed_tools_of=lambda _: tools, **how))


def outcomes(state: Path) -> list[tuple[object, object]]:
    return [(line["event"], line.get("approval")) for line in audit_lines(state) if line["event"] != "end"]


async def test_a_person_sees_what_the_model_wrote_and_what_will_be_run(tmp_path: Path) -> None:
    person = Person()

    async with workbench(tmp_path, rules(person, ("Bash(git:*)", "Read"))) as bench:
        await bench.run(RunRequest("cat > out/a", skill="demo", env={"B": "secret"}, stdin=b"hello"))
        await bench.run(RunRequest(("echo", "a b"), cwd="$RUN_DIR"))

    first, second = person.asked
    assert (first.skill, first.command, first.argv) == ("demo", "cat > out/a", ("bash", "-c", "cat > out/a"))
    assert (first.cwd, first.env, first.stdin, first.network) == ("skills/demo", ("B",), b"hello", ())
    assert (first.user, first.session, first.agent) == ("user", "session", "tester")
    assert (first.preapproved, first.allowed_tools) == (False, ("Bash(git:*)", "Read"))
    assert "secret" not in repr(first)
    assert (second.command, second.argv, second.skill) == ("echo 'a b'", ("echo", "a b"), None)


async def test_allowed_once_is_asked_again(tmp_path: Path) -> None:
    person = Person(ONCE)

    async with workbench(tmp_path, rules(person)) as bench:
        for _ in range(2):
            assert (await bench.run(RunRequest("echo x", skill="demo"))).stdout == "x\n"

    assert person.commands == ["echo x", "echo x"]
    assert outcomes(tmp_path) == [("begin", "allow_once")] * 2


async def test_allowed_for_the_session_is_not_asked_again_for_exactly_that(tmp_path: Path) -> None:
    person = Person(SESSION)
    same = RunRequest("cat; echo $A", skill="demo", env={"A": "1"}, stdin=b"x")
    others = [
        RunRequest("cat; echo $A ", skill="demo", env={"A": "1"}, stdin=b"x"),
        RunRequest("cat; echo $A", skill="demo", env={"A": "2"}, stdin=b"x"),
        RunRequest("cat; echo $A", skill="demo", env={"A": "1"}, stdin=b"y"),
        RunRequest("cat; echo $A", skill="demo", env={"A": "1"}, stdin=b"x", cwd="scripts"),
        RunRequest("cat; echo $A", env={"A": "1"}, stdin=b"x"),
        RunRequest("cat; echo $A", skill="demo", env={"A": "1"}, stdin=b"x", editor_text="z"),
    ]

    async with workbench(tmp_path, rules(person)) as bench:
        for _ in range(3):
            await bench.run(same)
        assert len(person.asked) == 1
        for number, other in enumerate(others, 2):
            await bench.run(other)
            assert len(person.asked) == number
            await bench.run(other)
            assert len(person.asked) == number

    assert outcomes(tmp_path)[:3] == [("begin", "allow_session"), ("begin", "remembered"), ("begin", "remembered")]


async def test_in_the_runs_own_directory_the_same_is_the_same_although_its_name_is_new(tmp_path: Path) -> None:
    person = Person(SESSION)

    async with workbench(tmp_path, rules(person)) as bench:
        for _ in range(2):
            await bench.run(RunRequest("pwd", skill="demo", cwd="$RUN_DIR"))

    assert len(person.asked) == 1


async def test_another_version_of_the_skill_is_asked_about_again(tmp_path: Path) -> None:
    person = Person(SESSION)

    async with workbench(tmp_path, rules(person)) as bench:
        await bench.run(RunRequest("scripts/hello.sh", skill="demo"))
        (demo(tmp_path) / "scripts" / "hello.sh").write_text("#!/bin/sh\necho changed\n")
        await bench.stage("demo", demo(tmp_path))
        await bench.run(RunRequest("scripts/hello.sh", skill="demo"))

    assert len(person.asked) == 2


async def test_a_skill_that_changes_while_somebody_thinks_is_asked_about_again(tmp_path: Path) -> None:
    asked: list[str] = []

    async def ask(question: ApprovalQuestion) -> bool:
        asked.append(question.command)
        if len(asked) == 1:
            (demo(tmp_path) / "scripts" / "hello.sh").write_text("#!/bin/sh\necho changed\n")
            await bench.stage("demo", demo(tmp_path))
        return True

    async with workbench(tmp_path, CommandRules(approve=Approvals(ask))) as bench:
        result = await bench.run(RunRequest("scripts/hello.sh", skill="demo"))
        assert result.stdout == "changed\n"

    assert len(asked) == 2


async def test_a_denied_command_does_not_run_and_the_model_is_told_what_to_do(tmp_path: Path) -> None:
    async with workbench(tmp_path, rules(Person("it is Sunday"))) as bench:
        with pytest.raises(CommandDenied) as raised:
            await bench.run(RunRequest("touch out/made", skill="demo"))
        assert str(raised.value) == (
            "'touch out/made' was not approved (it is Sunday): do not run it again in any form; "
            "tell the user and ask how to go on"
        )
        assert raised.value.details["rule"] == "approval"
        assert (await bench.workspace.list(["out/**"])).files == ()

    (line,) = audit_lines(tmp_path)
    assert (line["event"], line["argv"]) == ("fail", ["bash", "-c", "touch out/made"])
    assert "it is Sunday" in str(line["detail"])


async def test_an_interactive_command_is_asked_about_too(tmp_path: Path) -> None:
    person = Person(DENY)

    async with workbench(tmp_path, rules(person)) as bench:
        processes = ProcessTable()
        talks = InteractiveCommands(bench, processes, ProcessOwner("app", "user", "session", "tester"))
        with pytest.raises(CommandDenied):
            await talks.start(RunRequest("cat", skill="demo"))
        person.answer = SESSION
        identity = await talks.start(RunRequest("cat", skill="demo"))
        await talks.kill(identity)
        await talks.result(identity)
        # What cannot be talked to is another thing than what can.
        await bench.run(RunRequest("cat", skill="demo"))
        await processes.close()

    assert [question.interactive for question in person.asked] == [True, True, False]
    assert outcomes(tmp_path) == [("fail", None), ("begin", "allow_session"), ("begin", "allow_session")]


async def test_parallel_calls_that_ask_the_same_share_one_question(tmp_path: Path) -> None:
    asked: list[str] = []

    both = asyncio.Event()

    async def ask(question: ApprovalQuestion) -> ApprovalDecision:
        asked.append(question.command)
        if len(asked) == 2:
            both.set()
        await both.wait()
        return ONCE

    async with workbench(tmp_path, CommandRules(approve=Approvals(ask))) as bench:
        same = RunRequest("echo x", skill="demo")
        other = RunRequest("echo y", skill="demo")
        results = await asyncio.gather(bench.run(same), bench.run(same), bench.run(same), bench.run(other))
        assert [result.stdout for result in results] == ["x\n", "x\n", "x\n", "y\n"]
        await bench.run(same)

    assert asked == ["echo x", "echo y", "echo x"]


async def test_what_is_preapproved_is_not_asked_about(tmp_path: Path) -> None:
    person = Person(DENY)

    async def scenario() -> None:
        async with workbench(tmp_path, rules(person, ("Bash(echo:*)", "Bash(scripts/hello.sh)"))) as bench:
            assert (await bench.run(RunRequest("echo 'a; b'", skill="demo"))).stdout == "a; b\n"
            assert (await bench.run(RunRequest(("echo", "$(x"), skill="demo", cwd="scripts"))).exit_code == 0

    with pytest.raises(CommandDenied):
        await scenario()
    assert person.commands == ["echo '$(x'"]
    assert outcomes(tmp_path) == [("begin", "preapproved"), ("fail", None)]


async def test_a_preapproval_cannot_be_abused(tmp_path: Path) -> None:
    person = Person(DENY)
    tricks = [
        RunRequest("git status; rm -rf x", skill="demo"),
        RunRequest("git status && touch out/made", skill="demo"),
        RunRequest("git $(touch out/made)", skill="demo"),
        RunRequest("git status\ntouch out/made", skill="demo"),
        RunRequest("GIT_DIR=x git status", skill="demo"),
        RunRequest("git status", skill="demo", env={"GIT_DIR": "x"}),
        RunRequest(("git\nstatus",), skill="demo"),
        RunRequest("./git", skill="demo"),
        RunRequest("scripts/hello.sh", skill="demo", cwd="$WORK_DIR"),
        RunRequest("git status"),
    ]

    async with workbench(tmp_path, rules(person, ("Bash(git:*)", "Bash(scripts/hello.sh)"))) as bench:
        for trick in tricks:
            with pytest.raises(CommandDenied, match="was not approved"):
                await bench.run(trick)
        assert (await bench.workspace.list(["out/**"])).files == ()

    assert len(person.asked) == len(tricks)
    assert not any(question.preapproved for question in person.asked)


async def test_restricted_to_allowed_tools_nothing_else_runs_and_nobody_is_asked(tmp_path: Path) -> None:
    person = Person(ONCE)

    async with workbench(tmp_path, rules(person, ("Bash(echo:*)", "Read"), restrict=True)) as bench:
        assert (await bench.run(RunRequest("echo x", skill="demo"))).exit_code == 0
        with pytest.raises(CommandDenied) as raised:
            await bench.run(RunRequest("echo x; ls", skill="demo"))
        assert str(raised.value) == (
            "'echo x; ls' is not allowed: 'demo' may run Bash(echo:*); run one such command, "
            "without shell syntax and env, from the skill's folder, or ask the user"
        )
        assert raised.value.details["rule"] == "restrict"
        with pytest.raises(CommandDenied, match="it belongs to no skill; ask the user"):
            await bench.run(RunRequest("echo x"))

    assert person.asked == []
    assert outcomes(tmp_path) == [("begin", "preapproved"), ("fail", None), ("fail", None)]
