"""Which files a caller wants in the workspace before a run, where they come from and where they go. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from openskills.artifacts.ref import USER_PREFIX, Ref, parse_ref
from openskills.errors import InvalidArgument
from openskills.executors.files.places import place, writable_place
from openskills.executors.layout import INPUTS, SKILLS, expanded
from openskills.executors.staging.snapshots import checked_skill_name
from openskills.paths import relative

_KEYS = ("from", "to", "mode", "pin")


class Mode(StrEnum):
    """How an input comes into the workspace."""

    COPY = "copy"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input: `artifact://name[@version]`, `host:///path`, `workspace://path` or `skill://name/path`.

    `to` is a path in the workspace; without it, `work/inputs/` and the last part of the source. `pin` keeps to the
    version of an artifact that was found the first time.
    """

    source: str
    to: str | None = None
    mode: Mode = Mode.COPY
    pin: bool = False

    @classmethod
    def parse(cls, value: Mapping[str, object]) -> "InputSpec":
        """From what a model wrote: `from`, `to`, `mode` and `pin`, in any case. Raises `InvalidArgument`."""
        given = {key.lower(): one for key, one in value.items()}
        for key in given:
            if key not in _KEYS:
                raise InvalidArgument("inputs", f"has no {key[:80]!r}; it has {', '.join(_KEYS)}")
        source, to = _text(given, "from"), _text(given, "to")
        if not source:
            raise InvalidArgument("inputs.from", "is missing; write one such as artifact://data.csv")
        pin = given.get("pin") or False
        if not isinstance(pin, bool):
            raise InvalidArgument("inputs.pin", f"is {type(pin).__name__}; write true or false")
        return cls(source, to or None, _mode(_text(given, "mode")), pin)


@dataclass(frozen=True, slots=True)
class Artifact:
    """An input from the artifact store."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class HostPath:
    """An input from this machine, by its absolute path."""

    path: PurePosixPath


@dataclass(frozen=True, slots=True)
class WorkspacePath:
    """An input that is in the workspace already; `skill` names the one that it lies in."""

    path: str
    skill: str | None = None


Source = Artifact | HostPath | WorkspacePath


@dataclass(frozen=True, slots=True)
class Planned:
    """An input whose source and destination have been checked."""

    spec: InputSpec
    source: Source
    to: str


def plan(specs: Sequence[InputSpec], *, run_dir: str | None = None) -> list[Planned]:
    """Where each input comes from and goes to.

    Raises `InvalidArgument` for what is no source, for a link to itself and for two inputs with one destination,
    `ForbiddenPath` for a destination outside of `work/`, `out/` and `runs/`. Nothing has been touched then.
    """
    planned: dict[str, Planned] = {}
    for spec in specs:
        source, base = _source(spec.source, run_dir)
        to = _destination(spec.to, base, run_dir)
        if to in planned:
            raise InvalidArgument(
                "inputs.to", f"{planned[to].spec.source} and {spec.source} both go to {to!r}; give one another place"
            )
        if spec.mode is Mode.LINK and isinstance(source, WorkspacePath) and source.path == to:
            raise InvalidArgument("inputs.to", f"{to!r} cannot be a link to itself")
        planned[to] = Planned(spec, source, to)
    return list(planned.values())


def _source(text: str, run_dir: str | None) -> tuple[Source, str]:
    """A source, and the name that it has there."""
    scheme, found, rest = text.partition("://")
    field = "inputs.from"
    if not found or scheme.lower() not in ("artifact", "host", "workspace", "skill"):
        schemes = "artifact://name, host:///path, workspace://path or skill://name/path"
        raise InvalidArgument(field, f"{text[:200]!r} is no input; write {schemes}")
    match scheme.lower():
        case "artifact":
            ref = parse_ref(f"artifact://{rest}", field=field)
            return Artifact(ref), PurePosixPath(ref.name.removeprefix(USER_PREFIX)).name
        case "host":
            if not rest.startswith("/"):
                raise InvalidArgument(field, f"{text!r} is not absolute; write host:///path with three slashes")
            path = PurePosixPath("/") / relative(rest.lstrip("/"), field=field)
            return HostPath(path), path.name
        case "workspace":
            where = place(expanded(rest, run_dir=run_dir, field=field), field=field)
            return WorkspacePath(where), PurePosixPath(where).name
        case _:
            parts = relative(rest, field=field).parts
            skill = checked_skill_name(parts[0])
            return WorkspacePath(place("/".join((SKILLS, *parts)), field=field), skill), parts[-1]


def _destination(to: str | None, base: str, run_dir: str | None) -> str:
    field = "inputs.to"
    where = expanded(to, run_dir=run_dir, field=field) if to else ""
    if where.strip("/") in ("", ".", "inputs", INPUTS) and not where.startswith("/"):
        where = f"{INPUTS}/{base}"
    elif where.endswith("/"):
        where += base
    return writable_place(where, field=field)


def _text(given: Mapping[str, object], key: str) -> str:
    value = given.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidArgument(f"inputs.{key}", f"is {type(value).__name__}; write text")
    return value.strip() if key == "mode" else value


def _mode(text: str) -> Mode:
    try:
        return Mode(text.lower() or Mode.COPY)
    except ValueError:
        raise InvalidArgument("inputs.mode", f"{text[:40]!r} is no mode; write copy or link") from None
