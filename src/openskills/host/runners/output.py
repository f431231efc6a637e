"""What a skill wrote to an Outcome.

What a skill says went wrong, as a failure with a number, a word and a sentence. Pure.

From what a skill wrote and how it ended to an outcome, whatever that was. Pure; shared by all runners of commands.

- Exactly one JSON object on stdout is the answer. With other text around it the last normalised result counts, or, when
  there is none, an object at the very end; the text is told in `meta.stray_stdout`, with a warning.
- A normalised result is an object with a `success` of true or false. Any other object is data, if the exit status is 0.
- `success: true` with another exit status than 0, or a signal, is a failure: something went wrong after the answer.
  `success: false` is what it says, whatever the exit status.
- With nothing to use on stdout, a normalised failure on stderr is taken. Otherwise it is BAD_SKILL_OUTPUT, with what
  was written in the details.

What a skill writes while it works, as events: a line each, told as soon as it is whole. Pure.

A line on stderr that is a JSON object with `"event": "progress"` or `"event": "artifact"` is that event, and its other
fields are the data. All other lines are `stdout` and `stderr` events with the line as `text`.
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
from openskills.telemetry.values import mask_text

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
"""The number of every word that an error has."""

_REASONS_BY_CODE: Mapping[int, str] = {
    **{error.code: error.reason for error in _iter_error_types()},
    **_EXTRA_REASONS,
    500: "INTERNAL",
}


def parse_failure(error: object) -> Failure:
    """The failure that a skill describes in its `error`, whatever that is.

    A word as the code becomes its number and `details.reason`; a number that is no HTTP status of a failure becomes
    500, with what it was in `details.original_code`.
    """
    if not isinstance(error, Mapping):
        said = error if isinstance(error, str) and error else _DEFAULT_MESSAGE
        return Failure(INTERNAL_ERROR, said[:_MAX_MESSAGE_LENGTH], {"reason": SkillError.reason})
    told = cast("Mapping[str, Any]", error)
    details = _read_details(told.get("details"))
    code = told.get("code")
    number, reason = _parse_code(code)
    if number is None:
        details["original_code"] = code
    # A skill may know a better word than the table does, but not another one than its own code.
    details["reason"] = (
        reason or _read_reason(details) or _REASONS_BY_CODE.get(number or INTERNAL_ERROR) or _default_reason(number)
    )
    return Failure(number or INTERNAL_ERROR, _read_message(told), details)


def _read_details(found: object) -> dict[str, Any]:
    if isinstance(found, Mapping):
        return dict(cast("Mapping[str, Any]", found))
    return {} if found is None else {"value": found}


def _read_reason(details: Mapping[str, Any]) -> str | None:
    found = details.get("reason")
    return found if isinstance(found, str) and found else None


def _read_message(told: Mapping[str, Any]) -> str:
    found = told.get("message")
    return found[:_MAX_MESSAGE_LENGTH] if isinstance(found, str) and found else _DEFAULT_MESSAGE


def _parse_code(code: object) -> tuple[int | None, str | None]:
    """The number and the word that a code stands for; no number when it has none that can be used."""
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


def _default_reason(number: int | None) -> str:
    return SkillError.reason if number is None or number >= INTERNAL_ERROR else "INVALID_ARGUMENT"


_MAX_EXCERPT = 2000
_MAX_LAST_LINE = 300
_RESERVED_META = frozenset({"latency_ms", "version", "truncated"})


@dataclass(frozen=True, slots=True)
class RawSkillOutput:
    """What came back from a skill. `returncode` is negative for a signal, and None where there was no process.

    `limit`: stdout was cut at so many bytes. `secrets` are kept out of everything that is told as evidence. `notes`
    are for `meta` in any case.
    """

    stdout: bytes
    stderr: bytes = b""
    returncode: int | None = None
    limit: int | None = None
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    notes: Mapping[str, Any] = field(default_factory=dict[str, Any])


def outcome_from_output(written: RawSkillOutput) -> Outcome:
    """The outcome of a call that ended by itself, or was cut off."""
    if written.limit is not None:
        return _bad_output(written, f"the skill wrote more than {written.limit:,} bytes on stdout and was stopped")
    try:
        found = find_json_object(written.stdout)
    except InvalidSkillJson as error:
        return _outcome_from_stderr(written) or _bad_output(written, _describe_missing_result(written, str(error)))
    if is_result_like(found.value):
        return _outcome_from_result(written, found)
    if written.returncode:
        return _bad_output(written, f"the skill {_describe_exit(written.returncode)} and its answer is no result")
    return success_outcome(found.value, notes=_build_notes(written, found))


def timeout_outcome(timeout_ms: int, written: RawSkillOutput) -> Outcome:
    """The outcome of a call that did not end in time, with what it had written until then."""
    streams = (("stdout", written.stdout), ("stderr", written.stderr))
    evidence = {name: excerpt(data, written.secrets) for name, data in streams if data.strip()}
    message = f"the skill did not answer within {timeout_ms} ms and was stopped"
    return failure_outcome(DeadlineExceeded(message, timeout_ms=timeout_ms, **evidence), notes=written.notes)


def excerpt(data: bytes, secrets: Mapping[str, str] | None = None, most: int = _MAX_EXCERPT) -> str:
    """Bytes as text for a person, the middle left out when there is much of it, and without secrets."""
    # Whole, because half a secret would not be found; but not of megabytes.
    text = mask_text(data[: most * 16].decode("utf-8", "replace"), secrets or {}).strip()
    if len(data) > most * 16:
        text += mask_text(data[-most * 4 :].decode("utf-8", "replace"), secrets or {}).strip()
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[… {len(data):,} bytes in all …]\n{text[-half:]}"


def _outcome_from_result(written: RawSkillOutput, found: JsonMatch) -> Outcome:
    result = found.value
    notes = _build_notes(written, found)
    version, truncated = _read_version(result), _is_truncated(result)
    if result["success"] is False:
        if written.returncode == 0:
            _add_warning(notes, "success is false, but the exit status is 0")
        failure = _add_stderr(parse_failure(result.get("error")), written)
        return failure_outcome(failure, version=version, notes=notes)
    if written.returncode:
        return _bad_output(written, f"the skill answered success, but {_describe_exit(written.returncode)}", found)
    if result.get("error") is not None:
        _add_warning(notes, "success is true, so error is left out")
    data = result.get("data")
    if data is not None and not isinstance(data, Mapping):
        _add_warning(notes, "data is no object, so it is in data.value")
        data = {"value": data}
    return success_outcome(cast("Mapping[str, Any]", data or {}), truncated=truncated, version=version, notes=notes)


def _outcome_from_stderr(written: RawSkillOutput) -> Outcome | None:
    """A failure that a skill wrote on the wrong stream."""
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
    return failure_outcome(parse_failure(found.value.get("error")), version=_read_version(found.value), notes=notes)


def _describe_missing_result(written: RawSkillOutput, fault: str) -> str:
    if not written.returncode:
        return f"the answer of the skill cannot be used: {fault}"
    if written.stdout.strip():
        return f"the skill {_describe_exit(written.returncode)} and its answer cannot be used: {fault}"
    lines = excerpt(written.stderr, written.secrets).splitlines()
    last = f": {lines[-1].strip()[:_MAX_LAST_LINE]}" if lines else ""
    return f"the skill {_describe_exit(written.returncode)} without an answer{last}"


def _describe_exit(returncode: int) -> str:
    if returncode > 0:
        return f"ended with exit status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    hints = {"SIGKILL": " (was there memory enough?)", "SIGXCPU": " (its limit of processor time)"}
    return f"was ended by {name}{hints.get(name, '')}"


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
    notes = {**_read_skill_meta(found), **written.notes}
    if found is not None and found.around:
        _add_warning(notes, f"{stream} holds other text than the result")
        notes[f"stray_{stream}"] = excerpt(found.around.encode(), written.secrets)
    return notes


def _add_warning(notes: dict[str, Any], sentence: str) -> None:
    earlier = notes.get("warnings")
    notes["warnings"] = [*(cast("list[Any]", earlier) if isinstance(earlier, list) else []), sentence]


def _read_meta(result: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = result.get("meta") if is_result_like(result) else None
    return cast("Mapping[str, Any]", meta) if isinstance(meta, Mapping) else {}


def _read_skill_meta(found: JsonMatch | None) -> dict[str, Any]:
    meta: Mapping[str, Any] = _read_meta(found.value) if found is not None else {}
    return {name: value for name, value in meta.items() if name not in _RESERVED_META}


def _read_version(result: Mapping[str, Any]) -> str | None:
    version = _read_meta(result).get("version")
    return version if isinstance(version, str) and version else None


def _is_truncated(result: Mapping[str, Any]) -> bool:
    return _read_meta(result).get("truncated") is True


_EVENTS = frozenset({"progress", "artifact"})
_MAX_LINE_BYTES = 64 * 1024


class LiveLines:
    """Cuts two streams into lines. A line that does not end is told in pieces. Secrets are replaced by their names."""

    def __init__(self, listener: Listener, secrets: Mapping[str, str]) -> None:
        self._listener = listener
        self._secrets = secrets
        self._parts = {"stdout": b"", "stderr": b""}

    def write(self, stream: str, data: bytes) -> None:
        """More has come on `stdout` or `stderr`."""
        *lines, rest = (self._parts[stream] + data).split(b"\n")
        for line in lines:
            self._emit(stream, line)
        while len(rest) > _MAX_LINE_BYTES:
            self._emit(stream, rest[:_MAX_LINE_BYTES])
            rest = rest[_MAX_LINE_BYTES:]
        self._parts[stream] = rest

    def flush(self) -> None:
        """Nothing more will come: what has no end of a line yet is told, too."""
        for stream, rest in self._parts.items():
            if rest:
                self._emit(stream, rest)
        self._parts = {"stdout": b"", "stderr": b""}

    def _emit(self, stream: str, line: bytes) -> None:
        text = mask_text(line.rstrip(b"\r").decode("utf-8", "replace"), self._secrets)
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
