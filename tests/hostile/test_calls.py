"""Nothing that one call of a hosted skill does is visible to the next: marks are left everywhere, then looked for."""

import asyncio
import json
import os
import random
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openskills.host.model import HostLimits, Outcome, Registration, SkillStartMethod
from tests.conftest import RequireProgram
from tests.host.calls_made import called, open_runner, python_skill
from tests.long_form import LONG

ROUNDS = 500 if LONG else 6
CALLS_PER_CALLER = 5000 if LONG else 50

SKILL = r'''
import ctypes, fcntl, json, os, re, resource, signal, socket, stat, subprocess, sys

libc = ctypes.CDLL(None, use_errno=True)
F_SETPIPE_SZ, F_GETPIPE_SZ = 1031, 1032
IOPRIO_SET, IOPRIO_GET, SCHED_SETATTR, SCHED_GETATTR = 251, 252, 314, 315
if os.uname().machine == "aarch64":
    IOPRIO_SET, IOPRIO_GET, SCHED_SETATTR, SCHED_GETATTR = 30, 31, 274, 275
PLACES = ["/tmp", "/dev/shm", os.environ["HOME"], "/dev/pts", "/dev", "/dev/pts/ptmx", "/"]


def shared_mappings():
    for line in open("/proc/self/maps"):
        span, permissions, *_ = line.split()
        if permissions.startswith("rw") and permissions.endswith("s"):
            yield tuple(int(end, 16) for end in span.split("-"))


def pipe_flag(number, flag):
    fcntl.fcntl(number, fcntl.F_SETFL, fcntl.fcntl(number, fcntl.F_GETFL) | flag)


def packets(mark):
    pipe_flag(1, os.O_DIRECT)
    os.write(1, b'{"answer": 1}\n')
    os.write(1, json.dumps({"planted": mark}).encode() + b"\n")


def overrun(mark, number):
    fcntl.fcntl(number, F_SETPIPE_SZ, 1 << 20)
    pipe_flag(number, os.O_NONBLOCK)
    for _ in range(100):
        os.write(number, json.dumps({"planted": mark}).encode() * 100)


def shared_memory(mark):
    data = (mark * 200).encode()
    for start, end in shared_mappings():
        ctypes.memmove(start, data[: end - start], min(end - start, len(data)))


def leave_process(mark):
    command = "trap '' TERM; sleep 0.3; echo " + mark + "; sleep 600"
    subprocess.Popen(["sh", "-c", command, mark], start_new_session=True)


def locks(mark):
    for number in (0, 1, 2):
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)


def module(mark):
    name = "m" + mark.replace("-", "_")
    open(f"/tmp/{name}.py", "w").close()
    sys.path.append("/tmp")
    __import__(name)


def clamp(mark):
    attributes = ctypes.create_string_buffer(56)
    libc.syscall(SCHED_GETATTR, os.getppid(), attributes, 56, 0)
    attributes[8:16] = (0x18 | 0x20 | 0x40).to_bytes(8, "little")
    attributes[48:56] = (1).to_bytes(4, "little") + (77).to_bytes(4, "little")
    libc.syscall(SCHED_SETATTR, os.getppid(), attributes, 0)


def attribute(mark):
    for place in PLACES[:3]:
        os.setxattr(place, "user.mark", mark.encode())


def times(mark):
    for place in PLACES:
        try:
            os.utime(place, (int(mark[-6:], 16), int(mark[-6:], 16)))
        except OSError:
            pass


def files(mark):
    for place in PLACES[:3]:
        open(f"{place}/{mark}", "w").write(mark)
        os.symlink("/etc", f"{place}/{mark}-link")
        os.mkdir(f"{place}/{mark}-closed", 0)


def others():
    """The other processes of the sandbox, oldest first; their numbers differ from call to call."""
    ours = str(os.getpid())
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit() and name != ours)


def on_others(act):
    """Act on each of them, also if it is not possible for some."""
    for pid in others():
        try:
            act(pid)
        except OSError:
            pass


def write_setting(name, value):
    def write(pid):
        with open(f"/proc/{pid}/{name}", "r+") as file:
            file.write(value)

    return lambda mark: on_others(write)


def fill_descriptors(mark):
    for pid in others():
        for number in (0, 1, 2):
            on_others(lambda pid: open(f"/proc/{pid}/fd/{number}", "w").write(mark))


def heaps(pid):
    for line in open(f"/proc/{pid}/maps"):
        if line.split()[1].startswith("rw") and "[heap]" in line:
            yield int(line.split()[0].split("-")[1], 16) - 64


def fill_memory(mark):
    def write(pid):
        with open(f"/proc/{pid}/mem", "rb+", 0) as memory:
            for place in heaps(pid):
                memory.seek(place)
                memory.write(mark.encode())

    on_others(write)


def see(pid):
    """What a process shows of itself, and what can be read of it."""
    shown = {"limits": open(f"/proc/{pid}/limits").read().split(), "nice": os.getpriority(0, pid)}
    shown["affinity"] = sorted(os.sched_getaffinity(pid))
    shown["I/O priority"] = libc.syscall(IOPRIO_GET, 1, pid)
    for name in ("comm", "oom_score_adj", "autogroup", "coredump_filter", "timerslack_ns"):
        try:
            shown[name] = re.sub(r"autogroup-\d+", "", open(f"/proc/{pid}/{name}").read())
        except OSError as error:
            shown[name] = error.strerror
    try:
        shown["descriptors"] = [open(f"/proc/{pid}/fd/{number}").read(64) for number in (1, 2)]
    except OSError as error:
        shown["descriptors"] = error.strerror
    try:
        with open(f"/proc/{pid}/mem", "rb", 0) as memory:
            shown["memory"] = [(memory.seek(place), memory.read(64).hex())[1] for place in heaps(pid)]
    except OSError as error:
        shown["memory"] = error.strerror
    return shown


def loopback(mark):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(int(mark[-2:], 16) + 1):
            sender.sendto(mark.encode(), ("127.0.0.1", 9))


def semaphore(mark):
    libc.semget(int(mark[-6:], 16) + 1, 1, 0o1666)


MARKS = {
    "packets": packets,
    "overrun stdout": lambda mark: overrun(mark, 1),
    "overrun stderr": lambda mark: overrun(mark, 2),
    "stdout size": lambda mark: fcntl.fcntl(1, F_SETPIPE_SZ, 1 << 19),
    "stderr not blocking": lambda mark: pipe_flag(2, os.O_NONBLOCK),
    "stdout appends": lambda mark: pipe_flag(1, os.O_APPEND),
    "half a line": lambda mark: (os.write(1, mark.encode()), os.write(2, mark.encode())),
    "shared memory": shared_memory,
    "process": leave_process,
    "locks": locks,
    "module": module,
    "I/O priority": lambda mark: libc.syscall(IOPRIO_SET, 1, os.getppid(), 3 << 13 | 7),
    "scheduler": clamp,
    "niceness": lambda mark: os.setpriority(os.PRIO_PROCESS, os.getppid(), 7),
    "affinity": lambda mark: os.sched_setaffinity(os.getppid(), {min(os.sched_getaffinity(0))}),
    "limit": lambda mark: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (77, 77)),
    "attribute": attribute,
    "times": times,
    "files": files,
    "semaphore": semaphore,
    "variable": lambda mark: os.environ.__setitem__("MARK", mark),
    "directory": lambda mark: os.chdir("/tmp"),
    "mask": lambda mark: os.umask(0o77),
    "signals": lambda mark: signal.signal(signal.SIGINT, signal.SIG_IGN),
    "descriptor of the parent": lambda mark: open(f"/proc/{os.getppid()}/fd/1", "w").write(mark),
    "memory of the parent": lambda mark: open(f"/proc/{os.getppid()}/mem", "rb+").write(mark.encode()),
    "memory of others": fill_memory,
    "descriptors of others": fill_descriptors,
    "limits of others": lambda mark: on_others(lambda pid: resource.prlimit(pid, resource.RLIMIT_NOFILE, (99, 99))),
    "affinity of others": lambda mark: on_others(lambda pid: os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))})),
    "niceness of others": lambda mark: on_others(lambda pid: os.setpriority(os.PRIO_PROCESS, pid, 11)),
    "I/O priority of others": lambda mark: on_others(lambda pid: libc.syscall(IOPRIO_SET, 1, pid, 3 << 13 | 6)),
    "names of others": write_setting("comm", "marked"),
    "scores of others": write_setting("oom_score_adj", "500"),
    "weights of others": write_setting("autogroup", "3"),
    "dumps of others": write_setting("coredump_filter", "1"),
    "stopped others": lambda mark: on_others(lambda pid: pid == os.getppid() or os.kill(pid, signal.SIGSTOP)),
    "loopback": loopback,
}


def memory_marks():
    """Marks anywhere in the memory of this process."""
    found = set()
    with open("/proc/self/mem", "rb", 0) as memory:
        for line in open("/proc/self/maps"):
            if line.split()[1].startswith("r") and "[v" not in line:
                start, end = (int(part, 16) for part in line.split()[0].split("-"))
                try:
                    memory.seek(start)
                    found.update(re.findall(rb"mark-[0-9a-f]{32}", memory.read(end - start)))
                except OSError:
                    continue
    return sorted(mark.decode() for mark in found)


def snapshot():
    attributes = ctypes.create_string_buffer(56)
    libc.syscall(SCHED_GETATTR, 0, attributes, 56, 0)
    stats = [os.stat(place) for place in PLACES]
    links = {number: re.sub(r"\d+", "N", os.readlink(f"/proc/self/fd/{number}")) for number in "012"}
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return {
        "flags": [fcntl.fcntl(number, fcntl.F_GETFL) for number in (0, 1, 2)],
        "sizes": [fcntl.fcntl(number, F_GETPIPE_SZ) for number in (0, 1, 2)],
        "links": links,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "stats": [(one.st_mode, one.st_uid, one.st_atime_ns, one.st_mtime_ns, one.st_nlink) for one in stats],
        "files": [sorted(os.listdir(place)) for place in PLACES[:5]],
        "attributes": [os.listxattr(place) for place in PLACES[:3]],
        "I/O priority": libc.syscall(IOPRIO_GET, 1, 0),
        "scheduler": attributes.raw.hex(),
        "affinity": sorted(os.sched_getaffinity(0)),
        "limits": [resource.getrlimit(kind) for kind in range(16)],
        "signals": [status[name].strip() for name in ("SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd")],
        "variables": sorted(os.environ),
        "directory": os.getcwd(),
        "mask": os.umask(0o22),
        "semaphores": open("/proc/sysvipc/sem").read(),
        "shared": [ctypes.string_at(a + 16, b - a - 16).strip(b"\0").hex() for a, b in shared_mappings()],
        "processes": [see(pid) for pid in others()],
        "network": open("/proc/net/dev").read(),
        "memory": memory_marks(),
    }


request = json.load(sys.stdin)["input"]
if request["mark"]:
    for name in request["kinds"]:
        try:
            MARKS[name](request["mark"])
        except OSError as error:
            sys.stderr.write(f"{name}: {error}\n")
    print(json.dumps({"answer": 1}))
else:
    print(json.dumps(snapshot()))
'''
KINDS = re.findall(r'^    "([^"]+)": ', SKILL[SKILL.index("MARKS =") : SKILL.index("def memory_marks")], re.MULTILINE)


