"""Content is placed once, in a folder with a name that fits."""

from pathlib import Path

import pytest

from openskills.catalog.fetch.placing import has_archive_suffix, place_archive, place_skill_file, sha256_of, stem
from openskills.errors import UnsupportedMedia
from tests.catalog.fetch.archive_bytes import SKILL, zip_of


def archive(tmp_path: Path, files: dict[str, bytes]) -> Path:
    path = tmp_path / "body"
    path.write_bytes(zip_of(files))
    return path


@pytest.mark.parametrize(
    ("files", "name", "folder"),
    [
        ({"SKILL.md": SKILL}, "greeter-1.2.zip", "hello"),
        ({"SKILL.md": SKILL.replace(b"hello", b"../x")}, "greeter.zip", "greeter"),
        ({"SKILL.md": b"\xff no front matter"}, "greeter.tar.gz", "greeter"),
        ({"SKILL.md": b""}, "we ird.zip", "skills"),
        ({"a/SKILL.md": SKILL, "b/SKILL.md": SKILL}, "office.tgz", "office"),
    ],
)
def test_the_folder_is_named_after_the_skill_or_the_archive(
    files: dict[str, bytes], name: str, folder: str, tmp_path: Path
) -> None:
    placed = place_archive(archive(tmp_path, files), "0" * 64, tmp_path / "cache", name=name)
    assert placed == tmp_path / "cache/archives" / ("0" * 64) / folder
    assert {str(path.relative_to(placed)) for path in placed.rglob("*") if path.is_file()} == files.keys()


def test_the_same_content_is_unpacked_once(tmp_path: Path) -> None:
    path = archive(tmp_path, {"a": b"1"})
    first = place_archive(path, "0" * 64, tmp_path / "cache", name="a.zip")
    path.unlink()
    assert place_archive(path, "0" * 64, tmp_path / "cache", name="other.zip") == first


def test_a_refused_archive_leaves_nothing_and_is_called_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "body"
    path.write_bytes(b"text")
    with pytest.raises(UnsupportedMedia, match=r"^a\.zip: is not a zip or tar archive"):
        place_archive(path, "0" * 64, tmp_path / "cache", name="a.zip")
    assert list((tmp_path / "cache/archives").iterdir()) == []


def test_a_single_file_gets_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(SKILL)
    placed = place_skill_file(file, sha256_of(file), tmp_path / "cache", name="whatever")
    assert (placed.name, (placed / "SKILL.md").read_bytes()) == ("hello", SKILL)


def test_suffixes_are_known_in_any_case() -> None:
    assert has_archive_suffix("A.TAR.GZ")
    assert not has_archive_suffix("index.json")
    assert [stem(name) for name in ("a.tar.gz", "a.b.ZIP", "plain")] == ["a", "a.b", "plain"]
