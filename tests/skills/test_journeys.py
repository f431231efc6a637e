"""A user asks, a model loads a shipped skill and does what it says, in a sandbox, on the user's files."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.conftest import RequireProgram
from tests.skills.shipped import conversation, documented, with_inputs

TABLE = "month,amount,cost\n2026-01,12,3\n2026-02,19,\n2026-03,n/a,5\n2026-04,30,7\n"
LOG = (
    "2026-03-01T10:00:00 ERROR disk 7 is full\n2026-03-01T10:05:00 ERROR disk 9 is full\n2026-03-01T10:06:00 INFO ok\n"
)
MADE = ["out/**"]


@pytest.fixture(autouse=True)
def _sandbox(require_program: RequireProgram) -> None:
    require_program("bwrap")


async def test_a_table_becomes_a_report_and_charts_that_are_kept_as_artifacts(tmp_path: Path) -> None:
    async with conversation(tmp_path, "csv-report", "Plot table.csv") as model:
        model.add("table.csv", TABLE)
        report, *charts = [with_inputs(command, "table.csv") for command in documented("csv-report")]
        data = await model.ends_well(report, output_files=MADE)
        assert "| amount | text | 0 |" in data["output_files"][0]["content"]
        for command in charts:
            data = await model.ends_well(command, output_files=MADE, save_as_artifacts=True)
            (artifact,) = data["artifact_files"]
            assert artifact["ref"].endswith(".svg@0")
            assert ET.fromstring(data["output_files"][0]["content"]).get("role") == "img"
        assert "1 cells are not numbers" in (await model.ends_well(charts[0]))["stdout"]


async def test_a_log_is_summed_up(tmp_path: Path) -> None:
    async with conversation(tmp_path, "log-triage", "app.log 里有哪些错误") as model:
        model.add("app.log", LOG)
        (command,) = documented("log-triage")
        data = await model.ends_well(with_inputs(command, "app.log"))
        assert data["stdout"].split("\n")[0].split() == ["2", "ERROR", "disk", "*", "is", "full"]
        assert data["stdout"].endswith("to 2026-03-01T10:06:00: ERROR 2, INFO 1\n")


async def test_dead_links_of_the_users_pages_are_listed(tmp_path: Path) -> None:
    async with conversation(tmp_path, "markdown-links", "Do all links work?") as model:
        model.add("README.md", "[guide](docs/guide.md) [gone](docs/gone.md)\n")
        await model.ends_well("mkdir inputs/docs; echo '[up](../README.md)' > inputs/docs/guide.md")
        (command,) = documented("markdown-links")
        data = await model.run(with_inputs(command, "docs/", "README.md"))
        assert (data["exit_code"], data["stdout"]) == (1, "inputs/README.md:1: docs/gone.md\n")


async def test_minutes_are_written_from_the_layout_of_the_skill(tmp_path: Path) -> None:
    async with conversation(tmp_path, "meeting-notes", "Write minutes of this") as model:
        layout = (tmp_path / "skills/meeting-notes/assets/minutes.md").read_text("utf-8")
        assert (await model.ends_well("cat assets/minutes.md"))["stdout"] == layout
        (chosen,) = await model.talk.call(
            ("skill_select_docs", {"skill": "meeting-notes", "docs": ["assets/minutes.md"]})
        )
        assert chosen.error is None
        assert "## Action items" in model.talk.request()[-1]["content"]
        filled = layout.replace("{title}, {date}", "Kick-off, 2026-03-01")
        (written,) = await model.talk.call(("write_file", {"file_name": "out/minutes.md", "content": filled}))
        assert written.error is None, written.text
        assert (await model.ends_well("head -n 1 out/minutes.md"))["stdout"] == "# Kick-off, 2026-03-01\n"


async def test_every_documented_computation_gives_what_is_right(tmp_path: Path) -> None:
    async with conversation(tmp_path, "math", "How much is it?") as model:
        model.add("numbers.txt", "1 2, 3\n4\n")
        model.add("table.csv", TABLE)
        commands = [with_inputs(command, "numbers.txt", "table.csv") for command in documented("math")]
        result = [(await model.ends_well(command))["stdout"] for command in commands]

    said = "".join(result)
    for right in (
        "1/3 + 0.1 = 13/30 ≈ 0.43333333333333333333",
        "≈ 1.4142135623730950488016887242096980785696718753769",
        "0.1 + 0.2 == 0.3 is true",
        "x = 1/2 + 1/2*sqrt(5) ≈ 1.6180339887498948482",
        "x = 13/10 = 1.3\ny = 4/5 = 0.8",
        "left out                1 that are not numbers",
        "5 mile = 8.04672 km",
        "-40 F = -40 C",
    ):
        assert right in said


async def test_every_documented_change_of_a_text_works(tmp_path: Path) -> None:
    async with conversation(tmp_path, "text-tools", "Clean notes.txt") as model:
        model.add("notes.txt", "b 2 colour\r\na 10 colour\r\nb 2 colour\r\n")
        model.add("part.001", "one\n")
        model.add("part.002", "two\n")
        found: dict[str, str] = {}
        given = ("notes.txt", "part.001", "part.002")
        for command in [with_inputs(command, *given) for command in documented("text-tools")]:
            data = await model.ends_well(command, output_files=MADE)
            found.update({file["name"]: file["content"] for file in data["output_files"]})
            if "--find" in command and "--output" not in command:
                assert "+b 2 color" in data["stdout"]
                assert data["output_files"] == []
        made = found

    assert made["out/unique.txt"].split("\r\n") == ["b 2 colour", "a 10 colour", ""]
    assert made["out/sorted.txt"].startswith("a 10 colour")
    assert made["out/new.txt"].count("color") == 3
    assert made["out/unix.txt"] == "b 2 colour\na 10 colour\nb 2 colour\n"
    assert made["out/whole.txt"] == "one\ntwo\n"
    assert made["out/notes.txt.002"] == "b 2 colour\r\n"


async def test_a_new_skill_is_made_checked_and_run(tmp_path: Path) -> None:
    async with conversation(tmp_path, "skill-writer", "I want a skill for invoices") as model:
        scaffold, check = documented("skill-writer")
        data = await model.ends_well(scaffold)
        assert {file["name"] for file in data["output_files"]} == {
            "out/invoice-reader/SKILL.md",
            "out/invoice-reader/scripts/read_invoice.py",
        }
        told = await model.ends_well(check.replace("invoice-reader", "out/invoice-reader"))
        assert "0 errors, 0 warnings" in told["stdout"]
        script = "out/invoice-reader/scripts/read_invoice.py"
        assert (await model.ends_well(f"python3 {script} SKILL.md"))["stdout"].endswith(" lines\n")


async def test_a_missing_package_is_said_with_what_to_do(tmp_path: Path) -> None:
    async with conversation(tmp_path, "pdf-text", "What does paper.pdf say?") as model:
        model.add("paper.pdf", b"%PDF-1.4")
        (command,) = [one for one in documented("pdf-text") if "paper.pdf" in one]
        # Isolated from what somebody may have installed for the interpreter of this machine.
        data = await model.run(with_inputs(command, "paper.pdf").replace("python3 ", "python3 -S "))
        assert data["exit_code"] == 4
        assert re.match(r"error: the Python package 'pypdf' is not installed for \S+python3?", data["stderr"])
        assert "requirements.txt" in data["stderr"]
        assert "openskills run pdf-text --install always" in data["stderr"]
