"""Commands of a shell are started without it, and nobody can tell."""

import os
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.processes.keeping import Keeper, Launch
from openskills.executors.processes.starting import started
from openskills.sync import run

NO_SHEBANG = 'if [[ -n "$BASH_VERSION" ]]; then echo "bash has read me"; fi\n'


def output(directory: Path, *argv: str, **variables: str) -> tuple[int, str]:
    """How a command ended, and what it wrote to its two streams."""

    async def scenario() -> int:
        keeper = await Keeper.begin()
        try:
            with (directory / "printed").open("wb") as printed:
                env = {"PATH": f"{directory}/bin:{os.defpath}", **variables}
                launch = Launch(argv, env, str(directory), {1: printed.fileno(), 2: printed.fileno()})
                kept = await started(keeper.start, launch)
            return (await kept.exited()).status
        finally:
            await keeper.close()

    return run(scenario()), (directory / "printed").read_text()


def test_no_shell_is_left_around_the_program_and_it_knows_where_it_is(tmp_path: Path) -> None:
    status, text = output(tmp_path, "bash", "-c", "env")
    assert status == 0
    assert f"PWD={tmp_path}\n" in text
    # What bash sets when it is there.
    assert "SHLVL" not in text


def test_what_needs_the_shell_has_it(tmp_path: Path) -> None:
    assert output(tmp_path, "bash", "-c", "echo $BASH | cat")[1].endswith("bash\n")


@pytest.mark.parametrize(
    ("command", "status", "says"),
    [
        ("nosuch --flag", 127, "bash: line 1: nosuch: command not found\n"),
        ("./locked x", 126, "bash: line 1: ./locked: Permission denied\n"),
        ("./folder", 126, "bash: line 1: ./folder: Is a directory\n"),
        ("./plain", 0, "bash has read me\n"),
        ("plain", 0, "bash has read me\n"),
    ],
)
def test_what_cannot_be_started_is_left_to_the_shell(tmp_path: Path, command: str, status: int, says: str) -> None:
    (tmp_path / "locked").write_text("#!/bin/sh\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "bin").mkdir()
    for place in (tmp_path, tmp_path / "bin"):
        (place / "plain").write_text(NO_SHEBANG)
        (place / "plain").chmod(0o755)
    assert output(tmp_path, "bash", "-c", command) == (status, says)


def test_a_command_that_is_no_text_and_cannot_be_started_is_an_error_as_ever(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument):
        output(tmp_path, "nosuch")
