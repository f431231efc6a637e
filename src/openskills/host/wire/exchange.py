"""One HTTP request and its answer, on the bare protocol of the server: what every route shares."""

import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from openskills.errors import InvalidArgument
from openskills.host.wire.answers import Answer
from openskills.host.wire.trace_ids import Trace, minted, trace_of

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_ONCE = frozenset({b"x-trace-id", b"authorization", b"content-type", b"host", b"idempotency-key"})
"""Headers that mean nothing when they say two things."""


class Exchange:
    """A request. `hostile` is what is wrong with its trace id, which is a new one then, or with its other headers."""

    __slots__ = ("answered", "began", "headers", "hostile", "receive", "scope", "send", "trace")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.began = time.perf_counter()
        self.scope = scope
        self.receive = receive
        self.send = send
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.answered = False
        self.hostile: InvalidArgument | None = None
        try:
            self.trace: Trace = trace_of(self.headers.get(b"x-trace-id"), self.headers.get(b"traceparent"))
        except InvalidArgument as error:
            self.trace, self.hostile = minted(), error
        if len(self.headers) != len(scope["headers"]) and (name := _contradicted(scope["headers"])) is not None:
            self.trace, self.hostile = minted(), InvalidArgument(name, "is there twice, with different values")

    @property
    def method(self) -> str:
        """`GET`, `POST` and so on."""
        return self.scope["method"]

    @property
    def path(self) -> str:
        """Below where the application is mounted."""
        path, root = self.scope["path"], self.scope.get("root_path") or ""
        return path[len(root) :] if root and path.startswith(root) else path

    @property
    def latency_ms(self) -> float:
        """Since the request came."""
        return (time.perf_counter() - self.began) * 1000

    def header(self, name: bytes) -> str | None:
        """A header as text; its name in lower case."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    async def answer(self, answer: Answer, *, close: bool = False) -> None:
        """Send the whole answer."""
        self.answered = True
        headers = [*answer.headers, (b"connection", b"close")] if close else answer.headers
        await self.send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": answer.body})


def _contradicted(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The header that may be there once and says two things."""
    seen: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _ONCE and seen.setdefault(name, value) != value:
            return name.decode("ascii").title()
    return None
