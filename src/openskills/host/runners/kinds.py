"""The built-in kinds of hosted skills (`type:runtime`): their runners, the form of `entry`, and their own fields."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from urllib.parse import urlsplit

from openskills.host.model import ManifestFault
from openskills.settings import Settings

MODULE_PATTERN = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_IMAGE_PATTERN = re.compile(r"[a-z0-9][\w.:/@-]{0,254}", re.ASCII)


def _is_url(entry: str) -> bool:
    # Imported only if needed. It makes the requests, so it must accept the URL.
    import httpx2

    try:
        httpx2.URL(entry)
        parts = urlsplit(entry)
        known = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except (ValueError, httpx2.InvalidURL):
        return False
    return known and parts.username is None and not parts.fragment and " " not in entry


def _is_callable(entry: str) -> bool:
    module, _, attribute = entry.partition(":")
    return bool(MODULE_PATTERN.fullmatch(module) and MODULE_PATTERN.fullmatch(attribute))


@dataclass(frozen=True, slots=True)
class RunnerKind:
    """A kind of skill. `runner` is the class; it gets the isolation of the host if it is `isolated`, else the settings.

    `entry` describes the field `entry` of a manifest, which `is_entry` checks. `options` are fields for this kind only,
    at the top level of a manifest or below `options`. `isolation` is where its code runs, unless it is `isolated`;
    `executor` means that of the executor.
    """

    runner: str
    entry: str
    options: tuple[str, ...] = ()
    is_entry: Callable[[str], bool] = bool
    isolated: bool = False
    isolation: str = "none"


RUNNER_KINDS: Mapping[str, RunnerKind] = {
    "cli:python": RunnerKind(
        "openskills.host.runners.python:PythonRunner",
        "the path of a script such as ./skills_cli/calculator.py",
        ("args", "python"),
        isolated=True,
    ),
    "cli:exec": RunnerKind(
        "openskills.host.runners.program:ExecRunner",
        "the path of a program such as ./skills_cli/convert",
        ("args",),
        isolated=True,
    ),
    "cli:script": RunnerKind(
        "openskills.host.runners.script:ScriptRunner",
        "the path of a script of a skill such as ./skills/pdf/scripts/fill_form.py",
        ("args",),
        isolation="executor",
    ),
    "http": RunnerKind(
        "openskills.host.runners.http:HttpRunner",
        "a URL such as https://skills.example.org/echo, without a user name or fragment",
        ("method", "headers"),
        _is_url,
        isolation="remote",
    ),
    "docker": RunnerKind(
        "openskills.host.runners.docker:DockerRunner",
        "an image name such as registry.example.org/echo:1.0",
        ("args", "network", "user"),
        lambda entry: _IMAGE_PATTERN.fullmatch(entry) is not None,
        isolation="container",
    ),
    "inproc": RunnerKind(
        "openskills.host.runners.function:FunctionRunner",
        "a callable such as package.module:function",
        is_entry=_is_callable,
    ),
}

ENTRY_POINT_GROUP = "openskills.runners"


def find_installed_kinds() -> tuple[str, ...]:
    """The kinds that installed packages add (see `table.py`). Slow."""
    return tuple(sorted({point.name for point in entry_points(group=ENTRY_POINT_GROUP)}))


_ISOLATIONS = {"sandbox": "bubblewrap", "local": "none"}


def is_cluster(executor: str) -> bool:
    """Whether this executor is a Ray cluster: `ray`, `ray:host:port` or `ray://host:port`."""
    return executor == "ray" or executor.startswith("ray:")


def list_isolations(executor: str, settings: Settings) -> tuple[str, ...]:
    """Where a skill with this `executor` may run on this machine, in order of preference: `sandbox`, `local`.

    If the host's executor is a Ray cluster, it is the sandbox, because processes that stay ready between calls cannot
    be there. Raises `ManifestFault` for another executor.
    """
    name = settings.executor if executor == "auto" else executor
    if name == settings.executor and is_cluster(name):
        return ("sandbox",)
    if name == "auto":
        return ("sandbox", "local") if settings.allow_local else ("sandbox",)
    if name not in _ISOLATIONS:
        known = ", ".join(("auto", *_ISOLATIONS))
        raise ManifestFault("executor", f"unsupported executor {name!r}; use one of {known}, or type: docker")
    return (name,)


def describe_isolation(kind: str, executor: str, settings: Settings) -> str:
    """Where the code of a skill runs: `bubblewrap`, `container`, `remote` (another server), or `none`."""
    known = RUNNER_KINDS.get(kind)
    if known is not None and known.isolation == "executor":
        name = settings.executor if executor == "auto" else executor
        if is_cluster(name):
            name = settings.ray_executor
        # `auto` prefers the sandbox; the result of a call says what it was.
        return _ISOLATIONS.get("sandbox" if name == "auto" else name, name)
    if known is None or not known.isolated:
        return "none" if known is None else known.isolation
    try:
        return " or ".join(_ISOLATIONS[name] for name in list_isolations(executor, settings))
    except ManifestFault:
        return "none"
