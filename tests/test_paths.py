"""A name from outside becomes a path inside, or an error that says why not."""

import os
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import ForbiddenPath, InvalidArgument, SkillError
from openskills.paths import inside, parse_relative, to_printable


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a/b.txt", "a/b.txt"),
        ("./a//b/./c/", "a/b/c"),
        ("a\\b", "a\\b"),
        ("~/$HOME", "~/$HOME"),
        ("..a/b..", "..a/b.."),
        ("说明.md", "说明.md"),
    ],
)
def test_an_ordinary_name_becomes_a_relative_path(name: str, path: str) -> None:
    assert parse_relative(name) == PurePosixPath(path)


@pytest.mark.parametrize("name", ["/etc/passwd", "//a", "..", "a/../../b", "a/.."])
def test_a_name_that_is_absolute_or_climbs_is_forbidden(name: str) -> None:
    with pytest.raises(ForbiddenPath) as caught:
        parse_relative(name, field="cwd")
    assert str(caught.value).startswith(f"cwd: {name!r} ")


@pytest.mark.parametrize("name", ["", ".", "./.", "a\0b", "x" * 256, "é" * 128, "a/" * 3000])
def test_a_name_that_is_not_a_name_is_an_invalid_argument(name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_relative(name, field="inputs")
    assert caught.value.field == "inputs"


def test_a_file_inside_is_found_even_before_it_exists(tmp_path: Path) -> None:
    assert inside(tmp_path, "new/file.txt") == Path(os.path.realpath(tmp_path)) / "new" / "file.txt"


def test_a_link_that_stays_inside_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("x")
    (tmp_path / "link.txt").symlink_to("real.txt")
    assert inside(tmp_path, "link.txt").name == "real.txt"


@pytest.mark.parametrize("target", ["/etc", "..", "../outside"])
def test_a_link_that_leads_out_is_forbidden(tmp_path: Path, target: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(target)
    with pytest.raises(ForbiddenPath, match="path: 'link/x' leads out of root"):
        inside(root, "link/x")


def test_a_folder_whose_name_begins_like_the_root_is_outside(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "root-other"
    root.mkdir()
    other.mkdir()
    (root / "link").symlink_to(other)
    with pytest.raises(ForbiddenPath):
        inside(root, "link/x")


def test_a_root_that_is_itself_a_link_is_fine(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to("real")
    assert inside(tmp_path / "root", "a") == Path(os.path.realpath(tmp_path)) / "real" / "a"


@given(st.text(alphabet=st.sampled_from("a./\\\0~é\ud800"), max_size=30))
def test_whatever_the_name_the_answer_is_inside_or_an_error(name: str) -> None:
    try:
        path = parse_relative(name)
    except SkillError:
        return
    assert not path.is_absolute()
    assert ".." not in path.parts
    assert path.parts


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain 文字", "plain 文字"),
        ("a\nb\x1b[31m", "a\\nb\\x1b[31m"),
        ("x\u200b\U000e0041", "x\\u200b\\U000e0041"),
        ("latin\udce9", "latin\\xe9"),
    ],
)
def test_what_cannot_be_seen_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert to_printable(text) == shown
