"""Files that appear whole or not at all.

Names from outside cannot leave the directory of a skill.

A guess about the encoding of a text.

Which paths a pattern means.

All files below a directory.
"""

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded, SkillError
from openskills.skillkit.files import (
    MAX_DEPTH,
    SAMPLE_BYTES,
    AllowedRoot,
    Glob,
    Walk,
    atomic_file,
    detect_encoding,
    make_directory,
    root,
    write_error,
)
from tests.skillkit.swapping import swapping


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    """An open descriptor of an empty directory."""
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def test_a_file_has_no_name_until_it_is_whole(directory: int, tmp_path: Path) -> None:
    with atomic_file(directory, "x.txt") as file:
        file.write(b"half")
        file.flush()
        assert [name for name in os.listdir(tmp_path) if not name.startswith(".")] == []
    assert os.listdir(tmp_path) == ["x.txt"]
    assert (tmp_path / "x.txt").read_bytes() == b"half"


def test_what_fails_leaves_the_old_file_and_nothing_else(directory: int, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("old")
    with pytest.raises(ValueError, match="closed"), atomic_file(directory, "x.txt") as file:
        file.close()
    assert os.listdir(tmp_path) == ["x.txt"]
    assert (tmp_path / "x.txt").read_text() == "old"


def test_a_place_that_is_not_to_be_written_is_named_with_what_to_do() -> None:
    # Nobody can make files there, not even root.
    descriptor = os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with pytest.raises(SkillError, match=r"cannot write 'x.txt'"), atomic_file(descriptor, "x.txt"):
            pass
    finally:
        os.close(descriptor)
    said = write_error("out", OSError(errno.EROFS, "Read-only file system")).message
    assert said.startswith("cannot write 'out': Read-only file system; the manifest needs `writable: true`")


@pytest.mark.parametrize(("mode", "file", "folder"), [(0o755, 0o644, 0o755), (0o700, 0o600, 0o700)])
def test_who_sees_the_directory_sees_what_is_made_in_it(
    directory: int, tmp_path: Path, mode: int, file: int, folder: int
) -> None:
    tmp_path.chmod(mode)
    before = os.umask(0o077)
    try:
        with atomic_file(directory, "x.txt"):
            pass
        make_directory(directory, "made")
        make_directory(directory, "made")
    finally:
        os.umask(before)
    assert (tmp_path / "x.txt").stat().st_mode & 0o777 == file
    assert (tmp_path / "made").stat().st_mode & 0o777 == folder


def test_a_process_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    code = """
import os, signal
from openskills.skillkit.files import atomic_file
with atomic_file(os.open(".", os.O_RDONLY), "x.txt") as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == []


def test_a_link_is_replaced_and_not_followed(directory: int, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep")
    (tmp_path / "x.txt").symlink_to("precious")
    with atomic_file(directory, "x.txt") as file:
        file.write(b"new")
    assert (tmp_path / "precious").read_text() == "keep"
    assert (tmp_path / "x.txt").read_text() == "new"
    assert not (tmp_path / "x.txt").is_symlink()


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
    allowed = AllowedRoot(str(place))
    assert allowed.read(name) == b"hello"
    assert allowed.outer(allowed.inner(name)) == "data/docs/a.txt"


def test_a_link_may_lead_to_another_place_inside(place: Path) -> None:
    (place / "docs/link").symlink_to("../docs/a.txt")
    assert AllowedRoot(str(place)).read("docs/link") == b"hello"


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
def test_what_is_not_a_file_inside_is_refused(place: Path, name: str, kind: type[SkillError]) -> None:
    (place / "out").symlink_to("../secret.txt")
    (place / "folder").symlink_to(place.parent)
    (place / "circle").symlink_to("circle")
    os.mkfifo(place / "fifo")
    with pytest.raises(kind, match=r"^input_path: "):
        AllowedRoot(str(place)).open(name, field="input_path")


def test_a_file_that_is_too_large_is_refused(place: Path) -> None:
    allowed = AllowedRoot(str(place))
    assert allowed.read("docs/a.txt", limit=5) == b"hello"
    with pytest.raises(LimitExceeded, match=r"'docs/a\.txt' is larger than 4 bytes"):
        allowed.read("docs/a.txt", limit=4)


def test_files_are_written_inside_with_the_directories_they_need(place: Path) -> None:
    allowed = AllowedRoot(str(place))
    with allowed.open_writer("./data/new/deep/x.txt") as file:
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
    with pytest.raises(kind), AllowedRoot(str(place)).open_writer(name) as file:
        file.write(b"x")
    assert sorted(os.listdir(place.parent)) == before


def test_a_root_that_is_missing_is_our_own_fault(tmp_path: Path) -> None:
    with pytest.raises(SkillError, match="directory 'gone' does not exist; create it") as caught:
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
    allowed = AllowedRoot(str(place))
    seen: set[str] = set()
    with swapping(place / "docs", outside(place)):
        for _ in range(3000):
            try:
                seen.add(allowed.read("docs/a.txt").decode())
            except ForbiddenPath as error:
                seen.add(error.reason)
    assert seen == {"hello", "FORBIDDEN_PATH"}


def test_a_folder_that_is_swapped_for_a_link_is_not_written_through(place: Path) -> None:
    allowed = AllowedRoot(str(place))
    written = 0
    with swapping(place / "docs", outside(place)):
        for _ in range(1000):
            try:
                with allowed.open_writer("docs/new.txt") as file:
                    file.write(b"x")
                written += 1
            except ForbiddenPath:
                continue
    assert os.listdir(place.parent / "outside") == ["a.txt"]
    assert written


CHINESE = "原材料价格：均值、中位数、最小值和最大值。 plain words\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "gb18030"])
def test_chinese_is_recognised(encoding: str) -> None:
    assert detect_encoding(CHINESE.encode(encoding)) == encoding


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_western_text_in_utf16_is_recognised_without_its_mark(encoding: str) -> None:
    assert detect_encoding("plain words, nothing else\n".encode(encoding)) == encoding


@pytest.mark.parametrize(
    "data",
    [b"\0\1\2\3", b"\x89PNG\r\n", b"%PDF-1.7", b"\x1f\x8b\x08", b"PK\x03\x04", b"\x7fELF", bytes(range(1, 32)) * 10],
)
def test_what_is_not_text_is_recognised(data: bytes) -> None:
    assert detect_encoding(data) is None


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"", "utf-8"),
        (b"plain", "utf-8"),
        (b"colours \x1b[31mred\x1b[0m\n", "utf-8"),
        ("un café très élégant, déjà vu\n".encode("cp1252"), "cp1252"),
        ("über Straßen\n".encode("cp1252"), "cp1252"),
    ],
)
def test_other_texts_are_recognised(data: bytes, encoding: str) -> None:
    assert detect_encoding(data) == encoding


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
@pytest.mark.parametrize("shift", range(4))
def test_a_character_that_the_sample_cuts_in_two_does_no_harm(encoding: str, shift: int) -> None:
    data = b"x" * shift + ("价" * SAMPLE_BYTES).encode(encoding)
    assert detect_encoding(data[:SAMPLE_BYTES]) == encoding


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.md", "a.md", True),
        ("*.md", "x/y/a.md", True),
        ("*.md", "a.mdx", False),
        ("**/*.md", "a.md", True),
        ("**/*.md", "x/y/a.md", True),
        ("x/*.md", "x/a.md", True),
        ("x/*.md", "x/y/a.md", False),
        ("x/**/a.md", "x/a.md", True),
        ("x/**/a.md", "x/y/z/a.md", True),
        ("x/**", "x/y/z", True),
        ("x/**", "y/x", False),
        ("**", "x/y", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("?", "中", True),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[^a-c]x", "dx", True),
        ("[]]", "]", True),
        ("[a-]", "-", True),
        ("[ab", "[ab", True),
        ("{a,b}.{md,txt}", "b.txt", True),
        ("{a,b}.md", "c.md", False),
        ("{a,{b,c}}.md", "c.md", True),
        ("{a", "{a", True),
        ("./x//*.md", "x/a.md", True),
        ("a.b", "axb", False),
        ("A.md", "a.md", False),
    ],
)
def test_a_pattern_fits(pattern: str, path: str, fits: bool) -> None:
    assert Glob(pattern).matches(path) is fits


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ("", InvalidArgument),
        ("  ", InvalidArgument),
        ("a\0b", InvalidArgument),
        ("x" * 1001, InvalidArgument),
        ("{a,b}" * 10, InvalidArgument),
        ("{" * 300 + "a,b" + "}" * 300, InvalidArgument),
        ("/etc/*", ForbiddenPath),
        ("{/etc,x}/*", ForbiddenPath),
        ("x/../y", ForbiddenPath),
    ],
)
def test_a_pattern_that_cannot_be_is_refused(pattern: str, kind: type[SkillError]) -> None:
    with pytest.raises(kind, match=r"^glob: "):
        Glob(pattern)


def test_no_pattern_takes_long() -> None:
    assert not Glob("*a" * 100 + "b").matches("a" * 255)
    assert not Glob("**/a/" * 100 + "b").matches("/".join("a" * 200))


def tree(root: Path, *names: str) -> AllowedRoot:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return AllowedRoot(str(root))


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


def test_links_hidden_names_and_what_is_not_a_file_are_left_out(tmp_path: Path) -> None:
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
    deep = "/".join(["d"] * (MAX_DEPTH + 5))
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
