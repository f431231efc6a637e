"""Results as JSON: what a journal keeps, and what a program reads. Pure."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from openskills.artifacts.store import Artifact
from openskills.executors.requests import RunResult
from openskills.executors.spec import Captured, Ended, Ending, Isolation
from openskills.executors.staging.input_staging import StagedInput
from openskills.executors.staging.inputs import Mode
from openskills.executors.staging.outputs import OutputFile

INLINE_BYTES = 256 * 1024
"""At most so much of the content of output files goes into a journal; the files themselves stay where they are."""


def stored(result: RunResult) -> dict[str, Any]:
    """Everything that the same request is to be answered with again."""
    ended = result.ended
    room = INLINE_BYTES
    files: list[dict[str, Any]] = []
    for file in result.output_files:
        keep = len(file.data) <= room
        room -= len(file.data) if keep else 0
        files.append({**_file(file), "data": _packed(file.data) if keep else None})
    return {
        "exit_code": ended.exit_code,
        "ending": str(ended.ending),
        "duration_ms": ended.duration_ms,
        "cpu_ms": ended.cpu_ms,
        "detail": ended.detail,
        "stdout": _stream(ended.stdout),
        "stderr": _stream(ended.stderr),
        "isolation": str(result.isolation),
        "run_id": result.run_id,
        "digest": result.digest,
        "output_files": files,
        "artifact_files": [_artifact(artifact) for artifact in result.artifact_files],
        "staged_inputs": [asdict(staged) for staged in result.staged_inputs],
        "warnings": list(result.warnings),
    }


def result_from(record: Mapping[str, Any]) -> RunResult:
    """The result that `stored` made this of."""
    ended = Ended(
        record["exit_code"],
        Ending(record["ending"]),
        record["duration_ms"],
        _captured(record["stdout"]),
        _captured(record["stderr"]),
        cpu_ms=record["cpu_ms"],
        detail=record["detail"],
    )
    return RunResult(
        ended,
        Isolation(record["isolation"]),
        record["run_id"],
        digest=record["digest"],
        output_files=tuple(map(_output_file, record["output_files"])),
        artifact_files=tuple(map(_artifact_from, record["artifact_files"])),
        staged_inputs=tuple(map(_staged, record["staged_inputs"])),
        warnings=(*record["warnings"], *_left_out(record["output_files"])),
    )


def shown(result: RunResult) -> dict[str, Any]:
    """The answer for a program: the fields of the mission documents, and what ours adds to them."""
    return {
        "stdout": result.stdout,
        "stderr": result.stderr,
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
        "duration_ms": result.ended.duration_ms,
        "isolation": str(result.isolation),
        "ending": str(result.ended.ending),
        "detail": result.ended.detail,
        "run_id": result.run_id,
        "skill_digest": result.digest,
        "output_files": [_shown_file(file) for file in result.output_files],
        "artifact_files": [_artifact(artifact) for artifact in result.artifact_files],
        "staged_inputs": [{"from": one.source, "to": one.to} for one in result.staged_inputs],
        "warnings": list(result.warnings),
        "replayed": result.replayed,
    }


def _staged(record: Mapping[str, Any]) -> StagedInput:
    warnings = tuple(record["warnings"])
    return StagedInput(record["source"], record["to"], Mode(record["mode"]), record["files"], record["size"], warnings)


def _left_out(files: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    count = sum(file["data"] is None for file in files)
    return (f"the content of {count} files is not kept with this answer; read them by their ref",) if count else ()


def _shown_file(file: OutputFile) -> dict[str, Any]:
    found = {"name": file.path, **_file(file), "ref": file.ref}
    text = file.text() if file.data else None
    return found if text is None else {**found, "content": text}


def _file(file: OutputFile) -> dict[str, Any]:
    return {"path": file.path, "size_bytes": file.size, "mime_type": file.mime_type, "truncated": file.truncated}


def _output_file(record: Mapping[str, Any]) -> OutputFile:
    data = record["data"]
    truncated = record["truncated"] or data is None
    return OutputFile(
        record["path"], _unpacked(data or ""), record["size_bytes"], record["mime_type"], truncated=truncated
    )


def _artifact(artifact: Artifact) -> dict[str, Any]:
    return {
        "name": artifact.name,
        "version": artifact.version,
        "ref": artifact.ref,
        "size_bytes": artifact.size,
        "mime_type": artifact.mime_type,
        "sha256": artifact.sha256,
        "created_at": artifact.created_at.isoformat(),
    }


def _artifact_from(record: Mapping[str, Any]) -> Artifact:
    return Artifact(
        record["name"],
        record["version"],
        record["size_bytes"],
        record["mime_type"],
        record["sha256"],
        datetime.fromisoformat(record["created_at"]),
    )


def _stream(captured: Captured) -> dict[str, Any]:
    return {"head": _packed(captured.head), "tail": _packed(captured.tail), "cut": captured.cut}


def _captured(record: Mapping[str, Any]) -> Captured:
    return Captured(_unpacked(record["head"]), _unpacked(record["tail"]), record["cut"])


def _packed(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _unpacked(text: str) -> bytes:
    return base64.b64decode(text)
