"""New skills that are valid from the start, and faults that are found without any package."""

import json
import os
import shutil
from pathlib import Path

import pytest

from openskills.catalog.catalog import Catalog
from openskills.catalog.validate import validate
from openskills.settings import Settings
from tests.skills.shipped import NAMES, SKILLS, misuse, run_script

SCAFFOLD, CHECK = "skill-writer/scripts/scaffold.py", "skill-writer/scripts/check.py"
GOOD = "Read totals and dates from invoices. Use when the user gives an invoice (发票)."


def scaffold(place: Path, *arguments: str) -> Path:
    done = run_script(SCAFFOLD, "my-skill", *arguments, cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(Path(place, line).is_file() for line in done.stdout.split())
    return place / "my-skill"


def rules(folder: Path) -> list[str]:
    """The ids of what the checker finds."""
    done = run_script(CHECK, folder, "--json", "--strict", cwd=folder.parent)
    found = [finding["rule"] for finding in json.loads(done.stdout)]
    assert (done.returncode, done.stderr) == (1 if found else 0, "")
    return found


@pytest.mark.parametrize("script", [[], ["--script", "read_invoice"]])
@pytest.mark.parametrize("description", [GOOD, 'Say "a: b" # and {c}, [d] \\ when the user asks: 中文 it\'s fine.'])
def test_a_new_skill_has_no_fault(tmp_path: Path, script: list[str], description: str) -> None:
    folder = scaffold(tmp_path, "--description", description, *script)
    report = validate(folder)
    assert [problem for problem in report.problems if str(problem.severity) != "note"] == []
    assert rules(folder) == []
    catalog = Catalog.from_paths(tmp_path, settings=Settings.from_env({"HOME": str(tmp_path / "home")}))
    assert catalog.get("my-skill").description == description


def test_the_script_of_a_new_skill_works(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "--description", GOOD, "--script", "lines")
    (tmp_path / "a.txt").write_text("1\n2\n")
    (tmp_path / "b.txt").write_bytes(b"\xff")
    (tmp_path / "out").mkdir()
    script = str(folder / "scripts" / "lines.py")
    assert os.access(script, os.X_OK)
    env = {"OUTPUT_DIR": str(tmp_path / "out")}
    assert run_script(script, "a.txt", cwd=tmp_path).stdout == "2 lines\n"
    assert run_script(script, "a.txt", "--output", "r.txt", cwd=tmp_path, env=env).returncode == 0
    assert (tmp_path / "out" / "r.txt").read_text() == "2 lines\n"
    for name in ("b.txt", "missing"):
        done = run_script(script, name, cwd=tmp_path)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


@pytest.mark.parametrize(
    ("name", "description", "said"),
    [
        ("My_Skill", GOOD, "invalid name 'My_Skill'; use a-z and 0-9 with single hyphens between them"),
        ("-x", GOOD, "the following arguments are required: name"),
        ("a--b", GOOD, "invalid name 'a--b'"),
        ("x" * 65, GOOD, "the name has 65 characters, 64 is the most"),
        ("../up", GOOD, "invalid name '../up'"),
        ("ok", "", "there is no description"),
        ("ok", "x" * 1025, "the description has 1,025 characters, 1,024 is the most"),
        ("ok", "Reads invoices and nothing else, every time.", "does not say when to use the skill"),
        ("ok", "Reads <b>invoices</b>. Use when the user gives one.", "angle brackets in the description"),
    ],
)
def test_what_can_be_no_skill_is_not_made(tmp_path: Path, name: str, description: str, said: str) -> None:
    assert said in misuse(run_script(SCAFFOLD, name, "--description", description, cwd=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "--description", GOOD)
    (folder / "SKILL.md").write_text("mine")
    done = run_script(SCAFFOLD, "my-skill", "--description", GOOD, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "error: my-skill: File exists\n")
    assert (folder / "SKILL.md").read_text() == "mine"


@pytest.mark.parametrize("name", NAMES)
def test_the_shipped_skills_have_no_fault(name: str) -> None:
    assert rules(SKILLS / name) == []


FRONT = f'---\nname: my-skill\ndescription: "{GOOD}"\n---\n'
FAULTS = {
    "frontmatter-missing": "# Only a body\n",
    "frontmatter-unclosed": "---\nname: my-skill\n",
    "name-required": f'---\ndescription: "{GOOD}"\n---\n# Body\n',
    "name-folder": FRONT.replace("my-skill", "other") + "# Body\n",
    "description-required": "---\nname: my-skill\n---\n# Body\n",
    "description-length": FRONT.replace(GOOD, "Use when " + "x" * 1100) + "# Body\n",
    "description-markup": FRONT.replace("invoices", "<invoices>") + "# Body\n",
    "yaml-unquoted": FRONT.replace(f'"{GOOD}"', "Reads: totals. Use when there is one invoice.") + "# Body\n",
    "yaml-duplicate-key": FRONT.replace("---\nname", "---\nname: my-skill\nname") + "# Body\n",
    "body-empty": FRONT,
    "body-lines": FRONT + "line\n" * 501,
    "body-tokens": FRONT + "字" * 12_000,
    "link-dead": FRONT + "[a](references/gone.md)\n",
    "link-outside": FRONT + "[a](../other/SKILL.md)\n",
}


@pytest.mark.parametrize(("rule", "text"), FAULTS.items(), ids=lambda value: value[:24])
def test_a_fault_has_the_name_that_the_validator_gives_it(tmp_path: Path, rule: str, text: str) -> None:
    folder = tmp_path / "my-skill"
    folder.mkdir()
    (folder / "SKILL.md").write_text(text, "utf-8")
    assert rule in rules(folder)
    assert rule in [problem.rule for problem in validate(folder).problems]


def test_what_scripts_and_commands_get_wrong_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "my-skill"
    (folder / "scripts").mkdir(parents=True)
    (folder / "scripts" / "broken.py").write_text("def x(:\n")
    (folder / "scripts" / "plain.py").write_text("#!/usr/bin/env python3\n")
    body = "Run `python scripts/broken.py` and scripts/gone.py in " + "/home" + "/erika/x.\n"
    (folder / "SKILL.md").write_text(FRONT + body)
    assert sorted(rules(folder)) == ["machine-path", "python-name", "script-missing", "script-mode", "script-syntax"]


def test_a_block_of_text_and_nested_fields_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "my-skill"
    folder.mkdir()
    text = f"---\nname: my-skill # mine\ndescription: >-\n  {GOOD}\n  More of it.\nmetadata:\n  a: b\n---\n# Body\n"
    (folder / "SKILL.md").write_text(text.replace(" # mine", ""))
    assert rules(folder) == []
    (folder / "SKILL.md").write_text(text)
    assert "yaml-comment-in-value" in rules(folder)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe---", b"---\n\0", b"---\n" + b"x" * (1 << 21), b"---\n\t- x\n---\n"])
def test_hostile_files_are_faults_and_no_tracebacks(tmp_path: Path, data: bytes) -> None:
    folder = tmp_path / "my-skill"
    folder.mkdir()
    (folder / "SKILL.md").write_bytes(data)
    assert rules(folder)


def test_errors_fail_and_warnings_only_when_it_is_strict(tmp_path: Path) -> None:
    shutil.copytree(SKILLS / "meeting-notes", tmp_path / "meeting-notes")
    (tmp_path / "meeting-notes" / "assets" / "minutes.md").unlink()
    done = run_script(CHECK, "meeting-notes/SKILL.md", cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 checked: 0 errors, 1 warnings")
    assert "SKILL.md:" in done.stdout
    assert "assets/minutes.md is not there [link-dead]" in done.stdout
    assert run_script(CHECK, "meeting-notes", "--strict", cwd=tmp_path).returncode == 1
    assert misuse(run_script(CHECK, "nowhere", cwd=tmp_path)) == "nowhere is not a folder"
