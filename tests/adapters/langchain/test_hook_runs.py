"""Hooks around calls of tools, in graphs and by themselves."""

import asyncio
import json
from typing import Any

import pytest

from openskills.adapters.langchain import ExecutorHooks, SkillOptions
from openskills.adapters.langchain.hook_runs import HookedCall, HookEnd, HookRun, run_hooks
from openskills.adapters.langchain.skill_hooks import Hook
from openskills.adapters.langchain.steps import blocking
from openskills.errors import ExecutorUnavailable
from openskills.executors.spec import Command
from openskills.testing import FakeExecutor, FakeRun
from tests.adapters.langchain.agents import Talk, deep
from tests.adapters.langchain.entries import entry
from tests.adapters.langchain.scripted import call, load, says, unload
from tests.skill_writer import WriteSkill

BEFORE = """hooks:
  PreToolUse:
    - matcher: search
      hooks:
        - type: command
          command: ./scripts/check.sh
"""
AFTER = BEFORE.replace("PreToolUse", "PostToolUse")
PROMPT = """hooks:
  PostToolUse:
    - matcher: search
      hooks:
        - type: prompt
          prompt: Cite what you found.
          once: {once}
"""


class Answers:
    """Runs nothing, and answers every command the same way; implements `HookRunner`."""

    def __init__(self, end: HookEnd | Exception) -> None:
        self.end = end
        self.runs: list[HookRun] = []

    async def run(self, run: HookRun) -> HookEnd:
        self.runs.append(run)
        if isinstance(self.end, Exception):
            raise self.end
        return self.end


def search(query: str) -> str:
    """Search."""
    return f"found {query}"


def hooked(backend: Any, script: Any, runner: Any, **options: Any) -> Talk:
    agent = {"tools": [search]}
    return deep(backend, script, options=SkillOptions(hooks=runner), agent=agent, **options)


def searching(*ids: str) -> Any:
    return says(*(call("search", one, query=one) for one in ids))


