"""One skill that the host can invoke: its manifest, checked, with every path resolved. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class Warmth(StrEnum):
    """How a `cli:python` skill starts.

    `FORK` (default): a fresh process for each call, forked from a warm interpreter. `SPAWN`: a cold interpreter for
    each call. `REUSE`: one process serves many calls; quickest, and calls can see what earlier ones left in it.
    """

    FORK = "fork"
    SPAWN = "spawn"
    REUSE = "reuse"


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What one invocation may use. `None` is no limit of ours."""

    output_bytes: int = 5 * 1024 * 1024
    memory_bytes: int | None = 1024 * 1024 * 1024
    processes: int | None = 64
    file_bytes: int | None = 1024 * 1024 * 1024
    cpu_seconds: int | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Registration:
    """A skill of the host. `kind` is `type:runtime`, or `type` alone where there is no runtime (`http`, `docker`).

    `entry` is what the runner understands: an absolute path for `cli`, a URL for `http`, an image for `docker`,
    `package.module:callable` for `inproc`. `secrets` are names; `environment` holds plain values and no secret.
    `options` are the fields of the manifest that only one kind of runner knows.
    """

    id: str
    kind: str
    entry: str
    version: str
    description: str = ""
    timeout_ms: int = 15_000
    allowed_root: Path | None = None
    writable: bool = False
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets: tuple[str, ...] = ()
    limits: HostLimits = HostLimits()
    executor: str = "auto"
    warm: Warmth = Warmth.FORK
    preload: tuple[str, ...] = ()
    origin: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
