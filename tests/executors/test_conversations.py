"""Talking to a command under the rules of a workbench."""

import asyncio
import gc
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import CommandDenied, InvalidArgument
from openskills.executors.conversations import Conversations
from openskills.executors.processes.interactive import Owner, Processes, ProcessLimits
from openskills.executors.requests import RunRequest, RunResult
from openskills.executors.rules.policy import CommandPolicy
from openskills.executors.spec import Terminal
from openskills.executors.staging.outputs import OutputSpec
from openskills.executors.workbench import Rules
from openskills.sync import run
from tests.executors.benches import audit_lines, workbench

ME, OTHER = Owner("app", "user", "session", "agent"), Owner("app", "user", "session", "other")


class Teller:
    """Tells a result; what it is held by can be found out."""

    def __call__(self, result: RunResult) -> Mapping[str, Any]:
        return {"code": result.exit_code}


def test_what_an_interactive_command_made_is_in_its_result(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with workbench(tmp_path) as bench:
            talk = Conversations(bench, Processes(), ME)
            request = RunRequest(
                "read -p 'Name: ' name; echo $name > out/name", skill="demo", outputs=OutputSpec(("out/*",), save=True)
            )
            identity = await talk.start(request)
            await talk.write(identity, b"Ada", submit=True)
            result = await talk.result(identity)
            assert [file.data for file in result.output_files] == [b"Ada\n"]
            assert [artifact.ref for artifact in result.artifact_files] == ["artifact://out/name@0"]
            assert (await talk.poll(identity)).status == "exited"

    run(scenario())
    assert [line["event"] for line in audit_lines(tmp_path)] == ["begin", "end"]


def test_a_policy_holds_for_interactive_commands(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with workbench(tmp_path, Rules(policy=CommandPolicy.of(["ls"]))) as bench:
            with pytest.raises(CommandDenied):
                await Conversations(bench, Processes(), ME).start(RunRequest("bash", skill="demo"))

    run(scenario())
    assert [line["event"] for line in audit_lines(tmp_path)] == ["fail"]


def test_another_agent_has_no_such_command_and_it_can_be_killed_by_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with workbench(tmp_path) as bench:
            processes = Processes()
            mine, others = Conversations(bench, processes, ME), Conversations(bench, processes, OTHER)
            identity = await mine.start(RunRequest(("bash", "--norc", "-i"), skill="demo", terminal=Terminal()))
            await mine.resize(identity, 40, 100)
            with pytest.raises(InvalidArgument):
                await others.poll(identity)
            with pytest.raises(InvalidArgument):
                await others.result(identity)
            assert await mine.kill(identity) == "killed"
            assert (await mine.result(identity)).exit_code

    run(scenario())


def test_a_result_is_told_as_it_was_asked_for_and_the_same_every_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with workbench(tmp_path) as bench:
            talk = Conversations(bench, Processes(), ME)
            asked = await talk.start(RunRequest("exit 3", skill="demo"), Teller())
            usual = await talk.start(RunRequest("exit 4", skill="demo"))
            assert await talk.told(asked) == await talk.told(asked) == {"code": 3}
            assert (await talk.told(usual))["exit_code"] == 4

    run(scenario())


def test_only_what_was_started_here_is_known_and_results_are_forgotten_with_their_processes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with workbench(tmp_path) as bench:
            processes = Processes(ProcessLimits(kept=1))
            talk, later = Conversations(bench, processes, ME), Conversations(bench, processes, ME)
            teller = Teller()
            told = weakref.ref(teller)
            first = await talk.start(RunRequest("exit 0", skill="demo"), teller)
            del teller
            await talk.result(first)
            assert talk.knows(first)
            assert told() is not None
            assert not later.knows(first)
            second = await talk.start(RunRequest("exit 0", skill="demo"))
            await talk.result(second)
            third = await talk.start(RunRequest("read", skill="demo"))
            assert [talk.knows(one) for one in (first, second, third)] == [False, True, True]
            gc.collect()
            assert told() is None
            assert talk.running() == (third,)
            assert later.running() == ()
            await talk.close()

    run(scenario())


def test_closing_ends_the_commands_of_one_owner_and_collects_what_they_made(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with workbench(tmp_path) as bench:
            processes = Processes()
            mine, others = Conversations(bench, processes, ME), Conversations(bench, processes, OTHER)
            request = RunRequest("echo made > out/file; echo ready; read", skill="demo", outputs=OutputSpec(("out/*",)))
            identity = await mine.start(request)
            kept = await others.start(RunRequest("read", skill="demo"))
            async with asyncio.timeout(30):
                while "ready" not in (await mine.poll(identity, offset=0)).output:
                    pass
            await mine.close()
            assert [file.data for file in (await mine.result(identity)).output_files] == [b"made\n"]
            assert others.running() == (kept,)
            await others.close()

    run(scenario())
