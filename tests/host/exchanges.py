"""Requests without a server: what was sent, and what is sent back."""

import asyncio
from collections.abc import Iterable
from typing import Any

from openskills.host.http import HttpExchange, Message


class Sent:
    """An exchange whose caller says these messages and then nothing more. `messages` is what it was answered."""

    def __init__(
        self,
        incoming: Iterable[Message] = (),
        *,
        method: str = "POST",
        path: str = "/",
        headers: dict[str, str] | None = None,
        query: str = "",
        server: str = "127.0.0.1",
    ) -> None:
        self.messages: list[Message] = []
        self._incoming = list(incoming)
        scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": path,
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
            "server": (server, 8000),
            "scheme": "http",
        }
        self.exchange = HttpExchange(scope, self.receive, self.send)

    async def receive(self) -> Message:
        if self._incoming:
            return self._incoming.pop(0)
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)


def part(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


GONE: Message = {"type": "http.disconnect"}
