"""One command becomes its words as a POSIX shell would read them; what needs a shell is refused."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import CommandDenied, InvalidArgument
from openskills.executors.rules.words import words

HARMLESS = st.text(st.characters(exclude_characters="\n\r;&|<>`\0$", exclude_categories=("Cs",)), max_size=20)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ls", ("ls",)),
        ("  ls \t -l  ", ("ls", "-l")),
        ("echo '' \"\" x", ("echo", "", "", "x")),
        ("echo 'a b' \"c d\" e\\ f", ("echo", "a b", "c d", "e f")),
        ("echo a'b'\"c\"\\d", ("echo", "abcd")),
        (r'echo "a\"b\\c\$d\e"', ("echo", 'a"b\\c$d\\e')),
        (r"echo 'a\b'", ("echo", r"a\b")),
        ("echo $HOME * {a,b} ~ # !", ("echo", "$HOME", "*", "{a,b}", "~", "#", "!")),
        ("echo \u3000wide\u00a0blank", ("echo", "\u3000wide\u00a0blank")),
        ("x.sh A=b", ("x.sh", "A=b")),
    ],
)
def test_words_are_those_of_a_posix_shell(command: str, expected: tuple[str, ...]) -> None:
    assert words(command) == expected


@given(st.lists(HARMLESS, min_size=1, max_size=5))
def test_what_was_quoted_comes_back(parts: list[str]) -> None:
    command = shlex.join(["program", *parts])
    assert words(command) == ("program", *parts)


def test_a_real_shell_agrees() -> None:
    command = r"""printf '%s\n' '' "a\"b\\c\$d\e" x'y'"z"\ w "é" 'a\b'"""
    shell = subprocess.run(["sh", "-c", command], capture_output=True, check=True)
    ours = subprocess.run(words(command), capture_output=True, check=True)
    assert ours.stdout == shell.stdout


@pytest.mark.parametrize("mark", ["\n", "\r", ";", "&", "|", "<", ">", "`", "$("])
def test_what_needs_a_shell_is_refused_in_quotes_too(mark: str) -> None:
    for command in (f"python3{mark}id", f"echo '{mark}'", f'echo "{mark}"', f"echo {mark}"):
        with pytest.raises(CommandDenied, match="is not possible under a command policy; run one command") as raised:
            words(command)
        assert raised.value.details["rule"] == "shell"


@pytest.mark.parametrize("command", ["A=b ls", " _X1= ls", "A+=b", "A[0]=1 ls"])
def test_a_variable_before_the_command_is_refused(command: str) -> None:
    with pytest.raises(CommandDenied, match="before a command needs a shell; use env"):
        words(command)


@pytest.mark.parametrize("command", ["", "  \t", "''", '"" x'])
def test_nothing_is_no_command(command: str) -> None:
    with pytest.raises(InvalidArgument, match="is empty"):
        words(command)


@pytest.mark.parametrize(("command", "place"), [("echo 'a", 6), ('echo "a\\"', 6), ("echo a\\", 7)])
def test_a_quote_that_is_never_closed_is_said_with_its_place(command: str, place: int) -> None:
    with pytest.raises(InvalidArgument, match=f"at character {place} is never closed"):
        words(command)


def test_a_nul_byte_and_a_very_long_command_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="NUL byte"):
        words("echo \0")
    assert len(words("x" * 16384)[0]) == 16384
    with pytest.raises(InvalidArgument, match="is longer than 16,384 bytes; put it into a script"):
        words("x" * 16385)
    with pytest.raises(InvalidArgument, match="is longer"):
        words("ü" * 8193)


def test_a_long_command_takes_no_longer_than_it_is_long() -> None:
    assert len(words("a " + "'b'" * 5000)) == 2
    with pytest.raises(InvalidArgument, match="never closed"):
        words("\\a" * 8000 + '"')
