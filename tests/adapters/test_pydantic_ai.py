"""Pydantic AI: its conformance suite on our sandbox, and its own test models with our tools."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, ModelMessage, ModelResponse, RunContext, TextPart, ToolCallPart
from pydantic_ai.messages import ModelRequest, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.workspaces import (
    Workspace,
    WorkspaceBackend,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

from openskills import Catalog, InvalidArgument, SessionOptions, SkillRuntime, SkillSession
from openskills.adapters.pydantic_ai import SandboxWorkspace, SkillCapability, SkillToolset
from openskills.executors.open import open_executor
from openskills.executors.protocol import Executor
from openskills.settings import Settings
from tests.long_form import LONG
from tests.runtime.test_shell import find_processes
from tests.tools.contexts import settings_in, write_skill


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    place = tmp_path_factory.mktemp("state")
    place.chmod(0o755)
    return settings_in(place)


@pytest.fixture(scope="module")
async def executor(settings: Settings) -> AsyncGenerator[Executor]:
    found = open_executor("sandbox", settings)
    yield found
    await found.close()


class TestConformance(WorkspaceBackendSuite):
    """The public suite, with all of its optional rules."""

    @pytest.fixture
    async def backend(self, executor: Executor, settings: Settings) -> AsyncGenerator[WorkspaceBackend]:  # type: ignore[override]
        async with SandboxWorkspace(executor=executor, settings=settings) as found:
            yield found

    @pytest.fixture
    def fresh_backend(self, executor: Executor, settings: Settings) -> Callable[[], WorkspaceBackend]:  # type: ignore[override]
        return lambda: SandboxWorkspace(executor=executor, settings=settings)

    @pytest.fixture
    def attach_backend(self, executor: Executor, settings: Settings) -> Callable[[WorkspaceRef], WorkspaceBackend]:  # type: ignore[override]
        return lambda ref: SandboxWorkspace(executor=executor, settings=settings, ref=ref)

    @pytest.fixture
    def destroy_environment(self) -> Callable[[WorkspaceBackend], Awaitable[None]]:  # type: ignore[override]
        async def destroy(backend: WorkspaceBackend) -> None:
            assert isinstance(backend, SandboxWorkspace)
            await backend.destroy()

        return destroy

    @pytest.fixture
    def can_detect_exit_with_inherited_output_pipes(self) -> bool:
        # The rule then waits 30 s for a background process, which our sandbox has killed: see the next test.
        return LONG


@pytest.fixture
async def workspace(executor: Executor, settings: Settings) -> AsyncGenerator[SandboxWorkspace]:
    async with SandboxWorkspace(executor=executor, settings=settings) as found:
        yield found


async def test_a_background_process_ends_with_its_command_and_does_not_delay_it(workspace: SandboxWorkspace) -> None:
    result = await workspace.run("(trap '' TERM; sleep 6007) & sleep 0.1; echo done", shell=True)
    assert (result.exit_code, result.stdout) == (0, "done\n")
    # The kernel ends what is left in a sandbox after its first process.
    while find_processes("sleep 6007"):
        await asyncio.sleep(0.02)


async def test_output_beyond_the_limit_is_an_error_with_its_beginning(workspace: SandboxWorkspace) -> None:
    with pytest.raises(WorkspaceOutputLimitError) as caught:
        await workspace.run("head -c 30000000 /dev/zero | tr '\\0' x", shell=True)
    assert caught.value.stdout == "x" * 65536


async def test_a_command_that_ignores_sigterm_ends_at_its_timeout(workspace: SandboxWorkspace) -> None:
    with pytest.raises(WorkspaceTimeoutError) as caught:
        await workspace.run("trap '' TERM; echo begun; (setsid sleep 6101 &); sleep 6101", shell=True, timeout=3)
    assert caught.value.stdout == "begun\n"
    assert not find_processes("sleep 6101")


async def test_paths_lead_to_the_files_of_the_sandbox_and_not_of_the_host(
    workspace: SandboxWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_SECRET", "host-secret")
    (tmp_path / "host.txt").write_text("of the host")
    files = Workspace(workspace)
    await workspace.run(["ln", "-s", str(tmp_path), "link"])
    for path in (str(tmp_path / "host.txt"), "link/host.txt", f"../../..{tmp_path}/host.txt"):
        with pytest.raises((FileNotFoundError, PermissionError)):
            await files.read_bytes(path)
    with pytest.raises(PermissionError):
        await files.write_bytes("/etc/hosts", b"x")
    assert "host-secret" not in (await workspace.run(["env"])).stdout


async def test_two_workspaces_do_not_share_files(executor: Executor, settings: Settings) -> None:
    async with (
        SandboxWorkspace(executor=executor, settings=settings) as first,
        SandboxWorkspace(executor=executor, settings=settings) as second,
    ):
        await Workspace(first).write_text("secret.txt", "mine")
        assert not await Workspace(second).exists("secret.txt")
        assert (await second.run("find / -name secret.txt 2>/dev/null", shell=True)).stdout == ""


async def test_a_ref_attaches_after_the_first_backend_was_closed(executor: Executor, settings: Settings) -> None:
    async with SandboxWorkspace(executor=executor, settings=settings) as first:
        await Workspace(first).write_text("kept.txt", "here")
    async with SandboxWorkspace(executor=executor, settings=settings, ref=first.ref) as second:
        assert await Workspace(second).read_text("kept.txt") == "here"
    with pytest.raises(WorkspaceUnavailableError):
        await first.run(["true"])
    with pytest.raises(InvalidArgument, match="belongs to 'e2b'"):
        SandboxWorkspace(executor=executor, settings=settings, ref=WorkspaceRef(provider="e2b", id="x"))


async def test_arguments_are_checked(workspace: SandboxWorkspace) -> None:
    for timeout in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="timeout"):
            await workspace.run(["true"], timeout=timeout)
    for env in ({"LD_PRELOAD": "x"}, {"A B": "x"}, {"A": "\0"}):
        with pytest.raises(ValueError, match="env"):
            await workspace.run(["true"], env=env)


def open_runtime(executor: Executor, place: Path, **options: Any) -> SkillRuntime:
    """A runtime with a skill that greets."""
    place.chmod(0o755)
    write_skill(place, "greeter", {"scripts/greet.py": "print('hello from the skill')\n"})
    settings = settings_in(place)
    catalog = Catalog.from_paths(place / "skills", settings=settings)
    return SkillRuntime(catalog, executor, settings=settings, options=SessionOptions(**options))


@pytest.fixture
async def session(executor: Executor, tmp_path: Path) -> AsyncGenerator[SkillSession]:
    async with open_runtime(executor, tmp_path) as runtime, runtime.session(tmp_path.name) as found:
        yield found


def returns_of(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    return [part for part in parts if isinstance(part, ToolReturnPart)]


def scripted(*answers: list[ToolCallPart] | str) -> FunctionModel:
    """Pydantic AI's function model that gives these answers in order."""
    left = list(answers)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del messages, info
        found = left.pop(0)
        return ModelResponse(parts=[TextPart(found)] if isinstance(found, str) else found)

    return FunctionModel(answer)


