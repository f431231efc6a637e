"""Turns the output and exit status of a skill into an `Outcome`; shared by all runners of commands.

- Exactly one JSON object on stdout is the answer. With other text around it the last normalized result counts or, if
  there is none, an object at the very end; the text is in `meta.stray_stdout`, with a warning.
- A normalized result is an object with a boolean `success`. Any other object is data, if the exit status is 0.
- `success: true` with a non-zero exit status or a signal is a failure. `success: false` is a failure in any case.
- Without a usable answer on stdout, a normalized failure on stderr is used. Otherwise it is BAD_SKILL_OUTPUT, with the
  output in the details.

While a skill runs, its lines become events. A line on stderr that is a JSON object with `"event": "progress"` or
`"event": "artifact"` is that event, with the other fields as its data. Other lines are `stdout` and `stderr` events.
"""

import json
import math
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from openskills.errors import BadSkillOutput, DeadlineExceeded, SkillError
from openskills.host.model import Failure, Listener, Outcome, SkillOutputEvent, failure_outcome, success_outcome
from openskills.host.strict_json import InvalidSkillJson, JsonMatch, find_json_object, is_result_like
from openskills.telemetry.mask import get_masker

INTERNAL_ERROR = SkillError.code
_MIN_STATUS, _MAX_STATUS = 400, 599
_MAX_MESSAGE_LENGTH = 4000
_MAX_REASON_LENGTH = 100
_DEFAULT_MESSAGE = "the skill failed and did not say why"

_EXTRA_CODES = {
    "BAD_REQUEST": 400,
    "INVALID_INPUT": 400,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "CONFLICT": 409,
    "TOO_LARGE": 413,
    "RATE_LIMITED": 429,
    "UNAVAILABLE": 503,
    "TIMEOUT": 504,
}
_EXTRA_REASONS = {403: "FORBIDDEN", 404: "NOT_FOUND", 409: "CONFLICT", 422: "INVALID_ARGUMENT", 503: "UNAVAILABLE"}


def _iter_error_types() -> Iterator[type[SkillError]]:
    waiting: list[type[SkillError]] = [SkillError]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += found.__subclasses__()


CODES_BY_REASON: Mapping[str, int] = {**_EXTRA_CODES, **{error.reason: error.code for error in _iter_error_types()}}
"""The code of every known reason."""

_REASONS_BY_CODE: Mapping[int, str] = {
    **{error.code: error.reason for error in _iter_error_types()},
    **_EXTRA_REASONS,
    500: "INTERNAL",
}


def parse_failure(error: object) -> Failure:
    """Parse the `error` of a skill, which may be anything.

    A word as the code becomes its number and `details.reason`; a number that is not an HTTP error status becomes 500,
    with the original in `details.original_code`.
    """
    if not isinstance(error, Mapping):
        said = error if isinstance(error, str) and error else _DEFAULT_MESSAGE
        return Failure(INTERNAL_ERROR, said[:_MAX_MESSAGE_LENGTH], {"reason": SkillError.reason})
    told = cast("Mapping[str, Any]", error)
    given, code = told.get("details"), told.get("code")
    details = dict(cast("Mapping[str, Any]", given)) if isinstance(given, Mapping) else {}
    if given is not None and not isinstance(given, Mapping):
        details["value"] = given
    number, reason = _parse_code(code)
    status = number or INTERNAL_ERROR
    if number is None:
        details["original_code"] = code
    # The reason of the skill is preferred to the table, but not to its own code.
    default = SkillError.reason if status >= INTERNAL_ERROR else "INVALID_ARGUMENT"
    named, message = details.get("reason"), told.get("message")
    said = named if isinstance(named, str) else None
    details["reason"] = reason or said or _REASONS_BY_CODE.get(status, default)
    message = message if isinstance(message, str) and message else _DEFAULT_MESSAGE
    return Failure(status, message[:_MAX_MESSAGE_LENGTH], details)


def _parse_code(code: object) -> tuple[int | None, str | None]:
    """The number and the reason of a code; no number if it is unusable."""
    if code is None:
        return INTERNAL_ERROR, None
    if isinstance(code, str):
        word = code.strip()
        if word.isdecimal() and word.isascii():
            return (int(word), None) if _is_status(float(word[:5])) and len(word) < 5 else (None, None)
        return CODES_BY_REASON.get(word.upper(), INTERNAL_ERROR), word.upper()[:_MAX_REASON_LENGTH] or None
    if isinstance(code, bool) or not isinstance(code, int | float) or not _is_status(code):
        return None, None
    return int(code), None


def _is_status(number: float) -> bool:
    return math.isfinite(number) and _MIN_STATUS <= number <= _MAX_STATUS and number == int(number)


