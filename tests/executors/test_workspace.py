"""Workspaces in a directory, beyond what every executor promises: what lies where, quotas, descriptors, leases."""

import asyncio
import gc
import os
import weakref
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable, LimitExceeded
from openskills.executors.local import LocalBackend, LocalLauncher
from openskills.executors.protocol import Backend, WorkspaceDirectory
from openskills.executors.records.quota import Quota
from openskills.executors.spec import Command, CommandResult, EndReason, Isolation, Limits, SkillSnapshot
from openskills.executors.supervisor import SupervisedProcess
from openskills.executors.workspace import DirectoryExecutor, DirectoryWorkspace
from openskills.testing.executor_skills import new_skill
from tests.executors.held_pool import cancelled_in_its_thread, held_pool
from tests.executors.holder import holding
from tests.executors.running import alive, eventually, open_descriptors, read_until, shell

NEVER = 10 * 60.0


def open_executor(directory: Path, backend: Backend | None = None, quota: Quota | None = None) -> DirectoryExecutor:
    return DirectoryExecutor(backend or LocalBackend(), directory, quota=quota)


async def ran(workspace: DirectoryWorkspace, text: str, **options: str) -> CommandResult:
    return await (await workspace.start(Command(shell(text), **options))).wait()  # pyright: ignore[reportArgumentType]


