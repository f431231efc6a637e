import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from openskills.executors.processes.process import HostProcess
from openskills.executors.processes.viewing import Viewer
from openskills.executors.spec import Command, Limits, Terminal
from openskills.sync import run
from tests.executors.running import read_until, shell, starter

SIZE = Terminal(5, 20)


@asynccontextmanager
async def painted(directory: Path, script: str, limits: Limits | None = None) -> AsyncGenerator[HostProcess]:
    """A command that has printed everything before it says `ready`, and waits."""
    async with starter(directory) as commands:
        command = Command(
            shell(f"stty -echo; {script}; printf 're''ady'; read"), terminal=SIZE, limits=limits or Limits(grace=0.1)
        )
        process = await commands.start(command)
        await read_until(process, b"ready")
        yield process
        await process.kill()


def test_a_program_that_paints_has_a_picture(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with painted(tmp_path, r"printf '\033[?1049h\033[2;3Hmenu\033[4;1H'") as process:
            picture = await Viewer(process, SIZE).picture()
            assert picture is not None
            assert picture.lines == ("", "  menu", "", "ready", "")
            assert (picture.row, picture.column) == (3, 5)

    run(scenario())


def test_a_program_that_writes_lines_has_none(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with painted(tmp_path, r"printf '\033[31mline\033[0m\n'") as process:
            view = await Viewer(process, SIZE).look(0, b"\x1b[31mline\x1b[0m\r\n")
            assert (view.text, view.picture) == ("line\n", None)

    run(scenario())


def test_what_others_read_does_not_matter_and_looks_at_the_same_time_agree(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with painted(tmp_path, r"printf '\033[2;3Hx'; seq -s ' ' 5000; printf '\033[1;1Hy'") as process:
            viewer = Viewer(process, SIZE)
            await process.read(0, limit=7)
            pictures = await asyncio.gather(*(viewer.picture() for _ in range(3)))
            assert pictures[0] is not None
            assert pictures[0].lines[0].startswith("yready")
            assert pictures == [pictures[0]] * 3

    run(scenario())


def test_of_a_flood_the_end_is_looked_at_and_the_gap_is_said(tmp_path: Path) -> None:
    async def scenario() -> None:
        flood = r"printf '\033[?1049h'; yes | head -c 100000; printf '\033[3;1H'"
        async with painted(tmp_path, flood, Limits(output_bytes=2_000, grace=0.1)) as process:
            viewer = Viewer(process, SIZE)
            first = await viewer.picture()
            # The change to another screen was in what is lost.
            assert first is not None
            assert (first.has_gap, first.is_alternate) == (True, False)
            assert first.lines[2] == "ready"
            assert await viewer.picture() == first

    run(scenario())


def test_after_a_gap_nothing_of_what_was_before_is_pending(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with starter(tmp_path) as commands:
            paint = (
                r"printf '\033[2;2H\033Pphase1'; read; head -c 100000 /dev/zero | tr '\0' x; printf '\033[3;1Hready'"
            )
            limits = Limits(output_bytes=2_000, grace=0.1)
            process = await commands.start(Command(shell(f"{paint}; read"), terminal=SIZE, limits=limits))
            viewer = Viewer(process, SIZE)
            await read_until(process, b"phase1")
            before = await viewer.picture()
            assert before is not None
            assert before.lines == ("",) * 5
            await process.write(b"\n")
            await read_until(process, b"ready")
            after = await viewer.picture()
            assert after is not None
            assert (after.lines[0], after.lines[2][:5], after.has_gap) == ("x" * 20, "ready", True)
            await process.kill()

    run(scenario())


def test_a_picture_has_the_new_size_after_a_resize(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with painted(tmp_path, r"printf '\033[2;3H'") as process:
            viewer = Viewer(process, SIZE)
            await viewer.resize(Terminal(3, 4))
            picture = await viewer.picture()
            assert picture is not None
            assert picture.lines == ("", "  re", "")
            await viewer.resize(Terminal(60_000, 60_000))
            assert await viewer.picture() is None

    run(scenario())


def test_a_huge_terminal_has_no_picture(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with painted(tmp_path, r"printf '\033[2;3H'") as process:
            assert await Viewer(process, Terminal(65_000, 65_000)).picture() is None

    run(scenario())
