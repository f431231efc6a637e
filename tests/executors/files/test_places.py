"""What a path in a workspace means."""

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.files.places import place, writable_place


@pytest.mark.parametrize(
    ("path", "means"),
    [
        ("out/a", "out/a"),
        ("./out//a", "out/a"),
        ("inputs", "work/inputs"),
        ("inputs/a", "work/inputs/a"),
        ("skills/pdf/out/a", "out/a"),
        ("skills/pdf/work", "work"),
        ("skills/pdf/inputs/a/b", "work/inputs/a/b"),
        ("skills/pdf/scripts/out", "skills/pdf/scripts/out"),
        ("skills/pdf", "skills/pdf"),
        ("..\\..\\x", "..\\..\\x"),
        ("C:\\x", "C:\\x"),
        ("%2e%2e/x", "%2e%2e/x"),
        ("~/x", "~/x"),
    ],
)
def test_a_path_has_one_spelling(path: str, means: str) -> None:
    assert place(path) == means


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../b", "a//../..//b", "./..", "out/.."])
def test_a_path_that_leaves_is_forbidden(path: str) -> None:
    with pytest.raises(ForbiddenPath):
        place(path)


@pytest.mark.parametrize("path", ["", ".", "a\0b", "x" * 300, "a/" * 2500 + "a"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidArgument):
        place(path)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("skills/pdf/SKILL.md", "read-only"),
        ("skills", "read-only"),
        ("skills/pdf/.venv/bin/python", "read-only"),
        ("notes.txt", "none of the workspace's directories"),
        ("out", "directory of the workspace itself"),
        ("skills/pdf/out", "directory of the workspace itself"),
    ],
)
def test_some_places_are_not_for_writing(path: str, said: str) -> None:
    with pytest.raises(ForbiddenPath, match=said):
        writable_place(path)


def test_a_place_for_writing_is_spelled_in_one_way() -> None:
    assert writable_place("skills/pdf/inputs/a") == "work/inputs/a"
