"""Commands of a shell are started without it, and nobody can tell.

A command is taken apart only when a shell could do nothing else with it than start one program.

A command that needs no shell is the same without it.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from openskills.errors import InvalidArgument
from openskills.executors.direct_start import MAX_COMMAND, ShellWord, parse_simple_command, start_directly, strip_shell
from openskills.executors.supervisor import LaunchRequest, Supervisor
from tests.long_form import examples

NO_SHEBANG = 'if [[ -n "$BASH_VERSION" ]]; then echo "bash has read me"; fi\n'


async def output(directory: Path, *argv: str, **variables: str) -> tuple[int, str]:
    """How a command ended, and what it wrote to its two streams."""

    async def scenario() -> int:
        keeper = await Supervisor.spawn()
        try:
            with (directory / "printed").open("wb") as printed:
                env = {"PATH": f"{directory}/bin:{os.defpath}", **variables}
                launch = LaunchRequest(argv, env, str(directory), {1: printed.fileno(), 2: printed.fileno()})
                kept = await start_directly(keeper.start, launch)
            return (await kept.wait()).status
        finally:
            await keeper.close()

    return await scenario(), (directory / "printed").read_text()


async def test_no_shell_is_left_around_the_program_and_it_knows_where_it_is(tmp_path: Path) -> None:
    status, text = await output(tmp_path, "bash", "-c", "env")
    assert status == 0
    assert f"PWD={tmp_path}\n" in text
    # What bash sets when it is there.
    assert "SHLVL" not in text


async def test_what_needs_the_shell_has_it(tmp_path: Path) -> None:
    assert (await output(tmp_path, "bash", "-c", "echo $BASH | cat"))[1].endswith("bash\n")


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
async def test_what_cannot_be_started_is_left_to_the_shell(
    tmp_path: Path, command: str, status: int, says: str
) -> None:
    (tmp_path / "locked").write_text("#!/bin/sh\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "bin").mkdir()
    for place in (tmp_path, tmp_path / "bin"):
        (place / "plain").write_text(NO_SHEBANG)
        (place / "plain").chmod(0o755)
    assert await output(tmp_path, "bash", "-c", command) == (status, says)


async def test_a_command_that_is_not_text_and_cannot_be_started_is_an_error_as_ever(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument):
        await output(tmp_path, "nosuch")


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
    found = parse_simple_command(command)
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
    assert parse_simple_command(command) is None


@pytest.mark.parametrize(
    "word", ["$HOME", "${OUTPUT_DIR}/x", '"$WORK_DIR/x"', "*.py", "a?", "[ab]", "{a,b}", "~/x", "!x", "x$Y"]
)
def test_a_word_that_a_shell_may_change_says_so(word: str) -> None:
    found = parse_simple_command(f"cat plain {word}")
    assert found is not None
    assert [part.is_literal for part in found] == [True, True, False]


@pytest.mark.parametrize("word", ["'$HOME'", "'*'", r"\*", r"\~", '"*"', r'"\$HOME"', "'{a,b}'"])
def test_in_quotes_it_stays_what_it_is(word: str) -> None:
    found = parse_simple_command(f"cat {word}")
    assert found is not None
    assert found[1].is_literal


PIECES = st.sampled_from([*"ab '\"\\$;&|<>()*?[]{}~#!=\t-/.,^", "'a b'", '"c"', "\\;", "'$'", '"\\$"', "$A", "''"])


@given(st.lists(PIECES, max_size=9))
def test_a_real_shell_never_sees_other_words_than_the_literal_ones(tail: list[str]) -> None:
    command = f"say {''.join(tail)}"
    found = parse_simple_command(command)
    assume(found is not None)
    assert found is not None
    script = f"say() {{ printf '%s\\0' $# \"$@\"; }}\n{command}\n"
    ran = subprocess.run(["bash", "-c", script], capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    if all(word.is_literal for word in found):
        words = [str(len(found) - 1), *(word.text for word in found[1:])]
        assert ran.stdout == b"".join(word.encode() + b"\0" for word in words)


@given(st.lists(st.text(st.characters(min_codepoint=32, exclude_characters="`$\x7f", exclude_categories=("Cs",)))))
def test_what_was_quoted_comes_back(parts: list[str]) -> None:
    assert parse_simple_command(shlex.join(["program", *parts])) == (ShellWord("program"), *map(ShellWord, parts))


def test_a_long_command_is_not_looked_at() -> None:
    assert parse_simple_command("x" * MAX_COMMAND) == (ShellWord("x" * MAX_COMMAND),)
    assert parse_simple_command("x" * (MAX_COMMAND + 1)) is None
    assert parse_simple_command("x" + "\\a" * 8000 + '"') is None


SHOWS = f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("python3 scripts/sum.py", ("python3", "scripts/sum.py")),
        ("  ls   -l\t'two words' ", ("ls", "-l", "two words")),
        ('grep "a\\"b" file', ("grep", 'a"b', "file")),
        ("./run.sh --name=x", ("./run.sh", "--name=x")),
        ("true", ("/usr/bin/true",)),
        ("false", ("/usr/bin/false",)),
    ],
)
def test_one_program_with_its_words_needs_none(text: str, words: tuple[str, ...]) -> None:
    assert strip_shell(("bash", "-c", text)) == words


@pytest.mark.parametrize(
    "text",
    [
        *("a; b", "a | b", "a && b", "a > f", "a < f", "a &", "(a)", "a $(b)", "a `b`", "a\nb", "A=1 b", "a # b"),
        *("ls *.py", "ls a?", "ls [ab]", "ls {a,b}", "ls ~", "echo $HOME", 'ls "$HOME"', "ls ${HOME}", "! true"),
        *("echo hello", "cd work", "printf x", "test -f a", "[ -f a ]", "time ls", "exec ls", "pwd", ". ./a", "kill 1"),
        *("true --help", "false x", "", "   ", "'unfinished", "''", "if", "type ls", "source a", "'cd' work"),
        *("-x", "+x a", "%1", "%x"),
    ],
)
def test_what_only_a_shell_can_do_is_left_to_it(text: str) -> None:
    assert strip_shell(("bash", "-c", text)) == ()


def test_everything_that_bash_does_itself_is_left_to_it() -> None:
    known = subprocess.run(["bash", "-c", "compgen -b; compgen -k"], capture_output=True, text=True, check=True)
    assert len(known.stdout.split()) > 60
    assert [name for name in known.stdout.split() if strip_shell(("bash", "-c", f"{name} x"))] == []


@pytest.mark.parametrize("argv", [("ls", "-l"), ("bash", "-c"), ("bash", "-c", "ls", "x"), ("sh", "-c", "ls"), ()])
def test_a_command_that_is_not_text_for_bash_stays_what_it_is(argv: tuple[str, ...]) -> None:
    assert strip_shell(argv) == ()


@pytest.fixture(scope="module")
def shows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that prints its words, and a directory in which globs would match."""
    directory = tmp_path_factory.mktemp("shows")
    program = directory / "shows"
    program.write_text(SHOWS, "utf-8")
    program.chmod(0o755)
    (directory / "a.txt").touch()
    return directory


@settings(max_examples=examples(150))
@given(rest=st.text(st.sampled_from("ab.*?[]{}~!#=,:/\\'\"$`;&|<>() \t-é中\u3000\u00a0"), max_size=12))
@example("a b 'c d' \"e\\\\f\" g\\ h")
@example("a\u3000b c\u00a0d")
@example("a=b c+=d -e --f=g")
def test_bash_would_have_given_the_program_the_same_words(shows: Path, rest: str) -> None:
    text = f"./shows {rest}"
    words = strip_shell(("bash", "-c", text))
    if not words:
        return
    done = subprocess.run(
        ["bash", "-c", text], cwd=shows, env={"LANG": "C.UTF-8"}, capture_output=True, text=True, check=True
    )
    assert tuple(json.loads(done.stdout)) == words[1:]
