"""What of this machine the commands in a sandbox may see. Blocking, once per executor."""

import os
from collections.abc import Sequence
from pathlib import Path

from openskills.executors.sandbox.bubblewrap import HOME, USER, System

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_PROGRAMS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_CERTIFICATES = (
    "/etc/ssl/certs",
    "/etc/ca-certificates/extracted",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
)
_SHOWN = ("/etc/alternatives", *_CERTIFICATES)
_FILES = ("/etc/ld.so.cache", "/etc/ssl/openssl.cnf")
_TIME_ZONE = "/etc/localtime"
_ROOT, _NOBODY = "root:x:0:0::/:/usr/sbin/nologin\n", "nobody:x:65534:65534::/:/usr/sbin/nologin\n"
_CONTENTS: tuple[tuple[str, str], ...] = (
    ("/etc/passwd", f"{_ROOT}u:x:{USER}:{USER}::{HOME}:/bin/bash\n{_NOBODY}"),
    ("/etc/group", f"root:x:0:\nu:x:{USER}:\nnogroup:x:65534:\n"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ("/etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"),
)

_HIDDEN = ("/proc/keys",)
"""The names of a user's keys, which have no namespace."""


def visible_system(read_only: Sequence[Path]) -> System:
    """The parts of the system that every command sees, and `read_only` directories at the paths that they have here."""
    binds = ["/usr"]
    links: list[tuple[str, str]] = []
    for path in _PROGRAMS:
        _show(path, binds, links)
    binds += filter(os.path.isdir, _SHOWN)
    if os.path.lexists(_TIME_ZONE):
        _show(_TIME_ZONE, binds, links)
    for directory in read_only:
        _add(str(directory), binds, links)
    here = [(path, path) for path in _FILES if os.path.isfile(path)]
    contents = ((path, text.encode()) for path, text in _CONTENTS)
    # A user that a root host has for one session only has no keys.
    hidden = () if os.geteuid() == 0 else tuple(filter(os.path.exists, _HIDDEN))
    return System(tuple(binds), tuple(links), (*contents, *here), hidden)


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
