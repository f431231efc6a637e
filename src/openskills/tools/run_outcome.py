"""What a model and a program are told about a run: the fields of the mission documents. Pure.

A command that failed is a result like any other. A field that has nothing to say is left out, but for those that every
result has: `stdout`, `stderr`, `exit_code`, `timed_out`, `duration_ms`, `isolation` and `output_files`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from openskills.executors.files.mime import SNIFFED, TEXT, mime_type
from openskills.executors.requests import RunResult
from openskills.executors.spec import Captured, Ended, Ending
from openskills.executors.staging.outputs import PRIMARY_BYTES, OutputFile, primary
from openskills.paths import printable
from openskills.tools.uploads import StagedUpload

STREAM_BYTES = 16 * 1024
CONTENT_BYTES = 128 * 1024
LISTED = 1_000
"""So many files of a run are told by name; the others are counted."""
WARNINGS = 50


@dataclass(frozen=True, slots=True)
class Shape:
    """How much of a run goes into its result.

    `stream_bytes` of stdout and stderr each; a primary output of at most `primary_bytes`; `content_bytes` of all files
    together, unless they come without it (`inline`, `primary_content`). `patterns` are those that somebody asked for;
    `advice` is what to do about a timeout.
    """

    stream_bytes: int = STREAM_BYTES
    primary_bytes: int = PRIMARY_BYTES
    content_bytes: int = CONTENT_BYTES
    inline: bool = True
    primary_content: bool = True
    patterns: tuple[str, ...] = ()
    advice: str = "give it more time, or do less in one call"


def outcome(
    result: RunResult, shape: Shape, staged: Iterable[StagedUpload] = (), warnings: Iterable[str] = ()
) -> dict[str, Any]:
    """The data of a result; plain JSON values. `staged` and `warnings` are what is known from before the run."""
    streams = {name: _clipped(one, shape.stream_bytes) for name, one in _streams(result.ended)}
    files, cut = _files(result.output_files[:LISTED], shape)
    kept = result.artifact_files[:LISTED]
    optional = {
        "primary_output": _primary(result.output_files, shape),
        "artifact_files": [{"name": one.name, "version": one.version, "ref": one.ref} for one in kept],
        "staged_inputs": [_staged(one) for one in staged],
        "warnings": _few(
            [
                *_about_the_end(result.ended, shape.advice),
                *warnings,
                *_about_cutting(result.ended, streams),
                *_about_nothing(result, shape.patterns),
                *cut,
                *_about_many(result),
                # What a warm start would have saved is for the author of the skill.
                *(warning for warning in result.warnings if not warning.startswith("started cold: ")),
            ]
        ),
    }
    return {
        **{name: one.text() for name, one in streams.items()},
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
        "duration_ms": result.ended.duration_ms,
        "isolation": str(result.isolation),
        "output_files": files,
        **{name: value for name, value in optional.items() if value},
    }


def told(data: Mapping[str, Any]) -> str:
    """The same for a model: compact JSON, in which no content stands twice."""
    found = data.get("primary_output")
    if found and any(one["name"] == found["name"] and "content" in one for one in data["output_files"]):
        data = {**data, "primary_output": {key: one for key, one in found.items() if key != "content"}}
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _streams(ended: Ended) -> Sequence[tuple[str, Captured]]:
    return (("stdout", ended.stdout), ("stderr", ended.stderr))


def _clipped(stream: Captured, limit: int) -> Captured:
    """The beginning and the end of a stream; the same object when all that was kept of it is short enough."""
    if len(stream.head) + len(stream.tail) <= limit:
        return stream
    head, tail = (stream.head, stream.tail) if stream.cut else (stream.head + stream.tail,) * 2
    first = min(limit - limit // 2, len(head))
    last = limit - first
    return Captured(head[:first], tail[-last:] if last else b"", stream.total - first - min(last, len(tail)))


def _about_cutting(ended: Ended, shown: Mapping[str, Captured]) -> list[str]:
    return [
        f"{name} has {whole.total:,} bytes, of which {len(part.head) + len(part.tail):,} are shown, from its beginning"
        " and its end; write long output to a file in out/"
        for name, whole in _streams(ended)
        if (part := shown[name]) is not whole
    ]


def _about_the_end(ended: Ended, advice: str) -> Sequence[str]:
    """Who ended the command if it did not end by itself, in words that can be acted on."""
    match ended.ending:
        case Ending.EXITED:
            return (ended.detail,) if ended.detail else ()
        case Ending.TIMED_OUT:
            return (f"the command was stopped: {ended.detail or 'its time was up'}; {advice}",)
        case Ending.LIMIT:
            return (f"the command was stopped: {ended.detail or 'it used too much'}; make it use less",)
        case Ending.KILLED:
            return (f"the command was killed{f': {ended.detail}' if ended.detail else ''}",)
        case Ending.INTERRUPTED:
            return (f"how the command ended is not known: {ended.detail}; look at its files before it is run again",)


def _about_nothing(result: RunResult, patterns: Sequence[str]) -> Sequence[str]:
    if result.output_files or not patterns:
        return ()
    return (f"no file that this run made or changed matches {printable(', '.join(patterns)[:300])}",)


def _about_many(result: RunResult) -> Sequence[str]:
    more = len(result.output_files) - LISTED
    return (f"{more:,} more files came of this run than are listed here; list_files shows them",) if more > 0 else ()


def _few(warnings: list[str]) -> list[str]:
    more = len(warnings) - WARNINGS
    return [*warnings[:WARNINGS], f"{more:,} more warnings are left out"] if more > 0 else warnings


def _files(files: Sequence[OutputFile], shape: Shape) -> tuple[list[dict[str, Any]], Sequence[str]]:
    """The files, with as much of their text as there is room for, and a sentence when that is not all."""
    room = shape.content_bytes
    found: list[dict[str, Any]] = []
    cut = 0
    for file in files:
        if not (shape.inline and _is_text(file)):
            found.append(_file(file if shape.inline else replace(file, truncated=False)))
            continue
        shown = file if len(file.data) <= room else replace(file, data=file.data[:room], truncated=True)
        cut += shown is not file
        room -= len(shown.data)
        found.append(_file(shown, shown.text()))
    if not cut:
        return found, ()
    cut_files = "1 file is" if cut == 1 else f"{cut} files is"
    most = f"{shape.content_bytes:,} bytes in all"
    return found, (f"the content of {cut_files} cut to {most}; read on by ref, with read_file or with a command",)


def _primary(files: Sequence[OutputFile], shape: Shape) -> dict[str, Any] | None:
    short = (file for file in files if len(file.data) <= shape.primary_bytes)
    found = primary(filter(_is_text, short), limit=shape.primary_bytes)
    return found and _file(found, found.text() if shape.primary_content else None)


def _file(file: OutputFile, content: str | None = None) -> dict[str, Any]:
    text = {} if content is None else {"content": content}
    about = {"mime_type": file.mime_type, "size_bytes": file.size, "truncated": file.truncated}
    return {"name": file.path, "ref": file.ref, **text, **about}


def _staged(file: StagedUpload) -> dict[str, Any]:
    return {
        "name": file.path,
        "original_name": file.original_name,
        "mime_type": file.mime_type,
        "size_bytes": file.size,
    }


def _is_text(file: OutputFile) -> bool:
    """Whether there is text in it to show. What begins like a PDF is none, even when every byte of it is a letter."""
    text = file.text()
    return text is not None and mime_type("x.txt", text[:SNIFFED].encode()[:SNIFFED]) == TEXT