@pytest.fixture
def skill(tmp_path: Path, require_program: RequireProgram) -> Registration:
    """The skill above, with one worker."""
    require_program("bwrap")
    entry = tmp_path / "skill.py"
    entry.write_text(SKILL, encoding="utf-8")
    tmp_path.chmod(0o755)
    limits = HostLimits(concurrency=1, output_bytes=64 * 1024)
    return python_skill(entry, executor="sandbox", warm=SkillStartMethod.FORK, limits=limits)


def _random_choices() -> list[list[str]]:
    seed = secrets.randbits(32)
    print("seed", seed)  # noqa: T201 - shown when the test fails
    choice = random.Random(seed)
    return [choice.sample(KINDS, choice.randint(2, 8)) for _ in range(ROUNDS)]


@pytest.mark.parametrize("choose", [lambda: [[kind] for kind in KINDS], _random_choices], ids=["each", "random"])
async def test_a_call_sees_nothing_of_the_one_before(
    tmp_path: Path, skill: Registration, choose: Callable[[], list[list[str]]]
) -> None:
    async with open_runner(tmp_path, skill) as runner:

        async def look() -> dict[str, Any]:
            return _read(await runner.invoke(skill, called({"mark": "", "kinds": []})))

        first = await look()
        for kinds in choose():
            mark = f"mark-{secrets.token_hex(16)}"
            await runner.invoke(skill, called({"mark": mark, "kinds": kinds}))
            assert await look() == first, kinds
            # One more: an answer may be late by one call.
            assert await look() == first, kinds


