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
from openskills.executors.staging.mount import exchange_names, is_staged, materialize_snapshot, remove_replaced
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


def changed(store: SnapshotStore, folder: Path, text: str = "changed") -> SkillSnapshot:
    (folder / "SKILL.md").write_text(text)
    return store.take("pdf", folder)


@pytest.mark.parametrize("share", [True, False])
def test_a_staged_skill_is_read_only_and_has_its_places(
    store: SnapshotStore, snapshot: SkillSnapshot, tree: Path, share: bool
) -> None:
    materialize_snapshot(store, snapshot, tree, share=share)
    skill = tree / "skills/pdf"
    assert sorted(os.listdir(skill)) == [".venv", "SKILL.md", "inputs", "out", "scripts", "work"]
    modes = {
        name: stat.S_IMODE((skill / name).lstat().st_mode) for name in (".", "SKILL.md", "scripts", "scripts/0.py")
    }
    assert modes == {".": 0o555, "SKILL.md": 0o444, "scripts": 0o555, "scripts/0.py": 0o555}
    assert stat.S_IMODE((skill / ".venv").stat().st_mode) == 0o700
    (tree / "out/x").write_text("out")
    (tree / "work/inputs/y").write_text("in")
    assert (skill / "out/x").read_text() == "out"
    assert (skill / "inputs/y").read_text() == (skill / "work/inputs/y").read_text() == "in"
    assert is_staged(tree, snapshot)


@pytest.mark.parametrize("share", [True, False])
def test_a_link_to_a_directory_of_the_skill_leads_to_it_in_the_workspace_too(
    store: SnapshotStore, folder: Path, tree: Path, share: bool
) -> None:
    (folder / "docs").mkdir()
    (folder / "docs/tools").symlink_to("../scripts")
    snapshot = store.take("pdf", folder)
    assert snapshot.warnings == ()
    materialize_snapshot(store, snapshot, tree, share=share)
    skill = tree / "skills/pdf"
    assert os.readlink(skill / "docs/tools") == "../scripts"
    assert (skill / "docs/tools/0.py").samefile(skill / "scripts/0.py")
    (folder / "docs/tools").unlink()
    assert store.take("pdf", folder).digest != snapshot.digest


def test_shared_files_are_those_of_the_store_and_copied_ones_are_not(
    store: SnapshotStore, snapshot: SkillSnapshot, tree: Path, tmp_path: Path
) -> None:
    kept = store.path(snapshot.digest) / "SKILL.md"
    materialize_snapshot(store, snapshot, tree, share=True)
    assert (tree / "skills/pdf/SKILL.md").samefile(kept)
    (tmp_path / "other").mkdir()
    make_skeleton(tmp_path / "other/tree", None)
    materialize_snapshot(store, snapshot, tmp_path / "other/tree", share=False)
    copy = tmp_path / "other/tree/skills/pdf/SKILL.md"
    copy.chmod(0o600)
    copy.write_text("a script can do that when it is not isolated")
    assert kept.read_text() != copy.read_text()


def test_nothing_is_done_when_it_is_staged_already(store: SnapshotStore, snapshot: SkillSnapshot, tree: Path) -> None:
    materialize_snapshot(store, snapshot, tree, share=True)
    before = (tree / "skills/pdf").stat()
    materialize_snapshot(store, snapshot, tree, share=True)
    assert (tree / "skills/pdf").stat().st_ino == before.st_ino
    assert os.listdir(tree / "skills") == ["pdf"]


def test_a_newer_snapshot_takes_the_place_and_the_venv_stays(
    store: SnapshotStore, snapshot: SkillSnapshot, folder: Path, tree: Path
) -> None:
    materialize_snapshot(store, snapshot, tree, share=True)
    (tree / "skills/pdf/.venv/installed").write_text("kept")
    inode = (tree / "skills/pdf/.venv").stat().st_ino
    newer = changed(store, folder)
    assert not is_staged(tree, newer)
    materialize_snapshot(store, newer, tree, share=True)
    assert (tree / "skills/pdf/SKILL.md").read_text() == "changed"
    assert (tree / "skills/pdf/.venv/installed").read_text() == "kept"
    assert (tree / "skills/pdf/.venv").stat().st_ino == inode
    assert not is_staged(tree, snapshot)


def test_who_runs_in_the_old_one_keeps_it_until_it_is_discarded(
    store: SnapshotStore, snapshot: SkillSnapshot, folder: Path, tree: Path
) -> None:
    materialize_snapshot(store, snapshot, tree, share=True)
    inside = os.open(tree / "skills/pdf", os.O_RDONLY)
    materialize_snapshot(store, changed(store, folder), tree, share=True)
    assert "scripts" in os.listdir(inside)
    os.close(os.open("SKILL.md", os.O_RDONLY, dir_fd=inside))
    remove_replaced(tree)
    assert os.listdir(inside) == []
    os.close(inside)
    assert os.listdir(tree / "skills") == ["pdf"]


def test_a_link_in_the_place_of_the_venv_is_not_kept(
    store: SnapshotStore, snapshot: SkillSnapshot, folder: Path, tree: Path
) -> None:
    materialize_snapshot(store, snapshot, tree, share=False)
    (tree / "skills/pdf").chmod(0o755)
    (tree / "skills/pdf/.venv").rmdir()
    (tree / "skills/pdf/.venv").symlink_to("/etc")
    materialize_snapshot(store, changed(store, folder), tree, share=False)
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
    materialize_snapshot(store, snapshot, tree, share=True)
    assert (place / "SKILL.md").is_file()
    assert not (place / "planted").exists()
    assert os.listdir(tmp_path / "outside") == ["kept"]


