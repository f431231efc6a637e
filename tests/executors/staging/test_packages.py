"""Scripts that ask for packages, run as users write them.

What a skill declares becomes a plan: which commands, where, and when they have to be done again.

What a skill declares is installed in its workspace, once, by real installers and without a network.

A script's metadata block is found exactly where the specification says, and its faults are named by line.
"""

import asyncio
import re
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import DeadlineExceeded, InvalidArgument, InvalidSkill
from openskills.executors.commands import CommandRules
from openskills.executors.local import LocalBackend
from openskills.executors.requests import RunRequest
from openskills.executors.spec import Command, Limits
from openskills.executors.staging.packages import (
    KEY,
    LIMITS,
    PackageTools,
    ScriptMetadata,
    SetupPlan,
    SetupResult,
    build_uv_environment,
    find_blocks,
    find_requirement_files,
    find_script,
    parse_script_metadata,
    plan_setup,
    read_requirement_files,
    run_setup,
    wrap_with_uv,
)
from openskills.executors.workspace import DirectoryExecutor, DirectoryWorkspace
from tests.executors.benches import demo, workbench
from tests.executors.wheels import wheel

BLOCK = """# /// script
# dependencies = ["tiny"]
# ///
import sys, tiny
print(tiny.VERSION, *sys.argv[1:])
"""
OFFLINE = CommandRules(index_arguments=("--no-index", "--find-links", "wheels"))


def demo_with(state: Path, **files: str) -> None:
    folder = demo(state)
    (folder / "wheels").mkdir()
    name, data = wheel("tiny", "1.0", "VERSION = '1.0'\n")
    (folder / "wheels" / name).write_bytes(data)
    for file, text in files.items():
        (folder / file.replace("_", ".")).write_text(text)


def uv_backend() -> LocalBackend:
    # Beside the interpreter lies the uv of this repository's environment.
    return LocalBackend(python=Path(sys.executable))


@pytest.mark.slow
async def test_a_script_with_a_block_finds_its_packages_however_it_is_called(tmp_path: Path) -> None:
    demo_with(tmp_path, run_py=BLOCK)

    async with workbench(tmp_path, OFFLINE, backend=uv_backend()) as bench:
        assert (await bench.install("demo", script="run.py")).ready
        for command in (
            ("python3", "run.py", "a b"),
            "python3 run.py 'a b'",
            "python3 run.py a b | cat",
            'python3 run.py "a b" > out/said; cat out/said',
        ):
            result = await bench.run(RunRequest(command, skill="demo"))
            assert (result.stdout, result.exit_code) == ("1.0 a b\n", 0), result.stderr


@pytest.mark.slow
async def test_requirements_are_installed_when_that_is_asked_for(tmp_path: Path) -> None:
    demo_with(tmp_path, requirements_txt="tiny\n")

    async with workbench(tmp_path, OFFLINE, backend=uv_backend()) as bench:
        command = RunRequest("python3 -c 'import tiny; print(tiny.VERSION)'", skill="demo")
        assert (await bench.run(command)).exit_code == 1
        assert (await bench.install("demo")).changed
        assert not (await bench.install("demo")).changed
        assert (await bench.run(command)).stdout == "1.0\n"


async def test_without_a_network_nothing_is_downloaded_and_a_warning_says_so(tmp_path: Path) -> None:
    demo_with(tmp_path, requirements_txt="tiny\n")

    async with workbench(tmp_path) as bench:
        result = await bench.install("demo")
        assert not result.ready
        assert "no network" in " ".join(result.warnings)


async def test_a_skill_that_declares_nothing_is_ready(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        assert (await bench.install("demo")).ready
        assert (await bench.run(RunRequest("python3 -c 'print(1)'", skill="demo"))).stdout == "1\n"


UV = PackageTools(uv="/opt/uv")
SCRIPT = b'# /// script\n# dependencies = ["rich"]\n# ///\nprint(1)\n'


def planned(files: dict[str, bytes], script: str | None = None, tools: PackageTools = UV) -> SetupPlan:
    found = plan_setup("pdf", files, script=script, tools=tools)
    assert found is not None
    return found


def key(files: dict[str, bytes], tools: PackageTools = UV) -> str:
    return planned(files, tools=tools).key


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"requirements.txt": b"\n# nothing yet\n  \n"},
        {"pyproject.toml": b"[tool.ruff]\nline-length = 100\n"},
        {"pyproject.toml": b"[project]\nname = 'x'\ndependencies = []\n"},
        {"requirements.txt": b"", "pyproject.toml": b"[project]\ndependencies = ['rich']\n"},
    ],
)
def test_a_skill_that_declares_nothing_needs_nothing(files: dict[str, bytes]) -> None:
    assert plan_setup("pdf", files, tools=UV) is None


