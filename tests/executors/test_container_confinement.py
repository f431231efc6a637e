"""What commands in a container cannot do, and how much they can use."""

import os
import socket
from pathlib import Path

import pytest

from openskills.executors.container.spec import ContainerOptions
from openskills.executors.spec import MIB, Command, Limits
from tests.container_engine import TestEngine
from tests.executors.containers import UID, python, session
from tests.executors.running import read_until, shell


async def test_commands_are_nobody_without_rights_network_or_things_of_the_host(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    async with session(container_engine, tmp_path) as commands:
        look = "id -u; grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status; env; ls /proc/self/fd; "
        said = (await commands.run(Command(shell(f"{look} tail -n +3 /proc/net/dev")))).stdout.text()

    assert said.startswith(f"{UID}\n")
    assert "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n" in said
    assert "NoNewPrivs:\t1" in said
    assert "HOME=/home/user\n" in said
    assert "\n0\n1\n2\n3\n" in said
    assert not {name for name in os.environ if f"\n{name}=" in said} - {
        "PATH",
        "HOME",
        "PWD",
        "LANG",
        "_",
        "SHLVL",
        "TMPDIR",
    }
    assert [line.split(":")[0].strip() for line in said.splitlines() if ": " in line and "NoNew" not in line] == ["lo"]


@pytest.mark.parametrize(
    "attempt",
    [
        "open('/x', 'w')",
        "open('/etc/x', 'w')",
        "open('/run/openskills/keeper.py', 'w')",
        "open('/proc/1/environ').read()",
        "os.listdir(f'/proc/{os.getppid()}/fd')",
        "open(f'/proc/{os.getppid()}/mem', 'rb')",
        "open('/proc/sys/kernel/core_pattern', 'w')",
        "os.kill(1, 9) or open('/nothing')",
        "os.setuid(0)",
        "os.chroot('/workspace')",
        "socket.socket(socket.AF_UNIX)",
        "socket.socket(socket.AF_VSOCK)",
        "socket.create_connection(('192.0.2.1', 80), 5)",
        "open('/run/openskills/host')",
        "os.rename('/workspace/skills', '/workspace/elsewhere')",
    ],
)
async def test_what_is_not_allowed_fails_inside(container_engine: TestEngine, tmp_path: Path, attempt: str) -> None:
    async with session(container_engine, tmp_path) as commands:
        ended = await commands.run(Command(python(f"import os, socket; {attempt}")))
        assert ended.exit_code == 1
        assert ended.stderr.text().splitlines()[-1].startswith(("PermissionError", "OSError", "FileNotFoundError"))


async def test_the_loopback_of_the_host_cannot_be_reached(container_engine: TestEngine, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            pass
        async with session(container_engine, tmp_path) as commands:
            attempt = f"import socket; socket.create_connection(('127.0.0.1', {port}))"
            ended = await commands.run(Command(python(attempt)))
            assert "ConnectionRefusedError" in ended.stderr.text()


async def test_two_sessions_see_nothing_of_each_other(container_engine: TestEngine, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with (
        session(container_engine, tmp_path / "one", id_=f"{tmp_path.name}-1") as one,
        session(container_engine, tmp_path / "two", id_=f"{tmp_path.name}-2") as two,
    ):
        plant = "echo planted | tee /tmp/planted ~/planted /dev/shm/planted work/planted; exec -a planted sleep 1000"
        running = await one.start(Command(shell(plant), readable=True))
        await read_until(running, b"planted\n")
        look = "grep -als planted /proc/[0-9]*/cmdline; find /tmp ~ /dev/shm /workspace -name planted"
        assert "/workspace/work/planted" in (await one.run(Command(shell(look)))).stdout.text()
        seen = (await two.run(Command(shell(f"echo $$; {look}")))).stdout.text()
        # It finds its own command line, in which the word stands.
        assert {line for line in seen.splitlines()[1:] if not line.startswith("/proc/")} == set()
        assert "sleep" not in (await two.run(Command(shell("cat /proc/[0-9]*/comm")))).stdout.text()
        await running.kill()


async def test_more_memory_than_the_container_has_ends_the_command_and_not_the_session(
    container_engine: TestEngine, tmp_path: Path
) -> None:
    options = ContainerOptions(memory_bytes=64 * MIB)
    async with session(container_engine, tmp_path, options) as commands:
        hungry = python("b = bytearray(300 << 20); print('got it')")
        ended = await commands.run(Command(hungry, limits=Limits(memory_bytes=None)))
        assert (ended.exit_code, ended.stdout.text()) == (137, "")
        assert (await commands.run(Command(("true",)))).exit_code == 0


async def test_a_fork_bomb_ends_at_the_limit_of_processes(container_engine: TestEngine, tmp_path: Path) -> None:
    bomb = python("""if True:
            import os, time
            made = 0
            try:
                while True:
                    if not os.fork(): time.sleep(1000)
                    made += 1
            except OSError:
                print(made)
        """)
    async with session(container_engine, tmp_path, ContainerOptions(pids=40)) as commands:
        whole = await commands.run(Command(bomb, limits=Limits(processes=None)))
        assert 20 <= int(whole.stdout.text()) < 40
        single = await commands.run(Command(bomb, limits=Limits(processes=20)))
        assert 10 <= int(single.stdout.text()) < 20


async def test_temporary_files_and_the_home_are_bounded(container_engine: TestEngine, tmp_path: Path) -> None:
    options = ContainerOptions(tmp_bytes=2 * MIB, home_bytes=MIB)
    async with session(container_engine, tmp_path, options) as commands:
        for place in ("/tmp", "/home/user", "/dev/shm"):
            ended = await commands.run(Command(shell(f"head -c 20000000 /dev/zero > {place}/fill; rm {place}/fill")))
            assert "No space left" in ended.stderr.text()
