"""Calls skills that are behind HTTP (`http`): `{"input": ...}` is posted to their URL, and a JSON object comes back.

The name is looked up once, the address is checked (`http_targets.py`) and that one is dialled. Redirects are not
followed, answers are read up to the limit of the skill, proxies of the environment are not used.
"""

import asyncio
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import httpx2

from openskills.errors import BadSkillOutput, ExecutorUnavailable
from openskills.host.registration import Registration
from openskills.host.result import Failure, Outcome, failed
from openskills.host.runner import Call
from openskills.host.running.adapting import Written, adapted, excerpt, too_late
from openskills.host.running.command_input import call_input
from openskills.host.running.http_targets import allowed, check_name, parse_target
from openskills.host.running.json_output import NotJson, json_object, looks_like_result
from openskills.host.running.manifest_fault import ManifestFault
from openskills.settings import Settings

_PORTS = {"http": 80, "https": 443}
_METHODS = ("POST", "PUT", "PATCH")
_SECRET = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "x-trace-id", "traceparent"})
_NOTES = {"isolation": "remote"}
_OK, _REDIRECT, _CLIENT_ERROR = 200, 300, 400


@dataclass(frozen=True, slots=True)
class _Where:
    """Where a skill is. `url` has the address instead of the name."""

    url: httpx2.URL
    host: str
    header: str


class HttpRunner:
    """Implements `Runner`."""

    def __init__(self, settings: Settings) -> None:
        self._targets = tuple(parse_target(text) for text in settings.host_http_targets)
        self._client = httpx2.AsyncClient(follow_redirects=False, trust_env=False, timeout=None)

    async def prepare(self, registration: Registration) -> None:
        """See `Runner.prepare`. Whether the other side answers is seen when it is called."""
        url = _url(registration)
        check_name(url.host.lower(), _port(url), self._targets)
        _method(registration)
        _headers(registration, dict.fromkeys(registration.secrets, ""))

    async def invoke(self, registration: Registration, call: Call) -> Outcome:
        """See `Runner.invoke`."""
        method, headers = _method(registration), _headers(registration, call.secrets)
        try:
            async with asyncio.timeout_at(call.deadline):
                where = await self._resolved(_url(registration))
                return await self._asked(registration, call, where, method, headers)
        except TimeoutError:
            return too_late(registration.timeout_ms, Written(b"", notes=_NOTES))
        except httpx2.HTTPError as error:
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise ExecutorUnavailable(f"the skill at {registration.entry} cannot be reached: {said}") from None

    async def forget(self, skill_id: str) -> None:
        """See `Runner.forget`. Nothing is kept for a skill."""

    async def close(self) -> None:
        """See `Runner.close`."""
        await self._client.aclose()

    async def _resolved(self, url: httpx2.URL) -> _Where:
        host, port = url.host.lower(), _port(url)
        check_name(host, port, self._targets)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ExecutorUnavailable(f"the name {host} cannot be looked up: {error.strerror or error}") from None
        address = allowed(host, port, [str(one[4][0]) for one in found], self._targets)
        return _Where(url.copy_with(host=address), host, url.netloc.decode("ascii"))

    async def _asked(
        self, registration: Registration, call: Call, where: _Where, method: str, headers: Mapping[str, str]
    ) -> Outcome:
        parent = {} if call.traceparent is None else {"traceparent": call.traceparent}
        request = self._client.build_request(
            method,
            where.url,
            content=call_input(call.input),
            headers={**headers, **parent, "host": where.header, "x-trace-id": call.trace_id},
            # The certificate must be of the name, not of the number.
            extensions={"sni_hostname": where.host},
        )
        response = await self._client.send(request, stream=True)
        try:
            body = await _body(response, registration.limits.output_bytes)
        finally:
            await response.aclose()
        return _outcome(response, body, registration, call)


def _url(registration: Registration) -> httpx2.URL:
    try:
        url = httpx2.URL(registration.entry)
    except httpx2.InvalidURL as error:
        raise ManifestFault("entry", f"is no URL: {error}") from None
    if url.scheme not in _PORTS or not url.host or url.userinfo:
        raise ManifestFault("entry", "is no http or https URL of a host; a key belongs into `headers` and `secrets`")
    return url


def _port(url: httpx2.URL) -> int:
    return url.port or _PORTS[url.scheme]


def _method(registration: Registration) -> str:
    found = str(registration.options.get("method", "POST")).upper()
    if found not in _METHODS:
        raise ManifestFault("method", f"{found!r} cannot be used; use one of {', '.join(_METHODS)}")
    return found


def _headers(registration: Registration, secrets: Mapping[str, str]) -> dict[str, str]:
    """The headers of the manifest, in which `${NAME}` stands for a declared secret."""
    given: object = registration.options.get("headers", {})
    if not isinstance(given, Mapping):
        raise ManifestFault("headers", "is a mapping of names to values")
    # A packed answer could be a thousand times larger than what is read of it.
    headers = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "identity"}
    for name, value in cast("Mapping[str, Any]", given).items():
        if name.lower() in _OWN_HEADERS:
            raise ManifestFault("headers", f"{name!r} is set by the host")
        headers[name.lower()] = _SECRET.sub(lambda match: _secret(match[1], secrets), str(value))
    return headers


def _secret(name: str, secrets: Mapping[str, str]) -> str:
    if name not in secrets:
        raise ManifestFault("headers", f"${{{name}}} is not among the `secrets` of the skill")
    return secrets[name]


async def _body(response: httpx2.Response, most: int) -> bytes | None:
    """What came; None when it is more than `most` bytes."""
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > most:
            return None
    return bytes(body)


def _outcome(response: httpx2.Response, body: bytes | None, registration: Registration, call: Call) -> Outcome:
    status = response.status_code
    packed = response.headers.get("content-encoding", "identity")
    if packed != "identity":
        return _bad(f"the skill answered packed ({packed[:50]}), which nobody asked for", {}, status)
    if body is None:
        limit = registration.limits.output_bytes
        return _bad(f"the skill answered with more than {limit:,} bytes", {"limit_bytes": limit}, status)
    if _OK <= status < _REDIRECT or _is_result(body):
        return adapted(Written(body, secrets=call.secrets, notes=_NOTES))
    evidence = {"body": excerpt(body, call.secrets)} if body.strip() else {}
    if _REDIRECT <= status < _CLIENT_ERROR:
        where = response.headers.get("location", "nowhere")[:500]
        return _bad(f"the skill redirects to {where}, which is not followed; correct `entry`", evidence, status)
    return _bad(f"the skill answered with the status {status}", evidence, status)


def _is_result(body: bytes) -> bool:
    try:
        return looks_like_result(json_object(body).value)
    except NotJson:
        return False


def _bad(message: str, evidence: Mapping[str, Any], status: int) -> Outcome:
    return failed(Failure.of(BadSkillOutput(message, status=status, **evidence)), notes=_NOTES)