def test_requirements_go_into_a_new_venv_by_uv() -> None:
    found = planned({"requirements.txt": b"rich\n"})
    assert [(step.argv, step.downloads) for step in found.steps] == [
        (("find", ".venv", "-mindepth", "1", "-delete"), False),
        (("python3", "-m", "venv", "--prompt", "openskills", "--without-pip", ".venv"), False),
        (
            ("/opt/uv", "pip", "install", "--no-progress", "--python", ".venv/bin/python", "-r", "requirements.txt"),
            True,
        ),
    ]


def test_without_uv_they_are_installed_by_pip_and_from_the_index_that_was_given() -> None:
    tools = PackageTools(python="python3.12", index_arguments=("--no-index", "--find-links", "wheels"))
    _, venv, install = planned({"requirements.txt": b"rich\n"}, tools=tools).steps
    assert venv.argv == ("python3.12", "-m", "venv", "--prompt", "openskills", ".venv")
    assert install.argv[:4] == (".venv/bin/python", "-m", "pip", "install")
    assert install.argv[-5:] == ("--no-index", "--find-links", "wheels", "-r", "requirements.txt")


def test_the_dependencies_of_a_project_are_installed_when_there_are_no_requirements() -> None:
    found = planned({"pyproject.toml": b"[project]\nname='x'\ndependencies = ['rich', 'httpx>=1']\n"})
    assert found.source == "pyproject.toml"
    assert found.steps[-1].argv[-3:] == ("--", "rich", "httpx>=1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[project\n", "is not valid TOML"),
        (b"[project]\ndependencies = 'rich'\n", "must be a list"),
        (b"[project]\ndependencies = ['--index-url=x']\n", "must be a list"),
        (b"[project]\ndependencies = [1]\n", "must be a list"),
        (b"\xff\xfe", "is not UTF-8"),
    ],
)
def test_a_project_that_cannot_be_read_is_named(text: bytes, message: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"pyproject\.toml: .*{message}"):
        plan_setup("pdf", {"pyproject.toml": text}, tools=UV)


def test_the_key_changes_with_everything_that_is_asked_for_and_with_nothing_else() -> None:
    one = {"requirements.txt": b"-r base.txt\nrich\n", "base.txt": b"httpx\n"}
    assert key(one) == key({**one, "SKILL.md": b"changed"})
    assert key(one) == key(one, PackageTools(uv="/elsewhere/uv", index_arguments=("--no-index",)))
    others = [
        {**one, "requirements.txt": b"-r base.txt\nrich==1\n"},
        {**one, "base.txt": b"httpx==1\n"},
        {"requirements.txt": b"-r base.txt\nrich\n"},
    ]
    keys = [key(one), *(key(other) for other in others), key(one, PackageTools(python="python3.13"))]
    assert len(set(keys)) == len(keys)


def test_files_that_requirements_include_are_found_and_those_beyond_the_skill_are_not() -> None:
    files = {
        "requirements.txt": b"-r reqs/a.txt # with a remark\n--constraint=c.txt\n-rshort.txt\nrich\n-r ../out.txt\n",
        "reqs/a.txt": b"--requirement b.txt\n-r /etc/passwd\n-r https://example.org/r.txt\n-c \\\n  'd d.txt'\n",
        "reqs/b.txt": b"-r a.txt\n-r ../requirements.txt\n",
    }
    assert set(find_requirement_files(files)) == {
        *("requirements.txt", "reqs/a.txt", "reqs/b.txt", "reqs/d d.txt", "c.txt", "short.txt", "pyproject.toml")
    }


