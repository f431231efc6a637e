"""The warm program does what `python -m openskills` does: otherwise tests that use it would prove something else."""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.cli.terminal import Terminal
from tests.servers.warm_openskills import WarmOpenskills

NEW = [sys.executable, "-m", "openskills"]


def ended(line: list[str], directory: Path, piped: bytes = b"", **variables: str) -> tuple[int, bytes, bytes]:
    environment = {"HOME": str(directory), "PATH": os.defpath, "LANG": "C.UTF-8", **variables}
    done = subprocess.run(line, cwd=directory, env=environment, input=piped, capture_output=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("--version",), (), ("validate", "missing"), ("new", "../x"), ("list", "--json"), ("trust",), ("nonsense",)],
)
def test_a_call_ends_and_says_the_same(
    warm_openskills: WarmOpenskills, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    assert ended([*warm_openskills.line, *arguments], tmp_path) == ended([*NEW, *arguments], tmp_path)


def test_what_is_piped_in_the_directory_and_the_variables_are_those_of_the_call(
    warm_openskills: WarmOpenskills, tmp_path: Path
) -> None:
    chat = ("chat", "--model", "rule", "--executor", "none", "--session", "s", "--skills", "skills")
    code, out, err = ended([*warm_openskills.line, *chat], tmp_path, "表".encode())
    assert (code, out, err) == ended([*NEW, *chat, "--store", "memory"], tmp_path, "表".encode())
    code, _, err = ended([*warm_openskills.line, "list"], tmp_path, OPENSKILL_INDEX="perhaps")
    assert (code, err) == (2, b"error: OPENSKILL_INDEX: invalid boolean 'perhaps'; use 1 or 0\n")


def test_what_an_interpreter_reads_when_it_starts_has_its_effect(
    warm_openskills: WarmOpenskills, tmp_path: Path
) -> None:
    (tmp_path / "typer.py").write_text("raise SystemExit(7)")
    assert ended([*warm_openskills.line, "list"], tmp_path, PYTHONPATH=str(tmp_path))[0] == 7


def test_a_reader_that_has_gone_is_not_an_error(warm_openskills: WarmOpenskills, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    environment = {"HOME": str(tmp_path), "LANG": "C.UTF-8"}
    done = subprocess.run([*warm_openskills.line, "--version"], env=environment, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_signal_reaches_the_command_and_who_called_it_ends_as_it_does(
    warm_openskills: WarmOpenskills, tmp_path: Path
) -> None:
    for line in ([*warm_openskills.line, "serve", "--port", "0"], [*NEW, "serve", "--port", "0"]):
        with subprocess.Popen(
            line,
            cwd=tmp_path,
            env={"HOME": str(tmp_path), "PATH": os.defpath, "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            assert process.stdout is not None
            address = next(
                found[1] for said in process.stdout if (found := re.search(r"on (http://\S+)", said.decode()))
            )
            # Who answers has begun, and knows what a signal means.
            with urlopen(f"{address}/openapi.json", timeout=60) as answer:
                assert answer.status == 200
            process.terminate()
            process.stdout.read()
            assert process.wait(60) == 0


def test_at_a_terminal_the_command_has_it_for_its_own(warm_openskills: WarmOpenskills, tmp_path: Path) -> None:
    skill = tmp_path / ".agents" / "skills" / "alpha" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: alpha\ndescription: Does it.\n---\n")
    variables = {"HOME": str(tmp_path / "home"), "PATH": os.defpath, "LANG": "C.UTF-8", "TERM": "xterm-256color"}
    # The second one becomes a new interpreter.
    for more in ({}, {"PYTHONUTF8": "1"}):
        with Terminal([*warm_openskills.line, "list"], cwd=tmp_path, variables={**variables, **more}) as terminal:
            terminal.wait_for("[y/N]")
            # Ctrl-C reaches only who has the terminal.
            terminal.type("\x03")
            assert terminal.finish().code == 130
