"""A driver that cannot reach its cluster says so, quickly and without notices of Ray."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.ray.cluster import probe_head
from tests.servers.started import free_port

_PROGRAM = """
import asyncio, sys
from openskills.errors import ExecutorUnavailable
from openskills.executors.open import open_executor
from openskills.settings import Settings

async def main():
    executor = open_executor(sys.argv[1], Settings.from_env({"OPENSKILL_STATE_DIR": sys.argv[2]}))
    for _ in range(2):
        try:
            await executor.check()
        except ExecutorUnavailable as error:
            print(error.message)
    await executor.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("form", ["ray:{}", "ray://{}"])
async def test_an_address_where_nothing_listens_is_an_error_without_other_output(form: str, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    argv = [sys.executable, "-c", _PROGRAM, form.format(address), str(tmp_path)]
    driver = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # Ray itself would try for minutes.
    async with asyncio.timeout(60):
        output, errors = await driver.communicate()
    first, second = output.decode().splitlines()
    assert first == second
    assert f"{address}': " in first
    assert "Connection refused; start one with `ray start --head`, or set RAY_ADDRESS" in first
    assert errors == b""


@pytest.mark.parametrize("address", ["localhost", "localhost:port", "http://localhost:80", "ray://", ":6379"])
def test_what_is_not_an_address_of_a_cluster_is_refused_with_the_forms(address: str) -> None:
    with pytest.raises(InvalidArgument, match="use HOST:PORT or ray://HOST:PORT"):
        probe_head(address)


@pytest.mark.parametrize(("answer", "is_http2"), [(bytes([0, 0, 6, 4, 0]), True), (b"HTTP/1.1 400 \r\n", False)])
async def test_a_server_that_speaks_http2_is_told_apart_from_another_one(answer: bytes, is_http2: bool) -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        assert await asyncio.to_thread(lambda: probe_head(address)) is is_http2
