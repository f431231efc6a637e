"""One session's commands, from policy to artifact."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from openskills.artifacts.store import read_artifact
from openskills.errors import CommandDenied, ExecutorUnavailable, ForbiddenPath, InvalidArgument, LimitExceeded
from openskills.executors.approval import ApprovalRequest
from openskills.executors.bubblewrap.backend import SandboxBackend
from openskills.executors.commands import CommandRules, open_command_runner
from openskills.executors.landlock import LandlockBackend
from openskills.executors.local import LocalBackend
from openskills.executors.policy import CommandPolicy
from openskills.executors.protocol import Backend
from openskills.executors.records.quota import Quota
from openskills.executors.requests import RunRequest
from openskills.executors.spec import Command, EndReason, Isolation, Limits, SkillSnapshot
from openskills.executors.staging.inputs import InputSpec
from openskills.executors.staging.outputs import OutputSpec
from openskills.executors.workspace import DirectoryExecutor
from openskills.testing.fake_executor import FakeExecutor, FakeRun, FakeWorkspace
from tests.conftest import RequireProgram
from tests.executors.benches import SCOPE, audit_lines, demo, settings, store, workbench
from tests.executors.held_pool import HeldPool, cancelled_in_its_thread, held_pool
from tests.executors.running import TIMEOUT, alive, eventually
from tests.skill_writer import skill_writer

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


async def test_a_command_runs_in_the_skills_folder_with_its_variables(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        result = await bench.run(RunRequest("scripts/hello.sh; pwd; cd out && touch here", skill="demo"))
        assert result.exit_code == 0
        assert result.stdout.splitlines()[0] == "hello from demo"
        assert result.stdout.splitlines()[1].endswith("/skills/demo")
        assert result.isolation is Isolation.NONE
        assert len(result.digest) == 64
        assert [file.path for file in (await bench.workspace.list(["out/**"])).files] == ["out/here"]


async def test_a_png_goes_from_the_workspace_to_the_store_unchanged(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        request = RunRequest("cat > out/p.png", skill="demo", stdin=PNG, outputs=OutputSpec(("out/*.png",), save=True))
        result = await bench.run(request)
        (file,) = result.output_files
        (artifact,) = result.artifact_files
        assert (file.data, file.mime_type, artifact.mime_type) == (PNG, "image/png", "image/png")
        assert await read_artifact(store(tmp_path), SCOPE, "out/p.png") == PNG


async def test_only_what_this_run_made_is_collected(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        wanted = OutputSpec(("$OUTPUT_DIR/**",))
        for name in ("one", "two", "three"):
            result = await bench.run(RunRequest(f"echo {name} > out/{name}", skill="demo", outputs=wanted))
            assert [file.path for file in result.output_files] == [f"out/{name}"]
        again = await bench.run(RunRequest("echo more >> out/one", skill="demo", outputs=wanted))
        assert [(file.path, file.data) for file in again.output_files] == [("out/one", b"one\nmore\n")]


@pytest.mark.parametrize("backend", [LocalBackend, SandboxBackend, LandlockBackend])
async def test_outputs_of_a_script_that_makes_its_out_directory_anew_are_collected(
    tmp_path: Path, backend: Callable[[], Backend]
) -> None:
    async with workbench(tmp_path, backend=backend()) as bench:
        command = "rm -rf out work; mkdir -p out/deep; echo 1 > out/deep/one; ln -s /etc/passwd out/link"
        result = await bench.run(RunRequest(command, skill="demo", outputs=OutputSpec(("out/**",), save=True)))
        assert [(file.path, file.data) for file in result.output_files] == [("out/deep/one", b"1\n")]
        assert await read_artifact(store(tmp_path), SCOPE, "out/deep/one") == b"1\n"
        # The links are there again.
        assert (await bench.run(RunRequest("readlink out work inputs", skill="demo"))).stdout.split() == [
            "../../out",
            "../../work",
            "../../work/inputs",
        ]


async def test_the_runs_own_directory_can_be_collected_and_worked_in(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        request = RunRequest("pwd; echo x > made", skill="demo", cwd="$RUN_DIR", outputs=OutputSpec(("$RUN_DIR/*",)))
        result = await bench.run(request)
        assert [file.data for file in result.output_files] == [b"x\n"]
        assert result.output_files[0].path.startswith("runs/run_")


async def test_a_failed_command_is_a_result_without_its_empty_files(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        request = RunRequest(": > out/empty; echo x > out/full; exit 9", skill="demo", outputs=OutputSpec(("out/*",)))
        result = await bench.run(request)
        assert result.exit_code == 9
        assert [file.path for file in result.output_files] == ["out/full"]
        assert "1 empty" in " ".join(result.warnings)


async def test_inputs_arrive_from_artifacts_and_from_allowed_places_of_the_host(tmp_path: Path) -> None:
    await store(tmp_path).put(SCOPE, "data.bin", PNG)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "notes.txt").write_text("notes")
    async with workbench(tmp_path, CommandRules(host_roots=[tmp_path / "shared"])) as bench:
        inputs = (InputSpec("artifact://data.bin"), InputSpec(f"host://{tmp_path}/shared/notes.txt", "inputs/n"))
        result = await bench.run(RunRequest("cat inputs/n; wc -c < inputs/data.bin", skill="demo", inputs=inputs))
        assert result.stdout == f"notes{len(PNG)}\n"
        with pytest.raises(ForbiddenPath):
            await bench.run(RunRequest("true", inputs=(InputSpec(f"host://{tmp_path}/secret"),)))


async def test_a_script_that_is_copied_from_a_skill_can_still_be_run(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        inputs = (InputSpec("skill://demo/scripts/hello.sh"),)
        result = await bench.run(RunRequest("inputs/hello.sh", skill="demo", inputs=inputs))
        assert result.stdout == "hello from demo\n"


async def test_without_a_store_the_files_come_back_and_a_warning_says_so(tmp_path: Path) -> None:
    async with workbench(tmp_path, artifacts=False) as bench:
        result = await bench.run(RunRequest("echo x > out/a", skill="demo", outputs=OutputSpec(("out/*",), save=True)))
        assert [file.data for file in result.output_files] == [b"x\n"]
        assert result.artifact_files == ()
        assert "no artifact store" in " ".join(result.warnings)


async def test_a_skill_that_is_edited_after_staging_runs_as_it_was(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        before = await bench.run(RunRequest("scripts/hello.sh", skill="demo"))
        (demo(tmp_path) / "scripts" / "hello.sh").write_text("#!/bin/sh\necho changed\n")
        same = await bench.run(RunRequest("scripts/hello.sh", skill="demo"))
        assert (same.stdout, same.digest) == (before.stdout, before.digest)
        await bench.stage("demo", demo(tmp_path))
        after = await bench.run(RunRequest("scripts/hello.sh", skill="demo"))
        assert after.stdout == "changed\n"
        assert after.digest != before.digest


async def test_a_skill_that_is_not_staged_is_named(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        with pytest.raises(InvalidArgument, match="'other' is not staged"):
            await bench.run(RunRequest("true", skill="other"))


async def test_editor_text_is_what_an_editor_would_have_written(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        command = 'sh -c "$EDITOR \\"\\$1\\"" _ work/message; cat work/message'
        result = await bench.run(RunRequest(command, skill="demo", editor_text='it\'s "quoted"\n'))
        assert result.stdout == 'it\'s "quoted"\n'


@pytest.mark.parametrize("backend", [SandboxBackend, LandlockBackend])
async def test_no_other_skill_can_replace_the_editor_of_a_run(
    backend: Callable[[], Backend], tmp_path: Path, require_program: RequireProgram
) -> None:
    require_program("bwrap")
    tmp_path.chmod(0o755)
    attack = (
        'cd "$SKILLS_DIR/.editor"; for run in *; do for file in text write; do'
        " echo evil >$run/$file; rm -f $run/$file; mv $run/$file stolen; ln -sf /bin/false $run/$file; done;"
        " mv $run other; done; rm -rf $PWD; mv ../.editor ../moved; echo over"
    )
    async with workbench(tmp_path, backend=backend()) as bench:
        skill_writer(tmp_path, "skills")("other")
        await bench.stage("other", tmp_path / "skills" / "other")
        request = RunRequest('read; "$EDITOR" note; cat note', skill="demo", cwd="work", editor_text="mine\n")
        started = await bench.start(replace(request, input_open=True))
        attacked = await bench.run(RunRequest(("bash", "-c", attack), skill="other"))
        assert (attacked.stdout, "Read-only" in attacked.stderr or "Permission" in attacked.stderr) == ("over\n", True)
        await started.process.write(b"\n")
        assert (await bench.finish(started)).stdout == "mine\n"
        left = await bench.run(RunRequest('ls -A "$SKILLS_DIR/.editor"'))
        assert left.stdout == ""


async def test_a_command_that_starts_while_its_skill_is_replaced_gets_the_version_that_was_approved(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o755)
    async with workbench(tmp_path, backend=LandlockBackend()) as bench:
        for number in range(8):
            (demo(tmp_path) / "version").write_text(f"{number}\n")
            staged = await bench.stage("demo", demo(tmp_path))
            (demo(tmp_path) / "version").write_text("next\n")
            started = await bench.start(RunRequest("cat version", skill="demo"))
            await bench.stage("demo", demo(tmp_path))
            result = await bench.finish(started)
            # Its directory and the rules for it were fixed before the replacement.
            assert (result.stdout, result.stderr, result.digest) == (f"{number}\n", "", staged.digest)


async def test_declared_secrets_reach_the_command_and_neither_its_output_nor_a_log(tmp_path: Path) -> None:
    async with workbench(tmp_path, CommandRules(values={"TOKEN": "hunter22", "OTHER": "unasked"})) as bench:
        request = RunRequest("echo ${#TOKEN} $TOKEN $OTHER; : hunter22", skill="demo", secrets=("TOKEN",))
        assert (await bench.run(request)).stdout == "8 ********\n"
        with pytest.raises(InvalidArgument, match="MISSING"):
            await bench.run(RunRequest("true", secrets=("MISSING",)))

    written = (tmp_path / "state" / "audit.jsonl").read_text()
    assert "hunter22" not in written
    assert "[secret TOKEN]" in written


async def test_a_secret_is_masked_in_live_output_wherever_it_is_cut(tmp_path: Path) -> None:
    async with workbench(tmp_path, CommandRules(values={"TOKEN": "hunter2-and-more"})) as bench:
        command = 'printf hun; read -r x; printf ter2-and-more.; printf %s "$TOKEN" | base64; printf hunter2-and-mo'
        request = RunRequest(command, skill="demo", secrets=("TOKEN",), readable=True, input_open=True)
        started = await bench.start(request)
        process, parts, offset = started.process, list[bytes](), 0
        assert (await process.read(0, wait=0.2)).data == b""
        await process.write(b"\n")
        while True:
            output = await process.read(offset, wait=10.0, limit=7)
            assert output.offset == offset
            parts.append(output.data)
            offset = output.next_offset
            if output.ended:
                break
        live = b"".join(parts)
        assert (await process.read(3, limit=5)).data == live[3:8]
        result = await bench.finish(started)
    assert live == result.ended.stdout.bytes() == b"*" * 16 + b"." + b"*" * 24 + b"\nhunter2-and-mo"
    assert len(live) == offset == result.ended.stdout.total


async def test_a_secret_in_the_gap_of_a_long_output_is_masked_on_both_sides(tmp_path: Path) -> None:
    async with workbench(tmp_path, CommandRules(values={"TOKEN": "hunter2-and-more"})) as bench:
        request = RunRequest('yes "$TOKEN" | head -n 400000', skill="demo", secrets=("TOKEN",))
        result = (await bench.run(request)).ended
    assert result.stdout.cut
    assert set(result.stdout.head + result.stdout.tail) <= set(b"*\nhunre2-")
    assert b"hunt" not in result.stdout.head + result.stdout.tail
    assert b"more" not in result.stdout.head + result.stdout.tail


async def test_the_hosts_environment_is_not_the_commands(tmp_path: Path) -> None:
    os.environ["PLANTED_SECRET"] = "sk-planted"
    try:

        async def scenario() -> None:
            async with workbench(tmp_path) as bench:
                result = await bench.run(RunRequest("env; cat /proc/$PPID/environ | tr '\\0' '\\n'", skill="demo"))
                assert "WORKSPACE_DIR=" in result.stdout
                assert "sk-planted" not in result.stdout

        await scenario()
    finally:
        del os.environ["PLANTED_SECRET"]


async def test_a_policy_judges_the_file_that_would_be_run(tmp_path: Path) -> None:
    async with workbench(tmp_path, CommandRules(policy=CommandPolicy.of(["ls", "scripts/hello.sh"]))) as bench:
        assert (await bench.run(RunRequest("ls scripts", skill="demo"))).stdout == "hello.sh\n"
        assert (await bench.run(RunRequest("scripts/hello.sh", skill="demo"))).exit_code == 0
        for refused in ("cat SKILL.md", "ls; id", "ls $(id)", "bash -c ls", "env ls"):
            with pytest.raises(CommandDenied):
                await bench.run(RunRequest(refused, skill="demo"))


async def test_a_file_of_the_skill_does_not_pass_for_an_allowed_program(tmp_path: Path) -> None:
    (demo(tmp_path) / "bin").mkdir()
    for name in ("ls", "only-here"):
        (demo(tmp_path) / "bin" / name).write_text("#!/bin/sh\necho fake\n")
        (demo(tmp_path) / "bin" / name).chmod(0o755)

    async with workbench(tmp_path, CommandRules(policy=CommandPolicy.of(["ls", "only-here"]))) as bench:
        assert "fake" not in (await bench.run(RunRequest("ls", skill="demo"))).stdout
        for command in ("only-here", "./bin/ls"):
            with pytest.raises(CommandDenied):
                await bench.run(RunRequest(command, skill="demo"))


async def test_an_approval_hook_sees_the_command_and_may_refuse_it(tmp_path: Path) -> None:
    seen: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> bool | str:
        seen.append(request)
        return "not on a Sunday" if "rm" in " ".join(request.argv) else True

    async with workbench(tmp_path, CommandRules(approve=approve)) as bench:
        assert (await bench.run(RunRequest(("echo", "fine")))).exit_code == 0
        with pytest.raises(CommandDenied, match="not on a Sunday"):
            await bench.run(RunRequest(("rm", "-rf", "out"), env={"A": "1"}))

    assert seen[1].argv == ("rm", "-rf", "out")
    assert seen[1].env == ("A",)
    assert seen[1].who == "app/user/session/tester"
    assert [line["event"] for line in audit_lines(tmp_path)] == ["begin", "end", "fail"]


async def test_an_approval_hook_is_told_which_scripts_of_the_skill_commands_have_changed(tmp_path: Path) -> None:
    seen: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> bool:
        seen.append(request)
        return True

    async with workbench(tmp_path, CommandRules(approve=approve)) as bench:
        changes = "echo '# more' >> scripts/hello.sh; echo x > scripts/json.py; mkdir unpacked; echo x > unpacked/a.xml"
        for command in (changes, "scripts/hello.sh", "scripts/hello.sh"):
            assert (await bench.run(RunRequest(command, skill="demo"))).exit_code == 0

    assert seen[0].changed == ()
    assert seen[1].changed == ("skills/demo/scripts/hello.sh", "skills/demo/scripts/json.py")
    assert seen[1].identity == seen[2].identity


async def test_a_changed_script_does_not_count_as_one_of_the_skill_under_a_policy(tmp_path: Path) -> None:
    (demo(tmp_path) / "scripts" / "copy.sh").write_text("#!/bin/sh\ncp work/planted scripts/hello.sh\n")
    (demo(tmp_path) / "scripts" / "copy.sh").chmod(0o755)
    async with workbench(tmp_path, CommandRules(policy=CommandPolicy.of(None, ["rm"]))) as bench:
        hello = RunRequest("scripts/hello.sh", skill="demo")
        assert (await bench.run(hello)).exit_code == 0
        await bench.workspace.write("work/planted", b"#!/bin/bash\nrm -rf out\n", executable=True)
        assert (await bench.run(RunRequest("scripts/copy.sh", skill="demo"))).exit_code == 0
        with pytest.raises(CommandDenied):
            await bench.run(hello)


async def test_the_audit_says_who_ran_what_and_how_it_ended(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        outputs = OutputSpec(("out/*",), save=True)
        await bench.run(RunRequest("echo x > out/a; exit 4", skill="demo", outputs=outputs, request_id="r-1"))

    begin, end = audit_lines(tmp_path)
    assert (begin["user"], begin["agent"], begin["skill"], begin["request_id"]) == ("user", "tester", "demo", "r-1")
    assert begin["argv"] == ["bash", "-c", "echo x > out/a; exit 4"]
    assert (end["exit_code"], end["artifacts"], end["run"]) == (4, ["artifact://out/a@0"], begin["run"])


async def test_a_request_id_runs_once_and_answers_the_same_again(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        request = RunRequest("echo ran >> out/count; cat out/count", skill="demo", request_id="once")
        first = await bench.run(request)
        second, third = await asyncio.gather(bench.run(request), bench.run(request))
        assert (first.stdout, first.replayed) == ("ran\n", False)
        assert {second.stdout, third.stdout} == {"ran\n"}
        assert second.replayed
        assert third.replayed
        with pytest.raises(InvalidArgument, match="once"):
            await bench.run(RunRequest("true", request_id="once"))
    async with workbench(tmp_path) as bench:
        assert (await bench.run(request)).stdout == "ran\n"


async def test_the_same_id_at_the_same_time_runs_once(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        request = RunRequest("echo ran >> out/count; sleep 0.1; cat out/count", skill="demo", request_id="twice")
        results = await asyncio.gather(*(bench.run(request) for _ in range(5)))
        assert {result.stdout for result in results} == {"ran\n"}
        assert sum(not result.replayed for result in results) == 1


async def test_a_cancelled_run_ends_everything_it_started(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        running = asyncio.ensure_future(bench.run(RunRequest("sleep 300 & echo $! > out/pid; wait", skill="demo")))

        async def started() -> int:
            found = await bench.workspace.list(["out/pid"])
            return found.files[0].size if found.files else 0

        async with asyncio.timeout(TIMEOUT):
            while not await started():
                await asyncio.sleep(0.01)
        async with bench.workspace.open("out/pid") as reading:
            child = int(b"".join([chunk async for chunk in reading.chunks]))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert running.cancelled()
        assert await eventually(lambda: not alive(child))


async def test_a_deadline_is_a_result(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        result = await bench.run(RunRequest("echo begun; sleep 60", limits=Limits(timeout=3)))
        assert result.timed_out
        assert result.ended.ending is EndReason.TIMED_OUT
        assert result.stdout == "begun\n"


@pytest.mark.parametrize("cwd", ["..", "/etc", "$OUTPUT_DIR/../../x"])
async def test_a_working_directory_outside_is_refused(tmp_path: Path, cwd: str) -> None:
    async with workbench(tmp_path) as bench:
        with pytest.raises(ForbiddenPath, match="cwd"):
            await bench.run(RunRequest("true", skill="demo", cwd=cwd))
        with pytest.raises(InvalidArgument, match="cwd"):
            await bench.run(RunRequest("true", skill="demo", cwd="nowhere"))


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "WORKSPACE_DIR", "BASH_ENV", "a b"])
async def test_variables_that_change_other_programs_are_refused_by_name(tmp_path: Path, name: str) -> None:
    async with workbench(tmp_path) as bench:
        with pytest.raises(InvalidArgument, match="env"):
            await bench.run(RunRequest("true", env={name: "x"}))


async def test_a_host_that_the_workbench_does_not_allow_is_refused(tmp_path: Path) -> None:
    async with workbench(tmp_path, CommandRules(network=["example.org"])) as bench:
        with pytest.raises(InvalidArgument, match="network"):
            await bench.run(RunRequest("true", network=("evil.example",)))


async def test_what_is_refused_leaves_a_line_in_the_audit_log(tmp_path: Path) -> None:
    async def broken(request: ApprovalRequest) -> bool | str:
        raise RuntimeError(request.skill)

    async with workbench(tmp_path, CommandRules(policy=CommandPolicy.of(["ls"]))) as bench:
        for refused in (RunRequest("cat SKILL.md", skill="demo"), RunRequest("ls", env={"LD_PRELOAD": "x"})):
            with pytest.raises((CommandDenied, InvalidArgument)):
                await bench.run(refused)
    async with workbench(tmp_path, CommandRules(approve=broken)) as bench:
        with pytest.raises(RuntimeError):
            await bench.run(RunRequest("ls", skill="demo"))

    assert [line["event"] for line in audit_lines(tmp_path)] == ["fail", "fail", "fail"]


async def test_a_cancelled_run_has_its_end_in_the_audit_log(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        running = asyncio.ensure_future(bench.run(RunRequest("sleep 300", skill="demo")))
        assert await eventually((tmp_path / "state" / "audit.jsonl").exists)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert [line["event"] for line in audit_lines(tmp_path)][-1] in ("end", "fail")


async def test_a_request_that_failed_in_any_way_is_answered_and_never_stays_running(tmp_path: Path) -> None:
    async def broken(request: ApprovalRequest) -> bool | str:
        raise RuntimeError(request.skill)

    async with workbench(tmp_path, CommandRules(approve=broken)) as bench:
        with pytest.raises(RuntimeError):
            await bench.run(RunRequest("true", request_id="a"))
        with pytest.raises(ExecutorUnavailable, match="not run again"):
            await bench.run(RunRequest("true", request_id="a"))
    async with workbench(tmp_path, CommandRules(policy=CommandPolicy.of(["ls"]))) as bench:
        for _ in range(2):
            with pytest.raises(CommandDenied):
                await bench.run(RunRequest("id", request_id="b"))


async def test_a_request_id_is_refused_where_nobody_sees_to_it(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        with pytest.raises(InvalidArgument, match="request_id"):
            await bench.start(RunRequest("true", request_id="a"))


async def test_a_workspace_over_its_quota_starts_nothing_until_there_is_room(tmp_path: Path) -> None:
    async with DirectoryExecutor(LocalBackend(), tmp_path / "s", quota=Quota(max_bytes=1_000_000)) as executor:
        bench = await open_command_runner(executor, settings(tmp_path), SCOPE)
        await bench.workspace.write("work/large", bytes(3_000_000))
        with pytest.raises(LimitExceeded, match="OPENSKILL_WORKSPACE_BYTES"):
            await bench.run(RunRequest("true"))
        await bench.workspace.remove("work/large")
        assert (await bench.run(RunRequest("true"))).exit_code == 0
        await bench.close()


async def test_memory_of_all_processes_is_watched_for_warm_commands_too(tmp_path: Path) -> None:
    script = "x = bytearray(80_000_000); import time; time.sleep(60)"

    async with workbench(tmp_path) as bench:
        limits = Limits(total_memory_bytes=150_000_000, timeout=30)
        command = f'for i in 1 2 3; do python3 -c "{script}" & done; wait'
        for warm in (None, ("json",)):
            result = await bench.run(RunRequest(command, skill="demo", limits=limits, warm=warm))
            assert result.ended.ending is EndReason.LIMIT, result.ended


class Slow(DirectoryExecutor):
    """Takes a snapshot, from the second on, when it is told to."""

    def __init__(self, state: Path) -> None:
        super().__init__(LocalBackend(), state)
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self._first = True

    async def snapshot(self, name: str, directory: Path) -> SkillSnapshot:
        if not self._first:
            self.asked.set()
            await self.go.wait()
        self._first = False
        return await super().snapshot(name, directory)


async def test_a_skill_that_is_staged_while_an_approved_command_waits_for_it_is_asked_about_again(
    tmp_path: Path,
) -> None:
    asked: list[str] = []

    first, answered = asyncio.Event(), asyncio.Event()
    executor = Slow(tmp_path / "state")

    async def approve(request: ApprovalRequest) -> bool:
        asked.append(request.digest)
        first.set()
        await executor.asked.wait()
        answered.set()
        return True

    async with executor:
        bench = await open_command_runner(executor, settings(tmp_path), SCOPE, rules=CommandRules(approve=approve))
        old = await bench.stage("demo", demo(tmp_path))
        running = asyncio.ensure_future(bench.run(RunRequest("scripts/hello.sh", skill="demo")))
        await first.wait()
        (demo(tmp_path) / "scripts" / "hello.sh").write_text("#!/bin/sh\necho another\n")
        staging = asyncio.ensure_future(bench.stage("demo", demo(tmp_path)))
        await answered.wait()
        executor.go.set()
        new, result = await staging, await running
        assert asked == [old.digest, new.digest]
        assert (result.digest, result.stdout) == (new.digest, "another\n")
        await bench.close()


class HoldingItsThreads(DirectoryExecutor):
    """Holds its threads from the second snapshot on."""

    def __init__(self, state: Path) -> None:
        super().__init__(LocalBackend(), state)
        self.pools: list[HeldPool] = []
        self.holding = asyncio.Event()
        self._first = True

    async def snapshot(self, name: str, directory: Path) -> SkillSnapshot:
        snapshot = await super().snapshot(name, directory)
        if not self._first:
            self.pools.append(held_pool())
            self.holding.set()
        self._first = False
        return snapshot


async def test_a_skill_whose_staging_was_cancelled_is_known_by_what_is_there(tmp_path: Path) -> None:
    executor = HoldingItsThreads(tmp_path / "state")
    async with executor:
        bench = await open_command_runner(executor, settings(tmp_path), SCOPE)
        old = await bench.stage("demo", demo(tmp_path))
        (demo(tmp_path) / "scripts" / "hello.sh").write_text("#!/bin/sh\necho another\n")
        staging = asyncio.create_task(bench.stage("demo", demo(tmp_path)))
        await executor.holding.wait()
        await cancelled_in_its_thread(staging, executor.pools[0])
        result = await bench.run(RunRequest("scripts/hello.sh", skill="demo"))
        assert (result.stdout, result.digest != old.digest) == ("another\n", True)
        await bench.close()


class NotedWorkspace(FakeWorkspace):
    """Starts a command when it is told to, and notes what happens in which order."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self.happened: list[str] = []

    async def stage(self, snapshot: SkillSnapshot) -> int:
        mark = await super().stage(snapshot)
        self.happened.append("staged")
        return mark

    async def start(self, command: Command) -> Any:
        self.asked.set()
        await self.go.wait()
        process = await super().start(command)
        self.happened.append("started")
        return process


class NotedExecutor(FakeExecutor):
    """Says when it has taken a snapshot."""

    workspace_type = NotedWorkspace

    def __init__(self) -> None:
        super().__init__({"true": FakeRun()})
        self.taken_one = asyncio.Event()

    async def snapshot(self, name: str, directory: Path) -> SkillSnapshot:
        snapshot = await super().snapshot(name, directory)
        self.taken_one.set()
        return snapshot


async def test_a_skill_is_not_replaced_under_a_command_that_is_being_started(tmp_path: Path) -> None:
    executor = NotedExecutor()
    async with executor:
        bench = await open_command_runner(executor, settings(tmp_path), SCOPE)
        workspace = cast("NotedWorkspace", bench.workspace)
        await bench.stage("demo", demo(tmp_path))
        running = asyncio.ensure_future(bench.run(RunRequest("true", skill="demo")))
        await workspace.asked.wait()
        executor.taken_one.clear()
        staging = asyncio.ensure_future(bench.stage("demo", demo(tmp_path)))
        await executor.taken_one.wait()
        workspace.go.set()
        await asyncio.gather(running, staging)
        assert workspace.happened == ["staged", "started", "staged"]
