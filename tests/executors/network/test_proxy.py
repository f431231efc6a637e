"""A command reaches the hosts of its list through the proxy, and nobody else, however it asks."""

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.network.proxy import FilteringProxy, ProxyLimits, SystemResolver, is_own
from openskills.sync import run
from tests.executors.loopback import PATIENCE, listening, names, proxying, serving, until


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


def test_a_tunnel_to_an_allowed_address_carries_bytes_both_ways() -> None:
    async def scene() -> bytes:
        async with (
            serving(echo) as port,
            proxying(f"127.0.0.1:{port}") as through,
            through.tunnel(f"127.0.0.1:{port}") as (reader, writer),
        ):
            writer.write(b"\x16\x03\x01 anything")
            return await reader.readexactly(12)

    assert run(scene()) == b"\x16\x03\x01 anything"


def test_a_plain_request_is_answered_by_the_server() -> None:
    async def scene() -> tuple[bytes, int]:
        async with serving(hello) as port, proxying(f"127.0.0.1:{port}") as through:
            return await through.get(f"http://127.0.0.1:{port}/"), through.proxy.bytes_moved

    answer, moved = run(scene())
    assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
    assert moved == len(answer)


@pytest.mark.parametrize(
    "target",
    ["evil.example:443", "127.0.0.1:{other}", "[::1]:{port}", "127.0.0.2:{port}", "localhost:{port}", "127.0.0.1:443"],
)
def test_a_host_or_port_that_is_not_on_the_list_is_refused_by_name(target: str) -> None:
    async def scene() -> tuple[str, bytes, tuple[str, ...]]:
        async with serving(echo) as port, serving(echo) as other, proxying(f"127.0.0.1:{port}") as through:
            asked = target.format(port=port, other=other)
            answer = await through.ask(f"CONNECT {asked} HTTP/1.1\r\n\r\n".encode())
            return asked, answer, tuple(refusal.target for refusal in through.proxy.refusals)

    asked, answer, refused = run(scene())
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert f"openskills: {asked} is not on the network allow-list of this command; to allow it, add ".encode() in answer
    assert refused == (asked,)


@pytest.mark.parametrize(
    "addresses",
    [
        *("127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1", "169.254.169.254", "fd00:ec2::254", "100.100.100.200"),
        *("0.0.0.0", "::", "224.0.0.1", "fe80::1%lo", "64:ff9b::7f00:1", "2002:7f00:1::", "127.0.0.1 ::1 10.0.0.1"),
    ],
)
def test_a_name_that_leads_to_an_address_that_is_not_public_is_refused(addresses: str) -> None:
    async def scene() -> bytes:
        async with serving(hello) as port:
            resolver = names(inner_example=addresses)
            async with proxying(f"inner.example:{port}", resolver=resolver) as through:
                return await through.get(f"http://inner.example:{port}/")

    answer = run(scene())
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"to allow it, add" in answer


def test_the_addresses_of_this_machine_are_known_as_its_own() -> None:
    own = ["127.0.0.1"]
    # Nothing is sent. A machine without a route has no other address.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))
        own.append(str(probe.getsockname()[0]))
    assert [address for address in own if not is_own(ip_address(address))] == []
    assert not is_own(ip_address("192.0.2.1"))
    assert not is_own(ip_address("2001:db8::1"))


def test_a_name_is_dialled_where_the_list_says_that_it_may_be() -> None:
    async def scene() -> bytes:
        async with serving(hello) as port:
            resolver = names(inner_example="::ffff:127.0.0.1")
            async with proxying(f"inner.example:{port}=127.0.0.0/8", resolver=resolver) as through:
                return await through.get(f"http://inner.example:{port}/")

    assert run(scene()).endswith(b"\r\n\r\nhello")


def test_a_name_that_changes_its_address_after_it_was_judged_changes_nothing() -> None:
    asked: list[str] = []

    async def rebinding(name: str, port: int) -> Sequence[str]:
        asked.append(name)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    async def scene() -> tuple[bytes, bytes]:
        async with serving(hello) as port, proxying(f"rebind.example:{port}=127.0.0.1", resolver=rebinding) as through:
            first = await through.get(f"http://rebind.example:{port}/")
            return first, await through.get(f"http://rebind.example:{port}/")

    first, second = run(scene())
    assert first.endswith(b"hello")
    assert b" is at 127.0.0.2, a loopback address" in second
    assert asked == ["rebind.example", "rebind.example"]


