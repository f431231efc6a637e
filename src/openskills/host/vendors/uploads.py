"""Uploads: multipart bodies that are written to disk as they arrive, and the skill that they contain.

Names that the client sends are never used as paths before they were checked.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from openskills.catalog.skill import SKILL_FILE
from openskills.catalog.sources.archive import BLOCK, EntryNames, UnpackLimits, detect_format, pack_folder, unpack
from openskills.catalog.validate import validate
from openskills.errors import (
    ForbiddenPath,
    InvalidArgument,
    InvalidSkill,
    LimitExceeded,
    UnsupportedMedia,
)
from openskills.host import http
from openskills.host.http import ClientDisconnect, HttpExchange, HttpRefusal, check_body_headers
from openskills.host.skills import StagedSkill
from openskills.skillmd.frontmatter import decode
from openskills.skillmd.manifest import SkillManifest
from openskills.skillmd.parse import parse
from openskills.skillmd.problem import select_errors

MAX_FILES = 1000
"""Files of a form, and files and folders of a skill."""
_MAX_PARTS = 3 * MAX_FILES + 100
_MAX_ECHO = 5
"""Anthropic's SDK of the beta sends files twice, the second time as text of up to so many times their size."""
_ECHO = "files[][]"
MAX_FIELD_BYTES = 64 * 1024
"""Bytes of all fields that are not files, which are kept in memory."""
MAX_UPLOAD_SECONDS = 600.0
_MAX_FIELDS = 20
_MAX_PART_HEADERS = 8
_MAX_PART_HEADER_BYTES = 4096
_MAX_SHOWN_PROBLEMS = 5
_OVERHEAD = 1024 * MAX_FILES
"""Bytes of a body besides its files: boundaries and headers of parts."""


@dataclass(slots=True)
class FormFile:
    """A file of a form, as it is on disk. `name` is what the client says."""

    field: str
    name: str
    path: Path
    size: int = 0


@dataclass(slots=True)
class MultipartUpload:
    """A multipart form. The names of fields are without `[]`."""

    fields: dict[str, str] = field(default_factory=dict[str, str])
    files: list[FormFile] = field(default_factory=list[FormFile])


async def receive_form(
    exchange: HttpExchange, directory: Path, *, max_bytes: int, timeout: float, has_echo: bool = False
) -> MultipartUpload:
    """Read a multipart body; its files are written to `directory`.

    `max_bytes` limits all files together, and `timeout` each pause. `has_echo`: the client is an SDK that sends files
    also as text, which is ignored. Raises `InvalidArgument` for an incomplete or
    malformed body, `UnsupportedMedia`, `HttpRefusal` if it is too large or too slow, and `ClientDisconnect`.
    """
    boundary = _read_boundary(exchange.headers.get(b"content-type") or b"")
    max_body = max_bytes * (1 + _MAX_ECHO if has_echo else 1) + _OVERHEAD
    check_body_headers(exchange, max_body)
    reader = _FormReader(boundary, directory, max_bytes, max_body)
    try:
        async with asyncio.timeout(MAX_UPLOAD_SECONDS):
            while True:
                async with asyncio.timeout(timeout):
                    message = await exchange.receive()
                if message["type"] != "http.request":
                    raise ClientDisconnect
                reader.write(message.get("body", b""))
                if not message.get("more_body", False):
                    return reader.finish()
    except TimeoutError:
        raise HttpRefusal(http.body_too_slow(timeout), close=True) from None
    finally:
        reader.close()


def _read_boundary(content_type: bytes) -> bytes:
    kind, options = parse_options_header(content_type)
    if kind.lower() != b"multipart/form-data":
        found = content_type.decode("latin-1")[:100]
        raise UnsupportedMedia(f"expected multipart/form-data, not {found!r}")
    boundary = options.get(b"boundary", b"")
    if not 0 < len(boundary) <= 200:
        raise InvalidArgument("Content-Type", "a boundary of at most 200 characters is missing")
    return boundary