def _read(outcome: Outcome) -> dict[str, Any]:
    """What a call saw. Of times only whether somebody has set them: a mark is a time of the year 1970."""
    assert outcome.data is not None, outcome.failure
    data: dict[str, Any] = json.loads(json.dumps(dict(outcome.data)))
    times = [data["stats"][place].pop(2) for place in range(len(data["stats"])) for _ in "am"]
    is_marked = min(times) < 10**17
    return {**data, "is_marked": is_marked, "stray": [key for key in outcome.notes if key.startswith("stray")]}


REACHING = """
import json, os
try:
    os.close(os.open(f"/proc/{os.getppid()}/mem", os.O_RDWR))
except PermissionError:
    print(json.dumps({"opened": False}))
else:
    print(json.dumps({"opened": True}))
"""


async def test_a_call_that_runs_before_its_parent_goes_on_cannot_open_its_memory(
    tmp_path: Path, require_program: RequireProgram
) -> None:
    require_program("bwrap")
    entry = tmp_path / "skill.py"
    entry.write_text(REACHING, encoding="utf-8")
    tmp_path.chmod(0o755)
    # More workers than processors: the scheduler sometimes runs the new process first.
    workers = 2 * len(os.sched_getaffinity(0))
    limits = HostLimits(concurrency=workers)
    skill = python_skill(entry, executor="sandbox", warm=SkillStartMethod.FORK, limits=limits)
    async with open_runner(tmp_path, skill) as runner:

        async def reach() -> list[object]:
            outcomes = [await runner.invoke(skill, called()) for _ in range(CALLS_PER_CALLER)]
            return [outcome.data and outcome.data["opened"] for outcome in outcomes]

        found = await asyncio.gather(*(reach() for _ in range(2 * workers)))
        assert {opened for some in found for opened in some} == {False}
