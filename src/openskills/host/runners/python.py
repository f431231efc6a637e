"""Calls skills that are Python scripts (`cli:python`): a process for each call, usually forked from a warm interpreter.

Modules of the standard library that a script imports are preloaded in the warm interpreter.
"""

import ast
import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.supervisor import SupervisedProcess
from openskills.executors.warm import is_module_name
from openskills.executors.zygote import (
    ForkServer,
    ForkServerConfig,
    OutputCallback,
    WarmStartUnsupported,
    WorkerPool,
    WorkerResult,
    WorkerTimeout,
    encode_call,
)
from openskills.host.model import Call, HostLimits, ManifestFault, Outcome, Registration, SkillStartMethod
from openskills.host.runners.isolation import (
    IsolationProvider,
    SkillIsolation,
    build_call_environment,
    to_process_limits,
)
from openskills.host.runners.program import STDERR_BYTES, encode_call_input, perform_call, read_arguments, run_cold

_ALWAYS_PRELOADED = ("json", "re")
_SKILLKIT = "openskills.skillkit"
_NEVER_PRELOADED = frozenset(
    {
        # They open windows or pages, change the terminal, or are for developers of Python.
        *("antigravity", "this", "turtle", "turtledemo", "tkinter", "idlelib", "curses", "readline", "rlcompleter"),
        *("test", "lib2to3", "pydoc_data", "__main__", "__future__", "__hello__", "__phello__", "site", "venv"),
    }
)
_MAX_MODULES = 64


def find_preloadable(source: bytes) -> tuple[str, ...]:
    """The modules of the standard library and of `skillkit` that a script imports; none for an invalid script."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    wanted = (name for name in find_imports(tree) if _is_preloadable(name))
    return tuple(dict.fromkeys((*_ALWAYS_PRELOADED, *wanted)))[:_MAX_MODULES]


def select_preloadable(names: Iterable[str]) -> tuple[str, ...]:
    """The names that can be preloaded; `names` come from a skill and are not trusted."""
    return tuple(name for name in names if is_module_name(name) and _is_preloadable(name))[:_MAX_MODULES]


def find_imports(tree: ast.Module) -> Iterator[str]:
    """The modules that a program imports anywhere, without relative imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _is_preloadable(name: str) -> bool:
    top, *below = name.split(".")
    if "__main__" in below:
        # A program, which runs when it is imported.
        return False
    standard = top in sys.stdlib_module_names and top not in _NEVER_PRELOADED
    return standard or name == _SKILLKIT or name.startswith(f"{_SKILLKIT}.")


_SEARCH_PATH_TIMEOUT = 20.0
_EXCERPT_LENGTH = 300
_MAX_REFRESHES = 3
_MAX_REUSES = 1000
_MAX_SOURCE = 8 * 1024 * 1024


class PythonRunner:
    """Implements `SkillRunner`. `concurrency` is the default limit of concurrent calls per skill."""

    def __init__(self, places: IsolationProvider, *, concurrency: int) -> None:
        self._places = places
        self._concurrency = concurrency
        self._skills: dict[str, _PythonSkill] = {}
        self._newest: dict[str, Registration] = {}
        self._retiring: dict[asyncio.Task[None], _PythonSkill] = {}
        self._paths: dict[tuple[str, str], tuple[str, ...]] = {}

    async def prepare(self, registration: Registration) -> None:
        # Recorded first: a slow start must not replace a newer registration.
        self._newest[registration.id] = registration
        served = await self._get_skill(registration)
        if self._skills.get(registration.id) is served:
            await served.prepare()

    async def invoke(self, registration: Registration, call: Call) -> Outcome:
        served = self._skills.get(registration.id)
        if served is None or served.registration is not registration:
            self._newest.setdefault(registration.id, registration)
            served = await self._get_skill(registration)
        return await served.invoke(call)

    async def forget(self, skill_id: str) -> None:
        self._newest.pop(skill_id, None)
        served = self._skills.pop(skill_id, None)
        if served is not None:
            self._retire(served)

    async def close(self) -> None:
        for skill_id in list(self._skills):
            await self.forget(skill_id)
        retiring = dict(self._retiring)
        await asyncio.gather(*(served.pool.close() for served in retiring.values()), *retiring)

    async def _get_skill(self, registration: Registration) -> "_PythonSkill":
        """What serves this registration: kept if it is the newest, else only for this call."""
        place = await self._places.get(registration)
        python = str(registration.options.get("python") or sys.executable)
        path = self._paths.get((python, place.isolation))
        if path is None:
            path = self._paths[python, place.isolation] = await read_search_path(python, place, registration)
        known = self._skills.get(registration.id)
        if known is not None and known.registration == registration:
            return known
        concurrency = registration.limits.concurrency or self._concurrency
        found = _PythonSkill(registration, place, python, path, concurrency)
        if self._newest.get(registration.id, registration) != registration:
            self._retire(found)
            return found
        self._skills[registration.id] = found
        if known is not None:
            self._retire(known)
        return found

    def _retire(self, served: "_PythonSkill") -> None:
        task = asyncio.get_running_loop().create_task(served.pool.retire())
        self._retiring[task] = served
        task.add_done_callback(self._retiring.pop)


