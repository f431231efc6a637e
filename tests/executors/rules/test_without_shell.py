"""A command that needs no shell is the same without it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from openskills.executors.rules.without_shell import without_shell

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
    assert without_shell(("bash", "-c", text)) == words


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
    assert without_shell(("bash", "-c", text)) == ()


def test_everything_that_bash_does_itself_is_left_to_it() -> None:
    known = subprocess.run(["bash", "-c", "compgen -b; compgen -k"], capture_output=True, text=True, check=True)
    assert len(known.stdout.split()) > 60
    assert [name for name in known.stdout.split() if without_shell(("bash", "-c", f"{name} x"))] == []


@pytest.mark.parametrize("argv", [("ls", "-l"), ("bash", "-c"), ("bash", "-c", "ls", "x"), ("sh", "-c", "ls"), ()])
def test_a_command_that_is_no_text_for_bash_stays_what_it_is(argv: tuple[str, ...]) -> None:
    assert without_shell(argv) == ()


@pytest.fixture(scope="module")
def shows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that prints its words, and a directory in which globs would match."""
    directory = tmp_path_factory.mktemp("shows")
    program = directory / "shows"
    program.write_text(SHOWS, "utf-8")
    program.chmod(0o755)
    (directory / "a.txt").touch()
    return directory


@settings(max_examples=150)
@given(rest=st.text(st.sampled_from("ab.*?[]{}~!#=,:/\\'\"$`;&|<>() \t-é中\u3000\u00a0"), max_size=12))
@example("a b 'c d' \"e\\\\f\" g\\ h")
@example("a\u3000b c\u00a0d")
@example("a=b c+=d -e --f=g")
def test_bash_would_have_given_the_program_the_same_words(shows: Path, rest: str) -> None:
    text = f"./shows {rest}"
    words = without_shell(("bash", "-c", text))
    if not words:
        return
    done = subprocess.run(
        ["bash", "-c", text], cwd=shows, env={"LANG": "C.UTF-8"}, capture_output=True, text=True, check=True
    )
    assert tuple(json.loads(done.stdout)) == words[1:]