def test_of_several_addresses_only_those_that_may_be_are_dialled() -> None:
    met: list[str] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.append(writer.get_extra_info("sockname")[0])
        await hello(reader, writer)

    async def scene() -> bytes:
        async with serving(note) as port:
            resolver = names(mixed_example="10.255.255.1 127.0.0.1 127.0.0.3")
            async with proxying(f"mixed.example:{port}=127.0.0.1", resolver=resolver) as through:
                return await through.get(f"http://mixed.example:{port}/")

    assert run(scene()).endswith(b"hello")
    assert met == ["127.0.0.1"]


def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async def scene() -> bytes:
        async with serving(hello) as port:
            # Nobody listens on the second loopback address.
            resolver = names(two_example="127.0.0.2 127.0.0.1")
            async with proxying(f"two.example:{port}=127.0.0.0/8", resolver=resolver) as through:
                return await through.get(f"http://two.example:{port}/")

    assert run(scene()).endswith(b"hello")


def test_a_server_that_is_not_there_is_said_to_be_unreachable() -> None:
    with listening() as closed:
        port = closed.getsockname()[1]

    async def scene() -> bytes:
        async with proxying(f"127.0.0.1:{port}") as through:
            return await through.ask(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())

    answer = run(scene())
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert f"openskills: 127.0.0.1:{port} cannot be reached: ".encode() in answer


def test_a_name_that_does_not_exist_is_said_not_to_resolve() -> None:
    async def scene() -> bytes:
        async with proxying("gone.example", resolver=names()) as through:
            return await through.ask(b"CONNECT gone.example:443 HTTP/1.1\r\n\r\n")

    assert b"openskills: gone.example cannot be resolved: Name or service not known\n" in run(scene())