def test_a_command_that_ends_with_2_keeps_the_call_from_happening(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("safe", front=BEFORE)
    runner = Answers(HookEnd(2, stderr="not today\n"))
    talk = hooked(backend, [searching("free"), says(load("safe")), searching("bound"), says(unload("safe"))], runner)
    talk.say()
    talk.model.script.extend([searching("after")])
    assert talk.results()["free"] == "found free"
    assert talk.results()["bound"] == "Error: The skill 'safe' does not allow this call: not today"
    assert len(runner.runs) == 1


def test_hooks_end_with_the_unloading_of_their_skill(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("safe", front=BEFORE)
    runner = Answers(HookEnd(2))
    talk = hooked(backend, [says(load("safe")), says(unload("safe")), searching("after")], runner)
    talk.say()
    assert talk.results()["after"] == "found after"
    assert runner.runs == []


def test_a_command_is_told_what_is_called_and_has_the_files_of_its_skill(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("safe", front=BEFORE)
    (skill / "scripts").mkdir()
    (skill / "scripts" / "check.sh").write_bytes(b"exit 0\n")
    runner = Answers(HookEnd(0))
    talk = hooked(backend, [says(load("safe")), searching("x")], runner)
    talk.say()
    (run,) = runner.runs
    assert json.loads(run.payload) == {
        "hook_event_name": "PreToolUse",
        "session_id": "one",
        "tool_name": "search",
        "tool_input": {"query": "x"},
    }
    assert run.files == {"scripts/check.sh": b"exit 0\n"}
    assert talk.results()["x"] == "found x"


def test_a_command_after_a_call_can_say_something_about_its_result(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("safe", front=AFTER)
    runner = Answers(HookEnd(2, stderr="check the date"))
    talk = hooked(backend, [says(load("safe")), searching("x")], runner)
    talk.say()
    assert talk.results()["x"] == "found x\n\n[safe] check the date"
    assert json.loads(runner.runs[0].payload)["tool_response"] == "found x"


@pytest.mark.parametrize(("once", "told"), [("false", 3), ("true", 1)])
def test_words_of_a_hook_come_with_every_result_or_once(
    write_skill: WriteSkill, backend: Any, once: str, told: int
) -> None:
    write_skill("cite", front=PROMPT.format(once=once))
    talk = hooked(backend, [says(load("cite")), searching("a", "b"), searching("c")], Answers(HookEnd(0)))
    talk.say()
    assert sum("[cite] Cite what you found." in talk.results()[one] for one in "abc") == told
    assert "Cite" in talk.results()["a"]


def test_hooks_run_when_the_agent_is_awaited(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("safe", front=BEFORE)
    talk = hooked(backend, [says(load("safe")), searching("x")], Answers(HookEnd(2, stderr="no")))
    asyncio.run(talk.hear())
    assert talk.results()["x"].endswith("no")


def test_a_command_that_cannot_be_run_allows_nothing(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("safe", front=BEFORE)
    runner = Answers(ExecutorUnavailable("there is no sandbox"))
    talk = hooked(backend, [says(load("safe")), searching("x")], runner)
    talk.say()
    assert "could not be run (there is no sandbox" in talk.results()["x"]


def test_a_command_that_fails_otherwise_is_logged_and_the_call_goes_on(
    write_skill: WriteSkill, backend: Any, caplog: pytest.LogCaptureFixture
) -> None:
    write_skill("safe", front=BEFORE)
    talk = hooked(backend, [says(load("safe")), searching("x")], Answers(HookEnd(1, stderr="oops")))
    talk.say()
    assert talk.results()["x"] == "found x"
    assert "ended with 1: oops" in caplog.text


def test_a_hook_on_load_skill_leaves_the_loaded_skill_in_sight(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("cite", front=PROMPT.format(once="false").replace("search", "load_skill"))
    write_skill("pdf")
    talk = hooked(backend, [says(load("cite")), says(load("pdf")), "end"], Answers(HookEnd(0)))
    talk.say()
    assert talk.results()["load-pdf"].endswith("[cite] Cite what you found.")
    assert talk.loaded == ["cite", "pdf"]


def test_with_an_executor_of_ours_hooks_run_there(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("safe", front=BEFORE)
    executor = FakeExecutor(lambda _: FakeRun(exit_code=2, stderr=b"refused by the script"))
    talk = hooked(backend, [says(load("safe")), searching("x")], ExecutorHooks(executor))
    talk.say()
    assert talk.results()["x"].endswith("refused by the script")
    (ran,) = executor.commands
    assert isinstance(ran, Command)
    assert ran.argv == ("bash", "-c", "./scripts/check.sh")


def test_the_first_hook_that_blocks_ends_it() -> None:
    hooks = [
        Hook("1", "pdf", "PreToolUse", "", "command", "first", once=True),
        Hook("2", "pdf", "PreToolUse", "", "command", "second"),
    ]
    runner = Answers(HookEnd(2))
    around = HookedCall("PreToolUse", "search", {}, {"pdf": entry("pdf")}, {})
    backend: Any = None
    noted = blocking(run_hooks(hooks, around, runner), backend)
    assert noted.blocked is not None
    assert noted.blocked.endswith("no reason was given")
    assert noted.done == ("1",)
    assert [run.command for run in runner.runs] == ["first"]


def test_a_skill_cannot_keep_the_model_from_unloading_it(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("sticky", front=BEFORE.replace("search", "'*'"))
    runner = Answers(HookEnd(2, stderr="stay"))
    talk = hooked(backend, [says(load("sticky")), searching("bound"), says(unload("sticky")), "end"], runner)
    talk.say()
    assert talk.results()["bound"].endswith("stay")
    assert talk.loaded == []


@pytest.mark.parametrize("awaited", [False, True])
def test_a_runner_that_raises_anything_forbids_the_call_and_ends_no_run(
    write_skill: WriteSkill, backend: Any, awaited: bool
) -> None:
    write_skill("safe", front=BEFORE)
    talk = hooked(backend, [says(load("safe")), searching("bound"), "end"], Answers(OSError("disk full")))
    asyncio.run(talk.hear()) if awaited else talk.say()
    assert "its hook could not be run (OSError: disk full)" in talk.results()["bound"]
