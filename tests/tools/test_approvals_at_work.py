"""Somebody is asked before a command runs; what they say holds for what they were asked, and for nothing else."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import CommandDenied
from openskills.executors.commands import CommandRules
from openskills.executors.interactive import InteractiveCommands, ProcessOwner, ProcessTable
from openskills.executors.requests import RunRequest
from openskills.tools.approvals import ApprovalDecision, ApprovalQuestion, Approvals
from tests.executors.benches import audit_lines, demo, workbench
from tests.tools.asking import Person

ONCE, SESSION, DENY = ApprovalDecision.ALLOW_ONCE, ApprovalDecision.ALLOW_SESSION, ApprovalDecision.DENY


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
