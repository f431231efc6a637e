"""Each promise about isolation is broken by an executor that only says that it isolates."""

import os
from pathlib import Path

import pytest

from openskills.executors.spec import Isolation
from openskills.sync import run
from openskills.testing import check_executor
from openskills.testing.executor_isolation import ISOLATION
from tests.testing.around import AroundExecutor, Broken, expect_broken, in_directory, promise_of, without_example


class Boasting(AroundExecutor):
    """Says that it is a sandbox."""

    isolation = Isolation.BUBBLEWRAP


BROKEN: list[Broken] = [
    (Boasting, "A command cannot write outside of its workspace", "a command reads a file outside of its workspace"),
    (Boasting, "A command cannot change a staged skill", "a command can do this to a skill: .*append"),
    (Boasting, "A command finds nothing of this process", "a command reads a file of this process through .*/proc/"),
    (Boasting, "Without hosts that it may reach", "it reached .'tcp', 'abstract', 'path'."),
    (Boasting, "A command is not root", "its user and group ids|new privileges"),
]


@pytest.mark.parametrize(("beginning", "said"), [row[1:] for row in BROKEN])
def test_an_executor_that_breaks_a_promise_about_isolation_is_told_which(
    beginning: str, said: str, tmp_path: Path
) -> None:
    expect_broken(Boasting, promise_of(ISOLATION, beginning), said, in_directory(tmp_path))


def test_looking_for_files_of_this_process_takes_nothing_out_of_its_pipes(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"meant for us")
        beginning = "A command finds nothing of this process"
        expect_broken(Boasting, promise_of(ISOLATION, beginning), "a command reads a file", in_directory(tmp_path))
        os.close(writing)
        writing = -1
        assert os.read(reading, 100) == b"meant for us"
    finally:
        for descriptor in (reading, writing):
            if descriptor >= 0:
                os.close(descriptor)


def test_every_promise_about_isolation_is_shown_to_be_breakable() -> None:
    assert not without_example(ISOLATION, BROKEN)


def test_who_does_not_say_that_it_isolates_is_not_held_to_it(tmp_path: Path) -> None:
    run(check_executor(in_directory(tmp_path), groups=["isolation"]))
