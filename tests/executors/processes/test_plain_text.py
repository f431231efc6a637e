from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.executors.processes.plain_text import plain_text, stripped
from openskills.executors.protocol import Process
from openskills.executors.spec import Command
from openskills.sync import run
from tests.executors.running import shell, starter


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("\x1b[1;31mred\x1b[0m text\r\n", "red text\n"),
        ("\x1b]0;title\x07$ ", "$ "),
        ("10%\r20%\r\n", "10%\r20%\n"),
        ("a\tb\x07\x00\x08c", "a\tbc"),
        ("漢字\x1b[K é", "漢字 é"),
        ("\x1b[2;3H1. one\x1b[3;3H2. two", "1. one\n2. two"),
        ("name:\x1b[5Cvalue", "name: value"),
        ("\x1b[?2004h$ \x1b[?2004l\r", "$ \r"),
        ("\x1b[H\x1b[2J\x1b[Hx", "x"),
        ("line\r\n\x1b[3;1Hx", "line\nx"),
        ("\x1b[?1049hx\x1b[?1049l", "x"),
    ],
)
def test_what_is_left_is_text_to_be_read(data: str, text: str) -> None:
    assert stripped(data.encode()) == text


@given(st.text(st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc"])))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert stripped(text.encode()) == text


SCRIPT = r"printf 'plain \033[1;38;5;208mcolour\033[0m \033]0;a title\007end \033[31mred\033[0m'"
READ = "plain colour end red"


async def _printed(directory: Path, script: str, offsets: list[int]) -> list[str]:
    async with starter(directory) as commands:
        process: Process = await commands.start(Command(shell(script), readable=True))
        await process.wait()
        whole = (await process.read(0, limit=10_000_000)).data
        return [await plain_text(process, offset, whole[offset:]) for offset in offsets]


def test_wherever_a_piece_begins_no_part_of_a_sequence_is_shown(tmp_path: Path) -> None:
    found = run(_printed(tmp_path, SCRIPT, list(range(60))))
    assert found[0] == READ
    assert all(READ.endswith(text) for text in found)
    # In the middle of the first colour, and in the middle of the title.
    assert (found[10], found[35]) == ("colour end red", "end red")


def test_a_piece_may_begin_within_a_very_long_sequence(tmp_path: Path) -> None:
    script = r"printf '\033Pq'; head -c 100000 /dev/zero | tr '\0' A; printf '\033\\after'"
    assert run(_printed(tmp_path, script, [0, 1, 2, 50_000, 100_003])) == ["after"] * 5
