"""`new`: a skill that validates; what exists is never touched."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import Command


def test_a_new_skill_validates_strictly_and_its_script_runs(openskills: Command) -> None:
    ran = openskills("new", "pdf-tools")
    folder = openskills.cwd / "pdf-tools"
    assert (ran.code, ran.err, ran.lines[0]) == (0, "", "created pdf-tools")
    assert "  3. openskills validate pdf-tools" in ran.lines
    assert {path.name for path in folder.iterdir()} == {"SKILL.md", "assets", "references", "scripts"}
    assert openskills("validate", folder, "--strict").code == 0
    (script,) = (folder / "scripts").iterdir()
    assert os.access(script, os.X_OK)
    assert subprocess.run([script, "--help"], capture_output=True).returncode == 0


def test_directory_and_description_are_taken(openskills: Command) -> None:
    ran = openskills("new", "alpha", "--directory", "deep/er", "--description", "Merges: a lot. Use when asked.")
    assert ran.code == 0
    properties = openskills("read-properties", "deep/er/alpha").json
    assert properties["description"] == "Merges: a lot. Use when asked."


@pytest.mark.parametrize("kind", ["directory", "file", "link"])
def test_what_exists_is_not_touched(openskills: Command, kind: str) -> None:
    target = openskills.cwd / "alpha"
    if kind == "directory":
        target.mkdir()
    elif kind == "file":
        target.write_text("mine")
    else:
        target.symlink_to(openskills.cwd / "nowhere")
    ran = openskills("new", "alpha")
    assert (ran.code, ran.out) == (2, "")
    assert "exists" in ran.err
    assert not (openskills.cwd / "nowhere").exists()
    assert kind != "directory" or not list(target.iterdir())


@pytest.mark.parametrize("name", ["../alpha", "/tmp/alpha", "Alpha", "a--b", "", "."])
def test_a_name_that_the_specification_does_not_allow_is_refused(
    openskills: Command, tmp_path: Path, name: str
) -> None:
    ran = openskills("new", name)
    assert (ran.code, ran.out) == (2, "")
    assert "is not a skill name" in ran.err
    assert not list((tmp_path / "here").iterdir())