def entries(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


async def test_what_is_ours_lies_beside_what_commands_see(tmp_path: Path) -> None:
    async with open_executor(tmp_path / "state") as executor:
        workspace = await executor.open("key")
        await workspace.mark()
        await workspace.stage(await executor.snapshot("demo", new_skill(tmp_path / "source")))
        own = tmp_path / "state" / "workspaces" / workspace.id
        assert entries(own / "tree") == {"skills", "work", "runs", "out"}
        assert entries(own) > {"tree", "marker", "staged"}
        for private in (tmp_path / "state" / "workspaces", own, own / "tree"):
            assert private.stat().st_mode & 0o077 == 0, private


async def test_two_executors_of_one_directory_do_not_share_a_workspace_at_the_same_time(tmp_path: Path) -> None:
    async with open_executor(tmp_path) as executor:
        with holding(tmp_path / "workspaces", "key"):
            with pytest.raises(ExecutorUnavailable):
                await executor.open("key")
            await executor.open("another")
        assert (await executor.open("key")).id


async def test_the_next_executor_of_a_directory_finds_the_files_of_a_key(tmp_path: Path) -> None:
    async with open_executor(tmp_path) as executor:
        await (await executor.open("key")).write("work/kept", b"x")
    async with open_executor(tmp_path) as executor:
        assert len((await (await executor.open("key")).list(["work/kept"])).files) == 1


async def test_a_full_disk_is_said_before_a_command_starts(tmp_path: Path) -> None:
    async with open_executor(tmp_path, quota=Quota(min_free_bytes=1 << 60)) as executor:
        workspace = await executor.open("key")
        with pytest.raises(LimitExceeded, match="must stay free; free some"):
            await workspace.start(Command(("true",)))


async def test_a_command_that_fills_its_workspace_is_ended_with_the_limit(tmp_path: Path) -> None:
    async with open_executor(tmp_path, quota=Quota(max_bytes=10_000_000)) as executor:
        workspace = await executor.open("key")
        ended = await ran(workspace, "while :; do head -c 1000000 /dev/zero >> work/full; done")
        assert ended.ending is EndReason.LIMIT
        assert "bytes; the maximum is 10,000,000" in ended.detail


async def test_runs_that_leave_nothing_leave_no_directory_behind(tmp_path: Path) -> None:
    async with open_executor(tmp_path) as executor:
        workspace = await executor.open("key")
        runs = Path(workspace.root, "runs")
        for number in range(20):
            await ran(workspace, "true", run_dir=f"runs/{number}")
        await ran(workspace, "echo x > $RUN_DIR/kept", run_dir="runs/kept")
        await ran(workspace, "true", run_dir="runs/last")
        assert await eventually(lambda: len(entries(runs) - {"kept"}) <= 1)
        assert (runs / "kept" / "kept").exists()


async def test_every_run_has_a_directory_of_its_own_that_is_empty(tmp_path: Path) -> None:
    async with open_executor(tmp_path) as executor:
        workspace = await executor.open("key")

        async def one(number: int) -> str:
            text = 'ls -A "$RUN_DIR"; echo x > "$RUN_DIR/$0"; sleep 0.01; rm "$RUN_DIR"/*'
            return (await ran(workspace, text, run_dir=f"runs/{number}")).stdout.text()

        for start in range(0, 30, 5):
            assert set(await asyncio.gather(*(one(start + number) for number in range(5)))) == {""}


async def test_nothing_is_left_open_when_commands_end_and_workspaces_are_removed(tmp_path: Path) -> None:
    async with open_executor(tmp_path) as executor:

        async def one(key: str) -> None:
            workspace = await executor.open(key)
            await workspace.write("work/a", b"x" * 100_000)
            async with workspace.open("work/a"):
                await ran(workspace, "cat work/a")
            await executor.remove(key)

        for number in range(5):
            await one(f"warming-{number}")
        before = open_descriptors()
        for number in range(20):
            await one(f"key-{number}")
        assert await eventually(lambda: open_descriptors() <= before)


async def test_what_was_replaced_is_removed_when_the_workspace_is_opened_again(tmp_path: Path) -> None:
    async with open_executor(tmp_path / "state") as executor:
        folder = new_skill(tmp_path / "source")
        workspace = await executor.open("key")
        for text in ("one", "two", "three"):
            (folder / "SKILL.md").write_text(text)
            await workspace.stage(await executor.snapshot("demo", folder))
        await workspace.close()
        again = await executor.open("key")
        assert entries(Path(again.root, "skills")) == {"demo"}


async def test_opening_again_after_a_close_gives_another_object_with_the_same_files(tmp_path: Path) -> None:
    async with open_executor(tmp_path) as executor:
        first = await executor.open("key")
        assert await executor.open("key") is first
        await first.close()
        with pytest.raises(ExecutorUnavailable, match="the workspace is closed; open it again"):
            await first.start(Command(("true",)))
        second = await executor.open("key")
        assert second is not first
        assert second.id == first.id


class Unattached(LocalBackend):
    """Cannot attach at first."""

    attached = 0

    async def attach(self, place: WorkspaceDirectory) -> LocalLauncher:
        self.attached += 1
        if self.attached == 1:
            raise ExecutorUnavailable("not now")
        return await super().attach(place)


async def test_a_workspace_that_could_not_be_attached_is_free_for_the_next_try(tmp_path: Path) -> None:
    async with open_executor(tmp_path, Unattached()) as executor:
        with pytest.raises(ExecutorUnavailable, match="not now"):
            await executor.open("key")
        assert (await ran(await executor.open("key"), "exit 3")).exit_code == 3


class Absent(LocalBackend):
    """Does not work here."""

    async def check(self) -> Isolation:
        raise ExecutorUnavailable("bubblewrap is missing; install it")


async def test_nothing_is_made_when_the_backend_does_not_work(tmp_path: Path) -> None:
    async with open_executor(tmp_path, Absent()) as executor:
        with pytest.raises(ExecutorUnavailable, match="bubblewrap is missing"):
            await executor.open("key")
        assert not (tmp_path / "workspaces").exists()


class Slow(LocalBackend):
    """Starts commands when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def attach(self, place: WorkspaceDirectory) -> LocalLauncher:
        launcher = await super().attach(place)
        return SlowLauncher(launcher, self)


class SlowLauncher(LocalLauncher):
    """Waits before it starts something; may not be used when it is closed."""

    def __init__(self, inner: LocalLauncher, backend: Slow) -> None:
        self.__dict__.update(inner.__dict__)
        self._backend = backend
        self._closed = False

    async def launch(self, command: Command, env: object, stdio: tuple[int, int, int]) -> SupervisedProcess:
        self._backend.asked.set()
        await self._backend.go.wait()
        assert not self._closed
        return await super().launch(command, env, stdio)  # pyright: ignore[reportArgumentType]

    async def close(self) -> None:
        self._closed = True


async def test_closing_waits_for_what_is_being_started_and_ends_it(tmp_path: Path) -> None:
    backend = Slow()

    async with open_executor(tmp_path, backend) as executor:
        workspace = await executor.open("key")
        starting = asyncio.ensure_future(workspace.start(Command(shell("echo $$ > work/pid; sleep 600"))))
        await backend.asked.wait()
        closing = asyncio.ensure_future(workspace.close())
        await asyncio.sleep(0)
        assert not closing.done()
        backend.go.set()
        with pytest.raises(ExecutorUnavailable, match="the workspace is closed"):
            await starting
        await closing
        pid = Path(workspace.root, "work", "pid")
        assert not pid.exists() or not alive(int(pid.read_text() or 0))


async def test_a_process_that_nobody_waits_for_is_forgotten_when_it_ends(tmp_path: Path) -> None:
    async with open_executor(tmp_path) as executor:
        workspace = await executor.open("key")
        process = await workspace.start(Command(shell("echo $$; exec sleep 600"), readable=True))
        pid = int(await read_until(process, b"\n"))
        os.kill(pid, 9)
        assert (await process.wait()).exit_code == 137
        await asyncio.wait_for(workspace.close(), NEVER)


async def test_staging_the_same_skill_from_many_tasks_stages_it_once(tmp_path: Path) -> None:
    async with open_executor(tmp_path / "state") as executor:
        snapshot: SkillSnapshot = await executor.snapshot("demo", new_skill(tmp_path / "source"))
        workspace = await executor.open("key")
        await asyncio.gather(*(workspace.stage(snapshot) for _ in range(10)))
        assert entries(Path(workspace.root, "skills")) == {"demo"}


async def test_a_deadline_in_the_past_is_met(tmp_path: Path) -> None:
    async with open_executor(tmp_path) as executor:
        workspace = await executor.open("key")
        process = await workspace.start(Command(shell("sleep 600"), limits=Limits(timeout=0.001, grace=0.0)))
        assert (await process.wait()).ending is EndReason.TIMED_OUT


async def test_workspaces_that_nobody_uses_for_longer_than_they_live_are_swept(tmp_path: Path) -> None:
    async with DirectoryExecutor(LocalBackend(), tmp_path, ttl=0.0) as executor:
        unused, used = await executor.open("unused"), await executor.open("used")
        await unused.close()
        await executor.sweep()
        left = entries(tmp_path / "workspaces")
        assert unused.id not in left
        assert used.id in left
        assert (await ran(used, "exit 3")).exit_code == 3


async def test_a_workspace_that_is_closed_is_not_held_any_longer(tmp_path: Path) -> None:
    async def closed(executor: DirectoryExecutor, key: str) -> DirectoryWorkspace:
        workspace = await executor.open(key)
        await workspace.close()
        return workspace

    async with open_executor(tmp_path) as executor:
        gone = weakref.ref(await closed(executor, "one"))
        await executor.open("two")
        gc.collect()
        assert gone() is None


class Lingering(LocalBackend):
    """Its workspaces are closed when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def attach(self, place: WorkspaceDirectory) -> LocalLauncher:
        return LingeringLauncher(await super().attach(place), self)


class LingeringLauncher(LocalLauncher):
    """Waits before it is closed."""

    def __init__(self, inner: LocalLauncher, backend: Lingering) -> None:
        self.__dict__.update(inner.__dict__)
        self._backend = backend

    async def close(self) -> None:
        self._backend.asked.set()
        await self._backend.go.wait()
        await super().close()


async def test_a_workspace_whose_closing_was_cancelled_is_free_for_the_next(tmp_path: Path) -> None:
    backend = Lingering()

    async with open_executor(tmp_path, backend) as executor:
        workspace = await executor.open("key")
        closing = asyncio.ensure_future(workspace.close())
        await backend.asked.wait()
        closing.cancel()
        await asyncio.sleep(0)
        backend.go.set()
        await asyncio.wait([closing])
        assert closing.cancelled()
        assert (await ran(await executor.open("key"), "exit 3")).exit_code == 3


class Unswept(DirectoryExecutor):
    """Its sweep never comes to an end."""

    async def sweep(self) -> None:
        await asyncio.Event().wait()


async def test_a_workspace_whose_opening_was_cancelled_is_free_for_the_next(tmp_path: Path) -> None:
    pool = held_pool()
    executor = Unswept(LocalBackend(), tmp_path)
    await cancelled_in_its_thread(asyncio.ensure_future(executor.open("key")), pool)
    await (await executor.open("key")).close()


class Noticing(LocalBackend):
    """Knows whether it was closed."""

    closed = False

    async def close(self) -> None:
        self.closed = True
        await super().close()


def test_a_sweep_that_ended_with_its_loop_does_not_keep_the_next_loop_from_closing(tmp_path: Path) -> None:
    backend = Noticing()
    executor = Unswept(backend, tmp_path)

    async def use() -> None:
        await (await executor.open("key")).close()

    asyncio.run(use())
    asyncio.run(executor.close())
    assert backend.closed