def test_requirements_that_include_ever_more_files_come_to_an_end() -> None:
    files = {"requirements.txt": b"-r 0.txt\n"} | {f"{n}.txt": f"-r {n + 1}.txt\n".encode() for n in range(1000)}
    assert len(list(find_requirement_files(files))) < 60


def test_a_script_with_a_block_gets_an_environment_of_its_own() -> None:
    files = {"requirements.txt": b"httpx\n", "scripts/run.py": SCRIPT}
    found = planned(files, "scripts/run.py", PackageTools(uv="uv", index_arguments=("--no-index",)))
    assert [step.argv for step in found.steps] == [
        ("uv", "sync", "--script", "scripts/run.py", "--no-progress", "--no-index")
    ]
    assert not found.has_venv
    assert found.marker != planned({**files, "b.py": SCRIPT}, "b.py").marker
    assert found.key != planned({"scripts/run.py": SCRIPT.replace(b"rich", b"rich<9")}, "scripts/run.py").key


@pytest.mark.parametrize("text", [b"print(1)\n", b"# /// script\n# dependencies = []\n# ///\n", b"\xff# latin\n"])
def test_a_script_that_asks_for_nothing_uses_what_the_skill_has(text: bytes) -> None:
    files = {"requirements.txt": b"httpx\n", "run.py": text}
    assert planned(files, "run.py") == planned(files)
    assert plan_setup("pdf", {"run.py": text}, script="run.py", tools=UV) is None


def test_without_uv_a_block_is_answered_with_the_remedy() -> None:
    found = planned({"run.py": SCRIPT}, "run.py", PackageTools())
    assert found.steps == ()
    assert found.warnings == (
        (
            "run.py declares packages (rich), which needs uv; install uv where commands can find it "
            "(pip install uv), or list the packages in requirements.txt"
        ),
    )
    both = planned({"run.py": SCRIPT, "requirements.txt": b"rich\n"}, "run.py", PackageTools())
    assert both.has_venv
    assert len(both.steps) == 3
    assert both.warnings == found.warnings


def test_a_faulty_block_is_named_with_script_and_line() -> None:
    with pytest.raises(InvalidArgument, match=r"^scripts/run\.py: line 2: "):
        plan_setup("pdf", {"scripts/run.py": b"# /// script\n# x = =\n# ///\n"}, script="./scripts/run.py", tools=UV)


@pytest.mark.parametrize(
    ("argv", "script"),
    [
        (["python3", "a.py", "x"], "a.py"),
        (["/usr/bin/python3.12", "scripts/a.py"], "scripts/a.py"),
        (["./a.py", "b.py"], "./a.py"),
        (["python", "-u", "a.py"], None),
        (["python3", "-m", "a.py"], None),
        (["python3"], None),
        (["pythonic", "a.py"], None),
        (["bash", "-c", "python3 a.py"], None),
        (["node", "a.py"], None),
        ([], None),
    ],
)
def test_the_script_of_a_command_line_is_recognised(argv: list[str], script: str | None) -> None:
    assert find_script(argv) == script


def test_a_script_with_a_block_is_run_by_uv_offline() -> None:
    files = {"a.py": SCRIPT, "b.py": b"print(1)\n"}
    ran = ("/opt/uv", "run", "--offline", "--script")
    assert wrap_with_uv(["python3", "a.py", "x", "-v"], files, UV) == (*ran, "a.py", "x", "-v")
    assert wrap_with_uv(["./a.py", "x"], files, UV) == (*ran, "./a.py", "x")


@pytest.mark.parametrize("argv", [["python3", "b.py"], ["ls", "a.py"], ["python3", "missing.py"], []])
def test_any_other_command_stays_as_it_is(argv: list[str]) -> None:
    files = {"a.py": SCRIPT, "b.py": b"print(1)\n"}
    assert wrap_with_uv(argv, files, UV) == tuple(argv)
    assert wrap_with_uv(["python3", "a.py"], files, PackageTools()) == ("python3", "a.py")


def test_uv_keeps_its_things_in_the_workspace() -> None:
    assert build_uv_environment("/workspace", "pdf")["UV_CACHE_DIR"] == "/workspace/skills/pdf/.venv/.uv"


