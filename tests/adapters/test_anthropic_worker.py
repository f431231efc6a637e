"""The SDK's own worker with our tools, against a server with the routes that it uses."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from openskills import Catalog, SkillRuntime
from openskills.adapters.anthropic_worker import worker_tools
from openskills.executors.open import open_executor
from openskills.executors.protocol import Executor
from tests.runtime.test_shell import find_processes
from tests.servers.anthropic_environment import AnthropicEnvironment, ScriptedSession
from tests.tools.contexts import settings_in


@pytest.fixture(scope="module")
async def executor(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Executor]:
    place = tmp_path_factory.mktemp("state")
    place.chmod(0o755)
    found = open_executor("sandbox", settings_in(place))
    yield found
    await found.close()


@asynccontextmanager
async def working(executor: Executor, place: Path, environment: AnthropicEnvironment) -> AsyncGenerator[None]:
    """A worker of the SDK that polls the environment."""
    # Here, because every process that runs any test imports this file, and the SDK takes most of a second.
    from anthropic import AsyncAnthropic

    (place / "workdir").mkdir(exist_ok=True)
    runtime = SkillRuntime(
        Catalog.from_paths(place, settings=settings_in(place)), executor, settings=settings_in(place)
    )
    async with environment.serve(), runtime, AsyncAnthropic(base_url=environment.url, api_key="host-key") as client:
        worker = client.beta.environments.work.worker(
            environment_id="env_1",
            environment_key="env-key",
            tools=worker_tools(runtime, check_interval=0.3),
            workdir=place / "workdir",
            max_idle=None,
        )
        running = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


async def text_of(session: ScriptedSession, name: str, **given: Any) -> str:
    """The text of a call that succeeds."""
    found = await session.result(session.call(name, **given))
    assert not found.get("is_error"), found
    return "".join(block["text"] for block in found["content"])


async def failure_of(session: ScriptedSession, name: str, **given: Any) -> str:
    found = await session.result(session.call(name, **given))
    assert found["is_error"], found
    return str(found["content"][0]["text"])


async def wait_until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


async def test_the_six_tools_work_in_the_sandbox_of_the_session(executor: Executor, tmp_path: Path) -> None:
    environment = AnthropicEnvironment()
    session = environment.add_session("session_six")
    (tmp_path / "workdir" / "skills" / "greeter").mkdir(parents=True)
    (tmp_path / "workdir" / "skills" / "greeter" / "SKILL.md").write_text("---\nname: greeter\ndescription: Hi.\n---\n")
    async with working(executor, tmp_path, environment):
        assert await text_of(session, "bash", command="pwd; name=value; cd /tmp") == "/workspace/work"
        assert await text_of(session, "bash", command="echo $name $PWD; cd ~-") == "value /tmp"
        assert (
            await text_of(session, "write", file_path="src/a.py", content="one\ntwo\n") == "wrote 8 bytes to src/a.py"
        )
        assert await text_of(session, "edit", file_path="src/a.py", old_string="two", new_string="2") == (
            "edited src/a.py (1 replacement(s))"
        )
        assert await text_of(session, "read", file_path="src/a.py") == "one\n2\n"
        assert await text_of(session, "read", file_path="/workspace/work/src/a.py", view_range=[2, 0]) == "2\n"
        assert await text_of(session, "glob", pattern="**/*.py") == "/workspace/work/src/a.py"
        assert "src/a.py" in await text_of(session, "grep", pattern="^o.e$")
        assert await text_of(session, "bash", command="cat skills/greeter/SKILL.md | head -2") == "---\nname: greeter"
        assert "greeter" in await text_of(session, "read", file_path="skills/greeter/SKILL.md")
        assert await failure_of(session, "bash", command="echo no; exit 3") == "no\n[exit code 3]\n[the shell ended]"
        assert await text_of(session, "bash", restart=True) == "bash session restarted"
        session.end()
        await wait_until(lambda: environment.stopped == ["work_session_six"])
    assert environment.acked == ["work_session_six"]
    assert environment.keys == {"Bearer env-key"}
    assert not list((tmp_path / "workdir").glob("*.py"))


async def test_an_image_is_a_content_block(executor: Executor, tmp_path: Path) -> None:
    environment = AnthropicEnvironment()
    session = environment.add_session("session_image")
    async with working(executor, tmp_path, environment):
        await text_of(session, "bash", command="printf '\\211PNG' > a.png")
        [block] = (await session.result(session.call("read", file_path="a.png")))["content"]
    assert block["source"]["media_type"] == "image/png"
    assert base64.b64decode(block["source"]["data"]) == b"\x89PNG"


async def test_nothing_leaves_the_workspace_and_nothing_of_the_host_comes_in(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "host-key")
    monkeypatch.setenv("HOST_SECRET", "host-secret")
    (tmp_path / "workdir").mkdir()
    (tmp_path / "workdir" / "host.txt").write_text("of the host")
    environment = AnthropicEnvironment()
    session = environment.add_session("session_hostile")
    async with working(executor, tmp_path, environment):
        env = await text_of(session, "bash", command="env; ls -A")
        assert "host-key" not in env
        assert "env-key" not in env
        assert "host-secret" not in env
        assert "host.txt" not in env
        await text_of(session, "bash", command="ln -s /etc etc; ln -s ../../../../etc up; ln -s /etc/passwd p")
        for path in (
            "../../etc/passwd",
            "/etc/passwd",
            "etc/passwd",
            "up/passwd",
            "p",
            str(tmp_path / "workdir/host.txt"),
        ):
            for name, given in (
                ("read", {"file_path": path}),
                ("edit", {"file_path": path, "old_string": "root", "new_string": "x"}),
                ("grep", {"path": path, "pattern": "root"}),
            ):
                found = await session.result(session.call(name, **given))
                assert "root:" not in str(found["content"])
                assert "of the host" not in str(found["content"])
        for path in ("../../etc/x", "/etc/x", "etc/x", "up/x"):
            await failure_of(session, "write", file_path=path, content="x")
        for pattern in ("../*", "/etc/*", "x/../../*"):
            await failure_of(session, "glob", pattern=pattern)
        await failure_of(session, "glob", pattern="*", path="/etc")
        assert "passwd" not in str(await session.result(session.call("glob", pattern="etc/*")))
        assert await failure_of(session, "bash") == "bash: command: required"


async def test_output_is_bounded_and_binary_is_text(executor: Executor, tmp_path: Path) -> None:
    environment = AnthropicEnvironment()
    session = environment.add_session("session_output")
    async with working(executor, tmp_path, environment):
        text = await text_of(session, "bash", command="head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last")
        assert len(text) < 20_000
        assert text.endswith("last")
        assert await text_of(session, "bash", command="printf 'a\\377'") == "a\ufffd"
        await text_of(session, "bash", command="head -c 1000000 /dev/zero | tr '\\0' x > big.txt")
        assert "1,000,000 bytes" in await failure_of(session, "read", file_path="big.txt")
        text = await failure_of(session, "bash", command="trap '' TERM; sleep 600", timeout_ms=500)
        assert "timed out after 0.5 s" in text


async def test_two_sessions_do_not_see_each_others_files(executor: Executor, tmp_path: Path) -> None:
    environment = AnthropicEnvironment()
    first, second = environment.add_session("session_a"), environment.add_session("session_b")
    async with working(executor, tmp_path, environment):
        await text_of(first, "write", file_path="secret.txt", content="mine")
        first.end()
        assert await text_of(second, "bash", command="find / -name secret.txt 2>/dev/null | wc -l") == "0"
        assert await text_of(second, "glob", pattern="**") == "no matches"
        second.end()
        await wait_until(lambda: len(environment.stopped) == 2)


@pytest.mark.parametrize(
    ("heartbeat", "stops"),
    [
        pytest.param(412, False, id="lease-lost"),
        pytest.param(500, False, id="heartbeats-fail"),
        pytest.param(403, True, id="heartbeat-rejected"),
        pytest.param("stopping", True, id="stop-requested"),
    ],
)
async def test_a_worker_that_loses_its_lease_ends_its_commands(
    executor: Executor, tmp_path: Path, heartbeat: int | str, stops: bool
) -> None:
    environment = AnthropicEnvironment()
    session = environment.add_session(f"session_{heartbeat}")
    async with working(executor, tmp_path, environment):
        command = "trap '' TERM; (setsid sleep 8123 &); sleep 8123"
        session.call("bash", command=command)
        await wait_until(lambda: len(find_processes("sleep 8123")) == 2)
        environment.heartbeat = heartbeat
        await wait_until(lambda: not find_processes("sleep 8123"))
        environment.heartbeat = "active"
        # It serves the next session.
        other = environment.add_session(f"session_after_{heartbeat}")
        assert await text_of(other, "bash", command="echo next") == "next"
        assert (f"work_session_{heartbeat}" in environment.stopped) is stops


async def test_a_session_that_is_deleted_in_the_middle_of_a_call_ends_its_commands(
    executor: Executor, tmp_path: Path
) -> None:
    environment = AnthropicEnvironment()
    session = environment.add_session("session_deleted")
    async with working(executor, tmp_path, environment):
        session.call("bash", command="sleep 8231")
        await wait_until(lambda: find_processes("sleep 8231"))
        session.end("session.deleted")
        await wait_until(lambda: not find_processes("sleep 8231"))
        await wait_until(lambda: environment.stopped)


async def test_a_worker_that_is_cancelled_ends_its_commands(executor: Executor, tmp_path: Path) -> None:
    environment = AnthropicEnvironment()
    session = environment.add_session("session_cancelled")
    async with working(executor, tmp_path, environment):
        session.call("bash", command="sleep 8317")
        await wait_until(lambda: find_processes("sleep 8317"))
    assert not find_processes("sleep 8317")


async def test_a_session_that_comes_back_keeps_its_files_and_its_own_skills_directory(
    executor: Executor, tmp_path: Path
) -> None:
    environment = AnthropicEnvironment()
    async with working(executor, tmp_path, environment):
        first = environment.add_session("session_back")
        await text_of(first, "bash", command="rm skills; mkdir skills; echo kept > skills/mine.txt")
        first.end()
        await wait_until(lambda: environment.stopped)
        second = environment.add_session("session_back")
        assert await text_of(second, "bash", command="cat skills/mine.txt") == "kept"


async def test_memory_stores_are_refused_with_what_to_do(executor: Executor, tmp_path: Path) -> None:
    from anthropic.lib.tools.agent_toolset import AgentToolContext

    from openskills import InvalidArgument

    settings = settings_in(tmp_path)
    async with SkillRuntime(Catalog.from_paths(tmp_path, settings=settings), executor, settings=settings) as runtime:
        with pytest.raises(InvalidArgument, match="memory_sync_interval=None"):
            worker_tools(runtime)(AgentToolContext(workdir=tmp_path, allowed_roots=[tmp_path]))
