"""The files of a skill are listed with their kind and size, and nothing outside it ever is."""

import os
from pathlib import Path

import pytest

from openskills.catalog.resources import MAX_RESOURCES, Resource, ResourceKind, find_resources, kind_of


def fill(folder: Path, *paths: str) -> None:
    for path in paths:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("12345")


def test_every_file_but_skill_md_is_listed_sorted_with_size(tmp_path: Path) -> None:
    fill(tmp_path, "SKILL.md", "scripts/run.py", "references/a.md", "assets/logo.png", "LICENSE", "sub/SKILL.md")
    found = find_resources(str(tmp_path))
    assert [resource.path for resource in found] == [
        "LICENSE", "assets/logo.png", "references/a.md", "scripts/run.py", "sub/SKILL.md",
    ]  # fmt: skip
    assert {resource.size for resource in found} == {5}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("scripts/data.json", ResourceKind.SCRIPT),
        ("tool.py", ResourceKind.SCRIPT),
        ("references/x.pdf", ResourceKind.REFERENCE),
        ("FORMS.md", ResourceKind.REFERENCE),
        ("assets/readme.md", ResourceKind.ASSET),
        ("LICENSE", ResourceKind.OTHER),
        ("data/table.csv", ResourceKind.OTHER),
    ],
)
def test_the_folder_decides_what_a_file_is_for_and_then_its_ending(path: str, kind: ResourceKind) -> None:
    assert kind_of(path) == kind


def test_docs_are_markdown_and_text_wherever_they_lie() -> None:
    assert Resource("deep/NOTES.TXT", ResourceKind.OTHER, 1).is_doc
    assert not Resource("scripts/run.py", ResourceKind.SCRIPT, 1).is_doc


def test_links_that_leave_the_skill_are_left_out_and_those_that_stay_are_listed(tmp_path: Path) -> None:
    outside, skill = tmp_path / "secret.md", tmp_path / "skill"
    outside.write_text("secret")
    fill(skill, "SKILL.md", "a.md")
    (skill / "inner.md").symlink_to("a.md")
    (skill / "outer.md").symlink_to(outside)
    (skill / "parent").symlink_to(tmp_path)
    (skill / "dangling.md").symlink_to("nowhere")
    assert [resource.path for resource in find_resources(str(skill))] == ["a.md", "inner.md"]


def test_special_files_and_version_control_are_left_out(tmp_path: Path) -> None:
    fill(tmp_path, "a.md", ".git/config", "node_modules/x/index.js", "__pycache__/a.pyc")
    os.mkfifo(tmp_path / "pipe.md")
    assert [resource.path for resource in find_resources(str(tmp_path))] == ["a.md"]


def test_a_skill_reached_through_a_link_lists_its_files(tmp_path: Path) -> None:
    fill(tmp_path / "real", "SKILL.md", "a.md")
    (tmp_path / "link").symlink_to("real")
    assert [resource.path for resource in find_resources(str(tmp_path / "link"))] == ["a.md"]


def test_a_very_deep_tree_ends_the_search_without_an_error(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 60)
    deep.mkdir(parents=True)
    (deep / "far.md").write_text("x")
    fill(tmp_path, "near.md")
    assert [resource.path for resource in find_resources(str(tmp_path))] == ["near.md"]


def test_the_list_is_bounded(tmp_path: Path) -> None:
    for number in range(MAX_RESOURCES + 5):
        (tmp_path / f"{number}.txt").touch()
    assert len(find_resources(str(tmp_path))) == MAX_RESOURCES
