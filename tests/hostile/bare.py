"""The battery without any protection: a plain child process in a directory that looks like a workspace."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.hostile.planting import Place, Planted

TIMEOUT = 120


def make_place(directory: Path, skill: Path) -> Place:
    """A workspace, a neighbour and a store, made by hand."""
    state = directory / "state"
    for name in ("one", "two"):
        for part in ("skills", "work", "runs", "out"):
            (state / "workspaces" / name / "tree" / part).mkdir(parents=True)
    stored = state / "snapshots" / "digest"
    shutil.copytree(skill, stored)
    tree = state / "workspaces" / "one" / "tree"
    for name in ("battery", "other"):
        shutil.copytree(skill, tree / "skills" / name)
        (tree / "skills" / name / ".venv").mkdir()
    return Place(tree, tree.parent, state / "workspaces" / "two" / "tree", stored / "SKILL.md")


def run(argv: list[str], place: Place, planted: Planted, environment: Mapping[str, str], *, terminal: bool) -> str:
    """Run it as anybody would who thinks of nothing: everything is inherited, complaints go into a file."""
    log = planted.outside / "secret.txt"
    with log.open("r+b") as complaints:
        if terminal:
            return _on_terminal(argv, place, environment)
        complaints.seek(0, os.SEEK_END)
        finished = subprocess.run(
            argv,
            cwd=place.tree,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=complaints,
            stdin=subprocess.DEVNULL,
            close_fds=False,
            timeout=TIMEOUT,
            check=False,
        )
    return finished.stdout.decode("utf-8", "replace")


def _on_terminal(argv: list[str], place: Place, environment: Mapping[str, str]) -> str:
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        argv,
        cwd=place.tree,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        close_fds=False,
        start_new_session=True,
    )
    os.close(theirs)
    output = bytearray()
    try:
        while part := os.read(ours, 65536):
            output += part
    except OSError:
        # EIO: the last one that had the other side open has gone.
        process.wait()
    finally:
        os.close(ours)
    return output.decode("utf-8", "replace")


def python() -> str:
    """The interpreter that runs the probes here."""
    return sys.executable
