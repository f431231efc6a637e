import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openskills.executors.bubblewrap.seccomp import build_filter
from openskills.executors.landlock import PROGRAM
from openskills.executors.programs.landlock import MIN_VERSION, get_rights, get_version

pytestmark = pytest.mark.skipif(get_version() < MIN_VERSION, reason="this kernel has no Landlock, or an older one")


def entered(tmp_path: Path, *argv: str, word: bytes = b"\n", **changed: object) -> subprocess.CompletedProcess[str]:
    """What a command does after everything was given up; the word is given beforehand."""
    ready_here, ready = os.pipe()
    go, go_here = os.pipe()
    os.write(go_here, word)
    os.close(go_here)
    variables, variables_here = os.pipe()
    os.write(variables_here, json.dumps({"PATH": os.defpath, "SAID": "so"}).encode())
    os.close(variables_here)
    about = {
        "uid": None,
        "limits": [],
        "read": ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/proc", sys.base_prefix],
        "write": [str(tmp_path / "open")],
        "tree": str(tmp_path),
        "private": ["closed", "*", "own"],
        "devices": ["/dev/null"],
        "filter": build_filter(platform.machine(), namespaces=False).hex(),
        "cwd": str(tmp_path),
        "handshake": (ready, go),
        "variables": variables,
        **changed,
    }
    (tmp_path / "open").mkdir(exist_ok=True)
    command = [sys.executable, "-I", "-S", str(PROGRAM), json.dumps(about), *argv]
    try:
        return subprocess.run(command, pass_fds=(ready, go, variables), capture_output=True, text=True)
    finally:
        for descriptor in (ready_here, ready, go, variables):
            os.close(descriptor)


def test_only_what_is_granted_can_be_written(tmp_path: Path) -> None:
    done = entered(tmp_path, "/bin/bash", "-c", "echo x > open/x; echo x > closed; cat open/x; echo x > /dev/null")
    assert (done.returncode, done.stdout) == (0, "x\n")
    assert "closed: Permission denied" in done.stderr
    assert not (tmp_path / "closed").exists()


def test_the_command_has_the_variables_that_were_told_and_no_others(tmp_path: Path) -> None:
    done = entered(tmp_path, "env")
    assert sorted(done.stdout.splitlines()) == [f"PATH={os.defpath}", "SAID=so"]


def test_without_the_word_nothing_is_run(tmp_path: Path) -> None:
    done = entered(tmp_path, "/bin/bash", "-c", "echo ran", word=b"")
    assert (done.returncode, done.stdout) == (125, "")
    assert "the supervisor is gone" in done.stderr


@pytest.mark.parametrize("changed", [{"filter": ""}, {"filter": "////////"}, {"cwd": "/no/such/place"}])
def test_when_something_cannot_be_set_up_nothing_is_run(tmp_path: Path, changed: dict[str, Any]) -> None:
    done = entered(tmp_path, "/bin/bash", "-c", "echo ran", **changed)
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr


def test_a_path_that_is_missing_grants_nothing(tmp_path: Path) -> None:
    done = entered(tmp_path, "/bin/bash", "-c", "echo x > open/x || echo refused", write=["/no/such/place"])
    assert done.stdout == "refused\n"


def test_no_right_is_forgotten_in_any_version() -> None:
    assert [get_rights(abi).bit_length() for abi in (1, 2, 3, 4, 5, 6, 7)] == [13, 14, 15, 15, 16, 16, 16]


def test_what_is_private_cannot_be_read_and_links_grant_nothing(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    tree = tmp_path / "tree"
    (tree / "open").mkdir(parents=True)
    outside.mkdir()
    for name in ("one", "two"):
        (tree / "closed" / name / "own").mkdir(parents=True)
        (tree / "closed" / name / "own" / "secret").write_text("secret")
        (tree / "closed" / name / "text").write_text(f"text of {name}\n")
    (outside / "secret").write_text("secret")
    (tree / "closed" / "two" / "link").symlink_to(outside)
    (tree / "closed" / "three").symlink_to(outside)
    (tree / "link").symlink_to(outside)
    search = "cat closed/*/text; cat closed/*/own/secret closed/two/link/secret closed/three/secret link/secret"
    done = entered(tree, "/bin/bash", "-c", search, write=[str(tree / "open"), str(tree / "closed" / "one")])
    assert done.stdout == "text of one\ntext of two\nsecret"
    assert done.stderr.count("Permission denied") == 4
