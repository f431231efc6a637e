"""A proxy that lets one command reach the hosts of its allow-list, and nobody else.

A name is resolved once, here; every address is judged, and exactly what was judged is dialled. What the name means a
moment later makes no difference.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final

from openskills.executors.network.hosts import Address, AllowList, Host, at_port, unmapped
from openskills.executors.network.httphead import Refused, parse_request, refusal
from openskills.executors.network.relaying import CHUNK, Budget, Peer, Spending, exchange, read_head, say, tunnel

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name; raises OSError when it has none."""

_MAX_ADDRESSES = 16
_MAX_REFUSALS = 100
_LOOKUPS = 4
_LOCAL = "localhost,127.0.0.1,::1"


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """What a command may ask of its proxy. Seconds are for one head, one name or address, and for silence."""

    connections: int = 64
    head_seconds: float = 10.0
    connect_seconds: float = 10.0
    idle_seconds: float = 300.0
    total_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a command asked for and did not get; `target` is a host and port when it named one."""

    target: str
    reason: str


DEFAULT_LIMITS: Final = ProxyLimits()


class SystemResolver:
    """The machine's own resolver, in threads of its own: a name server that never answers holds up nobody else."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_LOOKUPS, thread_name_prefix="openskills-resolve")

    async def __call__(self, name: str, port: int) -> Sequence[str]:
        """The addresses of a name; raises OSError when it has none."""
        loop = asyncio.get_running_loop()
        # As bytes, which nobody translates: what is looked up is what was judged.
        look_up = partial(socket.getaddrinfo, name.encode("ascii"), port, type=socket.SOCK_STREAM)
        return [str(address[0]) for *_, address in await loop.run_in_executor(self._threads, look_up)]

    def close(self) -> None:
        """Look up nothing more; what is being looked up ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class FilteringProxy:
    """Serves the connections that come in on one listening socket. It belongs to the event loop that started it."""

    def __init__(
        self, allowed: Sequence[str], *, resolver: Resolver | None = None, limits: ProxyLimits = DEFAULT_LIMITS
    ) -> None:
        """Raises `InvalidArgument` for an entry of `allowed` that cannot be read; see `hosts.py` for what is one."""
        self._allowed = AllowList(allowed)
        self._system = SystemResolver()
        self._resolver = resolver or self._system
        self._limits = limits
        self._spending = Spending(limits.total_bytes)
        self._refused: dict[Refusal, None] = {}
        self._closed = False
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """What was refused so far, each once, the first hundred of them."""
        return tuple(self._refused)

    @property
    def bytes_moved(self) -> int:
        """How many bytes went through, both ways together."""
        return self._spending.total

    def environment(self, port: int) -> dict[str, str]:
        """The variables that tell programs inside the sandbox to use the proxy on this port of its loopback."""
        address = f"http://127.0.0.1:{port}"
        values: dict[str, str] = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), address)
        # The sandbox's own loopback is no way out, and a command may serve something there for itself.
        values["NO_PROXY"] = "" if self._allowed.reaches_loopback() else _LOCAL
        return values | {name.lower(): value for name, value in values.items()}

    async def start(self, listener: socket.socket) -> None:
        """Begin to accept. The socket is the proxy's from now on."""
        self._server = await asyncio.start_server(self._accept, sock=listener, limit=CHUNK)

    async def close(self) -> None:
        """End all connections and accept no more; safe to call twice."""
        self._closed = True
        if self._server is not None:
            self._server.close()
            # A connection that was accepted just now arrives in the next rounds of the loop.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)
        self._system.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._closed:
            writer.transport.abort()
            return
        writer.transport.set_write_buffer_limits(CHUNK)
        task = asyncio.get_running_loop().create_task(self._serve(Peer(reader, writer)))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, client: Peer) -> None:
        try:
            await self._attend(client)
            await client.finish()
        except Refused as refused:
            self._note(refused)
            if not client.answered:
                await say(refusal(refused), client)
        except (OSError, EOFError):
            # One of the two has gone; the other one sees it.
            pass
        finally:
            client.abort()

    async def _attend(self, client: Peer) -> None:
        if len(self._serving) > self._limits.connections:
            message = f"more than {self._limits.connections} connections at once are not allowed"
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, message)
        request = parse_request(await self._head(client))
        server = await self._dial(request.host, request.port)
        idle = self._limits.idle_seconds
        try:
            async with asyncio.timeout(idle) as clock:
                budget = Budget(clock, idle, self._spending)
                if request.tunnels:
                    await tunnel(client, server, budget)
                else:
                    await exchange(request, client, server, budget)
            await server.finish()
        except TimeoutError:
            target = at_port(request.host, request.port)
            raise Refused(HTTPStatus.GATEWAY_TIMEOUT, f"{target}: {idle:g} seconds of silence", target) from None
        finally:
            server.abort()

    async def _head(self, client: Peer) -> bytes:
        seconds = self._limits.head_seconds
        try:
            async with asyncio.timeout(seconds):
                return await read_head(client.reader)
        except TimeoutError:
            raise Refused(HTTPStatus.REQUEST_TIMEOUT, f"no whole request came within {seconds:g} seconds") from None

    async def _dial(self, host: Host, port: int) -> Peer:
        """A connection to an address of the host that was judged just now. Raises `Refused`."""
        target = at_port(host, port)
        reason = self._allowed.refuses(host, port)
        if reason:
            raise Refused(HTTPStatus.FORBIDDEN, reason, target)
        failure = "it has no address"
        for address in self._judged(host, port, await self._addresses(host, port)):
            try:
                async with asyncio.timeout(self._limits.connect_seconds):
                    # An address is not looked up again.
                    return Peer(*await asyncio.open_connection(str(address), port, limit=CHUNK))
            except TimeoutError:
                failure = f"no answer within {self._limits.connect_seconds:g} seconds"
            except OSError as error:
                failure = error.strerror or str(error)
        raise Refused(HTTPStatus.BAD_GATEWAY, f"{target} cannot be reached: {failure}", target)

    async def _addresses(self, host: Host, port: int) -> list[Address]:
        if not isinstance(host, str):
            return [host]
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                found = await self._resolver(host, port)
        except TimeoutError:
            message = f"{host} was not resolved within {self._limits.connect_seconds:g} seconds"
            raise Refused(HTTPStatus.GATEWAY_TIMEOUT, message, at_port(host, port)) from None
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "no such host"
            raise Refused(HTTPStatus.BAD_GATEWAY, f"{host} cannot be resolved: {reason}", at_port(host, port)) from None
        # A zone (fe80::1%eth0) names an interface of this machine, and means the same address.
        unique = dict.fromkeys(unmapped(ip_address(text.partition("%")[0])) for text in found)
        return list(unique)[:_MAX_ADDRESSES]

    def _judged(self, host: Host, port: int, addresses: Sequence[Address]) -> list[Address]:
        """Those that may be dialled; raises `Refused` when there are addresses and none of them may."""
        reasons = {
            address: self._allowed.refuses_address(host, port, address, own=is_own(address)) for address in addresses
        }
        refused = [reason for reason in reasons.values() if reason]
        if addresses and len(refused) == len(reasons):
            raise Refused(HTTPStatus.FORBIDDEN, refused[0], at_port(host, port))
        return [address for address, reason in reasons.items() if not reason]

    def _note(self, refused: Refused) -> None:
        if len(self._refused) < _MAX_REFUSALS:
            self._refused[Refusal(refused.target[:300], str(refused)[:1000])] = None


def is_own(address: Address) -> bool:
    """Whether it is an address of this machine: a packet to it would come from it. Nothing is sent."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return ip_address(probe.getsockname()[0]) == address
    except OSError:
        return False
