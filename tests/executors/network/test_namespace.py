import asyncio
import os
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.bubblewrap.backend import SandboxBackend
from openskills.executors.network.namespace import connect_proxy
from openskills.executors.network.proxy import FilteringProxy
from openskills.executors.spec import Command
from openskills.executors.supervisor import LaunchRequest, SupervisorPool
from tests.conftest import RequireProgram
from tests.executors.boxes import QUICK, box


async def test_a_command_that_cannot_be_connected_is_never_run(tmp_path: Path) -> None:
    pool = SupervisorPool()
    script = 'echo >&3; read -r _ <&4 || exit 125; echo ran > "$0"'
    with open(os.devnull, "r+b") as null:
        fds = dict.fromkeys(range(3), null.fileno())
        argv = ("bash", "-c", script, str(tmp_path / "ran"))
        # It has no network namespace of its own, so there is no inside to put a proxy in.
        kept = await pool.start(LaunchRequest(argv, {"PATH": "/usr/bin:/bin"}, "/", fds, handshake=(3, 4), hold=True))
    with pytest.raises(ExecutorUnavailable, match="network proxy"):
        await connect_proxy(kept, FilteringProxy(["example.org"]), None)
    assert (await kept.wait()).status == -9
    await pool.close()

    assert not (tmp_path / "ran").exists()


async def test_the_variables_of_the_proxy_are_there_and_it_ends_with_its_command(
    tmp_path: Path, require_program: RequireProgram
) -> None:
    require_program("bwrap")

    async with box(SandboxBackend(), tmp_path) as one:
        command = Command(("bash", "-c", "echo $HTTPS_PROXY; grep -q :0C38 /proc/net/tcp"), limits=QUICK)
        bare = await (await one.start(command)).wait()
        assert (bare.stdout.text(), bare.exit_code) == ("\n", 1)
        allowed = Command(command.argv, network=("example.org",), limits=QUICK)
        ended = await (await one.start(allowed)).wait()
        assert (ended.stdout.text(), ended.exit_code) == ("http://127.0.0.1:3128\n", 0)
        await one.launcher.close()
        assert not [task for task in asyncio.all_tasks() if "_close_after" in repr(task)]


async def test_each_refusal_is_said_once_in_the_result_of_the_command(
    tmp_path: Path, require_program: RequireProgram
) -> None:
    require_program("bwrap")
    ask = "printf 'GET http://evil.example/ HTTP/1.1\\r\\n\\r\\n' >&3; read -r answer <&3; echo $answer"
    text = f"for i in 1 2; do exec 3<>/dev/tcp/127.0.0.1/3128; {ask}; done"

    async with box(SandboxBackend(), tmp_path) as one:
        ended = await one.shell(text, network=("example.org",))
        assert ended.stdout.text().count("403") == 2
        assert len(ended.notes) == 1
        assert ended.notes[0].startswith("network: evil.example:80: ")
