"""The confined open: what it follows, what it refuses, and that no race gets through it."""

import os
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.files.openat2 import kernel_can, kernel_open, open_beneath, step_open
from tests.executors.hostile_files import swapping

Opener = Callable[[int, str, int], int]
SECRET, OPEN = b"secret", b"mine"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A workspace with `out/file`, and outside of it a `secret/file`."""
    for directory, content in (("workspace/out", OPEN), ("secret", SECRET)):
        (tmp_path / directory).mkdir(parents=True)
        (tmp_path / directory / "file").write_bytes(content)
    return tmp_path / "workspace"


@pytest.fixture
def root(place: Path) -> Generator[int]:
    """A descriptor of the workspace."""
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


OPENERS = [
    pytest.param(open_beneath, id="best"),
    pytest.param(kernel_open, id="kernel", marks=pytest.mark.skipif(not kernel_can(), reason="no openat2 here")),
    pytest.param(step_open, id="steps"),
]


def content(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("opener", OPENERS)
def test_a_file_below_is_opened(opener: Opener, root: int) -> None:
    assert content(opener(root, "out/file", os.O_RDONLY)) == OPEN
    assert content(opener(root, "./out//file", os.O_RDONLY)) == OPEN


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("path", ["../secret/file", "/etc/passwd", "out/../../secret/file"])
def test_a_path_that_leads_out_is_forbidden(opener: Opener, root: int, path: str) -> None:
    with pytest.raises(ForbiddenPath, match="leads out"):
        opener(root, path, os.O_RDONLY)


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("target", ["../../secret", "/etc", "/proc/self/root", "/proc/self/cwd"])
def test_a_link_that_leads_out_is_forbidden(opener: Opener, place: Path, root: int, target: str) -> None:
    (place / "out" / "link").symlink_to(target)
    with pytest.raises(ForbiddenPath):
        opener(root, "out/link/file", os.O_RDONLY)
    with pytest.raises(ForbiddenPath):
        opener(root, "out/link", os.O_RDONLY)


@pytest.mark.parametrize("opener", OPENERS)
def test_links_in_a_circle_are_forbidden(opener: Opener, place: Path, root: int) -> None:
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    with pytest.raises(ForbiddenPath, match="link"):
        opener(root, "a", os.O_RDONLY)


@pytest.mark.skipif(not kernel_can(), reason="no openat2 here")
def test_a_link_that_stays_below_is_followed_unless_none_is_to_be(place: Path, root: int) -> None:
    (place / "out" / "link").symlink_to("../out/file")
    assert content(open_beneath(root, "out/link", os.O_RDONLY)) == OPEN
    with pytest.raises(ForbiddenPath, match="goes through a link"):
        open_beneath(root, "out/link", os.O_RDONLY, links=False)


def test_by_steps_no_link_is_followed(place: Path, root: int) -> None:
    (place / "link").symlink_to("out")
    with pytest.raises(ForbiddenPath, match="goes through a link"):
        step_open(root, "link/file", os.O_RDONLY)


@pytest.mark.parametrize("opener", OPENERS)
def test_what_is_missing_or_of_another_kind_is_an_error_of_the_system(opener: Opener, root: int) -> None:
    with pytest.raises(FileNotFoundError, match="out/none"):
        opener(root, "out/none", os.O_RDONLY)
    with pytest.raises(NotADirectoryError):
        opener(root, "out/file/x", os.O_RDONLY)


def test_a_nul_byte_does_not_end_the_path(root: int) -> None:
    with pytest.raises(InvalidArgument, match="NUL"):
        open_beneath(root, "out/file\0x", os.O_RDONLY)


@pytest.mark.parametrize("opener", OPENERS)
def test_nobody_waits_for_a_fifo(opener: Opener, place: Path, root: int) -> None:
    os.mkfifo(place / "out" / "fifo")
    os.close(opener(root, "out/fifo", os.O_RDONLY | os.O_NONBLOCK))


@pytest.mark.parametrize("opener", OPENERS)
def test_no_descriptor_stays_open(opener: Opener, root: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in ("out/file", "out/none", "../x", "out/file/x"):
        with suppress(OSError, ForbiddenPath):
            os.close(opener(root, path, os.O_RDONLY))
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.slow
@pytest.mark.parametrize("opener", OPENERS)
def test_a_directory_that_is_swapped_for_a_link_never_leaks(opener: Opener, place: Path, root: int) -> None:
    leaks = 0
    with swapping(place / "out", place.parent / "secret"):
        for _ in range(20_000):
            with suppress(OSError, ForbiddenPath):
                leaks += content(opener(root, "out/file", os.O_RDONLY)) == SECRET
    assert leaks == 0


def test_the_same_race_beats_a_check_by_path(place: Path) -> None:
    """Shows that the test above can fail."""
    with swapping(place / "out", place.parent / "secret"):
        assert any(naive_read(place, "out/file") == SECRET for _ in range(200_000))


def naive_read(place: Path, path: str) -> bytes:
    target = place / path
    with suppress(OSError):
        if os.path.realpath(target).startswith(f"{place}/"):
            return target.read_bytes()
    return b""
