"""The interpreter that commands find as `python` and as `python3`."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.bubblewrap.backend import SandboxBackend
from openskills.executors.landlock import LandlockBackend
from openskills.executors.local import LocalBackend
from openskills.executors.open import open_executor
from openskills.executors.protocol import LINKS, Backend, Interpreter
from openskills.executors.workspace import DirectoryExecutor
from openskills.settings import Settings
from openskills.testing.executor import check_executor
from tests.conftest import RequireProgram

REAL = os.path.realpath(Interpreter.base().path)
ISOLATED: dict[str, Callable[[Path], Backend]] = {
    "sandbox": lambda python: SandboxBackend(python=python),
    "landlock": lambda python: LandlockBackend(python=python),
    "local": lambda python: LocalBackend(python=python),
}


def named(directory: Path, **targets: str) -> Path:
    """A directory with these links."""
    directory.mkdir(parents=True)
    for name, target in targets.items():
        (directory / name).symlink_to(target)
    return directory


def test_a_directory_that_has_both_names_is_all_that_is_needed(tmp_path: Path) -> None:
    found = Interpreter(named(tmp_path / "bin", python=REAL, python3=REAL) / "python3")
    assert found.links == {}
    assert found.search_path() == (str(tmp_path / "bin"),)
    found.link_in(tmp_path / "links")
    assert not (tmp_path / "links").exists()


@pytest.mark.parametrize(
    ("there", "missing"),
    [
        ({"python3": REAL}, {"python"}),
        ({"python3.99": REAL}, {"python", "python3"}),
        ({"python3.99": REAL, "python3": "/bin/sh", "python": REAL}, {"python3"}),
        ({"python3": REAL, "python": "/nowhere"}, {"python"}),
    ],
)
def test_a_name_that_is_missing_or_another_program_is_a_link_that_comes_first(
    there: dict[str, str], missing: set[str], tmp_path: Path
) -> None:
    directory = named(tmp_path / "bin", **there)
    found = Interpreter(directory / next(iter(there)))
    assert found.links == dict.fromkeys(missing, REAL)
    assert found.search_path() == (LINKS, str(directory))
    assert found.search_path("/elsewhere") == ("/elsewhere", str(directory))


def test_links_are_made_again_when_the_interpreter_has_changed(tmp_path: Path) -> None:
    links = named(tmp_path / "links", python="/old/python")
    (links / "python3").write_text("no link")
    found = Interpreter(named(tmp_path / "bin", only=REAL) / "only")
    for _ in range(2):
        found.link_in(links)
        assert {name: os.readlink(links / name) for name in os.listdir(links)} == {"python": REAL, "python3": REAL}


def test_a_virtual_environment_is_used_by_its_own_names_also_when_they_are_copies(tmp_path: Path) -> None:
    directory = named(tmp_path / "env" / "bin", python=REAL)
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    (directory / "python3").write_text("a copy")
    found = Interpreter(directory / "python")
    assert found.links == {}
    assert found.directories == (Path(REAL).parents[1], tmp_path / "env")


def test_only_a_directory_with_a_standard_library_is_shown_to_commands(tmp_path: Path) -> None:
    home = named(tmp_path / "home" / "bin")
    (home / "python3").write_text("#!/bin/sh")
    (home / "python3").chmod(0o755)
    assert Interpreter(home / "python3").directories == ()
    assert Interpreter.base().directories == (Path(REAL).parents[1],)


def test_what_cannot_be_an_interpreter_is_refused_with_the_variable(tmp_path: Path) -> None:
    script = tmp_path / "bin" / "python3"
    script.parent.mkdir()
    script.write_text("#!/bin/sh")
    script.chmod(0o755)
    for wrong in (tmp_path / "missing", tmp_path, script):
        with pytest.raises(InvalidArgument, match=f"{wrong}.*OPENSKILL_PYTHON"):
            Interpreter.choose(wrong)
    assert Interpreter.choose(None) is None
    with pytest.raises(InvalidArgument, match="OPENSKILL_PYTHON"):
        open_executor("local", Settings.from_env({"OPENSKILL_PYTHON": str(script)}))


def test_by_default_it_is_the_one_we_run_on() -> None:
    assert Interpreter.ours().path == Path(sys.executable)
    assert os.path.realpath(sys.executable) == REAL


@pytest.mark.parametrize("name", ISOLATED)
async def test_commands_find_both_names_where_the_interpreter_has_neither(
    name: str, tmp_path: Path, require_program: RequireProgram
) -> None:
    if name == "sandbox":
        require_program("bwrap")
    tmp_path.chmod(0o755)
    alone = named(tmp_path / "alone", interpreter=REAL) / "interpreter"
    make = ISOLATED[name]
    await check_executor(lambda: DirectoryExecutor(make(alone), tmp_path / "state"), groups=["environment"])
