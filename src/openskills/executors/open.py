"""Open an executor by its name. Only the chosen executor is imported."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from openskills.arguments import check_arguments, find_plugin, import_factory
from openskills.concurrency import AsyncCloseable, CrossLoopLock
from openskills.errors import ExecutorUnavailable, InvalidArgument, MissingExtra, SkillError
from openskills.executors.protocol import Executor, Workspace
from openskills.executors.records.quota import Quota
from openskills.executors.spec import Isolation, SkillSnapshot
from openskills.settings import Settings

_BACKENDS = {
    "sandbox": (
        "openskills.executors.bubblewrap.backend:SandboxBackend",
        "bubblewrap: separate mounts, processes, network; unprivileged user; system call filter",
        True,
    ),
    "container": (
        "openskills.executors.container.backend:ContainerBackend",
        "a container for each session, with a Docker-compatible engine",
        True,
    ),
    "landlock": (
        "openskills.executors.landlock:LandlockBackend",
        "Landlock and a system call filter; weaker: shared process table and mounts",
        True,
    ),
    "local": (
        "openskills.executors.local:LocalBackend",
        "no isolation: only a clean environment, limits, and killing of the process tree",
        False,
    ),
}
"""Backends from the strongest isolation to none: class, description, and whether every command is isolated."""
_RAY = "openskills.executors.ray.cluster:open_ray_executor"
_ABOUT_RAY = "the nodes of a Ray cluster, each with one of the executors above"
EXECUTOR_NAMES = ("auto", *_BACKENDS, "ray")
ISOLATING_EXECUTORS = frozenset(name for name, (_, _, isolates) in _BACKENDS.items() if isolates)
"""The executors that isolate every command, or refuse to run it."""
DESCRIPTIONS = {name: about for name, (_, about, _) in _BACKENDS.items()} | {"ray": _ABOUT_RAY}
_ALLOW_LOCAL = "To run commands without any isolation, set OPENSKILL_ALLOW_LOCAL=1 or choose the executor `local`."


def is_ray(name: str) -> bool:
    """Whether this is the name of a Ray cluster."""
    return name == "ray" or name.startswith("ray:")


@check_arguments
def open_executor(name: str, settings: Settings, *, allow_landlock: bool = False, **options: Any) -> Executor:
    """Open the executor with this name: one of `EXECUTOR_NAMES`, the name of an entry point in the group
    `openskills.executors`, or `package.module:factory`. The latter two are called with `settings` and `options`.

    `auto` is `sandbox` if its self-test passes, otherwise `container` if an engine answers, otherwise `local` if
    the settings allow it. `ray` is the cluster of RAY_ADDRESS or of this machine, `ray://host:port` and `ray:host:port`
    another one; `options` are fields of `RayOptions`. `allow_landlock` lets `auto` and `sandbox` fall back to Landlock
    where bubblewrap does not work. These are the only fallbacks. Raises `InvalidArgument` for an unknown name.
    """
    if is_ray(name):
        address = name if name.startswith("ray://") else name[4:] or None
        return cast("Executor", import_factory(_RAY, "executor")(settings, address, **options))
    if ":" in name:
        return cast("Executor", import_factory(name, "executor")(settings, **options))
    if name not in EXECUTOR_NAMES:
        if (plugin := find_plugin("openskills.executors", name, "executor")) is not None:
            return cast("Executor", plugin(settings, **options))
        near = get_close_matches(name, EXECUTOR_NAMES)
        hint = f"did you mean {' or '.join(near)}?" if near else f"use one of {', '.join(EXECUTOR_NAMES)}"
        raise InvalidArgument("executor", f"unknown executor {name!r}; {hint}")
    names = ["sandbox", "container"] if name == "auto" else [name]
    if allow_landlock and names[0] == "sandbox":
        names.append("landlock")
    if name == "auto" and settings.allow_local:
        names.append("local")
    makers = [lambda one=one: _open_builtin(one, settings, options if one == names[0] else {}) for one in names]
    return makers[0]() if name != "auto" and len(makers) == 1 else FallbackExecutor(makers, name)


def _open_builtin(name: str, settings: Settings, options: dict[str, Any]) -> Executor:
    backend = import_factory(_BACKENDS[name][0], "executor")
    if name == "sandbox":
        places = {"search_path": settings.search_path, "workspaces": settings.state_dir / "workspaces"}
        options = {**places, "kept": settings.sandbox_kept, **options}
    if name == "container":
        given = {"image": settings.container_image, "engine": settings.docker_host}
        chosen = {field: value for field, value in given.items() if value is not None}
        options = {
            "options": import_factory("openskills.executors.container.spec:ContainerOptions", "executor")(**chosen),
            **options,
        }
    else:
        options = {"python": settings.python, **options}
    open_directory = import_factory("openskills.executors.workspace:DirectoryExecutor", "executor")
    quota = Quota(max_bytes=settings.workspace_bytes, max_files=settings.workspace_files)
    uids, ttl = settings.sandbox_uids, settings.workspace_ttl
    return cast("Executor", open_directory(backend(**options), settings.state_dir, quota=quota, uids=uids, ttl=ttl))


class FallbackExecutor(AsyncCloseable):
    """The first of several executors whose check passes, chosen at first use; implements `Executor`.

    While none works, every use raises the first executor's `ExecutorUnavailable`, and the next use tries again.
    """

    def __init__(self, makers: Sequence[Callable[[], Executor]], name: str) -> None:
        self._factories = makers
        self._name = name
        self._chosen: Executor | None = None
        self._lock = CrossLoopLock()

    @property
    def name(self) -> str:
        """The name in settings; after the first use, that of the chosen executor."""
        return self._chosen.name if self._chosen else self._name

    async def check(self) -> Isolation:
        return await (await self._choose()).check()

    async def snapshot(self, name: str, directory: Path) -> SkillSnapshot:
        return await (await self._choose()).snapshot(name, directory)

    async def open(self, key: str) -> Workspace:
        return await (await self._choose()).open(key)

    async def remove(self, key: str) -> bool:
        return await (await self._choose()).remove(key)

    async def close(self) -> None:
        if self._chosen is not None:
            await self._chosen.close()

    async def _choose(self) -> Executor:
        async with self._lock:
            failures: list[SkillError] = []
            for make in self._factories if self._chosen is None else ():
                candidate = make()
                try:
                    await candidate.check()
                except (ExecutorUnavailable, MissingExtra) as failure:
                    failures.append(failure)
                    await candidate.close()
                else:
                    self._chosen = candidate
                    break
            if self._chosen is not None:
                return self._chosen
            if self._name == "auto":
                others = "".join(f" {failure.message.rstrip('.')}." for failure in failures[1:])
                raise ExecutorUnavailable(f"{failures[0].message.rstrip('.')}.{others} {_ALLOW_LOCAL}")
            raise failures[0]
