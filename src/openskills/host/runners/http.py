"""Http.

Which addresses a skill behind HTTP may be called at. Pure.

A target is a host name (`api.example.com`, `*.example.com`), an address or a network (`10.1.2.3`, `10.0.0.0/8`), each
with a port if only that one is meant (`localhost:9000`, `[::1]:9000`). Without targets every public address is allowed;
with targets only these are. An address that is not public must be listed, by name or by number.

Calls skills that are behind HTTP (`http`): `{"input": ...}` is posted to their URL, and a JSON object comes back.

The name is looked up once, the address is checked (`http_targets.py`) and that one is dialled. Redirects are not
followed, answers are read up to the limit of the skill, proxies of the environment are not used.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import httpx2

from openskills.errors import BadSkillOutput, ExecutorUnavailable, ForbiddenPath, InvalidArgument
from openskills.host.model import Call, Failure, ManifestFault, Outcome, Registration, failure_outcome
from openskills.host.runners.output import RawSkillOutput, excerpt, outcome_from_output, timeout_outcome
from openskills.host.runners.program import encode_call_input
from openskills.host.strict_json import InvalidSkillJson, find_json_object, is_result_like
from openskills.settings import Settings

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


class ForbiddenTarget(ForbiddenPath):
    """An address that a skill behind HTTP may not be called at."""

    reason = "FORBIDDEN_TARGET"


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """One entry of the list. `name` is lower case; with a leading `*.` it stands for everything below."""

    name: str
    network: _IpNetwork | None
    port: int | None

    def has_host(self, host: str, port: int) -> bool:
        """Whether this entry has the host by its name."""
        if self.network is not None or self.port not in (None, port):
            return False
        if self.name.startswith("*."):
            return host.endswith(self.name[1:]) and host != self.name[2:]
        return host == self.name

    def has_address(self, address: IpAddress, port: int) -> bool:
        """Whether this entry has the address by its number."""
        if self.network is None or self.port not in (None, port):
            return False
        return address.version == self.network.version and address in self.network


def parse_target(text: str) -> HttpTarget:
    """One entry as it is written; raises `InvalidArgument` for what is none."""
    rest = text.strip().lower().removeprefix("https://").removeprefix("http://").rstrip("/")
    host, port = _split_port(rest)
    try:
        return HttpTarget(host, ipaddress.ip_network(host, strict=False), port)
    except ValueError:
        if ":" in host:
            raise InvalidArgument(
                "OPENSKILL_HOST_HTTP_TARGETS", f"{text!r} is no address; one of version 6 with a port is [::1]:8080"
            ) from None
        if not host or set(host) & set("/@?#[] ") or "*" in host.removeprefix("*."):
            raise InvalidArgument("OPENSKILL_HOST_HTTP_TARGETS", f"{text!r} is no host, address or network") from None
        return HttpTarget(host, None, port)


def _split_port(text: str) -> tuple[str, int | None]:
    if text.startswith("["):
        host, _, after = text[1:].partition("]")
        port = after.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        return text, None
    if port and not (port.isdecimal() and 0 < int(port) < 2**16):
        raise InvalidArgument("OPENSKILL_HOST_HTTP_TARGETS", f"{text!r} has no port after its colon")
    return host, int(port) if port else None


def check_host(host: str, port: int, targets: Sequence[HttpTarget]) -> None:
    """Raises `ForbiddenTarget` when no address of this host could be allowed."""
    if targets and not any(one.has_host(host, port) or one.network is not None for one in targets):
        raise _not_listed_error(host, port)


def select_address(host: str, port: int, addresses: Sequence[str], targets: Sequence[HttpTarget]) -> str:
    """The first of the addresses of a host that may be called; raises `ForbiddenTarget` when none may."""
    named = any(one.has_host(host, port) for one in targets)
    for text in addresses:
        address = _unwrap_address(ipaddress.ip_address(text.partition("%")[0]))
        if named or any(one.has_address(address, port) for one in targets):
            return text
        if not targets and is_public(address):
            return text
    if targets:
        raise _not_listed_error(host, port)
    hint = f"add {_format_target(host, port)} to OPENSKILL_HOST_HTTP_TARGETS"
    raise ForbiddenTarget(f"{host} is at {', '.join(addresses)}, which is not public; {hint}")


def is_public(address: IpAddress) -> bool:
    """Whether an address is of the internet, and of nobody's own network, machine or cloud."""
    return address.is_global and not address.is_multicast and not address.is_reserved


def _unwrap_address(address: IpAddress) -> IpAddress:
    """The address that is really dialled: some of version 6 only wrap one of version 4."""
    if isinstance(address, ipaddress.IPv6Address):
        wrapped = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        nat64 = ipaddress.ip_network("64:ff9b::/96")
        if wrapped is None and address in nat64:
            wrapped = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return wrapped or address
    return address


def _not_listed_error(host: str, port: int) -> ForbiddenTarget:
    return ForbiddenTarget(
        f"{_format_target(host, port)} is not among OPENSKILL_HOST_HTTP_TARGETS; add it to call this skill"
    )