INDEX = ("--no-index", "--find-links", "wheels")
PIP = PackageTools(index_arguments=INDEX)
SAY = "import tiny; print(tiny.VERSION)"
INSTALLING_SCRIPT = f'# /// script\n# dependencies = ["tiny"]\n# ///\nimport sys\n{SAY}\nprint(sys.argv[1:])\n'


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

    async def plan(self, tools: PackageTools, script: str | None = None) -> SetupPlan:
        """What the skill needs now."""
        files = await read_requirement_files(self.workspace, "tiny-user", *([script] if script else []))
        found = plan_setup("tiny-user", files, script=script, tools=tools)
        assert found is not None
        return found

    async def install(self, tools: PackageTools, script: str | None = None) -> SetupResult:
        """Plan, and do it."""
        return await run_setup(self.workspace, await self.plan(tools, script))

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
async def test_requirements_are_installed_by_pip_and_found_by_the_skills_commands(tmp_path: Path) -> None:
    async def scene() -> tuple[SetupResult, str, SetupResult]:
        async with bench(tmp_path, requirements_txt="tiny==1.0\n") as made:
            first = await made.install(PIP)
            return first, await made.say("python3", "-c", SAY), await made.install(PIP)

    first, said, second = await scene()
    assert (first.ready, first.changed, first.warnings) == (True, True, ())
    assert "Successfully installed tiny-1.0" in first.log
    assert said == "1.0\n"
    assert second == SetupResult(ready=True, changed=False)


async def test_requirements_that_change_are_installed_anew_by_uv(tmp_path: Path, uv: str) -> None:
    tools = PackageTools(uv=uv, index_arguments=INDEX)

    seen: list[tuple[bool, str]] = []
    async with bench(tmp_path, requirements_txt="tiny==1.0\n") as made:
        for files in ({}, {"notes_txt": "x"}, {"requirements_txt": "tiny==2.0\n"}, {"notes_txt": "y"}):
            await made.stage(**files)
            done = await made.install(tools)
            seen.append((done.changed, await made.say("python3", "-c", SAY)))

    assert seen == [(True, "1.0\n"), (False, "1.0\n"), (True, "2.0\n"), (False, "2.0\n")]


async def test_an_installation_that_was_broken_off_is_done_again(tmp_path: Path, uv: str) -> None:
    tools = PackageTools(uv=uv, index_arguments=INDEX)

    async with bench(tmp_path, requirements_txt="tiny==1.0\n") as made:
        await made.install(tools)
        # As after a crash: an environment of ours, half empty, and nobody has noted that it is whole.
        await made.say("sh", "-c", f"rm {KEY}; find .venv -name 'tiny*' -delete; touch .venv/left-over")
        done = await made.install(tools)
        changed, said = done.changed, await made.say("sh", "-c", f'python3 -c "{SAY}"; ls .venv')

    assert changed
    assert said.startswith("1.0\n")
    assert "left-over" not in said


@pytest.mark.parametrize("content", ["python3 -m venv --without-pip .venv", "touch .venv/somebodys-own"])
async def test_an_environment_that_the_skill_made_itself_is_left_alone(content: str, tmp_path: Path) -> None:
    async def scene() -> tuple[SetupResult, str, str]:
        async with bench(tmp_path, requirements_txt="tiny\n") as made:
            await made.say("sh", "-c", content)
            before = await made.say("sh", "-c", "find .venv | sort")
            return await made.install(PIP), before, await made.say("sh", "-c", "find .venv | sort")

    done, before, after = await scene()
    assert not done.ready
    assert done.warnings == ("requirements.txt was not installed: tiny-user has its own .venv",)
    assert after == before


async def test_without_a_network_for_set_up_nothing_is_tried_and_that_is_said(tmp_path: Path) -> None:
    async with bench(tmp_path, requirements_txt="tiny\n") as made:
        done, left = await made.install(PackageTools()), await made.say("sh", "-c", "ls -A .venv")

    assert done.warnings == (
        "requirements.txt was not installed: setup has no network access; allow the hosts of a package index",
    )
    assert (done.ready, done.changed, left) == (False, False, "")


