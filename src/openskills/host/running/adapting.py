"""From what a skill wrote and how it ended to an outcome, whatever that was. Pure; shared by all runners of commands.

- Exactly one JSON object on stdout is the answer. With other text around it the last normalised result counts, or, when
  there is none, an object at the very end; the text is told in `meta.stray_stdout`, with a warning.
- A normalised result is an object with a `success` of true or false. Any other object is data, if the exit status is 0.
- `success: true` with another exit status than 0, or a signal, is a failure: something went wrong after the answer.
  `success: false` is what it says, whatever the exit status.
- With nothing to use on stdout, a normalised failure on stderr is taken. Otherwise it is BAD_SKILL_OUTPUT, with what
  was written in the details.
"""

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from openskills.errors import BadSkillOutput, DeadlineExceeded
from openskills.host.result import Failure, Outcome, failed, ok
from openskills.host.running.json_output import Found, NotJson, json_object, looks_like_result
from openskills.host.running.skill_failure import skill_failure
from openskills.trace.masking import masked

_EXCERPT = 2000
_LAST_LINE = 300
_OWN_META = frozenset({"latency_ms", "version", "truncated"})


@dataclass(frozen=True, slots=True)
class Written:
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


def adapted(written: Written) -> Outcome:
    """The outcome of a call that ended by itself, or was cut off."""
    if written.limit is not None:
        return _bad(written, f"the skill wrote more than {written.limit:,} bytes on stdout and was stopped")
    try:
        found = json_object(written.stdout)
    except NotJson as error:
        return _from_stderr(written) or _bad(written, _without_answer(written, str(error)))
    if looks_like_result(found.value):
        return _from_result(written, found)
    if written.returncode:
        return _bad(written, f"the skill {_ending(written.returncode)} and its answer is no result")
    return ok(found.value, notes=_noted(written, found))


def too_late(timeout_ms: int, written: Written) -> Outcome:
    """The outcome of a call that did not end in time, with what it had written until then."""
    streams = (("stdout", written.stdout), ("stderr", written.stderr))
    evidence = {name: excerpt(data, written.secrets) for name, data in streams if data.strip()}
    message = f"the skill did not answer within {timeout_ms} ms and was stopped"
    return failed(DeadlineExceeded(message, timeout_ms=timeout_ms, **evidence), notes=written.notes)


def excerpt(data: bytes, secrets: Mapping[str, str] | None = None, most: int = _EXCERPT) -> str:
    """Bytes as text for a person, the middle left out when there is much of it, and without secrets."""
    # Whole, because half a secret would not be found; but not of megabytes.
    text = masked(data[: most * 16].decode("utf-8", "replace"), secrets or {}).strip()
    if len(data) > most * 16:
        text += masked(data[-most * 4 :].decode("utf-8", "replace"), secrets or {}).strip()
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[… {len(data):,} bytes in all …]\n{text[-half:]}"


def _from_result(written: Written, found: Found) -> Outcome:
    result = found.value
    notes = _noted(written, found)
    version, truncated = _own_version(result), _truncated(result)
    if result["success"] is False:
        if written.returncode == 0:
            _warn(notes, "success is false, but the exit status is 0")
        failure = _with_stderr(skill_failure(result.get("error")), written)
        return failed(failure, version=version, notes=notes)
    if written.returncode:
        return _bad(written, f"the skill answered success, but {_ending(written.returncode)}", found)
    if result.get("error") is not None:
        _warn(notes, "success is true, so error is left out")
    data = result.get("data")
    if data is not None and not isinstance(data, Mapping):
        _warn(notes, "data is no object, so it is in data.value")
        data = {"value": data}
    return ok(cast("Mapping[str, Any]", data or {}), truncated=truncated, version=version, notes=notes)


def _from_stderr(written: Written) -> Outcome | None:
    """A failure that a skill wrote on the wrong stream."""
    if not written.stderr.strip() or written.stdout.strip():
        return None
    try:
        found = json_object(written.stderr)
    except NotJson:
        return None
    if found.value.get("success") is not False:
        return None
    notes = _noted(written, found, stream="stderr")
    _warn(notes, "the result was on stderr")
    return failed(skill_failure(found.value.get("error")), version=_own_version(found.value), notes=notes)


def _without_answer(written: Written, fault: str) -> str:
    if not written.returncode:
        return f"the answer of the skill cannot be used: {fault}"
    if written.stdout.strip():
        return f"the skill {_ending(written.returncode)} and its answer cannot be used: {fault}"
    lines = excerpt(written.stderr, written.secrets).splitlines()
    last = f": {lines[-1].strip()[:_LAST_LINE]}" if lines else ""
    return f"the skill {_ending(written.returncode)} without an answer{last}"


def _ending(returncode: int) -> str:
    if returncode > 0:
        return f"ended with exit status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    hints = {"SIGKILL": " (was there memory enough?)", "SIGXCPU": " (its limit of processor time)"}
    return f"was ended by {name}{hints.get(name, '')}"


def _bad(written: Written, message: str, found: Found | None = None) -> Outcome:
    return failed(
        _with_stderr(Failure.of(BadSkillOutput(message, **_evidence(written))), written), notes=_noted(written, found)
    )


def _evidence(written: Written) -> dict[str, Any]:
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


def _with_stderr(failure: Failure, written: Written) -> Failure:
    if not written.stderr.strip() or "stderr" in failure.details:
        return failure
    details = {**failure.details, "stderr": excerpt(written.stderr, written.secrets)}
    return Failure(failure.code, failure.message, details, failure.retry_after)


def _noted(written: Written, found: Found | None, *, stream: str = "stdout") -> dict[str, Any]:
    notes = {**_own_meta(found), **written.notes}
    if found is not None and found.around:
        _warn(notes, f"{stream} holds other text than the result")
        notes[f"stray_{stream}"] = excerpt(found.around.encode(), written.secrets)
    return notes


def _warn(notes: dict[str, Any], sentence: str) -> None:
    earlier = notes.get("warnings")
    notes["warnings"] = [*(cast("list[Any]", earlier) if isinstance(earlier, list) else []), sentence]


def _meta(result: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = result.get("meta") if looks_like_result(result) else None
    return cast("Mapping[str, Any]", meta) if isinstance(meta, Mapping) else {}


def _own_meta(found: Found | None) -> dict[str, Any]:
    meta: Mapping[str, Any] = _meta(found.value) if found is not None else {}
    return {name: value for name, value in meta.items() if name not in _OWN_META}


def _own_version(result: Mapping[str, Any]) -> str | None:
    version = _meta(result).get("version")
    return version if isinstance(version, str) and version else None


def _truncated(result: Mapping[str, Any]) -> bool:
    return _meta(result).get("truncated") is True
