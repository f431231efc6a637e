"""The files of a workspace, with a script inside that wants to be somewhere else.

A file on its way.

Marks tell what was changed before them from what was changed after them.

Names for files that came with a conversation.
"""

import os
import resource
import stat
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded, SkillError
from openskills.executors.files.tree import AtomicFileWriter, ChangeClock, WorkspaceTree, choose_upload_name
from openskills.executors.records.leases import make_skeleton
from tests.conftest import needs_root
from tests.executors.hostile_files import swapping

ESCAPES = ["../../etc/cron.d/x", "/etc/passwd", "a/../../b", "a//../..//b", "./..", "out/..", "out/../../x"]
NO_PATHS = ["", "out/a\0b", "out/" + "x" * 300, "out/" + "a/" * 2500 + "a"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_skeleton(tmp_path / "tree", None)
    return tmp_path / "tree"


@pytest.fixture
def tree(root: Path) -> Generator[WorkspaceTree]:
    tree = WorkspaceTree(root)
    yield tree
    tree.close()
    tree.close()


def read(tree: WorkspaceTree, path: str) -> bytes:
    descriptor, info = tree.open(path)
    try:
        return os.read(descriptor, info.size + 1)
    finally:
        os.close(descriptor)


def test_what_is_written_can_be_read(tree: WorkspaceTree, root: Path) -> None:
    info = tree.write("work/a/b/c.bin", [b"\x89PNG\xff", b"\0"])
    assert (info.path, info.size) == ("work/a/b/c.bin", 6)
    assert read(tree, "work/a/b/c.bin") == b"\x89PNG\xff\0"
    assert os.listdir(root / "work/a/b") == ["c.bin"]


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_modes_do_not_depend_on_the_umask(tree: WorkspaceTree, root: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        tree.write("out/d/file", [b""])
        tree.write("out/d/program", [b""], executable=True)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((root / "out/d" / name).stat().st_mode) for name in (".", "file", "program")]
    assert modes == [0o700, 0o600, 0o700]


@needs_root("only root can give files away")
def test_what_the_host_makes_belongs_to_the_user_of_the_commands(tmp_path: Path) -> None:
    root, owner = tmp_path / "tree", (61234, 61234)
    make_skeleton(root, 61234)
    tree = WorkspaceTree(root, owner=owner)
    tree.write("out/a/b/file", [b""])
    tree.link("out/a/link", "out/a/b")
    tree.make_directory("work/x/y")
    tree.close()
    for name in ("", "out", "out/a", "out/a/b", "out/a/b/file", "out/a/link", "work/x", "work/x/y", "work/inputs"):
        status = (root / name).lstat()
        assert (status.st_uid, status.st_gid) == owner, name
    assert (root / "skills").stat().st_uid == 0


def test_paths_below_a_skill_mean_the_directories_that_they_lead_to(tree: WorkspaceTree, root: Path) -> None:
    tree.write("skills/pdf/out/x", [b"1"])
    tree.write("inputs/y", [b"2"])
    assert (root / "out/x").read_bytes() == b"1"
    assert (root / "work/inputs/y").read_bytes() == b"2"
    assert read(tree, "skills/other/inputs/y") == b"2"


@pytest.mark.parametrize("path", ESCAPES)
def test_a_path_that_leaves_is_forbidden_everywhere(tree: WorkspaceTree, tmp_path: Path, path: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    for attempt in (
        lambda: tree.write(path, [b"x"]),
        lambda: tree.open(path),
        lambda: tree.remove(path),
        lambda: tree.make_directory(path),
        lambda: tree.link(path, "out/x"),
        lambda: tree.link("out/x", path),
        lambda: tree.check_directory(path),
        lambda: tree.list([path]),
    ):
        with pytest.raises(ForbiddenPath):
            attempt()
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("path", NO_PATHS)
def test_what_is_not_a_path_is_refused(tree: WorkspaceTree, path: str) -> None:
    for attempt in (lambda: tree.write(path, [b"x"]), lambda: tree.open(path), lambda: tree.remove(path)):
        with pytest.raises(InvalidArgument):
            attempt()


@pytest.mark.parametrize("path", ["skills/pdf/SKILL.md", "skills/pdf/.venv/bin/python", "skills/new", "skills"])
def test_skills_are_read_only(tree: WorkspaceTree, root: Path, path: str) -> None:
    (root / "skills/pdf").mkdir()
    (root / "skills/pdf/SKILL.md").write_text("mine")
    for attempt in (
        lambda: tree.write(path, [b"x"]),
        lambda: tree.remove(path),
        lambda: tree.make_directory(path),
        lambda: tree.link(path, "out/x"),
    ):
        with pytest.raises(ForbiddenPath, match="skills are read-only"):
            attempt()
    assert (root / "skills/pdf/SKILL.md").read_text() == "mine"


def test_a_link_to_a_skill_makes_it_no_more_writable(tree: WorkspaceTree, root: Path) -> None:
    (root / "skills/pdf").mkdir()
    (root / "skills/pdf/SKILL.md").write_text("mine")
    (root / "work/pdf").symlink_to("../skills/pdf")
    for attempt in (
        lambda: tree.write("work/pdf/SKILL.md", [b"x"]),
        lambda: tree.remove("work/pdf/SKILL.md"),
        lambda: tree.make_directory("work/pdf/new"),
        lambda: tree.link("work/pdf/SKILL.md", "out/x"),
    ):
        with pytest.raises(ForbiddenPath):
            attempt()
    assert os.listdir(root / "skills/pdf") == ["SKILL.md"]
    assert (root / "skills/pdf/SKILL.md").read_text() == "mine"
    assert read(tree, "work/pdf/SKILL.md") == b"mine"


def test_a_directory_that_became_a_link_is_never_written_through(
    tree: WorkspaceTree, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "out").rmdir()
    (root / "out").symlink_to(outside)
    (root / "work/link").symlink_to(outside)
    (root / "work/dangling").symlink_to(outside / "none")
    for path in ("out/x", "work/link/x", "work/link/deep/x", "work/dangling/x"):
        with pytest.raises(ForbiddenPath):
            tree.write(path, [b"x"])
        with pytest.raises(ForbiddenPath):
            tree.make_directory(path)
    assert os.listdir(outside) == []


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(
    tree: WorkspaceTree, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_text("kept")
    (root / "out/x").symlink_to(tmp_path / "outside")
    tree.write("out/x", [b"new"])
    assert (tmp_path / "outside").read_text() == "kept"
    assert not (root / "out/x").is_symlink()


def test_a_link_that_stays_in_its_directory_is_written_through(tree: WorkspaceTree, root: Path) -> None:
    tree.make_directory("out/run1")
    (root / "out/latest").symlink_to("run1")
    tree.write("out/latest/x", [b"1"])
    assert (root / "out/run1/x").read_bytes() == b"1"


def test_a_file_that_fails_on_its_way_leaves_nothing(tree: WorkspaceTree, root: Path) -> None:
    tree.write("out/x", [b"old"])

    def failing() -> Iterator[bytes]:
        yield b"half"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tree.write("out/x", failing())
    assert read(tree, "out/x") == b"old"
    assert os.listdir(root / "out") == ["x"]


def test_a_file_that_is_not_committed_is_not_there(tree: WorkspaceTree, root: Path) -> None:
    with tree.open_writer("out/x") as arrival:
        arrival.write(b"half")
        assert not tree.list(["**"]).files
    assert os.listdir(root / "out") == []


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("out/none", "does not exist"),
        ("out", "not a regular file"),
        ("out/fifo", "not a regular file"),
        ("out/f/x", "a file"),
    ],
)
def test_only_regular_files_are_opened(tree: WorkspaceTree, root: Path, path: str, said: str) -> None:
    os.mkfifo(root / "out/fifo")
    (root / "out/f").touch()
    with pytest.raises(InvalidArgument, match=said):
        tree.open(path)


def test_reading_through_a_link_stays_inside(tree: WorkspaceTree, root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (root / "out/absolute").symlink_to(tmp_path / "secret")
    (root / "out/climbing").symlink_to("../../secret")
    (root / "out/other").symlink_to("../marker")
    for name in ("absolute", "climbing"):
        with pytest.raises(ForbiddenPath, match="leads out"):
            tree.open(f"out/{name}")
    with pytest.raises(InvalidArgument):
        tree.open("out/other")


def test_a_stamp_changes_with_content_and_name(tree: WorkspaceTree, root: Path) -> None:
    stamps = {tree.write("out/x", [b"1"]).stamp}
    (root / "out/x").write_bytes(b"2")
    stamps.add(tree.list(["out/*"]).files[0].stamp)
    (root / "out/x").rename(root / "out/y")
    stamps.add(tree.list(["out/*"]).files[0].stamp)
    assert len(stamps) == 3


def test_a_link_leads_to_the_same_place_from_wherever_the_workspace_is(tree: WorkspaceTree, root: Path) -> None:
    tree.write("work/data/x", [b"1"])
    tree.link("work/inputs/a/link", "work/data/x")
    assert os.readlink(root / "work/inputs/a/link") == "../../data/x"
    assert read(tree, "work/inputs/a/link") == b"1"
    tree.link("work/inputs/a/link", "out")
    assert os.readlink(root / "work/inputs/a/link") == "../../../out"
    with pytest.raises(InvalidArgument, match="is a directory"):
        tree.link("work/inputs/a", "out")
    assert os.listdir(root / "work/inputs") == ["a"]


def test_removing_takes_everything_and_follows_nothing(tree: WorkspaceTree, root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/kept").touch()
    tree.write("out/d/e/f", [b""])
    (root / "out/d/link").symlink_to(tmp_path / "outside")
    assert tree.remove("out/d")
    assert not tree.remove("out/d")
    assert not tree.remove("out/d/e")
    assert (tmp_path / "outside/kept").exists()
    with pytest.raises(ForbiddenPath, match="top-level directory of the workspace"):
        tree.remove("out")


def test_a_working_directory_is_checked(tree: WorkspaceTree, root: Path) -> None:
    (root / "out/file").touch()
    (root / "out/leaves").symlink_to("/etc")
    (root / "skills/pdf").mkdir()
    (root / "skills/pdf/out").symlink_to("../../out")
    for fine in (".", "out", "skills/pdf", "skills/pdf/out"):
        tree.check_directory(fine)
    for path in ("out/file", "out/none"):
        with pytest.raises(InvalidArgument, match="cwd"):
            tree.check_directory(path)
    with pytest.raises(ForbiddenPath, match="cwd"):
        tree.check_directory("out/leaves")


def test_what_was_changed_since_a_mark_is_listed(tree: WorkspaceTree, root: Path) -> None:
    for round_number in range(200):
        tree.write("out/before", [b"1"])
        mark = tree.mark()
        (root / "out/after").write_text(str(round_number))
        assert [info.path for info in tree.list(["out/**"], since=mark).files] == ["out/after"]


def test_after_the_clock_was_set_back_rather_too_much_is_listed(tree: WorkspaceTree) -> None:
    tree.write("out/x", [b"1"])
    tomorrow = tree.mark() + 86_400 * 10**9
    assert tree.list(["out/**"], since=tomorrow).files


@pytest.mark.slow
def test_no_operation_is_led_out_by_a_directory_that_is_swapped(
    tree: WorkspaceTree, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"secret")
    tree.write("work/d/file", [b"mine"])
    seen: set[bytes] = set()
    with swapping(root / "work/d", outside):
        for _ in range(3_000):
            with suppress(SkillError, OSError):
                seen.add(read(tree, "work/d/file"))
            with suppress(SkillError, OSError):
                tree.write("work/d/file", [b"mine"])
            with suppress(SkillError, OSError):
                tree.remove("work/d/other")
            with suppress(SkillError, OSError):
                tree.make_directory("work/d/new")
    assert seen == {b"mine"}
    assert os.listdir(outside) == ["file"]
    assert (outside / "file").read_bytes() == b"secret"


def test_a_workspace_that_was_swapped_for_a_link_is_not_opened(root: Path, tmp_path: Path) -> None:
    root.rename(tmp_path / "kept")
    root.symlink_to("/etc")
    with pytest.raises(OSError, match=r"link|directory"):
        WorkspaceTree(root)


@pytest.fixture
def parent(tmp_path: Path) -> Generator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_a_file_has_its_name_only_when_it_is_whole(tmp_path: Path, parent: int) -> None:
    arrival = AtomicFileWriter(parent, "out/x", executable=False, owner=None)
    arrival.write(b"a")
    assert not (tmp_path / "x").exists()
    arrival.write(b"b")
    info = arrival.commit()
    arrival.close()
    assert (tmp_path / "x").read_bytes() == b"ab"
    assert (info.path, info.size, info.stamp[0]) == ("out/x", 2, (tmp_path / "x").stat().st_ctime_ns)


def test_what_is_not_committed_is_gone(tmp_path: Path, parent: int) -> None:
    arrival = AtomicFileWriter(parent, "out/x", executable=False, owner=None)
    arrival.write(b"a")
    arrival.close()
    assert os.listdir(tmp_path) == []


def test_a_script_that_removes_it_on_its_way_gets_an_error(tmp_path: Path, parent: int) -> None:
    arrival = AtomicFileWriter(parent, "out/x", executable=False, owner=None)
    (tmp_path / os.listdir(tmp_path)[0]).unlink()
    with pytest.raises(InvalidArgument, match="does not exist"):
        arrival.commit()
    arrival.close()


def test_a_directory_is_not_replaced(tmp_path: Path, parent: int) -> None:
    (tmp_path / "x").mkdir()
    arrival = AtomicFileWriter(parent, "out/x", executable=False, owner=None)
    with pytest.raises(InvalidArgument, match="is a directory"):
        arrival.commit()
    arrival.close()
    assert os.listdir(tmp_path) == ["x"]


def test_a_disk_that_is_full_on_the_way_is_said(tmp_path: Path, parent: int) -> None:
    arrival = AtomicFileWriter(parent, "out/x", executable=False, owner=None)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
    try:
        with pytest.raises(LimitExceeded, match="free some disk space"):
            arrival.write(b"x" * 2_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        arrival.close()
    assert os.listdir(tmp_path) == []


@pytest.fixture
def marker(tmp_path: Path) -> Generator[ChangeClock]:
    marker = ChangeClock(tmp_path / "marker")
    yield marker
    marker.close()
    marker.close()


def stamp(path: Path) -> int:
    return path.lstat().st_ctime_ns


def test_a_file_written_just_before_is_earlier_and_one_just_after_is_not(tmp_path: Path, marker: ChangeClock) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for round_number in range(1_000):
        before.write_text(str(round_number))
        mark = marker.mark()
        after.write_text(str(round_number))
        assert stamp(before) < mark <= stamp(after)


def test_every_kind_of_change_counts(tmp_path: Path, marker: ChangeClock) -> None:
    names = ("written", "chmodded", "renamed", "linked", "backdated")
    for name in names:
        (tmp_path / name).write_text("old")
    mark = marker.mark()
    assert all(stamp(tmp_path / name) < mark for name in names)
    (tmp_path / "written").write_text("new")
    (tmp_path / "chmodded").chmod(0o755)
    (tmp_path / "renamed").rename(tmp_path / "other")
    os.link(tmp_path / "linked", tmp_path / "link")
    (tmp_path / "backdated").write_text("new")
    os.utime(tmp_path / "backdated", (0, 0))
    assert all(stamp(tmp_path / name) >= mark for name in ("written", "chmodded", "other", "linked", "backdated"))


def test_marks_grow(marker: ChangeClock) -> None:
    marks = [marker.mark() for _ in range(100)]
    assert marks == sorted(set(marks))


def test_a_mark_does_not_hold_when_the_clock_is_behind_it(marker: ChangeClock) -> None:
    mark = marker.mark()
    assert marker.has_reached(mark)
    assert not marker.has_reached(mark + 3600 * 10**9)


def test_a_link_in_the_place_of_the_marker_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(OSError, match="link"):
        ChangeClock(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("name", "becomes"),
    [
        ("report.pdf", "report.pdf"),
        ("../../.bashrc", ".bashrc"),
        ("C:\\Users\\me\\data.csv", "data.csv"),
        ("a/b/c.txt", "c.txt"),
        ("", "upload_1"),
        (".", "upload_1"),
        ("..", "upload_1"),
        ("x/", "upload_1"),
        ("  ", "upload_1"),
        ("CON", "CON"),
        ("-rf", "_-rf"),
        ("a/--help.txt", "_--help.txt"),
        ("~root", "_~root"),
        (" ~", "_~"),
        ("a\0b\nc\u202e.txt", "a_b_c_.txt"),
        (".arriving-x", "arriving-x"),
        ("日本語.txt", "日本語.txt"),
    ],
)
def test_a_name_becomes_a_file_name(name: str, becomes: str) -> None:
    assert choose_upload_name(name) == becomes


def test_a_name_that_is_taken_gets_a_number_before_its_ending() -> None:
    assert choose_upload_name("a.txt", {"A.TXT"}) == "a_2.txt"
    assert choose_upload_name("a.txt", {"a.txt", "a_2.txt"}) == "a_3.txt"
    assert choose_upload_name(".bashrc", {".bashrc"}) == ".bashrc_2"
    assert choose_upload_name("..", {"upload_1"}) == "upload_2"


def test_a_long_name_keeps_its_ending() -> None:
    name = choose_upload_name("é" * 4096 + ".csv")
    assert name.endswith("é.csv")
    assert len(os.fsencode(name)) <= 255
    assert choose_upload_name("é" * 4096 + ".csv", {name}).endswith("é_2.csv")


@given(st.lists(st.text(max_size=300), max_size=8))
def test_every_name_is_one_part_of_a_path_and_no_two_are_the_same(names: list[str]) -> None:
    taken: list[str] = []
    for name in names:
        taken.append(choose_upload_name(name, taken))
    assert len({name.casefold() for name in taken}) == len(names)
    for name in taken:
        assert 0 < len(os.fsencode(name)) <= 255
        assert "/" not in name
        assert "\0" not in name
        assert name not in (".", "..")
        assert name[0] not in "-~"
