"""Commands of hooks as real processes.

Hooks around calls of tools, in graphs and by themselves.

Hooks out of front matter.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from openskills.adapters.langchain.backend_io import run_blocking
from openskills.adapters.langchain.hooks import (
    ExecutorHooks,
    Hook,
    HookCall,
    HookResult,
    HookRun,
    parse_hooks,
    run_hooks,
    select_hooks,
)
from openskills.adapters.langchain.options import SkillOptions
from openskills.errors import ExecutorUnavailable
from openskills.executors.open import open_executor
from openskills.executors.spec import Command
from openskills.settings import Settings
from openskills.testing.fake_executor import FakeExecutor, FakeRun
from tests.adapters.langchain.agents import Talk, deep
from tests.adapters.langchain.entries import entry
from tests.adapters.langchain.scripted import call, load, says, unload
from tests.skill_writer import WriteSkill


@pytest.fixture
def hooks(tmp_path: Path) -> ExecutorHooks:
    settings = Settings.from_env({"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "OPENSKILL_ALLOW_LOCAL": "1"})
    return ExecutorHooks(open_executor("local", settings))


async def test_a_script_of_the_skill_reads_the_payload_and_its_exit_code_counts(hooks: ExecutorHooks) -> None:
    script = b'#!/bin/sh\nread line\necho "got $line" >&2\nexit 2\n'
    task = HookRun("./scripts/check.sh", "safe", '{"tool_name": "search"}\n', "one", {"scripts/check.sh": script})

    for _ in range(2):
        end = await hooks.run(task)
        assert (end.exit_code, end.stdout) == (2, "")
        assert end.stderr == 'got {"tool_name": "search"}\n'
    await hooks.executor.close()


async def test_threads_have_workspaces_of_their_own(hooks: ExecutorHooks) -> None:
    await hooks.run(HookRun("echo first > note", "safe", "", "one"))
    mine = await hooks.run(HookRun("cat note", "safe", "", "one"))
    other = await hooks.run(HookRun("cat note", "safe", "", "two"))
    await hooks.executor.close()

    assert (mine.stdout, other.stdout) == ("first\n", "")


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

    def __init__(self, end: HookResult | Exception) -> None:
        self.end = end
        self.runs: list[HookRun] = []

    async def run(self, run: HookRun) -> HookResult:
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
    runner = Answers(HookResult(2, stderr="not today\n"))
    talk = hooked(backend, [searching("free"), says(load("safe")), searching("bound"), says(unload("safe"))], runner)
    talk.say()
    talk.model.script.extend([searching("after")])
    assert talk.results()["free"] == "found free"
    assert talk.results()["bound"] == "Error: The skill 'safe' does not allow this call: not today"
    assert len(runner.runs) == 1


def test_hooks_end_with_the_unloading_of_their_skill(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("safe", front=BEFORE)
    runner = Answers(HookResult(2))
    talk = hooked(backend, [says(load("safe")), says(unload("safe")), searching("after")], runner)
    talk.say()
    assert talk.results()["after"] == "found after"
    assert runner.runs == []


def test_a_command_is_told_what_is_called_and_has_the_files_of_its_skill(write_skill: WriteSkill, backend: Any) -> None:
    skill = write_skill("safe", front=BEFORE)
    (skill / "scripts").mkdir()
    (skill / "scripts" / "check.sh").write_bytes(b"exit 0\n")
    runner = Answers(HookResult(0))
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
    runner = Answers(HookResult(2, stderr="check the date"))
    talk = hooked(backend, [says(load("safe")), searching("x")], runner)
    talk.say()
    assert talk.results()["x"] == "found x\n\n[safe] check the date"
    assert json.loads(runner.runs[0].payload)["tool_response"] == "found x"


@pytest.mark.parametrize(("once", "told"), [("false", 3), ("true", 1)])
def test_words_of_a_hook_come_with_every_result_or_once(
    write_skill: WriteSkill, backend: Any, once: str, told: int
) -> None:
    write_skill("cite", front=PROMPT.format(once=once))
    talk = hooked(backend, [says(load("cite")), searching("a", "b"), searching("c")], Answers(HookResult(0)))
    talk.say()
    assert sum("[cite] Cite what you found." in talk.results()[one] for one in "abc") == told
    assert "Cite" in talk.results()["a"]


async def test_hooks_run_when_the_agent_is_awaited(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("safe", front=BEFORE)
    talk = hooked(backend, [says(load("safe")), searching("x")], Answers(HookResult(2, stderr="no")))
    await talk.hear()
    assert talk.results()["x"].endswith("no")


START = """hooks:
  SessionStart:
    - matcher: {source}
      hooks:
        - type: command
          command: ./scripts/begin.sh
        - type: prompt
          prompt: Greet first.
