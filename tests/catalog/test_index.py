"""A second process reads the index instead of the skills, and never believes a bad one."""

import json
from pathlib import Path

import pytest

from openskills.catalog.discover import discover
from openskills.catalog.index import load_index, save_index
from openskills.catalog.root import Root
from openskills.catalog.scan import Scan
from openskills.errors import SourceUnavailable
from tests.skill_writer import WriteSkill


@pytest.fixture
def root(tmp_path: Path, write_skill: WriteSkill) -> Root:
    write_skill("alpha", front='metadata: {"x": {"requires": {"bins": ["sh"]}}}\nlicense: MIT\n')
    write_skill("wrong", folder="other", under="skills/group")
    (tmp_path / "skills" / "broken").mkdir()
    (tmp_path / "skills" / "broken" / "SKILL.md").write_text("nothing")
    return Root(tmp_path / "skills", "test")


def written(tmp_path: Path, root: Root) -> tuple[Scan, Path]:
    scan = discover(root)
    save_index(tmp_path / "cache", root, scan)
    (file,) = (tmp_path / "cache" / "index").iterdir()
    return scan, file


def test_what_was_saved_is_loaded_with_every_field_and_problem(tmp_path: Path, root: Root) -> None:
    scan, _ = written(tmp_path, root)
    loaded = load_index(tmp_path / "cache", root)
    assert loaded is not None
    assert loaded.visited == scan.visited


def test_another_root_has_another_index(tmp_path: Path, root: Root) -> None:
    written(tmp_path, root)
    assert load_index(tmp_path / "cache", Root(root.path, "test", confine=tmp_path)) is None
    assert load_index(tmp_path / "cache", Root(tmp_path, "test")) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": "other"}', "null", "\xff"])
def test_a_damaged_index_is_as_good_as_none(tmp_path: Path, root: Root, content: str) -> None:
    _, file = written(tmp_path, root)
    file.write_text(content, encoding="latin-1")
    assert load_index(tmp_path / "cache", root) is None


@pytest.mark.parametrize(
    "visited",
    ["3", '{"/a": 3}', '{"/a": ["s", [1], {}, []]}', '{"/a": ["s", null, 7, []]}', '{"/a": ["d", null, 7, []]}'],
)
def test_an_index_of_the_wrong_shape_is_as_good_as_none(tmp_path: Path, root: Root, visited: str) -> None:
    _, file = written(tmp_path, root)
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "visited": json.loads(visited)}))
    assert load_index(tmp_path / "cache", root) is None


def test_only_the_owner_can_read_the_index(tmp_path: Path, root: Root) -> None:
    _, file = written(tmp_path, root)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_cache_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path, root: Root) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(SourceUnavailable, match="cache cannot be written"):
        save_index(tmp_path / "cache", root, Scan())