def _format_target(host: str, port: int) -> str:
    """A host and a port as `parse_target` reads them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_PORTS = {"http": 80, "https": 443}
_METHODS = ("POST", "PUT", "PATCH")
_SECRET_PATTERN = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "x-trace-id", "traceparent"})
_NOTES = {"isolation": "remote"}
_OK, _REDIRECT, _CLIENT_ERROR = 200, 300, 400


@dataclass(frozen=True, slots=True)
class _HttpEndpoint:
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
        url = _parse_url(registration)
        check_host(url.host.lower(), _get_port(url), self._targets)
        _get_method(registration)
        _build_headers(registration, dict.fromkeys(registration.secrets, ""))

    async def invoke(self, registration: Registration, call: Call) -> Outcome:
        """See `Runner.invoke`."""
        method, headers = _get_method(registration), _build_headers(registration, call.secrets)
        try:
            async with asyncio.timeout_at(call.deadline):
                where = await self._resolve(_parse_url(registration))
                return await self._request(registration, call, where, method, headers)
        except TimeoutError:
            return timeout_outcome(registration.timeout_ms, RawSkillOutput(b"", notes=_NOTES))
        except httpx2.HTTPError as error:
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise ExecutorUnavailable(f"the skill at {registration.entry} cannot be reached: {said}") from None

    async def forget(self, skill_id: str) -> None:
        """See `Runner.forget`. Nothing is kept for a skill."""

    async def close(self) -> None:
        """See `Runner.close`."""
        await self._client.aclose()

    async def _resolve(self, url: httpx2.URL) -> _HttpEndpoint:
        host, port = url.host.lower(), _get_port(url)
        check_host(host, port, self._targets)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ExecutorUnavailable(f"the name {host} cannot be looked up: {error.strerror or error}") from None
        address = select_address(host, port, [str(one[4][0]) for one in found], self._targets)
        return _HttpEndpoint(url.copy_with(host=address), host, url.netloc.decode("ascii"))

    async def _request(
        self, registration: Registration, call: Call, where: _HttpEndpoint, method: str, headers: Mapping[str, str]
    ) -> Outcome:
        parent = {} if call.traceparent is None else {"traceparent": call.traceparent}
        request = self._client.build_request(
            method,
            where.url,
            content=encode_call_input(call.input),
            headers={**headers, **parent, "host": where.header, "x-trace-id": call.trace_id},
            # The certificate must be of the name, not of the number.
            extensions={"sni_hostname": where.host},
        )
        response = await self._client.send(request, stream=True)
        try:
            body = await _read_body(response, registration.limits.output_bytes)
        finally:
            await response.aclose()
        return _to_outcome(response, body, registration, call)


def _parse_url(registration: Registration) -> httpx2.URL:
    try:
        url = httpx2.URL(registration.entry)
    except httpx2.InvalidURL as error:
        raise ManifestFault("entry", f"is no URL: {error}") from None
    if url.scheme not in _PORTS or not url.host or url.userinfo:
        raise ManifestFault("entry", "is no http or https URL of a host; a key belongs into `headers` and `secrets`")
    return url


def _get_port(url: httpx2.URL) -> int:
    return url.port or _PORTS[url.scheme]


def _get_method(registration: Registration) -> str:
    found = str(registration.options.get("method", "POST")).upper()
    if found not in _METHODS:
        raise ManifestFault("method", f"{found!r} cannot be used; use one of {', '.join(_METHODS)}")
    return found


def _build_headers(registration: Registration, secrets: Mapping[str, str]) -> dict[str, str]:
    """The headers of the manifest, in which `${NAME}` stands for a declared secret."""
    given: object = registration.options.get("headers", {})
    if not isinstance(given, Mapping):
        raise ManifestFault("headers", "is a mapping of names to values")
    # A packed answer could be a thousand times larger than what is read of it.
    headers = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "identity"}
    for name, value in cast("Mapping[str, Any]", given).items():
        if name.lower() in _OWN_HEADERS:
            raise ManifestFault("headers", f"{name!r} is set by the host")
        headers[name.lower()] = _SECRET_PATTERN.sub(lambda match: _get_secret(match[1], secrets), str(value))
    return headers


def _get_secret(name: str, secrets: Mapping[str, str]) -> str:
    if name not in secrets:
        raise ManifestFault("headers", f"${{{name}}} is not among the `secrets` of the skill")
    return secrets[name]


async def _read_body(response: httpx2.Response, most: int) -> bytes | None:
    """What came; None when it is more than `most` bytes."""
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > most:
            return None
    return bytes(body)


def _to_outcome(response: httpx2.Response, body: bytes | None, registration: Registration, call: Call) -> Outcome:
    status = response.status_code
    packed = response.headers.get("content-encoding", "identity")
    if packed != "identity":
        return _bad_output(f"the skill answered packed ({packed[:50]}), which nobody asked for", {}, status)
    if body is None:
        limit = registration.limits.output_bytes
        return _bad_output(f"the skill answered with more than {limit:,} bytes", {"limit_bytes": limit}, status)
    if _OK <= status < _REDIRECT or _is_result(body):
        return outcome_from_output(RawSkillOutput(body, secrets=call.secrets, notes=_NOTES))
    evidence = {"body": excerpt(body, call.secrets)} if body.strip() else {}
    if _REDIRECT <= status < _CLIENT_ERROR:
        where = response.headers.get("location", "nowhere")[:500]
        return _bad_output(f"the skill redirects to {where}, which is not followed; correct `entry`", evidence, status)
    return _bad_output(f"the skill answered with the status {status}", evidence, status)


def _is_result(body: bytes) -> bool:
    try:
        return is_result_like(find_json_object(body).value)
    except InvalidSkillJson:
        return False


def _bad_output(message: str, evidence: Mapping[str, Any], status: int) -> Outcome:
    return failure_outcome(Failure.from_error(BadSkillOutput(message, status=status, **evidence)), notes=_NOTES)
