"""The first layer."""

from pathlib import Path

import pytest

from openskills.catalog.catalog import Catalog
from openskills.errors import InvalidArgument
from openskills.runtime.options import SessionOptions
from openskills.runtime.overviews import Overviews
from tests.skill_writer import skill_writer
from tests.tools.contexts import settings_in, write_skill


def catalog_in(directory: Path) -> Catalog:
    return Catalog.from_paths(directory / "skills", settings=settings_in(directory))


def test_it_is_the_same_value_until_the_catalog_changes(tmp_path: Path) -> None:
    write_skill(tmp_path, "one")
    catalog = catalog_in(tmp_path)
    overviews = Overviews(catalog, SessionOptions(), executor=False)
    before = overviews.now()
    assert overviews.now() is before
    write_skill(tmp_path, "two")
    catalog.refresh()
    assert "two" in overviews.now().overview.text
    assert "two" not in before.overview.text


def test_guidance_is_ours_or_yours_or_none(tmp_path: Path) -> None:
    write_skill(tmp_path, "one")
    catalog = catalog_in(tmp_path)
    texts = [
        Overviews(catalog, SessionOptions(guidance=text), executor=True).now().text for text in (None, "Be brief.", "")
    ]
    assert "Tooling and workspace guidance:" in texts[0]
    assert texts[1].endswith("\n\nBe brief.")
    assert texts[2].startswith("Available skills:")
    assert "guidance" not in texts[2]


def test_without_skills_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    assert Overviews(catalog_in(tmp_path), SessionOptions(), executor=True).now().text == ""


def test_search_comes_when_the_list_has_no_room(tmp_path: Path) -> None:
    write = skill_writer(tmp_path, "skills")
    for number in range(40):
        write(f"skill-{number}", description="Does one thing that takes a while to describe in words. " * 3)
    catalog = catalog_in(tmp_path)
    whole = Overviews(catalog, SessionOptions(), executor=False).now()
    tight = Overviews(catalog, SessionOptions(overview_tokens=150), executor=False).now()
    asked = Overviews(catalog, SessionOptions(search=True), executor=False).now()
    assert "skill_search" not in whole.tools
    assert "skill_search" in tight.tools
    assert "skill_search" in asked.tools
    assert tight.overview.tokens <= 150


def test_hidden_skills_are_as_good_as_absent(tmp_path: Path) -> None:
    for name in ("seen", "hidden"):
        write_skill(tmp_path, name)
    options = SessionOptions(visible=lambda skill: skill.name == "seen")
    layer = Overviews(catalog_in(tmp_path), options, executor=False).now()
    assert "hidden" not in layer.text
    assert not layer.skills.has("hidden")


def test_tools_that_cannot_work_are_refused_at_once(tmp_path: Path) -> None:
    write_skill(tmp_path, "one")
    with pytest.raises(InvalidArgument, match="needs an executor"):
        Overviews(catalog_in(tmp_path), SessionOptions(profile="full"), executor=False)
