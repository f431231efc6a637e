"""Exit codes and messages of the command line: one line for every error, never a traceback."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from openskills.version import __version__
from tests.cli.command import Command
from tests.cli.ran import TIMEOUT
from tests.skill_writer import WriteSkill

COMMANDS = ("list", "info", "search", "validate", "new", "trust", "doctor", "read-properties", "to-prompt")


@pytest.fixture
def openskills(new_openskills: Command) -> Command:
    """The command in an interpreter of its own: here it is about how that begins and ends."""
    return new_openskills


def test_the_version_is_printed(openskills: Command) -> None:
    ran = openskills("--version")
    assert (ran.code, ran.out, ran.err) == (0, f"openskills {__version__}\n", "")


def test_without_arguments_there_is_help_and_exit_code_2(openskills: Command) -> None:
    ran = openskills()
    assert ran.code == 2
    assert "Usage: openskills" in ran.out
    assert all(f" {command} " in ran.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_examples(openskills: Command, command: str) -> None:
    ran = openskills(command, "--help")
    assert ran.code == 0
    assert f"\n  openskills {command}" in ran.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nonsense",), "No such command 'nonsense'"),
        (("validate",), "PATH: missing; give a skill's folder"),
        (("info",), "Missing argument 'NAME'"),
        (("list", "--wrong"), "No such option: --wrong"),
        (("validate", ".", "--format", "xml"), "'xml' is not one of 'text', 'json', 'sarif'"),
        (("search", "x", "--limit", "0"), "--limit"),
        (("validate", "missing"), "missing does not exist"),
    ],
)
def test_wrong_usage_is_one_message_and_exit_code_2(openskills: Command, arguments: tuple[str, ...], said: str) -> None:
    ran = openskills(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert said in ran.err


def test_a_bad_variable_is_named(openskills: Command) -> None:
    ran = openskills("list", OPENSKILL_INDEX="perhaps")
    assert (ran.code, ran.err) == (2, "error: OPENSKILL_INDEX: invalid boolean 'perhaps'; use 1 or 0\n")


def test_an_unexpected_error_is_one_line_and_exit_code_70(openskills: Command, tmp_path: Path) -> None:
    # A module of ours that cannot be imported is what a broken installation looks like.
    (tmp_path / "broken" / "yaml").mkdir(parents=True)
    (tmp_path / "broken" / "yaml" / "__init__.py").write_text("raise RuntimeError('half \\x1b[31m installed')")
    openskills.environment["PYTHONPATH"] = str(tmp_path / "broken")
    ran = openskills("doctor")
    assert (ran.code, ran.out) == (70, "")
    expected = "internal error: RuntimeError: half \\x1b[31m installed; run with OPENSKILL_DEBUG=1 for the traceback\n"
    assert ran.err == expected
    assert "Traceback" in openskills("doctor", OPENSKILL_DEBUG="1").err


def test_a_directory_that_cannot_be_written_is_named(openskills: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = openskills("new", "alpha", "--directory", tmp_path / "file" / "below")
    assert ran.code == 1
    assert ran.err.startswith("error: ")
    assert str(tmp_path / "file") in ran.err


def test_an_interrupt_ends_quietly_with_130(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", under="here/.agents/skills")
    with openskills.begun("list") as terminal:
        terminal.wait_for("[y/N]")
        terminal.interrupt()
        ran = terminal.finish()
    assert ran.code == 130
    assert "Traceback" not in ran.out


def test_a_closed_pipe_is_not_an_error(new_openskills: Command, write_skill: WriteSkill) -> None:
    for number in range(300):
        write_skill(f"skill-{number}", "Does something. Use when asked. " * 20)
    for arguments in (["list", "skills"], ["list", "skills", "--json"], ["to-prompt", "skills"], ["--help"]):
        with subprocess.Popen(
            new_openskills.line(arguments),
            cwd=new_openskills.cwd,
            env=new_openskills.variables({}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.read(1)
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait(TIMEOUT) in (0, 1)


def test_a_pipe_without_a_reader_is_not_an_error(new_openskills: Command) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        new_openskills.line(["--version"]), env=new_openskills.variables({}), stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_stream_that_the_shell_closed_is_not_an_error(new_openskills: Command) -> None:
    line = shlex.join(new_openskills.line(["--help"]))
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        done = subprocess.run(["sh", "-c", f"{line} {closed}"], env=new_openskills.variables({}), capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_character_that_the_encoding_lacks_is_escaped(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha", "合并文件。Use when asked.")
    ran = openskills("list", "skills", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert ran.code == 0
    assert "\\u5408\\u5e76" in ran.out


def test_there_is_no_colour_in_a_pipe_and_none_with_no_color(new_openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("Alpha")
    assert "\x1b" not in new_openskills("validate", "skills").out
    assert "\x1b[1;31merror" in new_openskills.on_terminal("validate", "skills").out
    assert "31m" not in new_openskills.on_terminal("validate", "skills", NO_COLOR="1").out


def test_starting_loads_only_what_the_command_needs(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha")
    openskills("list", "skills")
    light = {"pydantic", "asyncio", "httpx2", "watchfiles", "rich", "tomllib", "openskills.project"}
    for arguments, unwanted in (
        (["--version"], light),
        (["list", "skills"], light),
        (["search", "things", "skills"], light),
        (["validate", "skills"], {"pydantic", "tomllib"}),
    ):
        program = f"import sys\nfrom openskills.cli.main import main\nmain({arguments!r})\nprint(*sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=openskills.cwd,
            env=openskills.variables({}),
            capture_output=True,
            text=True,
            check=True,
        )
        heavy = unwanted & set(done.stdout.splitlines()[-1].split())
        assert not heavy, f"{arguments} loads {heavy}"


def test_sigint_before_anything_happened_is_130_too(new_openskills: Command, tmp_path: Path) -> None:
    # A FIFO as the trust file keeps the command waiting at a known place.
    fifo = tmp_path / "home" / ".config" / "openskills" / "trust.json"
    fifo.parent.mkdir(parents=True)
    os.mkfifo(fifo)
    with subprocess.Popen(
        new_openskills.line(["trust", "--list"]), env=new_openskills.variables({}), stderr=subprocess.PIPE
    ) as process:
        # Opening for writing waits until the command has opened it for reading.
        with fifo.open("wb"):
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            assert process.stderr.read() == b""
        assert process.wait(TIMEOUT) == 130


INTERRUPTED_IMPORT = """
import sys
from openskills.cli.main import app, main

class Attribute:
    def __set_name__(self, *_):
        raise KeyboardInterrupt

@app.command("interrupted")
def interrupted():
    class Created:
        attribute = Attribute()

sys.exit(main(["interrupted"]))
"""


def test_an_interrupt_while_a_class_is_created_is_130_too() -> None:
    ran = subprocess.run([sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (130, "")