async def read_search_path(python: str, place: SkillIsolation, registration: Registration) -> tuple[str, ...]:
    """The `sys.path` of an interpreter, without the directory of the script.

    It is queried in the isolation of the skill, because a manifest may name any program.
    """
    argv = (python, "-I", "-c", "import json, sys; print(json.dumps(sys.path))")
    asking = replace(registration, limits=HostLimits())
    deadline = asyncio.get_running_loop().time() + _SEARCH_PATH_TIMEOUT
    try:
        done = await run_cold(place, asking, argv, place.environment(asking), b"", deadline)
    except WorkerTimeout:
        raise _interpreter_error(python, f"no answer after {_SEARCH_PATH_TIMEOUT:g} s") from None
    except InvalidArgument as error:
        raise _interpreter_error(python, error.message) from None
    try:
        return tuple(json.loads(done.stdout))
    except ValueError:
        said = done.stderr.decode("utf-8", "replace").strip()[-_EXCERPT_LENGTH:]
        raise _interpreter_error(python, f"exit status {done.returncode}, {said!r}") from None


def _interpreter_error(python: str, because: str) -> ExecutorUnavailable:
    message = f"the interpreter {python} does not work: {because}; install it or correct `python` in the manifest"
    return ExecutorUnavailable(message)


class _PythonSkill:
    """A skill and its worker pool."""

    def __init__(
        self, registration: Registration, place: SkillIsolation, python: str, path: tuple[str, ...], concurrency: int
    ) -> None:
        self.registration = registration
        self._place = place
        self._python = python
        self._path = path
        self._environment = place.environment(registration)
        self._notes: dict[str, Any] = {"isolation": str(place.isolation)}
        self._starts_cold = registration.warm is SkillStartMethod.SPAWN or sys.platform != "linux"
        self.pool = WorkerPool(
            self._start_fork_server,
            max_workers=concurrency,
            limits=to_process_limits(registration.limits),
            dedicated=place.is_exclusive,
        )
        self._learned: tuple[str, ...] = ()
        self._lessons = 0
        self._lacks_root = False

    async def prepare(self) -> None:
        """Start an interpreter; raises `SkillError`."""
        if not os.path.isfile(self.registration.entry):
            raise ManifestFault("entry", f"file not found: {self.registration.entry}; correct it in the manifest")
        if not self._starts_cold:
            try:
                await self.pool.prepare()
            except WarmStartUnsupported as error:
                self._disable_warm_start(error)

    async def invoke(self, call: Call) -> Outcome:
        stdin = encode_call_input(call.input)

        async def work(on_output: OutputCallback | None, on_start: Callable[[], object]) -> WorkerResult:
            call.mark("sandbox")
            if self._lacks_root and not self._is_root_missing():
                # Sandboxes that were started before its directory was created cannot see it.
                self._lacks_root = False
                self.pool.renew()
            if not self._starts_cold:
                try:
                    ended = await self.pool.call(_encode_message(stdin, call), call.deadline, on_output, on_start)
                except WarmStartUnsupported as error:
                    self._disable_warm_start(error)
                else:
                    if ended.imported:
                        self._learn(ended.imported)
                    return ended
            argv = (self._python, self.registration.entry, *read_arguments(self.registration))
            env = {**self._environment, **build_call_environment(call)}
            where = (self._place, self.registration)
            return await run_cold(*where, argv, env, stdin, call.deadline, on_output, on_start)

        return await perform_call(self.registration, call, self._notes, work)

    def _learn(self, imported: Sequence[str]) -> None:
        """Preload what a call had to import."""
        new = tuple(name for name in select_preloadable(imported) if name not in self._learned)
        if new and self._lessons < _MAX_REFRESHES:
            self._lessons += 1
            self._learned += new
            self.pool.refresh()

    def _is_root_missing(self) -> bool:
        root = self.registration.allowed_root
        return root is not None and not root.is_dir()

    def _disable_warm_start(self, error: WarmStartUnsupported) -> None:
        self._starts_cold = True
        self._notes["cold_start"] = str(error)

    async def _start_fork_server(self) -> ForkServer:
        registration = self.registration
        self._lacks_root = self._lacks_root or self._is_root_missing()
        ahead = (*await asyncio.to_thread(_read_preloadable, registration.entry), *self._learned)
        wanted = ForkServerConfig(
            entry=registration.entry,
            args=read_arguments(registration),
            path=(os.path.dirname(os.path.realpath(registration.entry)), *self._path),
            preload=(*ahead, *(name for name in registration.preload if name not in ahead)),
            named=registration.preload,
            stdout=registration.limits.output_bytes,
            stderr=STDERR_BYTES,
            tidy=self._place.is_exclusive,
            reuse=_MAX_REUSES if registration.warm is SkillStartMethod.REUSE else 0,
        )
        return await ForkServer.start(self._launch, self._python, wanted)

    async def _launch(self, argv: Sequence[str], stdin: int, stderr: int) -> SupervisedProcess:
        with open(os.devnull, "r+b", 0) as null:
            stdio = (stdin, null.fileno(), stderr)
            return await self._place.start(self.registration, argv, self._environment, stdio, first=True)


def _read_preloadable(entry: str) -> tuple[str, ...]:
    try:
        with open(entry, "rb") as file:
            return find_preloadable(file.read(_MAX_SOURCE))
    except OSError:
        raise ManifestFault("entry", f"cannot read {entry}; correct it in the manifest") from None


def _encode_message(stdin: bytes, call: Call) -> bytes:
    try:
        return encode_call(stdin, build_call_environment(call), live=call.listener is not None)
    except ValueError as error:
        raise ManifestFault("secrets", f"cannot set the variable {error}: it contains a NUL byte") from None
