"""Snapshots of skills: taken once, kept whole, removed only when nobody needs them.

Copies of a skill's folder, and the digest of what was copied.

What is remembered about folders.

What is found in a skill's folder.
"""

import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument, InvalidSkill, LimitExceeded
from openskills.executors.staging.snapshots import (
    MAX_BYTES,
    MAX_ENTRIES,
    SnapshotCopy,
    SnapshotEntry,
    SnapshotEntryKind,
    SnapshotRecord,
    SnapshotRecords,
    SnapshotStore,
    Stamp,
    check_skill_name,
    copy_entries,
    is_settled,
    scan_folder,
)
from tests.executors.skill_folder import skill_folder


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "state" / "snapshots")


def names(store: SnapshotStore) -> list[str]:
    return sorted(name for name in os.listdir(store.path("0" * 64).parent) if name != ".records")


def test_a_snapshot_has_the_files_and_nobody_else_may_see_it(tmp_path: Path, store: SnapshotStore) -> None:
    folder = skill_folder(tmp_path)
    (folder / "leaves").symlink_to("/etc")
    snapshot = store.take("pdf", folder)
    assert (snapshot.name, snapshot.files) == ("pdf", 4)
    assert snapshot.warnings == ("leaves is a link that leads out of the skill",)
    assert (store.path(snapshot.digest) / "scripts/1.py").read_text() == "print(1)\n"
    assert stat.S_IMODE(store.path(snapshot.digest).parent.stat().st_mode) == 0o700
    assert names(store) == [snapshot.digest]


def test_nothing_is_read_again_when_nothing_has_changed(tmp_path: Path, store: SnapshotStore) -> None:
    folder = skill_folder(tmp_path)
    digest = store.take("pdf", folder).digest
    other = store.take("other", skill_folder(tmp_path, "other")).digest
    root = store.path(digest).parent
    for record in (root / ".records").iterdir():
        # Who looks at stamps only believes this; who reads the files does not.
        record.write_text(record.read_text().replace(digest, other))
    assert SnapshotStore(root).take("pdf", folder).digest == other
    (folder / "SKILL.md").touch()
    assert SnapshotStore(root).take("pdf", folder).digest == digest


def test_a_change_gives_another_snapshot_and_the_old_one_stays(tmp_path: Path, store: SnapshotStore) -> None:
    folder = skill_folder(tmp_path)
    first = store.take("pdf", folder)
    script = folder / "scripts/1.py"
    before = script.stat()
    script.write_text("print(7)\n")
    os.utime(script, ns=(before.st_atime_ns, before.st_mtime_ns))  # same size, same time
    second = store.take("pdf", folder)
    assert first.digest != second.digest
    assert (store.path(first.digest) / "scripts/1.py").read_text() == "print(1)\n"
    assert (store.path(second.digest) / "scripts/1.py").read_text() == "print(7)\n"


def test_a_file_changed_twice_in_a_moment_is_never_missed(tmp_path: Path, store: SnapshotStore) -> None:
    folder = skill_folder(tmp_path)
    for number in range(30):
        (folder / "SKILL.md").write_text(f"{number:04}")
        digest = store.take("pdf", folder).digest
        assert (store.path(digest) / "SKILL.md").read_text() == f"{number:04}"


def test_two_skills_with_the_same_content_share_one_snapshot(tmp_path: Path, store: SnapshotStore) -> None:
    one, two = skill_folder(tmp_path / "a"), skill_folder(tmp_path / "b")
    assert store.take("pdf", one).digest == store.take("pdf", two).digest
    assert len(names(store)) == 1


def test_a_snapshot_that_was_removed_is_taken_again(tmp_path: Path, store: SnapshotStore) -> None:
    folder = skill_folder(tmp_path)
    digest = store.take("pdf", folder).digest
    assert store.sweep(set(), older_than=0) == 1
    assert names(store) == []
    assert store.take("pdf", folder).digest == digest
    assert names(store) == [digest]


