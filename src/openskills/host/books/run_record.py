"""One row of the history: an invocation that has ended. Pure, but for the ids."""

import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from openskills.host.result import InvokeResult
from openskills.trace.masking import masked

LONGEST_MESSAGE = 1_000
LARGEST_CONTENT = 256 * 1024
"""Bytes of an input or output that are kept, where keeping them is asked for."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Who called what, when, and what came of it. `began` is in seconds since 1970.

    `input` and `output` are there only when the host was told to keep them.
    """

    id: str
    trace_id: str
    who: str
    skill_id: str
    version: str
    runner_type: str
    began: float
    latency_ms: float
    success: bool
    code: int
    message: str = ""
    bytes_in: int = 0
    bytes_out: int = 0
    input_digest: str = ""
    input: bytes | None = None
    output: bytes | None = None

    @classmethod
    def of(
        cls,
        result: InvokeResult,
        *,
        run_id: str,
        who: str,
        runner_type: str,
        began: float,
        body: bytes = b"",
        bytes_out: int = 0,
    ) -> "RunRecord":
        """The row for a result. `body` is the request: its size and digest are kept, not the bytes."""
        failure = result.outcome.failure
        message = "" if failure is None else failure.message[:LONGEST_MESSAGE]
        return cls(
            run_id,
            result.trace_id,
            who,
            result.skill_id,
            result.version,
            runner_type,
            began,
            result.latency_ms,
            failure is None,
            result.status,
            message,
            len(body),
            bytes_out,
            hashlib.sha256(body).hexdigest(),
        )

    def with_content(self, request: bytes, response: bytes, secrets: Mapping[str, str]) -> "RunRecord":
        """The row with what was asked and answered, for hosts that are told to keep it; never with a secret in it."""
        return replace(self, input=content_to_keep(request, secrets), output=content_to_keep(response, secrets))

    def plain(self) -> dict[str, Any]:
        """For a program: times as text, contents as text where they are kept."""
        found = asdict(self)
        found["began"] = datetime.fromtimestamp(self.began, UTC).isoformat(timespec="milliseconds")
        for name in ("input", "output"):
            content = found.pop(name)
            if content is not None:
                found[name] = content.decode("utf-8", "replace")
        return found


def new_run_id(now: float | None = None) -> str:
    """An id that nobody can guess. Ids of later runs come later in the alphabet."""
    return f"{id_prefix(time.time() if now is None else now)}{os.urandom(10).hex()}"


def id_prefix(at: float) -> str:
    """How ids of runs begin that began at this time: all earlier ones come before it in the alphabet."""
    return f"run_{max(int(at * 1000), 0):012x}"


def content_to_keep(content: bytes, secrets: Mapping[str, str]) -> bytes:
    """What may be kept of an input or output: secrets replaced by their names, and not too much of it."""
    text = masked(content.decode("utf-8", "replace"), secrets).encode()
    if len(text) <= LARGEST_CONTENT:
        return text
    return text[:LARGEST_CONTENT] + f"[... {len(text) - LARGEST_CONTENT:,} more bytes]".encode()
