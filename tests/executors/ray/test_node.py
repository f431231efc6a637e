"""A node keeps the promises of its executor through the channel, without Ray."""

import asyncio
import shutil
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openskills.artifacts import Scope
from openskills.errors import ExecutorUnavailable, ForbiddenPath, InvalidArgument, InvalidSkill, TooManyRequests
from openskills.executors import Command, RunRequest
from openskills.executors.commands import CommandRules, open_command_runner
from openskills.executors.package_index import PackageIndex
from openskills.executors.ray.client import RemoteWorkspace, send_content
from openskills.executors.ray.executor import RayOptions
from openskills.executors.ray.node import SkillUploads
from openskills.executors.requests import InstallMode, PackageOptions
from openskills.executors.spec import MIB
from openskills.executors.staging.packages import PackageSet
from openskills.executors.staging.snapshots import SnapshotStore
from openskills.telemetry.metrics import counters
from openskills.testing.checks import EndlessContent, read_content
from openskills.testing.executor import GROUPS, check_executor
from tests.conftest import RequireProgram
from tests.executors.ray.nodes import move_away, plain_cluster
from tests.executors.wheels import make_index
from tests.long_form import cases


@pytest.mark.parametrize("group", GROUPS)
# `test_cluster.py` has those of the sandbox on a real cluster.
@pytest.mark.parametrize("name", cases(["local"], ["sandbox"]))
async def test_a_node_keeps_the_promises_of_its_executor(
    name: str, group: str, tmp_path: Path, require_program: RequireProgram
) -> None:
    if name == "sandbox":
        require_program("bwrap")
    async with plain_cluster(tmp_path, RayOptions(executor=name)) as cluster:
        await check_executor(cluster.executor, groups=[group])


async def test_a_workspace_waits_for_room_and_is_refused_with_the_load_of_the_nodes(tmp_path: Path) -> None:
    options = RayOptions(executor="local", max_workspaces=1, queue_timeout=0.5)
    async with plain_cluster(tmp_path, options, nodes=3) as cluster, cluster.executor() as executor:
        opened = [await executor.open(f"full-{number}") for number in range(3)]
        with pytest.raises(TooManyRequests, match=r"open workspaces: [\w-]+ 1/1, [\w-]+ 1/1, [\w-]+ 1/1"):
            await executor.open("full-3")
        await opened[0].close()
        assert (await executor.open("full-3")).node == opened[0].node


async def test_a_command_waits_for_others_and_is_refused_after_the_deadline(tmp_path: Path) -> None:
    options = RayOptions(executor="local", max_commands=1, queue_timeout=0.5)
    async with plain_cluster(tmp_path, options) as cluster, cluster.executor() as executor:
        workspace = await executor.open("busy")
        running = await workspace.start(Command(("sleep", "600")))
        with pytest.raises(
            TooManyRequests, match=r"1 commands run on this node, the maximum; none ended within 0\.5 s"
        ):
            await workspace.start(Command(("true",)))
        await running.kill()
        assert (await (await workspace.start(Command(("true",)))).wait()).exit_code == 0


async def test_a_command_is_refused_at_once_if_too_many_wait(tmp_path: Path) -> None:
    options = RayOptions(executor="local", lease=1.0, max_commands=1, max_queue=1, queue_timeout=300)
    async with plain_cluster(tmp_path, options) as cluster, cluster.executor() as executor:
        workspace = await executor.open("queue")
        running = await workspace.start(Command(("sleep", "600")))
        waiting = asyncio.ensure_future(workspace.start(Command(("true",))))
        async with asyncio.timeout(60):
            while not any(node["queued_commands"] for node in (await executor.status())["nodes"]):
                await asyncio.sleep(0.05)
        with pytest.raises(TooManyRequests, match="and 1 wait; try again later"):
            await workspace.start(Command(("true",)))
        await running.kill()
        assert (await (await waiting).wait()).exit_code == 0


