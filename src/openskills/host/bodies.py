"""Bodies of requests: JSON objects, and messages and forms with files."""

import binascii
from base64 import b64decode
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from openskills.errors import InvalidArgument
from openskills.executors.files.mime import SNIFF_BYTES, detect_mime_type
from openskills.host.http import HttpExchange, read_body, stream_body
from openskills.host.openapi import MAX_MESSAGE_CHARS, MAX_MESSAGE_FILES
from openskills.host.parts import HostParts
from openskills.host.strict_json import check_json, read_json

if TYPE_CHECKING:
    from starlette.datastructures import FormData

    from openskills.agent.runner import Attachment
    from openskills.host.conversations import NewMessage

MAX_UPLOAD = 32 * 1024 * 1024
"""Bytes of a message with its files."""


async def read_object(exchange: HttpExchange, parts: HostParts, limit: int) -> dict[str, Any]:
    """The JSON object in the body. Raises `InvalidArgument`, `UnsupportedMedia` and `HttpRefusal`."""
    return _parse_object(exchange, await read_body(exchange, limit, timeout=parts.options.body_seconds))


def _parse_object(exchange: HttpExchange, body: bytes) -> dict[str, Any]:
    check_json(exchange.headers.get(b"content-type"))
    value = read_json(body)
    if not isinstance(value, dict):
        raise InvalidArgument("body", "expected a JSON object")
    return cast("dict[str, Any]", value)


async def read_fields(exchange: HttpExchange, parts: HostParts, known: Sequence[str], max_bytes: int = 0) -> Any:
    """The JSON object in the body, which may be missing. Raises `InvalidArgument` for unknown fields."""
    limit = max_bytes or parts.settings.host_max_body
    body = await read_body(exchange, limit, timeout=parts.options.body_seconds)
    if not body:
        return {}
    fields = _parse_object(exchange, body)
    for name in fields:
        if name not in known:
            raise InvalidArgument(name[:100], f"unknown field; use {', '.join(known)}")
    return fields


def read_text(fields: Mapping[str, Any], name: str) -> str:
    """The text in a field, empty if it is missing. Raises `InvalidArgument`."""
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise InvalidArgument(name, "expected text")
    return value


def read_flag(fields: Mapping[str, Any], name: str) -> bool:
    """The boolean in a field, false if it is missing. Raises `InvalidArgument`."""
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise InvalidArgument(name, "expected true or false")
    return value


async def read_message(exchange: HttpExchange, parts: HostParts) -> "NewMessage":
    """The message in a body. Raises `InvalidArgument`, `UnsupportedMedia` and `HttpRefusal`."""
    if (exchange.header(b"content-type") or "").partition(";")[0].strip() == "multipart/form-data":
        fields, files = await read_form(exchange, parts)
        return _build_message(fields.get("text", ""), files, fields.get("model") or None)
    fields = await read_fields(exchange, parts, ("text", "model", "files"), MAX_UPLOAD)
    listed: object = fields.get("files", [])
    if not isinstance(listed, list):
        raise InvalidArgument("files", 'expected a list such as [{"name": "a.csv", "data": "BASE64"}]')
    files = [_parse_file(one, index) for index, one in enumerate(cast("list[object]", listed))]
    model = read_text(fields, "model") if "model" in fields else None
    return _build_message(read_text(fields, "text"), files, model)


def _build_message(text: str, files: "Sequence[Attachment]", model: str | None) -> "NewMessage":
    if not text.strip() and not files:
        raise InvalidArgument("text", "must not be empty without files")
    if len(text) > MAX_MESSAGE_CHARS:
        raise InvalidArgument("text", f"longer than {MAX_MESSAGE_CHARS:,} characters; send it as a file")
    if len(files) > MAX_MESSAGE_FILES:
        raise InvalidArgument("files", f"{len(files)} files; at most {MAX_MESSAGE_FILES} can be sent with a message")
    from openskills.host.conversations import NewMessage

    return NewMessage(text.replace("\r\n", "\n").strip(), tuple(files), model)


def _parse_file(value: object, index: int) -> "Attachment":
    field = f"files[{index}]"
    if not isinstance(value, dict):
        raise InvalidArgument(field, 'expected an object such as {"name": "a.csv", "data": "BASE64"}')
    given = cast("dict[str, Any]", value)
    name = read_text(given, "name")
    try:
        return _build_attachment(name, b64decode(read_text(given, "data"), validate=True), field)
    except (binascii.Error, ValueError):
        raise InvalidArgument(f"{field}.data", "expected base64") from None


def _build_attachment(name: str, data: bytes, field: str) -> "Attachment":
    if not name.strip() or len(name) > 512:
        raise InvalidArgument(f"{field}.name", "expected 1 to 512 characters")
    from openskills.agent.runner import Attachment

    # A browser's name of a file is not trusted; it is the name that commands see after cleaning.
    return Attachment(name, data, mime_type=detect_mime_type(name, data[:SNIFF_BYTES]))


async def read_form(exchange: HttpExchange, parts: HostParts) -> "tuple[dict[str, str], list[Attachment]]":
    """The fields and files of a form (`multipart/form-data`). Raises `InvalidArgument` and `HttpRefusal`."""
    timeout = max(parts.options.body_seconds, 60.0)
    async with open_form(exchange, MAX_UPLOAD, timeout=timeout, max_files=MAX_MESSAGE_FILES, max_fields=50) as form:
        fields = {name: value for name, value in form.multi_items() if isinstance(value, str)}
        uploads = [value for _, value in form.multi_items() if not isinstance(value, str) and value.filename]
        files = [
            _build_attachment(upload.filename or "", await upload.read(), f"files[{index}]")
            for index, upload in enumerate(uploads)
        ]
    return fields, files


@asynccontextmanager
async def open_form(
    exchange: HttpExchange, max_bytes: int, *, timeout: float, max_files: float = 1_000, max_fields: float = 1_000
) -> "AsyncGenerator[FormData]":
    """A form with files (`multipart/form-data`); large files are on disk until the end of the block.

    Raises `InvalidArgument` and `HttpRefusal`.
    """
    from starlette.datastructures import Headers as FormHeaders
    from starlette.formparsers import MultiPartException, MultiPartParser

    headers, limits = FormHeaders(raw=exchange.scope["headers"]), {"max_files": max_files, "max_fields": max_fields}
    async with aclosing(stream_body(exchange, max_bytes, timeout=timeout)) as body:
        try:
            form = await MultiPartParser(headers, body, max_part_size=max_bytes, **limits).parse()
        except (MultiPartException, KeyError, ValueError) as error:
            raise InvalidArgument("body", f"not a valid form: {str(error)[:200] or type(error).__name__}") from None
    try:
        yield form
    finally:
        await form.close()
