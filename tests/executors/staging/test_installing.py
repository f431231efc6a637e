"""What a skill declares is installed in its workspace, once, by real installers and without a network."""

import asyncio
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from openskills.errors import DeadlineExceeded, InvalidArgument, InvalidSkill
from openskills.executors.directory import DirectoryExecutor
from openskills.executors.directory_workspace import DirectoryWorkspace
from openskills.executors.local import LocalBackend
from openskills.executors.spec import Command, Limits
from openskills.executors.staging.dependencies import KEY, SetUp, Tools, plan, uv_environment, with_uv
from openskills.executors.staging.installing import LIMITS, SetUpResult, declared, set_up
from openskills.sync import run
from tests.executors.wheels import wheel

INDEX = ("--no-index", "--find-links", "wheels")
PIP = Tools(index_arguments=INDEX)
SAY = "import tiny; print(tiny.VERSION)"
SCRIPT = f'# /// script\n# dependencies = ["tiny"]\n# ///\nimport sys\n{SAY}\nprint(sys.argv[1:])\n'


@pytest.fixture
def uv() -> str:
    """The program `uv`, which is installed with the tools of this repository, or on the machine."""
    found = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if found is None:
        pytest.skip("needs uv; pip install uv")
    return found


class Bench:
    """A workspace with the skill `tiny-user`, whose folder can be changed and staged again."""

    def __init__(self, executor: DirectoryExecutor, workspace: DirectoryWorkspace, folder: Path) -> None:
        self._executor = executor
        self._folder = folder
        self.workspace = workspace

    async def stage(self, **files: str) -> None:
        """Change files of the skill (`_txt` is `.txt`), and stage it."""
        for name, text in files.items():
            (self._folder / name.replace("_", ".")).write_text(text)
        await self.workspace.stage(await self._executor.snapshot("tiny-user", self._folder))

    async def plan(self, tools: Tools, script: str | None = None) -> SetUp:
        """What the skill needs now."""
        files = await declared(self.workspace, "tiny-user", *([script] if script else []))
        found = plan("tiny-user", files, script=script, tools=tools)
        assert found is not None
        return found

    async def install(self, tools: Tools, script: str | None = None) -> SetUpResult:
        """Plan, and do it."""
        return await set_up(self.workspace, await self.plan(tools, script))

    async def say(self, *argv: str, **env: str) -> str:
        """What a command of the skill writes."""
        command = Command(argv, skill="tiny-user", cwd="skills/tiny-user", env=env)
        ended = await (await self.workspace.start(command)).wait()
        return ended.stdout.text() + ended.stderr.text()


@asynccontextmanager
async def bench(tmp_path: Path, **files: str) -> AsyncGenerator[Bench]:
    folder = tmp_path / "tiny-user"
    (folder / "wheels").mkdir(parents=True)
    for version in ("1.0", "2.0"):
        name, data = wheel("tiny", version, f"VERSION = {version!r}\n")
        (folder / "wheels" / name).write_bytes(data)
    async with DirectoryExecutor(LocalBackend(), tmp_path / "state") as executor:
        made = Bench(executor, await executor.open("session"), folder)
        await made.stage(**files)
        yield made


@pytest.mark.slow
def test_requirements_are_installed_by_pip_and_found_by_the_skills_commands(tmp_path: Path) -> None:
    async def scene() -> tuple[SetUpResult, str, SetUpResult]:
        async with bench(tmp_path, requirements_txt="tiny==1.0\n") as made:
            first = await made.install(PIP)
            return first, await made.say("python3", "-c", SAY), await made.install(PIP)

    first, said, second = run(scene())
    assert (first.ready, first.changed, first.warnings) == (True, True, ())
    assert "Successfully installed tiny-1.0" in first.log
    assert said == "1.0\n"
    assert second == SetUpResult(ready=True, changed=False)


def test_requirements_that_change_are_installed_anew_by_uv(tmp_path: Path, uv: str) -> None:
    tools = Tools(uv=uv, index_arguments=INDEX)

    async def scene() -> list[tuple[bool, str]]:
        seen: list[tuple[bool, str]] = []
        async with bench(tmp_path, requirements_txt="tiny==1.0\n") as made:
            for files in ({}, {"notes_txt": "x"}, {"requirements_txt": "tiny==2.0\n"}, {"notes_txt": "y"}):
                await made.stage(**files)
                done = await made.install(tools)
                seen.append((done.changed, await made.say("python3", "-c", SAY)))
        return seen

    assert run(scene()) == [(True, "1.0\n"), (False, "1.0\n"), (True, "2.0\n"), (False, "2.0\n")]


def test_an_installation_that_was_broken_off_is_done_again(tmp_path: Path, uv: str) -> None:
    tools = Tools(uv=uv, index_arguments=INDEX)

    async def scene() -> tuple[bool, str]:
        async with bench(tmp_path, requirements_txt="tiny==1.0\n") as made:
            await made.install(tools)
            # As after a crash: an environment of ours, half empty, and nobody has noted that it is whole.
            await made.say("sh", "-c", f"rm {KEY}; find .venv -name 'tiny*' -delete; touch .venv/left-over")
            done = await made.install(tools)
            return done.changed, await made.say("sh", "-c", f'python3 -c "{SAY}"; ls .venv')

    changed, said = run(scene())
    assert changed
    assert said.startswith("1.0\n")
    assert "left-over" not in said