async def test_a_workspace_that_cannot_be_saved_stays_on_the_drained_node(tmp_path: Path) -> None:
    options = RayOptions(executor="local", checkpoint_delay=600)
    async with plain_cluster(tmp_path, options, nodes=2) as cluster:
        storage = tmp_path / "storage"
        cluster.settings = replace(cluster.settings, storage=str(storage))
        async with cluster.executor() as executor:
            workspace = await executor.open("kept")
            await workspace.write("work/file", b"only here")
            before = workspace.node
            await executor.drain(before)
            # Nothing can be created below a file.
            shutil.rmtree(storage, ignore_errors=True)
            storage.write_bytes(b"")
            await workspace.move()
            assert workspace.node == before
            assert await read_content(workspace, "work/file") == b"only here"
            storage.unlink()
            await move_away(workspace, before)
            assert await read_content(workspace, "work/file") == b"only here"


async def test_a_workspace_moves_from_a_drained_node_as_soon_as_another_one_has_room(tmp_path: Path) -> None:
    options = RayOptions(executor="local", max_workspaces=1, lease=1.0, checkpoint_delay=0.05)
    async with plain_cluster(tmp_path, options, nodes=2) as cluster:
        cluster.settings = replace(cluster.settings, storage=str(tmp_path / "storage"))
        async with cluster.executor() as executor:
            workspace, other = await executor.open("waits"), await executor.open("other")
            await workspace.write("work/file", b"moves")
            before = workspace.node
            await executor.drain(before)
            # No other node has room, so that it stays and can be used.
            await workspace.move()
            await workspace.write("work/late", b"too")
            assert workspace.node == before
            await other.close()
            async with asyncio.timeout(60):
                while workspace.node == before:
                    await asyncio.sleep(0.05)
            assert (
                await read_content(workspace, "work/file") + await read_content(workspace, "work/late") == b"movestoo"
            )


def make_skill(directory: Path, **files: str) -> Path:
    """The skill `demo`; a `_` in a name is a dot."""
    directory.mkdir(exist_ok=True)
    (directory / "SKILL.md").write_text("---\nname: demo\ndescription: Demonstrates.\n---\nRun it.\n")
    for name, text in files.items():
        (directory / name.replace("_", ".")).write_text(text)
    return directory


CHANGE = (
    "echo changed > data.txt; mkdir -p more/deep; cd more/deep; printf '#!/bin/sh\necho new' > new.sh; chmod +x new.sh"
)


async def test_what_commands_changed_in_a_skill_moves_with_the_workspace(tmp_path: Path) -> None:
    options = RayOptions(executor="local", lease=1.0, checkpoint_delay=0.05)
    folder = make_skill(tmp_path / "skill", data_txt="original\n", kept_txt="kept\n")
    async with plain_cluster(tmp_path, options, nodes=2) as cluster:
        cluster.settings = replace(cluster.settings, storage=str(tmp_path / "storage"))
        async with cluster.executor() as executor:
            runner = await open_command_runner(executor, cluster.settings, Scope("app", "user", "changed"))
            workspace = runner.workspace
            assert isinstance(workspace, RemoteWorkspace)
            staged = await workspace.stage(await runner.stage("demo", folder))
            mark = await workspace.mark()
            await runner.run(RunRequest(CHANGE, skill="demo"))
            before = workspace.node
            await executor.drain(before)
            await move_away(workspace, before)
            shown = await runner.run(RunRequest("cat data.txt kept.txt && more/deep/new.sh", skill="demo"))
            assert shown.stdout == "changed\nkept\nnew\n"
            # Marks of the old node are of another clock: what was restored is not new, what commands changed is.
            assert (await workspace.list(["work/**", "out/**", "runs/**"], since=mark)).files == ()
            changed = await workspace.list(["skills/demo/**"], since=staged)
            assert [info.path for info in changed.files] == ["skills/demo/data.txt", "skills/demo/more/deep/new.sh"]
            await runner.close()


