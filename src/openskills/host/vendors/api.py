"""`/v1/skills` and `/v1/files` as Anthropic and OpenAI have them, for clients of both.

The header `anthropic-version` selects the dialect, also of errors.
"""

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import orjson

from openskills.concurrency import read_chunks
from openskills.errors import InvalidArgument, SkillError, SourceUnavailable, TooManyRequests, UnknownUpload
from openskills.executors.files.mime import SNIFF_BYTES, detect_mime_type
from openskills.host import http
from openskills.host.auth import ANONYMOUS, PUBLISH_SCOPE, WRITE_SCOPE, Principal
from openskills.host.http import (
    ClientDisconnect,
    HttpExchange,
    HttpRefusal,
    HttpResponse,
    Receive,
    Scope,
    Send,
    build_file_headers,
    build_headers,
    read_body,
    send_file,
)
from openskills.host.invoke import add_allow_header, options_response
from openskills.host.model import Failure
from openskills.host.parts import HostParts
from openskills.host.registry.reload import notify_reload, reload
from openskills.host.routes import get_parts
from openskills.host.skills import SHARED, SkillStore, StagedSkill, UploadAccess
from openskills.host.vendors.anthropic import AnthropicDialect
from openskills.host.vendors.openai import OpenaiDialect
from openskills.host.vendors.uploads import MultipartUpload, receive_form, stage_skill

_log = logging.getLogger("openskills.host")
Dialect = AnthropicDialect | OpenaiDialect
MAX_UPLOADS, MAX_UPLOADS_PER_KEY = 64, 8
"""Uploads that one process receives at a time, of all callers and of each key."""
_MAX_NAME = 255
_MAX_IDS = 100
_PURPOSES = ("assistants", "assistants_output", "batch", "batch_output", "fine-tune", "fine-tune-results", "vision")


