import asyncio
import gc
import os
import signal
import weakref
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from openskills.executors.bubblewrap.backend import SandboxBackend
from openskills.executors.bubblewrap.reuse import IdleSandboxes, SandboxPool, can_share
from openskills.executors.process import HostProcess
from openskills.executors.protocol import WorkspaceDirectory
from openskills.executors.spec import Command, EndReason, Limits, TerminalSize
from openskills.executors.watchdog import list_descendants
from tests.conftest import RequireProgram
from tests.executors.boxes import QUICK, SKILL, Box, box, new_place
from tests.executors.kept_first import FIRST_PROCESS, KeptFirstBackend
from tests.executors.running import eventually, read_until
from tests.long_form import cases

FACTS = (
    "env | sort; ulimit -a; umask; pwd; id; ls -l /proc/self/fd | sed 's/.* //; s/[0-9]*//g'; cat /proc/self/cgroup; "
    "grep -E 'Sig|Cap|Seccomp|NoNewPrivs|Groups' /proc/self/status; ls -A /tmp ~ /dev/shm; "
    "cat /proc/self/mountinfo | wc -l; cut -d' ' -f5,6 /proc/self/stat"
)
"""Everything that a command could tell its sandbox by."""


PORT_IN_USE = (
    "import socket as s; l=s.create_server(('127.0.0.1', 8000)); "
    "c=s.create_connection(('127.0.0.1', 8000)); a=l.accept()[0]; a.close(); c.close()"
)


DEFAULT_ACL = (
    "import os, struct; acl = struct.pack('<I', 2) + b''.join(struct.pack('<HHI', tag, 0, 0xffffffff) "
    "for tag in (1, 4, 32)); os.setxattr('/tmp', 'system.posix_acl_default', acl)"
)


@pytest.fixture(autouse=True)
def needed(require_program: RequireProgram) -> None:
    for program in ("bwrap", "setpriv"):
        require_program(program)


async def first_process(one: Box, **options: object) -> str:
    """Who is process 1 for the next command."""
    command = replace(Command(FIRST_PROCESS, limits=QUICK), **options)
    launcher = getattr(one.launcher, "_launcher", one.launcher)
    process = await HostProcess.start(command, lambda stdio: launcher.launch(command, {"PATH": "/usr/bin"}, stdio))
    return (await process.wait()).stdout.text().strip()


async def test_a_command_cannot_tell_a_sandbox_that_was_used_from_one_of_its_own(tmp_path: Path) -> None:
    async with box(SandboxBackend(kept=0), tmp_path / "own") as one:
        own = await one.shell(FACTS, skill=SKILL)
    async with box(KeptFirstBackend(), tmp_path / "kept") as one:
        kept = await one.shell(FACTS, skill=SKILL)
    assert own.exit_code == kept.exit_code == 0
    told = [[line for line in ended.stdout.text().splitlines() if "OPENSKILL_RUN" not in line] for ended in (own, kept)]
    assert told[0] == told[1]
    assert own.stderr.text() == kept.stderr.text()


async def test_the_first_commands_have_sandboxes_of_their_own_and_later_ones_share(tmp_path: Path) -> None:
    async with box(SandboxBackend(), tmp_path) as one:
        assert [await first_process(one) for _ in range(2)] == ["bwrap", "bwrap"]
        while not (await first_process(one)).startswith("python"):
            pass
        assert (await first_process(one)).startswith("python")


@pytest.mark.parametrize(
    "options",
    [
        {"secrets": {"TOKEN": "s3cr3t"}},
        {"network": ("example.org",)},
        {"input_open": True},
        {"terminal": TerminalSize()},
        {"skill": SKILL},
        {"limits": Limits(timeout=30, processes=20)},
    ],
    ids=lambda options: next(iter(options)),
)
async def test_a_command_of_another_kind_does_not_get_it(tmp_path: Path, options: dict[str, object]) -> None:
    async with box(KeptFirstBackend(), tmp_path) as one:
        assert (await one.run("true")).exit_code == 0
        assert (await first_process(one)).startswith("python")
        assert "python" not in await first_process(one, **options)


