"""From the name of an executor to the executor; only what is chosen is imported."""

import importlib
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.across_loops import AcrossLoops
from openskills.executors.protocol import Executor, Workspace
from openskills.executors.records.quota import Quota
from openskills.executors.spec import Isolation, Snapshot
from openskills.settings import Settings

NAMES = ("auto", "sandbox", "container", "landlock", "local")

_BACKENDS = {
    "local": "openskills.executors.local:LocalBackend",
    "sandbox": "openskills.executors.sandbox.backend:SandboxBackend",
    "landlock": "openskills.executors.sandbox.landlock:LandlockBackend",
    "container": "openskills.executors.container.backend:ContainerBackend",
}
_ALLOW_LOCAL = "To run commands without any isolation, set OPENSKILL_ALLOW_LOCAL=1 or choose the executor `local`."


def executor(name: str, settings: Settings, *, allow_landlock: bool = False, **options: Any) -> Executor:
    """The executor of this name: one of `NAMES`, or `package.module:factory`, called with `settings` and `options`.

    `auto` is `sandbox` when its self-test passes, and `local` otherwise if the settings allow that. `allow_landlock`
    lets `auto` and `sandbox` take Landlock where bubblewrap does not work. Nothing else is ever taken instead of what
    was asked for. Raises `InvalidArgument` for a name that means nothing.
    """
    if ":" in name:
        return cast("Executor", _imported(name)(settings, **options))
    if name not in NAMES:
        near = get_close_matches(name, NAMES)
        hint = f"did you mean {' or '.join(near)}?" if near else f"use one of {', '.join(NAMES)}"
        raise InvalidArgument("executor", f"there is none named {name!r}; {hint}")
    names = ["sandbox"] if name == "auto" else [name]
    if allow_landlock and names == ["sandbox"]:
        names.append("landlock")
    if name == "auto" and settings.allow_local:
        names.append("local")
    makers = [lambda one=one: _built_in(one, settings, options if one == names[0] else {}) for one in names]
    return makers[0]() if name != "auto" and len(makers) == 1 else FirstThatWorks(makers, name)


def _built_in(name: str, settings: Settings, options: dict[str, Any]) -> Executor:
    backend = _imported(_BACKENDS[name])
    if name == "sandbox":
        places = {"search_path": settings.search_path, "workspaces": settings.state_dir / "workspaces"}
        options = {**places, "kept": settings.sandbox_kept, **options}
    if name == "container":
        options = {"options": _container_options(settings), **options}
    else:
        options = {"python": settings.python, **options}
    directory = _imported("openskills.executors.directory:DirectoryExecutor")
    quota = Quota(max_bytes=settings.workspace_bytes, max_files=settings.workspace_files)
    made = directory(
        backend(**options), settings.state_dir, quota=quota, uids=settings.sandbox_uids, ttl=settings.workspace_ttl
    )
    return cast("Executor", made)


def _container_options(settings: Settings) -> object:
    given = {"image": settings.container_image, "engine": settings.docker_host}
    chosen = {name: value for name, value in given.items() if value is not None}
    return _imported("openskills.executors.container.spec:ContainerOptions")(**chosen)


def _imported(dotted: str) -> Callable[..., object]:
    module, _, attribute = dotted.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        raise InvalidArgument("executor", f"{dotted!r} cannot be imported: {error}") from error
    if not callable(found):
        raise InvalidArgument("executor", f"{module!r} has nothing named {attribute!r} that can be called")
    return found


class FirstThatWorks:
    """The first of several executors whose check passes, decided when it is first used; implements `Executor`.

    While none works every use raises `ExecutorUnavailable` with what the first one said, and the next use tries again.
    """

    def __init__(self, makers: Sequence[Callable[[], Executor]], name: str) -> None:
        self._makers = makers
        self._name = name
        self._chosen: Executor | None = None
        self._choosing = AcrossLoops()

    @property
    def name(self) -> str:
        """How it is called in settings; after the first use, what was chosen."""
        return self._chosen.name if self._chosen else self._name

    async def check(self) -> Isolation:
        """See `Executor.check`."""
        return await (await self._choice()).check()

    async def snapshot(self, name: str, directory: Path) -> Snapshot:
        """See `Executor.snapshot`."""
        return await (await self._choice()).snapshot(name, directory)

    async def open(self, key: str) -> Workspace:
        """See `Executor.open`."""
        return await (await self._choice()).open(key)

    async def remove(self, key: str) -> bool:
        """See `Executor.remove`."""
        return await (await self._choice()).remove(key)

    async def close(self) -> None:
        """See `Executor.close`."""
        if self._chosen is not None:
            await self._chosen.close()

    async def __aenter__(self) -> "FirstThatWorks":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _choice(self) -> Executor:
        async with self._choosing:
            if self._chosen is None:
                self._chosen = await self._first_that_works()
            return self._chosen

    async def _first_that_works(self) -> Executor:
        failures: list[ExecutorUnavailable] = []
        for make in self._makers:
            candidate = make()
            try:
                await candidate.check()
            except ExecutorUnavailable as failure:
                failures.append(failure)
                await candidate.close()
            else:
                return candidate
        if self._name == "auto":
            raise ExecutorUnavailable(f"{failures[0].message} {_ALLOW_LOCAL}")
        raise failures[0]
