"""What this machine has of what OpenSkill can use. Only looks: starts no process, writes no file.

How commands can be isolated is found out by trying: see `isolation.py`.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from openskills.settings import Settings
from openskills.version import __version__

OLDEST_PYTHON = (3, 11)
_ENOUGH_WATCHES = 8192


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked for. `fix` says what to do when it is not there."""

    section: str
    name: str
    ok: bool
    detail: str
    required: bool = False
    fix: str | None = None


def checks(settings: Settings) -> Iterator[Check]:
    """Everything worth knowing, in the order in which it is shown."""
    yield from _basics()
    yield from _directories(settings)
    yield _program(settings, "sources", "git", "skills from git repositories", "git")
    yield _package("watching", "watchfiles", "following changes on disk", required=True)
    yield from _watches()
    yield _extra("tokens", "bpe-openai", "exact token counts")


def _basics() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    wanted = ".".join(map(str, OLDEST_PYTHON))
    fits = sys.version_info >= OLDEST_PYTHON
    yield Check("basics", "Python", fits, version, required=True, fix=f"install Python {wanted} or newer")
    yield Check("basics", "openskills", True, __version__, required=True)
    yield _package("basics", "PyYAML", "reading front matter", required=True)
    yield _libyaml()
    yield _package("sources", "httpx2", "skills from URLs", required=True)


def _libyaml() -> Check:
    fix = "pip install --force-reinstall PyYAML (the wheels bring libyaml)"
    try:
        import yaml
    except ImportError:
        return Check("basics", "libyaml", False, "PyYAML is missing", fix=fix)
    there = bool(getattr(yaml, "__with_libyaml__", False))
    detail = "PyYAML uses it" if there else "PyYAML is without it: everything works, reading is about ten times slower"
    return Check("basics", "libyaml", there, detail, fix=fix)


def _package(section: str, name: str, purpose: str, *, required: bool) -> Check:
    version = _version(name)
    detail = f"{version}, for {purpose}" if version else f"missing, for {purpose}"
    return Check(section, name, version is not None, detail, required, f"pip install {name}")


def _extra(extra: str, package: str, purpose: str) -> Check:
    version = _version(package)
    detail = f"{package} {version}, for {purpose}" if version else f"not installed, for {purpose}"
    return Check("extras", extra, version is not None, detail, fix=f"pip install 'openskills[{extra}]'")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _directories(settings: Settings) -> Iterator[Check]:
    yield _writable("cache", settings.cache_dir, "OPENSKILL_CACHE_DIR")
    yield _writable("fetched skills", settings.skills_cache_dir, "SKILLS_CACHE_DIR")
    yield _writable("configuration", settings.config_dir, "OPENSKILL_CONFIG_DIR")


def _writable(name: str, directory: Path, variable: str) -> Check:
    existing = next(folder for folder in (directory, *directory.parents) if folder.exists())
    ok = existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
    detail = str(directory) if ok else f"{directory} cannot be written ({existing} is in the way)"
    fix = f"make {existing} a directory you can write to, or set {variable}"
    return Check("directories", name, ok, detail, required=True, fix=fix)


def _program(settings: Settings, section: str, program: str, purpose: str, package: str) -> Check:
    path = shutil.which(program, path=settings.search_path)
    detail = f"{path}, for {purpose}" if path else f"not on the PATH, for {purpose}"
    return Check(section, program, path is not None, detail, fix=f"on Debian: apt-get install {package}")


def _watches() -> Iterator[Check]:
    if sys.platform != "linux":
        return
    limit = _number("/proc/sys/fs/inotify/max_user_watches")
    detail = f"{limit:,} watches for each user" if limit is not None else "the kernel does not say how many watches"
    fix = "sysctl fs.inotify.max_user_watches=65536"
    yield Check("watching", "inotify", limit is not None and limit >= _ENOUGH_WATCHES, detail, fix=fix)


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text("ascii"))
    except (OSError, ValueError):
        return None