def test_what_may_share_is_decided_by_what_others_could_learn() -> None:
    assert can_share(Command(("true",), stdin=b"x", readable=True, skill="a"))
    assert not can_share(Command(("true",), secrets={"A": "b"}))


@pytest.mark.parametrize(
    "leave",
    [
        "echo x > /tmp/x",
        "echo x > ~/.profile",
        "echo x > /dev/shm/x",
        "chmod 0 /tmp",
        "chmod 0 /dev/pts",
        "echo 19 > /proc/self/autogroup",
        f'python3 -c "{DEFAULT_ACL}"',
        "python3 -c \"import os; os.setxattr('/tmp', 'user.note', b'x')\" || echo x > /tmp/x",
        f'python3 -c "{PORT_IN_USE}"',
        "ipcmk -S 1 >/dev/null",
    ],
)
async def test_a_sandbox_in_which_something_was_left_is_not_used_again(tmp_path: Path, leave: str) -> None:
    async with box(KeptFirstBackend(), tmp_path) as one:
        ended = await one.shell(leave)
        assert (ended.exit_code, ended.ending) == (0, EndReason.EXITED), ended.stderr.text()
        assert await first_process(one) == "bwrap"
        assert (await one.shell("ls -A /tmp ~ /dev/shm | grep -v : | grep .")).stdout.text() == ""


async def test_what_leaves_nothing_leaves_the_sandbox_to_the_next(tmp_path: Path) -> None:
    async with box(KeptFirstBackend(), tmp_path) as one:
        await one.shell("echo x > /tmp/x; rm /tmp/x; echo y > work/y; exit 3")
        assert (await first_process(one)).startswith("python")