async def test_changes_to_a_skill_wait_until_it_is_staged_and_do_not_replace_files_of_a_newer_one(
    tmp_path: Path,
) -> None:
    options = RayOptions(executor="local", lease=1.0, checkpoint_delay=600)
    folder = make_skill(tmp_path / "skill", data_txt="original\n")
    scope = Scope("app", "user", "waits")
    async with plain_cluster(tmp_path, options, nodes=2) as cluster:
        cluster.settings = replace(cluster.settings, storage=str(tmp_path / "storage"))
        for round_ in range(3):
            async with cluster.executor() as executor:
                runner = await open_command_runner(executor, cluster.settings, scope)
                workspace = runner.workspace
                assert isinstance(workspace, RemoteWorkspace)
                if round_ == 0:
                    await runner.stage("demo", folder)
                    await runner.run(RunRequest(CHANGE, skill="demo"))
                elif round_ == 1:
                    # The skill is not staged here, but the workspace is saved again.
                    await workspace.write("work/other", b"other")
                else:
                    await runner.stage("demo", make_skill(folder, data_txt="newer\n"))
                    shown = await runner.run(RunRequest("cat data.txt && more/deep/new.sh", skill="demo"))
                    assert shown.stdout == "newer\nnew\n"
                    assert await read_content(workspace, "work/other") == b"other"
                await runner.close()
                await executor.drain(workspace.node)
                # Each round opens it on the other node.
                others = [one["node"] for one in (await executor.status())["nodes"] if one["node"] != workspace.node]
                await executor.drain(others[0], is_draining=False)


async def test_packages_that_cannot_be_installed_on_a_node_are_explained(tmp_path: Path) -> None:
    async with plain_cluster(tmp_path, RayOptions(executor="local")) as cluster, cluster.executor() as executor:
        rules = CommandRules(index=make_index(tmp_path / "wheels"))
        runner = await open_command_runner(executor, cluster.settings, Scope("app", "user", "failing"), rules=rules)
        folder = make_skill(tmp_path / "skill", requirements_txt="tiny\n")
        (folder / ".venv").mkdir()
        (folder / ".venv" / "pyvenv.cfg").write_text("")
        await runner.stage("demo", folder)
        missing = PackageOptions(PackageSet(("no-such-package",)))
        with pytest.raises(InvalidSkill, match="the index has no package 'no-such-package' for this Python"):
            await runner.provide_packages("demo", "true", missing)
        with pytest.raises(InvalidArgument, match="venv: not supported where commands run on other machines"):
            await runner.provide_packages("demo", "true", PackageOptions(venv=tmp_path))
        never = await runner.provide_packages("demo", "true", PackageOptions(install=InstallMode.NEVER))
        assert "its .venv is not used, because commands run on another machine" in never.warnings[0]
        assert "requirements.txt declares tiny; not installed" in never.warnings[1]
        certificates = replace(rules.index or PackageIndex(), certificates=tmp_path / "gone.pem")
        runner = runner.for_agent("", replace(rules, index=certificates))
        with pytest.raises(InvalidArgument, match=r"gone.pem' are not on the node; copy them there"):
            await runner.provide_packages("demo", "true", PackageOptions(install=InstallMode.ALWAYS))
        await runner.close()


async def test_a_workspace_leaves_a_drained_node_by_itself_although_it_could_not_be_saved_for_a_while(
    tmp_path: Path,
) -> None:
    options = RayOptions(executor="local", lease=1.0, checkpoint_delay=0.05)
    async with plain_cluster(tmp_path, options, nodes=2) as cluster:
        storage = tmp_path / "storage"
        cluster.settings = replace(cluster.settings, storage=str(storage))
        # Nothing can be created below a file.
        storage.write_bytes(b"")
        async with cluster.executor() as executor:
            failed = count_all("openskills.ray.failed_checkpoints")
            workspace = await executor.open("kept")
            await workspace.write("work/file", b"kept")
            async with asyncio.timeout(60):
                while count_all("openskills.ray.failed_checkpoints") == failed:
                    await asyncio.sleep(0.02)
                storage.unlink()
                before = workspace.node
                await executor.drain(before)
                while workspace.node == before:
                    await asyncio.sleep(0.02)
            assert await read_content(workspace, "work/file") == b"kept"


def count_all(name: str) -> int:
    return sum(one.value for one in counters() if one.name == name)


def test_a_skill_with_a_path_that_leaves_its_folder_leaves_nothing_on_the_node(tmp_path: Path) -> None:
    uploads = SkillUploads(tmp_path / "uploads", SnapshotStore(tmp_path / "snapshots"))
    with pytest.raises(ForbiddenPath):
        uploads.begin([["d", "scripts", ""], ["f", "../escape", "0" * 64]])
    assert list((tmp_path / "uploads").iterdir()) == []


