"""Two names change places.

A snapshot in a workspace.
"""

import os
import signal
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.records.leases import make_skeleton
from openskills.executors.spec import SkillSnapshot
from openskills.executors.staging.mount import (
    StagedRecord,
    exchange_names,
    find_staged,
    materialize_snapshot,
    remove_replaced,
)
from openskills.executors.staging.snapshots import SnapshotStore
from tests.conftest import needs_root
from tests.executors.skill_folder import skill_folder


def test_two_directories_change_places(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    descriptor = os.open(tmp_path, os.O_RDONLY)
    exchange_names(descriptor, "a", "b")
    os.close(descriptor)
    assert (tmp_path / "a" / "b").exists()
    assert (tmp_path / "b" / "a").exists()
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_missing_name_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(FileNotFoundError):
        exchange_names(descriptor, "a", "b")
    os.close(descriptor)
    assert os.listdir(tmp_path) == ["a"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return skill_folder(tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "snapshots")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    make_skeleton(tmp_path / "workspace/tree", None)
    return tmp_path / "workspace/tree"


@pytest.fixture
def snapshot(store: SnapshotStore, folder: Path) -> SkillSnapshot:
    return store.take("pdf", folder)


def stage(
    store: SnapshotStore, snapshot: SkillSnapshot, tree: Path, owner: tuple[int, int] | None = None
) -> StagedRecord:
    return materialize_snapshot(store, snapshot, tree, mark=lambda: 1, owner=owner)


def changed(store: SnapshotStore, folder: Path, text: str = "changed") -> SkillSnapshot:
    (folder / "SKILL.md").write_text(text)
    return store.take("pdf", folder)


def test_a_staged_skill_is_a_writable_copy_with_links_to_the_workspace(
    store: SnapshotStore, snapshot: SkillSnapshot, tree: Path
) -> None:
    stage(store, snapshot, tree)
    skill = tree / "skills/pdf"
    assert sorted(os.listdir(skill)) == [".venv", "SKILL.md", "inputs", "out", "scripts", "work"]
    modes = {
        name: stat.S_IMODE((skill / name).lstat().st_mode) for name in (".", "SKILL.md", "scripts", "scripts/0.py")
    }
    assert modes == {".": 0o755, "SKILL.md": 0o644, "scripts": 0o755, "scripts/0.py": 0o755}
    assert stat.S_IMODE((skill / ".venv").stat().st_mode) == 0o700
    (tree / "out/x").write_text("out")
    (tree / "work/inputs/y").write_text("in")
    assert (skill / "out/x").read_text() == "out"
    assert (skill / "inputs/y").read_text() == (skill / "work/inputs/y").read_text() == "in"
    assert find_staged(tree, snapshot) is not None


def test_a_link_to_a_directory_of_the_skill_leads_to_it_in_the_workspace_too(
    store: SnapshotStore, folder: Path, tree: Path
) -> None:
    (folder / "docs").mkdir()
    (folder / "docs/tools").symlink_to("../scripts")
    snapshot = store.take("pdf", folder)
    assert snapshot.warnings == ()
    stage(store, snapshot, tree)
    skill = tree / "skills/pdf"
    assert os.readlink(skill / "docs/tools") == "../scripts"
    assert (skill / "docs/tools/0.py").samefile(skill / "scripts/0.py")
    (folder / "docs/tools").unlink()
    assert store.take("pdf", folder).digest != snapshot.digest


def test_writing_to_a_staged_skill_does_not_change_the_snapshot(
    store: SnapshotStore, snapshot: SkillSnapshot, tree: Path
) -> None:
    original = store.path(snapshot.digest) / "SKILL.md"
    before = original.read_text()
    stage(store, snapshot, tree)
    (tree / "skills/pdf/SKILL.md").write_text("changed")
    assert original.read_text() == before


def test_files_that_commands_added_move_to_a_newer_snapshot_and_changed_ones_do_not(
    store: SnapshotStore, snapshot: SkillSnapshot, folder: Path, tree: Path
) -> None:
    stage(store, snapshot, tree)
    skill = tree / "skills/pdf"
    (skill / "unpacked").mkdir()
    (skill / "unpacked/a.xml").write_text("a")
    (skill / "scripts/new.txt").write_text("new")
    (skill / "scripts/0.py").write_text("changed by a command")
    (skill / "SKILL.md").unlink()
    (skill / "taken").write_text("of a command")
    (folder / "taken").write_text("of the author")
    stage(store, changed(store, folder), tree)
    assert (skill / "unpacked/a.xml").read_text() == "a"
    assert (skill / "scripts/new.txt").read_text() == "new"
    assert (skill / "taken").read_text() == "of the author"
    assert (skill / "scripts/0.py").read_text() == (folder / "scripts/0.py").read_text()
    assert (skill / "SKILL.md").read_text() == "changed"


def test_a_file_that_the_author_removed_does_not_come_back(
    store: SnapshotStore, snapshot: SkillSnapshot, folder: Path, tree: Path
) -> None:
    stage(store, snapshot, tree)
    (folder / "scripts/0.py").unlink()
    stage(store, store.take("pdf", folder), tree)
    assert not (tree / "skills/pdf/scripts/0.py").exists()


def test_nothing_is_done_when_it_is_staged_already(store: SnapshotStore, snapshot: SkillSnapshot, tree: Path) -> None:
    stage(store, snapshot, tree)
    before = (tree / "skills/pdf").stat()
    stage(store, snapshot, tree)
    assert (tree / "skills/pdf").stat().st_ino == before.st_ino
    assert os.listdir(tree / "skills") == ["pdf"]


def test_a_newer_snapshot_takes_the_place_and_the_venv_stays(
    store: SnapshotStore, snapshot: SkillSnapshot, folder: Path, tree: Path
) -> None:
    stage(store, snapshot, tree)
    (tree / "skills/pdf/.venv/installed").write_text("kept")
    inode = (tree / "skills/pdf/.venv").stat().st_ino
    newer = changed(store, folder)
    assert find_staged(tree, newer) is None
    stage(store, newer, tree)
    assert (tree / "skills/pdf/SKILL.md").read_text() == "changed"
    assert (tree / "skills/pdf/.venv/installed").read_text() == "kept"
    assert (tree / "skills/pdf/.venv").stat().st_ino == inode
    assert find_staged(tree, snapshot) is None


def test_who_runs_in_the_old_one_keeps_it_until_it_is_discarded(
    store: SnapshotStore, snapshot: SkillSnapshot, folder: Path, tree: Path
) -> None:
    stage(store, snapshot, tree)
    inside = os.open(tree / "skills/pdf", os.O_RDONLY)
    stage(store, changed(store, folder), tree)
    assert "scripts" in os.listdir(inside)
    os.close(os.open("SKILL.md", os.O_RDONLY, dir_fd=inside))
    remove_replaced(store, tree)
    assert os.listdir(inside) == []
    os.close(inside)
    assert os.listdir(tree / "skills") == ["pdf"]


def test_a_link_in_the_place_of_the_venv_is_not_kept(
    store: SnapshotStore, snapshot: SkillSnapshot, folder: Path, tree: Path
) -> None:
    stage(store, snapshot, tree)
    (tree / "skills/pdf").chmod(0o755)
    (tree / "skills/pdf/.venv").rmdir()
    (tree / "skills/pdf/.venv").symlink_to("/etc")
    stage(store, changed(store, folder), tree)
    assert not (tree / "skills/pdf/.venv").is_symlink()


@pytest.mark.parametrize("kind", ["link", "file", "directory"])
def test_whatever_lies_in_the_place_is_replaced(
    store: SnapshotStore, snapshot: SkillSnapshot, tree: Path, tmp_path: Path, kind: str
) -> None:
    place = tree / "skills/pdf"
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/kept").touch()
    if kind == "link":
        place.symlink_to(tmp_path / "outside")
    elif kind == "file":
        place.touch()
    else:
        place.mkdir()
        (place / "planted").touch()
    stage(store, snapshot, tree)
    assert (place / "SKILL.md").is_file()
    assert not (place / "planted").exists()
    assert os.listdir(tmp_path / "outside") == ["kept"]


def test_a_directory_that_a_script_put_in_the_place_is_noticed(
    store: SnapshotStore, snapshot: SkillSnapshot, tree: Path
) -> None:
    stage(store, snapshot, tree)
    (tree / "skills/pdf").rename(tree / "skills/kept")
    (tree / "skills/pdf").mkdir()
    (tree / "skills/pdf/SKILL.md").write_text("planted")
    assert find_staged(tree, snapshot) is None
    stage(store, snapshot, tree)
    assert (tree / "skills/pdf/SKILL.md").read_text() != "planted"


def test_skills_that_became_a_link_are_not_written_through(
    store: SnapshotStore, snapshot: SkillSnapshot, tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tree / "skills").rmdir()
    (tree / "skills").symlink_to(tmp_path / "outside")
    with pytest.raises(ForbiddenPath):
        stage(store, snapshot, tree)
    assert os.listdir(tmp_path / "outside") == []


@needs_root("only root can give files away")
def test_a_staged_skill_belongs_to_the_user_of_the_commands(
    store: SnapshotStore, snapshot: SkillSnapshot, tree: Path
) -> None:
    stage(store, snapshot, tree, owner=(61234, 61234))
    skill = tree / "skills/pdf"
    entries = [skill, *(path for path in skill.rglob("*") if not path.is_symlink())]
    assert {path.stat().st_uid for path in entries} == {61234}
    assert (tree / "skills").stat().st_uid == os.geteuid()


def test_a_snapshot_that_is_not_in_the_store_is_said_and_changes_nothing(
    store: SnapshotStore, snapshot: SkillSnapshot, tree: Path
) -> None:
    stage(store, snapshot, tree)
    with pytest.raises(InvalidArgument, match="take it again"):
        stage(store, replace(snapshot, digest="0" * 64), tree)
    assert os.listdir(tree / "skills") == ["pdf"]
    assert find_staged(tree, snapshot) is not None


@pytest.mark.parametrize("name", ["../../x", "..", ".", "a/b", "", ".venv"])
def test_a_name_is_never_a_path(store: SnapshotStore, snapshot: SkillSnapshot, tree: Path, name: str) -> None:
    with pytest.raises(InvalidArgument):
        stage(store, replace(snapshot, name=name), tree)
    assert os.listdir(tree / "skills") == []


def test_the_name_always_leads_to_a_whole_skill(
    store: SnapshotStore, snapshot: SkillSnapshot, folder: Path, tree: Path
) -> None:
    other = changed(store, folder)
    stage(store, snapshot, tree)
    stop, missing = threading.Event(), list[str]()

    def look() -> None:
        while not stop.is_set():
            missing.extend(
                name for name in ("SKILL.md", "scripts/2.py", "out") if not (tree / "skills/pdf" / name).exists()
            )

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for number in range(60):
            stage(store, (other, snapshot)[number % 2], tree)
    finally:
        stop.set()
        looking.join()
    assert missing == []


def test_two_stagers_at_once_lose_no_venv(
    store: SnapshotStore, snapshot: SkillSnapshot, folder: Path, tree: Path
) -> None:
    stage(store, snapshot, tree)
    (tree / "skills/pdf/.venv/installed").touch()
    snapshots = [changed(store, folder, str(number)) for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        staging = [pool.submit(stage, store, one, tree) for one in snapshots * 4]
    assert all(one.result() for one in staging)
    assert (tree / "skills/pdf/.venv/installed").exists()


STAGES_AND_DIES = """
import os, signal, sys
from pathlib import Path
from openskills.executors.spec import SkillSnapshot
from openskills.executors.staging.mount import materialize_snapshot
from openskills.executors.staging.snapshots import SnapshotStore

def die(event, arguments):
    if event == "os.rename" and arguments[0] == ".venv":
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(die)
store, digest, tree = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
materialize_snapshot(SnapshotStore(store), SkillSnapshot("pdf", digest, 1, 1, ()), tree, mark=lambda: 1)
"""
"""A stager that is killed when the new snapshot has its place, and the `.venv` is about to follow."""


def crash(tmp_path: Path, snapshot: SkillSnapshot, tree: Path) -> None:
    argv = [sys.executable, "-c", STAGES_AND_DIES, str(tmp_path / "snapshots"), snapshot.digest, str(tree)]
    assert subprocess.run(argv, check=False).returncode == -signal.SIGKILL


@pytest.mark.parametrize("by", ["cleaning", "staging"])
def test_a_venv_survives_a_crash_in_the_very_moment_in_which_its_skill_is_replaced(
    store: SnapshotStore, snapshot: SkillSnapshot, folder: Path, tree: Path, tmp_path: Path, by: str
) -> None:
    stage(store, snapshot, tree)
    (tree / "skills/pdf/.venv/installed").write_text("kept")
    newer = changed(store, folder)
    crash(tmp_path, newer, tree)
    assert (tree / "skills/pdf/SKILL.md").read_text() == "changed"
    assert os.listdir(tree / "skills/pdf/.venv") == []
    if by == "cleaning":
        remove_replaced(store, tree)
        assert os.listdir(tree / "skills") == ["pdf"]
        assert os.listdir(tree / "skills/pdf/.venv") == ["installed"]
    stage(store, newer, tree)
    remove_replaced(store, tree)
    assert (tree / "skills/pdf/.venv/installed").read_text() == "kept"
    assert os.listdir(tree / "skills") == ["pdf"]
    assert stat.S_IMODE((tree / "skills/pdf").stat().st_mode) == 0o755


def test_what_was_installed_after_the_crash_is_not_lost_for_what_was_there_before(
    store: SnapshotStore, snapshot: SkillSnapshot, folder: Path, tree: Path, tmp_path: Path
) -> None:
    stage(store, snapshot, tree)
    (tree / "skills/pdf/.venv/old").touch()
    crash(tmp_path, changed(store, folder), tree)
    (tree / "skills/pdf/.venv/new").touch()
    remove_replaced(store, tree)
    assert os.listdir(tree / "skills/pdf/.venv") == ["new"]
