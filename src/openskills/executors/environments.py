"""Package environments: Python and npm packages that are installed once and shared read-only by all workspaces.

An environment is a directory below `environments/` of the state directory. It belongs to one interpreter and to the
versions that were resolved; requests that lead to the same versions share it. It is built in a sandbox that reaches
only the package index and ends with the build, so that code of source distributions runs nowhere else.
"""

import asyncio
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast
from weakref import WeakValueDictionary

from openskills.concurrency import run_in_thread, shield_until_done
from openskills.errors import DeadlineExceeded, ExecutorUnavailable, ForbiddenPath, InvalidArgument, InvalidSkill
from openskills.executors.files.descriptors import auto_close, delete_tree, open_beneath
from openskills.executors.open import open_executor
from openskills.executors.package_index import PackageIndex, hide_credentials, read_package_index
from openskills.executors.protocol import Interpreter, PackageProvider, Process, Workspace
from openskills.executors.spec import (
    ENVIRONMENTS,
    GIB,
    Command,
    CommandResult,
    EndReason,
    Isolation,
    Limits,
    PackageEnvironment,
)
from openskills.executors.staging.packages import PackageSet
from openskills.executors.workspace import DirectoryExecutor
from openskills.filesystem import make_private, replace_directory, replace_file, scratch_directory
from openskills.settings import Settings

Progress = Callable[[str], None]
"""Called with a short line about each step of a build, such as `downloading pillow (6.7MiB)`."""

LIMITS = Limits(timeout=900.0, memory_bytes=4 * GIB, total_memory_bytes=8 * GIB, file_bytes=8 * GIB, processes=256)
"""The limits of each command of a build."""

_MIN_BYTES, _MIN_FILES = 8 * GIB, 500_000
_REQUESTS, _FILES, _ABOUT = "requests", "files", "about.json"
_PYTHON_DIRECTORY, _NODE_DIRECTORY = "python", "node"
_BUILD = "work/environment"
_TOUCH_INTERVAL = 60 * 60.0
_RUN = 'mkdir -p "$1" && export TMPDIR="$1" && shift && exec "$@"'
_PROBE = """
import json, os, platform, sys
libc = platform.libc_ver()
print(json.dumps({"version": ".".join(map(str, sys.version_info[:3])), "machine": platform.machine(),
                  "libc": libc[1] if libc[0] == "glibc" else "", "path": sys.executable,
                  "real": os.path.realpath(sys.executable)}))
"""
_FINISH = r"""
import os, sys
site, target, version = sys.argv[1:]
home = os.path.join(target, "bin")
os.makedirs(home)
os.makedirs(os.path.join(target, "lib", "python" + ".".join(version.split(".")[:2])))
for name in os.listdir(os.path.join(site, "bin")) if os.path.isdir(os.path.join(site, "bin")) else ():
    path = os.path.join(home, name)
    os.rename(os.path.join(site, "bin", name), path)
    with open(path, "rb") as file:
        first, rest = file.readline(), file.read()
    if first.startswith(b"#!") and b"python" in first:
        with open(path, "wb") as file:
            file.write(b"#!/usr/bin/env python3\n" + rest)
os.rename(site, os.path.join(target, "lib", "python" + ".".join(version.split(".")[:2]), "site-packages"))
real = os.environ["OPENSKILL_REAL_PYTHON"]
os.symlink(real, os.path.join(home, "python3"))
os.symlink("python3", os.path.join(home, "python"))
with open(os.path.join(target, "pyvenv.cfg"), "w") as file:
    file.write("home = %s\ninclude-system-site-packages = true\nversion = %s\n" % (os.path.dirname(real), version))
"""
_PROGRESS = re.compile(
    r"^\s*(?:\+ |(?:Collecting|Downloading|Building|Using cached|Processing|Installing|Resolved|Prepared|Installed)\b)"
)
_LAST_LINES = 12
_MAX_STAMPS = 1000
_MISSING = (
    re.compile(r"No matching distribution found for ([^\s;]+)"),
    re.compile(r"Because ([\w.-]+) was not found in the"),
    re.compile(r"404 Not Found - GET \S+/([^/\s]+)"),
)
_NO_WHEEL = re.compile(r"Wheels are required for `([\w.-]+)`")
_NOT_BUILT = re.compile(r"Failed (?:to build|building wheel for) [`']?([\w.-]+)")


