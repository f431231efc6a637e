""""""

import asyncio
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.executors.local import LocalBackend
from openskills.executors.spec import Command, EndReason, Limits
from openskills.executors.warm import (
    PreloadSpec,
    PythonCommand,
    build_server_argv,
    build_server_environment,
    parse_python_command,
)
from tests.executors.running import TIMEOUT, alive, eventually, read_until
from tests.executors.warming import Bench, bench

# Strings hash alike in all commands of one server, and differently in those of another.
SEED = "print(hash('which server is this'))"
WHO = "import os; print(open(f'/proc/{os.getppid()}/stat').read().split()[3])"


async def _seed(here: Bench, env: dict[str, str] | None = None, limits: Limits | None = None) -> str:
    command = Command(("python", here.write("seed.py", SEED)), env=env or {}, limits=limits or Limits())
    return (await here.run(command)).stdout.text()


async def test_commands_share_a_server_whatever_the_caller_adds_to_their_environment(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        seeds = [await _seed(here, {"WORD": str(number)}) for number in range(3)]
        assert len(set(seeds)) == 1
        assert here.outcome.warm


async def test_what_libraries_look_at_gets_a_server_of_its_own(tmp_path: Path) -> None:
    async with bench(tmp_path, max_servers=4) as here:
        seeds = [
            await _seed(here),
            await _seed(here, {"OMP_NUM_THREADS": "1"}),
            await _seed(here, limits=Limits(open_files=100)),
        ]
        here.warmth = replace(here.warmth, version="a newer skill")
        seeds.append(await _seed(here))
        assert len(set(seeds)) == 4
        assert here.outcome.warm


async def test_changed_modules_are_used_at_once(tmp_path: Path) -> None:
    async with bench(tmp_path, ["changing"]) as here:
        module = "lib/changing.py"
        here.write(module, "WORD = 'first'\n")
        path = here.write("use.py", "import changing; print(changing.WORD)")
        command = Command(("python", "-B", path), env={"PYTHONPATH": f"{here.launcher.root}/work/lib"})
        assert (await here.run(command)).stdout.text() == "first\n"
        assert here.outcome.warm
        here.write(module, "WORD = 'the second'\n")
        assert (await here.run(command)).stdout.text() == "the second\n"
        assert "has changed" in here.outcome.reason
        assert (await here.run(command)).stdout.text() == "the second\n"
        assert here.outcome.warm


async def test_a_module_that_appears_earlier_in_the_path_is_used_at_once(tmp_path: Path) -> None:
    async with bench(tmp_path, ["found"]) as here:
        here.write("late/found.py", "WORD = 'late'\n")
        here.write("early/other.py", "")
        path = here.write("use.py", "import found; print(found.WORD)")
        work = f"{here.launcher.root}/work"
        command = Command(("python", "-B", path), env={"PYTHONPATH": f"{work}/early:{work}/late"})
        assert (await here.run(command)).stdout.text() == "late\n"
        assert here.outcome.warm
        here.write("early/found.py", "WORD = 'early'\n")
        assert (await here.run(command)).stdout.text() == "early\n"
        assert not here.outcome.warm


async def test_an_idle_server_is_ended(tmp_path: Path) -> None:
    async with bench(tmp_path, idle_timeout=0.2) as here:
        text = "import os; print(os.getppid())"
        first = await here.script(SEED)
        leader = int((await here.script(text)).stdout.text())
        assert await eventually(lambda: not alive(leader) and not here.warm.server_count)
        second = await here.script(SEED)
        assert here.outcome.warm
        assert first.stdout != second.stdout


async def test_a_server_with_a_command_is_not_idle(tmp_path: Path) -> None:
    async with bench(tmp_path, idle_timeout=0.1) as here:
        ended = await here.script("import time; time.sleep(0.6); print('to the end')")
        assert (ended.exit_code, ended.stdout.text()) == (0, "to the end\n")


async def test_the_server_that_was_not_used_for_the_longest_time_makes_room(tmp_path: Path) -> None:
    async with bench(tmp_path, max_servers=1) as here:
        seeds = [await _seed(here, {"TZ": zone}) for zone in ("UTC", "Asia/Tokyo", "UTC")]
        assert here.outcome.warm
        assert len(set(seeds)) == 3
        assert here.warm.server_count == 1


async def test_a_busy_server_is_not_ended_for_another(tmp_path: Path) -> None:
    async with bench(tmp_path, max_servers=1) as here:
        path = here.write("wait.py", "print('on', flush=True); input()")
        busy = await here.start(Command(("python", path), input_open=True, readable=True))
        await read_until(busy, b"on")
        await _seed(here, {"TZ": "Asia/Tokyo"})
        assert "all 1 warm interpreters are busy" in here.outcome.reason
        await busy.write(b"\n")
        assert (await busy.wait()).exit_code == 0


async def test_a_command_does_not_wait_for_slow_modules_and_the_next_one_has_them(tmp_path: Path) -> None:
    async with bench(tmp_path, ["slow"], start_timeout=0.05) as here:
        here.write("lib/slow.py", "import os, time\nwhile not os.path.exists('work/go'): time.sleep(0.01)\n")
        path = here.write("print.py", "print('done')")
        command = Command(("python", path), env={"PYTHONPATH": f"{here.launcher.root}/work/lib"})
        assert (await here.run(command)).stdout.text() == "done\n"
        assert "still being loaded" in here.outcome.reason
        here.write("go", "")
        deadline = time.monotonic() + TIMEOUT
        while not here.outcome.warm:
            assert (await here.run(command)).stdout.text() == "done\n"
            assert here.outcome.warm or "still being loaded" in here.outcome.reason
            assert time.monotonic() < deadline, here.outcome.reason


async def test_a_server_that_dies_never_makes_a_command_run_twice(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        text = "import sys; open('work/count', 'a').write('x'); sys.stdin.read()"
        path = here.write("count.py", text)
        command = Command(("python", path), limits=Limits(timeout=20))
        for number in range(10):
            who = await here.script(WHO)
            server = int(who.stdout.text())
            starting = asyncio.create_task(here.run(command))
            for _ in range(number):
                await asyncio.sleep(0)
            os.kill(server, 9)
            ended = await starting
            runs = len((here.tree / "work" / "count").read_text()) if (here.tree / "work" / "count").exists() else 0
            # It ran once, or it is said that nobody knows.
            assert runs == 1 or (runs == 0 and ended.ending is EndReason.INTERRUPTED)
            (here.tree / "work" / "count").unlink(missing_ok=True)


@pytest.mark.parametrize("name", ["python", "python3"])
async def test_both_names_of_the_interpreter_are_warm_where_it_has_none_of_its_own(name: str, tmp_path: Path) -> None:
    alone = tmp_path / "alone" / "interpreter"
    alone.parent.mkdir()
    alone.symlink_to(os.path.realpath(sys.executable))
    async with bench(tmp_path, backend=LocalBackend(python=alone)) as here:
        command = Command((name, here.write("script.py", "import sys; print(sys.executable)")))
        assert (await here.run(command)).stdout.text().endswith(f"/bin/{name}\n")
        assert here.outcome.reason == ""


async def test_what_cannot_be_warm_says_why(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        await here.run(Command(("bash", "-c", "true")))
        assert here.outcome.reason == "it does not start python"
        await here.run(Command(("python", "-c", "pass"), network=("example.org",)))
        assert here.outcome.reason == "it may use the network"
        here.warmth = PreloadSpec(("os; print(1)",))
        await here.run(Command(("python", "-c", "pass")))
        assert "invalid module name" in here.outcome.reason


async def test_a_start_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        await here.script("pass")
        path = here.write("mark.py", "open('work/mark', 'w'); import time; time.sleep(1000)")
        starting = asyncio.create_task(here.run(Command(("python", path))))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        ended = await here.script("print('next')")
        assert (ended.stdout.text(), here.outcome.warm) == ("next\n", True)
        assert not (here.tree / "work" / "mark").exists()


async def test_a_start_that_is_cancelled_while_another_server_ends_is_not_made_and_that_one_is_ended(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, max_servers=1) as here:
        server = int((await here.script(WHO)).stdout.text())
        # It does not end by itself now.
        os.kill(server, signal.SIGSTOP)
        path = here.write("mark.py", "open('work/mark', 'w')")
        starting = asyncio.create_task(here.run(Command(("python", path), env={"TZ": "Asia/Tokyo"})))
        assert await eventually(lambda: not here.warm.server_count)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not (here.tree / "work" / "mark").exists()
        assert here.warm.server_count == 0
        assert await eventually(lambda: not alive(server))


async def test_who_waits_for_a_server_when_all_are_ended_gets_a_cold_start(tmp_path: Path) -> None:
    async with bench(tmp_path, ["endless"]) as here:
        here.write("lib/endless.py", "import time\nwhile True: time.sleep(0.1)\n")
        path = here.write("print.py", "print('done')")
        command = Command(("python", path), env={"PYTHONPATH": f"{here.launcher.root}/work/lib"})
        waiting = asyncio.create_task(here.run(command))
        assert await eventually(lambda: here.warm.server_count == 1)
        await here.warm.close()
        assert (await waiting).stdout.text() == "done\n"
        assert here.outcome.reason == "the workspace is closing"


async def test_closing_ends_the_servers(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        who = await here.script(WHO)
        await here.warm.close()
        assert await eventually(lambda: not alive(int(who.stdout.text())))
        await here.script("print('cold')")
        assert here.outcome.reason == "the workspace is closing"


@pytest.mark.parametrize(
    ("argv", "options"),
    [
        (["python", "x.py", "-v"], ()),
        (["python3", "-c", "pass"], ()),
        (["python3.11", "-m", "json.tool"], ()),
        (["/usr/bin/python3", "-u", "-BE", "x.py"], ("-u", "-BE")),
        (["python", "-W", "error", "-I", "-m", "x", "-V"], ("-W", "error", "-I")),
    ],
)
def test_an_ordinary_command_line_is_taken_apart(argv: list[str], options: tuple[str, ...]) -> None:
    assert parse_python_command(argv, {}) == PythonCommand(argv[0], options)


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["bash", "-c", "python x.py"], "does not start python"),
        (["pythonw", "x.py"], "does not start python"),
        (["python2", "x.py"], "does not start python"),
        (["python"], "from stdin"),
        (["python", "-u"], "from stdin"),
        (["python", "-"], "from stdin"),
        (["python", ""], "from stdin"),
        (["python", "-i", "x.py"], "-i is an unusual option"),
        (["python", "-X", "dev", "x.py"], "-X is an unusual option"),
        (["python", "--version"], "--version is an unusual option"),
        (["python", "-cpass"], "unusual option"),
        (["python", "-mjson"], "unusual option"),
        (["python", "-c"], "has no argument"),
    ],
)
def test_an_unusual_command_line_is_named(argv: list[str], why: str) -> None:
    found = parse_python_command(argv, {})
    assert isinstance(found, str)
    assert why in found


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({"PYTHONINSPECT": "1"}, "PYTHONINSPECT is set"),
        ({"PYTHONPATH": "/a:lib"}, "PYTHONPATH has a relative directory"),
        ({"PYTHONPATH": "/a:"}, "PYTHONPATH has a relative directory"),
    ],
)
def test_a_variable_that_changes_how_python_starts_is_named(env: dict[str, str], why: str) -> None:
    assert parse_python_command(["python", "x.py"], env) == why


def test_a_server_sees_what_libraries_look_at_and_no_secret() -> None:
    env = {"PATH": "/bin", "RUN_DIR": "/w/runs/1", "TOKEN": "s3cret", "OMP_NUM_THREADS": "1", "WORD": "x", "LANG": "C"}
    seen = build_server_environment(env, {"TOKEN", "OMP_NUM_THREADS", "WORD"})
    assert seen == {"PATH": "/bin", "OMP_NUM_THREADS": "1", "LANG": "C"}


def test_the_command_line_of_a_server_has_the_options_of_the_command() -> None:
    argv = build_server_argv(PythonCommand("python3", ("-u",)), ("json",), [b"12", b"345"])
    assert argv[:3] == ("python3", "-u", "-c")
    assert "(2, 3)" in argv[3]
    compile(argv[3], "bootstrap", "exec")