def test_a_resolver_that_never_answers_is_not_waited_for() -> None:
    async def never(name: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async def scene() -> bytes:
        async with proxying("a.example", resolver=never, limits=ProxyLimits(connect_seconds=0.05)) as through:
            return await through.ask(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n")

    assert b"a.example was not resolved within 0.05 seconds" in run(scene())


@pytest.mark.parametrize("begun", [b"", b"G", b"GET http://a.example/ HTTP/1.1\r\nX: "])
def test_a_request_that_does_not_come_to_its_end_is_given_up(begun: bytes) -> None:
    async def scene() -> bytes:
        async with proxying("a.example", limits=ProxyLimits(head_seconds=0.1)) as through:
            return await through.ask(begun)

    assert run(scene()).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("size", [9_000, 200_000])
def test_a_head_that_is_too_long_is_refused(size: int) -> None:
    async def scene() -> bytes:
        async with proxying("a.example") as through:
            return await through.get("http://a.example/", f"X: {'x' * size}")

    assert b" a head of more than 8,192 bytes" in run(scene())


@pytest.mark.parametrize("first", [b"\x05\x01\x00", b"\x04\x01", b"\x16\x03\x01\x02\x00", b"\r\n", b"\xff"])
def test_a_program_that_speaks_something_else_is_told_at_once(first: bytes) -> None:
    async def scene() -> bytes:
        async with proxying("a.example", limits=ProxyLimits(head_seconds=PATIENCE * 2)) as through:
            return await through.ask(first)

    assert b"this is an HTTP/1.1 proxy" in run(scene())


def test_fifty_tunnels_at_once_do_not_mix() -> None:
    async def one(through_port: int, port: int, number: int) -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", through_port)
        writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        data = bytes([number]) * 200_000
        writer.write(data)
        writer.write_eof()
        back = await reader.read(-1)
        writer.close()
        return back == data

    async def scene() -> list[bool]:
        async with serving(echo) as port, proxying(f"127.0.0.1:{port}") as through, asyncio.timeout(60):
            return await asyncio.gather(*(one(through.port, port, number) for number in range(50)))

    assert run(scene()) == [True] * 50


def test_one_connection_too_many_is_refused_and_room_is_made_again() -> None:
    async def scene() -> tuple[bytes, bytes]:
        limits = ProxyLimits(connections=2)
        async with serving(hello) as port, proxying(f"127.0.0.1:{port}", limits=limits) as through:
            async with through.tunnel(f"127.0.0.1:{port}"), through.tunnel(f"127.0.0.1:{port}"):
                crowded = await through.get(f"http://127.0.0.1:{port}/")
            async with asyncio.timeout(PATIENCE):
                while not (answer := await through.get(f"http://127.0.0.1:{port}/")).endswith(b"hello"):
                    await asyncio.sleep(0.01)
            return crowded, answer

    crowded, answer = run(scene())
    assert crowded.startswith(b"HTTP/1.1 503 more than 2 connections")
    assert answer.endswith(b"hello")


def test_a_command_that_moves_too_many_bytes_is_cut_off() -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(bytes(65536))
            await writer.drain()

    async def scene() -> tuple[int, str]:
        limits = ProxyLimits(total_bytes=1_000_000)
        async with serving(flood) as port, proxying(f"127.0.0.1:{port}", limits=limits) as through:
            received = 0
            async with through.tunnel(f"127.0.0.1:{port}") as (reader, _):
                try:
                    while chunk := await reader.read(65536):
                        received += len(chunk)
                except ConnectionResetError:
                    pass
            await until(lambda: bool(through.proxy.refusals))
            return received, through.proxy.refusals[0].reason

    received, reason = run(scene())
    assert received <= 1_000_000
    assert reason == "this command has moved more than 1,000,000 bytes over the network"


def test_a_connection_on_which_nothing_moves_is_ended() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def scene() -> tuple[bytes, bytes]:
        limits = ProxyLimits(idle_seconds=0.1)
        async with serving(silent) as port, proxying(f"127.0.0.1:{port}", limits=limits) as through:
            async with through.tunnel(f"127.0.0.1:{port}") as (reader, _):
                tunnelled = await reader.read()
            return tunnelled, await through.get(f"http://127.0.0.1:{port}/")

    tunnelled, answer = run(scene())
    assert tunnelled == b""
    assert answer.startswith(b"HTTP/1.1 504 ")


def test_closing_ends_every_connection_on_both_sides_and_may_be_done_twice() -> None:
    gone = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        gone.set()

    async def scene() -> bytes:
        async with (
            serving(wait) as port,
            proxying(f"127.0.0.1:{port}") as through,
            through.tunnel(f"127.0.0.1:{port}") as (reader, _),
        ):
            await through.proxy.close()
            await through.proxy.close()
            left = await reader.read()
            await asyncio.wait_for(gone.wait(), PATIENCE)
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", through.port)
            return left

    assert run(scene()) == b""


def test_what_is_kept_about_refusals_is_bounded() -> None:
    async def scene() -> int:
        async with proxying("a.example") as through:
            for number in range(120):
                await through.ask(f"CONNECT host{number}.example:443 HTTP/1.1\r\n\r\n".encode())
            await through.ask(b"CONNECT " + b"x" * 7000 + b":443 HTTP/1.1\r\n\r\n")
            return len(through.proxy.refusals)

    assert run(scene()) == 100


def test_programs_are_told_about_the_proxy_in_both_spellings_and_keep_their_own_loopback() -> None:
    there = "http://127.0.0.1:3128"
    assert FilteringProxy(["a.example"]).environment(3128) == {
        **dict.fromkeys(["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"], there),
        **dict.fromkeys(["NO_PROXY", "no_proxy"], "localhost,127.0.0.1,::1"),
    }
    assert FilteringProxy(["127.0.0.1:80"]).environment(3128)["no_proxy"] == ""


def test_an_entry_that_cannot_be_read_is_refused_before_anything_starts() -> None:
    with pytest.raises(InvalidArgument, match=r"network: 'http://a\.example'"):
        FilteringProxy(["http://a.example"])


def test_the_systems_resolver_knows_this_machine() -> None:
    async def scene() -> Sequence[str]:
        resolver = SystemResolver()
        try:
            return await resolver("localhost", 80)
        finally:
            resolver.close()

    assert set(run(scene())) <= {"127.0.0.1", "::1"}
