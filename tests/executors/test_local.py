"""What `local` is beyond what every executor promises: no sandbox, and it says so."""

import os
import sys
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.local import LocalBackend
from openskills.executors.protocol import WorkspaceDirectory
from openskills.executors.spec import SYSTEM_PATH, Command, CommandResult, Isolation
from openskills.executors.workspace import DirectoryExecutor, DirectoryWorkspace
from tests.executors.running import eventually, open_descriptors, shell


async def ran(directory: Path, command: Command) -> CommandResult:
    async with DirectoryExecutor(LocalBackend(), directory) as executor:
        return await (await (await executor.open("key")).start(command)).wait()


async def test_it_says_that_it_isolates_nothing() -> None:
    backend = LocalBackend()
    assert await backend.check() is Isolation.NONE


async def test_commands_run_with_the_rights_of_this_user(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("read")
    ended = await ran(tmp_path / "state", Command(shell(f"id -u; cat {outside}; echo written > {outside}")))
    assert ended.stdout.text().split() == [str(os.getuid()), "read"]
    assert outside.read_text() == "written\n"


async def test_the_home_of_commands_lies_beside_the_workspace_and_is_kept(tmp_path: Path) -> None:
    async with DirectoryExecutor(LocalBackend(), tmp_path) as executor:
        workspace = await executor.open("key")
        for text in ("echo setting > ~/.config", "cat ~/.config; pwd; cd; pwd"):
            ended = await (await workspace.start(Command(shell(text)))).wait()
    setting, directory, home = ended.stdout.text().split()
    assert setting == "setting"
    assert Path(home) == Path(directory).parent / "home"
    assert Path(home).stat().st_mode & 0o777 == 0o700


async def test_programs_are_those_of_this_interpreter_first_and_then_of_the_system(tmp_path: Path) -> None:
    ended = await ran(tmp_path, Command(("python3", "-c", "import os, sys; print(sys.executable, os.environ['PATH'])")))
    python, path = ended.stdout.text().split()
    assert Path(python).parent == Path(sys.executable).parent
    assert path.split(":") == [str(Path(sys.executable).parent), *SYSTEM_PATH]


async def test_another_interpreter_can_come_first(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("python", "python3"):
        (tmp_path / "bin" / name).symlink_to(os.path.realpath(sys.executable))
    place = WorkspaceDirectory("one", tmp_path / "one" / "tree", None)
    place.tree.mkdir(parents=True)
    launcher = await LocalBackend(python=tmp_path / "bin" / "python3").attach(place)
    assert launcher.path == (str(tmp_path / "bin"), *SYSTEM_PATH)


async def test_the_workspace_is_where_it_is(tmp_path: Path) -> None:
    async with DirectoryExecutor(LocalBackend(), tmp_path) as executor:
        workspace = await executor.open("key")
        root, identity = workspace.root, workspace.id

    assert Path(root) == tmp_path / "workspaces" / identity / "tree"


@pytest.mark.parametrize(
    ("program", "why"),
    [("openskills-none", "program not found"), ("/etc", "Permission denied"), ("work/x", "No such file")],
)
async def test_a_program_that_cannot_be_started_is_refused_with_the_reason(
    tmp_path: Path, program: str, why: str
) -> None:
    with pytest.raises(InvalidArgument, match=f"command: cannot be started: {why}"):
        await ran(tmp_path, Command((program,)))


async def test_a_program_that_cannot_be_started_costs_nothing(tmp_path: Path) -> None:
    async with DirectoryExecutor(LocalBackend(), tmp_path) as executor:
        workspace = await executor.open("key")
        await start_none(workspace)
        before = open_descriptors()
        for _ in range(20):
            await start_none(workspace)
        assert await eventually(lambda: open_descriptors() <= before)
        after = open_descriptors()
    assert after <= before


async def start_none(workspace: DirectoryWorkspace) -> None:
    with pytest.raises(InvalidArgument):
        await workspace.start(Command(("openskills-none",)))


async def test_a_closed_backend_can_be_closed_again_and_used_again(tmp_path: Path) -> None:
    backend = LocalBackend()
    codes: list[int] = []
    for _ in range(2):
        async with DirectoryExecutor(backend, tmp_path) as executor:
            ended = await (await (await executor.open("key")).start(Command(("true",)))).wait()
        codes.append(ended.exit_code)
        await backend.close()

    assert codes == [0, 0]
