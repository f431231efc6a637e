import asyncio
import os
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.processes.streams import Reader
from openskills.executors.spec import Command
from openskills.sync import run
from tests.executors.running import shell, starter


class Ear:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard = b""

    def __call__(self, data: bytes) -> bool:
        self.heard += data
        return False


def test_what_was_written_before_the_other_side_ended_is_read_to_its_end() -> None:
    async def scenario() -> None:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        hear = Ear()
        reader = Reader(reading, hear)
        os.write(writing, b"last words")
        os.close(writing)
        reader.drain()
        assert (hear.heard, reader.fault, reader.descriptor) == (b"last words", None, -1)

    run(scenario())


def test_the_end_of_a_terminal_is_no_fault() -> None:
    async def scenario() -> None:
        master, slave = os.openpty()
        os.set_blocking(master, False)
        hear = Ear()
        reader = Reader(master, hear)
        os.write(slave, b"typed")
        os.close(slave)
        reader.drain()
        assert (hear.heard, reader.fault) == (b"typed", None)

    run(scenario())


def test_a_descriptor_that_became_somebody_elses_is_a_fault_and_stays_open(tmp_path: Path) -> None:
    async def scenario() -> None:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        reader = Reader(reading, Ear())
        directory = os.open(tmp_path, os.O_RDONLY)
        try:
            asyncio.get_running_loop().remove_reader(reading)
            os.dup2(directory, reading)
            reader.drain()
            assert reader.fault is not None
            assert os.path.samestat(os.fstat(reading), os.fstat(directory))
        finally:
            for descriptor in (directory, reading, writing):
                os.close(descriptor)

    run(scenario())


def test_a_command_whose_output_cannot_be_read_is_no_command_without_output(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with starter(tmp_path) as commands:
            before = set(os.listdir("/proc/self/fd"))
            process = await commands.start(Command(shell("read line; echo $line"), input_open=True))
            pipes = [int(name) for name in set(os.listdir("/proc/self/fd")) - before if _reads_a_pipe(int(name))]
            directory = os.open(tmp_path, os.O_RDONLY)
            for descriptor in pipes:
                asyncio.get_running_loop().remove_reader(descriptor)
                os.dup2(directory, descriptor)
            assert await process.write(b"said\n") == 5
            with pytest.raises(ExecutorUnavailable, match="output cannot be read: Is a directory"):
                await process.wait()
            for descriptor in (directory, *pipes):
                os.close(descriptor)

    run(scenario())


def _reads_a_pipe(descriptor: int) -> bool:
    try:
        target = os.readlink(f"/proc/self/fd/{descriptor}")
        flags = Path(f"/proc/self/fdinfo/{descriptor}").read_text("ascii").split("flags:")[1].split()[0]
    except FileNotFoundError:
        return False
    return target.startswith("pipe:") and int(flags, 8) & os.O_ACCMODE == os.O_RDONLY
