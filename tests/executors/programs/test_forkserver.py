""""""

import asyncio
import os
import re
import time
from pathlib import Path

import pytest

from openskills.executors.bubblewrap.backend import SandboxBackend
from openskills.executors.spec import Command, EndReason, Limits
from tests.conftest import RequireProgram, needs_root
from tests.executors.running import TIMEOUT, alive, eventually, read_until
from tests.executors.warming import Bench, bench

WHO = """
import os
def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
leader = os.getppid()
server = parent(leader)
print(os.getpid(), leader, server, flush=True)
"""


async def _server(here: Bench) -> int:
    return int((await here.script(WHO)).stdout.text().split()[2])


async def test_every_command_is_a_process_of_its_own_and_sees_nothing_of_the_others(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        text = (
            "import json, os, sys, random, threading, atexit\n"
            "print(hasattr(json, 'mark'), os.environ.get('MARK'), os.getcwd(), sys.path[0], len(sys.argv))\n"
            "json.mark = 1; os.environ['MARK'] = '1'; os.chdir('/'); sys.path.clear(); sys.argv.append('x')\n"
        )
        first, second = [await here.script(text) for _ in range(2)]
        assert first.stdout.text() == second.stdout.text()
        assert first.stdout.text().startswith("False None")
        assert here.outcome.warm


async def test_chance_is_not_the_same_in_every_command(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        text = "import random, uuid, tempfile; print(random.random(), uuid.uuid4(), tempfile.mktemp())"
        runs = [(await here.script(text)).stdout.text().split() for _ in range(3)]
        for values in zip(*runs, strict=True):
            assert len(set(values)) == 3


async def test_many_commands_at_once_each_get_their_own_streams(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        path = here.write("echo.py", "import sys, os; print(sys.argv[1], sys.stdin.read(), os.environ['N'])")
        wanted = [
            Command(("python", path, str(number)), stdin=b"in%d" % number, env={"N": f"n{number}"})
            for number in range(20)
        ]
        ended = await asyncio.gather(*(here.run(command) for command in wanted))
        assert [one.stdout.text() for one in ended] == [f"{n} in{n} n{n}\n" for n in range(20)]


async def test_a_large_environment_and_a_large_input_arrive_whole(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        text = "import sys, os; print(len(os.environ['BIG']), len(sys.argv[1]), len(sys.stdin.buffer.read()))"
        path = here.write("big.py", text)
        big = "x" * 100_000
        ended = await here.run(Command(("python", path, big), env={"BIG": big}, stdin=b"y" * 3_000_000))
        assert (ended.stdout.text(), here.outcome.warm) == ("100000 100000 3000000\n", True)


async def test_no_descriptor_of_the_server_is_left_in_a_command(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        waiting = await here.start(Command(("python", here.write("w.py", "input()")), input_open=True))
        ended = await here.script("import os; print(sorted(os.listdir('/proc/self/fd')))")
        # The last one is the listing itself.
        assert ended.stdout.text() == "['0', '1', '2', '3']\n"
        await waiting.kill()


async def test_a_command_with_secrets_starts_cold_and_the_server_never_has_a_variable_of_a_caller(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as here:
        path = here.write("who.py", WHO + "print(os.environ['TOKEN'])\n")
        await here.run(Command(("python", path), secrets={"TOKEN": "s3cret-value"}))
        assert not here.outcome.warm
        assert here.outcome.reason == "it has secrets"
        for _ in range(2):
            ended = await here.run(Command(("python", path), env={"TOKEN": "s3cret-value"}))
            assert here.outcome.warm
            server = int(ended.stdout.text().split()[2])
            assert "s3cret-value" in ended.stdout.text()
            assert b"s3cret" not in _shown_environment(server)


async def test_a_killed_server_takes_its_commands_with_it_and_the_next_command_gets_another(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        path = here.write("who.py", WHO + "input()\n")
        process = await here.start(Command(("python", path), input_open=True, readable=True))
        pids = [int(word) for word in (await read_until(process, b"\n")).split()]
        os.kill(pids[2], 9)
        ended = await process.wait()
        assert ended.ending == "interrupted"
        assert await eventually(lambda: not any(alive(pid) for pid in pids))
        results = [(await here.script("print('again')")).stdout.text() for _ in range(2)]
        assert results == ["again\n"] * 2
        assert here.outcome.warm


async def test_a_server_whose_host_has_gone_ends_with_everything(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        path = here.write("who.py", WHO + "import time; time.sleep(1000)\n")
        process = await here.start(Command(("python", path), readable=True))
        pids = [int(word) for word in (await read_until(process, b"\n")).split()]
        await here.warm.close()
        assert await eventually(lambda: not any(alive(pid) for pid in pids))


async def test_in_a_sandbox_a_command_cannot_look_into_what_forks_the_next(
    tmp_path: Path, require_program: RequireProgram
) -> None:
    require_program("bwrap")

    async with bench(tmp_path, backend=SandboxBackend()) as here:
        text = WHO + (
            "for pid in (leader, server):\n"
            "    for name in ('mem', 'environ', 'maps', 'fd'):\n"
            "        try:\n"
            "            os.listdir(f'/proc/{pid}/fd') if name == 'fd' else os.open(f'/proc/{pid}/{name}', 0)\n"
            "            print('open', pid, name)\n"
            "        except PermissionError: pass\n"
            "print(os.getuid(), open('/proc/self/environ').read(0) == '')\n"
        )
        ended = await here.script(text)
        assert here.outcome.warm
        assert ended.stderr.text() == ""
        assert re.fullmatch(r"\d+ \d+ \d+\n\d+ True\n", ended.stdout.text())
        assert int(ended.stdout.text().split()[3]) != 0


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("print('hello')", "print something"),
        ("import sys; print('hello', file=sys.stderr)", "print something"),
        ("import os; os.write(1, b'x')", "print something"),
        ("import warnings; warnings.warn('old', DeprecationWarning, stacklevel=2)", "print something"),
        ("raise ValueError('broken')", "ValueError: broken"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import no_such_module_at_all", "ModuleNotFoundError"),
        ("import threading, time; threading.Thread(target=time.sleep, args=(99,), daemon=True).start()", "threads"),
        ("file = open('/dev/null')", "files open"),
        ("import os; os._exit(0)", "it exited during startup"),
    ],
)
async def test_modules_that_do_something_when_they_are_imported_are_imported_by_each_command(
    tmp_path: Path, body: str, why: str
) -> None:
    async with bench(tmp_path, ["busy_module"]) as here:
        here.write("lib/busy_module.py", body + "\n")
        path = here.write("use.py", "import busy_module; print('used')")
        command = Command(("python", path), env={"PYTHONPATH": f"{here.launcher.root}/work/lib"})
        cold = await here.run(command, warm=False)
        for _ in range(2):
            ended = await here.run(command)
            assert why in here.outcome.reason
            assert (ended.exit_code, ended.stdout, ended.stderr) == (cold.exit_code, cold.stdout, cold.stderr)


@needs_root("only it can count the files of a process that hides them")
async def test_a_server_goes_on_after_many_commands_without_growing(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        server = await _server(here)
        await here.script("pass")
        before = _descriptors(server)
        for _ in range(30):
            await here.script("pass")
        # A spare process, which it may or may not have had before, takes two.
        assert await eventually(lambda: _descriptors(server) <= before + 2)
        assert await _server(here) == server


def _shown_environment(pid: int) -> bytes:
    """What can be read of it: by root everything, by others nothing, because it hides."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except PermissionError:
        assert os.geteuid() != 0
        return b""


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


ORPHANS = """
import os, subprocess, sys
quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
far = subprocess.Popen(["setsid", "bash", "-c", "trap '' TERM HUP; sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE)
near = subprocess.Popen(["sleep", "1000"], **quiet)
print(far.pid, near.pid, int(far.stdout.readline()), flush=True)
"""


async def ready(here: Bench) -> None:
    """Have the interpreter up, which may take as long as a deadline."""
    deadline = time.monotonic() + TIMEOUT
    await here.script("pass")
    while not here.outcome.warm:
        assert time.monotonic() < deadline, here.outcome.reason
        await here.script("pass")


async def test_everything_that_a_command_started_ends_with_it(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        ended = await here.script(ORPHANS)
        pids = [int(word) for word in ended.stdout.text().split()]
        assert (len(pids), ended.exit_code, here.outcome.warm) == (3, 0, True)
        assert not any(alive(pid) for pid in pids)


async def test_a_command_that_ignores_the_deadline_is_killed_with_its_descendants(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        path = here.write(
            "stay.py", ORPHANS + "import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(1000)\n"
        )
        await ready(here)
        ended = await here.run(Command(("python", path), limits=Limits(timeout=1.5, grace=0.2)))
        assert (ended.ending, ended.exit_code) == (EndReason.TIMED_OUT, 137)
        pids = [int(word) for word in ended.stdout.text().split()]
        assert len(pids) == 3
        assert not any(alive(pid) for pid in pids)


async def test_a_command_can_end_itself_in_the_grace(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        text = (
            "import signal, sys, time\n"
            "signal.signal(15, lambda *_: sys.exit(8))\n"
            "print('on', flush=True)\ntime.sleep(1000)\n"
        )
        process = await here.start(
            Command(("python", here.write("s.py", text)), readable=True, limits=Limits(grace=20))
        )
        await read_until(process, b"on")
        await process.kill()
        ended = await process.wait()
        assert (ended.ending, ended.exit_code) == (EndReason.KILLED, 8)


async def test_commands_that_run_at_once_do_not_end_each_others_processes(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        path = here.write("wait.py", ORPHANS + "sys.stdin.read()\n")
        command = Command(("python", path), input_open=True, readable=True)
        processes = [await here.start(command) for _ in range(4)]
        pids = [[int(word) for word in (await read_until(process, b"\n")).split()] for process in processes]
        await processes[0].close_input()
        assert (await processes[0].wait()).exit_code == 0
        assert not any(alive(pid) for pid in pids[0])
        assert all(alive(pid) for others in pids[1:] for pid in others)
        await asyncio.gather(*(process.kill() for process in processes[1:]))
        assert not any(alive(pid) for others in pids[1:] for pid in others)


async def test_a_command_that_stops_or_kills_what_is_above_it_still_ends_in_time(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        for attack in ("os.kill(os.getppid(), signal.SIGSTOP)", "os.kill(grandparent, signal.SIGSTOP)"):
            text = (
                "import os, signal, time\n"
                "grandparent = int(open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()[1])\n"
                f"print(os.getpid(), flush=True)\n{attack}\ntime.sleep(1000)\n"
            )
            command = Command(("python", here.write("stop.py", text)), limits=Limits(timeout=2.0, grace=0.1))
            await ready(here)
            ended = await here.run(command)
            assert here.outcome.warm
            assert ended.ending is EndReason.TIMED_OUT
            pid = int(ended.stdout.text())
            assert await eventually(lambda pid=pid: not alive(pid))
        assert (await here.script("print('again')")).stdout.text() == "again\n"


async def test_a_command_that_kills_its_leader_is_ended_and_reported(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        text = "import os, time; print(os.getpid(), flush=True); os.kill(os.getppid(), 9); time.sleep(1000)"
        ended = await here.script(text)
        assert ended.exit_code == 137
        assert not alive(int(ended.stdout.text()))
        assert (await here.script("print('again')")).stdout.text() == "again\n"
        assert here.outcome.warm


async def test_signals_to_its_whole_group_do_not_harm_what_is_above_it(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        ended = await here.script("import os, signal\nos.kill(0, signal.SIGUSR1)\n")
        assert ended.exit_code == 138
        parents = [int((await here.script("import os; print(os.getppid())")).stdout.text()) for _ in range(2)]
        assert parents[0] != parents[1] != os.getpid()
        assert here.outcome.warm
