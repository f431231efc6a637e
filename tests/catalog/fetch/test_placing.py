"""Content is placed once, in a folder with a name that fits."""

import shutil
from pathlib import Path

import pytest

from openskills.catalog.fetch.placing import has_archive_suffix, place_archive, place_skill_file, sha256_of, stem
from openskills.errors import SourceUnavailable, UnsupportedMedia
from tests.catalog.fetch.archive_bytes import SKILL, zip_of


def archive(tmp_path: Path, files: dict[str, bytes]) -> Path:
    path = tmp_path / "body"
    path.write_bytes(zip_of(files))
    return path


@pytest.mark.parametrize(
    ("files", "name", "place"),
    [
        ({"SKILL.md": SKILL}, "greeter-1.2.zip", "/hello"),
        ({"SKILL.md": SKILL.replace(b"hello", b"../x")}, "greeter.zip", "-greeter/greeter"),
        ({"SKILL.md": b"\xff no front matter"}, "greeter.tar.gz", "-greeter/greeter"),
        ({"SKILL.md": b""}, "we ird.zip", "-skills/skills"),
        ({"a/SKILL.md": SKILL, "b/SKILL.md": SKILL}, "office.tgz", "-office/office"),
    ],
)
def test_the_folder_is_named_after_the_skill_or_the_archive(
    files: dict[str, bytes], name: str, place: str, tmp_path: Path
) -> None:
    placed = place_archive(archive(tmp_path, files), "0" * 64, tmp_path / "cache", name=name)
    assert placed == tmp_path / "cache/archives" / f"{'0' * 64}{place}"
    assert {str(path.relative_to(placed)) for path in placed.rglob("*") if path.is_file()} == files.keys()


def test_the_same_content_is_unpacked_once(tmp_path: Path) -> None:
    path = archive(tmp_path, {"SKILL.md": SKILL})
    first = place_archive(path, "0" * 64, tmp_path / "cache", name="a.zip")
    path.unlink()
    assert place_archive(path, "0" * 64, tmp_path / "cache", name="other.zip") == first


def test_the_same_content_without_a_name_of_its_own_is_called_as_each_archive(tmp_path: Path) -> None:
    path = archive(tmp_path, {"SKILL.md": b"---\ndescription: x\n---\n"})
    for name in ("first", "second", "first"):
        assert place_archive(path, "0" * 64, tmp_path / "cache", name=f"{name}.zip").name == name
    file = tmp_path / "file"
    file.write_bytes(b"no front matter")
    for name in ("first", "second", "first"):
        assert place_skill_file(file, "0" * 64, tmp_path / "cache", name=name).name == name


def test_an_emptied_place_is_filled_again(tmp_path: Path) -> None:
    path = archive(tmp_path, {"SKILL.md": SKILL})
    for place in (place_archive, place_skill_file):
        placed = place(path, "0" * 64, tmp_path / "cache", name="a.zip")
        shutil.rmtree(placed)
        again = place(path, "0" * 64, tmp_path / "cache", name="a.zip")
        assert (again / "SKILL.md").is_file()


def test_an_archive_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match=r"a\.zip: holds no files"):
        place_archive(archive(tmp_path, {}), "0" * 64, tmp_path / "cache", name="a.zip")


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
