"""Real servers and a real proxy on loopback, for tests of what may reach what."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from openskills.executors.network.proxy import DEFAULT_LIMITS, FilteringProxy, ProxyLimits, Resolver

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
TIMEOUT = 20.0


def listening() -> socket.socket:
    """A socket on a port of the system's choice."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    return listener


@asynccontextmanager
async def serving(handler: Handler) -> AsyncGenerator[int]:
    """A server on loopback; gives its port. Each connection is closed when its handler returns."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(handle(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = listening()
    server = await asyncio.start_server(accept, sock=listener)
    try:
        yield listener.getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True)
class Proxying:
    """A running proxy and its port."""

    proxy: FilteringProxy
    port: int

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection to it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            async with asyncio.timeout(TIMEOUT):
                yield reader, writer
        finally:
            writer.close()

    async def ask(self, data: bytes) -> bytes:
        """Everything that it answers to these bytes."""
        async with self.client() as (reader, writer):
            writer.write(data)
            return await reader.read()

    async def get(self, uri: str, *fields: str) -> bytes:
        """Its answer to a plain request."""
        return await self.ask("\r\n".join([f"GET {uri} HTTP/1.1", *fields, "", ""]).encode())

    @asynccontextmanager
    async def tunnel(self, target: str) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A tunnel to host:port that stands."""
        async with self.client() as (reader, writer):
            writer.write(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
            yield reader, writer


@asynccontextmanager
async def proxying(
    *allowed: str, resolver: Resolver | None = None, limits: ProxyLimits = DEFAULT_LIMITS
) -> AsyncGenerator[Proxying]:
    """A proxy with this allow-list."""
    proxy = FilteringProxy(allowed, resolver=resolver, limits=limits)
    listener = listening()
    await proxy.start(listener)
    try:
        yield Proxying(proxy, listener.getsockname()[1])
    finally:
        await proxy.close()


def names(**addresses: str) -> Resolver:
    """A resolver that knows these names, with `_` for the dot and blanks between addresses."""
    known = {name.replace("_", "."): found.split() for name, found in addresses.items()}

    async def resolve(name: str, port: int) -> Sequence[str]:
        if name not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return known[name]

    return resolve


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(TIMEOUT):
        while not condition():
            await asyncio.sleep(0.005)
