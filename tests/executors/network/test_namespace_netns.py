"""Who is inside a sandbox reaches the proxy outside, and nothing else."""

import asyncio
import os
import socket

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.network.namespace import PORT, listen_inside
from openskills.executors.network.proxy import FilteringProxy
from tests.conftest import RequireProgram
from tests.executors.loopback import serving
from tests.executors.netbox import UID, Netbox, netbox

OWNER = UID if os.geteuid() == 0 else None
GET = """
exec 3<>/dev/tcp/127.0.0.1/%d
printf 'GET http://127.0.0.1:%d/ HTTP/1.1\\r\\n\\r\\n' >&3
cat <&3
"""


@pytest.fixture(autouse=True)
def programs(require_program: RequireProgram) -> None:
    require_program("bwrap")
    require_program("setpriv")


async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\n\r\nhello from outside")


async def proxied(box: Netbox, pid: int, *allowed: str) -> bytes:
    """What the script says when the proxy with this list is there."""
    proxy = FilteringProxy(allowed)
    await proxy.start(await listen_inside(pid, uid=OWNER))
    try:
        return await asyncio.to_thread(box.go)
    finally:
        await proxy.close()


@pytest.mark.parametrize("which", ["outside", "inside"])
async def test_a_command_in_a_sandbox_reaches_an_allowed_server_through_the_proxy(which: str) -> None:
    async with serving(hello) as port:
        with netbox(GET % (PORT, port)) as box:
            pid = box.pid if which == "outside" else box.inside()
            result = await proxied(box, pid, f"127.0.0.1:{port}")

    assert result.endswith(b"hello from outside")


async def test_a_command_in_a_sandbox_reaches_nothing_that_is_not_on_its_list() -> None:
    async with serving(hello) as port:
        with netbox(GET % (PORT, port)) as box:
            answer = await proxied(box, box.pid, "example.org")

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"hello" not in answer


async def test_without_the_proxy_the_same_server_is_out_of_reach() -> None:
    async with serving(hello) as port:
        with netbox(f"exec 3<>/dev/tcp/127.0.0.1/{port} || echo out of reach") as box:
            result = await asyncio.to_thread(box.go)

    assert b"out of reach" in result


async def test_the_socket_is_in_the_sandbox_and_nowhere_else() -> None:
    with netbox("true") as box, await listen_inside(box.pid, uid=OWNER, port=4321) as listener:
        assert not listener.get_inheritable()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", 4321)
        name = listener.getsockname()
        result = name[0], name[1]

    assert result == ("127.0.0.1", 4321)


async def test_two_sandboxes_have_the_same_port_each_for_itself() -> None:
    with (
        netbox("true") as one,
        netbox("true") as two,
        await listen_inside(one.pid, uid=OWNER),
        await listen_inside(two.pid, uid=OWNER),
        pytest.raises(ExecutorUnavailable, match="Address already in use"),
    ):
        await listen_inside(one.pid, uid=OWNER)


async def test_a_process_without_a_network_of_its_own_is_refused() -> None:
    async def scene() -> socket.socket:
        return await listen_inside(os.getpid(), uid=OWNER)

    with pytest.raises(ExecutorUnavailable, match=f"process {os.getpid()} has no network namespace of its own"):
        await scene()


async def test_a_process_that_is_not_there_is_refused() -> None:
    async def scene() -> socket.socket:
        return await listen_inside(2**22 + 1, uid=OWNER)

    with pytest.raises(ExecutorUnavailable, match=r"cannot connect the sandbox to the network proxy: .*No such file"):
        await scene()


async def test_a_cancelled_attempt_leaves_neither_process_nor_descriptor() -> None:
    with netbox("true") as box:
        before = len(os.listdir("/proc/self/fd"))
        attempt = asyncio.create_task(listen_inside(box.pid, uid=OWNER))
        await asyncio.sleep(0)
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        after = len(os.listdir("/proc/self/fd"))
    assert after == before
