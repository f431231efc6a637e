"""`workspaces`: list them, remove unused ones, keep those in use."""

import os
from pathlib import Path

import pytest

from openskills.executors.records.leases import WorkspaceStore
from tests.cli.command import Command
from tests.executors.holder import holding

DAY = 24 * 60 * 60


@pytest.fixture
def root(openskills: Command) -> Path:
    return openskills.home / ".local" / "state" / "openskills" / "workspaces"


def left_behind(root: Path, key: str, *, days: float = 0, size: int = 0) -> str:
    """A workspace that nobody uses, since so many days; returns its id."""
    lease = WorkspaceStore(root).claim(key, executor="local")
    (lease.tree / "out" / "file").write_bytes(b"x" * size)
    lease.release()
    lock = lease.directory / "lease"
    used = lock.stat().st_mtime - days * DAY
    os.utime(lock, (used, used))
    return lease.id


def keys(openskills: Command) -> list[str]:
    return sorted(each["key"] for each in openskills("workspaces", "list", "--json").json["workspaces"])


def test_without_workspaces_there_is_nothing_to_see_or_remove(openskills: Command, root: Path) -> None:
    ran = openskills("workspaces", "list")
    assert (ran.code, ran.out, ran.err) == (0, "", "no workspaces\n")
    assert openskills("workspaces", "list", "--json").json == {"workspaces": []}
    ran = openskills("workspaces", "clean", "--all", "--yes")
    assert (ran.code, ran.err) == (0, "nothing to remove\n")
    assert not root.exists()


def test_the_list_has_a_line_for_each_the_last_used_first(openskills: Command, root: Path) -> None:
    old = left_behind(root, "old", days=3)
    new = left_behind(root, "app/user/\x1b[2J new", size=100_000)
    first, second = (line.split("\t") for line in openskills("workspaces", "list").lines)
    assert first[:3] == [new, "app/user/\\x1b[2J new", "local"]
    assert int(first[3]) >= 100_000
    assert (first[4], first[6]) == ("5", "")
    assert second[:2] == [old, "old"]
    assert 3 * DAY <= int(second[5]) < 4 * DAY


def test_json_has_everything(openskills: Command, root: Path) -> None:
    id_ = left_behind(root, "old", days=3)
    (found,) = openskills("workspaces", "list", "--json").json["workspaces"]
    assert (found["id"], found["key"], found["executor"]) == (id_, "old", "local")
    assert (found["files"], found["ttl_seconds"], found["expired"]) == (5, DAY, True)
    assert (found["in_use"], found["pid"]) == (False, None)
    assert found["idle_seconds"] >= 3 * DAY
    assert {"size_bytes", "age_seconds"} <= set(found)


def test_on_a_terminal_there_is_a_table_for_people(openskills: Command, root: Path) -> None:
    left_behind(root, "old", days=3, size=2 * 1024 * 1024)
    with holding(root, "busy") as process:
        lines = openskills.on_terminal("workspaces", "list").lines
    assert lines[0].split() == ["workspace", "executor", "size", "files", "used", "in", "use", "by"]
    assert lines[1].split() == ["busy", "local", *lines[1].split()[2:4], "4", "now", str(process.pid)]
    assert lines[2].split() == ["old", "local", "2", "MiB", "5", "3d", "ago"]


def test_cleaning_removes_what_is_expired_and_says_what(openskills: Command, root: Path) -> None:
    old = left_behind(root, "old", days=3)
    left_behind(root, "new")
    ran = openskills("workspaces", "clean", "--yes")
    assert (ran.code, ran.out) == (0, f"removed\t{old}\told\n")
    assert keys(openskills) == ["new"]


def test_cleaning_by_age_and_all(openskills: Command, root: Path) -> None:
    for key, days in (("a", 10), ("b", 5), ("c", 0.5)):
        left_behind(root, key, days=days)
    ran = openskills("workspaces", "clean", "--older-than", "7d", "--yes", "--json")
    assert [each["key"] for each in ran.json["removed"]] == ["a"]
    assert openskills("workspaces", "clean", "--older-than", "1h", "--yes").code == 0
    assert keys(openskills) == []
    left_behind(root, "d")
    assert openskills("workspaces", "clean", "--all", "--yes").code == 0
    assert keys(openskills) == []


