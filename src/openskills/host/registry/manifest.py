"""A manifest to a registration: every field checked, everything that is wrong told at once. Pure.

Paths are taken as they are written; `manifest_paths` looks for them on the disk.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from openskills.host.registration import HostLimits, Registration, Warmth
from openskills.host.registry.document import Document, Node, plain
from openskills.host.registry.fields import VARIABLE, Fields, shown
from openskills.host.registry.schema_fields import schema
from openskills.host.registry.yaml_text import read_document
from openskills.skillmd.problem import Problem, errors_in
from openskills.version import __version__

ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
ID_FORM = "id; use up to 64 of a-z, 0-9, _ and -, and begin with a letter or digit"
KINDS = ("cli:python", "cli:exec", "http", "docker", "inproc")
"""What the host can call without anything installed beside it."""
LONGEST_TIMEOUT_MS = 24 * 60 * 60 * 1000

FIELDS = (
    "id", "type", "runtime", "entry", "version", "description", "timeout_ms", "allowed_root", "writable",
    "input_schema", "output_schema", "env", "secrets", "limits", "executor", "warm", "preload", "options",
)  # fmt: skip
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "cli:python": ("args", "python"),
    "cli:exec": ("args",),
    "http": ("method", "headers"),
    "docker": ("args", "network", "user"),
    "inproc": (),
}
"""The fields that only one kind of runner knows; they may stand at the top or below `options`."""

_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_IMAGE = re.compile(r"[a-z0-9][\w.:/@-]{0,254}", re.ASCII)
LIKE_A_SECRET = re.compile(
    r"(?:^|_)(?:KEY|TOKEN|SECRET|PASS|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)|APIKEY|PASSWORD", re.IGNORECASE
)
"""Names of variables whose values nobody should see."""
_MOST_BYTES = 1024**5


@dataclass(frozen=True, slots=True)
class Defaults:
    """What counts where a manifest is silent.

    `kinds` are those that some runner takes. For one that is not among them `more_kinds` is asked.
    """

    timeout_ms: int = 15_000
    allowed_root: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    kinds: Collection[str] = KINDS
    more_kinds: Callable[[], Collection[str]] = tuple
    description: str = ""
    version: str = __version__
    entry: str = ""
    kind: str = ""
    executor: str = "auto"


@dataclass(frozen=True, slots=True)
class Parsed:
    """What came of a manifest. `registration` is None when there are errors; its paths are as they were written.

    `id` is what the manifest calls itself, or the name of its file. `lines` has the fields that were given, each with
    its line where that is known.
    """

    id: str
    registration: Registration | None
    problems: tuple[Problem, ...]
    lines: Mapping[str, int | None] = field(default_factory=dict[str, int | None])


def parse(data: bytes, *, name: str, is_json: bool, defaults: Defaults) -> Parsed:
    """Read a manifest; `name` is its id where it gives none. Nothing is raised for what somebody has written."""
    document = read_document(data, is_json=is_json)
    if document.problems:
        return Parsed(name, None, document.problems)
    found = Fields(document)
    skill_id = found.matching("id", ID.pattern, ID_FORM, name)
    if skill_id == name and not ID.fullmatch(name):
        found.wrong("id", f"{shown(name)} (the name of the file) is no {ID_FORM}", rule="id-form")
    limits = Fields(document, "limits")
    registration = _registration(found, limits, document, skill_id, defaults)
    problems = (*found.problems, *limits.problems)
    lines = {key: document.places.get((key,), (None,))[0] for key in document.fields}
    return Parsed(skill_id, None if errors_in(problems) else registration, problems, lines)


def _registration(found: Fields, limits: Fields, document: Document, skill_id: str, defaults: Defaults) -> Registration:
    kind = _kind(found, defaults)
    return Registration(
        id=skill_id,
        kind=kind,
        entry=_entry(found, kind, defaults.entry),
        version=found.text("version", defaults.version, longest=128),
        description=found.text("description", defaults.description),
        timeout_ms=found.whole("timeout_ms", defaults.timeout_ms, 1, LONGEST_TIMEOUT_MS),
        allowed_root=_allowed_root(found, defaults),
        writable=found.flag("writable", default=False),
        input_schema=schema(found, "input_schema"),
        output_schema=schema(found, "output_schema"),
        environment=_environment(found, defaults),
        secrets=found.names(
            "secrets", VARIABLE, "name of a variable; only names belong here, never values", secret=True
        ),
        limits=_limits(found, limits),
        executor=found.matching("executor", r"[A-Za-z_][\w.:-]{0,199}", "name of an executor", defaults.executor),
        warm=Warmth(found.word("warm", tuple(Warmth), Warmth.FORK)),
        preload=found.names("preload", _MODULE, "name of a module"),
        options=_options(found, document, kind),
    )


def _kind(found: Fields, defaults: Defaults) -> str:
    """`type:runtime` where both are given, `type` where there is no runtime."""
    if not found.has("type") and not found.has("runtime") and defaults.kind:
        return defaults.kind
    kind, runtime = found.text("type", longest=64), found.text("runtime", longest=64)
    whole = f"{kind}:{runtime}" if runtime else kind
    if whole in defaults.kinds:
        return whole
    kinds = (*defaults.kinds, *defaults.more_kinds())
    if runtime and whole not in kinds and kind in kinds:
        found.warn("runtime", f"is ignored: skills of type {kind} have none", rule="field-unused")
        return kind
    if whole not in kinds:
        _unknown_kind(found, kind, kinds)
    return whole


def _unknown_kind(found: Fields, kind: str, kinds: Collection[str]) -> None:
    types = tuple(dict.fromkeys(known.partition(":")[0] for known in kinds))
    runtimes = [known.partition(":")[2] for known in kinds if known.startswith(f"{kind}:")]
    if not found.has("type"):
        found.wrong("type", f"is missing; write one of {', '.join(types)}", rule="field-missing")
    elif kind not in types:
        found.word("type", types, "")
    elif found.has("runtime"):
        found.word("runtime", runtimes, "")
    else:
        found.wrong("runtime", f"is missing; write one of {', '.join(runtimes)}", rule="field-missing")


def _entry(found: Fields, kind: str, default: str) -> str:
    entry = found.text("entry", default)
    if not entry:
        found.wrong(
            "entry", f"is missing; write {_ENTRIES.get(kind, 'what the runner is to call')}", rule="field-missing"
        )
    elif not entry.isprintable():
        found.wrong("entry", f"{shown(entry)} has characters that cannot be seen", rule="entry-form")
    elif not _fits(kind, entry):
        found.wrong("entry", f"{shown(entry)} is not {_ENTRIES[kind]}", rule="entry-form")
    return entry


_ENTRIES = {
    "cli:python": "the path of a script such as ./skills_cli/calculator.py",
    "cli:exec": "the path of a program such as ./skills_cli/convert",
    "http": "an address such as https://skills.example.org/echo, without a user name or a fragment",
    "docker": "the name of an image such as registry.example.org/echo:1.0",
    "inproc": "a callable such as package.module:function",
}


def _fits(kind: str, entry: str) -> bool:
    if kind == "http":
        # Loaded only for who needs it. It is what dials, so what it does not understand can never work.
        import httpx2

        try:
            httpx2.URL(entry)
            parts = urlsplit(entry)
            known = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except (ValueError, httpx2.InvalidURL):
            return False
        return known and parts.username is None and not parts.fragment and " " not in entry
    if kind == "docker":
        return bool(_IMAGE.fullmatch(entry))
    if kind == "inproc":
        module, _, attribute = entry.partition(":")
        return bool(_MODULE.fullmatch(module) and _MODULE.fullmatch(attribute))
    return True


def _allowed_root(found: Fields, defaults: Defaults) -> Path | None:
    """What is not said is the host's; null is no directory at all."""
    if found.is_null("allowed_root"):
        return None
    written = found.text("allowed_root")
    return Path(written) if written else defaults.allowed_root


