"""What of this machine the commands in a sandbox may see. Blocking, once per executor.

What they see of `/etc` is a copy: see `etc_entries.py`.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from openskills.executors.sandbox.bubblewrap import System
from openskills.executors.sandbox.etc_entries import ETC

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_PROGRAMS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")

_HIDDEN = ("/proc/keys",)
"""The names of a user's keys, which have no namespace."""


def visible_system(read_only: Sequence[Path]) -> System:
    """The parts of the system that every command sees, and `read_only` directories at the paths that they have here."""
    binds = ["/usr"]
    links: list[tuple[str, str]] = []
    for path in _PROGRAMS:
        _show(path, binds, links)
    for directory in read_only:
        _add(str(directory), binds, links)
    # A user that a root host has for one session only has no keys.
    hidden = () if os.geteuid() == 0 else tuple(filter(os.path.exists, _HIDDEN))
    outside = tuple((target, path) for target, path in links if not _is_in_etc(path))
    places = ((path, None) for path in binds if _is_in_etc(path))
    linked = ((path, target) for target, path in links if _is_in_etc(path))
    return System(tuple(binds), outside, hidden, (*places, *linked))


def _is_in_etc(path: str) -> bool:
    return path.startswith(f"{ETC}/")


def _show(path: str, binds: list[str], links: list[tuple[str, str]]) -> None:
    if os.path.islink(path):
        links.append((os.readlink(path), path))
    elif os.path.exists(path):
        binds.append(path)


def _add(path: str, binds: list[str], links: list[tuple[str, str]]) -> None:
    real = os.path.realpath(path)
    if not any(Path(real).is_relative_to(bind) for bind in binds):
        binds.append(real)
    if real != path and not any(Path(path).is_relative_to(bind) for bind in binds):
        links.append((real, path))