async def test_the_test_model_of_pydantic_ai_sees_the_skills_and_calls_the_tools(session: SkillSession) -> None:
    model = TestModel(call_tools=["list_files"])
    result = await Agent(model, toolsets=[SkillToolset(session)]).run("go")
    sent = model.last_model_request_parameters
    assert sent is not None
    assert {"skill_load", "skill_run", "read_file"} <= {tool.name for tool in sent.function_tools}
    assert "greeter" in str(result.all_messages()[0])
    assert [part.tool_name for part in returns_of(result.all_messages())] == ["list_files"]


async def test_a_model_loads_a_skill_and_runs_it_in_the_sandbox(session: SkillSession) -> None:
    model = scripted(
        [ToolCallPart("skill_load", {"skill": "greeter"})],
        [ToolCallPart("skill_run", {"skill": "greeter", "command": "python3 scripts/greet.py"})],
        "done",
    )
    result = await Agent(model, toolsets=[SkillToolset(session)]).run("greet")
    loaded, ran = returns_of(result.all_messages())
    assert "[Loaded] greeter" in str(loaded.content)
    assert "hello from the skill" in str(ran.content)
    assert result.output == "done"


async def test_a_failed_call_is_a_failed_result_and_the_run_goes_on(session: SkillSession) -> None:
    model = scripted(
        *[[ToolCallPart("skill_run", {"skill": "greeter", "command": "true"})] for _ in range(4)],
        [ToolCallPart("skill_load", {"skill": "greter", "nonsense": 1})],
        "done",
    )
    result = await Agent(model, toolsets=[SkillToolset(session)]).run("go")
    found = returns_of(result.all_messages())
    assert [part.outcome for part in found] == ["failed"] * 5
    assert "skill_load" in str(found[0].content)
    assert "nonsense" in str(found[4].content)


