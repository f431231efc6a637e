"""Snapshots of skills: taken once, kept whole, removed only when nobody needs them."""

import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument, InvalidSkill
from openskills.executors.staging.copying import copy_items
from openskills.executors.staging.snapshots import SnapshotStore, checked_skill_name
from openskills.executors.staging.survey import survey
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
    copy_items(str(folder), survey(str(folder))[:2], root / ".arriving-dead")
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
        assert copy_items(str(path), survey(str(path)), tmp_path / str(number)).digest == digest


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
        assert copy_items(str(path), survey(str(path)), tmp_path / str(number)).digest == digest


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "a\0b", "a\nb", "x" * 300, "a\\..\\b"])
def test_a_name_that_is_no_directory_name_is_refused(tmp_path: Path, store: SnapshotStore, name: str) -> None:
    with pytest.raises(InvalidArgument, match="skill"):
        store.take(name, skill_folder(tmp_path))


@pytest.mark.parametrize("name", ["pdf", "web-search", "Ünïcode", "PDF_tools", "-rf"])
def test_names_that_are_no_paths_are_fine(name: str) -> None:
    assert checked_skill_name(name) == name


@pytest.mark.parametrize("digest", ["", "../x", "0" * 63, "G" * 64, "0" * 64 + "\n"])
def test_only_a_digest_leads_to_a_snapshot(store: SnapshotStore, digest: str) -> None:
    with pytest.raises(InvalidArgument, match="digest"):
        store.path(digest)
