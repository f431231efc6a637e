"""What those who watch are told about a real workbench: everything that happens, and nothing that is private."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.errors import CommandDenied, InvalidArgument
from openskills.executors.commands import CommandRules
from openskills.executors.interactive import InteractiveCommands, ProcessOwner, ProcessTable
from openskills.executors.local import LocalBackend
from openskills.executors.policy import CommandPolicy
from openskills.executors.records.audit import AuditRun, AuditSubject
from openskills.executors.requests import RunRequest
from openskills.executors.spans import count_refusal, watch_run
from openskills.executors.spec import Command, Isolation, Limits
from openskills.executors.staging.inputs import InputSpec
from openskills.executors.staging.outputs import OutputSpec
from openskills.executors.workspace import DirectoryExecutor
from openskills.telemetry.context import bind
from openskills.telemetry.metrics import counters
from openskills.telemetry.spans import execute_tool
from tests.executors.benches import workbench
from tests.executors.running import eventually
from tests.telemetry.telemetry import Watcher, attributes, logged, watched

SECRET = "sk-hunter2-0123456789"
ME = ProcessOwner("app", "user", "session", "agent")


def total(name: str, **labels: str) -> int:
    return sum(each.value for each in counters() if each.name == name and labels.items() <= each.labels.items())


async def test_everything_about_a_run_is_below_the_call_of_its_tool(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "in.txt").write_text("four")

    with watched() as watcher, logged() as log:
        rules = CommandRules(host_roots=(tmp_path / "data",))
        with bind("trace-1", session="s", agent="a", tool="skill_run"), execute_tool("skill_run", skill="demo"):
            async with workbench(tmp_path, rules) as bench:
                source = InputSpec(f"host://{tmp_path}/data/in.txt", to="work/inputs/in.txt")
                outputs = OutputSpec(("out/*",), save=True)
                command = "cat work/inputs/in.txt | tee out/copy"
                request = RunRequest(command, skill="demo", cwd="$WORKSPACE_DIR", inputs=(source,), outputs=outputs)
                assert (await bench.run(request)).stdout == "four"
        names = ["create", "stage.skill", "stage.inputs", "run", "collect", "save", "cleanup"]
        below = {f"workspace.{name}" for name in names}
        assert {name: watcher.parent(name) for name in below} == dict.fromkeys(below, "execute_tool skill_run")
        assert watcher.parent("workspace.inline") == "workspace.collect"
        assert watcher.parent("execute_tool skill_run") is None
        check_attributes(watcher)
        assert {line["trace_id"] for line in log.lines} == {"trace-1"}
        assert {line["span"] for line in log.lines} == {each.name for each in watcher.spans()}


def check_attributes(watcher: Watcher) -> None:
    said = {each.name: attributes(each) for each in watcher.spans()}
    ran = said["workspace.run"]
    assert ran["process.executable.name"] == "bash"
    assert ran["workspace.run.program"] == "cat"
    assert (ran["process.exit.code"], ran["workspace.run.ending"]) == (0, "exited")
    assert ran["workspace.run.timed_out"] is False
    assert ran["workspace.isolation"] == said["workspace.create"]["workspace.isolation"] == "none"
    assert ran["workspace.run.stdout_bytes"] == 4
    assert ran["gen_ai.skill.name"] == said["workspace.stage.skill"]["gen_ai.skill.name"] == "demo"
    assert len(said["workspace.stage.skill"]["workspace.skill.digest"]) == 64
    assert said["workspace.create"]["workspace.executor"] == "local"
    assert said["workspace.create"]["workspace.id"] == said["workspace.cleanup"]["workspace.id"]
    for name in ("stage.inputs", "collect", "save", "inline"):
        found = said[f"workspace.{name}"]
        assert (found["workspace.files"], found["workspace.bytes"]) == (1, 4)
    assert {found["gen_ai.conversation.id"] for found in said.values()} == {"s"}
    assert not {"process.command_args", "workspace.globs", "workspace.sources"} & {
        key for one in said.values() for key in one
    }


async def test_no_secret_and_nothing_that_somebody_wrote_is_reported(tmp_path: Path) -> None:
    command = f"echo diary; echo $TOKEN {SECRET}; echo diary >&2; cat; echo diary > out/diary; exit 3"

    with watched() as watcher, logged() as log:
        async with workbench(tmp_path, CommandRules(values={"TOKEN": SECRET})) as bench:
            asked = RunRequest(command, skill="demo", secrets=("TOKEN",), env={"MINE": "diary"}, stdin=b"diary")
            result = await bench.run(replace(asked, outputs=OutputSpec(("out/diar*",), save=True)))
            assert "*" * len(SECRET) in result.stdout
            with pytest.raises(InvalidArgument):
                await bench.run(RunRequest((SECRET, "diary"), skill="demo", secrets=("TOKEN",), cwd="diary"))
        told = watcher.everything() + log.text + repr(counters())
        assert "workspace.run" in told
    assert SECRET not in told
    assert "diary" not in told


async def test_where_content_is_allowed_the_command_is_reported_without_its_secrets(tmp_path: Path) -> None:
    with watched() as watcher, logged() as log, bind(content=True):
        async with workbench(tmp_path, CommandRules(values={"TOKEN": SECRET})) as bench:
            request = RunRequest(
                f"echo diary {SECRET}", skill="demo", secrets=("TOKEN",), outputs=OutputSpec(("out/*",))
            )
            await bench.run(request)
        ran = attributes(watcher.one("workspace.run"))
        assert ran["process.command_args"][-1] == "echo diary [secret TOKEN]"
        assert ran["process.working_directory"] == "skills/demo"
        assert attributes(watcher.one("workspace.collect"))["workspace.globs"] == ("out/*",)
        assert SECRET not in watcher.everything() + log.text


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("python3 scripts/run.py --key x", "python3"),
        ("  scripts/hello.sh", "hello.sh"),
        (("scripts/hello.sh", "x"), "hello.sh"),
        ("KEY=value true", None),
        ('"my program" x', None),
        ("$(cat file)", None),
        ("true;true", None),
        ("true\ntrue", "true"),
    ],
)
async def test_the_program_is_told_where_the_shell_runs_one_that_is_plain_to_see(
    command: str | tuple[str, ...], program: str | None, tmp_path: Path
) -> None:
    with watched() as watcher:
        async with workbench(tmp_path) as bench:
            await bench.run(RunRequest(command, skill="demo"))
        assert attributes(watcher.one("workspace.run")).get("workspace.run.program") == program


async def test_an_interactive_command_has_a_span_from_its_start_to_its_end(tmp_path: Path) -> None:
    with watched() as watcher:
        async with workbench(tmp_path) as bench:
            talk = InteractiveCommands(bench, ProcessTable(), ME)
            with execute_tool("skill_exec"):
                request = RunRequest("read x; echo $x > out/x", skill="demo", outputs=OutputSpec(("out/*",)))
                identity = await talk.start(request)
            assert not [each for each in watcher.spans() if each.name == "workspace.run"]
            with execute_tool("skill_write_stdin"):
                await talk.write(identity, b"Ada", submit=True)
            await talk.result(identity)
        assert attributes(watcher.one("workspace.run"))["workspace.run.interactive"] is True
        assert watcher.parent("workspace.run") == watcher.parent("workspace.collect") == "execute_tool skill_exec"


async def test_a_cancelled_run_is_told_once_with_its_end(tmp_path: Path) -> None:
    before = total("openskills.run.ended", ending="killed")
    with watched() as watcher:
        async with workbench(tmp_path) as bench:
            task = asyncio.create_task(bench.run(RunRequest("touch out/begun; sleep 60", skill="demo")))
            assert await eventually((Path(bench.workspace.root) / "out" / "begun").exists)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert attributes(watcher.one("workspace.run"))["workspace.run.ending"] == "killed"
    assert total("openskills.run.ended", ending="killed") == before + 1


def test_a_run_that_is_cancelled_while_it_is_started_is_told_like_any_that_is_cancelled() -> None:
    """A command can be at work before whoever started it knows; a loaded machine shows it."""
    command = Command(("bash", "-c", "sleep 60"), skill="demo")
    ran = AuditRun("id", AuditSubject("app", "user", "session", "agent"), command, Isolation.NONE)

    def now() -> tuple[int, int]:
        return total("openskills.run.ended", ending="killed"), total("openskills.run.refusals")

    before = now()
    with watched() as watcher:
        with pytest.raises(asyncio.CancelledError), watch_run(ran, "sleep 60"):
            raise asyncio.CancelledError
        count_refusal(asyncio.CancelledError())
        told = attributes(watcher.one("workspace.run"))
        assert told["workspace.run.ending"] == "killed"
        assert "error.type" not in told
    assert now() == (before[0] + 1, before[1])


async def test_a_run_whose_time_is_up_says_so_and_is_not_an_error_of_ours(tmp_path: Path) -> None:
    with watched() as watcher:
        async with workbench(tmp_path) as bench:
            await bench.run(RunRequest("sleep 60", skill="demo", limits=Limits(timeout=0.2, grace=0.1)))
        ran = attributes(watcher.one("workspace.run"))
        assert (ran["workspace.run.timed_out"], ran["workspace.run.ending"]) == (True, "timed_out")
        assert "error.type" not in ran


async def test_a_command_that_cannot_be_started_ends_its_span_with_the_reason(tmp_path: Path) -> None:
    with watched() as watcher:
        async with workbench(tmp_path) as bench:
            with pytest.raises(InvalidArgument):
                await bench.run(RunRequest("true", skill="demo", cwd="work/nowhere"))
        assert attributes(watcher.one("workspace.run"))["error.type"] == "INVALID_ARGUMENT"


async def test_denials_refusals_and_bytes_are_counted(tmp_path: Path) -> None:
    def now() -> list[int]:
        return [
            total("openskills.run.denials"),
            total("openskills.run.refusals", reason="COMMAND_DENIED"),
            total("openskills.run.refusals", reason="INVALID_ARGUMENT"),
            total("openskills.run.ended", ending="exited", isolation="none"),
            total("openskills.workspace.bytes", flow="printed"),
            total("openskills.skill.stagings", cached="false"),
        ]

    before = now()
    async with workbench(tmp_path, CommandRules(policy=CommandPolicy.of(["ls"]))) as bench:
        with pytest.raises(CommandDenied):
            await bench.run(RunRequest("rm -rf x", skill="demo"))
        with pytest.raises(InvalidArgument):
            await bench.run(RunRequest("ls", skill="nosuch"))
        result = await bench.run(RunRequest("ls SKILL.md", skill="demo"))
        assert result.stdout == "SKILL.md\n"
    assert [after - earlier for after, earlier in zip(now(), before, strict=True)] == [1, 1, 1, 1, 9, 1]


async def test_a_skill_that_is_there_already_counts_as_cached(tmp_path: Path) -> None:
    before = total("openskills.skill.stagings", cached="true")
    async with workbench(tmp_path) as bench:
        await bench.stage("demo", tmp_path / "skills" / "demo")
    assert total("openskills.skill.stagings", cached="true") == before + 1


async def test_removing_a_workspace_is_told_and_counted(tmp_path: Path) -> None:
    before = total("openskills.workspace.removed")
    with watched() as watcher:
        async with DirectoryExecutor(LocalBackend(), tmp_path) as executor:
            await executor.open("key")
            assert await executor.remove("key")
            assert not await executor.remove("key")
        told = [attributes(each) for each in watcher.spans() if each.name == "workspace.cleanup"]
        assert sorted(each["workspace.removed"] for each in told) == [0, 1]
    assert total("openskills.workspace.removed") == before + 1
