"""Doctor.

`openskills doctor`: what this machine can do, and what is missing.

What this machine has of what OpenSkill can use. Only looks: starts no process, writes no file.

How commands can be isolated is found out by trying: see `isolation.py`.

Which executors work on this machine: each is tried with its own self-test, in a place of its own.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path

import typer

from openskills.cli.output import CliProgress, escape_line, say, say_json
from openskills.cli.skills import Json, get_settings
from openskills.errors import SkillError
from openskills.settings import Settings
from openskills.version import __version__


def doctor(context: typer.Context, as_json: Json = False) -> None:
    """Show what this machine can do and what is missing, with what to install.

    Executors are tried with their self-tests, which start harmless commands. Nothing is changed, nothing is left.

    Examples:
      openskills doctor
      openskills doctor --json

    Exit codes: 0 everything required is there, 1 something required is missing.
    """

    settings = get_settings(context)
    with CliProgress("trying the executors"):
        found = [*run_checks(settings), *probe_isolation(settings)]
    missing = [check for check in found if check.required and not check.ok]
    if as_json:
        say_json({"ok": not missing, "checks": [_to_json(check) for check in found]})
    else:
        for section in dict.fromkeys(check.section for check in found):
            say((section, "bold"))
            for check in found:
                if check.section == section:
                    _show_check(check)
        _summarise(missing)
    if missing:
        raise typer.Exit(1)


def _to_json(check: "DoctorCheck") -> dict[str, object]:
    return {**asdict(check), "fix": None if check.ok else check.fix}


def _show_check(check: "DoctorCheck") -> None:
    state = (
        ("ok      ", "green") if check.ok else ("missing ", "bold red") if check.required else ("absent  ", "yellow")
    )
    say("  ", state, (f"{check.name:<16}", "cyan"), escape_line(check.detail))
    if not check.ok and check.fix:
        say(" " * 26, ("fix: ", "bold"), escape_line(check.fix))


def _summarise(missing: "list[DoctorCheck]") -> None:
    say("")
    if missing:
        say(("something required is missing: ", "bold red"), ", ".join(check.name for check in missing))
    else:
        say(("everything required is there", "bold green"))


OLDEST_PYTHON = (3, 11)
_ENOUGH_WATCHES = 8192


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One thing that was looked for. `fix` says what to do when it is not there."""

    section: str
    name: str
    ok: bool
    detail: str
    required: bool = False
    fix: str | None = None


def run_checks(settings: Settings) -> Iterator[DoctorCheck]:
    """Everything worth knowing, in the order in which it is shown."""
    yield from _probe_basics()
    yield from _probe_directories(settings)
    yield _probe_program(settings, "sources", "git", "skills from git repositories", "git")
    yield _probe_package("watching", "watchfiles", "following changes on disk", required=True)
    yield from _probe_watches()
    yield _probe_extra("tokens", "bpe-openai", "exact token counts")


def _probe_basics() -> Iterator[DoctorCheck]:
    version = ".".join(map(str, sys.version_info[:3]))
    wanted = ".".join(map(str, OLDEST_PYTHON))
    fits = sys.version_info >= OLDEST_PYTHON
    yield DoctorCheck("basics", "Python", fits, version, required=True, fix=f"install Python {wanted} or newer")
    yield DoctorCheck("basics", "openskills", True, __version__, required=True)
    yield _probe_package("basics", "PyYAML", "reading front matter", required=True)
    yield _probe_libyaml()
    yield _probe_package("sources", "httpx2", "skills from URLs", required=True)


def _probe_libyaml() -> DoctorCheck:
    fix = "pip install --force-reinstall PyYAML (the wheels bring libyaml)"
    try:
        import yaml
    except ImportError:
        return DoctorCheck("basics", "libyaml", False, "PyYAML is missing", fix=fix)
    there = bool(getattr(yaml, "__with_libyaml__", False))
    detail = "PyYAML uses it" if there else "PyYAML is without it: everything works, reading is about ten times slower"
    return DoctorCheck("basics", "libyaml", there, detail, fix=fix)


def _probe_package(section: str, name: str, purpose: str, *, required: bool) -> DoctorCheck:
    version = _find_version(name)
    detail = f"{version}, for {purpose}" if version else f"missing, for {purpose}"
    return DoctorCheck(section, name, version is not None, detail, required, f"pip install {name}")


def _probe_extra(extra: str, package: str, purpose: str) -> DoctorCheck:
    version = _find_version(package)
    detail = f"{package} {version}, for {purpose}" if version else f"not installed, for {purpose}"
    return DoctorCheck("extras", extra, version is not None, detail, fix=f"pip install 'openskills[{extra}]'")


def _find_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _probe_directories(settings: Settings) -> Iterator[DoctorCheck]:
    yield _probe_writable("cache", settings.cache_dir, "OPENSKILL_CACHE_DIR")
    yield _probe_writable("fetched skills", settings.skills_cache_dir, "SKILLS_CACHE_DIR")
    yield _probe_writable("configuration", settings.config_dir, "OPENSKILL_CONFIG_DIR")


