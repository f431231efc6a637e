import asyncio
import os
import socket
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.container.link import ContainerLink
from openskills.executors.inside import container_keeper
from openskills.sync import run

UID = os.getuid()


async def always() -> bool:
    return True


async def never() -> bool:
    return False


async def called(link: ContainerLink, *words: bytes) -> socket.socket:
    """Call as a container does, say something, and be taken."""
    loop = asyncio.get_running_loop()
    taking = loop.create_task(link.taken(always))
    with socket.socket(socket.AF_UNIX) as caller:
        descriptor = os.open(link.directory, os.O_PATH)
        try:
            caller.setblocking(False)
            await loop.sock_connect(caller, f"/proc/self/fd/{descriptor}/{container_keeper.SOCKET}")
        finally:
            os.close(descriptor)
        for word in words:
            await loop.sock_sendall(caller, word)
            await asyncio.sleep(0)
        caller.shutdown(socket.SHUT_WR)
        return await taking


def test_the_first_call_is_taken_and_no_other_can_be_made(tmp_path: Path) -> None:
    async def scenario() -> None:
        link = ContainerLink(tmp_path, UID, UID)
        connection = await called(link, b'{"problem"', b": null}\n")
        with connection:
            assert not (link.directory / container_keeper.SOCKET).exists()
        link.close()
        assert os.listdir(tmp_path) == []

    run(scenario())


def test_both_names_of_the_interpreter_lead_to_what_the_container_says(tmp_path: Path) -> None:
    async def scenario() -> None:
        link = ContainerLink(tmp_path, UID, UID)
        (await called(link, b'{"problem": null, "python": "/opt/py/bin/python3"}\n')).close()
        links = link.directory / "bin"
        assert {name: os.readlink(links / name) for name in os.listdir(links)} == {
            "python": "/opt/py/bin/python3",
            "python3": "/opt/py/bin/python3",
        }
        link.close()
        assert os.listdir(tmp_path) == []

    run(scenario())


def test_it_lies_as_deep_as_it_likes(tmp_path: Path) -> None:
    async def scenario() -> None:
        deep = tmp_path / ("d" * 150) / ("e" * 150)
        deep.mkdir(parents=True)
        link = ContainerLink(deep, UID, UID)
        (await called(link, b'{"problem": null}\n')).close()
        link.close()

    run(scenario())


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (b'{"problem": "it has no bash"}\n', "cannot be used: it has no bash"),
        (b"", "hung up"),
        (b"x" * 10_000, "hung up"),
        (b"garbage\n", "cannot be understood"),
        (b"[]\n", "cannot be understood"),
        (b"\xff\n", "cannot be understood"),
    ],
)
def test_a_caller_that_says_something_else_is_refused(tmp_path: Path, words: bytes, reason: str) -> None:
    async def scenario() -> None:
        link = ContainerLink(tmp_path, UID, UID)
        try:
            with pytest.raises(ExecutorUnavailable, match=reason):
                await called(link, words)
        finally:
            link.close()

    run(scenario())


def test_a_caller_of_another_user_is_refused_with_the_kind_of_engine_to_use(tmp_path: Path) -> None:
    async def scenario() -> None:
        link = ContainerLink(tmp_path, UID + 1, UID)
        try:
            with pytest.raises(ExecutorUnavailable, match="userns-remap"):
                await called(link, b'{"problem": null}\n')
        finally:
            link.close()

    run(scenario())


def test_a_container_that_ended_without_a_call_is_not_waited_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        link = ContainerLink(tmp_path, UID, UID)
        try:
            with pytest.raises(
                ExecutorUnavailable, match="ended before it called; it must be an engine on this machine"
            ):
                await link.taken(never)
        finally:
            link.close()

    run(scenario())


def test_waiting_for_a_call_can_be_given_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        link = ContainerLink(tmp_path, UID, UID)
        taking = asyncio.get_running_loop().create_task(link.taken(always))
        await asyncio.sleep(0)
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        link.close()
        assert os.listdir(tmp_path) == []

    run(scenario())
