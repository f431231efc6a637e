"""`read-properties` prints what the reference tool prints; where that fails or lies, this does not."""

from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.skill_writer import WriteSkill

# Written by skills-ref 0.1.1 for the skill in the test.
REFERENCE = r"""{
  "name": "pdf-tools",
  "description": "Merges <b>PDF</b> files & \"more\". \u5408\u5e76\u3002",
  "license": "Apache-2.0",
  "compatibility": "Needs qpdf",
  "allowed-tools": "Bash(qpdf:*) Read",
  "metadata": {
    "author": "me",
    "version": "1.0",
    "beta": "no"
  }
}
"""
FRONT = """license: Apache-2.0
compatibility: Needs qpdf
metadata:
  author: me
  version: "1.0"
  beta: no
allowed-tools: Bash(qpdf:*) Read
unknown: left out
"""


def test_an_ordinary_skill_gives_the_bytes_of_the_reference_tool(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("pdf-tools", 'Merges <b>PDF</b> files & "more". 合并。', front=FRONT)
    for path in (folder, folder / "SKILL.md"):
        ran = openskills("read-properties", path)
        assert (ran.code, ran.out, ran.err) == (0, REFERENCE, "")


def test_a_point_inside_the_folder_is_that_skill(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha")
    assert openskills("read-properties", ".", cwd=folder).json["name"] == "alpha"
    assert openskills("read-properties", "SKILL.md", cwd=folder).json["name"] == "alpha"


def test_values_keep_their_shape(openskills: Command, write_skill: WriteSkill) -> None:
    front = "metadata:\n  empty:\n  deep: {a: [b, c]}\nallowed-tools: [Read, Grep]\n"
    properties = openskills("read-properties", write_skill("alpha", front=front)).json
    assert properties["metadata"] == {"empty": "", "deep": {"a": ["b", "c"]}}
    assert properties["allowed-tools"] == ["Read", "Grep"]


def test_three_hyphens_in_a_description_stay_in_it(openskills: Command, write_skill: WriteSkill) -> None:
    folder = write_skill("alpha", "Splits on --- lines. Use when asked.")
    assert openskills("read-properties", folder).json["description"] == "Splits on --- lines. Use when asked."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("---\ndescription: x\n---\n", "name is missing"),
        ("---\nname: x\n---\n", "description is missing"),
        ("---\nname: [x]\ndescription: x\n---\n", "name is missing or is not text"),
        ("no front matter", "there is no front matter"),
        ("---\nname: &a x\ndescription: *a\n---\n", "SKILL.md:2:7: error"),
    ],
)
def test_a_skill_that_cannot_be_read_is_one_line_and_exit_code_1(
    openskills: Command, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "SKILL.md").write_text(text)
    ran = openskills("read-properties", tmp_path)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("Error: ")
    assert len(ran.err.splitlines()) == 1
    assert said in ran.err


def test_bytes_that_are_no_text_are_no_traceback(openskills: Command, tmp_path: Path) -> None:
    for data in (b"\xff\xfe", b"---\nname: caf\xe9\n---\n", b"\0"):
        (tmp_path / "SKILL.md").write_bytes(data)
        ran = openskills("read-properties", tmp_path)
        assert (ran.code, ran.err[:7]) == (1, "Error: ")


def test_a_directory_called_skill_md_and_an_empty_one_are_explained(openskills: Command, tmp_path: Path) -> None:
    (tmp_path / "odd" / "SKILL.md").mkdir(parents=True)
    assert "is a directory, not a file" in openskills("read-properties", tmp_path / "odd").err
    (tmp_path / "empty").mkdir()
    ran = openskills("read-properties", tmp_path / "empty")
    assert (ran.code, "there is no SKILL.md" in ran.err) == (1, True)


def test_a_path_that_is_not_there_or_no_skill_is_wrong_usage(openskills: Command, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("x")
    assert openskills("read-properties", tmp_path / "missing").code == 2
    assert openskills("read-properties", tmp_path / "note.txt").code == 2
