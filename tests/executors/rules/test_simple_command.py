"""A command is taken apart only when a shell could do nothing else with it than start one program."""

import shlex
import subprocess

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from openskills.executors.rules.simple_command import MOST, Word, simple_command


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git status", ("git", "status")),
        ("  git\t log  ", ("git", "log")),
        ("git commit -m 'a; b && c | d > e'", ("git", "commit", "-m", "a; b && c | d > e")),
        ('git commit -m "it\'s \\"fine\\" \\$5 (all)"', ("git", "commit", "-m", 'it\'s "fine" $5 (all)')),
        (r"echo a\ b \; \*", ("echo", "a b", ";", "*")),
        ("echo '' \"\"", ("echo", "", "")),
        ("make CC=gcc a#b", ("make", "CC=gcc", "a#b")),
        ("g'i't st\"at\"us", ("git", "status")),
        ("déjà \u3000vu", ("déjà", "\u3000vu")),
    ],
)
def test_words_are_those_of_a_shell(command: str, expected: tuple[str, ...]) -> None:
    found = simple_command(command)
    assert found is not None
    assert tuple(word.text for word in found) == expected


MORE_THAN_ONE = [
    *("git status; rm -rf x", "git status;", "a && b", "a || b", "a & b", "a &", "a | b", "a |& b", "a\nb", "a\rb"),
    *("a > b", "a >> b", "a < b", "a << b", "a <<< b", "a 2>&1", "a <(b)", "a >(b)", "(a)", "{ a; }", "a()", "a (b)"),
    *("a $(b)", "a `b`", 'a "$(b)"', 'a "`b`"', "a $((1))", "a $[1]", "a ${b:-c}", "a ${b@P}", "a ${!b}", "a $'b'"),
    *('a $"b"', "a $1", "a $@", "a $?", "a $$", "a $", 'a "$"', "a ${b", "A=b c", "A+=b c", "A[0]=b c", "'A=b' c"),
    *("# a", "a # b", "a 'b", 'a "b', "a \\", "", "  ", "''", "a\0b", "a\x1bb", "a\x7f", "a '\n'", "a \\\n b"),
    *("test -v 'a[$(id)]'", "printf -v 'a[`id`]' x", "test -v 'a[$''(id)]'", r"test -v a\[\$\(id\)\]"),
]


@pytest.mark.parametrize("command", MORE_THAN_ONE)
def test_what_could_be_more_than_one_program_is_not_taken_apart(command: str) -> None:
    assert simple_command(command) is None


@pytest.mark.parametrize(
    "word", ["$HOME", "${OUTPUT_DIR}/x", '"$WORK_DIR/x"', "*.py", "a?", "[ab]", "{a,b}", "~/x", "!x", "x$Y"]
)
def test_a_word_that_a_shell_may_change_says_so(word: str) -> None:
    found = simple_command(f"cat plain {word}")
    assert found is not None
    assert [part.literal for part in found] == [True, True, False]


@pytest.mark.parametrize("word", ["'$HOME'", "'*'", r"\*", r"\~", '"*"', r'"\$HOME"', "'{a,b}'"])
def test_in_quotes_it_stays_what_it_is(word: str) -> None:
    found = simple_command(f"cat {word}")
    assert found is not None
    assert found[1].literal


PIECES = st.sampled_from([*"ab '\"\\$;&|<>()*?[]{}~#!=\t-/.,^", "'a b'", '"c"', "\\;", "'$'", '"\\$"', "$A", "''"])


@given(st.lists(PIECES, max_size=9))
def test_a_real_shell_never_sees_other_words_than_the_literal_ones(tail: list[str]) -> None:
    command = f"say {''.join(tail)}"
    found = simple_command(command)
    assume(found is not None)
    assert found is not None
    script = f"say() {{ printf '%s\\0' $# \"$@\"; }}\n{command}\n"
    ran = subprocess.run(["bash", "-c", script], capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    if all(word.literal for word in found):
        words = [str(len(found) - 1), *(word.text for word in found[1:])]
        assert ran.stdout == b"".join(word.encode() + b"\0" for word in words)


@given(st.lists(st.text(st.characters(min_codepoint=32, exclude_characters="`$\x7f", exclude_categories=("Cs",)))))
def test_what_was_quoted_comes_back(parts: list[str]) -> None:
    assert simple_command(shlex.join(["program", *parts])) == (Word("program"), *map(Word, parts))


def test_a_long_command_is_not_looked_at() -> None:
    assert simple_command("x" * MOST) == (Word("x" * MOST),)
    assert simple_command("x" * (MOST + 1)) is None
    assert simple_command("x" + "\\a" * 8000 + '"') is None
