"""Changing what lies outside the workspace, or what is read-only in it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.hostile.probes.probe import Attack, Probe, add, probe
from tests.hostile.probes.world import World

_Change = Callable[[str], object]


def _append(path: str) -> None:
    with open(path, "ab") as file:
        file.write(b"x")


def _create(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


# What is done in the directory of ours outside; every change has files of its own there.
_OUTSIDE: dict[str, tuple[str, _Change]] = {
    "append": ("appends to a file outside", lambda outside: _append(f"{outside}/victim.txt")),
    "truncate": ("empties a file outside", lambda outside: os.truncate(f"{outside}/empty-me.txt", 0)),
    "create": ("creates a file outside", lambda outside: _create(f"{outside}/drop/created")),
    "mkdir": ("makes a directory outside", lambda outside: os.mkdir(f"{outside}/drop/made")),
    "symlink": ("makes a link outside", lambda outside: os.symlink("x", f"{outside}/drop/soft")),
    "fifo": ("makes a pipe outside", lambda outside: os.mkfifo(f"{outside}/drop/fifo")),
    "link": ("puts a file of its own outside by a hard link", lambda outside: os.link("work/own", f"{outside}/drop/l")),
    "move": ("moves a file of its own outside", lambda outside: os.rename("work/mine", f"{outside}/drop/moved")),
    "rename": ("renames a file outside", lambda outside: os.rename(f"{outside}/rename-me", f"{outside}/renamed")),
    "unlink": ("removes a file outside", lambda outside: os.unlink(f"{outside}/remove-me")),
    "rmdir": ("removes a directory outside", lambda outside: os.rmdir(f"{outside}/remove-directory")),
    "chmod": ("changes the mode of a directory outside", lambda outside: os.chmod(f"{outside}/names", 0o750)),
    "utime": ("changes the time of a file outside", lambda outside: os.utime(f"{outside}/victim.txt", (1, 1))),
    "xattr": (
        "puts an attribute on a file outside",
        lambda outside: os.setxattr(f"{outside}/victim.txt", "user.openskill", b"x"),
    ),
    "by-own-root": (
        "writes outside through /proc/self/root",
        lambda outside: _append(f"/proc/self/root{outside}/victim.txt"),
    ),
}


def _changes(change: _Change) -> Attack:
    """Do it; the files of its own that a change may need are made before."""

    def attack(world: World) -> str | None:
        for name in ("own", "mine"):
            Path("work", name).touch()
        change(world.outside)
        return "done"

    return attack


for _name, (_tries, _change) in _OUTSIDE.items():
    add(Probe(f"outside-{_name}", "escape", _tries, _changes(_change)))


@probe("escape", "writes into the workspace of another session")
def plant_in_workspace_of_another(world: World) -> str | None:
    _append(f"{world.neighbour}/work/private.txt")
    return "appended"


@probe("escape", "writes beside its own workspace, where the host keeps its records")
def plant_in_records_of_host(world: World) -> str | None:
    path = f"{world.private}/planted"
    _create(path)
    os.unlink(path)
    return path


@probe("escape", "changes a skill in the store that all sessions share")
def poison_the_store(world: World) -> str | None:
    os.chmod(world.store, 0o644)
    _append(world.store)
    return world.store


def _after_chmod(skill: str) -> None:
    os.chmod(f"{skill}/SKILL.md", 0o644)
    _append(f"{skill}/SKILL.md")


def _through_hard_link(skill: str) -> None:
    os.link(f"{skill}/data.txt", "out/linked")
    os.chmod("out/linked", 0o644)
    _append("out/linked")


def _through_descriptor(skill: str) -> None:
    reading = os.open(f"{skill}/writable.txt", os.O_RDONLY)
    os.close(os.open(f"/proc/self/fd/{reading}", os.O_WRONLY))


def _replaced(skill: str) -> None:
    os.rename(skill, f"{skill}-old")
    shutil.copytree(f"{skill}-old", skill, symlinks=True)


def _replaced_all(skill: str) -> None:
    os.rename("skills", "skills-old")
    os.symlink("skills-old", "skills")


def _swapped_venv(skill: str) -> None:
    os.rename(f"{skill}/.venv", "work/venv")
    os.symlink("../../work", f"{skill}/.venv")


# What is done to another skill of the session. The last ones leave little of it, so nothing comes after them.
_TO_SKILL: dict[str, tuple[str, _Change]] = {
    "append": ("appends to SKILL.md of another skill", lambda skill: _append(f"{skill}/SKILL.md")),
    "chmod": ("makes SKILL.md writable and appends", _after_chmod),
    "create": ("puts sitecustomize.py into another skill", lambda skill: _create(f"{skill}/sitecustomize.py")),
    "unlink": ("removes a file of another skill", lambda skill: os.unlink(f"{skill}/remove-me.txt")),
    "hard-link": ("links a file of the skill into out/ and changes it there", _through_hard_link),
    "descriptor": ("opens a file of the skill again for writing through /proc/self/fd", _through_descriptor),
    "by-venv": ("climbs from .venv into the skill", lambda skill: _append(f"{skill}/.venv/../SKILL.md")),
    "swap-venv": ("puts a link in the place of .venv", _swapped_venv),
    "new": ("adds a skill beside the staged ones", lambda _: os.mkdir("skills/intruder")),
    "replace": ("puts a copy of its own in the place of the skill", _replaced),
    "replace-all": ("puts a directory of its own in the place of skills/", _replaced_all),
}


def _changes_skill(change: _Change) -> Attack:
    def attack(world: World) -> str | None:
        change(world.skill)
        return "done"

    return attack


for _name, (_tries, _change) in _TO_SKILL.items():
    add(Probe(f"skill-{_name}", "escape", _tries, _changes_skill(_change)))


def _is_writable(path: str) -> Attack:
    """Whether a directory of the system could be written to; nothing is written."""

    def attack(world: World) -> str | None:
        read_only = os.statvfs(path).f_flag & os.ST_RDONLY
        return path if os.access(path, os.W_OK) and not read_only else None

    return attack


for _path in ("/", "/usr", "/etc", "/etc/ssl", "/usr/bin", "/dev"):
    _tries = f"looks whether {_path} can be written to"
    add(Probe(f"writable-{_path}", "escape", _tries, _is_writable(_path), by_root=True))