async def test_an_installation_that_fails_ends_with_the_installers_last_lines(tmp_path: Path, uv: str) -> None:
    tools = PackageTools(uv=uv, index_arguments=INDEX)

    async def scene() -> None:
        async with bench(tmp_path, requirements_txt="no-such-package\n") as made:
            await made.install(tools)

    message = r"^tiny-user: cannot install requirements\.txt: `.*uv pip install --no-progress` failed with exit code 1"
    with pytest.raises(InvalidSkill, match=message + r"[\s\S]*no-such-package was not found"):
        await scene()


async def test_an_installation_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    async def scene() -> None:
        async with bench(tmp_path, requirements_txt="tiny\n") as made:
            limits = Limits(timeout=0.05, grace=0.05)
            await run_setup(made.workspace, await made.plan(PIP), limits=limits)

    with pytest.raises(DeadlineExceeded, match=r"cannot install requirements\.txt: `\S+` timed out"):
        await scene()


async def test_two_at_once_install_once(tmp_path: Path, uv: str) -> None:
    tools = PackageTools(uv=uv, index_arguments=INDEX)

    async with bench(tmp_path, requirements_txt="tiny==1.0\n") as made:
        both = await asyncio.gather(made.install(tools), made.install(tools))
        result = sorted(done.changed for done in both)

    assert result == [False, True]


async def test_a_cancelled_installation_is_stopped_and_can_be_done_again(tmp_path: Path, uv: str) -> None:
    tools = PackageTools(uv=uv, index_arguments=INDEX)

    async def scene() -> tuple[str, bool]:
        async with bench(tmp_path, requirements_txt="tiny==1.0\n") as made:
            task = asyncio.create_task(made.install(tools))
            async with asyncio.timeout(20):
                while not (await made.workspace.list(["skills/tiny-user/.venv/pyvenv.cfg"])).files:
                    await asyncio.sleep(0.005)
            task.cancel()
            await asyncio.wait([task])
            left = await made.say("sh", "-c", f"ls {KEY} 2>&1")
            # Where it was quicker than we were, there is nothing to do again.
            return left, (await made.install(tools)).ready

    left, again = await scene()
    assert "No such file" in left
    assert again


async def test_a_script_with_a_block_runs_in_the_environment_that_it_asks_for(tmp_path: Path, uv: str) -> None:
    tools = PackageTools(uv=uv, index_arguments=INDEX)

    async with bench(tmp_path, run_py=INSTALLING_SCRIPT) as made:
        first = await made.install(tools, "run.py")
        second = await made.install(tools, "run.py")
        files = await read_requirement_files(made.workspace, "tiny-user", "run.py")
        argv = wrap_with_uv(["python3", "run.py", "a b", "--c"], files, tools)
        said = await made.say(*argv, **build_uv_environment(made.workspace.root, "tiny-user"))
        result = first.changed, second.changed, said

    assert result == (True, False, "2.0\n['a b', '--c']\n")


async def test_a_plan_without_steps_gives_its_warning(tmp_path: Path) -> None:
    async with bench(tmp_path, run_py=INSTALLING_SCRIPT) as made:
        done = await made.install(PackageTools(), "run.py")

    assert not done.ready
    assert done.warnings[0].startswith("run.py declares packages (tiny), which needs uv")


async def test_a_declaration_of_unreasonable_size_is_refused(tmp_path: Path) -> None:
    async def scene() -> None:
        async with bench(tmp_path, requirements_txt="#" * 2_000_000) as made:
            await made.plan(PIP)

    with pytest.raises(InvalidArgument, match=r"requirements\.txt: has 2,000,000 bytes"):
        await scene()


def test_a_set_up_may_take_its_time() -> None:
    assert LIMITS.timeout > Limits().timeout


# The expression of the specification.
REFERENCE = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")

PEP723_SCRIPT = """\
#!/usr/bin/env python3
'''Says something.'''
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "requests<3",
#   "rich",
# ]
#
# [tool.uv]
# exclude-newer = "2025-01-01T00:00:00Z"
# ///
import requests
"""