@dataclass(frozen=True, slots=True)
class StoredEnvironment:
    """An environment on disk. `packages` are the installed versions, `requested` what they were installed for."""

    id: str
    directory: Path
    interpreter: str
    packages: tuple[str, ...]
    requested: tuple[str, ...] = ()
    size: int = 0
    used_at: float = 0.0

    def to_dict(self) -> dict[str, object]:
        """The environment as JSON."""
        return {
            "id": self.id,
            "requested": list(self.requested),
            "packages": list(self.packages),
            "interpreter": self.interpreter,
            "size_bytes": self.size,
            "idle_seconds": round(time.time() - self.used_at, 3),
        }

    def to_packages(self) -> PackageEnvironment:
        """The environment as a part of a command."""
        files = self.directory / _FILES
        python, node = files / _PYTHON_DIRECTORY, files / _NODE_DIRECTORY / "node_modules"
        path, variables = list[str](), list[tuple[str, str]]()
        if python.is_dir():
            path.append(str(python / "bin"))
            variables.append(("VIRTUAL_ENV", str(python)))
        if node.is_dir():
            path.append(str(node / ".bin"))
            variables.append(("NODE_PATH", str(node)))
        modules = str(node) if node.is_dir() else None
        return PackageEnvironment((str(files),), tuple(path), tuple(variables), modules)


