import asyncio
import os
from pathlib import Path

from openskills.executors.spec import Command, Ending, Limits
from openskills.sync import run
from tests.executors.running import alive, eventually, read_until
from tests.executors.warming import Bench, bench

ORPHANS = """
import os, subprocess, sys
quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
far = subprocess.Popen(["setsid", "bash", "-c", "trap '' TERM HUP; sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE)
near = subprocess.Popen(["sleep", "1000"], **quiet)
print(far.pid, near.pid, int(far.stdout.readline()), flush=True)
"""


async def ready(here: Bench) -> None:
    """Have the interpreter up, which may take as long as a deadline."""
    await here.script("pass")
    while not here.outcome.warm:
        await here.script("pass")


def test_everything_that_a_command_started_ends_with_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with bench(tmp_path) as here:
            ended = await here.script(ORPHANS)
            pids = [int(word) for word in ended.stdout.text().split()]
            assert (len(pids), ended.exit_code, here.outcome.warm) == (3, 0, True)
            assert not any(alive(pid) for pid in pids)

    run(scenario())


def test_a_command_that_ignores_the_deadline_is_killed_with_its_descendants(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with bench(tmp_path) as here:
            path = here.write(
                "stay.py", ORPHANS + "import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(1000)\n"
            )
            await ready(here)
            ended = await here.run(Command(("python", path), limits=Limits(timeout=1.5, grace=0.2)))
            assert (ended.ending, ended.exit_code) == (Ending.TIMED_OUT, 137)
            pids = [int(word) for word in ended.stdout.text().split()]
            assert len(pids) == 3
            assert not any(alive(pid) for pid in pids)

    run(scenario())


def test_a_command_can_end_itself_in_the_grace(tmp_path: Path) -> None:
    async def scenario() -> None:
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
            assert (ended.ending, ended.exit_code) == (Ending.KILLED, 8)

    run(scenario())


def test_commands_that_run_at_once_do_not_end_each_others_processes(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_a_command_that_stops_or_kills_what_is_above_it_still_ends_in_time(tmp_path: Path) -> None:
    async def scenario() -> None:
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
                assert ended.ending is Ending.TIMED_OUT
                pid = int(ended.stdout.text())
                assert await eventually(lambda pid=pid: not alive(pid))
            assert (await here.script("print('again')")).stdout.text() == "again\n"

    run(scenario())


def test_a_command_that_kills_its_leader_is_ended_and_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with bench(tmp_path) as here:
            text = "import os, time; print(os.getpid(), flush=True); os.kill(os.getppid(), 9); time.sleep(1000)"
            ended = await here.script(text)
            assert ended.exit_code == 137
            assert not alive(int(ended.stdout.text()))
            assert (await here.script("print('again')")).stdout.text() == "again\n"
            assert here.outcome.warm

    run(scenario())


def test_signals_to_its_whole_group_do_not_harm_what_is_above_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with bench(tmp_path) as here:
            ended = await here.script("import os, signal\nos.kill(0, signal.SIGUSR1)\n")
            assert ended.exit_code == 138
            parents = [int((await here.script("import os; print(os.getppid())")).stdout.text()) for _ in range(2)]
            assert parents[0] != parents[1] != os.getpid()
            assert here.outcome.warm

    run(scenario())