def test_what_is_in_use_stays_and_is_named(openskills: Command, root: Path) -> None:
    left_behind(root, "free")
    with holding(root, "busy") as process:
        ran = openskills("workspaces", "clean", "--all", "--yes")
        assert (ran.code, ran.lines[0].split("\t")[2]) == (0, "free")
        assert ran.err == f"in use by process {process.pid}, not removed: busy\n"
        report = openskills("workspaces", "clean", "--all", "--yes", "--json").json
        assert (report["removed"], [each["key"] for each in report["in_use"]]) == ([], ["busy"])
        assert keys(openskills) == ["busy"]


def test_a_dry_run_removes_nothing(openskills: Command, root: Path) -> None:
    id_ = left_behind(root, "old", days=3)
    left_behind(root, "new")
    ran = openskills("workspaces", "clean", "--dry-run")
    assert (ran.code, ran.out) == (0, f"would be removed\t{id_}\told\n")
    report = openskills("workspaces", "clean", "--all", "--dry-run", "--yes", "--json").json
    assert sorted(each["key"] for each in report["removed"]) == ["new", "old"]
    assert keys(openskills) == ["new", "old"]


def test_nothing_is_removed_without_confirmation(openskills: Command, root: Path) -> None:
    left_behind(root, "old", days=3)
    for options in ((), ("--json",)):
        ran = openskills("workspaces", "clean", *options)
        assert (ran.code, ran.out) == (1, "")
        assert "1 workspace with " in ran.err
        assert "confirm with --yes, or list them with --dry-run" in ran.err
    assert keys(openskills) == ["old"]


def test_on_a_terminal_the_answer_decides(openskills: Command, root: Path) -> None:
    left_behind(root, "old", days=3, size=3000)
    ran = openskills.on_terminal("workspaces", "clean", replies={"? [y/N]": "\n"})
    assert (ran.code, keys(openskills)) == (1, ["old"])
    ran = openskills.on_terminal("workspaces", "clean", replies={"Remove 1 workspace with": "y\n"})
    assert (ran.code, ran.lines[-1]) == (0, "removed old")
    assert keys(openskills) == []


def test_wrong_usage_is_reported(openskills: Command) -> None:
    ran = openskills("workspaces", "clean", "--older-than", "soon")
    assert (ran.code, ran.err) == (2, "error: --older-than: invalid duration 'soon'; use 90s, 15m, 24h or 7d\n")
    ran = openskills("workspaces", "clean", "--all", "--older-than", "1h")
    assert (ran.code, ran.err) == (2, "error: --all: cannot be combined with --older-than; choose one\n")
    assert openskills("workspaces", "remove").code == 2


def test_the_state_directory_can_be_elsewhere(openskills: Command, tmp_path: Path) -> None:
    left_behind(tmp_path / "state" / "workspaces", "elsewhere")
    ran = openskills("workspaces", "list", OPENSKILL_STATE_DIR=str(tmp_path / "state"))
    assert ran.lines[0].split("\t")[1] == "elsewhere"


def test_without_a_command_there_is_help(openskills: Command) -> None:
    ran = openskills("workspaces", "--help")
    assert (ran.code, "list" in ran.out, "clean" in ran.out) == (0, True, True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may remove everything")
def test_failed_removals_are_reported(openskills: Command, root: Path) -> None:
    left_behind(root, "old", days=3)
    root.chmod(0o500)
    ran = openskills("workspaces", "clean", "--yes")
    root.chmod(0o700)
    assert (ran.code, "not removed: " in ran.err) == (1, True)


def test_remove_takes_ids_and_says_what_does_not_exist(openskills: Command, root: Path) -> None:
    first, second = left_behind(root, "first"), left_behind(root, "second")
    ran = openskills("workspaces", "remove", first, "0" * 32)
    assert (ran.code, ran.out) == (1, f"removed {first}\n")
    assert ran.err == f"unknown workspace {'0' * 32}; `openskills workspaces list` shows them\n"
    assert keys(openskills) == ["second"]
    assert openskills("workspaces", "remove", second, "--json").json == {"removed": [second]}
    assert openskills("workspaces", "remove", "../up").code == 2
