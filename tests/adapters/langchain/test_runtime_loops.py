"""Commands that are talked to over the turns of a thread, whatever event loops the turns run in."""

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.runtime.runtime import SkillRuntime
from openskills.sync import run
from tests.adapters.langchain.runtime_agents import SkillTalk, load, talk_of
from tests.adapters.langchain.scripted import call, says
from tests.conftest import RequireProgram
from tests.runtime.talking import runtime_in
from tests.skill_writer import WriteSkill

BEGIN = call("skill_exec", "exec", skill="pdf", command="while read -r line; do echo got $line; done")


@pytest.fixture
def runtime(tmp_path: Path, write_skill: WriteSkill) -> SkillRuntime:
    write_skill("pdf")
    return runtime_in(tmp_path, executor="local")


def write(messages: Any) -> Any:
    """A call that types into the command."""
    begun = next(message for message in messages if getattr(message, "tool_call_id", "") == "exec")
    identity = json.loads(begun.text)["session_id"]
    return says(call("skill_write_stdin", f"write-{len(messages)}", session_id=identity, chars="it", submit=True))


def runs(command: str) -> Any:
    """A call that runs a command to its end."""
    return call("skill_run", "run", skill="pdf", command=command)


def awaited(talk: SkillTalk) -> object:
    return asyncio.run(talk.hear())


def blocking(talk: SkillTalk) -> object:
    return talk.say()


def talked(runtime: SkillRuntime, *turns: Callable[[SkillTalk], object]) -> list[str]:
    """What the command says in each turn: started in the first, written to in all."""
    script = [says(load("pdf")), says(BEGIN), write, "first", *[line for _ in turns[1:] for line in (write, "more")]]
    talk = talk_of(runtime, script)
    for turn in turns:
        turn(talk)
    return [message.text for identity, message in talk.results().items() if identity.startswith("write")]


def test_a_command_lives_through_blocking_turns_and_is_found_from_awaited_ones(runtime: SkillRuntime) -> None:
    said = talked(runtime, blocking, blocking, awaited, blocking)
    assert [json.loads(text)["output"] for text in said] == ["got it\n"] * 4
    run(runtime.close())


@pytest.mark.parametrize("turn", [awaited, blocking])
def test_a_command_of_an_awaited_turn_ends_with_its_loop_and_the_model_is_told(
    runtime: SkillRuntime, turn: Callable[[SkillTalk], object]
) -> None:
    first, second = talked(runtime, awaited, turn)
    assert json.loads(first)["output"] == "got it\n"
    assert "ended with its event loop" in second
    assert "skill_exec" in second
    asyncio.run(runtime.close())


async def test_in_a_notebook_a_blocking_turn_says_that_the_command_is_elsewhere(runtime: SkillRuntime) -> None:
    talk = talk_of(runtime, [says(load("pdf")), says(BEGIN), "first", write, "third"])

    await talk.hear()
    with pytest.raises(ExecutorUnavailable, match="in another event loop"):
        talk.say()
    await talk.hear()
    await runtime.close()
    (told,) = [message.text for identity, message in talk.results().items() if identity.startswith("write")]
    assert json.loads(told)["output"] == "got it\n"


@pytest.mark.parametrize("executor", ["local", "sandbox"])
def test_what_one_loop_does_is_nothing_to_the_commands_of_others(
    executor: str, tmp_path: Path, write_skill: WriteSkill, require_program: RequireProgram
) -> None:
    if executor == "sandbox":
        require_program("bwrap")
    tmp_path.chmod(0o755)
    write_skill("pdf")
    runtime = runtime_in(tmp_path, executor=executor)
    talking = talk_of(runtime, [says(load("pdf")), says(BEGIN), "first", write, "second"])
    talking.say()
    slow, quick = (
        talk_of(runtime, [says(load("pdf")), says(runs(command)), "done"], thread=name)
        for name, command in (("slow", "sleep 1; echo slow"), ("quick", "echo quick"))
    )
    turns = [threading.Thread(target=awaited, args=(talk,)) for talk in (slow, quick)]
    for turn in turns:
        turn.start()
    for turn in turns:
        turn.join(60)
    talking.say()
    assert [json.loads(talk.results()["run"].text)["stdout"] for talk in (slow, quick)] == ["slow\n", "quick\n"]
    (told,) = [message.text for identity, message in talking.results().items() if identity.startswith("write")]
    assert json.loads(told)["output"] == "got it\n"
    run(runtime.close())