class VendorApi:
    """Everything below `/v1`. Belongs to one host."""

    def __init__(self) -> None:
        self._uploading: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; errors are in the dialect of the caller."""
        exchange = HttpExchange(scope, receive, send)
        betas = exchange.header(b"anthropic-beta") or ""
        dialect = AnthropicDialect(betas) if b"anthropic-version" in exchange.headers else OpenaiDialect()
        with suppress(ClientDisconnect):
            try:
                answer = await self._handle(exchange, dialect)
            except HttpRefusal as refused:
                answer = build_error(exchange, dialect, refused.failure)
                answer = add_allow_header(answer, refused.allow) if refused.allow else answer
                await exchange.send_response(answer, close=refused.close)
            except SkillError as error:
                await exchange.send_response(build_error(exchange, dialect, _hide_details(error, exchange.trace.id)))
            except ClientDisconnect:
                raise
            except Exception:
                _log.exception("request failed, trace id %s", exchange.trace.id)
                if exchange.answered:
                    raise
                failure = http.internal_error(exchange.trace.id)
                await exchange.send_response(build_error(exchange, dialect, failure))
            else:
                if answer is not None:
                    await exchange.send_response(answer)

    async def _handle(self, exchange: HttpExchange, dialect: Dialect) -> HttpResponse | None:
        if exchange.hostile is not None:
            raise exchange.hostile
        parts = get_parts(exchange)
        if parts is None:
            raise HttpRefusal(http.host_starting())
        principal = parts.authenticator.authenticate(exchange)
        _check_page(exchange)
        request = VendorRequest(exchange, parts, dialect, principal)
        methods = request.find_handlers()
        if methods is None or request.parts.uploads is None:
            raise HttpRefusal(http.unknown_address(exchange.path))
        if "GET" in methods:
            methods = {**methods, "HEAD": methods["GET"]}
        allowed = (*methods, "OPTIONS")
        if exchange.method == "OPTIONS":
            return options_response(exchange, allowed)
        handler = methods.get(exchange.method)
        if handler is None:
            raise HttpRefusal(http.wrong_method(exchange.method, allowed), allow=allowed)
        parts.host.count_request(principal)
        if exchange.method in {"GET", "HEAD"}:
            return await handler()
        if parts.host.draining:
            raise HttpRefusal(http.host_draining())
        name = principal.name
        if self._uploading[name] >= MAX_UPLOADS_PER_KEY or self._uploading.total() >= MAX_UPLOADS:
            message = f"{self._uploading[name]} uploads of {name!r} are running; try again later"
            raise TooManyRequests(message, limit="uploads", retry_after=1)
        self._uploading[name] += 1
        try:
            return await handler()
        finally:
            self._uploading[name] -= 1
            # Only those that upload are kept.
            self._uploading += Counter()


def _check_page(exchange: HttpExchange) -> None:
    """Refuse changes that web pages of other sites ask for, also those of other servers on this machine.

    A form needs no permission of this host, and without keys it would publish skills.
    """
    origin, host = exchange.header(b"origin"), exchange.header(b"host") or ""
    is_change = exchange.method not in http.SAFE_METHODS
    if origin is not None and is_change and urlsplit(origin).netloc.lower() != host.lower():
        raise HttpRefusal(http.wrong_origin(origin))


Handler = Callable[[], Awaitable[HttpResponse | None]]


class VendorRequest:
    """A request of an authenticated caller."""

    def __init__(self, exchange: HttpExchange, parts: HostParts, dialect: Dialect, principal: Principal) -> None:
        self.parts = parts
        self._exchange = exchange
        self._dialect = dialect
        self._principal = principal
        self._words = exchange.path.removeprefix("/v1/").split("/")

    def find_handlers(self) -> Mapping[str, Handler] | None:
        """The handlers of this path by method; None for an unknown path."""
        has_default = self._dialect.has_default_version
        match self._words:
            case ["skills"]:
                return {"GET": self._list_skills, "POST": self._create_skill}
            case ["skills", _]:
                found: dict[str, Handler] = {"GET": self._get_skill, "DELETE": self._delete_skill}
                return {**found, "POST": self._update_skill} if has_default else found
            case ["skills", _, "content"] if has_default:
                return {"GET": partial(self._send_skill, "default")}
            case ["skills", _, "versions"]:
                return {"GET": self._list_versions, "POST": self._create_version}
            case ["skills", _, "versions", _]:
                return {"GET": self._get_version, "DELETE": self._delete_version}
            case ["skills", _, "versions", version, "content"]:
                return {"GET": partial(self._send_skill, version)}
            case ["files"]:
                return {"GET": self._list_files, "POST": self._create_file}
            case ["files", _]:
                return {"GET": self._get_file, "DELETE": self._delete_file}
            case ["files", _, "content"]:
                return {"GET": self._download_file}
            case _:
                return None

    @property
    def _store(self) -> SkillStore:
        assert self.parts.uploads is not None  # noqa: S101 - checked before
        return self.parts.uploads

    @property
    def _access(self) -> UploadAccess:
        principal, writes = self._principal, None
        if principal is ANONYMOUS:
            # Without keys, the users of this machine share everything.
            writes = SHARED if self.parts.authenticator.is_from_here(self._exchange) else None
        elif PUBLISH_SCOPE in principal.scopes:
            writes = SHARED
        elif WRITE_SCOPE in principal.scopes:
            writes = principal.owner
        return UploadAccess(principal.owner, writes)

    def _respond(self, document: Mapping[str, Any]) -> HttpResponse:
        body = orjson.dumps(document)
        headers = build_headers(self._exchange.trace, body)
        headers.append((self._dialect.request_id_header, self._exchange.trace.id.encode("ascii")))
        return HttpResponse(200, headers, body)

    async def _list_skills(self) -> HttpResponse:
        query = self._exchange.read_query()
        found, has_more = await self._store.list_skills(self._access, self._dialect.read_page(query))
        if query.get("source", "custom") != "custom" and not self._dialect.has_default_version:
            # Only Anthropic itself has skills of other sources.
            found, has_more = [], False
        return self._respond(self._dialect.build_page([*map(self._dialect.build_skill, found)], has_more=has_more))

    async def _get_skill(self) -> HttpResponse:
        return self._respond(self._dialect.build_skill(await self._store.get_skill(self._access, self._words[1])))

    async def _create_skill(self) -> HttpResponse:
        access = self._access
        access.check_change(access.writes or "")

        async def store(form: MultipartUpload, staged: StagedSkill) -> HttpResponse:
            label = form.fields.get("display_name") or form.fields.get("display_title") or ""
            if len(label) > _MAX_NAME or not label.isprintable():
                raise InvalidArgument("display_name", f"expected one line of at most {_MAX_NAME} characters")
            made = await self._store.create(access, staged, label.strip())
            return self._respond(self._dialect.build_skill(made))

        return await self._receive_skill(store)

    async def _create_version(self) -> HttpResponse:
        access, skill_id = self._access, self._words[1]
        access.check_change((await self._store.get_skill(access, skill_id)).owner)

        async def store(form: MultipartUpload, staged: StagedSkill) -> HttpResponse:
            # Anthropic has no default: the latest version counts.
            default = not self._dialect.has_default_version or _read_flag(form.fields.get("default"))
            made = await self._store.add_version(access, skill_id, staged, default=default)
            return self._respond(self._dialect.build_version(made))

        return await self._receive_skill(store)

    async def _receive_skill(
        self, store: Callable[[MultipartUpload, StagedSkill], Awaitable[HttpResponse]]
    ) -> HttpResponse:
        limit, timeout = self.parts.settings.host_upload_size, self.parts.options.body_seconds
        with self._store.receive() as directory:
            has_echo = not self._dialect.is_current
            form = await receive_form(self._exchange, directory, max_bytes=limit, timeout=timeout, has_echo=has_echo)
            files = [file for file in form.files if file.field == "files"]
            if len(files) < len(form.files):
                raise InvalidArgument("files", "send all files in parts named `files[]`")
            async with self.parts.host.admit(self._principal):
                staged = await asyncio.to_thread(stage_skill, files, directory, max_bytes=limit)
                answer = await store(form, staged)
        await self._publish()
        return answer

    async def _publish(self) -> None:
        """Let everybody see what has changed, before the caller is told that it has."""
        if not await reload(self.parts):
            # A skill without scripts is for MCP clients only.
            await notify_reload(self.parts)

    async def _update_skill(self) -> HttpResponse:
        body = await read_body(self._exchange, self.parts.settings.host_max_body)
        try:
            given: Any = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise InvalidArgument("body", "not valid JSON") from None
        version = cast("dict[str, Any]", given).get("default_version") if isinstance(given, dict) else None
        if not isinstance(version, str):
            raise InvalidArgument("default_version", "expected the number of a version, as text")
        changed = await self._store.set_default(self._access, self._words[1], version)
        await self._publish()
        return self._respond(self._dialect.build_skill(changed))

    async def _delete_skill(self) -> HttpResponse:
        with_versions = self._dialect.is_current
        removed = await self._store.remove_skill(self._access, self._words[1], with_versions=with_versions)
        await self._publish()
        return self._respond(self._dialect.build_deleted(removed))

    async def _list_versions(self) -> HttpResponse:
        page = self._dialect.read_page(self._exchange.read_query())
        found, has_more = await self._store.list_versions(self._access, self._words[1], page)
        return self._respond(self._dialect.build_page([*map(self._dialect.build_version, found)], has_more=has_more))

    async def _get_version(self) -> HttpResponse:
        found = await self._store.get_version(self._access, self._words[1], self._words[3])
        return self._respond(self._dialect.build_version(found))

    async def _delete_version(self) -> HttpResponse:
        skill_id, version = self._words[1], self._words[3]
        may_be_last = not self._dialect.is_current
        removed = await self._store.remove_version(self._access, skill_id, version, may_be_last=may_be_last)
        await self._publish()
        return self._respond(self._dialect.build_deleted(removed))

    async def _send_skill(self, version: str) -> None:
        found = await self._store.get_version(self._access, self._words[1], version)
        await self._send_blob(found.digest, "application/zip", f"{found.name}.zip")

    async def _send_blob(self, digest: str, mime_type: str, name: str) -> None:
        exchange, path = self._exchange, await self._store.fetch_blob(digest)
        headers = [
            *build_file_headers(name, mime_type),
            (b"x-openskill-digest", f"sha256:{digest}".encode("ascii")),
            (self._dialect.request_id_header, exchange.trace.id.encode("ascii")),
        ]
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            async with aclosing(read_chunks(file.fileno(), size)) as chunks:
                await send_file(exchange, chunks, size, headers)

    async def _list_files(self) -> HttpResponse:
        query = self._exchange.read_query()
        text = self._exchange.scope["query_string"].decode("latin-1")
        ids = [value for name, value in parse_qsl(text) if name.removesuffix("[]") == "ids"]
        if ids and not self._dialect.has_default_version:
            return await self._list_named_files(ids)
        page, purpose = self._dialect.read_page(query), query.get("purpose")
        found, has_more = await self._store.list_files(self._access, page, purpose)
        return self._respond(self._dialect.build_page([*map(self._dialect.build_file, found)], has_more=has_more))

    async def _list_named_files(self, ids: Sequence[str]) -> HttpResponse:
        """The files with these ids, as Anthropic's clients can ask for; unknown ones are left out."""
        if len(ids) > _MAX_IDS:
            raise InvalidArgument("ids", f"expected at most {_MAX_IDS} ids")
        found: list[dict[str, Any]] = []
        for file_id in dict.fromkeys(ids):
            with suppress(UnknownUpload):
                found.append(self._dialect.build_file(await self._store.get_file(self._access, file_id)))
        return self._respond(self._dialect.build_page(found, has_more=False))

    async def _create_file(self) -> HttpResponse:
        access = self._access
        access.check_change(access.writes or "")
        limit, timeout = self.parts.settings.host_upload_size, self.parts.options.body_seconds
        with self._store.receive() as directory:
            form = await receive_form(self._exchange, directory, max_bytes=limit, timeout=timeout)
            if len(form.files) != 1 or form.files[0].field != "file":
                raise InvalidArgument("file", "expected one part named `file` with a file name")
            file, purpose = form.files[0], form.fields.get("purpose", "user_data")
            if purpose not in (*_PURPOSES, "user_data"):
                raise InvalidArgument("purpose", f"{purpose[:50]!r} is not one of {', '.join(_PURPOSES)}, user_data")
            expires = self._dialect.read_expiry(form, time.time())
            name = PurePosixPath(file.name.replace("\\", "/")).name[:_MAX_NAME]
            name = "".join(char if char.isprintable() else "_" for char in name) or "unnamed"
            async with self.parts.host.admit(self._principal):
                mime_type = await asyncio.to_thread(_detect_mime_type, file.path, name)
                made = await self._store.add_file(access, file.path, name, mime_type, purpose, expires)
        return self._respond(self._dialect.build_file(made))

    async def _get_file(self) -> HttpResponse:
        return self._respond(self._dialect.build_file(await self._store.get_file(self._access, self._words[1])))

    async def _delete_file(self) -> HttpResponse:
        removed = await self._store.remove_file(self._access, self._words[1])
        return self._respond(self._dialect.build_deleted(removed))

    async def _download_file(self) -> None:
        file = await self._store.get_file(self._access, self._words[1])
        await self._send_blob(file.digest, "application/octet-stream", file.name)


def build_error(exchange: HttpExchange, dialect: Dialect, failure: Failure) -> HttpResponse:
    """An error in the dialect of the caller."""
    body = orjson.dumps(dialect.build_error(failure, exchange.trace))
    headers = build_headers(exchange.trace, body, failure)
    headers.append((dialect.request_id_header, exchange.trace.id.encode("ascii")))
    return HttpResponse(failure.code, headers, body)


def _hide_details(error: SkillError, trace_id: str) -> Failure:
    """The failure for an error. Where the host keeps uploads is only logged."""
    failure = Failure.from_error(error)
    if not isinstance(error, SourceUnavailable) and type(error) is not SkillError:
        return failure
    _log.warning("trace id %s: %s", trace_id, error.message)
    return replace(failure, message=f"the host cannot store or read uploads; see its log for trace id {trace_id}")


def _read_flag(text: str | None) -> bool:
    if text is not None and text.lower() not in {"true", "false"}:
        raise InvalidArgument("default", f"{text[:50]!r} is not one of true, false")
    return text is not None and text.lower() == "true"


def _detect_mime_type(path: Path, name: str) -> str:
    with path.open("rb") as file:
        return detect_mime_type(name, file.read(SNIFF_BYTES))