def _probe_writable(name: str, directory: Path, variable: str) -> DoctorCheck:
    existing = next(folder for folder in (directory, *directory.parents) if folder.exists())
    ok = existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
    detail = str(directory) if ok else f"{directory} cannot be written ({existing} is in the way)"
    fix = f"make {existing} a directory you can write to, or set {variable}"
    return DoctorCheck("directories", name, ok, detail, required=True, fix=fix)


def _probe_program(settings: Settings, section: str, program: str, purpose: str, package: str) -> DoctorCheck:
    path = shutil.which(program, path=settings.search_path)
    detail = f"{path}, for {purpose}" if path else f"not on the PATH, for {purpose}"
    return DoctorCheck(section, program, path is not None, detail, fix=f"on Debian: apt-get install {package}")


def _probe_watches() -> Iterator[DoctorCheck]:
    if sys.platform != "linux":
        return
    limit = _read_number("/proc/sys/fs/inotify/max_user_watches")
    detail = f"{limit:,} watches for each user" if limit is not None else "the kernel does not say how many watches"
    fix = "sysctl fs.inotify.max_user_watches=65536"
    yield DoctorCheck("watching", "inotify", limit is not None and limit >= _ENOUGH_WATCHES, detail, fix=fix)


def _read_number(path: str) -> int | None:
    try:
        return int(Path(path).read_text("ascii"))
    except (OSError, ValueError):
        return None


_SECTION = "isolation"
_WHAT = {
    "sandbox": "bubblewrap: own mounts, processes, network; unprivileged user; system call filter",
    "container": "a container for each session, by a Docker-compatible engine",
    "landlock": "Landlock and a system call filter; weaker: no own process table, no own mounts",
    "local": "no isolation at all: clean environment, limits, whole-tree kill",
}


def probe_isolation(settings: Settings) -> Iterator[DoctorCheck]:
    """The layers from the strongest to none, each with what it is and what to do when it does not work."""
    if sys.platform == "linux":
        yield _probe_isolation_program(settings, "bwrap", "bubblewrap")
        yield _probe_isolation_program(settings, "setpriv", "util-linux")
        yield _probe_user_namespaces()
    for name in ("sandbox", "container", "landlock"):
        yield _probe_executor(name, settings)
    yield _probe_default_executor(settings)


def _probe_executor(name: str, settings: Settings) -> DoctorCheck:
    failure = _find_failure(name, settings)
    if failure is None:
        return DoctorCheck(_SECTION, name, True, f"its self-test passed; {_WHAT[name]}")
    return DoctorCheck(_SECTION, name, False, _WHAT[name], fix=failure)


def _probe_default_executor(settings: Settings) -> DoctorCheck:
    """What a command would run under now."""
    name = settings.executor
    fix = "see the lines above, or choose another one with OPENSKILL_EXECUTOR"
    failure = _find_failure(name, settings)
    if failure is not None:
        return DoctorCheck(_SECTION, "chosen", False, f"{name}: commands of skills are refused", fix=fix)
    detail = "sandbox, because its self-test passed" if name == "auto" else name
    if name == "local" or (name == "auto" and _find_failure("sandbox", settings) is not None):
        detail = f"local, because it was allowed: {_WHAT['local']}"
    return DoctorCheck(_SECTION, "chosen", True, f"{name}: {detail}" if name != detail else name)


def _find_failure(name: str, settings: Settings) -> str | None:
    """What an executor says why it does not work; None when it does. Nothing of it is left behind."""
    from openskills.executors.open import open_executor as executor
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


def _probe_isolation_program(settings: Settings, name: str, package: str) -> DoctorCheck:
    found = shutil.which(name, path=settings.search_path)
    fix = f"on Debian: apt-get install {package}"
    return DoctorCheck(
        _SECTION, name, found is not None, found or f"{name} is not on the PATH; `sandbox` needs it", fix=fix
    )


def _probe_user_namespaces() -> DoctorCheck:
    fix = "sysctl user.max_user_namespaces=15000"
    if not Path("/proc/self/ns/user").exists():
        return DoctorCheck(
            _SECTION, "user namespaces", False, "the kernel has none", fix="use a kernel with CONFIG_USER_NS"
        )
    for path, refusing, remedy in (
        ("/proc/sys/user/max_user_namespaces", 0, fix),
        ("/proc/sys/kernel/unprivileged_userns_clone", 0, "sysctl kernel.unprivileged_userns_clone=1"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 1, "an AppArmor profile for bwrap"),
    ):
        if _read_number(path) == refusing and (os.geteuid() != 0 or path.endswith("max_user_namespaces")):
            return DoctorCheck(_SECTION, "user namespaces", False, f"{path} is {refusing}", fix=remedy)
    return DoctorCheck(_SECTION, "user namespaces", True, "allowed, as far as the kernel's settings say", fix=fix)
