"""Files of this machine below shared roots."""

import os
from pathlib import Path, PurePosixPath

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.files.tree import HostFiles, find_host_root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "shared/data").mkdir(parents=True)
    (tmp_path / "shared/data/a.csv").write_text("a")
    (tmp_path / "secret").write_text("secret")
    return tmp_path / "shared"


def content(files: HostFiles, name: str) -> bytes:
    descriptor, _ = files.open(name)
    try:
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)


def test_nothing_is_shared_unless_it_is_configured(tmp_path: Path) -> None:
    with pytest.raises(ForbiddenPath, match="host_roots"):
        find_host_root([], PurePosixPath(tmp_path / "x"))


def test_only_what_is_below_a_root_is_shared(root: Path) -> None:
    assert find_host_root([root], PurePosixPath(root / "data/a.csv")) == (root, "data/a.csv")
    assert find_host_root([root.parent, root], PurePosixPath(root / "data")) == (root, "data")
    for path in (root.parent / "secret", Path("/etc/passwd"), root.with_name("shared-too") / "x"):
        with pytest.raises(ForbiddenPath, match="not below a shared directory"):
            find_host_root([root], PurePosixPath(path))


def test_a_root_that_is_a_link_can_be_named_both_ways(root: Path) -> None:
    link = root.with_name("link")
    link.symlink_to(root)
    assert find_host_root([link], PurePosixPath(link / "data")) == (link, "data")
    assert find_host_root([link], PurePosixPath(root / "data")) == (link, "data")


def test_a_file_and_a_directory_are_found(root: Path) -> None:
    (root / "data/tool").touch(mode=0o755)
    files = HostFiles(root, "data")
    assert files.names == ("a.csv", "tool")
    assert content(files, "a.csv") == b"a"
    descriptor, program = files.open("tool")
    os.close(descriptor)
    files.close()
    assert program
    file = HostFiles(root, "data/a.csv")
    assert (file.names, file.is_directory) == (("",), False)
    assert content(file, "") == b"a"
    file.close()


def test_links_that_lead_out_are_not_followed(root: Path) -> None:
    (root / "leaves").symlink_to("../secret")
    (root / "data/leaves").symlink_to("/etc/passwd")
    with pytest.raises(ForbiddenPath):
        HostFiles(root, "leaves")
    files = HostFiles(root, "data")
    assert files.names == ("a.csv",)
    assert files.skipped == ("leaves is a link",)
    (root / "data/a.csv").unlink()
    (root / "data/a.csv").symlink_to("../../secret")
    with pytest.raises(ForbiddenPath):
        files.open("a.csv")
    files.close()


@pytest.mark.parametrize("name", ["none", "data/fifo"])
def test_what_is_not_a_file_is_refused_and_nobody_waits(root: Path, name: str) -> None:
    os.mkfifo(root / "data/fifo")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(InvalidArgument, match=r"inputs\.from"):
        HostFiles(root, name)
    assert len(os.listdir("/proc/self/fd")) == before
