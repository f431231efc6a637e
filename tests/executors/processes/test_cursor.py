import asyncio
import time
from pathlib import Path

from openskills.executors.processes.cursor import Cursor
from openskills.executors.spec import Command, Limits, Terminal
from openskills.sync import run
from tests.executors.running import PATIENCE, shell, starter


async def _all(cursor: Cursor, *, limit: int = 64 * 1024) -> list[str]:
    pieces: list[str] = []
    while True:
        piece = await cursor.next(wait=PATIENCE, settle=0.01, limit=limit)
        pieces.append(piece.text)
        if piece.ended:
            return pieces


def test_each_byte_comes_once_and_no_character_is_broken(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with starter(tmp_path) as commands:
            process = await commands.start(Command(shell("for i in {1..60}; do printf 'aé漢😀'; done"), readable=True))
            pieces = await _all(Cursor(process), limit=9)
            assert len(pieces) > 50
            assert "".join(pieces) == "aé漢😀" * 60

    run(scenario())


def test_a_character_that_comes_in_two_parts_waits_for_its_second(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with starter(tmp_path) as commands:
            script = r"printf 'x\xe6\xbc'; read; printf '\xa2y'"
            process = await commands.start(Command(shell(script), input_open=True))
            cursor = Cursor(process)
            first = await cursor.next(wait=0.1, settle=0, limit=4)
            while not first.data:
                first = await cursor.next(wait=0.1, settle=0, limit=4)
            assert (first.text, first.next_offset) == ("x", 1)
            await process.write(b"\n")
            assert "".join(await _all(cursor)) == "漢y"

    run(scenario())


def test_what_never_becomes_a_character_comes_at_the_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with starter(tmp_path) as commands:
            process = await commands.start(Command(shell(r"printf '\xff\xfe\x80ok\xe6\xbc'"), readable=True))
            assert "".join(await _all(Cursor(process))) == "\ufffd\ufffd\ufffdok\ufffd"

    run(scenario())


def test_a_line_end_is_one_character_wherever_it_is_cut(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with starter(tmp_path) as commands:
            process = await commands.start(Command(shell(r"for i in {1..40}; do printf 'ab\r\n'; done"), readable=True))
            pieces = await _all(Cursor(process), limit=9)
            assert "".join(pieces) == "ab\n" * 40

    run(scenario())


def test_output_that_nobody_read_is_counted_and_begins_with_a_whole_character(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with starter(tmp_path) as commands:
            wanted = Command(shell("yes 漢漢漢漢漢 | head -c 300000"), readable=True, limits=Limits(output_bytes=5000))
            process = await commands.start(wanted)
            await process.wait()
            piece = await Cursor(process).next(wait=0, settle=0, limit=1 << 20)
            assert piece.missed > 0
            assert piece.missed == piece.offset
            assert piece.missed + len(piece.data) == 300000
            assert "\ufffd" not in piece.text.strip()[:-1]

    run(scenario())


def test_a_piece_that_was_cancelled_is_not_lost(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with starter(tmp_path) as commands:
            process = await commands.start(Command(shell("echo one; read; echo two"), input_open=True))
            cursor = Cursor(process)
            assert await _printed(cursor, 4)
            reading = cursor.next(wait=PATIENCE, settle=0, limit=100)
            reading.send(None)
            reading.close()
            await process.write(b"\n")
            assert "".join(await _all(cursor)) == "one\ntwo\n"

    run(scenario())


def test_an_echo_is_no_question(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with starter(tmp_path) as commands:
            process = await commands.start(Command(shell("read; sleep 100"), terminal=Terminal()))
            cursor = Cursor(process)
            at = await cursor.end()
            await process.write(b"really?\r")
            cursor.wrote(b"really?\r", at)
            assert await _printed(cursor, len(b"really?\r\n"))
            piece = await cursor.next(wait=0.05, settle=0, limit=100)
            assert (piece.text, piece.interaction) == ("really?\n", None)
            await process.kill()

    run(scenario())


async def _printed(cursor: Cursor, size: int) -> bool:
    """Look until so much has been printed."""
    deadline = time.monotonic() + PATIENCE
    while await cursor.end() < size:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True