_MAX_EXCERPT = 2000
_MAX_LAST_LINE = 300
_SIGNAL_BASE = 128
_RESERVED_META = frozenset({"latency_ms", "version", "truncated"})


@dataclass(frozen=True, slots=True)
class RawSkillOutput:
    """The output of a skill. `returncode` is negative for a signal, and None without a process.

    `limit` is the number of bytes at which stdout was cut. `secrets` are masked in excerpts; `notes` are for `meta`.
    """

    stdout: bytes
    stderr: bytes = b""
    returncode: int | None = None
    limit: int | None = None
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    notes: Mapping[str, Any] = field(default_factory=dict[str, Any])


def outcome_from_output(written: RawSkillOutput) -> Outcome:
    """The outcome of a call that ended by itself, or was stopped because of its output."""
    if written.limit is not None:
        return _bad_output(written, f"the skill wrote more than {written.limit:,} bytes on stdout and was stopped")
    try:
        found = find_json_object(written.stdout)
    except InvalidSkillJson as error:
        return _outcome_from_stderr(written) or _bad_output(written, _describe_missing_result(written, str(error)))
    if is_result_like(found.value):
        return _outcome_from_result(written, found)
    if written.returncode:
        return _bad_output(written, f"the skill {describe_exit(written.returncode)}, and its output is not a result")
    return success_outcome(found.value, notes=_build_notes(written, found))


def timeout_outcome(timeout_ms: int, written: RawSkillOutput) -> Outcome:
    """The outcome of a call that timed out, with its output so far."""
    streams = (("stdout", written.stdout), ("stderr", written.stderr))
    evidence = {name: excerpt(data, written.secrets) for name, data in streams if data.strip()}
    message = f"the skill timed out after {timeout_ms} ms and was stopped"
    return failure_outcome(DeadlineExceeded(message, timeout_ms=timeout_ms, **evidence), notes=written.notes)


def excerpt(data: bytes, secrets: Mapping[str, str] | None = None, max_length: int = _MAX_EXCERPT) -> str:
    """Bytes as text, with secrets masked, and shortened in the middle."""
    # Masked before it is cut, because half a secret would not be found.
    masked = get_masker(secrets or {}).mask_bytes(data, truncated=True)
    # A character has at most four bytes.
    parts = (masked[: max_length * 4], masked[-max_length * 4 :]) if len(masked) > max_length * 8 else (masked,)
    text = "".join(part.decode("utf-8", "replace").strip() for part in parts)
    if len(text) <= max_length:
        return text
    half = max_length // 2
    return f"{text[:half]}\n[… {len(data):,} bytes in all …]\n{text[-half:]}"


def _outcome_from_result(written: RawSkillOutput, found: JsonMatch) -> Outcome:
    result = found.value
    notes = _build_notes(written, found)
    version, truncated = _read_version(result), _read_meta(result).get("truncated") is True
    if result["success"] is False:
        if written.returncode == 0:
            _add_warning(notes, "success is false, but the exit status is 0")
        failure = _add_stderr(parse_failure(_mask(result.get("error"), written)), written)
        return failure_outcome(failure, version=version, notes=notes)
    if written.returncode:
        return _bad_output(written, f"the skill reported success, but {describe_exit(written.returncode)}", found)
    if result.get("error") is not None:
        _add_warning(notes, "success is true, so error is ignored")
    data = result.get("data")
    if data is not None and not isinstance(data, Mapping):
        _add_warning(notes, "data is not an object, so it is in data.value")
        data = {"value": data}
    return success_outcome(cast("Mapping[str, Any]", data or {}), truncated=truncated, version=version, notes=notes)


def _outcome_from_stderr(written: RawSkillOutput) -> Outcome | None:
    if not written.stderr.strip() or written.stdout.strip():
        return None
    try:
        found = find_json_object(written.stderr)
    except InvalidSkillJson:
        return None
    if found.value.get("success") is not False:
        return None
    notes = _build_notes(written, found, stream="stderr")
    _add_warning(notes, "the result was on stderr")
    return failure_outcome(
        parse_failure(_mask(found.value.get("error"), written)), version=_read_version(found.value), notes=notes
    )


def _mask(error: object, written: RawSkillOutput) -> object:
    # Before a code becomes a reason: in another spelling a secret would not be found.
    return get_masker(written.secrets).mask_json(error)


def _describe_missing_result(written: RawSkillOutput, fault: str) -> str:
    if not written.returncode:
        return f"invalid output of the skill: {fault}"
    if written.stdout.strip():
        return f"the skill {describe_exit(written.returncode)}, with invalid output: {fault}"
    lines = excerpt(written.stderr, written.secrets).splitlines()
    last = f": {lines[-1].strip()[:_MAX_LAST_LINE]}" if lines else ""
    return f"the skill {describe_exit(written.returncode)} without output{last}"


