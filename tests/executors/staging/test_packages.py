"""Scripts that ask for packages, run as users write them."""

import sys
from pathlib import Path

import pytest

from openskills.executors.local import LocalBackend
from openskills.executors.requests import RunRequest
from openskills.executors.workbench import Rules
from openskills.sync import run
from tests.executors.benches import demo, workbench
from tests.executors.wheels import wheel

BLOCK = """# /// script
# dependencies = ["tiny"]
# ///
import sys, tiny
print(tiny.VERSION, *sys.argv[1:])
"""
OFFLINE = Rules(index_arguments=("--no-index", "--find-links", "wheels"))


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
def test_a_script_with_a_block_finds_its_packages_however_it_is_called(tmp_path: Path) -> None:
    demo_with(tmp_path, run_py=BLOCK)

    async def scenario() -> None:
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

    run(scenario())


@pytest.mark.slow
def test_requirements_are_installed_when_that_is_asked_for(tmp_path: Path) -> None:
    demo_with(tmp_path, requirements_txt="tiny\n")

    async def scenario() -> None:
        async with workbench(tmp_path, OFFLINE, backend=uv_backend()) as bench:
            command = RunRequest("python3 -c 'import tiny; print(tiny.VERSION)'", skill="demo")
            assert (await bench.run(command)).exit_code == 1
            assert (await bench.install("demo")).changed
            assert not (await bench.install("demo")).changed
            assert (await bench.run(command)).stdout == "1.0\n"

    run(scenario())


def test_without_a_network_nothing_is_downloaded_and_a_warning_says_so(tmp_path: Path) -> None:
    demo_with(tmp_path, requirements_txt="tiny\n")

    async def scenario() -> None:
        async with workbench(tmp_path) as bench:
            result = await bench.install("demo")
            assert not result.ready
            assert "no network" in " ".join(result.warnings)

    run(scenario())


def test_a_skill_that_declares_nothing_is_ready(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with workbench(tmp_path) as bench:
            assert (await bench.install("demo")).ready
            assert (await bench.run(RunRequest("python3 -c 'print(1)'", skill="demo"))).stdout == "1\n"

    run(scenario())