def test_a_sweep_spares_what_is_kept_and_what_is_young(tmp_path: Path, store: SnapshotStore) -> None:
    folder = skill_folder(tmp_path)
    kept = store.take("pdf", folder).digest
    (folder / "SKILL.md").write_text("other")
    other = store.take("pdf", folder).digest
    assert store.sweep({kept}, older_than=3600) == 0
    os.utime(store.path(other), (0, 0))
    os.utime(store.path(kept), (0, 0))
    assert store.sweep({kept}, older_than=3600) == 1
    assert names(store) == [kept]


def test_taking_a_snapshot_again_keeps_it_from_a_sweep(tmp_path: Path, store: SnapshotStore) -> None:
    folder = skill_folder(tmp_path)
    digest = store.take("pdf", folder).digest
    os.utime(store.path(digest), (0, 0))
    store.take("pdf", folder)
    assert store.sweep(set(), older_than=3600) == 0


def test_what_a_crash_left_half_made_is_never_seen_and_is_swept(tmp_path: Path, store: SnapshotStore) -> None:
    folder = skill_folder(tmp_path)
    digest = store.take("pdf", folder).digest
    root = store.path(digest).parent
    copy_entries(str(folder), scan_folder(str(folder))[:2], root / ".arriving-dead")
    assert store.take("pdf", folder).digest == digest
    os.utime(root / ".arriving-dead", (0, 0))
    store.sweep({digest}, older_than=3600)
    assert names(store) == [digest]


def test_a_failure_leaves_nothing(tmp_path: Path, store: SnapshotStore) -> None:
    folder = skill_folder(tmp_path)
    store.take("pdf", folder)
    before = names(store)
    (folder / "scripts/x").touch()
    with pytest.raises(InvalidSkill):
        store.take("pdf", folder / "none")
    assert names(store) == before


def test_many_takers_at_once_agree(tmp_path: Path, store: SnapshotStore) -> None:
    folder = skill_folder(tmp_path, files=20)
    root = store.path("0" * 64).parent
    with ThreadPoolExecutor(8) as pool:
        taking = [pool.submit(SnapshotStore(root).take, "pdf", folder) for _ in range(16)]
        snapshots = [one.result() for one in taking]
    assert len({snapshot.digest for snapshot in snapshots}) == 1
    assert names(store) == [snapshots[0].digest]


def test_an_editor_at_work_never_gives_a_wrong_digest(tmp_path: Path, store: SnapshotStore) -> None:
    folder, stop = skill_folder(tmp_path), threading.Event()

    def edit() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            (folder / "SKILL.md").write_text(str(number) * 1000)

    editing = threading.Thread(target=edit)
    editing.start()
    try:
        digests = {store.take("pdf", folder).digest for _ in range(20)}
    finally:
        stop.set()
        editing.join()
    for number, digest in enumerate(digests):
        path = store.path(digest)
        assert copy_entries(str(path), scan_folder(str(path)), tmp_path / str(number)).digest == digest


_TAKE = """
import sys
from pathlib import Path
from openskills.executors.staging.snapshots import SnapshotStore
while True:
    Path(sys.argv[2], "SKILL.md").write_text(str(__import__("time").time_ns()))
    SnapshotStore(Path(sys.argv[1])).take("pdf", Path(sys.argv[2]))
    print(flush=True)
"""


def test_a_kill_at_any_moment_leaves_only_whole_snapshots(tmp_path: Path, store: SnapshotStore) -> None:
    folder = skill_folder(tmp_path, files=10)
    root = store.path("0" * 64).parent
    for rounds in range(1, 5):
        argv = [sys.executable, "-c", _TAKE, str(root), str(folder)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            assert process.stdout
            for _ in range(rounds):
                process.stdout.readline()
            process.kill()
    store.sweep({name for name in names(store) if len(name) == 64}, older_than=0)
    for number, digest in enumerate(names(store)):
        path = store.path(digest)
        assert copy_entries(str(path), scan_folder(str(path)), tmp_path / str(number)).digest == digest


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "a\0b", "a\nb", "x" * 300, "a\\..\\b"])
def test_a_name_that_is_not_a_directory_name_is_refused(tmp_path: Path, store: SnapshotStore, name: str) -> None:
    with pytest.raises(InvalidArgument, match="skill"):
        store.take(name, skill_folder(tmp_path))