class EnvironmentStore:
    """The environments below a directory. Blocking; processes can share the directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def find(self, key: str) -> StoredEnvironment | None:
        """The environment that was built for this key of a request."""
        try:
            id_ = (self._root / _REQUESTS / key).read_text("ascii")
            found = self._read(id_)
        except (FileNotFoundError, UnicodeDecodeError):
            return None
        if found is not None and time.time() - found.used_at > _TOUCH_INTERVAL:
            with suppress(FileNotFoundError):
                os.utime(found.directory)
        return found

    def add(self, key: str, workspace: Path, path: str, about: Mapping[str, Any], *, shared: bool) -> StoredEnvironment:
        """Move a finished build from a workspace to the store, and record it for the key.

        `shared`: no code of a package has run in the workspace, so requests with equal files share one environment.
        Raises `InvalidSkill` if code of a package has replaced the directory, or made it too deep.
        """
        # As root, commands run as other users. They can traverse it, if they can reach it, and not list it.
        make_private(self._root).chmod(0o711)
        with scratch_directory(self._root) as scratch:
            try:
                _take_directory(workspace, path, scratch / _FILES)
                size = adopt_tree(scratch / _FILES)
                content = _compute_content_digest(scratch / _FILES) if shared else key
                id_ = _hash_text(json.dumps([about["interpreter"], sorted(about["packages"]), content]))
                with replace_directory(self._root / id_) as temporary:
                    (scratch / _FILES).rename(temporary / _FILES)
                    (temporary / _ABOUT).write_text(json.dumps({**about, "size": size}))
                    temporary.chmod(0o755)
            except RecursionError:
                raise InvalidSkill("a package has too deeply nested directories") from None
            finally:
                # Also of any depth, which `shutil.rmtree` cannot.
                with suppress(NotADirectoryError):
                    delete_tree(scratch / _FILES)
        replace_file(make_private(self._root / _REQUESTS) / key, id_.encode())
        found = self._read(id_)
        if found is None:
            raise ExecutorUnavailable("the environment was removed while it was being added; try again")
        return found

    def list(self) -> list[StoredEnvironment]:
        """All environments, the one that was used last first."""
        names = [entry.name for entry in self._root.iterdir()] if self._root.is_dir() else []
        found = [one for name in names if re.fullmatch(r"[0-9a-f]{32}", name) and (one := self._read(name))]
        return sorted(found, key=lambda one: -one.used_at)

    def remove(self, id_: str) -> None:
        """Remove an environment. Commands that run keep their mounts, but files that they open later are gone."""
        aside = self._root / f".removed-{secrets.token_hex(8)}"
        with suppress(FileNotFoundError):
            (self._root / id_).rename(aside)
            shutil.rmtree(aside)

    def _read(self, id_: str) -> StoredEnvironment | None:
        directory = self._root / id_
        try:
            about = cast("dict[str, Any]", json.loads((directory / _ABOUT).read_bytes()))
            used = directory.stat().st_mtime
        except (FileNotFoundError, ValueError):
            return None
        requested = tuple(about.get("requested", ()))
        return StoredEnvironment(
            id_, directory, about["interpreter"], tuple(about["packages"]), requested, about.get("size", 0), used
        )


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _take_directory(workspace: Path, path: str, target: Path) -> None:
    """Move a directory out of a workspace, in which commands may have replaced any part of the path by a link."""
    parent, name = os.path.split(path)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with (
            auto_close(os.open(workspace, flags)) as root,
            auto_close(open_beneath(root, parent, flags, links=False)) as directory,
            # Fails if it is not a directory.
            auto_close(os.open(name, flags, dir_fd=directory)),
        ):
            os.rename(name, target, src_dir_fd=directory)
    except (ForbiddenPath, FileNotFoundError, NotADirectoryError):
        raise InvalidSkill("a package replaced the directory into which it was to be installed") from None


def _compute_content_digest(directory: Path) -> str:
    """A digest of all files but compiled ones, which are made from them."""
    digest = hashlib.sha256()
    for base, folders, files in os.walk(directory):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(base, name)
            digest.update(json.dumps(os.path.relpath(path, directory)).encode())
            if os.path.islink(path):
                digest.update(os.fsencode(os.readlink(path)))
            elif not name.endswith(".pyc"):
                with open(path, "rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def adopt_tree(directory: Path) -> int:
    """Make a tree that commands wrote ours, readable for everyone and writable for nobody else; returns its bytes.

    Special files are removed, and set-id bits cleared. Nothing writes to it any more. Blocking.
    """
    size = 0
    owner = (0, 0) if os.geteuid() == 0 else (-1, -1)
    for base, folders, files, descriptor in os.fwalk(directory):
        os.fchmod(descriptor, 0o755)
        os.fchown(descriptor, *owner)
        for name in (*files, *(one for one in folders if os.path.islink(os.path.join(base, one)))):
            status = os.lstat(name, dir_fd=descriptor)
            size += status.st_size
            if stat.S_ISREG(status.st_mode):
                os.chmod(name, 0o755 if status.st_mode & 0o100 else 0o644, dir_fd=descriptor)
            elif not stat.S_ISLNK(status.st_mode):
                os.unlink(name, dir_fd=descriptor)
                continue
            os.chown(name, *owner, dir_fd=descriptor, follow_symlinks=False)
    return size


class PackageBuilder:
    """Provides environments for the workspaces of this machine, and builds them when they are missing.

    `index` is where packages come from; None means the settings of pip, uv and npm. Raises `InvalidArgument` if those
    are invalid.
    """

    def __init__(self, settings: Settings, index: PackageIndex | None = None) -> None:
        self._settings = settings
        self._index = index or read_package_index(settings.environment, settings.home, settings.package_hosts)
        self._store = EnvironmentStore(settings.state_dir / ENVIRONMENTS)

    async def find(self, packages: PackageSet, workspace: Workspace) -> StoredEnvironment | None:
        """The environment with these packages for the commands of a workspace, if it was built already."""
        key = self._compute_key(packages, workspace)
        return await run_in_thread(lambda: self._store.find(key))

    async def install(
        self, packages: PackageSet, workspace: Workspace, *, progress: Progress | None = None
    ) -> StoredEnvironment:
        """Build the environment with these packages; calls for the same packages wait for one build.

        Raises `InvalidSkill` in a few lines with a remedy if the packages cannot be installed, `DeadlineExceeded` if
        that takes too long, and `ExecutorUnavailable` if this machine or workspace cannot do it.
        """
        key = self._compute_key(packages, workspace)
        # One build for this process; two processes build twice, and the first result stays.
        async with _building.setdefault((id(asyncio.get_running_loop()), key), asyncio.Lock()):
            if (found := await self.find(packages, workspace)) is not None:
                return found
            target = await _probe_python(workspace) if workspace.isolation is Isolation.CONTAINER else None
            executor = await self._open_executor(workspace)
            try:
                build = _Build(self._settings, executor, self._index, packages, progress or (lambda _: None))
                return await build.run(self._store, key, workspace, target)
            finally:
                await shield_until_done(executor.close())

    def _compute_key(self, packages: PackageSet, workspace: Workspace) -> str:
        if workspace.interpreter is None:
            raise ExecutorUnavailable("this executor cannot use packages of this machine; install them where it runs")
        index = self._index
        where = [hide_credentials(url) for url in (*index.urls, *index.find_links, index.npm_registry)]
        wheels = [_stamp_directory(place) for place in index.find_links if "://" not in place]
        parts = [workspace.interpreter, packages.digest, where, index.no_index, index.best_match, wheels]
        return _hash_text(json.dumps(parts))

    async def _open_executor(self, workspace: Workspace) -> DirectoryExecutor:
        settings = replace(
            self._settings,
            workspace_bytes=max(self._settings.workspace_bytes, _MIN_BYTES),
            workspace_files=max(self._settings.workspace_files, _MIN_FILES),
            sandbox_kept=0.0,
        )
        executor = cast("DirectoryExecutor", open_executor("sandbox", settings))
        try:
            await executor.check()
        except ExecutorUnavailable as error:
            await executor.close()
            if workspace.isolation is not Isolation.NONE:
                advice = "install them into a virtual environment yourself, and pass it with --venv"
                raise ExecutorUnavailable(
                    f"packages are installed in a sandbox: {error.message} Or {advice}."
                ) from None
            executor = cast("DirectoryExecutor", open_executor("local", settings))
        return executor


_building: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()


@dataclass(slots=True)
class _Build:
    """One build, in a workspace of its own."""

    settings: Settings
    executor: DirectoryExecutor
    index: PackageIndex
    packages: PackageSet
    progress: Progress
    has_run_code: bool = False

    async def run(
        self, store: EnvironmentStore, key: str, user: Workspace, target: dict[str, str] | None
    ) -> StoredEnvironment:
        """Install everything, and move it to the store. `user` is the workspace that needs it."""
        name = f"environment-{secrets.token_hex(8)}"
        try:
            workspace = await self.executor.open(name)
            await workspace.make_directory(_BUILD)
            if self.packages.python:
                await self._install_python(workspace, target)
            if self.packages.npm:
                await self._install_npm(workspace)
            about = {
                "interpreter": user.interpreter,
                "packages": await _list_packages(workspace),
                "requested": [*self.packages.python, *(f"npm:{one}" for one in self.packages.npm)],
            }
            # Everything that ran in it has ended before the files are taken out.
            await shield_until_done(workspace.close())
            directory, shared = self.executor.find_directory(name), not self.has_run_code
            return await run_in_thread(lambda: store.add(key, directory, _BUILD, about, shared=shared))
        finally:
            await shield_until_done(self.executor.remove(name))

    async def _install_python(self, workspace: Workspace, target: dict[str, str] | None) -> None:
        python = target or await _probe_python(workspace)
        wanted = self.packages.requires_python
        if wanted is not None and not is_version_in(python["version"], wanted):
            raise InvalidSkill(
                f"the script requires Python {wanted}, but commands use {python['version']}; set OPENSKILL_PYTHON to a "
                "suitable interpreter"
            )
        await workspace.write("work/requirements.txt", "\n".join(self.packages.python).encode() + b"\n")
        constraints = "\n".join(self.packages.constraints)
        if constraints:
            await workspace.write("work/constraints.txt", constraints.encode() + b"\n")
        site = f"{workspace.root}/work/site"
        files = ("--target", site, "-r", "work/requirements.txt")
        files += ("-c", "work/constraints.txt") if constraints else ()
        # uv has no variable for it.
        files += ("--no-index",) if self.index.no_index else ()
        mounts = list(self.index.mounts)
        uv = _find_uv(self.settings.search_path)
        if uv is not None:
            mounts.append(uv)
            own = "python3" if target else python["path"]
            foreign = ("--python-version", python["version"], "--python-platform", _name_platform(python))
            how = foreign if target else ("--compile-bytecode",)
            argv = (uv, "pip", "install", "--python", own, "--link-mode", "copy", *files, *how)
        else:
            quiet = ("--no-cache-dir", "--progress-bar=off", "--no-warn-script-location", "--root-user-action=ignore")
            argv = (python["path"], "-m", "pip", "install", *quiet, *files)
            if target or self.index.has_credentials:
                # pip builds packages from addresses even if only wheels are allowed.
                what = "for a container" if target else "from an index with a password"
                raise ExecutorUnavailable(f"installing packages {what} needs uv; pip install uv")
        network = await self.index.resolve_network(npm=False)
        # Wheels first: installing them runs no code of a package.
        ended = await self._execute(workspace, (*argv, "--only-binary", ":all:"), network, tuple(mounts))
        # Building a package runs its code, which could read the credentials of the index.
        if ended.exit_code and ended.ending is EndReason.EXITED and not (target or self.index.has_credentials):
            self.has_run_code = True
            ended = await self._execute(workspace, argv, network, tuple(mounts))
        self._check(ended, argv)
        # A virtual environment: it is found by the interpreter's path, also by programs that clear their variables.
        finish = ("python3", "-c", _FINISH, site, f"{workspace.root}/{_BUILD}/{_PYTHON_DIRECTORY}", python["version"])
        process = await workspace.start(Command(finish, env={"OPENSKILL_REAL_PYTHON": python["real"]}, limits=LIMITS))
        self._check(await process.wait(), finish)

    async def _install_npm(self, workspace: Workspace) -> None:
        into = f"{workspace.root}/{_BUILD}/{_NODE_DIRECTORY}"
        await workspace.write(f"{_BUILD}/{_NODE_DIRECTORY}/package.json", b'{"private": true}\n')
        # Written after everything that runs code of packages has ended; npm itself runs none.
        await workspace.write("work/npmrc", "\n".join(self.index.npm_settings).encode() + b"\n")
        flags = ("--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev", "--no-update-notifier", "--loglevel=http")
        argv = ("npm", "install", "--prefix", into, *flags, "--", *self.packages.npm)
        network = await self.index.resolve_network(npm=True)
        self._check(await self._execute(workspace, argv, network, self.index.mounts, npm=True), argv)

    async def _execute(
        self,
        workspace: Workspace,
        argv: tuple[str, ...],
        network: tuple[str, ...],
        mounts: tuple[str, ...],
        *,
        npm: bool = False,
    ) -> CommandResult:
        certificates = None
        if self.index.certificates is not None:
            data = await run_in_thread(self.index.certificates.read_bytes)
            await workspace.write("work/certificates.pem", data)
            certificates = f"{workspace.root}/work/certificates.pem"
        variables = self.index.build_variables(certificates=certificates, npm=npm)
        cache = f"{workspace.root}/work/cache"
        variables |= {"UV_CACHE_DIR": cache, "NPM_CONFIG_CACHE": cache, "UV_PYTHON_DOWNLOADS": "never"}
        variables |= {"NPM_CONFIG_USERCONFIG": f"{workspace.root}/work/npmrc"}
        # Unpacked packages can be larger than the temporary directory of a sandbox.
        shell = ("sh", "-c", _RUN, "sh", f"{workspace.root}/work/tmp")
        command = Command(
            (*shell, *argv),
            secrets=variables,
            limits=LIMITS,
            network=network,
            readable=True,
            packages=PackageEnvironment(mounts),
        )
        process = await workspace.start(command)
        try:
            return await self._follow(process)
        except BaseException:
            # Cancelled: it must not keep running.
            await process.kill()
            raise

    async def _follow(self, process: Process) -> CommandResult:
        """Wait for the end, and report progress."""
        offset, rest = 0, ""
        while True:
            output = await process.read(offset, wait=60.0)
            offset = output.next_offset
            *lines, rest = (rest + output.data.decode("utf-8", "replace")).split("\n")
            for line in lines:
                if _PROGRESS.match(line):
                    self.progress(" ".join(line.replace("+", "installed", 1).split())[:120])
            if output.ended:
                return await process.wait()

    def _check(self, ended: CommandResult, argv: Sequence[str]) -> None:
        if ended.ending is EndReason.TIMED_OUT:
            raise DeadlineExceeded(f"installing {self.packages} took longer than {LIMITS.timeout:g} seconds")
        if ended.exit_code:
            program = os.path.basename(argv[0]) if "pip" not in argv[:3] else "pip"
            reason = explain_failure(ended, program, credentials=self.index.has_credentials)
            raise InvalidSkill(f"cannot install {self.packages}: {reason}")


def explain_failure(ended: CommandResult, program: str, *, credentials: bool = False) -> str:
    """A few lines about a failed installation, with a remedy."""
    log = f"{ended.stdout.text()}\n{ended.stderr.text()}"
    refused = [note for note in ended.notes if "allow" in note]
    missing = next((match[1] for pattern in _MISSING if (match := pattern.search(log))), None)
    if ended.exit_code == 127 and f"{program}: not found" in log:
        return f"{program} is missing; install it (on Debian: apt-get install {program})"
    if "No module named pip" in log:
        return "this Python has no pip; install uv where OpenSkill runs (pip install uv)"
    if refused:
        return f"{refused[0]}; set OPENSKILL_PACKAGE_HOSTS if the index needs more hosts"
    no_wheel = _NO_WHEEL.search(log)
    if no_wheel:
        why = "while the index needs a password" if credentials else "for containers"
        return f"{no_wheel[1]} has no wheel, and source distributions are not built {why}"
    if missing is not None:
        return f"the index has no package {missing!r} for this Python; check the name and version"
    lines = [line for line in log.splitlines() if line.strip()][-_LAST_LINES:]
    remedy = "it has no wheel for this Python and could not be compiled; use another version, or --venv"
    built = _NOT_BUILT.search(log)
    return "\n".join([f"{built[1]}: {remedy}" if built else ended.detail or f"{program} failed", *lines])


def _stamp_directory(place: str) -> list[tuple[str, int, int]]:
    """The names, sizes and times of the files in a directory of wheels."""
    try:
        entries = sorted(os.scandir(place), key=lambda entry: entry.name)[:_MAX_STAMPS]
        return [(entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in entries]
    except OSError:
        return []


async def _probe_python(workspace: Workspace) -> dict[str, str]:
    process = await workspace.start(Command(("python3", "-c", _PROBE)))
    ended = await process.wait()
    if ended.exit_code:
        raise ExecutorUnavailable(f"python3 does not work where commands run: {ended.stderr.text().strip()[-300:]}")
    return cast("dict[str, str]", json.loads(ended.stdout.text()))


async def _list_packages(workspace: Workspace) -> list[str]:
    """The installed packages with their versions."""
    found: list[str] = []
    infos = await workspace.list([f"{_BUILD}/{_PYTHON_DIRECTORY}/lib/python*/site-packages/*.dist-info/METADATA"])
    for info in infos.files:
        name, _, version = info.path.split("/")[-2].removesuffix(".dist-info").rpartition("-")
        found.append(f"{name.replace('_', '-').lower()}=={version}")
    lock = f"{_BUILD}/{_NODE_DIRECTORY}/node_modules/.package-lock.json"
    if (await workspace.list([lock])).files:
        async with workspace.open(lock) as reading:
            table = cast("dict[str, Any]", json.loads(b"".join([chunk async for chunk in reading.chunks])))
        for path, one in cast("dict[str, dict[str, Any]]", table.get("packages", {})).items():
            found.append(f"npm:{path.removeprefix('node_modules/')}@{one.get('version', '')}")
    return sorted(found)


def _find_uv(search_path: str) -> str | None:
    """The path of uv on this machine: beside this interpreter, or on the search path."""
    places = [str(Path(sys.executable).parent), *(place for place in search_path.split(":") if os.path.isabs(place))]
    found = shutil.which("uv", path=":".join(places))
    return os.path.realpath(found) if found else None


def _name_platform(python: Mapping[str, str]) -> str:
    libc = python["libc"].replace(".", "_")
    return f"{python['machine']}-manylinux_{libc}" if libc else f"{python['machine']}-unknown-linux-musl"


_SPECIFIER = re.compile(r"(>=|<=|==|!=|~=|>|<)\s*([0-9]+(?:\.[0-9]+)*)(\.\*)?")


def is_version_in(version: str, specifiers: str) -> bool:
    """Whether a version of Python satisfies `>=3.11,<4`; unknown operators count as satisfied."""
    have = tuple(map(int, version.split(".")))
    for part in specifiers.split(","):
        match = _SPECIFIER.fullmatch(part.strip())
        if match is None:
            continue
        operator, text, _ = match.groups()
        wanted = tuple(map(int, text.split(".")))
        short = have[: len(wanted)]
        fits = {
            ">=": have >= wanted,
            "<=": short <= wanted,
            ">": short > wanted,
            "<": short < wanted,
            "==": short == wanted,
            "!=": short != wanted,
            "~=": have >= wanted and have[: len(wanted) - 1] == wanted[:-1],
        }
        if not fits[operator]:
            return False
    return True


async def find_packages(
    packages: PackageSet, workspace: Workspace, settings: Settings, index: PackageIndex | None = None
) -> PackageEnvironment | None:
    """The environment with these packages where the commands of a workspace run, if it was built already."""
    if not packages:
        return None
    if isinstance(workspace, PackageProvider):
        return await workspace.find_packages(packages, index)
    found = await PackageBuilder(settings, index).find(packages, workspace)
    return None if found is None else found.to_packages()


async def install_packages(
    packages: PackageSet,
    workspace: Workspace,
    settings: Settings,
    index: PackageIndex | None = None,
    *,
    progress: Progress | None = None,
) -> PackageEnvironment:
    """Build the environment with these packages where the commands of a workspace run.

    Raises like `PackageBuilder.install`.
    """
    if isinstance(workspace, PackageProvider):
        return await workspace.install_packages(packages, index, progress=progress)
    return (await PackageBuilder(settings, index).install(packages, workspace, progress=progress)).to_packages()


def find_venv(
    chosen: Path | None, own: Path, workspace: Workspace, settings: Settings
) -> tuple[PackageEnvironment | None, tuple[str, ...]]:
    """The virtual environment for a skill's commands: the chosen one, or the skill's `own` if it works; and warnings.

    The base interpreter of a chosen environment becomes visible, too. That of a skill's own must be visible already:
    otherwise a link in a skill could make any directory visible. Raises `InvalidArgument` for an invalid choice.
    """
    is_container = workspace.isolation is Isolation.CONTAINER
    if isinstance(workspace, PackageProvider):
        if chosen is not None:
            raise InvalidArgument("venv", "not supported where commands run on other machines; name packages instead")
        note = f"its {own.name} is not used, because commands run on another machine; declare its packages"
        return None, (note,) if (own / "pyvenv.cfg").is_file() else ()
    if chosen is not None:
        if is_container:
            raise InvalidArgument("venv", "not supported in containers; add the packages to the image")
        return _environment_from_venv(chosen, Interpreter(chosen / "bin" / "python").directories), ()
    # A link could lead to an environment of another project.
    if is_container or own.is_symlink() or not (own / "pyvenv.cfg").is_file():
        return None, ()
    python = Interpreter.choose(settings.python) or Interpreter.base()
    visible = (*python.directories, Path(sys.base_prefix), Path("/usr"))
    real = Path(os.path.realpath(own / "bin" / "python"))
    if not any(real.is_relative_to(directory) for directory in visible):
        return None, (f"its {own.name} is not used: commands cannot see its interpreter {real}; pass it with --venv",)
    try:
        return _environment_from_venv(own, ()), ()
    except InvalidArgument as error:
        return None, (f"its {own.name} is not used: {error.message}",)


def _environment_from_venv(directory: Path, base: Sequence[Path]) -> PackageEnvironment:
    place = Path(os.path.abspath(directory))
    if not (place / "pyvenv.cfg").is_file() or not os.access(place / "bin" / "python", os.X_OK):
        raise InvalidArgument("venv", f"'{directory}' is not a virtual environment with a working bin/python")
    mounts = [place, *(path for path in base if path not in (place, Path("/usr")))]
    return PackageEnvironment(tuple(map(str, mounts)), (str(place / "bin"),), (("VIRTUAL_ENV", str(place)),))


def join_environments(packages: PackageEnvironment, venv: PackageEnvironment | None) -> PackageEnvironment:
    """Installed packages on top of a virtual environment, whose interpreter is used."""
    if venv is None:
        return packages
    variables = dict(packages.variables)
    own = variables.pop("VIRTUAL_ENV", None)
    sites = [str(site) for site in Path(own).glob("lib/python3*/site-packages")] if own else []
    variables |= {**({"PYTHONPATH": sites[0]} if sites else {}), **dict(venv.variables)}
    return PackageEnvironment(
        (*packages.mounts, *venv.mounts),
        (*venv.path, *packages.path),
        tuple(variables.items()),
        packages.node_modules,
    )