def to_exit_code(status: int) -> int:
    """An exit status as a shell reports it, with signals above 128, as one that is negative for a signal."""
    return _SIGNAL_BASE - status if _SIGNAL_BASE < status < _SIGNAL_BASE + signal.NSIG else status


def describe_exit(returncode: int) -> str:
    """The end of a process in words; a signal is negative."""
    if returncode > 0:
        return f"exited with status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    hints = {"SIGKILL": " (out of memory?)", "SIGXCPU": " (CPU time limit)"}
    return f"was killed by {name}{hints.get(name, '')}"


def _bad_output(written: RawSkillOutput, message: str, found: JsonMatch | None = None) -> Outcome:
    return failure_outcome(
        _add_stderr(Failure.from_error(BadSkillOutput(message, **_collect_evidence(written))), written),
        notes=_build_notes(written, found),
    )


def _collect_evidence(written: RawSkillOutput) -> dict[str, Any]:
    evidence: dict[str, Any] = {}
    if written.returncode is not None:
        evidence["exit_code"] = written.returncode if written.returncode >= 0 else None
    if written.returncode is not None and written.returncode < 0:
        evidence["signal"] = -written.returncode
    if written.limit is not None:
        evidence["limit_bytes"] = written.limit
    if written.stdout.strip():
        evidence["stdout"] = excerpt(written.stdout, written.secrets)
    return evidence


def _add_stderr(failure: Failure, written: RawSkillOutput) -> Failure:
    if not written.stderr.strip() or "stderr" in failure.details:
        return failure
    details = {**failure.details, "stderr": excerpt(written.stderr, written.secrets)}
    return Failure(failure.code, failure.message, details, failure.retry_after)


def _build_notes(written: RawSkillOutput, found: JsonMatch | None, *, stream: str = "stdout") -> dict[str, Any]:
    meta: Mapping[str, Any] = _read_meta(found.value) if found is not None else {}
    notes = {**{name: value for name, value in meta.items() if name not in _RESERVED_META}, **written.notes}
    if found is not None and found.around:
        _add_warning(notes, f"{stream} contains other text besides the result")
        notes[f"stray_{stream}"] = excerpt(found.around.encode(), written.secrets)
    return notes


def _add_warning(notes: dict[str, Any], sentence: str) -> None:
    earlier = notes.get("warnings")
    notes["warnings"] = [*(cast("list[Any]", earlier) if isinstance(earlier, list) else []), sentence]


def _read_meta(result: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = result.get("meta") if is_result_like(result) else None
    return cast("Mapping[str, Any]", meta) if isinstance(meta, Mapping) else {}


def _read_version(result: Mapping[str, Any]) -> str | None:
    version = _read_meta(result).get("version")
    return version if isinstance(version, str) and version else None


_EVENTS = frozenset({"progress", "artifact"})
_MAX_LINE_BYTES = 64 * 1024


class LiveLines:
    """Turns two streams into line events, with secrets masked. Long lines are split."""

    def __init__(self, listener: Listener, secrets: Mapping[str, str]) -> None:
        self._listener = listener
        self._masked = {stream: get_masker(secrets).open_stream() for stream in ("stdout", "stderr")}
        self._parts = {"stdout": b"", "stderr": b""}

    def write(self, stream: str, data: bytes) -> None:
        """Add output of `stdout` or `stderr`."""
        self._split(stream, self._masked[stream].feed(data))

    def flush(self) -> None:
        """Emit what is left without a newline."""
        for stream, masker in self._masked.items():
            self._split(stream, masker.flush())
            if rest := self._parts[stream]:
                self._emit(stream, rest)
        self._parts = {"stdout": b"", "stderr": b""}

    def _split(self, stream: str, data: bytes) -> None:
        *lines, rest = (self._parts[stream] + data).split(b"\n")
        for line in lines:
            self._emit(stream, line)
        while len(rest) > _MAX_LINE_BYTES:
            self._emit(stream, rest[:_MAX_LINE_BYTES])
            rest = rest[_MAX_LINE_BYTES:]
        self._parts[stream] = rest

    def _emit(self, stream: str, line: bytes) -> None:
        text = line.rstrip(b"\r").decode("utf-8", "replace")
        event = _parse_event(text) if stream == "stderr" else None
        self._listener(event or SkillOutputEvent(stream, {"text": text}))


def _parse_event(line: str) -> SkillOutputEvent | None:
    if not line.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    fields = cast("dict[str, Any]", found)
    kind = fields.get("event")
    if not isinstance(kind, str) or kind not in _EVENTS:
        return None
    return SkillOutputEvent(kind, {name: value for name, value in fields.items() if name != "event"})
