import json
import subprocess
import sys
import unicodedata
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from openskills.errors import InvalidArgument
from openskills.skillmd.markdown import find_linked_files
from openskills.skillmd.parse import parse
from openskills.skillmd.problem import Problem
from openskills.skillmd.rules import lint_skill
from openskills.skillmd.scaffold import scaffold
from tests.skillmd.strategies import prose, relaxed


def judged(files: Mapping[str, str], folder: str) -> tuple[Problem, ...]:
    parsed = parse(files["SKILL.md"])
    texts = {path: files[path] for path in find_linked_files(parsed.body)}
    return lint_skill(parsed, folder, {path: len(text) for path, text in files.items()}, texts)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The script of a new skill, written to disk."""
    path = tmp_path / "example.py"
    path.write_text(scaffold("my-skill")["scripts/example.py"], "utf-8")
    return path


def run(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script), *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


@pytest.mark.parametrize("name", ["my-skill", "a", "2", "null", "1-0", "a" * 64])
def test_the_strict_validator_has_nothing_to_say_about_a_new_skill(name: str) -> None:
    assert judged(scaffold(name), name) == ()
    assert judged(scaffold(name, "Merge: PDF files. Use when the user asks.", license="MIT"), name) == ()


def test_every_file_of_a_new_skill_is_linked_from_its_skill_file() -> None:
    files = scaffold("my-skill")
    assert set(find_linked_files(parse(files["SKILL.md"]).body)) == files.keys() - {"SKILL.md"}


@relaxed
@given(prose | st.text(min_size=1, max_size=200))
def test_any_description_is_read_back_as_it_was_given(description: str) -> None:
    expected = " ".join(description.split())
    assume(expected and all(unicodedata.category(character) != "Cc" for character in expected))
    manifest = parse(scaffold("my-skill", description, license=expected)["SKILL.md"]).manifest
    assert manifest
    assert (manifest.description, manifest.license) == (expected, expected)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("My Skill", "my-skill"),
        ("pdf_tools", "pdf-tools"),
        ("../etc", "etc"),
        ("-a--b-", "a-b"),
        ("a" * 70, "a" * 64),
        ("ﬁle", "file"),
        ("", "my-skill"),
        ("!!", "my-skill"),
    ],
)
def test_a_name_that_is_not_allowed_is_refused_with_one_that_is(name: str, hint: str) -> None:
    with pytest.raises(InvalidArgument, match=f"such as '{hint}'") as caught:
        scaffold(name)
    assert caught.value.field == "name"
    assert judged(scaffold(hint), hint) == ()


@pytest.mark.parametrize("description", ["", " \n ", "a" * 1025, "a\x1bb", "\ud800"])
def test_a_description_that_is_not_allowed_is_refused(description: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        scaffold("my-skill", description)
    assert caught.value.field == "description"


def test_the_script_explains_itself(script: Path) -> None:
    shown = run(script, "--help")
    assert shown.returncode == 0
    assert "Exit codes" in shown.stdout


def test_the_script_prints_its_result_as_json(script: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one two\nthree\n", "utf-8")
    counted = run(script, "--input", str(tmp_path / "notes.txt"))
    assert json.loads(counted.stdout) == {"lines": 2, "words": 3, "characters": 14}


def test_the_script_says_by_its_exit_code_what_went_wrong(script: Path, tmp_path: Path) -> None:
    missing = run(script, "--input", str(tmp_path / "missing.txt"))
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "missing.txt" in missing.stderr
    assert run(script).returncode == 2
