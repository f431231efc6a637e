import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.executors.container.engine import Engine
from openskills.executors.container.spec import HOST_LABEL, WORKSPACE_LABEL, ContainerOptions, Image, Session, creation
from openskills.executors.container.sweep import HostMark, sweep
from tests.container_engine import TestEngine
from tests.executors.containers import UID, made_tree

PRINT_MARK = "from openskills.executors.container.sweep import HostMark; print(HostMark.ours(), flush=True); input()"


@contextmanager
def other_process() -> Generator[HostMark]:
    """The mark of a process that lives as long as the block."""
    command = [sys.executable, "-c", PRINT_MARK]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        mark = HostMark.parse(process.stdout.readline().strip())
        assert mark
        try:
            yield mark
        finally:
            process.kill()


def test_a_mark_can_be_written_on_a_container_and_read_again() -> None:
    assert HostMark.parse(str(HostMark.ours())) == HostMark.ours()
    assert HostMark.ours().pid == os.getpid()


@pytest.mark.parametrize("text", ["", "1", "1 2 3", "a b c d", "1 2 3 4 5", "-1 2 boot ns"])
def test_a_label_of_somebody_else_is_no_mark(text: str) -> None:
    assert HostMark.parse(text) is None


def test_a_process_is_dead_when_it_has_ended_or_another_has_its_number() -> None:
    with other_process() as mark:
        assert not mark.is_dead()
        assert replace(mark, started=mark.started + 1).is_dead()
        assert replace(mark, boot="an-earlier-boot").is_dead()
    assert mark.is_dead()
    assert not replace(mark, namespace="pid:[1]").is_dead(), "it cannot be seen from here"


def test_containers_of_dead_hosts_are_removed_and_those_of_living_ones_stay(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    tree = made_tree(tmp_path, UID)
    for name in ("passwd", "group", "resolv.conf"):
        (tmp_path / name).touch()
    engine = Engine(container_engine.address)
    image = Image(container_engine.image)

    def made(mark: object) -> str:
        labels = ((WORKSPACE_LABEL, tmp_path.name), (HOST_LABEL, str(mark)))
        return engine.create(
            creation(ContainerOptions(), image, Session(str(tree), str(tmp_path), UID, UID, (), labels))
        )

    with other_process() as mark:
        doomed = made(mark)
    ours, foreign = made(HostMark.ours()), made("somebody else")
    try:
        removed = sweep(engine)
        left = [found for found, _ in engine.labelled(f"{WORKSPACE_LABEL}={tmp_path.name}")]
        assert doomed in removed
        assert sorted(left) == sorted([ours, foreign])
    finally:
        for container in (ours, foreign, doomed):
            engine.remove(container)
        engine.close()