class _FormReader:
    """Parses a body as it arrives. Fields are kept in memory, files are written to disk."""

    def __init__(self, boundary: bytes, directory: Path, max_bytes: int, max_body: int) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._max_body = max_body
        self._form = MultipartUpload()
        self._headers: dict[str, bytes] = {}
        self._name, self._value = b"", b""
        self._field: str | None = None
        self._text = b""
        self._file: IO[bytes] | None = None
        self._parts = self._size = self._total = self._text_size = 0
        self._is_ended = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin_part,
                "on_header_field": self._add_header_name,
                "on_header_value": self._add_header_value,
                "on_header_end": self._end_header,
                "on_headers_finished": self._end_headers,
                "on_part_data": self._add_data,
                "on_part_end": self._end_part,
                "on_end": self._end,
            },
            max_header_count=_MAX_PART_HEADERS,
            max_header_size=_MAX_PART_HEADER_BYTES,
        )

    def write(self, data: bytes) -> None:
        self._total += len(data)
        if self._total > self._max_body:
            raise HttpRefusal(http.body_too_large(None, self._max_bytes))
        try:
            if data and not self._is_ended:
                self._parser.write(data)
        except FormParserError as error:
            raise InvalidArgument("body", f"not valid multipart/form-data: {str(error)[:200]}") from None

    def finish(self) -> MultipartUpload:
        if not self._is_ended:
            raise InvalidArgument("body", "the multipart body has no end: its last boundary is missing")
        return self._form

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _begin_part(self) -> None:
        self._parts += 1
        if self._parts > _MAX_PARTS or len(self._form.files) > MAX_FILES:
            raise LimitExceeded(f"the body has too many parts; send at most {MAX_FILES:,} files")
        self._headers = {}

    def _add_header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _add_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        name = self._name.decode("latin-1").lower()
        if name in self._headers:
            raise InvalidArgument("body", f"a part has two headers {name[:50]!r}")
        self._headers[name] = self._value
        self._name, self._value = b"", b""

    def _end_headers(self) -> None:
        kind, options = parse_options_header(self._headers.get("content-disposition"))
        name = _decode(options.get(b"name", b""))
        if kind != b"form-data" or not name:
            raise InvalidArgument("body", "a part has no `Content-Disposition: form-data` with a name")
        filename = options.get(b"filename")
        if filename is None:
            if name in self._form.fields:
                raise InvalidArgument(name[:50], "was sent twice")
            if len(self._form.fields) >= _MAX_FIELDS:
                raise LimitExceeded(f"the body has more than {_MAX_FIELDS} fields besides files")
            self._field, self._text = None if name == _ECHO else name, b""
            return
        name = name.removesuffix("[]")
        path = self._directory / f"part-{self._parts}"
        self._form.files.append(FormFile(name, _decode(filename), path))
        self._file = path.open("xb")

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._file is None:
            if self._field is not None:
                self._text += data[start:end]
                self._text_size += end - start
            if self._text_size > MAX_FIELD_BYTES:
                raise LimitExceeded(f"the fields besides files have more than {MAX_FIELD_BYTES:,} bytes")
            return
        self._size += end - start
        if self._size > self._max_bytes:
            raise HttpRefusal(http.body_too_large(None, self._max_bytes))
        self._form.files[-1].size += end - start
        self._file.write(data[start:end])

    def _end_part(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        elif self._field is not None:
            self._form.fields[self._field] = _decode(self._text)

    def _end(self) -> None:
        self._is_ended = True


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidArgument("body", f"{data[:50]!r} is not valid UTF-8") from None


def stage_skill(files: Iterable[FormFile], directory: Path, *, max_bytes: int) -> StagedSkill:
    """Check the skill in uploaded files: one zip archive, or all files of the skill. Blocking.

    Raises `InvalidArgument` that names what is wrong, with the line, and `LimitExceeded`.
    """
    given = list(files)
    if not given:
        raise InvalidArgument("files", "missing; send the files of the skill, or one zip archive, as `files[]`")
    raw = directory / "raw"
    try:
        if len(given) == 1 and _is_archive(given[0]):
            limits = UnpackLimits(total=4 * max_bytes, per_entry=max_bytes, entries=MAX_FILES)
            unpack(given[0].path, raw, limits=limits, label=given[0].name or "files")
        else:
            _place_files(given, raw)
        folder, manifest = _name_folder(raw, directory)
    except (InvalidSkill, ForbiddenPath, UnsupportedMedia) as error:
        raise InvalidArgument("files", error.message) from None
    return _check_skill(folder, manifest, directory / "skill.zip")


def _is_archive(file: FormFile) -> bool:
    if PurePosixPath(file.name).name == SKILL_FILE:
        return False
    with file.path.open("rb") as opened:
        kind = detect_format(opened.read(BLOCK))
    if kind != "zip":
        raise UnsupportedMedia(f"{file.name[:100]!r} is not a zip archive, and there is no {SKILL_FILE}")
    return True


def _place_files(files: Iterable[FormFile], into: Path) -> None:
    names = EntryNames("files", MAX_FILES)
    into.mkdir()
    for file in files:
        path = into / names.add_file(file.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        file.path.rename(path)


def _name_folder(raw: Path, directory: Path) -> tuple[Path, SkillManifest | None]:
    """Move the skill, which may be in one folder of any name, to a folder of its own name; also its manifest."""
    top = raw
    if not (raw / SKILL_FILE).is_file():
        children = list(raw.iterdir())
        if len(children) != 1 or not (children[0] / SKILL_FILE).is_file():
            raise InvalidSkill(f"expected {SKILL_FILE}, and all other files, in one folder")
        top = children[0]
    others = [path for path in top.rglob(SKILL_FILE) if path != top / SKILL_FILE]
    if others:
        shown = others[0].relative_to(top)
        raise InvalidSkill(f"expected one {SKILL_FILE}; {str(shown)[:200]!r} is another one")
    manifest = parse(decode((top / SKILL_FILE).read_bytes())[0]).manifest
    name = manifest.name if manifest is not None else ""
    # A name that is not a file name is an error of the skill, which is reported with its line.
    is_name = 0 < len(name) <= 64 and "/" not in name and "\0" not in name and name not in {".", ".."}
    folder = directory / "named" / (name if is_name else "skill")
    folder.parent.mkdir()
    return top.rename(folder), manifest


def _check_skill(folder: Path, manifest: SkillManifest | None, archive: Path) -> StagedSkill:
    result = validate(folder)
    errors = [problem.with_path(SKILL_FILE) for problem in select_errors(result.problems)]
    if errors:
        shown = "; ".join(map(str, errors[:_MAX_SHOWN_PROBLEMS]))
        more = f"; and {len(errors) - _MAX_SHOWN_PROBLEMS} more" if len(errors) > _MAX_SHOWN_PROBLEMS else ""
        raise InvalidArgument("files", f"the skill is not valid: {shown}{more}")
    if manifest is None or manifest.name != folder.name:
        raise InvalidArgument("files", f"{SKILL_FILE} has no usable name")
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    digest, size = pack_folder(folder, folder.name, archive, map(str, paths))
    return StagedSkill(manifest.name, manifest.description or "", folder, archive, digest, size)