@pytest.mark.parametrize("name", ["pdf", "web-search", "Ünïcode", "PDF_tools", "-rf"])
def test_names_that_are_not_paths_are_fine(name: str) -> None:
    assert check_skill_name(name) == name


@pytest.mark.parametrize("digest", ["", "../x", "0" * 63, "G" * 64, "0" * 64 + "\n"])
def test_only_a_digest_leads_to_a_snapshot(store: SnapshotStore, digest: str) -> None:
    with pytest.raises(InvalidArgument, match="digest"):
        store.path(digest)


def copied(folder: Path, target: Path) -> SnapshotCopy:
    return copy_entries(str(folder), scan_folder(str(folder)), target)


def test_a_copy_is_the_same_and_read_only(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    (folder / "link").symlink_to("scripts/1.py")
    copy = copied(folder, tmp_path / "copy")
    assert (copy.files, copy.size) == (5, sum((folder / path).stat().st_size for path in FILES))
    for path in FILES:
        assert (tmp_path / "copy" / path).read_bytes() == (folder / path).read_bytes()
        assert not (tmp_path / "copy" / path).is_symlink()
    modes = [stat.S_IMODE((tmp_path / "copy" / path).stat().st_mode) for path in ("scripts", "scripts/0.py", "link")]
    assert modes == [0o555, 0o555, 0o444]


FILES = ("SKILL.md", "scripts/0.py", "scripts/1.py", "scripts/2.py", "link")


def test_the_digest_depends_on_names_content_and_executable_bits_and_on_nothing_else(tmp_path: Path) -> None:
    digests: list[str] = []
    folder = skill_folder(tmp_path)

    def again() -> str:
        digests.append(copied(folder, tmp_path / f"copy{len(digests)}").digest)
        return digests[-1]

    first = again()
    os.utime(folder / "SKILL.md", (0, 0))
    (folder / "SKILL.md").chmod(0o600)
    assert again() == first
    for change in (
        lambda: (folder / "SKILL.md").chmod(0o755),
        lambda: (folder / "SKILL.md").write_text("other"),
        lambda: (folder / "SKILL.md").rename(folder / "skill.md"),
        (folder / "empty").mkdir,
        (folder / "scripts/1.py").unlink,
    ):
        change()
        again()
    assert len(set(digests)) == 6


def test_names_cannot_be_shifted_into_content(tmp_path: Path) -> None:
    for name, files in {"one": {"a": "b", "c": ""}, "two": {"a": "", "bc": ""}}.items():
        (tmp_path / name).mkdir()
        for path, content in files.items():
            (tmp_path / name / path).write_text(content)
    assert copied(tmp_path / "one", tmp_path / "x").digest != copied(tmp_path / "two", tmp_path / "y").digest


def test_a_file_that_became_a_link_to_elsewhere_is_not_copied(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    items = scan_folder(str(folder))
    (folder / "SKILL.md").unlink()
    (folder / "SKILL.md").symlink_to("/etc/passwd")
    with pytest.raises(InvalidSkill, match="leads out of the skill"):
        copy_entries(str(folder), items, tmp_path / "copy")


def test_a_file_that_vanished_is_named(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    items = scan_folder(str(folder))
    (folder / "scripts/1.py").unlink()
    with pytest.raises(InvalidSkill, match=r"cannot read .*scripts/1\.py"):
        copy_entries(str(folder), items, tmp_path / "copy")


def test_the_digest_is_of_the_bytes_that_were_copied_not_of_those_that_were_surveyed(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    items = scan_folder(str(folder))
    (folder / "SKILL.md").write_text("edited meanwhile")
    copy = copy_entries(str(folder), items, tmp_path / "copy")
    assert (tmp_path / "copy/SKILL.md").read_text() == "edited meanwhile"
    assert copy.digest == copied(tmp_path / "copy", tmp_path / "again").digest


def test_a_file_that_grew_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    items = scan_folder(str(folder))
    with (folder / "SKILL.md").open("r+b") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(LimitExceeded, match="512 MiB"):
        copy_entries(str(folder), items, tmp_path / "copy")


ITEMS = (
    SnapshotEntry("a\udcff\n", SnapshotEntryKind.FILE, (1, 2, 3, 4, 5)),
    SnapshotEntry("b", SnapshotEntryKind.EXCLUDED, (6,), "why"),
    SnapshotEntry("c", SnapshotEntryKind.LINK, (7,), target="../d\udcff"),
)
RECORD = SnapshotRecord(ITEMS, "d", 1, 2, True)


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    records = SnapshotRecords(tmp_path / "records")
    assert records.get("/some/folder") is None
    records.put("/some/folder", RECORD)
    assert SnapshotRecords(tmp_path / "records").get("/some/folder") == RECORD
    assert records.get("/other") is None


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"{}", b'{"version": 1}', b"null", b"\xff\xfe"])
def test_a_damaged_record_is_not_a_record(tmp_path: Path, damage: bytes) -> None:
    records = SnapshotRecords(tmp_path)
    records.put("/some/folder", RECORD)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage)
    assert records.get("/some/folder") is None
    records.prune({"d"})
    assert list(tmp_path.iterdir()) == []


def test_records_of_snapshots_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    records = SnapshotRecords(tmp_path)
    records.put("/some/folder", RECORD)
    records.prune({"d"})
    assert records.get("/some/folder")
    records.prune(set())
    assert records.get("/some/folder") is None


def kinds(folder: Path) -> dict[str, SnapshotEntryKind]:
    return {item.path: item.kind for item in scan_folder(str(folder))}


def why(folder: Path, path: str) -> str:
    return next(item.why for item in scan_folder(str(folder)) if item.path == path)


def test_everything_an_author_ships_is_found_in_order(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    (folder / "empty").mkdir()
    (folder / ".hidden").touch()
    (folder / "node_modules/x").mkdir(parents=True)
    assert list(kinds(folder)) == [
        ".hidden",
        "SKILL.md",
        "empty",
        "node_modules",
        "node_modules/x",
        "scripts",
        "scripts/0.py",
        "scripts/1.py",
        "scripts/2.py",
    ]


def test_what_belongs_to_tools_of_the_author_is_not_shipped(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path, files=1)
    for name in (".git", "scripts/__pycache__", ".svn", ".hg"):
        (folder / name / "x").mkdir(parents=True)
    assert set(kinds(folder)) == {"SKILL.md", "scripts", "scripts/0.py"}


@pytest.mark.parametrize("name", ["out", "work", "inputs", ".venv"])
def test_names_that_a_workspace_needs_are_left_out_at_the_top_only(tmp_path: Path, name: str) -> None:
    folder = skill_folder(tmp_path)
    (folder / name / "x").mkdir(parents=True)
    (folder / "scripts" / name).mkdir()
    found = kinds(folder)
    assert found[name] is SnapshotEntryKind.EXCLUDED
    assert f"{name}/x" not in found
    assert found[f"scripts/{name}"] is SnapshotEntryKind.DIRECTORY
    assert "rename it" in why(folder, name)


def test_a_link_to_a_file_of_the_skill_is_a_file_and_one_that_leads_elsewhere_is_left_out(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    for name, target in {
        "inside": "scripts/0.py",
        "outside": "/etc/passwd",
        "climbing": "../../secret",
        "nowhere": "none",
        "itself": "itself",
    }.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "fifo")
    found = kinds(folder)
    assert found["inside"] is SnapshotEntryKind.FILE
    left_out = {path for path, kind in found.items() if kind is SnapshotEntryKind.EXCLUDED}
    assert left_out == {"outside", "climbing", "nowhere", "itself", "fifo"}
    assert "leads out" in why(folder, "outside")
    assert "leads out" in why(folder, "climbing")
    assert "FIFO" in why(folder, "fifo")


def test_a_link_that_says_the_way_to_a_directory_of_the_skill_stays_a_link(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    (folder / "docs/deep").mkdir(parents=True)
    for name, target in {"tools": "scripts", "docs/tools": ".././scripts/", "docs/deep/up": "../../docs/deep"}.items():
        (folder / name).symlink_to(target)
    items = {item.path: item for item in scan_folder(str(folder))}
    assert (items["tools"].kind, items["tools"].target) == (SnapshotEntryKind.LINK, "scripts")
    assert items["docs/tools"].kind is SnapshotEntryKind.LINK
    assert items["docs/deep/up"].kind is SnapshotEntryKind.EXCLUDED
    assert "contains it" in items["docs/deep/up"].why
    assert "tools/0.py" not in items


@pytest.mark.parametrize(
    "target",
    [
        "{folder}/scripts",  # absolute
        ".",  # what the workspace's own directories are beside
        "out",  # the workspace has another one
        ".git",  # not shipped
        "tools",  # another link
        "tools/../scripts",  # through another link
        "deep/er/up/../../../scripts",  # the same, as far as its text goes, but not in truth
        "scripts/../scripts",  # there could be a link
    ],
)
def test_a_link_to_a_directory_that_it_does_not_plainly_name_is_left_out(tmp_path: Path, target: str) -> None:
    folder = skill_folder(tmp_path)
    for name in ("out", ".git", "deep/er"):
        (folder / name).mkdir(parents=True)
    (folder / "tools").symlink_to("scripts")
    (folder / "deep/er/up").symlink_to("../../scripts")
    (folder / "link").symlink_to(target.format(folder=folder))
    assert kinds(folder)["link"] is SnapshotEntryKind.EXCLUDED


def test_every_change_gives_another_survey(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    (folder / "link").symlink_to("scripts/1.py")
    seen = [scan_folder(str(folder))]
    script = folder / "scripts/1.py"
    before = script.stat()
    script.write_text("print(9)\n")  # as long as before
    os.utime(script, ns=(before.st_atime_ns, before.st_mtime_ns))
    seen.append(scan_folder(str(folder)))
    script.chmod(0o755)
    seen.append(scan_folder(str(folder)))
    (folder / "new").touch()
    seen.append(scan_folder(str(folder)))
    assert all(one != other for one, other in pairwise(seen))
    changed = [path for path in ("link", "scripts/1.py") if _stamp(seen[0], path) != _stamp(seen[1], path)]
    assert changed == ["link", "scripts/1.py"]


def _stamp(items: list[SnapshotEntry], path: str) -> Stamp:
    return next(item.stamp for item in items if item.path == path)


def test_a_file_changed_a_moment_ago_is_not_settled(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    (item,) = scan_folder(str(tmp_path))
    changed = item.stamp[4]
    assert not is_settled(item.stamp, changed)
    assert is_settled(item.stamp, changed + 10**9)


def test_too_many_entries_are_refused(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    for number in range(MAX_ENTRIES + 1):
        os.symlink("x", str(number), dir_fd=descriptor)
    os.close(descriptor)
    with pytest.raises(LimitExceeded, match="20,000"):
        scan_folder(str(tmp_path))


def test_too_many_bytes_are_refused_before_they_are_read(tmp_path: Path) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(LimitExceeded, match="512 MiB"):
        scan_folder(str(tmp_path))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSkill, match="none"):
        scan_folder(str(tmp_path / "none"))
