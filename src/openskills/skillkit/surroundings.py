"""What the host tells a skill through the environment of its process.

The variables are a part of the contract between host and skill, and this runs in the skill's process, so they are read
here and not in `openskills.settings`, which takes longer to load than most skills take to run.
"""

import os
import time
from collections.abc import Mapping

DEFAULT_ROOT = "./data"
DEFAULT_TIMEOUT = 15_000
_LONGEST_ID = 200


class Surroundings:
    """Which call this is, where files are, and how long it may take."""

    __slots__ = ("allowed_root", "debug", "skill_id", "timeout_ms", "trace_id")

    def __init__(self, environ: Mapping[str, str] | None = None, *, name: str = "skill") -> None:
        """Read the variables; `name` is the skill's id where the host has given none."""
        env = os.environ if environ is None else environ
        self.skill_id = env.get("OPENSKILL_SKILL_ID", "")[:_LONGEST_ID] or name
        self.trace_id = env.get("OPENSKILL_TRACE_ID", "")[:_LONGEST_ID] or os.urandom(16).hex()
        self.allowed_root = env.get("OPENSKILL_ALLOWED_ROOT") or DEFAULT_ROOT
        self.debug = env.get("OPENSKILL_DEBUG", "0") not in ("", "0", "false")
        given = env.get("OPENSKILL_TIMEOUT_MS", "")
        self.timeout_ms = int(given) if given.isdecimal() and int(given) else DEFAULT_TIMEOUT


class _Clock:
    """When this call began; a process that serves several calls sets it anew for each."""

    began = time.monotonic()


def begin() -> None:
    """From now on a call is served."""
    _Clock.began = time.monotonic()


def seconds_left(environ: Mapping[str, str] | None = None) -> float:
    """Seconds until the host ends this call, `OPENSKILL_TIMEOUT_MS` after it began: a skill can stop before that."""
    return Surroundings(environ).timeout_ms / 1000 - (time.monotonic() - _Clock.began)
