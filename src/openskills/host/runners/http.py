"""Calls skills behind HTTP (`http`): posts `{"input": ...}` to their URL, and reads a JSON object.

The name is resolved once, and the checked address is used. Redirects are not followed, proxies of the environment are
not used, and responses are read up to the skill's limit.

Allowed targets (`OPENSKILL_HOST_HTTP_TARGETS`) are host names (`api.example.com`, `*.example.com`), addresses or
networks (`10.1.2.3`, `10.0.0.0/8`), optionally with a port (`localhost:9000`, `[::1]:9000`). Without targets all public
addresses are allowed; with targets only these are. Addresses that are not public must be listed.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import httpx2

from openskills.addresses import classify_address, unmap_address
from openskills.errors import BadSkillOutput, ExecutorUnavailable, ForbiddenPath, InvalidArgument
from openskills.host.model import Call, Failure, ManifestFault, Outcome, Registration, failure_outcome
from openskills.host.runners.output import RawSkillOutput, excerpt, outcome_from_output, timeout_outcome
from openskills.host.runners.program import encode_call_input
from openskills.host.strict_json import InvalidSkillJson, find_json_object, is_result_like
from openskills.settings import Settings

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


class ForbiddenTarget(ForbiddenPath):
    """A URL that the host is not allowed to call."""

    reason = "FORBIDDEN_TARGET"


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """An allowed target. `name` is lower case; a leading `*.` matches all subdomains."""

    name: str
    network: _IpNetwork | None
    port: int | None

    def has_host(self, host: str, port: int) -> bool:
        if self.network is not None or self.port not in (None, port):
            return False
        if self.name.startswith("*."):
            return host.endswith(self.name[1:]) and host != self.name[2:]
        return host == self.name

    def has_address(self, address: IpAddress, port: int) -> bool:
        if self.network is None or self.port not in (None, port):
            return False
        return address.version == self.network.version and address in self.network


def parse_target(text: str) -> HttpTarget:
    """Parse a target; raises `InvalidArgument`."""
    rest = text.strip().lower().removeprefix("https://").removeprefix("http://").rstrip("/")
    host, port = _split_port(rest)
    try:
        return HttpTarget(host, ipaddress.ip_network(host, strict=False), port)
    except ValueError:
        if ":" in host:
            message = f"invalid address {text!r}; write an IPv6 address with a port as [::1]:8080"
            raise InvalidArgument("OPENSKILL_HOST_HTTP_TARGETS", message) from None
        if not host or set(host) & set("/@?#[] ") or "*" in host.removeprefix("*."):
            raise InvalidArgument(
                "OPENSKILL_HOST_HTTP_TARGETS", f"{text!r} is not a host, address or network"
            ) from None
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
        raise InvalidArgument("OPENSKILL_HOST_HTTP_TARGETS", f"{text!r} has an invalid port")
    return host, int(port) if port else None


def check_host(host: str, port: int, targets: Sequence[HttpTarget]) -> None:
    """Raise `ForbiddenTarget` if no address of this host can be allowed."""
    if targets and not any(one.has_host(host, port) or one.network is not None for one in targets):
        raise _not_listed_error(host, port)


def select_address(host: str, port: int, addresses: Sequence[str], targets: Sequence[HttpTarget]) -> str:
    """The first allowed address of a host; raises `ForbiddenTarget` if there is none."""
    named = any(one.has_host(host, port) for one in targets)
    for text in addresses:
        address = unmap_address(ipaddress.ip_address(text.partition("%")[0]))
        if named or any(one.has_address(address, port) for one in targets):
            return text
        if not targets and classify_address(address) is None:
            return text
    if targets:
        raise _not_listed_error(host, port)
    hint = f"add {_format_target(host, port)} to OPENSKILL_HOST_HTTP_TARGETS"
    raise ForbiddenTarget(f"{host} resolves to {', '.join(addresses)}, which is not public; {hint}")


def _not_listed_error(host: str, port: int) -> ForbiddenTarget:
    return ForbiddenTarget(f"{_format_target(host, port)} is not in OPENSKILL_HOST_HTTP_TARGETS; add it")


def _format_target(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_PORTS = {"http": 80, "https": 443}
_METHODS = ("POST", "PUT", "PATCH")
_SECRET_PATTERN = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "x-trace-id", "traceparent"})
_NOTES = {"isolation": "remote"}
_OK, _REDIRECT, _CLIENT_ERROR = 200, 300, 400


class HttpRunner:
    """Implements `SkillRunner`."""

    def __init__(self, settings: Settings) -> None:
        self._targets = tuple(parse_target(text) for text in settings.host_http_targets)
        self._client = httpx2.AsyncClient(follow_redirects=False, trust_env=False, timeout=None)

    async def prepare(self, registration: Registration) -> None:
        """See `SkillRunner.prepare`. Does not connect."""
        url = _parse_url(registration)
        check_host(url.host.lower(), _get_port(url), self._targets)
        _get_method(registration)
        _build_headers(registration, dict.fromkeys(registration.secrets, ""))

    async def invoke(self, registration: Registration, call: Call) -> Outcome:
        method, headers = _get_method(registration), _build_headers(registration, call.secrets)
        try:
            async with asyncio.timeout_at(call.deadline):
                return await self._request(registration, call, method, headers)
        except TimeoutError:
            return timeout_outcome(registration.timeout_ms, RawSkillOutput(b"", notes=_NOTES))
        except httpx2.HTTPError as error:
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise ExecutorUnavailable(f"cannot reach the skill at {registration.entry}: {said}") from None

    async def forget(self, skill_id: str) -> None:
        """See `SkillRunner.forget`. Nothing to release."""

    async def close(self) -> None:
        await self._client.aclose()

    async def _resolve(self, url: httpx2.URL) -> str:
        """The allowed address of a host. Raises `ForbiddenTarget` and `ExecutorUnavailable`."""
        host, port = url.host.lower(), _get_port(url)
        check_host(host, port, self._targets)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ExecutorUnavailable(f"cannot resolve {host}: {error.strerror or error}") from None
        return select_address(host, port, [str(one[4][0]) for one in found], self._targets)

    async def _request(
        self, registration: Registration, call: Call, method: str, headers: Mapping[str, str]
    ) -> Outcome:
        url = _parse_url(registration)
        address = await self._resolve(url)
        parent = {} if call.traceparent is None else {"traceparent": call.traceparent}
        request = self._client.build_request(
            method,
            url.copy_with(host=address),
            content=encode_call_input(call.input),
            headers={**headers, **parent, "host": url.netloc.decode("ascii"), "x-trace-id": call.trace_id},
            # The certificate must match the name, not the address.
            extensions={"sni_hostname": url.host.lower()},
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
        raise ManifestFault("entry", f"not a URL: {error}") from None
    if url.scheme not in _PORTS or not url.host or url.userinfo:
        raise ManifestFault(
            "entry", "expected an http or https URL without a user name; use `headers` and `secrets` for keys"
        )
    return url


def _get_port(url: httpx2.URL) -> int:
    return url.port or _PORTS[url.scheme]


def _get_method(registration: Registration) -> str:
    found = str(registration.options.get("method", "POST")).upper()
    if found not in _METHODS:
        raise ManifestFault("method", f"unsupported method {found!r}; use one of {', '.join(_METHODS)}")
    return found


def _build_headers(registration: Registration, secrets: Mapping[str, str]) -> dict[str, str]:
    """The headers of the manifest, with declared secrets in place of `${NAME}`."""
    given: object = registration.options.get("headers", {})
    if not isinstance(given, Mapping):
        raise ManifestFault("headers", "expected a map of names to values")
    # A compressed response could expand a thousandfold.
    headers = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "identity"}
    for name, value in cast("Mapping[str, Any]", given).items():
        if name.lower() in _OWN_HEADERS:
            raise ManifestFault("headers", f"{name!r} is set by the host and cannot be changed")
        headers[name.lower()] = _SECRET_PATTERN.sub(lambda match: _get_secret(match[1], secrets), str(value))
    return headers


def _get_secret(name: str, secrets: Mapping[str, str]) -> str:
    if name not in secrets:
        raise ManifestFault("headers", f"${{{name}}} is not in the `secrets` of the skill")
    return secrets[name]


async def _read_body(response: httpx2.Response, max_bytes: int) -> bytes | None:
    """The body; None if it is larger than `max_bytes`."""
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > max_bytes:
            return None
    return bytes(body)


def _to_outcome(response: httpx2.Response, body: bytes | None, registration: Registration, call: Call) -> Outcome:
    status = response.status_code
    packed = response.headers.get("content-encoding", "identity")
    if packed != "identity":
        return _bad_output(f"the skill sent a compressed response ({packed[:50]})", {}, status)
    if body is None:
        limit = registration.limits.output_bytes
        return _bad_output(f"the skill's response is larger than {limit:,} bytes", {"limit_bytes": limit}, status)
    if _OK <= status < _REDIRECT or _is_result(body):
        return outcome_from_output(RawSkillOutput(body, secrets=call.secrets, notes=_NOTES))
    evidence = {"body": excerpt(body, call.secrets)} if body.strip() else {}
    if _REDIRECT <= status < _CLIENT_ERROR:
        where = response.headers.get("location", "nowhere")[:500]
        return _bad_output(
            f"the skill redirects to {where}; redirects are not followed, correct `entry`", evidence, status
        )
    return _bad_output(f"the skill returned status {status}", evidence, status)


def _is_result(body: bytes) -> bool:
    try:
        return is_result_like(find_json_object(body).value)
    except InvalidSkillJson:
        return False


def _bad_output(message: str, evidence: Mapping[str, Any], status: int) -> Outcome:
    return failure_outcome(Failure.from_error(BadSkillOutput(message, status=status, **evidence)), notes=_NOTES)