def test_the_block_of_a_script_is_read() -> None:
    found = parse_script_metadata(PEP723_SCRIPT)
    assert found is not None
    assert (found.dependencies, found.requires_python, found.line) == (("requests<3", "rich"), ">=3.11", 3)
    assert found.tool == {"uv": {"exclude-newer": "2025-01-01T00:00:00Z"}}


def test_a_script_with_other_line_ends_is_read_alike() -> None:
    assert parse_script_metadata(PEP723_SCRIPT.replace("\n", "\r\n")) == parse_script_metadata(PEP723_SCRIPT)


def test_an_empty_block_asks_for_nothing() -> None:
    assert parse_script_metadata("# /// script\n#\n# ///") == ScriptMetadata((), None, {}, 1, "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "print()",
        "# /// script\n# dependencies = []\n",
        "# /// script\n# dependencies = []\nprint()\n# ///\n",
        "# /// script\n#dependencies = []\n# ///\n",
        "# /// script\n# ///\n",
        " # /// script\n# a = 1\n# ///\n",
        "# /// script \n# a = 1\n# ///\n",
        "#/// script\n# a = 1\n# ///\n",
        "# //// script\n# a = 1\n# ///\n",
        "# /// other\n# a = 1\n# ///\n",
        "# /// script\n# a = 1\n# /// \n",
    ],
)
def test_what_is_no_closed_script_block_is_none(text: str) -> None:
    assert parse_script_metadata(text) is None


def test_blocks_of_other_types_are_left_to_others() -> None:
    found = parse_script_metadata("# /// some-other\n# not toml at all\n# ///\n\n" + PEP723_SCRIPT)
    assert found is not None
    assert found.line == 7


def test_a_closing_line_inside_the_run_of_comments_belongs_to_the_content() -> None:
    with pytest.raises(InvalidArgument, match="script: line 3: the `script` block is not valid TOML"):
        parse_script_metadata("# /// script\n# dependencies = []\n# ///\n# a = 1\n# ///\n")


def test_a_second_block_is_refused_with_both_lines() -> None:
    with pytest.raises(InvalidArgument, match=r"run\.py: line 14: second `script` block, the first is at line 3"):
        parse_script_metadata(PEP723_SCRIPT + PEP723_SCRIPT.partition("'''\n")[2], name="run.py")


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("# a = 1\n# b = = 2", 3, "is not valid TOML: Invalid value"),
        ("# a = 1\n# a = 2", 3, "is not valid TOML: Cannot overwrite"),
        ("# x = '''never closed", 2, "is not valid TOML: "),
        ("# a = 1\n# dependencies = 'requests'", 3, "`dependencies` must be a list of strings"),
        ("#\n# dependencies = ['a', 1]", 3, "`dependencies` must be a list of strings"),
        ("# requires-python = 3.11", 2, "`requires-python` must be a string"),
        ("# tool = 'uv'", 2, "`tool` must be a table"),
        ("# [[tool]]", 2, "`tool` must be a table"),
        ("# x = " + "[" * 5000, 1, "nested too deeply"),
        ("# x = '" + "y" * 70_000 + "'", 1, "more than 65,536 characters"),
    ],
)
def test_a_fault_in_the_block_is_named_with_its_line(content: str, line: int, message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^script: line {line}: .*{re.escape(message)}") as error:
        parse_script_metadata(f"# /// script\n{content}\n# ///\n")
    assert "at line" not in str(error.value)


LINES = st.sampled_from(
    ["# /// script", "# /// x-1", "# ///", "#", "# a = 1", "# b = 2", "#c", "", "print()", "# /// ", " # ///", "#  ///"]
)


@given(st.lists(LINES, max_size=12), st.booleans())
def test_the_same_blocks_are_found_as_by_the_expression_of_the_specification(lines: list[str], ends: bool) -> None:
    text = "\n".join(lines) + ("\n" if ends else "")
    expected = [
        (text.count("\n", 0, match.start()) + 1, match["type"], match["content"].splitlines())
        for match in REFERENCE.finditer(text)
    ]
    assert find_blocks(text) == expected


def test_a_long_file_of_opening_lines_is_read_to_its_end() -> None:
    # The expression of the specification would need hours for it.
    assert parse_script_metadata("# /// script\n" * 200_000) is None
