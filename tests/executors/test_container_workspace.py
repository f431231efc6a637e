"""Containers behind the protocol: a real executor, with real leases, snapshots and staging."""

import os
import shutil
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.commands import CommandRules
from openskills.executors.container.backend import ContainerBackend
from openskills.executors.container.spec import ContainerOptions
from openskills.executors.package_index import PackageIndex
from openskills.executors.requests import PackageOptions, RunRequest
from openskills.executors.spec import Command, Isolation
from openskills.executors.staging.packages import PackageSet
from openskills.executors.workspace import DirectoryExecutor
from openskills.sync import run
from tests.container_engine import TestEngine
from tests.executors.benches import workbench
from tests.executors.containers import containers_of
from tests.executors.running import shell
from tests.executors.unprivileged import UID
from tests.executors.wheels import wheel


def skill_in(directory: Path, text: str) -> Path:
    skill = directory / "demo"
    skill.mkdir(exist_ok=True)
    (skill / "SKILL.md").write_text("---\nname: demo\ndescription: A demo.\n---\n")
    (skill / "run.sh").write_text(f"echo {text}; echo kept >> .venv/log; echo result > out/result; cat .venv/log\n")
    return skill


def executor_in(directory: Path, engine: TestEngine) -> DirectoryExecutor:
    backend = ContainerBackend(ContainerOptions(engine.image, engine.address))
    return DirectoryExecutor(backend, directory / "state")


async def use(directory: Path, engine: TestEngine) -> None:
    """Stage a skill, run it, change it while something runs, run it again, and open the workspace once more."""
    command = Command(("bash", "run.sh"), skill="demo", cwd="skills/demo")
    async with executor_in(directory, engine) as executor:
        workspace = await executor.open("a session")
        assert workspace.isolation is Isolation.CONTAINER
        await workspace.stage(await executor.snapshot("demo", skill_in(directory, "one")))
        ended = await (await workspace.start(command)).wait()
        assert (ended.stdout.text(), ended.stderr.text()) == ("one\nkept\n", "")
        async with workspace.open("out/result") as reading:
            assert b"".join([chunk async for chunk in reading.chunks]) == b"result\n"
        running = await workspace.start(Command(("cat",), skill="demo", cwd="skills/demo", input_open=True))
        await workspace.stage(await executor.snapshot("demo", skill_in(directory, "two")))
        ended = await (await workspace.start(command)).wait()
        assert (ended.stdout.text(), ended.stderr.text()) == ("two\nkept\nkept\n", "")
        # The command that is running keeps the container in which the older version is mounted.
        assert len(containers_of(engine.address, workspace.id)) == 2
        await running.close_input()
        assert (await running.wait()).exit_code == 0
    async with executor_in(directory, engine) as executor:
        workspace = await executor.open("a session")
        ended = await (await workspace.start(Command(shell("id -u; cat skills/demo/.venv/log")))).wait()
        uid, *kept = ended.stdout.text().split()
        assert kept == ["kept", "kept"]
        assert int(uid) not in (0, 65534)
        assert os.geteuid() in (0, int(uid))
        assert await executor.remove("a session")


async def test_a_skill_runs_is_staged_again_and_keeps_its_venv(container_engine: TestEngine, tmp_path: Path) -> None:
    await use(tmp_path, container_engine)


async def test_packages_are_selected_for_the_python_of_the_image_and_mounted(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    name, data = wheel("tiny", "1.0", "VERSION = '1.0'\n")
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / name).write_bytes(data)
    rules = CommandRules(index=PackageIndex(no_index=True, find_links=(str(tmp_path / "wheels"),)))
    backend = ContainerBackend(ContainerOptions(container_engine.image, container_engine.address))
    async with workbench(tmp_path, rules, backend=backend) as bench:
        command = "python3 -c 'import tiny; print(tiny.VERSION)'; touch $VIRTUAL_ENV/x"
        provided = await bench.provide_packages("demo", command, PackageOptions(PackageSet(("tiny",))))
        result = await bench.run(RunRequest(command, skill="demo", packages=provided.environment))
        assert (result.stdout, "Read-only file system" in result.stderr) == ("1.0\n", True), result.stderr
        with pytest.raises(InvalidArgument, match="venv: not supported in containers"):
            await bench.provide_packages("demo", command, PackageOptions(venv=tmp_path))


def test_a_host_that_is_not_root_runs_commands_as_its_own_user(container_engine: TestEngine) -> None:
    group = os.stat(container_engine.address.removeprefix("unix://")).st_gid
    # Not below the directory of the tests: only root gets there.
    directory = Path(tempfile.mkdtemp(prefix="openskills-"))
    os.chown(directory, UID, UID)
    sys.stdout.flush()
    try:
        with warnings.catch_warnings():
            # The child begins with an event loop of its own.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if not child:
            _as_member(group, directory, container_engine)
        _, status = os.waitpid(child, 0)
        assert status == 0, "it failed in the child process; its traceback is in the captured output"
    finally:
        shutil.rmtree(directory)


def _as_member(group: int, directory: Path, engine: TestEngine) -> None:
    """Be a user who may use the engine, because of a group, and nothing else; ends the process."""
    status = 1
    try:
        os.chdir("/")
        os.setgroups([group])
        os.setgid(UID)
        os.setuid(UID)
        os.umask(0o077)
        run(use(directory, engine))
        status = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stderr.flush()
        os._exit(status)