def test_a_directory_that_a_script_put_in_the_place_is_noticed(
    store: SnapshotStore, snapshot: SkillSnapshot, tree: Path
) -> None:
    materialize_snapshot(store, snapshot, tree, share=True)
    (tree / "skills/pdf").rename(tree / "skills/kept")
    (tree / "skills/pdf").mkdir()
    (tree / "skills/pdf/SKILL.md").write_text("planted")
    assert not is_staged(tree, snapshot)
    materialize_snapshot(store, snapshot, tree, share=True)
    assert (tree / "skills/pdf/SKILL.md").read_text() != "planted"


def test_skills_that_became_a_link_are_not_written_through(
    store: SnapshotStore, snapshot: SkillSnapshot, tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tree / "skills").rmdir()
    (tree / "skills").symlink_to(tmp_path / "outside")
    with pytest.raises(ForbiddenPath):
        materialize_snapshot(store, snapshot, tree, share=True)
    assert os.listdir(tmp_path / "outside") == []


@needs_root("only root can give files away")
def test_only_the_venv_belongs_to_the_user_of_the_commands(
    store: SnapshotStore, snapshot: SkillSnapshot, tree: Path
) -> None:
    materialize_snapshot(store, snapshot, tree, share=True, owner=(61234, 61234))
    assert (tree / "skills/pdf/.venv").stat().st_uid == 61234
    assert {path.lstat().st_uid for path in (tree / "skills").rglob("*") if path.name != ".venv"} == {0}


def test_a_snapshot_that_is_not_in_the_store_is_said_and_changes_nothing(
    store: SnapshotStore, snapshot: SkillSnapshot, tree: Path
) -> None:
    materialize_snapshot(store, snapshot, tree, share=True)
    with pytest.raises(InvalidArgument, match="take it again"):
        materialize_snapshot(store, replace(snapshot, digest="0" * 64), tree, share=True)
    assert os.listdir(tree / "skills") == ["pdf"]
    assert is_staged(tree, snapshot)


@pytest.mark.parametrize("name", ["../../x", "..", ".", "a/b", "", ".venv"])
def test_a_name_is_never_a_path(store: SnapshotStore, snapshot: SkillSnapshot, tree: Path, name: str) -> None:
    with pytest.raises(InvalidArgument):
        materialize_snapshot(store, replace(snapshot, name=name), tree, share=True)
    assert os.listdir(tree / "skills") == []


def test_the_name_always_leads_to_a_whole_skill(
    store: SnapshotStore, snapshot: SkillSnapshot, folder: Path, tree: Path
) -> None:
    other = changed(store, folder)
    materialize_snapshot(store, snapshot, tree, share=True)
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
            materialize_snapshot(store, (other, snapshot)[number % 2], tree, share=True)
    finally:
        stop.set()
        looking.join()
    assert missing == []


def test_two_stagers_at_once_lose_no_venv(
    store: SnapshotStore, snapshot: SkillSnapshot, folder: Path, tree: Path
) -> None:
    materialize_snapshot(store, snapshot, tree, share=True)
    (tree / "skills/pdf/.venv/installed").touch()
    snapshots = [changed(store, folder, str(number)) for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        staging = [pool.submit(materialize_snapshot, store, one, tree, share=True) for one in snapshots * 4]
    assert all(one.result() is None for one in staging)
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
materialize_snapshot(SnapshotStore(store), SkillSnapshot("pdf", digest, 1, 1, ()), tree, share=True)
"""
"""A stager that is killed when the new snapshot has its place, and the `.venv` is about to follow."""


def crash(tmp_path: Path, snapshot: SkillSnapshot, tree: Path) -> None:
    argv = [sys.executable, "-c", STAGES_AND_DIES, str(tmp_path / "snapshots"), snapshot.digest, str(tree)]
    assert subprocess.run(argv, check=False).returncode == -signal.SIGKILL


@pytest.mark.parametrize("by", ["cleaning", "staging"])
def test_a_venv_survives_a_crash_in_the_very_moment_in_which_its_skill_is_replaced(
    store: SnapshotStore, snapshot: SkillSnapshot, folder: Path, tree: Path, tmp_path: Path, by: str
) -> None:
    materialize_snapshot(store, snapshot, tree, share=True)
    (tree / "skills/pdf/.venv/installed").write_text("kept")
    newer = changed(store, folder)
    crash(tmp_path, newer, tree)
    assert (tree / "skills/pdf/SKILL.md").read_text() == "changed"
    assert os.listdir(tree / "skills/pdf/.venv") == []
    if by == "cleaning":
        remove_replaced(tree)
        assert os.listdir(tree / "skills") == ["pdf"]
        assert os.listdir(tree / "skills/pdf/.venv") == ["installed"]
    materialize_snapshot(store, newer, tree, share=True)
    remove_replaced(tree)
    assert (tree / "skills/pdf/.venv/installed").read_text() == "kept"
    assert os.listdir(tree / "skills") == ["pdf"]
    assert stat.S_IMODE((tree / "skills/pdf").stat().st_mode) == 0o555


def test_what_was_installed_after_the_crash_is_not_lost_for_what_was_there_before(
    store: SnapshotStore, snapshot: SkillSnapshot, folder: Path, tree: Path, tmp_path: Path
) -> None:
    materialize_snapshot(store, snapshot, tree, share=True)
    (tree / "skills/pdf/.venv/old").touch()
    crash(tmp_path, changed(store, folder), tree)
    (tree / "skills/pdf/.venv/new").touch()
    remove_replaced(tree)
    assert os.listdir(tree / "skills/pdf/.venv") == ["new"]
