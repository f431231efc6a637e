"""All files below a directory."""

import os
import socket
from pathlib import Path

import pytest

from openskills.errors import ForbiddenPath
from openskills.skillkit import Glob, Root, Walk
from openskills.skillkit.walking import DEEPEST


def tree(root: Path, *names: str) -> Root:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return Root(str(root))


def names(walk: Walk) -> list[str]:
    return [path for path, _ in walk.files()]


def test_files_come_in_the_order_of_their_names_and_are_open(tmp_path: Path) -> None:
    root = tree(tmp_path, "b/z.txt", "a.txt", "b/a/c.txt", "c.txt")
    assert [(path, file.read().decode()) for path, file in Walk(root).files()] == [
        (name, name) for name in ("a.txt", "b/a/c.txt", "b/z.txt", "c.txt")
    ]


def test_a_walk_may_begin_below_and_choose(tmp_path: Path) -> None:
    root = tree(tmp_path, "b/z.txt", "b/a/c.md", "x.md")
    assert names(Walk(root, "b")) == ["b/a/c.md", "b/z.txt"]
    assert names(Walk(root, "b", glob=Glob("a/*"))) == ["b/a/c.md"]


def test_links_hidden_names_and_what_is_no_file_are_left_out(tmp_path: Path) -> None:
    root = tree(tmp_path / "data", "a.txt", ".hidden", ".git/config")
    (tmp_path / "secret").write_text("SECRET")
    (tmp_path / "data/link").symlink_to(tmp_path / "secret")
    (tmp_path / "data/loop").symlink_to(".")
    os.mkfifo(tmp_path / "data/fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "data/socket"))
        walk = Walk(root)
        assert names(walk) == ["a.txt"]
    assert (walk.links, walk.special) == (2, 2)


def test_a_walk_does_not_begin_outside(tmp_path: Path) -> None:
    root = tree(tmp_path / "data", "a.txt")
    (tmp_path / "data/out").symlink_to("..")
    with pytest.raises(ForbiddenPath, match=r"^root_dir: "):
        Walk(root, "out", field="root_dir")


def test_depth_is_bounded_and_descriptors_are_given_back(tmp_path: Path) -> None:
    deep = "/".join(["d"] * (DEEPEST + 5))
    root = tree(tmp_path, f"{deep}/low.txt", "high.txt")
    before = len(os.listdir("/proc/self/fd"))
    walk = Walk(root)
    assert names(walk) == ["high.txt"]
    assert walk.too_deep == 1
    partly = Walk(root).files()
    next(partly)
    partly.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_that_vanishes_is_counted(tmp_path: Path) -> None:
    root = tree(tmp_path, "a.txt", "b.txt", "c.txt")
    walk = Walk(root)
    found: list[str] = []
    for path, _ in walk.files():
        found.append(path)
        (tmp_path / "b.txt").unlink(missing_ok=True)
    assert (found, walk.unreadable) == (["a.txt", "c.txt"], 1)
