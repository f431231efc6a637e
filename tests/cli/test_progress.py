"""A bar appears at a terminal after a moment, never in a pipe, and leaves nothing behind."""

import io
import zipfile

import pytest

from openskills.cli.progress import Waiting
from tests.catalog.fetch.web_server import Page, Web
from tests.cli.command import Command
from tests.skill_writer import WriteSkill

SHOW_CURSOR = "\x1b[?25h"


def archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(
            "alpha/SKILL.md", "---\nname: alpha\ndescription: Merges. Use when asked.\n---\nBody\n" + "x" * 2000
        )
    return buffer.getvalue()


def test_a_slow_download_shows_a_bar_and_an_interrupt_gives_the_cursor_back(openskills: Command, web: Web) -> None:
    web.pages["/skills.zip"] = Page(archive(), pause=0.01)
    with openskills.begun("list", f"{web.url}/skills.zip") as terminal:
        terminal.wait_for("downloading")
        terminal.interrupt()
        ran = terminal.finish()
    assert ran.code == 130
    assert SHOW_CURSOR in ran.out
    assert "Traceback" not in ran.out


def test_quick_work_shows_no_bar(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("alpha")
    ran = openskills.on_terminal("list", "skills")
    assert "\x1b[?25" not in ran.out


def test_in_a_pipe_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with Waiting("working") as progress:
        progress("reading", 1, 2)
        progress("reading", 2, None)
    assert capsys.readouterr() == ("", "")


def test_a_download_in_a_pipe_is_silent(openskills: Command, web: Web) -> None:
    web.pages["/skills.zip"] = Page(archive())
    ran = openskills("list", f"{web.url}/skills.zip")
    assert (ran.code, ran.out.split("\t")[0], ran.err) == (0, "alpha", "")