"""


@pytest.mark.parametrize("awaited", [False, True])
async def test_a_session_start_hook_runs_once_when_a_thread_begins_and_the_model_reads_its_output(
    write_skill: WriteSkill, backend: Any, awaited: bool
) -> None:
    skill = write_skill("safe", front=START.format(source="startup|resume"))
    (skill / "scripts").mkdir()
    (skill / "scripts" / "begin.sh").write_bytes(b"date\n")
    write_skill("other", front=START.format(source="compact"))
    runner = Answers(HookResult(0, stdout="It is Monday.\n"))
    task = call("task", "task", description="go", subagent_type="general-purpose")
    talk = hooked(backend, [says(task), "child", "done", "again"], runner)
    for _ in range(2):
        await talk.hear() if awaited else talk.say()
    (run,) = runner.runs
    assert json.loads(run.payload) == {"hook_event_name": "SessionStart", "session_id": "one", "source": "startup"}
    assert run.files == {"scripts/begin.sh": b"date\n"}
    first = [message.text for message in talk.model.requests[0]]
    assert "[safe] It is Monday.\n\n[safe] Greet first." in first
    assert sum("Greet first." in message.text for message in talk.model.requests[-1]) == 1


def test_a_session_start_hook_runs_in_a_real_executor(write_skill: WriteSkill, backend: Any, hooks: Any) -> None:
    skill = write_skill("safe", front=START.format(source='""'))
    (skill / "scripts").mkdir()
    (skill / "scripts" / "begin.sh").write_bytes(b"#!/bin/sh\necho from a script\n")
    talk = hooked(backend, [], hooks)
    talk.say()
    assert any("[safe] from a script" in message.text for message in talk.model.requests[0])


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
    talk = hooked(backend, [says(load("safe")), searching("x")], Answers(HookResult(1, stderr="oops")))
    talk.say()
    assert talk.results()["x"] == "found x"
    assert "exited with code 1: oops" in caplog.text


def test_a_hook_on_load_skill_leaves_the_loaded_skill_in_sight(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("cite", front=PROMPT.format(once="false").replace("search", "load_skill"))
    write_skill("pdf")
    talk = hooked(backend, [says(load("cite")), says(load("pdf")), "end"], Answers(HookResult(0)))
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
    runner = Answers(HookResult(2))
    around = HookCall("PreToolUse", "search", {}, {"pdf": entry("pdf")}, {})
    backend: Any = None
    noted = run_blocking(run_hooks(hooks, around, runner), backend)
    assert noted.blocked is not None
    assert noted.blocked.endswith("no reason was given")
    assert noted.done == ("1",)
    assert [run.command for run in runner.runs] == ["first"]


def test_a_skill_cannot_keep_the_model_from_unloading_it(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("sticky", front=BEFORE.replace("search", "'*'"))
    runner = Answers(HookResult(2, stderr="stay"))
    talk = hooked(backend, [says(load("sticky")), searching("bound"), says(unload("sticky")), "end"], runner)
    talk.say()
    assert talk.results()["bound"].endswith("stay")
    assert talk.loaded == []


@pytest.mark.parametrize("awaited", [False, True])
async def test_a_runner_that_raises_anything_forbids_the_call_and_ends_no_run(
    write_skill: WriteSkill, backend: Any, awaited: bool
) -> None:
    write_skill("safe", front=BEFORE)
    talk = hooked(backend, [says(load("safe")), searching("bound"), "end"], Answers(OSError("disk full")))
    await talk.hear() if awaited else talk.say()
    assert "its hook could not be run (OSError: disk full)" in talk.results()["bound"]


def skill(hooks: Any) -> Any:
    return entry("pdf", extensions={"hooks": hooks})


def test_matchers_events_and_kinds_are_read() -> None:
    hooks = parse_hooks(
        skill(
            {
                "PreToolUse": [{"matcher": "Bash|write_file", "hooks": [{"type": "command", "command": "./check.sh"}]}],
                "PostToolUse": [{"hooks": [{"type": "prompt", "prompt": " Be brief. ", "once": "true"}]}],
            }
        )
    )
    assert [(hook.event, hook.matcher, hook.kind, hook.text, hook.once) for hook in hooks] == [
        ("PreToolUse", "Bash|write_file", "command", "./check.sh", False),
        ("PostToolUse", "", "prompt", "Be brief.", True),
    ]
    assert len({hook.id for hook in hooks}) == 2


def test_a_handler_may_stand_beside_its_matcher() -> None:
    (hook,) = parse_hooks(skill({"PreToolUse": {"matcher": "search", "command": "true"}}))
    assert (hook.matcher, hook.kind, hook.text) == ("search", "command", "true")


@pytest.mark.parametrize(
    "hooks",
    [
        "text",
        ["list"],
        {"SessionEnd": [{"hooks": [{"type": "command", "command": "x"}]}]},
        {"PreToolUse": [{"hooks": [{"type": "agent", "prompt": "x"}]}]},
        {"PreToolUse": [{"hooks": [{"type": "command"}]}]},
        {"PreToolUse": "x"},
        None,
    ],
)
def test_what_is_not_understood_is_passed_over(hooks: Any) -> None:
    assert parse_hooks(skill(hooks)) == []


@pytest.mark.parametrize(
    ("matcher", "tool", "fits"),
    [
        ("", "search", True),
        ("*", "search", True),
        ("search", "search", True),
        ("sear", "search", False),
        ("sear.*", "search", True),
        ("Bash", "execute", True),
        ("Write|Edit", "edit_file", True),
        ("Read", "edit_file", False),
        ("write | edit", "edit_file", True),
        ("Grep", "grep", True),
        ("LS", "ls", True),
        ("(", "search", True),
        ("(s+)+x", "s" * 60, True),
        ("(a|s*)*x", "s" * 60, True),
        ("search|" * 100, "search", True),
        ("(search|send)", "search", True),
        ("^search$", "search", True),
        ("^(send|search)$", "search", True),
        ("*arc*", "search", True),
        (".*ea.*c.*", "search", True),
        ("s*h", "sh", True),
        ("sh*hs", "shs", False),
        ("s.arch", "search", True),
        ("mcp__.*__read", "mcp__files__read", True),
        ("((s+))+!", "s" * 60, True),
        (r"(\w|\w\w)+!", "s" * 60, True),
        ("(s|s)*!", "s" * 60, True),
        (r"(?:(?:\w+)?)+!", "s" * 60, True),
        (".*s" * 160 + "!", "s" * 200, False),
    ],
)
def test_a_matcher_fits_whole_names_also_those_of_other_clients(matcher: str, tool: str, fits: bool) -> None:
    assert Hook("id", "pdf", "PreToolUse", matcher, "command", "x").matches_tool(tool) is fits


def test_hooks_for_another_event_or_tool_are_left_out() -> None:
    one = skill({"PreToolUse": [{"matcher": "search", "command": "a"}, {"matcher": "send", "command": "b"}]})
    assert [hook.text for hook in select_hooks([one, entry("none")], "PreToolUse", "search")] == ["a"]
    assert select_hooks([one], "PostToolUse", "search") == []