@pytest.mark.parametrize("content", ["python3 -m venv --without-pip .venv", "touch .venv/somebodys-own"])
def test_an_environment_that_the_skill_made_itself_is_left_alone(content: str, tmp_path: Path) -> None:
    async def scene() -> tuple[SetUpResult, str, str]:
        async with bench(tmp_path, requirements_txt="tiny\n") as made:
            await made.say("sh", "-c", content)
            before = await made.say("sh", "-c", "find .venv | sort")
            return await made.install(PIP), before, await made.say("sh", "-c", "find .venv | sort")

    done, before, after = run(scene())
    assert not done.ready
    assert done.warnings == ("requirements.txt was not installed: tiny-user has a .venv that it has made itself",)
    assert after == before


def test_without_a_network_for_set_up_nothing_is_tried_and_that_is_said(tmp_path: Path) -> None:
    async def scene() -> tuple[SetUpResult, str]:
        async with bench(tmp_path, requirements_txt="tiny\n") as made:
            return await made.install(Tools()), await made.say("sh", "-c", "ls -A .venv")

    done, left = run(scene())
    assert done.warnings == (
        "requirements.txt was not installed: set-up has no network; allow it the hosts of a package index",
    )
    assert (done.ready, done.changed, left) == (False, False, "")


def test_an_installation_that_fails_ends_with_the_installers_last_lines(tmp_path: Path, uv: str) -> None:
    tools = Tools(uv=uv, index_arguments=INDEX)

    async def scene() -> None:
        async with bench(tmp_path, requirements_txt="no-such-package\n") as made:
            await made.install(tools)

    message = r"^tiny-user: requirements\.txt cannot be installed: `.*uv pip install --no-progress` ended with 1\n"
    with pytest.raises(InvalidSkill, match=message + r"[\s\S]*no-such-package was not found"):
        run(scene())


def test_an_installation_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    async def scene() -> None:
        async with bench(tmp_path, requirements_txt="tiny\n") as made:
            limits = Limits(timeout=0.05, grace=0.05)
            await set_up(made.workspace, await made.plan(PIP), limits=limits)

    with pytest.raises(DeadlineExceeded, match=r"requirements\.txt cannot be installed: `\S+` took more than its time"):
        run(scene())


def test_two_at_once_install_once(tmp_path: Path, uv: str) -> None:
    tools = Tools(uv=uv, index_arguments=INDEX)

    async def scene() -> list[bool]:
        async with bench(tmp_path, requirements_txt="tiny==1.0\n") as made:
            both = await asyncio.gather(made.install(tools), made.install(tools))
            return sorted(done.changed for done in both)

    assert run(scene()) == [False, True]


def test_a_cancelled_installation_is_stopped_and_can_be_done_again(tmp_path: Path, uv: str) -> None:
    tools = Tools(uv=uv, index_arguments=INDEX)

    async def scene() -> tuple[str, bool]:
        async with bench(tmp_path, requirements_txt="tiny==1.0\n") as made:
            task = asyncio.create_task(made.install(tools))
            async with asyncio.timeout(20):
                while not (await made.workspace.list(["skills/tiny-user/.venv/pyvenv.cfg"])).files:
                    await asyncio.sleep(0.005)
            task.cancel()
            await asyncio.wait([task])
            left = await made.say("sh", "-c", f"ls {KEY} work/.cache/tmp 2>&1")
            # Where it was quicker than we were, there is nothing to do again.
            return left, (await made.install(tools)).ready

    left, again = run(scene())
    assert left.count("No such file") == 2
    assert again


def test_a_script_with_a_block_runs_in_the_environment_that_it_asks_for(tmp_path: Path, uv: str) -> None:
    tools = Tools(uv=uv, index_arguments=INDEX)

    async def scene() -> tuple[bool, bool, str]:
        async with bench(tmp_path, run_py=SCRIPT) as made:
            first = await made.install(tools, "run.py")
            second = await made.install(tools, "run.py")
            files = await declared(made.workspace, "tiny-user", "run.py")
            argv = with_uv(["python3", "run.py", "a b", "--c"], files, tools)
            said = await made.say(*argv, **uv_environment(made.workspace.root))
            return first.changed, second.changed, said

    assert run(scene()) == (True, False, "2.0\n['a b', '--c']\n")


def test_a_plan_without_steps_gives_its_warning(tmp_path: Path) -> None:
    async def scene() -> SetUpResult:
        async with bench(tmp_path, run_py=SCRIPT) as made:
            return await made.install(Tools(), "run.py")

    done = run(scene())
    assert not done.ready
    assert done.warnings[0].startswith("run.py asks for packages of its own (tiny), which needs uv")


def test_a_declaration_of_unreasonable_size_is_refused(tmp_path: Path) -> None:
    async def scene() -> None:
        async with bench(tmp_path, requirements_txt="#" * 2_000_000) as made:
            await made.plan(PIP)

    with pytest.raises(InvalidArgument, match=r"requirements\.txt: has 2,000,000 bytes"):
        run(scene())


def test_a_set_up_may_take_its_time() -> None:
    assert LIMITS.timeout > Limits().timeout
