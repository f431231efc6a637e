"""Every example of the documentation does what its page says."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.mcp.oracles import Oracles, oracles
from tests.conftest import RequireProgram
from tests.docs.page import ROOT, Block, Step, blocks, pages, steps
from tests.docs.reader import Reader, same
from tests.executors.wheels import wheel
from tests.servers.warm_openskills import WarmOpenskills

__all__ = ["oracles"]

FIRST = (ROOT / "README.md", ROOT / "docs/getting-started/first-skill.md")
FEW = 8
"""How many blocks of all pages together may be marked as not run."""


TABULATE = """
def tabulate(rows):
    return "\\n".join(["-  -", *("  ".join(map(str, row)) for row in rows), "-  -"])
"""


@pytest.fixture
def commands(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where `openskills` is: what was installed for the first pages, and for all others one that starts quickly."""
    if getattr(request.node, "callspec", None) is None or request.node.callspec.params["page"] in FIRST:
        return Path(sys.executable).parent
    warm: WarmOpenskills = request.getfixturevalue("warm_openskills")
    program = tmp_path / "commands" / "openskills"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(warm.line)} "$@"\n')
    program.chmod(0o755)
    if "$ npx skills " in request.node.callspec.params["page"].read_text("utf-8"):
        write_npx(program.parent, request.getfixturevalue("oracles"))
    return program.parent


@pytest.fixture
def reader(tmp_path: Path, commands: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Somebody who has just cloned the repository."""
    someone = Reader(tmp_path / "you", commands)
    monkeypatch.chdir(someone.project)
    for name in ("SKILLS_ROOT", "SKILLS_CACHE_DIR", "OPENSKILL_CACHE_DIR", "OPENSKILL_CONFIG_DIR", "OPENSKILL_INDEX"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "OPENSKILL_STATE_DIR", "OPENSKILL_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(someone.home))
    # Packages come from a directory instead of the index of this machine.
    (tmp_path / "wheels").mkdir()
    name, data = wheel("tabulate", "0.9.0", TABULATE)
    (tmp_path / "wheels" / name).write_bytes(data)
    for variable, value in (("CONFIG_FILE", "/dev/null"), ("NO_INDEX", "1"), ("FIND_LINKS", str(tmp_path / "wheels"))):
        monkeypatch.setenv(f"PIP_{variable}", value)
    yield someone
    someone.stop()


def write_npx(commands: Path, found: Oracles) -> None:
    """`npx skills` as a program of the reader, without a download."""
    program = commands / "npx"
    client = found.installed / "node_modules" / "skills" / "bin" / "cli.mjs"
    program.write_text(f'#!/bin/sh\nshift\nDISABLE_TELEMETRY=1 exec {found.node} {client} "$@"\n')
    program.chmod(0o755)


@pytest.mark.slow
@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_does_what_it_says(page: Path, reader: Reader, require_program: RequireProgram) -> None:
    text = page.read_text("utf-8")
    if "$ git " in text:
        require_program("git")
    if "$ openskills run " in text or "executor(" in text or "<!-- host" in text:
        require_program("bwrap")
    before: Block | None = None
    printed = ""
    for block in blocks(text):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        reader.prepare(block)
        if before and before.language == "python" and block.language == "text" and block.follows:
            assert same(block.text.splitlines(), printed.splitlines()), f"{where}: really printed is:\n{printed}"
        if block.language == "console" and block.told("not run") is None:
            check_console(reader, block, where)
        if block.language == "python" and block.told("not run") is None and block.told("file:") is None:
            printed = reader.run_python(block.text, where)
        before = block


def check_console(reader: Reader, block: Block, where: str) -> None:
    """Run the commands of a block; each must end well, unless the page asks for its status, and print what is shown."""
    results = reader.run_console(block)
    for number, (step, output, status) in enumerate(results):
        asked = number + 1 < len(results) and results[number + 1][0].command == "echo $?"
        assert asked or status == 0, f"{where}: `{step.command}` ended with {status}:\n{output}"
        if step.shown is not None:
            assert same(step.shown, output.splitlines()), f"{where}: `{step.command}` really prints:\n{output}"


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    found = [block for page in pages() for block in blocks(page.read_text("utf-8"))]
    reasons = [block.told("not run") for block in found if block.told("not run") is not None]
    assert len(reasons) <= FEW
    assert all(reason and len(reason) > 10 for reason in reasons)


def test_a_page_is_taken_apart_into_its_blocks() -> None:
    text = "# A\n\n<!-- not run: why -->\n```console\n$ a\nb\n```\n\n```text\nc\n```\nwords\n  ```python\n  d\n  ```\n"
    first, second, third = blocks(text)
    assert (first.language, first.text, first.line, first.told("not run")) == ("console", "$ a\nb", 4, "why")
    assert (second.text, second.follows, second.comments) == ("c", True, ())
    assert (third.language, third.text, third.follows) == ("python", "d", False)


def test_a_console_block_is_taken_apart_into_commands_and_output() -> None:
    assert steps("$ a <<E\n> x\n> E\none\n\ntwo\n$ b") == [Step("a <<E\nx\nE", ("one", "", "two")), Step("b", None)]


def test_output_that_differs_is_noticed() -> None:
    assert same(["a  b", "...", "version 1.2.3"], ["a b", "x", "y", "", "version 2.0.0"])
    assert same(["..."], [])
    assert not same(["a"], ["a", "b"])
    assert not same(["a", "b"], ["a"])
    assert not same(["a"], ["b"])


def test_a_command_that_fails_is_noticed(reader: Reader) -> None:
    with pytest.raises(AssertionError, match="ended with 2"):
        check_console(reader, Block("console", "$ openskills validate nowhere", 1), "page:1")
    with pytest.raises(AssertionError, match="really prints"):
        check_console(reader, Block("console", "$ openskills validate nowhere\nfine\n$ echo $?\n2", 1), "page:1")
    check_console(reader, Block("console", "$ openskills validate nowhere\n$ echo $?\n2", 1), "page:1")
