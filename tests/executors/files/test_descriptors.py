"""Going down and up by descriptors.

Directories that are opened and made beneath a workspace.

What the system says, in the words of our caller.

The confined open: what it follows, what it refuses, and that no race gets through it.

Removing what a hostile script left behind.

Directories that nobody may read.

A whole directory goes, whatever is in it, and nothing else does.
"""

import errno
import os
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded
from openskills.executors.files.descriptors import (
    DirectoryCursor,
    DirectoryOpener,
    delete_tree,
    has_openat2,
    open_beneath,
    open_stepwise,
    open_with_full_access,
    open_with_openat2,
    remove_entry,
    translate_os_errors,
)
from tests.executors.hostile_files import deep, swapping
from tests.executors.unprivileged import as_ordinary_user, open_descriptors


def test_a_depth_beyond_every_path_needs_few_descriptors(tmp_path: Path) -> None:
    root = os.open(tmp_path, os.O_RDONLY)
    before = len(os.listdir("/proc/self/fd"))
    with deep(tmp_path, 2_000), DirectoryCursor(root) as descent:
        for _ in range(2_000):
            descent.enter("d")
        assert os.listdir(descent.descriptor) == ["file"]
        assert len(os.listdir("/proc/self/fd")) < before + 50
        for _ in range(2_000):
            descent.leave()
        assert descent.depth == 0
        assert os.path.samestat(os.fstat(descent.descriptor), os.stat(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(root)


def test_a_link_is_not_entered(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    root = os.open(tmp_path, os.O_RDONLY)
    with DirectoryCursor(root) as descent:
        with pytest.raises(OSError, match="link"):
            descent.enter("link")
        assert descent.depth == 0
    os.close(root)


def test_going_up_from_a_directory_that_was_moved_is_refused(tmp_path: Path) -> None:
    root = os.open(tmp_path, os.O_RDONLY)
    with deep(tmp_path, 40), DirectoryCursor(root) as descent:
        for _ in range(39):
            descent.enter("d")
        os.rename("d", tmp_path / "moved", src_dir_fd=descent.descriptor)
        inside = os.open(tmp_path / "moved", os.O_RDONLY)
        descent.follow(inside)
        with pytest.raises(OSError, match="moved") as refused:
            descent.leave()
        assert refused.value.errno == errno.ESTALE
    os.close(root)


@pytest.fixture
def directories(tmp_path: Path) -> Generator[DirectoryOpener]:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield DirectoryOpener(descriptor, None)
    os.close(descriptor)


def same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    finally:
        os.close(descriptor)


def test_what_is_missing_is_made_with_its_parents(tmp_path: Path, directories: DirectoryOpener) -> None:
    assert same(directories.create("out/a/b"), tmp_path / "out/a/b")
    assert same(directories.open("out/a/b"), tmp_path / "out/a/b")
    assert same(directories.create("out"), tmp_path / "out")
    with pytest.raises(FileNotFoundError):
        directories.open("out/none")


def test_a_link_within_the_same_directory_is_followed_unless_none_is_to_be(
    tmp_path: Path, directories: DirectoryOpener
) -> None:
    (tmp_path / "out/a").mkdir(parents=True)
    (tmp_path / "out/link").symlink_to("a")
    assert same(directories.create("out/link/b"), tmp_path / "out/a/b")
    with pytest.raises(ForbiddenPath):
        directories.create("out/link/c", links=False)


@pytest.mark.parametrize("target", ["../work", "/etc", "../../x", "none"])
def test_a_link_to_another_directory_is_not_followed(tmp_path: Path, directories: DirectoryOpener, target: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "out/link").symlink_to(target)
    with pytest.raises(ForbiddenPath):
        directories.create("out/link/b")
    (tmp_path / "top").symlink_to("work")
    with pytest.raises(ForbiddenPath):
        directories.create("top/b")
    assert os.listdir(tmp_path / "work") == []


def test_no_descriptor_stays_open(directories: DirectoryOpener) -> None:
    before = len(os.listdir("/proc/self/fd"))
    os.close(directories.create("out/a/b/c"))
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("number", "error", "said"),
    [
        (errno.ENOENT, InvalidArgument, "path: 'out/x' does not exist"),
        (errno.EISDIR, InvalidArgument, "is a directory"),
        (errno.EACCES, InvalidArgument, "permission"),
        (errno.ELOOP, ForbiddenPath, "goes through a link"),
        (errno.ENOSPC, LimitExceeded, "cannot write 'out/x'"),
        (errno.EIO, OSError, "Input/output error"),
    ],
)
def test_an_error_of_the_system_becomes_one_that_names_the_path(number: int, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said), translate_os_errors("out/x"):
        raise OSError(number, os.strerror(number), "d")


def test_a_refusal_names_the_path_as_it_was_given() -> None:
    with pytest.raises(ForbiddenPath, match="cwd: 'out/x' leads out"), translate_os_errors("out/x", field="cwd"):
        raise ForbiddenPath("path: 'x' leads out", why="leads out")


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
    pytest.param(open_with_openat2, id="kernel", marks=pytest.mark.skipif(not has_openat2(), reason="no openat2 here")),
    pytest.param(open_stepwise, id="steps"),
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


@pytest.mark.skipif(not has_openat2(), reason="no openat2 here")
def test_a_link_that_stays_below_is_followed_unless_none_is_to_be(place: Path, root: int) -> None:
    (place / "out" / "link").symlink_to("../out/file")
    assert content(open_beneath(root, "out/link", os.O_RDONLY)) == OPEN
    with pytest.raises(ForbiddenPath, match="goes through a link"):
        open_beneath(root, "out/link", os.O_RDONLY, links=False)


def test_by_steps_no_link_is_followed(place: Path, root: int) -> None:
    (place / "link").symlink_to("out")
    with pytest.raises(ForbiddenPath, match="goes through a link"):
        open_stepwise(root, "link/file", os.O_RDONLY)


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
def test_no_descriptor_stays_open_in_openat2(opener: Opener, root: int) -> None:
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


def remove(directory: Path, name: str) -> bool:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        return remove_entry(descriptor, name)
    finally:
        os.close(descriptor)


def test_directories_deeper_than_any_path_are_removed(tmp_path: Path) -> None:
    (tmp_path / "top").mkdir()
    with deep(tmp_path / "top", 5_000):
        assert remove(tmp_path, "top")
        assert os.listdir(tmp_path) == []


def test_a_tree_with_unreadable_directories_is_removed(tmp_path: Path) -> None:
    for name in ("a/b/c", "a/d", "e"):
        (tmp_path / "top" / name).mkdir(parents=True)
        (tmp_path / "top" / name / "file").touch()
    for name in ("a/b/c", "a/b", "a/d", "e", ""):
        (tmp_path / "top" / name).chmod(0)
    assert remove(tmp_path, "top")
    assert os.listdir(tmp_path) == []


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "link").symlink_to("../outside")
    os.mkfifo(tmp_path / "top" / "fifo")
    (tmp_path / "alone").symlink_to("outside")
    assert remove(tmp_path, "top")
    assert remove(tmp_path, "alone")
    assert os.listdir(tmp_path) == ["outside"]
    assert (tmp_path / "outside" / "kept").exists()


def test_there_is_nothing_to_remove_twice(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert remove(tmp_path, "file")
    assert not remove(tmp_path, "file")


def test_a_script_that_adds_files_meanwhile_cannot_keep_the_removal_from_ending(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "in").mkdir(parents=True)
    stop = threading.Event()

    def add() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            with suppress(OSError):
                (top / "in" / str(number)).touch()

    adding = threading.Thread(target=add)
    adding.start()
    try:
        with suppress(OSError):
            remove(tmp_path, "top")
    finally:
        stop.set()
        adding.join()
    remove(tmp_path, "top")
    assert not top.exists()


def test_a_directory_that_is_swapped_for_a_link_does_not_lead_out(tmp_path: Path) -> None:
    outside, place = tmp_path / "outside", tmp_path / "workspace" / "out"
    for directory in (outside, place):
        (directory / "sub").mkdir(parents=True)
        (directory / "sub" / "file").touch()
    link, stop = tmp_path / "workspace" / "link", threading.Event()
    link.symlink_to(outside)

    def swap() -> None:
        kept = tmp_path / "workspace" / "kept"
        while not stop.is_set():
            for old, new in ((place, kept), (link, place), (place, link), (kept, place)):
                with suppress(OSError):
                    os.rename(old, new)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(300):
            with suppress(OSError):
                remove(tmp_path / "workspace", "out")
            with suppress(OSError):
                (place / "sub").mkdir(parents=True)
    finally:
        stop.set()
        swapping.join()
    assert (outside / "sub" / "file").exists()


@pytest.mark.parametrize("name", ["-rf", "--help", "line\nbreak", "\udcff"])
def test_any_name_can_be_removed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert remove(tmp_path, name)


@pytest.mark.parametrize("mode", [0o000, 0o300, 0o400, 0o555, 0o700])
def test_an_unreadable_directory_can_be_read_and_changed(tmp_path: Path, mode: int) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").touch()
    (tmp_path / "d").chmod(mode)
    root = os.open(tmp_path, os.O_RDONLY)
    inside = open_with_full_access("d", root)
    assert os.listdir(inside) == ["x"]
    os.unlink("x", dir_fd=inside)
    assert (tmp_path / "d").stat().st_mode & 0o700 == 0o700
    os.close(inside)
    os.close(root)


def test_a_link_is_not_unlocked(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir(mode=0o500)
    (tmp_path / "link").symlink_to("target")
    root = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(OSError, match="link"):
        open_with_full_access("link", root)
    os.close(root)
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o500


DEPTH = 5000


def deep_delete(path: Path, depth: int) -> None:
    """Directories in each other, deeper than any path can say, with a file at the bottom."""
    path.mkdir()
    place = os.open(path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=place))
    os.close(place)


def test_a_tree_goes_with_all_kinds_of_things_in_it(tmp_path: Path) -> None:
    doomed = tmp_path / "doomed"
    (doomed / "a" / "b").mkdir(parents=True)
    (doomed / "a" / "b" / "file").write_text("x")
    (doomed / "a" / "-rf\n\x1b").write_text("x")
    os.mkfifo(doomed / "pipe")
    os.mkdir(os.fsencode(doomed) + b"/\xff\xfe")
    assert delete_tree(doomed) is True
    assert not doomed.exists()
    assert delete_tree(doomed) is False


def test_links_go_and_what_they_lead_to_stays(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    doomed = tmp_path / "doomed"
    (doomed / "in").mkdir(parents=True)
    (doomed / "in" / "directory").symlink_to(kept)
    (doomed / "in" / "up").symlink_to("..")
    (doomed / "file").hardlink_to(kept / "file")
    delete_tree(doomed)
    assert not doomed.exists()
    assert (kept / "file").read_text() == "x"


def test_a_link_or_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "file").write_text("x")
    for name in ("link", "file"):
        with pytest.raises(NotADirectoryError):
            delete_tree(tmp_path / name)
    assert (tmp_path / "kept").is_dir()


def test_a_tree_of_five_thousand_levels_goes(tmp_path: Path) -> None:
    deep_delete(tmp_path / "doomed", DEPTH)
    delete_tree(tmp_path / "doomed")
    assert os.listdir(tmp_path) == []


def test_directories_that_are_closed_to_their_owner_go(tmp_path: Path) -> None:
    def build_and_delete(place: Path) -> None:
        doomed = place / "doomed"
        (doomed / "a" / "b" / "c").mkdir(parents=True)
        (doomed / "a" / "b" / "c" / "file").write_text("x")
        (doomed / "a" / "other").mkdir()
        for name in ("a/b/c", "a/b", "a/other", "a", "."):
            os.chmod(doomed / name, 0)
        delete_tree(doomed)

    as_ordinary_user(tmp_path, build_and_delete)
    assert os.listdir(tmp_path) == []


def test_what_was_half_removed_can_be_removed_again(tmp_path: Path) -> None:
    doomed = tmp_path / "doomed"
    (doomed / ".0123-0" / "x").mkdir(parents=True)
    (doomed / "work").mkdir()
    assert delete_tree(doomed) is True
    assert not doomed.exists()


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = open_descriptors()
    deep_delete(tmp_path / "doomed", 50)
    delete_tree(tmp_path / "doomed")
    assert open_descriptors() == before
