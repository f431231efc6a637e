"""SKILL.md folders behind the host."""

from pathlib import Path

import pytest

from openskills.errors import UnknownSkill
from openskills.host.registry.registry import Registry
from openskills.host.registry.skill_folders import SkillFolders
from openskills.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_env({"HOME": str(tmp_path / "home"), "OPENSKILL_CLI_DIR": str(tmp_path / "cli")})


def folder(root: Path, name: str, more: str = "", *scripts: str) -> Path:
    path = root / "skills" / name
    path.mkdir(parents=True)
    (path / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Does {name} well.\n{more}---\nBody.\n")
    for script in scripts:
        (path / script).parent.mkdir(exist_ok=True)
        (path / script).write_text("print()")
    return path


def hosted(tmp_path: Path, settings: Settings) -> Registry:
    return Registry.load(settings, skills=[tmp_path / "skills"], start=tmp_path)


def test_a_folder_that_names_its_entry_is_a_skill_of_the_host(tmp_path: Path, settings: Settings) -> None:
    more = "metadata:\n  entry: scripts/convert.py\n  version: 1.2.0\n"
    path = folder(tmp_path, "pdf-tools", more, "scripts/convert.py")
    registry = hosted(tmp_path, settings)
    found = registry.get("pdf_tools")
    assert (found.id, found.kind, found.entry) == ("pdf-tools", "cli:python", str(path / "scripts/convert.py"))
    assert (found.description, found.version) == ("Does pdf-tools well.", "1.2.0")
    assert found.origin == path / "SKILL.md"
    assert registry.entry("pdf-tools").problems == ()


def test_the_usual_entry_needs_no_naming_and_may_be_a_program(tmp_path: Path, settings: Settings) -> None:
    path = folder(tmp_path, "shell-tools", "", "scripts/invoke")
    (path / "scripts/invoke").chmod(0o755)
    assert hosted(tmp_path, settings).get("shell-tools").kind == "cli:exec"


def test_a_folder_without_entry_is_not_hosted(tmp_path: Path, settings: Settings) -> None:
    folder(tmp_path, "only-text", "", "scripts/other.py")
    registry = hosted(tmp_path, settings)
    assert registry.entries() == ()
    with pytest.raises(UnknownSkill):
        registry.get("only-text")


@pytest.mark.parametrize(
    ("entry", "rule"), [("scripts/no.py", "entry-missing"), ("../../x.py", "entry-outside"), ("scripts", "entry-type")]
)
def test_an_entry_that_cannot_be_called_is_reported(tmp_path: Path, settings: Settings, entry: str, rule: str) -> None:
    folder(tmp_path, "odd", f"metadata:\n  entry: {entry}\n", "scripts/x.py")
    (found,) = hosted(tmp_path, settings).entries()
    assert found.status == "broken"
    assert [problem.rule for problem in found.problems] == [rule]


def test_a_manifest_in_the_folder_counts_before_its_skill_md(tmp_path: Path, settings: Settings) -> None:
    path = folder(tmp_path, "pdf-tools", "", "scripts/run.py")
    (path / "manifest.yaml").write_text("type: cli\nruntime: python\nentry: scripts/run.py\ntimeout_ms: 9\n")
    found = hosted(tmp_path, settings).get("pdf-tools")
    assert (found.timeout_ms, found.description) == (9, "Does pdf-tools well.")
    assert found.entry == str(path / "scripts/run.py")


def test_a_manifest_of_the_host_with_the_same_id_counts_and_the_folder_is_reported(
    tmp_path: Path, settings: Settings
) -> None:
    folder(tmp_path, "pdf-tools", "", "scripts/invoke.py")
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "pdf-tools.yaml").write_text("type: inproc\nentry: a:b\n")
    registry = hosted(tmp_path, settings)
    assert registry.get("pdf-tools").kind == "inproc"
    assert [entry.status for entry in registry.entries()].count("broken") == 1


def test_folders_that_come_and_go_are_seen_by_reloading(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "skills").mkdir()
    registry = hosted(tmp_path, settings)
    path = folder(tmp_path, "pdf-tools", "", "scripts/invoke.py")
    assert registry.reload().added == ("pdf-tools",)
    (path / "SKILL.md").unlink()
    assert registry.reload().removed == ("pdf-tools",)


def test_without_directories_nothing_is_looked_at(settings: Settings) -> None:
    assert SkillFolders((), settings).look() == ([], ())
