"""`GET /openapi.json` and `GET /docs`: the host explained, to programs and to people."""

from functools import cache
from importlib.resources import files

import orjson

from openskills.host.books.keys import Principal
from openskills.host.parts import Parts
from openskills.host.routes.openapi import openapi
from openskills.host.wire.answers import JSON, Answer, trace_headers
from openskills.host.wire.exchange import Exchange

_HTML = (b"content-type", b"text/html; charset=utf-8")
_ALONE = (
    b"content-security-policy",
    b"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'",
)


async def openapi_document(exchange: Exchange, parts: Parts, principal: Principal) -> Answer:
    """The document of the skills that the caller may use. Its form is not ours, so it is no result."""
    skills = [registration for registration in parts.registry.all() if principal.may(registration.id)]
    document = openapi(skills, url=_address(exchange), keys_needed=parts.gate.needs_key(exchange))
    return _whole(exchange, orjson.dumps(document), JSON)


async def docs_page(exchange: Exchange, _: Parts | None) -> Answer:
    """A page that explains the addresses and lets one try the skills. It loads nothing from anywhere else."""
    answer = _whole(exchange, _page(), _HTML)
    answer.headers.append(_ALONE)
    return answer


@cache
def _page() -> bytes:
    return (files("openskills.host.routes") / "docs.html").read_bytes()


def _address(exchange: Exchange) -> str:
    host = exchange.header(b"host")
    root = exchange.scope.get("root_path") or ""
    return f"{exchange.scope.get('scheme', 'http')}://{host}{root}" if host else root or "/"


def _whole(exchange: Exchange, body: bytes, kind: tuple[bytes, bytes]) -> Answer:
    length = (b"content-length", b"%d" % len(body))
    return Answer(200, [kind, length, *trace_headers(exchange.trace)], body)
