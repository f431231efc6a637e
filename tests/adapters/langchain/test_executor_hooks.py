"""Commands of hooks as real processes."""

from pathlib import Path

import pytest

from openskills.adapters.langchain import ExecutorHooks
from openskills.adapters.langchain.hook_runs import HookRun
from openskills.executors.choose import executor
from openskills.settings import Settings
from openskills.sync import run


@pytest.fixture
def hooks(tmp_path: Path) -> ExecutorHooks:
    settings = Settings.from_env({"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "OPENSKILL_ALLOW_LOCAL": "1"})
    return ExecutorHooks(executor("local", settings))


def test_a_script_of_the_skill_reads_the_payload_and_its_exit_code_counts(hooks: ExecutorHooks) -> None:
    script = b'#!/bin/sh\nread line\necho "got $line" >&2\nexit 2\n'
    task = HookRun("./scripts/check.sh", "safe", '{"tool_name": "search"}\n', "one", {"scripts/check.sh": script})

    async def twice() -> None:
        for _ in range(2):
            end = await hooks.run(task)
            assert (end.exit_code, end.stdout) == (2, "")
            assert end.stderr == 'got {"tool_name": "search"}\n'
        await hooks.executor.close()

    run(twice())


def test_threads_have_workspaces_of_their_own(hooks: ExecutorHooks) -> None:
    async def both() -> tuple[str, str]:
        await hooks.run(HookRun("echo first > note", "safe", "", "one"))
        mine = await hooks.run(HookRun("cat note", "safe", "", "one"))
        other = await hooks.run(HookRun("cat note", "safe", "", "two"))
        await hooks.executor.close()
        return mine.stdout, other.stdout

    assert run(both()) == ("first\n", "")
