"""Talking to a command under the rules of a workbench."""

from pathlib import Path

import pytest

from openskills.errors import CommandDenied, InvalidArgument
from openskills.executors.conversations import Conversations
from openskills.executors.processes.interactive import Owner, Processes
from openskills.executors.requests import RunRequest
from openskills.executors.rules.policy import CommandPolicy
from openskills.executors.spec import Terminal
from openskills.executors.staging.outputs import OutputSpec
from openskills.executors.workbench import Rules
from openskills.sync import run
from tests.executors.benches import audit_lines, workbench

ME, OTHER = Owner("app", "user", "session", "agent"), Owner("app", "user", "session", "other")


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