ESCAPES = {
    "a daemon": "setsid sleep 1000 </dev/null >/dev/null 2>&1 & ",
    "a double fork": "(setsid bash -c 'sleep 1000 & disown' >/dev/null 2>&1 &)",
    "deaf to SIGTERM": "(trap '' TERM INT HUP; sleep 1000 >/dev/null 2>&1) & ",
    "stopped": "(kill -STOP $BASHPID >/dev/null 2>&1; sleep 1000) >/dev/null 2>&1 & ",
    "ever new ones": "(f() { sleep 0.01 & f & }; f >/dev/null 2>&1) & sleep 0.1",
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
async def test_every_process_ends_with_its_command(tmp_path: Path, escape: str) -> None:
    async with box(KeptFirstBackend(), tmp_path) as one:
        ended = await one.shell(f"{escape}\necho done", limits=Limits(timeout=30, processes=40))
        assert ended.stdout.text().endswith("done\n")
        assert ended.detail == ""
        left = await one.shell("ls /proc | grep -c '^[0-9]'", limits=Limits(timeout=30, processes=40))
        # The first process, the shell and the two of its pipe.
        assert int(left.stdout.text()) <= 4


async def test_its_keeper_cannot_be_signalled_looked_into_or_renamed(tmp_path: Path) -> None:
    attempts = (
        "kill -9 1; kill -STOP 1; kill -TERM 1; cat /proc/1/environ; cat /proc/1/mem; ls /proc/1/fd; "
        "echo x > /proc/1/comm; echo 1000 > /proc/1/oom_score_adj; readlink /proc/1/cwd; echo still here"
    )

    async with box(KeptFirstBackend(), tmp_path) as one:
        ended = await one.shell(attempts)
        assert ended.stdout.text() == "still here\n"
        # Signals do not fail: the kernel throws them away.
        assert ended.stderr.text().count("ermission denied") == 5
        assert (await one.run("true")).exit_code == 0


async def test_a_command_that_takes_too_long_is_ended_with_all_below_it(tmp_path: Path) -> None:
    async with box(KeptFirstBackend(), tmp_path) as one:
        text = "trap '' TERM; (trap '' TERM; setsid sleep 1000) & sleep 1000"
        ended = await one.shell(text, limits=Limits(timeout=1.0, grace=0.2))
        assert (ended.ending, ended.exit_code) == (EndReason.TIMED_OUT, 128 + signal.SIGKILL)
        assert (await one.run("true")).exit_code == 0


async def test_a_program_that_does_not_exist_ends_as_it_would_in_a_sandbox_of_its_own(tmp_path: Path) -> None:
    async with box(KeptFirstBackend(), tmp_path) as one:
        ended = await one.run("no-such-program")
        assert ended.exit_code == 127
        assert "no-such-program" in ended.stderr.text()
        (one.place.tree / "work" / "plain").write_text("echo run by a shell")
        (one.place.tree / "work" / "plain").chmod(0o755)
        assert (await one.run("work/plain")).stdout.text() == "run by a shell\n"


async def test_a_skill_that_is_staged_again_is_seen_with_its_own_files(tmp_path: Path) -> None:
    async with box(KeptFirstBackend(), tmp_path) as one:
        assert (await one.shell("echo 1 > skills/demo/.venv/a", skill=SKILL)).exit_code == 0
        skill = one.place.tree / "skills" / SKILL
        skill.rename(one.place.tree / "skills" / "old")
        (skill / ".venv").mkdir(parents=True)
        if one.place.uid is not None:
            for path in (skill, skill / ".venv"):
                os.chown(path, one.place.uid, one.place.uid)
        ended = await one.shell(
            "ls skills/demo/.venv; echo 2 > skills/demo/.venv/b; echo x > skills/demo/x; echo y > skills/y", skill=SKILL
        )
        assert (ended.stdout.text(), (skill / ".venv" / "b").read_text()) == ("", "2\n")
        assert (skill / "x").read_text() == "x\n"
        assert "skills/y: Read-only file system" in ended.stderr.text()


async def test_a_killed_sandbox_is_said_and_the_next_command_gets_another(tmp_path: Path) -> None:
    async with box(KeptFirstBackend(), tmp_path) as one:
        process = await one.start(Command(("sleep", "1000"), limits=QUICK, readable=True))
        os.kill(process._supervised.pid, signal.SIGKILL)
        ended = await process.wait()
        assert ended.ending is EndReason.INTERRUPTED
        assert (await one.run("true")).exit_code == 0


async def test_memory_of_all_processes_is_watched_there_too(tmp_path: Path) -> None:
    async with box(KeptFirstBackend(), tmp_path) as one:
        process = await one.start(Command(("sleep", "1000"), limits=QUICK))
        shown = Path(f"/proc/{process._supervised.pid}/cmdline").read_bytes()
        assert b"--args" in shown
        await process.kill()


async def test_one_that_nobody_uses_is_ended_and_none_outlives_its_workspace(tmp_path: Path) -> None:
    for seconds, closes in ((2.0, False), (60.0, True)):
        backend = SandboxBackend(kept=seconds)
        async with box(backend, tmp_path / str(closes)) as one:
            while not (await first_process(one)).startswith("python"):
                pass
            marker = (await backend.get_supervisor(one.place)).marker
            assert _kept_sandboxes(marker) == 1
            if not closes:
                assert await eventually(lambda: _kept_sandboxes(marker) == 0)  # noqa: B023 - at once
            else:
                await one.launcher.close()
                assert _kept_sandboxes(marker) == 0


async def test_commands_at_the_same_time_do_not_share_one(tmp_path: Path) -> None:
    async with box(KeptFirstBackend(), tmp_path) as one:
        process = await one.start(Command(("sleep", "1000"), limits=QUICK))
        other = await one.shell("ps ax | grep -c 'sleep 100[0]'")
        assert other.stdout.text() == "0\n"
        await process.kill()


def _kept_sandboxes(marker: str) -> int:
    found = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        # The outermost process of each; what it contains has the program as its own first word.
        found += line.startswith((b"/usr/bin/bwrap", b"/bin/bwrap")) and marker.encode() in line
    return found


async def test_there_is_room_for_so_many_and_the_one_that_waited_longest_goes(tmp_path: Path) -> None:
    room, backend = IdleSandboxes(max_idle=2), SandboxBackend()
    places = [new_place(tmp_path, name) for name in ("one", "two", "three")]
    waiting = [await one_that_waits(backend, room, place) for place in places]
    found = [kept.idle_count == 1 for kept in waiting]
    for kept in waiting:
        await kept.close()
    await backend.close()

    assert found == [False, True, True]


async def one_that_waits(backend: SandboxBackend, room: IdleSandboxes, place: WorkspaceDirectory) -> SandboxPool:
    """The sandboxes of a new workspace, of which one waits in this room."""
    launcher = await backend.attach(place)
    kept = SandboxPool(partial(launcher._launch_in_own_sandbox, first=True), launcher.root, room)
    for _ in range(2):
        kept.prepare("a kind", Command(("true",)), {})
    assert await eventually(lambda: kept.idle_count == 1)
    return kept


def test_an_event_loop_makes_room_among_its_own_only(tmp_path: Path) -> None:
    room, backend = IdleSandboxes(max_idle=1), SandboxBackend()
    with asyncio.Runner() as one, asyncio.Runner() as other:
        first = one.run(one_that_waits(backend, room, new_place(tmp_path, "first")))
        second = other.run(one_that_waits(backend, room, new_place(tmp_path, "second")))
        assert (first.idle_count, second.idle_count) == (1, 1)
        third = other.run(one_that_waits(backend, room, new_place(tmp_path, "third")))
        assert (first.idle_count, second.idle_count, third.idle_count) == (1, 0, 1)
        one.run(first.close())
        one.close()
        other.run(second.close())
        other.run(third.close())
        other.run(backend.close())


def test_those_of_an_event_loop_that_was_closed_are_forgotten(tmp_path: Path) -> None:
    room, backend = IdleSandboxes(max_idle=1), SandboxBackend()
    # Nobody closes this one.
    first = weakref.ref(asyncio.run(one_that_waits(backend, room, new_place(tmp_path, "first"))))

    async def main() -> None:
        second = await one_that_waits(backend, room, new_place(tmp_path, "second"))
        gc.collect()
        assert first() is None
        assert second.idle_count == 1
        await second.close()
        await backend.close()

    asyncio.run(main())


async def test_a_kind_of_command_that_leaves_things_behind_is_not_kept_for_again_and_again(tmp_path: Path) -> None:
    async with box(KeptFirstBackend(), tmp_path) as one:
        await one.shell("echo x > /tmp/x")
        for _ in range(10):
            assert await first_process(one) == "bwrap"


REFUSED = {
    "limits": "prlimit --pid 1 --nofile=64:64",
    "priority": "renice 5 -p 1",
    "priority of its group": "renice 5 -g 1",
    "priority of its user": "renice 5 -u $(id -u)",
    "processors": "taskset -p 1 1",
    "scheduling": "chrt -i -p 0 1",
    "priority of its input": "ionice -c3 -p 1",
}


@pytest.mark.parametrize("attempt", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
async def test_nobody_changes_how_the_first_process_runs(tmp_path: Path, attempt: str, used: bool) -> None:
    async with box(KeptFirstBackend() if used else SandboxBackend(kept=0), tmp_path) as one:
        ended = await one.shell(attempt)
        assert ended.exit_code != 0
        assert "ermitted" in ended.stderr.text()
        assert (await one.shell("renice 5 -p $$; taskset -p 1 $$; prlimit --pid $$ --nofile=64:64")).exit_code == 0


THREAD = "import os, threading, time\\nthreading.Thread(target=os.fork).start()\\nwhile True: time.time()"
STARVING = {
    "processors": "for i in $(seq 24); do bash -c 'while :; do :; done' & done; wait",
    "sessions": (
        "echo 19 > /proc/self/autogroup; for i in $(seq 24); do setsid bash -c 'while :; do :; done' & done; wait"
    ),
    "threads": f"python3 -c $'{THREAD}'",
}


@pytest.mark.parametrize(
    ("starve", "used"),
    cases(
        [("processors", True), ("sessions", True), ("threads", False)],
        [("processors", False), ("sessions", False), ("threads", True)],
    ),
)
async def test_nothing_outlives_its_deadline_by_starving_the_first_process(
    tmp_path: Path, starve: str, used: bool
) -> None:
    async with box(KeptFirstBackend() if used else SandboxBackend(kept=0), tmp_path) as one:
        limits = Limits(timeout=1.5, grace=0.2, processes=60)
        process = await one.start(Command(("bash", "-c", STARVING[starve]), limits=limits))
        below = process._supervised.pid
        assert await eventually(lambda: len(list_descendants(below)) > 2)
        running = list_descendants(below)
        ended = await process.wait()
        assert ended.ending is EndReason.TIMED_OUT
        assert ended.detail == "timed out after 1.5 s"
        assert await eventually(lambda: not any(_loops(pid) for pid in running))


def _loops(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[0] in (b"bash", b"python3") and any(
        word.lstrip().startswith((b"while", b"import os")) for word in words
    )


OWNERS = """
import fcntl, socket, struct, array
one, two = socket.socketpair()
for attempt in (
    lambda: fcntl.fcntl(one, fcntl.F_SETOWN, -1),
    lambda: fcntl.fcntl(one, 15, struct.pack("ii", 2, 1)),
    lambda: fcntl.ioctl(one, 0x8901, struct.pack("i", -1)),
    lambda: fcntl.ioctl(one, 0x8902, struct.pack("i", -1)),
):
    try:
        attempt()
    except PermissionError:
        print("refused")
import os
fcntl.fcntl(one, fcntl.F_SETOWN, os.getpid())
print("its own")
"""


async def test_a_file_cannot_be_made_to_signal_a_group_that_later_commands_are_in(tmp_path: Path) -> None:
    async with box(KeptFirstBackend(), tmp_path) as one:
        assert (await one.run("python3", "-c", OWNERS)).stdout.text().split("\n")[:-1] == ["refused"] * 4 + ["its own"]


async def test_there_are_no_message_queues_to_leave_messages_in(tmp_path: Path) -> None:
    code = (
        "import ctypes; c = ctypes.CDLL('librt.so.1', use_errno=True); "
        "print(c.mq_open(b'/x', 66, 384, None), ctypes.get_errno())"
    )

    async with box(KeptFirstBackend(), tmp_path) as one:
        assert (await one.run("python3", "-c", code)).stdout.text() == "-1 38\n"


async def test_a_command_that_leaves_more_than_can_be_looked_at_keeps_its_result(tmp_path: Path) -> None:
    code = "import os\nfor i in range(30000): os.close(os.open('/tmp/' + 'x' * 200 + str(i), 65))\nprint('done')"

    async with box(KeptFirstBackend(), tmp_path) as one:
        ended = await one.run("python3", "-c", code, limits=Limits(timeout=60, memory_bytes=24 * 1024 * 1024))
        assert (ended.ending, ended.stdout.text()) == (EndReason.EXITED, "done\n")


async def test_a_keeper_that_has_used_half_of_its_processor_time_makes_room_for_another(tmp_path: Path) -> None:
    limits = Limits(timeout=60, cpu_seconds=1)

    async with box(KeptFirstBackend(), tmp_path) as one:
        await one.run("true", limits=limits)
        assert (await first_process(one, limits=limits)).startswith("python")
        # It answers each of these itself.
        text = "for i in $(seq 60000); do kill -CHLD 1; done"
        while (await first_process(one, limits=limits)).startswith("python"):
            assert (await one.shell(text, limits=limits)).ending is EndReason.EXITED


async def test_a_workspace_whose_skill_vanishes_meanwhile_has_no_fault_in_the_background(tmp_path: Path) -> None:
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    async with box(SandboxBackend(), tmp_path) as one:
        await one.run("true", skill=SKILL)
        text = "echo up; sleep 0.3"
        process = await one.start(Command(("bash", "-c", text), skill=SKILL, limits=QUICK, readable=True))
        await read_until(process, b"up\n")
        (one.place.tree / "skills" / SKILL).rename(one.place.tree / "skills" / "gone")
        await process.wait()
        await asyncio.sleep(0.2)

    assert faults == []


async def test_processes_see_only_a_short_command_line_of_the_first_one(tmp_path: Path) -> None:
    async with box(KeptFirstBackend(), tmp_path) as one:
        assert int((await one.shell("wc -c < /proc/1/cmdline")).stdout.text()) < 1000
