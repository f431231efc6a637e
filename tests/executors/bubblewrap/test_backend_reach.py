""""""

import subprocess
from pathlib import Path

import pytest

from openskills.executors.bubblewrap.backend import (
    allow_traversal,
    build_reach_command,
    find_closed_parents,
    read_kernel_setting,
    select_topmost,
    suggest_fix,
)
from tests.conftest import needs_root
from tests.executors.boxes import UID

as_root = needs_root("only root starts commands as somebody else")


def as_somebody(*argv: str) -> list[str]:
    return ["/usr/bin/setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups", "--", *argv]


def test_only_the_topmost_closed_directory_is_covered() -> None:
    closed = {Path("/mine"), Path("/mine/deep/closed")}
    found = find_closed_parents(
        [Path("/mine/deep/closed/x"), Path("/mine/y"), Path("/usr/z")], lambda path: path not in closed
    )
    assert found == [Path("/mine")]


def test_a_directory_below_another_one_needs_no_way_of_its_own() -> None:
    wanted = [Path("/mine/state/.system"), Path("/usr"), Path("/mine/state"), Path("/mine/state2"), Path("/usr")]
    assert select_topmost(wanted) == [Path("/mine/state"), Path("/mine/state2"), Path("/usr")]


@as_root
def test_another_user_gets_to_a_directory_below_a_closed_one_and_to_nothing_beside_it(tmp_path: Path) -> None:
    shown, hidden = tmp_path / "shown", tmp_path / "hidden"
    for directory in (shown, hidden):
        directory.mkdir(mode=0o755)
        (directory / "file").write_text(directory.name)
    tmp_path.chmod(0o700)
    script = f"cat {shown}/file; ls {tmp_path} || cat {hidden}/file"
    done = subprocess.run(
        build_reach_command([shown], as_somebody("/bin/bash", "-c", script)), capture_output=True, text=True
    )
    assert done.stdout == "shown"
    assert done.returncode != 0
    assert subprocess.run(as_somebody("/bin/cat", f"{shown}/file"), capture_output=True).returncode != 0


@as_root
def test_only_the_user_of_a_workspace_may_pass_to_it(tmp_path: Path) -> None:
    tree = tmp_path / "workspaces" / "one" / "tree"
    tree.mkdir(parents=True)
    tree.parent.chmod(0o700)
    allow_traversal(tree, UID)
    found = tree.parent.stat()
    assert (found.st_gid, found.st_mode & 0o777) == (UID, 0o710)
    assert tree.parents[1].stat().st_mode & 0o001


@pytest.mark.parametrize(
    ("said", "settings", "fix"),
    [
        ("bwrap: Unknown option --bind-fd", {}, "Upgrade it"),
        ("x", {"user/max_user_namespaces": "0"}, "sysctl -w user.max_user_namespaces"),
        ("x", {"kernel/unprivileged_userns_clone": "0"}, "sysctl -w kernel.unprivileged_userns_clone=1"),
        ("x", {"kernel/apparmor_restrict_unprivileged_userns": "1"}, "AppArmor"),
        ("bwrap: No permissions to create new namespace", {}, "If this is a container"),
        ("something else", {}, "container"),
    ],
)
def test_each_reason_has_its_own_fix(said: str, settings: dict[str, str], fix: str) -> None:
    assert fix in suggest_fix(said, lambda name: settings.get(name, ""))


def test_a_setting_that_this_kernel_does_not_have_is_empty() -> None:
    assert read_kernel_setting("kernel/no_such_setting") == ""
    assert read_kernel_setting("kernel/ostype") == "Linux"
