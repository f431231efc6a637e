"""Names from outside cannot leave the directory of a skill."""

import os
from pathlib import Path

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded, SkillError
from openskills.skillkit import Root, root
from tests.skillkit.swapping import swapping


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a file, beside a secret."""
    data = tmp_path / "data"
    (data / "docs").mkdir(parents=True)
    (data / "docs/a.txt").write_text("hello")
    (tmp_path / "secret.txt").write_text("SECRET")
    return data


@pytest.mark.parametrize(
    "name", ["docs/a.txt", "./docs/a.txt", "data/docs/a.txt", "./data/docs/a.txt", "docs//./a.txt"]
)
def test_a_file_is_read_by_each_of_its_names(place: Path, name: str) -> None:
    allowed = Root(str(place))
    assert allowed.read(name) == b"hello"
    assert allowed.outer(allowed.inner(name)) == "data/docs/a.txt"


def test_a_link_may_lead_to_another_place_inside(place: Path) -> None:
    (place / "docs/link").symlink_to("../docs/a.txt")
    assert Root(str(place)).read("docs/link") == b"hello"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("/etc/passwd", ForbiddenPath),
        ("../secret.txt", ForbiddenPath),
        ("docs/../../secret.txt", ForbiddenPath),
        ("data/../../secret.txt", ForbiddenPath),
        ("out", ForbiddenPath),
        ("folder/secret.txt", ForbiddenPath),
        ("circle", ForbiddenPath),
        ("docs", InvalidArgument),
        ("", InvalidArgument),
        ("data", InvalidArgument),
        ("none.txt", InvalidArgument),
        ("docs/a.txt/b", InvalidArgument),
        ("fifo", InvalidArgument),
        ("a\0b", InvalidArgument),
        ("\udcff\ud800", InvalidArgument),
        ("x" * 300, InvalidArgument),
    ],
)
def test_what_is_no_file_inside_is_refused(place: Path, name: str, kind: type[SkillError]) -> None:
    (place / "out").symlink_to("../secret.txt")
    (place / "folder").symlink_to(place.parent)
    (place / "circle").symlink_to("circle")
    os.mkfifo(place / "fifo")
    with pytest.raises(kind, match=r"^input_path: "):
        Root(str(place)).open(name, field="input_path")


def test_a_file_that_is_too_large_is_refused(place: Path) -> None:
    allowed = Root(str(place))
    assert allowed.read("docs/a.txt", limit=5) == b"hello"
    with pytest.raises(LimitExceeded, match=r"'docs/a\.txt' is larger than 4 bytes"):
        allowed.read("docs/a.txt", limit=4)


def test_files_are_written_inside_with_the_directories_they_need(place: Path) -> None:
    allowed = Root(str(place))
    with allowed.writing("./data/new/deep/x.txt") as file:
        file.write(b"made")
    assert allowed.read("new/deep/x.txt") == b"made"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../x.txt", ForbiddenPath),
        ("/tmp/x.txt", ForbiddenPath),
        ("folder/x.txt", ForbiddenPath),
        ("folder/new/x.txt", ForbiddenPath),
        ("docs", InvalidArgument),
        ("", InvalidArgument),
        ("docs/a.txt/x", InvalidArgument),
    ],
)
def test_nothing_is_written_elsewhere(place: Path, name: str, kind: type[SkillError]) -> None:
    (place / "folder").symlink_to(place.parent)
    before = sorted(os.listdir(place.parent))
    with pytest.raises(kind), Root(str(place)).writing(name) as file:
        file.write(b"x")
    assert sorted(os.listdir(place.parent)) == before


def test_a_root_that_is_missing_is_our_own_fault(tmp_path: Path) -> None:
    with pytest.raises(SkillError, match="there is no directory 'gone'; make it") as caught:
        root(str(tmp_path / "gone"))
    assert caught.value.code == 500


def test_the_root_comes_from_the_environment(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSKILL_ALLOWED_ROOT", str(place))
    assert root().read("docs/a.txt") == b"hello"
    monkeypatch.delenv("OPENSKILL_ALLOWED_ROOT")
    monkeypatch.chdir(place.parent)
    assert root().read("./data/docs/a.txt") == b"hello"


def outside(place: Path) -> Path:
    """A link to a folder outside, with a file of the same name."""
    (place.parent / "outside").mkdir()
    (place.parent / "outside/a.txt").write_text("SECRET")
    (place.parent / "link").symlink_to(place.parent / "outside")
    return place.parent / "link"


def test_a_folder_that_is_swapped_for_a_link_never_leads_out(place: Path) -> None:
    allowed = Root(str(place))
    seen: set[str] = set()
    with swapping(place / "docs", outside(place)):
        for _ in range(3000):
            try:
                seen.add(allowed.read("docs/a.txt").decode())
            except ForbiddenPath as error:
                seen.add(error.reason)
    assert seen == {"hello", "FORBIDDEN_PATH"}


def test_a_folder_that_is_swapped_for_a_link_is_not_written_through(place: Path) -> None:
    allowed = Root(str(place))
    written = 0
    with swapping(place / "docs", outside(place)):
        for _ in range(1000):
            try:
                with allowed.writing("docs/new.txt") as file:
                    file.write(b"x")
                written += 1
            except ForbiddenPath:
                continue
    assert os.listdir(place.parent / "outside") == ["a.txt"]
    assert written
