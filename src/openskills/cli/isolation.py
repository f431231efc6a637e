"""Which executors work on this machine: each is tried with its own self-test, in a place of its own."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from openskills.cli.machine import Check
from openskills.errors import SkillError
from openskills.settings import Settings

_SECTION = "isolation"
_WHAT = {
    "sandbox": "bubblewrap: own mounts, processes, network; unprivileged user; system call filter",
    "container": "a container for each session, by a Docker-compatible engine",
    "landlock": "Landlock and a system call filter; weaker: no own process table, no own mounts",
    "local": "no isolation at all: clean environment, limits, whole-tree kill",
}


def isolation(settings: Settings) -> Iterator[Check]:
    """The layers from the strongest to none, each with what it is and what to do when it does not work."""
    if sys.platform == "linux":
        yield _program(settings, "bwrap", "bubblewrap")
        yield _program(settings, "setpriv", "util-linux")
        yield _user_namespaces()
    for name in ("sandbox", "container", "landlock"):
        yield _tried(name, settings)
    yield _chosen(settings)


def _tried(name: str, settings: Settings) -> Check:
    failure = _failure(name, settings)
    if failure is None:
        return Check(_SECTION, name, True, f"its self-test passed; {_WHAT[name]}")
    return Check(_SECTION, name, False, _WHAT[name], fix=failure)


def _chosen(settings: Settings) -> Check:
    """What a command would run under now."""
    name = settings.executor
    fix = "see the lines above, or choose another one with OPENSKILL_EXECUTOR"
    failure = _failure(name, settings)
    if failure is not None:
        return Check(_SECTION, "chosen", False, f"{name}: commands of skills are refused", fix=fix)
    detail = "sandbox, because its self-test passed" if name == "auto" else name
    if name == "local" or (name == "auto" and _failure("sandbox", settings) is not None):
        detail = f"local, because it was allowed: {_WHAT['local']}"
    return Check(_SECTION, "chosen", True, f"{name}: {detail}" if name != detail else name)


def _failure(name: str, settings: Settings) -> str | None:
    """What an executor says why it does not work; None when it does. Nothing of it is left behind."""
    from openskills.executors.choose import executor
    from openskills.sync import run

    async def check(state: Path) -> None:
        tried = executor(name, replace(settings, state_dir=state))
        try:
            await tried.check()
        finally:
            await tried.close()

    with tempfile.TemporaryDirectory(prefix="openskills-doctor-") as state:
        try:
            run(check(Path(state)))
        except SkillError as error:
            return error.message
    return None


def _program(settings: Settings, name: str, package: str) -> Check:
    found = shutil.which(name, path=settings.search_path)
    fix = f"on Debian: apt-get install {package}"
    return Check(_SECTION, name, found is not None, found or f"{name} is not on the PATH; `sandbox` needs it", fix=fix)


def _user_namespaces() -> Check:
    fix = "sysctl user.max_user_namespaces=15000"
    if not Path("/proc/self/ns/user").exists():
        return Check(_SECTION, "user namespaces", False, "the kernel has none", fix="use a kernel with CONFIG_USER_NS")
    for path, refusing, remedy in (
        ("/proc/sys/user/max_user_namespaces", 0, fix),
        ("/proc/sys/kernel/unprivileged_userns_clone", 0, "sysctl kernel.unprivileged_userns_clone=1"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 1, "an AppArmor profile for bwrap"),
    ):
        if _number(path) == refusing and (os.geteuid() != 0 or path.endswith("max_user_namespaces")):
            return Check(_SECTION, "user namespaces", False, f"{path} is {refusing}", fix=remedy)
    return Check(_SECTION, "user namespaces", True, "allowed, as far as the kernel's settings say", fix=fix)


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text("ascii"))
    except (OSError, ValueError):
        return None
