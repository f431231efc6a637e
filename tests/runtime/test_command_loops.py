"""Commands that are talked to belong to the event loop in which they were started."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from openskills.artifacts.store import Scope
from openskills.errors import ExecutorUnavailable
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.session import SkillSession
from openskills.sync import run
from openskills.tools.tool import ToolResult
from tests.executors.running import alive
from tests.runtime.talking import runtime_in
from tests.tools.contexts import write_skill

WHOSE = Scope("openskills", "local", "s")


@pytest.fixture
def runtime(tmp_path: Path) -> SkillRuntime:
    write_skill(tmp_path, "alpha")
    return runtime_in(tmp_path, executor="local")


async def start(runtime: SkillRuntime) -> tuple[str, int]:
    """Start a command that reads lines; gives its session_id and its process id."""
    async with loaded(runtime) as session:
        command = {"skill": "alpha", "command": "echo $$; while read -r line; do echo got $line; done"}
        started = await session.call("skill_exec", command)
    assert started.data["status"] == "running", started.text
    return started.data["session_id"], int(started.data["output"])


async def tell(runtime: SkillRuntime, identity: str) -> ToolResult:
    async with runtime.session("s") as session:
        return await session.call("skill_write_stdin", {"session_id": identity, "chars": "it", "submit": True})


@asynccontextmanager
async def loaded(runtime: SkillRuntime) -> AsyncGenerator[SkillSession]:
    async with runtime.session("s") as session:
        session.context([{"role": "user", "content": "x"}])
        await session.call("skill_load", {"skill": "alpha"})
        yield session


def test_a_command_ends_with_its_loop_and_who_asks_for_it_is_told(runtime: SkillRuntime) -> None:
    identity, pid = asyncio.run(start(runtime))
    assert not alive(pid)
    answer = asyncio.run(tell(runtime, identity))
    assert answer.error is not None
    assert "ended with its event loop" in answer.error.message
    again, other = asyncio.run(start(runtime))
    assert again != identity
    assert not alive(other)
    asyncio.run(runtime.close())


CARELESS = """
import asyncio, sys
from pathlib import Path
from tests.executors.running import alive
from tests.runtime.talking import runtime_in
from tests.runtime.test_command_loops import loaded, start, tell

runtime = runtime_in(Path(sys.argv[1]), executor="local")
loop = asyncio.new_event_loop()
identity, pid = loop.run_until_complete(start(runtime))
loop.close()
assert alive(pid)

async def next_turn():
    print((await tell(runtime, identity)).text)
    async with loaded(runtime) as session:
        print((await session.call("skill_run", {"skill": "alpha", "command": f"while kill -0 {pid}; do :; done"})).text)

asyncio.run(next_turn())
"""


def test_a_loop_that_is_closed_with_everything_in_it_takes_its_commands_along_at_the_next_run(tmp_path: Path) -> None:
    # In a process of its own: asyncio complains about each task that such a program leaves behind.
    write_skill(tmp_path, "alpha")
    done = subprocess.run(
        [sys.executable, "-c", CARELESS, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    told, ran = done.stdout.splitlines()
    assert "ended with its event loop" in told
    assert json.loads(ran)["timed_out"] is False


def test_a_command_of_our_own_loop_lives_through_all_blocking_turns(runtime: SkillRuntime) -> None:
    identity, _ = run(start(runtime))
    assert run(tell(runtime, identity)).data["output"] == "got it\n"
    assert runtime.find_loop(WHOSE) is not None
    run(runtime.close())
    assert runtime.find_loop(WHOSE) is None


def test_in_another_loop_a_conversation_with_a_running_command_cannot_be_used_and_it_goes_on(
    runtime: SkillRuntime,
) -> None:
    identity, pid = run(start(runtime))
    with pytest.raises(ExecutorUnavailable, match="in another event loop"):
        asyncio.run(tell(runtime, identity))
    assert alive(pid)
    assert run(tell(runtime, identity)).data["output"] == "got it\n"
    run(runtime.close())


def test_a_runtime_may_be_closed_in_another_loop_than_its_commands(runtime: SkillRuntime) -> None:
    _, pid = run(start(runtime))
    asyncio.run(runtime.close())
    assert not alive(pid)
