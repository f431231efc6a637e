"""Collect output files of a run from a workspace, and save them as artifacts; the same for all executors."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from openskills.arguments import check_arguments
from openskills.artifacts.store import Artifact, ArtifactStore, Scope, normalize_name
from openskills.errors import InvalidArgument, SkillError
from openskills.executors.files.globs import compile_globs, escape_glob
from openskills.executors.files.mime import SNIFF_BYTES, detect_mime_type, is_text
from openskills.executors.protocol import Workspace
from openskills.executors.spans import BYTES
from openskills.executors.spec import MIB, RUNS, FileInfo, WorkspaceListing, expand_path
from openskills.paths import to_printable
from openskills.telemetry.metrics import count
from openskills.telemetry.spans import span

PRIMARY_BYTES = 32 * 1024

_LIMITS = ("max_files", "max_file_bytes", "max_total_bytes")
_KEYS = ("globs", "inline", "save", "name_template", *_LIMITS)
_PRIMARY_STEMS = ("answer", "result", "results", "report", "summary", "output", "readme", "index")
_READABLE = ("text/markdown", "text/plain", "text/html", "application/json", "text/csv")


@check_arguments
@dataclass(frozen=True, slots=True)
class OutputSpec:
    """The files to collect: those that match `globs`. With `inline` their content is returned, at most `max_file_bytes`
    of each and `max_total_bytes` in all; with `save` each whole file becomes an artifact named `name_template` + path.
    Files must be new or changed, unless they are named without a pattern.
    """

    globs: tuple[str, ...]
    inline: bool = True
    save: bool = False
    name_template: str = ""
    max_files: int = 100
    max_file_bytes: int = 4 * MIB
    max_total_bytes: int = 64 * MIB

    def __post_init__(self) -> None:
        if not self.globs:
            raise InvalidArgument("outputs.globs", "must not be empty; use patterns such as out/**")
        compile_globs(self.globs, run_dir="runs/run", field="outputs.globs")
        normalize_name(f"{self.name_template}x", field="outputs.name_template")

    @classmethod
    def parse(cls, value: Mapping[str, object]) -> "OutputSpec":
        """Parse arguments of a model: `max_files` or `MaxFiles`, in any case; the first spelling wins.

        Raises `InvalidArgument` for an unknown key or a value of another type.
        """
        given = _normalize_keys(value)
        globs = given.get("globs")
        if isinstance(globs, str):
            globs = [globs]
        if not isinstance(globs, Sequence) or not all(isinstance(one, str) for one in cast("Sequence[object]", globs)):
            raise InvalidArgument("outputs.globs", "expected a list of patterns such as out/**")
        template = given.get("name_template") or ""
        if not isinstance(template, str):
            raise InvalidArgument(
                "outputs.name_template", f"expected a string such as reports/, got {type(template).__name__}"
            )
        return cls(
            tuple(cast("Sequence[str]", globs)),
            inline=_read_flag(given, "inline", default=True),
            save=_read_flag(given, "save", default=False),
            name_template=template,
            **{name: _read_number(given, name) for name in _LIMITS if given.get(name) is not None},
        )


@dataclass(frozen=True, slots=True)
class OutputFile:
    """One file that a run made. `data` is the requested content, `truncated` if a limit cut it; `size` is that of the
    whole file."""

    path: str
    data: bytes = field(repr=False)
    size: int
    mime_type: str
    truncated: bool = False

    @property
    def ref(self) -> str:
        """The reference to the file in later calls of the same session."""
        return f"workspace://{self.path}"

    def text(self) -> str | None:
        """The content as text, without a truncated last character; None if it is not text."""
        return self.data.decode("utf-8", "ignore") if is_text(self.data, cut=self.truncated) else None


def select_primary(files: Iterable[OutputFile], *, limit: int = PRIMARY_BYTES) -> OutputFile | None:
    """The file to show first: complete text of at most `limit` bytes that is not blank; None if there is none.

    Preferred by name (`answer`, `result`, `report`, `summary`, `output`, `readme`, `index`, in this order), then by
    type (Markdown, plain text, HTML, JSON, CSV, others), then by depth, then by path.
    """
    candidates = [file for file in files if not file.truncated and 0 < len(file.data) <= limit]
    return min((file for file in candidates if (file.text() or "").strip()), key=_rank_file, default=None)


def _rank_file(file: OutputFile) -> tuple[int, int, int, str]:
    stem = file.path.rpartition("/")[2].partition(".")[0].lower()
    by_name = _PRIMARY_STEMS.index(stem) if stem in _PRIMARY_STEMS else len(_PRIMARY_STEMS)
    by_type = _READABLE.index(file.mime_type) if file.mime_type in _READABLE else len(_READABLE)
    return by_name, by_type, file.path.count("/"), file.path


def _normalize_keys(value: Mapping[str, object]) -> dict[str, object]:
    """The values under canonical names. A key in snake_case takes precedence over one without underscores."""
    spellings = {key.replace("_", ""): key for key in _KEYS}
    given: dict[str, object] = {}
    for key, one in sorted(value.items(), key=lambda item: "_" in item[0], reverse=True):
        name = spellings.get(key.lower().replace("_", ""))
        if name is None:
            raise InvalidArgument("outputs", f"unknown key {key[:80]!r}; expected one of {', '.join(_KEYS)}")
        given.setdefault(name, one)
    return given


def _read_flag(given: Mapping[str, object], name: str, *, default: bool) -> bool:
    value = given.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise InvalidArgument(f"outputs.{name}", f"expected true or false, got {type(value).__name__}")
    return value


def _read_number(given: Mapping[str, object], name: str) -> int:
    value = given[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidArgument(f"outputs.{name}", f"expected an integer that is not negative, got {value!r}")
    return value


_MAX_CONCURRENT_READS = 4


@dataclass(frozen=True, slots=True)
class OutputCollection:
    """The files, sorted by path, and warnings about missing or truncated ones."""

    files: tuple[OutputFile, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputSaveResult:
    """The artifacts, in the order of the files, and warnings about files that were not saved."""

    artifacts: tuple[Artifact, ...]
    warnings: tuple[str, ...] = ()


async def collect_outputs(
    workspace: Workspace, spec: OutputSpec, *, since: int | None = None, run_dir: str | None = None
) -> OutputCollection:
    """Collect the files that match and were changed since a mark, with as much content as the limits allow.

    Special and unreadable files only give a warning. Raises what `Workspace.list` raises.
    """
    with span("workspace.collect", {"workspace.patterns": len(spec.globs)}) as watched:
        watched.show({"workspace.globs": spec.globs})
        collected = await _collect_files(workspace, spec, since, run_dir)
        size = sum(len(file.data) for file in collected.files)
        watched.set({"workspace.files": len(collected.files), "workspace.bytes": size})
        watched.set({"workspace.warnings": len(collected.warnings)})
    count(BYTES, size, flow="collected")
    return collected


def describe_unmatched(globs: Sequence[str], files: Sequence[OutputFile]) -> list[str]:
    """A warning for each pattern that matches none of the collected files."""
    # Files in a run directory are of this run.
    run_dirs = ("/".join(file.path.split("/")[:2]) for file in files if file.path.startswith(f"{RUNS}/"))
    run_dir = next(run_dirs, f"{RUNS}/run")
    found = {glob: compile_globs([glob], run_dir=run_dir) for glob in globs}
    return [
        f"no new or changed file matches {to_printable(glob[:300])}"
        for glob, matcher in found.items()
        if not any(matcher.matches(file.path) for file in files)
    ]


def drop_empty_files(collected: OutputCollection) -> OutputCollection:
    """Drop empty files, which a failed command leaves where its output was redirected to."""
    files = tuple(file for file in collected.files if file.size)
    left_out = len(collected.files) - len(files)
    if not left_out:
        return collected
    note = f"skipped {left_out} empty output files of a failed command"
    return replace(collected, files=files, warnings=(*collected.warnings, note))


async def _collect_files(
    workspace: Workspace, spec: OutputSpec, since: int | None, run_dir: str | None
) -> OutputCollection:
    globs = [expand_path(pattern, run_dir=run_dir, field="outputs.globs") for pattern in spec.globs]
    listing = await _list_outputs(workspace, globs, since, spec.max_files)
    warnings = [f"skipped: {skipped}" for skipped in listing.skipped]
    if not listing.complete:
        warnings.append(f"too many files; only the first {len(listing.files)} were collected")
    sizes = [min(info.size, spec.max_file_bytes) for info in listing.files]
    plan = list(zip(listing.files, allot_bytes(sizes, spec.max_total_bytes if spec.inline else 0), strict=True))
    without = sum(not share and bool(info.size) for info, share in plan) if spec.inline else 0
    if without:
        limit = f"{spec.max_total_bytes:,} bytes in total"
        warnings.append(f"{without} files have no content: the limit is {limit}; read or save them by their ref")
    files: list[OutputFile] = []
    for read in await _read_files(workspace, plan):
        if isinstance(read, OutputFile):
            files.append(read if spec.inline else replace(read, truncated=False))
        else:
            warnings.append(read)
    return OutputCollection(tuple(files), tuple(warnings))


async def _list_outputs(workspace: Workspace, globs: Sequence[str], since: int | None, limit: int) -> WorkspaceListing:
    """The files that match and were changed since a mark; a file that is named without a pattern may be older."""
    listing = await workspace.list(globs, since=since, limit=limit)
    named = [glob for glob in globs if escape_glob(glob) == glob]
    if not named or since is None or not listing.complete:
        return listing
    older = await workspace.list(named, limit=limit)
    files = {info.path: info for info in (*listing.files, *older.files)}
    found = sorted(files.values(), key=lambda info: info.path)
    return replace(listing, files=tuple(found[:limit]), complete=len(found) <= limit)


async def save_outputs(
    workspace: Workspace, files: Sequence[OutputFile], store: ArtifactStore, scope: Scope, *, prefix: str = ""
) -> OutputSaveResult:
    """Save each whole file as an artifact named `prefix` + path. A file that cannot be saved only gives a warning."""
    artifacts: list[Artifact] = []
    warnings: list[str] = []
    with span("workspace.save", {"workspace.files": len(files)}) as watched:
        for file in files:
            try:
                name = to_printable(prefix + file.path)
                if len(file.data) == file.size:
                    artifacts.append(await store.put(scope, name, file.data, mime_type=file.mime_type))
                    continue
                async with workspace.open(file.path) as reading:
                    artifacts.append(await store.put(scope, name, reading.chunks, mime_type=file.mime_type))
            except (SkillError, OSError) as error:
                warnings.append(f"{to_printable(file.path)} was not saved: {_error_message(error)}")
        size = sum(artifact.size for artifact in artifacts)
        watched.set({"workspace.artifacts": len(artifacts), "workspace.bytes": size})
    count(BYTES, size, flow="saved")
    return OutputSaveResult(tuple(artifacts), tuple(warnings))


def allot_bytes(sizes: Sequence[int], total: int) -> list[int]:
    """How many bytes of each file fit into `total`: small files are whole, large ones get equal shares."""
    shares = [0] * len(sizes)
    for taken, place in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[place] = min(sizes[place], total // (len(sizes) - taken))
        total -= shares[place]
    return shares


async def _read_files(workspace: Workspace, plan: Sequence[tuple[FileInfo, int]]) -> list[OutputFile | str]:
    """Read the files, a few at a time; a string is the error message for one."""
    found: list[OutputFile | str] = []
    with span("workspace.inline", {"workspace.files": len(plan), "workspace.bytes": sum(share for _, share in plan)}):
        for start in range(0, len(plan), _MAX_CONCURRENT_READS):
            found += await asyncio.gather(
                *(_read_file(workspace, *one) for one in plan[start : start + _MAX_CONCURRENT_READS])
            )
    return found


async def _read_file(workspace: Workspace, info: FileInfo, share: int) -> OutputFile | str:
    """A file with its first `share` bytes, or an error message."""
    needed = max(share, SNIFF_BYTES)
    pieces: list[bytes] = []
    try:
        async with workspace.open(info.path) as reading:
            size = reading.info.size
            async for chunk in reading.chunks:
                pieces.append(chunk)
                needed -= len(chunk)
                if needed <= 0:
                    break
    except (SkillError, OSError) as error:
        return f"{to_printable(info.path)} could not be read: {_error_message(error)}"
    # A single piece is not copied.
    data = b"".join(pieces)
    head = data[:SNIFF_BYTES]
    data = data if len(data) == share else data[:share]
    return OutputFile(info.path, data, size, detect_mime_type(info.path, head), truncated=len(data) < size)


def _error_message(error: SkillError | OSError) -> str:
    return error.message if isinstance(error, SkillError) else error.strerror or str(error)
