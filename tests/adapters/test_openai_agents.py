"""The OpenAI Agents SDK: its runner and its sandbox agents, with a scripted model, on our sandboxes."""

import asyncio
import io
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from agents.run_config import SandboxRunConfig
from agents.sandbox import Manifest, SandboxAgent
from agents.sandbox.capabilities import Filesystem, Shell
from agents.sandbox.entries import File
from agents.sandbox.errors import ExecTimeoutError, InvalidManifestPathError, SandboxError, WorkspaceReadNotFoundError
from agents.sandbox.session import SandboxSession
from agents.sandbox.snapshot import LocalSnapshotSpec
from openai.types.responses import (
    ResponseFunctionShellToolCall,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from openskills import Catalog, InvalidArgument, SkillRuntime, SkillSession
from openskills.adapters.openai_agents import SkillSandboxClient, shell_tool, skill_tools
from openskills.executors import Limits
from openskills.executors.open import open_executor
from openskills.executors.protocol import Executor
from openskills.settings import Settings
from tests.runtime.test_shell import find_processes
from tests.tools.contexts import settings_in, write_skill

NO_TRACES = RunConfig(tracing_disabled=True)


class ScriptedModel(Model):
    """Answers with these items in order, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.instructions: list[str | None] = []
        self.inputs: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *more: Any, **options: Any) -> ModelResponse:  # noqa: A002
        self.instructions.append(system_instructions)
        self.inputs.append(input)
        del more, options
        answer = self._answers.pop(0)
        return ModelResponse([message(answer) if isinstance(answer, str) else answer], Usage(), None)

    def stream_response(self, *given: Any, **options: Any) -> AsyncIterator[Any]:
        raise AssertionError((given, options))


def message(text: str) -> ResponseOutputMessage:
    content: list[Any] = [ResponseOutputText(text=text, type="output_text", annotations=[])]
    return ResponseOutputMessage(id="m", role="assistant", status="completed", type="message", content=content)


def call(name: str, id: str = "c1", **arguments: Any) -> ResponseFunctionToolCall:  # noqa: A002
    return ResponseFunctionToolCall(call_id=id, name=name, arguments=json.dumps(arguments), type="function_call")


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


@pytest.fixture
def client(executor: Executor, settings: Settings) -> SkillSandboxClient:
    return SkillSandboxClient(executor, settings=settings)


@pytest.fixture
async def sandbox(client: SkillSandboxClient) -> AsyncGenerator[SandboxSession]:
    found = await client.create(options=None)
    async with found:
        yield found
    await client.delete(found)


@pytest.fixture
async def session(executor: Executor, tmp_path: Path) -> AsyncGenerator[SkillSession]:
    tmp_path.chmod(0o755)
    write_skill(tmp_path, "greeter", {"scripts/greet.py": "print('hello from the skill')\n"})
    ours = settings_in(tmp_path)
    catalog = Catalog.from_paths(tmp_path / "skills", settings=ours)
    async with SkillRuntime(catalog, executor, settings=ours) as runtime, runtime.session(tmp_path.name) as found:
        yield found


async def test_the_runner_loads_a_skill_and_runs_it(session: SkillSession) -> None:
    model = ScriptedModel(
        call("skill_load", skill="greeter"),
        call("skill_run", "c2", skill="greeter", command="python3 scripts/greet.py"),
        call("skill_run", "c3", skill="gone", command="true"),
        "done",
    )
    agent = Agent("a", instructions=session.instructions(), tools=[*skill_tools(session)], model=model)
    result = await Runner.run(agent, "greet", run_config=NO_TRACES)
    assert result.final_output == "done"
    assert "greeter" in str(model.instructions[0])
    outputs = [item["output"] for item in model.inputs[-1] if item.get("type") == "function_call_output"]
    assert "[Loaded] greeter" in outputs[0]
    assert "hello from the skill" in outputs[1]
    assert outputs[2].startswith("error: ")


async def test_the_shell_tool_runs_in_the_workspace_with_the_skills(session: SkillSession) -> None:
    item = ResponseFunctionShellToolCall.model_validate(
        {
            "type": "shell_call",
            "id": "s1",
            "call_id": "c1",
            "status": "completed",
            "action": {
                "commands": ["python3 /workspace/skills/greeter/scripts/greet.py", "exit 3"],
                "timeout_ms": 20000,
                "max_output_length": 500,
            },
        }
    )
    tool = await shell_tool(session)
    assert tool.environment is not None
    assert tool.environment.get("skills") == await session.local_skills()
    model = ScriptedModel(item, "done")
    await Runner.run(Agent("a", tools=[tool], model=model), "go", run_config=NO_TRACES)
    [output] = [item for item in model.inputs[-1] if item.get("type") == "shell_call_output"]
    assert [one["stdout"] for one in output["output"]] == ["hello from the skill\n", ""]
    assert [one["outcome"]["exit_code"] for one in output["output"]] == [0, 3]


async def test_a_sandbox_agent_works_in_our_sandbox(client: SkillSandboxClient) -> None:
    model = ScriptedModel(
        call("exec_command", cmd="cat data.txt; pwd; id -u; echo new > made.txt"),
        call("exec_command", "c2", cmd="cat made.txt"),
        "done",
    )
    agent = SandboxAgent(
        "a",
        model=model,
        default_manifest=Manifest(entries={"data.txt": File(content=b"of the manifest\n")}),
        capabilities=[Shell(), Filesystem()],
    )
    config = RunConfig(sandbox=SandboxRunConfig(client=client), tracing_disabled=True)
    result = await Runner.run(agent, "go", run_config=config)
    assert result.final_output == "done"
    outputs = [str(item["output"]) for item in model.inputs[-1] if item.get("type") == "function_call_output"]
    assert "of the manifest\n/workspace/work" in outputs[0]
    assert "new" in outputs[1]


async def test_commands_have_streams_exit_codes_and_timeouts(sandbox: SandboxSession) -> None:
    result = await sandbox.exec("echo out; echo err >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == (b"out\n", b"err\n", 3)
    assert (await sandbox.exec("printf 'a\\377'")).stdout == b"a\xff"
    assert (await sandbox.exec("no-such-program", shell=False)).exit_code == 127
    with pytest.raises(ExecTimeoutError):
        await sandbox.exec("trap '' TERM; (setsid sleep 9101 &); sleep 9101", timeout=0.5)
    assert not find_processes("sleep 9101")
    with pytest.raises(InvalidArgument, match="one user"):
        await sandbox.exec("true", user="root")


async def test_output_is_bounded(executor: Executor, settings: Settings) -> None:
    client = SkillSandboxClient(executor, settings=settings, limits=Limits(output_bytes=10_000))
    async with await client.create(options=None) as sandbox:
        found = (await sandbox.exec("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last")).stdout
    assert len(found) < 11_000
    assert b"bytes not kept" in found
    assert found.endswith(b"last\n")


async def test_files_are_read_written_listed_moved_and_removed(sandbox: SandboxSession) -> None:
    await sandbox.write(Path("deep/a.bin"), io.BytesIO(b"\0\xff" * 100_000))
    assert (await sandbox.read(Path("deep/a.bin"))).read() == b"\0\xff" * 100_000
    assert (await sandbox.read(Path("/workspace/work/deep/a.bin"))).read(1) == b"\0"
    assert await sandbox.read_bounded(Path("deep/a.bin"), max_bytes=3) == b"\0\xff\0"
    await sandbox.mkdir("new/dir", parents=True)
    await sandbox.mv("deep/a.bin", "new/b.bin")
    assert [Path(entry.path).name for entry in await sandbox.ls("new")] == ["b.bin", "dir"]
    await sandbox.rm("new", recursive=True)
    with pytest.raises(WorkspaceReadNotFoundError):
        await sandbox.read(Path("new/b.bin"))
    await sandbox.exec("printf '#!/bin/sh\\necho one' > run.sh; chmod +x run.sh")
    await sandbox.write(Path("run.sh"), io.BytesIO(b"#!/bin/sh\necho two"))
    assert (await sandbox.exec("./run.sh")).stdout == b"two\n"


async def test_the_patch_tool_of_the_sdk_works(sandbox: SandboxSession) -> None:
    await sandbox.write(Path("a.txt"), io.BytesIO(b"one\ntwo\n"))
    await sandbox.apply_patch({"type": "update_file", "path": "a.txt", "diff": "@@\n one\n-two\n+2\n"})
    assert (await sandbox.read(Path("a.txt"))).read() == b"one\n2\n"


async def test_no_path_leaves_the_workspace(
    sandbox: SandboxSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_SECRET", "host-secret")
    (tmp_path / "host.txt").write_text("of the host")
    assert b"host-secret" not in (await sandbox.exec("env")).stdout
    await sandbox.exec(f"ln -s {tmp_path} link; ln -s /etc etc; ln -s ../../../../etc up; ln -s /etc/passwd p")
    for path in ("../../etc/passwd", "/etc/passwd", "etc/passwd", "up/passwd", "p", "link/host.txt", "../skills/x"):
        with pytest.raises(SandboxError):
            await sandbox.read(Path(path))
    for path in ("../../etc/x", "/etc/x", "etc/x", "up/x", "../skills/x", "../out/x"):
        with pytest.raises(SandboxError):
            await sandbox.write(Path(path), io.BytesIO(b"x"))
    with pytest.raises(InvalidManifestPathError):
        await sandbox.rm("../../etc/passwd")
    assert (await sandbox.exec(f"cat {tmp_path}/host.txt")).exit_code != 0


async def test_two_sandboxes_do_not_share_files(client: SkillSandboxClient) -> None:
    async with await client.create(options=None) as first, await client.create(options=None) as second:
        await first.write(Path("secret.txt"), io.BytesIO(b"mine"))
        assert (await second.exec("find / -name secret.txt 2>/dev/null")).stdout == b""


async def test_a_sandbox_is_resumed_with_its_files(client: SkillSandboxClient) -> None:
    async with await client.create(manifest=Manifest(entries={"a": File(content=b"1")}), options=None) as first:
        await first.exec("echo 2 > a; echo kept > b")
        stored = json.loads(json.dumps(client.serialize_session_state(first.state)))
    async with await client.resume(client.deserialize_session_state(stored)) as second:
        # The manifest is not applied again.
        assert (await second.exec("cat a b")).stdout == b"2\nkept\n"


async def test_a_sandbox_that_was_deleted_comes_back_from_its_snapshot(
    client: SkillSandboxClient, tmp_path: Path
) -> None:
    snapshot = LocalSnapshotSpec(base_path=tmp_path / "snapshots")
    async with await client.create(snapshot=snapshot, options=None) as first:
        await first.exec("mkdir d; echo text > d/f; chmod +x d/f; ln -s f d/link; printf '\\0\\377' > binary")
    state = client.deserialize_session_state(client.serialize_session_state(first.state))
    await client.delete(first)
    async with await client.resume(state) as second:
        found = await second.exec("cat d/link; test -x d/f && echo executable; od -An -tx1 binary")
        assert found.stdout == b"text\nexecutable\n 00 ff\n"
        # A stale file does not survive a restore.
        await second.exec("rm -r d")


async def test_a_hostile_snapshot_stays_in_the_sandbox(sandbox: SandboxSession, tmp_path: Path) -> None:
    import tarfile

    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, link in (
            ("../../etc/evil", None),
            (f"{tmp_path}/evil", None),
            ("out", str(tmp_path)),
            ("out/evil", None),
        ):
            info = tarfile.TarInfo(name)
            if link:
                info.type, info.linkname = tarfile.SYMTYPE, link
            tar.addfile(info)
    archive.seek(0)
    try:
        await sandbox.hydrate_workspace(archive)
    except SandboxError:
        assert await sandbox.running()
    assert not (tmp_path / "evil").exists()
    assert not Path("/etc/evil").exists()


async def test_a_terminal_can_be_written_to_and_is_killed_at_the_end(client: SkillSandboxClient) -> None:
    async with await client.create(options=None) as sandbox:
        assert sandbox.supports_pty()
        asks = "test -t 0 && printf 'name? '; read name; echo hello $name; read code; exit $code"
        first = await sandbox.pty_exec_start(asks, tty=True, yield_time_s=5)
        assert first.process_id is not None
        assert first.output == b"name? "
        second = await sandbox.pty_write_stdin(session_id=first.process_id, chars="you\n", yield_time_s=5)
        assert b"hello you" in second.output
        last = await sandbox.pty_write_stdin(session_id=first.process_id, chars="3\n", yield_time_s=10)
        assert (last.process_id, last.exit_code) == (None, 3)
        quick = await sandbox.pty_exec_start("cat; echo no input", yield_time_s=10)
        assert (quick.exit_code, quick.output) == (0, b"no input\n")
        with pytest.raises(SandboxError):
            await sandbox.pty_write_stdin(session_id=first.process_id, chars="x")
        await sandbox.pty_exec_start("trap '' TERM; sleep 9203", yield_time_s=0.3)
        assert find_processes("sleep 9203")
    assert not find_processes("sleep 9203")


async def test_output_from_before_the_input_is_in_the_next_update(client: SkillSandboxClient) -> None:
    async with await client.create(options=None) as sandbox:
        waits = "until test -e go; do sleep 0.02; done; echo late; touch told; read name; echo hello $name"
        first = await sandbox.pty_exec_start(waits, tty=True, yield_time_s=0.3)
        assert (first.process_id is not None, first.output) == (True, b"")
        await sandbox.exec("touch go; until test -e told; do sleep 0.02; done")
        second = await sandbox.pty_write_stdin(session_id=first.process_id or 0, chars="you\n", yield_time_s=10)
        assert b"late" in second.output
        assert b"hello you" in second.output


async def test_a_cancelled_command_ends_with_its_processes(sandbox: SandboxSession) -> None:
    running = asyncio.create_task(sandbox.exec("(setsid sleep 9307 &); sleep 9307"))
    while len(find_processes("sleep 9307")) < 2:
        await asyncio.sleep(0.02)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not find_processes("sleep 9307")


async def test_a_sandbox_that_was_closed_or_is_wrong_says_so(client: SkillSandboxClient) -> None:
    async with await client.create(options=None) as sandbox:
        assert await sandbox.running()
    assert not await sandbox.running()
    with pytest.raises(SandboxError, match="closed"):
        await sandbox.exec("true")
    with pytest.raises(InvalidArgument, match=r"manifest\.root: '/data' is not available"):
        await client.create(manifest=Manifest(root="/data"), options=None)


async def test_variables_of_the_manifest_are_set_and_hosts_are_blocked(client: SkillSandboxClient) -> None:
    manifest = Manifest.model_validate({"environment": {"value": {"GREETING": "hello"}}})
    async with await client.create(manifest=manifest, options=None) as sandbox:
        assert (await sandbox.exec("echo $GREETING")).stdout == b"hello\n"
        reach = "import socket; socket.create_connection(('1.1.1.1', 53), timeout=3)"
        assert (await sandbox.exec("python3", "-c", reach, shell=False)).exit_code != 0