async def test_the_capability_gives_tools_of_the_application_the_workspace_of_the_skills(session: SkillSession) -> None:
    model = scripted(
        [ToolCallPart("skill_load", {"skill": "greeter"})],
        [ToolCallPart("skill_run", {"skill": "greeter", "command": "python3 scripts/greet.py > out/greeting.txt"})],
        [ToolCallPart("look", {})],
        "done",
    )
    agent = Agent(model, capabilities=[SkillCapability(session)])

    @agent.tool
    async def look(ctx: RunContext[object]) -> str:
        assert ctx.workspace.attached
        return await ctx.workspace.read_text("../out/greeting.txt")

    result = await agent.run("go")
    assert returns_of(result.all_messages())[-1].content == "hello from the skill\n"


async def test_commands_in_a_sessions_workspace_follow_its_policy_and_files_do_not_need_it(
    executor: Executor, tmp_path: Path
) -> None:
    asked: list[str] = []

    async def ask(question: Any) -> bool:
        asked.append(question.command)
        return False

    for options in ({"allowed_commands": ["echo"]}, {"ask": ask}):
        async with open_runtime(executor, tmp_path, **options) as runtime, runtime.session("policy") as session:
            backend = SandboxWorkspace(session)
            files = Workspace(backend)
            await files.write_text("a.txt", "a")
            assert await files.read_text("a.txt") == "a"
            denied = await backend.run(["rm", "a.txt"])
            assert denied.exit_code == 126
            assert denied.stderr
            assert await files.exists("a.txt")
    assert asked == ["rm a.txt"]


async def test_a_cancelled_run_ends_its_command(session: SkillSession) -> None:
    await session.call("skill_load", {"skill": "greeter"})
    model = scripted([ToolCallPart("skill_run", {"skill": "greeter", "command": "sleep 6211"})], "done")
    running = asyncio.create_task(Agent(model, toolsets=[SkillToolset(session)]).run("go"))
    while not find_processes("sleep 6211"):
        await asyncio.sleep(0.02)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not find_processes("sleep 6211")


async def test_a_subclass_sees_the_files_that_agents_write(executor: Executor, settings: Settings) -> None:
    class Guarded(SandboxWorkspace):
        async def write_bytes(self, path: str, data: bytes) -> None:
            if path == "secret":
                raise PermissionError(path)
            await super().write_bytes(path, data)

    async with Guarded(executor=executor, settings=settings) as workspace:
        await workspace.write_bytes("a.txt", b"a")
        assert await workspace.read_bytes("a.txt") == b"a"
        with pytest.raises(PermissionError):
            await workspace.write_bytes("secret", b"")
