"""Each promise about what a command finds can be broken, and then it is said which."""

from dataclasses import replace
from pathlib import Path

import pytest

from openskills.executors.spec import Command
from openskills.sync import run
from openskills.testing.executor import check_promises
from openskills.testing.executor_environment import ENVIRONMENT
from tests.testing.around import (
    AroundWorkspace,
    Broken,
    Part,
    expect_broken,
    in_directory,
    promise_of,
    without_example,
)


class Leaking(AroundWorkspace):
    """Gives a command what is its own."""

    def changed(self, command: Command) -> Command:
        return replace(command, env={**command.env, "HOST_TOKEN": "x"})


class Elsewhere(AroundWorkspace):
    """Has one directory for all runs."""

    def changed(self, command: Command) -> Command:
        return replace(command, run_dir="runs/all")


class AtHome(AroundWorkspace):
    """Starts everything in the workspace itself."""

    def changed(self, command: Command) -> Command:
        return replace(command, cwd=".")


class Secretive(AroundWorkspace):
    """Keeps secrets to itself."""

    def changed(self, command: Command) -> Command:
        return replace(command, secrets={})


class Overruled(AroundWorkspace):
    """Lets the caller say where everything is."""

    def changed(self, command: Command) -> Command:
        given = (f"{name}={value}" for name, value in command.env.items() if name != "PATH")
        return replace(command, argv=("env", *given, *command.argv))


class Debian(AroundWorkspace):
    """Has the interpreter under one name only."""

    def changed(self, command: Command) -> Command:
        return replace(command, argv=("sh", "-c", "exit 127")) if command.argv[0] == "python" else command


class Stripping(AroundWorkspace):
    """Drops arguments that are empty."""

    def changed(self, command: Command) -> Command:
        return replace(command, argv=tuple(argument for argument in command.argv if argument))


BROKEN: list[Broken] = [
    (Leaking, "A command sees the documented variables and nothing else", "it sees HOST_TOKEN"),
    (Elsewhere, "The documented variables lead to the places", "RUN_DIR is '.*/runs/all' and not '.*/runs/check-None'"),
    (AtHome, "A command begins in its directory", "the directory 'work/sub dir' begins in another one"),
    (Secretive, "What the caller gives arrives unchanged", "API_TOKEN is 'None' and not 's3cret"),
    (Overruled, "What the caller gives never takes the place", "the caller's value is that of WORKSPACE_DIR"),
    (Debian, "`python` and `python3` are the same interpreter", "python does not run: .*exit code 127"),
    (Stripping, "Arguments arrive as they are", "other arguments arrived"),
]


@pytest.mark.parametrize(("part", "beginning", "said"), BROKEN)
def test_an_executor_that_breaks_a_promise_about_the_environment_is_told_which(
    part: Part, beginning: str, said: str, tmp_path: Path
) -> None:
    expect_broken(part, promise_of(ENVIRONMENT, beginning), said, in_directory(tmp_path))


def test_every_promise_about_the_environment_is_shown_to_be_breakable() -> None:
    assert not without_example(ENVIRONMENT, BROKEN)


def test_a_variable_of_this_process_is_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSKILL_CHECK_PLANTED", "x")
    promise = promise_of(ENVIRONMENT, "A command sees the documented variables and nothing else")
    run(check_promises(in_directory(tmp_path), [promise], patience=60.0))