def _environment(found: Fields, defaults: Defaults) -> dict[str, str]:
    """A map gives values; a list names variables of the host that are passed on."""
    if found.is_list("env"):
        names = found.names("env", VARIABLE, "name of a variable")
        for name in names:
            if LIKE_A_SECRET.search(name):
                found.wrong("env", f"{name} looks like a secret; name it under secrets", rule="secret-in-manifest")
            elif name not in defaults.environment:
                found.warn("env", f"{name} is not set where the host runs", rule="variable-missing")
        return {name: defaults.environment[name] for name in names if name in defaults.environment}
    values = found.texts("env")
    for name, value in values.items():
        if value and LIKE_A_SECRET.search(name):
            message = f"{name} looks like a secret; name it under secrets and set it where the host runs"
            found.warn("env", message, rule="secret-in-manifest", at=("env", name))
    return values


def _limits(found: Fields, limits: Fields) -> HostLimits:
    found.mapping("limits")
    known = tuple(each.name for each in fields(HostLimits))
    limits.unknown(known)
    default = HostLimits()
    output = limits.limit("output_bytes", default.output_bytes, most=_MOST_BYTES)
    if output is None:
        limits.wrong("output_bytes", "cannot be without a limit; write an amount such as 5M")
    return HostLimits(
        output_bytes=output or default.output_bytes,
        memory_bytes=limits.limit("memory_bytes", default.memory_bytes, most=_MOST_BYTES),
        processes=limits.limit("processes", default.processes, most=100_000),
        file_bytes=limits.limit("file_bytes", default.file_bytes, most=_MOST_BYTES),
        cpu_seconds=limits.limit("cpu_seconds", default.cpu_seconds, most=LONGEST_TIMEOUT_MS // 1000),
        concurrency=limits.limit("concurrency", default.concurrency, most=10_000),
    )


def _options(found: Fields, document: Document, kind: str) -> dict[str, Any]:
    """What stands below `options`, and at the top what this kind of runner knows."""
    own = OPTIONS.get(kind)
    # What a runner from another package knows is not for us to judge.
    known = (*FIELDS, *(own if own is not None else document.fields))
    found.unknown(known)
    options = cast("dict[str, Any]", plain(cast("Node", found.mapping("options"))))
    above = {name: plain(node) for name, node in document.fields.items() if name in known and name not in FIELDS}
    return {**above, **options}