async def test_a_skill_is_sent_once_although_several_workspaces_of_a_node_need_it_at_once(tmp_path: Path) -> None:
    async with plain_cluster(tmp_path, RayOptions(executor="local")) as cluster, cluster.executor() as executor:
        snapshot = await executor.snapshot("demo", make_skill(tmp_path / "skill"))
        workspaces = [await executor.open(f"demo-{number}") for number in range(4)]
        before = count_all("openskills.ray.skills_received")
        await asyncio.gather(*(workspace.stage(snapshot) for workspace in workspaces))
        assert count_all("openskills.ray.skills_received") == before + 1


async def test_a_skill_that_is_staged_while_the_node_is_drained_is_staged_on_the_next_one(tmp_path: Path) -> None:
    options = RayOptions(executor="local", lease=1.0, checkpoint_delay=0.05)
    async with plain_cluster(tmp_path, options, nodes=2) as cluster:
        cluster.settings = replace(cluster.settings, storage=str(tmp_path / "storage"))
        async with cluster.executor() as executor:
            snapshot = await executor.snapshot("demo", make_skill(tmp_path / "skill", data_txt="there\n"))
            workspace = await executor.open("staged")
            before = workspace.node
            await executor.drain(before)
            async with asyncio.timeout(60):
                while workspace.node == before:
                    await workspace.stage(snapshot)
            assert await read_content(workspace, "skills/demo/data.txt") == b"there\n"


async def test_a_workspace_that_has_its_place_is_opened_although_the_queue_for_new_ones_is_full(
    tmp_path: Path,
) -> None:
    options = RayOptions(executor="local", max_workspaces=1, max_queue=1, queue_timeout=60)
    async with (
        plain_cluster(tmp_path, options) as cluster,
        cluster.executor() as executor,
        cluster.executor() as other,
    ):
        workspace = await executor.open("first")
        waiting = asyncio.ensure_future(executor.open("second"))
        async with asyncio.timeout(60):
            while not (await executor.status())["queue"]:
                await asyncio.sleep(0.01)
        with pytest.raises(
            TooManyRequests, match="1 workspaces are waiting for capacity in the cluster; try again later"
        ):
            await executor.open("third")
        with pytest.raises(ExecutorUnavailable, match="in use by another driver"):
            await other.open("first")
        await workspace.close()
        assert (await waiting).node == workspace.node


async def test_what_a_command_wrote_until_its_workspace_was_closed_is_saved(tmp_path: Path) -> None:
    options = RayOptions(executor="local", checkpoint_delay=600)
    async with plain_cluster(tmp_path, options, nodes=2) as cluster:
        cluster.settings = replace(cluster.settings, storage=str(tmp_path / "storage"))
        async with cluster.executor() as executor:
            workspace = await executor.open("closed")
            await workspace.start(Command(("sh", "-c", "echo written > work/late; sleep 600")))
            async with asyncio.timeout(60):
                while not (await workspace.list(["work/late"])).files:
                    await asyncio.sleep(0.01)
            await workspace.close()
            await executor.drain(workspace.node)
            again = await executor.open("closed")
            assert again.node != workspace.node
            assert await read_content(again, "work/late") == b"written\n"


@pytest.mark.parametrize("what", ["write", "open", "import"])
async def test_what_is_cancelled_while_it_begins_does_not_keep_a_node_from_draining(tmp_path: Path, what: str) -> None:
    options = RayOptions(executor="local", lease=1.0, checkpoint_delay=0.05)
    async with plain_cluster(tmp_path, options, nodes=2) as cluster:
        cluster.settings = replace(cluster.settings, storage=str(tmp_path / "storage"))
        async with cluster.executor() as executor:
            workspace = await executor.open("cancelled")
            await workspace.write("work/file", bytes(3 * MIB))

            def begin() -> Coroutine[Any, Any, object]:
                if what == "open":
                    return read_content(workspace, "work/file")
                if what == "write":
                    return workspace.write("work/other", EndlessContent())
                # As when files are restored.
                return send_content(workspace.attachment, "import_begin", {}, EndlessContent())

            for steps in range(8):
                beginning = asyncio.ensure_future(begin())
                for _ in range(steps):
                    await asyncio.sleep(0)
                beginning.cancel()
                await asyncio.wait([beginning])
                assert beginning.cancelled()
            before = workspace.node
            await executor.drain(before)
            async with asyncio.timeout(20):
                while workspace.node == before:
                    await asyncio.sleep(0.02)
