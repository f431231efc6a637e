"""Cgroups of commands: the kernel enforces their total, and the result says so.

Most of this needs a delegated cgroup v2; `tests/executors/cgroup_machine.py` boots a virtual machine that has one.
"""

import errno
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import ExecutorUnavailable, LimitExceeded
from openskills.executors.bubblewrap.backend import SandboxBackend
from openskills.executors.cgroup import Cgroups, find_cgroups, find_directory, parse_own_path
from openskills.executors.landlock import LandlockBackend
from openskills.executors.local import LocalBackend
from openskills.executors.protocol import Backend
from openskills.executors.requests import RunRequest
from openskills.executors.spec import EndReason, Limits
from openskills.executors.supervisor import PROGRAM, LaunchRequest, Supervisor, create_marker, is_orphaned
from openskills.host.model import HostLimits, SkillStartMethod
from openskills.subprocesses import HelperProcess, start_helper
from tests.conftest import RequireProgram, skip_unless_root
from tests.executors.benches import workbench
from tests.executors.boxes import box
from tests.executors.cgroup_machine import run_in_machine
from tests.executors.running import eventually
from tests.executors.unprivileged import UID
from tests.host.calls_made import called, open_runner, python_skill, script
from tests.long_form import LONG

MB = 1024 * 1024
BACKENDS: dict[str, Callable[[], Backend]] = {
    "sandbox": SandboxBackend,
    "landlock": LandlockBackend,
    "local": LocalBackend,
}
PEAK = "import mmap; m = mmap.mmap(-1, 200 << 20); [m.write(bytes(1 << 20)) for _ in range(200)]"
"""Uses 200 MiB, and ends at once. Limits of one process do not count shared memory."""
HIDDEN = 'import os; f = os.memfd_create("f"); [os.write(f, bytes(1 << 20)) for _ in range(200)]'
"""The same without the watchdog seeing it, outside of sandboxes, which do not allow it."""
SAID = "its processes used {0:,} bytes of memory; the limit is {0:,}"
ROUNDS = 100
LIMITS = Limits(timeout=60, total_memory_bytes=96 * MB)


@pytest.fixture
def delegated() -> Path:
    """The directory below which this process may make cgroups."""
    found = find_cgroups(is_orphaned)
    if found.reason:
        pytest.skip(f"cgroup v2: {found.reason}")
    path = find_directory(Path("/proc/self/mountinfo").read_text(), own_path())
    assert path is not None
    assert path.name == "openskills.host"
    return path.parent


def own_path() -> str:
    path = parse_own_path(Path("/proc/self/cgroup").read_text())
    assert path is not None
    return path


def runs(base: Path) -> list[Path]:
    """The cgroups of commands."""
    return list(base.glob("openskills.run-*"))


@pytest.mark.parametrize("name", BACKENDS)
async def test_a_peak_that_no_watchdog_sees_exceeds_the_limit(delegated: Path, tmp_path: Path, name: str) -> None:
    tmp_path.chmod(0o755)
    backend = BACKENDS[name]()
    try:
        await backend.check()
    except ExecutorUnavailable as error:
        await backend.close()
        pytest.skip(error.message)
    # There is no watchdog in a box.
    async with box(backend, tmp_path) as bench:
        result = await bench.run("bash", "-c", f"python3 -c '{PEAK}' & wait; echo survived", limits=LIMITS)
        assert (result.ending, result.detail) == (EndReason.LIMIT, SAID.format(96 * MB))
        assert not result.stdout.total
        assert (await bench.run("echo", "next", limits=LIMITS)).stdout.text() == "next\n"
    assert await eventually(lambda: not runs(delegated))


async def test_limits_of_the_next_command_apply_to_a_sandbox_that_is_used_again(
    delegated: Path, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    wide = Limits(timeout=60, total_memory_bytes=400 * MB)
    async with box(SandboxBackend(), tmp_path) as bench:
        for _ in range(3):
            assert (await bench.run("true", limits=wide)).exit_code == 0
        # The one that is used again was made with the other limits.
        wanted, found = f"{LIMITS.total_memory_bytes}\n", ""
        for _ in range(ROUNDS):
            if found == wanted:
                break
            assert (await bench.run("true", limits=LIMITS)).exit_code == 0
            assert await eventually(lambda: len(runs(delegated)) == 1)
            found = (runs(delegated)[0] / "memory.max").read_text()
        assert found == wanted
        result = await bench.run("python3", "-c", PEAK, limits=LIMITS)
        assert (result.ending, result.detail) == (EndReason.LIMIT, SAID.format(96 * MB))
        assert (await bench.run("python3", "-c", PEAK, limits=wide)).exit_code == 0
    assert await eventually(lambda: not runs(delegated))


async def test_a_warm_command_is_limited_with_its_server(delegated: Path, tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        for limits, ending in ((Limits(timeout=60), EndReason.EXITED), (LIMITS, EndReason.LIMIT)):
            request = RunRequest(f"python3 -c '{HIDDEN}'", skill="demo", limits=limits, warm=("json",))
            ended = (await bench.run(request)).ended
            assert ended.ending is ending, ended
        assert ended.detail == SAID.format(96 * MB)
    assert await eventually(lambda: not runs(delegated))


@pytest.mark.parametrize("executor", ["sandbox", "local"])
@pytest.mark.parametrize("warm", [SkillStartMethod.FORK, SkillStartMethod.SPAWN])
async def test_a_call_of_a_hosted_skill_is_limited_and_does_not_join(
    delegated: Path, tmp_path: Path, warm: SkillStartMethod, executor: str
) -> None:
    tmp_path.chmod(0o755)
    text = """
        import json, os, sys
        if json.load(sys.stdin)["input"]:
            # The watchdog does not see files in memory.
            try:
                file = os.memfd_create("file")
            except OSError:
                file = os.open("/tmp/file", os.O_CREAT | os.O_WRONLY)
            for _ in range(160):
                os.write(file, bytes(1 << 20))
        print("{}")
    """
    entry = script(tmp_path, text)
    entry.chmod(0o644)
    skill = python_skill(entry, executor=executor, warm=warm, limits=HostLimits(memory_bytes=128 * MB))
    async with open_runner(tmp_path, skill) as runner:
        assert (await runner.invoke(skill, called({}))).data == {}
        served = runs(delegated)
        # All calls run in the cgroup of their interpreter, and none joins another.
        assert (await runner.invoke(skill, called({}))).data == {}
        assert [one for one in runs(delegated) if one in served] == (served if warm is SkillStartMethod.FORK else [])
        with pytest.raises(LimitExceeded, match=SAID.format(128 * MB)):
            await runner.invoke(skill, called({"much": True}))
        assert (await runner.invoke(skill, called({}))).data == {}
    assert await eventually(lambda: not runs(delegated))


async def test_more_processes_than_allowed_are_still_reported_by_the_watchdog(delegated: Path, tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        bomb = "import os, time\nwhile True:\n    try: os.fork()\n    except OSError: time.sleep(9)"
        ended = (await bench.run(RunRequest(("python3", "-c", bomb), limits=Limits(timeout=60, processes=20)))).ended
        assert ended.ending is EndReason.LIMIT
        assert ended.detail.startswith("it had 4")
    assert await eventually(lambda: not runs(delegated))


async def test_what_cannot_be_started_leaves_no_cgroup(delegated: Path) -> None:
    supervisor = await Supervisor.spawn()
    for _ in range(2):
        with pytest.raises(Exception, match="No such file"):
            await supervisor.start(LaunchRequest(["/no/such"], {}, "/", {}, limits=LIMITS))
    await supervisor.close()
    with pytest.raises(Exception, match="supervisor process has ended"):
        await supervisor.start(LaunchRequest(["true"], {}, "/", {}, limits=LIMITS))
    assert await eventually(lambda: not runs(delegated))


async def test_a_command_begins_in_its_cgroup_with_the_same_descriptors_and_signals(
    delegated: Path, tmp_path: Path
) -> None:
    command = "import os, signal; print(sorted(os.listdir('/proc/self/fd')), os.getsid(0) == os.getpid(), [\
int(n) for n in signal.Signals if signal.getsignal(n) == signal.SIG_IGN], signal.pthread_sigmask(0, []), os.getcwd())"
    async with box(LocalBackend(), tmp_path) as bench:
        without = Limits(timeout=30, total_memory_bytes=None)
        found = [await bench.run("python3", "-I", "-S", "-c", command, limits=limits) for limits in (without, LIMITS)]
        assert [one.exit_code for one in found] == [0, 0]
        assert found[0].stdout == found[1].stdout


async def test_cgroups_of_dead_hosts_are_removed_with_what_runs_in_them(delegated: Path) -> None:
    first, second, _, token = create_marker().split(".")
    orphan, ours = (delegated / f"openskills.run-{one}" for one in (f"{first}.{second}.1.{token}", create_marker()))
    for path in (orphan, ours):
        (path / "below").mkdir(parents=True)
    process = subprocess.Popen(["sleep", "300"])
    (orphan / "below" / "cgroup.procs").write_text(str(process.pid))
    Cgroups(delegated).remove_orphans(is_orphaned)
    assert process.wait() == -9
    assert runs(delegated) == [ours]
    (ours / "below").rmdir()
    ours.rmdir()


@pytest.fixture
def directory() -> Generator[Path]:
    """A new cgroup v2 directory of this machine without controllers; only root can make one."""
    skip_unless_root("only it may make cgroups here")
    mounted = find_directory(Path("/proc/self/mountinfo").read_text(), "/")
    if mounted is None or not os.access(mounted, os.W_OK):
        pytest.skip("cgroup v2 is not mounted, or not writable")
    path = Path(tempfile.mkdtemp(prefix="openskills-test-cgroup-", dir=mounted))
    try:
        if "memory" in (path / "cgroup.controllers").read_text():
            pytest.skip("cgroup v2 has controllers here")
        yield path
    finally:
        path.rmdir()


def find_reason(directory: Path) -> str:
    """Why a process in this cgroup makes none."""
    text = "from openskills.executors.cgroup import find_cgroups; print(find_cgroups(lambda _: False).reason)"
    line = f'echo $$ > {directory}/cgroup.procs && exec "$0" -c "$1"'
    ended = subprocess.run(["sh", "-c", line, sys.executable, text], capture_output=True, text=True, check=True)
    return ended.stdout.strip()


def test_root_only_uses_a_cgroup_that_was_delegated_to_it(directory: Path) -> None:
    assert find_reason(directory) == "no delegated cgroup v2"


def test_a_delegated_cgroup_without_controllers_is_not_used_and_nothing_is_made_there(directory: Path) -> None:
    os.setxattr(directory, "trusted.delegate", b"1")
    assert find_reason(directory) == "the cgroup v2 has no controller memory and pids"
    assert not [path for path in directory.iterdir() if path.is_dir()]


@pytest.mark.parametrize("user", [None, UID])
def test_a_supervisor_starts_a_command_in_the_cgroup_that_it_is_given(directory: Path, user: int | None) -> None:
    helper = start_helper([sys.executable, "-I", "-S", str(PROGRAM)], {})
    opened = os.open(directory, os.O_RDONLY)
    try:
        assert exchange(helper, {}, [])["event"] == "serving"
        words: dict[str, object] = {"op": "start", "id": 1, "env": {}, "cwd": "/", "fds": {}, "cgroup": 0, "user": user}
        assert exchange(helper, {**words, "argv": ["/no/such"]}, [opened])["errno"] == errno.ENOENT
        started = exchange(helper, {**words, "argv": ["/usr/bin/sleep", "300"]}, [opened])
        assert started["cgroup"]
        assert (directory / "cgroup.procs").read_text() == f"{started['pid']}\n"
        status = Path(f"/proc/{started['pid']}/status").read_text()
        assert f"Uid:\t{user or 0}\t{user or 0}\t{user or 0}" in status
        assert os.getsid(started["pid"]) == started["pid"]
        # A directory that is not a cgroup, or may not be used, costs nothing but the limit.
        with open(__file__, encoding="utf-8") as other:
            again = exchange(helper, {**words, "argv": ["/usr/bin/true"], "id": 2}, [other.fileno()])
        assert (again["event"], again["cgroup"]) == ("started", False)
    finally:
        os.close(opened)
        helper.close()


def exchange(helper: HelperProcess, message: dict[str, object], descriptors: list[int]) -> dict[str, Any]:
    """Send a message, if there is one, and return the next event."""
    if message:
        data = json.dumps(message).encode()
        socket.send_fds(helper.connection, [struct.pack("!I", len(data)) + data], descriptors)
    (length,) = struct.unpack("!I", helper.connection.recv(4, socket.MSG_WAITALL))
    return json.loads(helper.connection.recv(length, socket.MSG_WAITALL))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("12:memory:/x\n0::/user.slice/a b.scope\n", "/user.slice/a b.scope"),
        ("0::/\n", "/"),
        ("1:name=systemd:/\n", None),
        ("", None),
    ],
)
def test_the_path_of_a_process_is_that_of_version_two(text: str, path: str | None) -> None:
    assert parse_own_path(text) == path


@pytest.mark.parametrize(
    ("root", "point", "path", "directory"),
    [
        ("/", "/sys/fs/cgroup", "/", "/sys/fs/cgroup"),
        ("/", "/sys/fs/cgroup", "/a/b", "/sys/fs/cgroup/a/b"),
        ("/", r"/with\040space", "/a", "/with space/a"),
        ("/a", "/mnt", "/a/b", "/mnt/b"),
        ("/a", "/mnt", "/a", "/mnt"),
        ("/a", "/mnt", "/ab", None),
        ("/", "/sys/fs/cgroup", "/../b", None),
    ],
)
def test_the_directory_of_a_path_is_below_the_mounted_root(
    root: str, point: str, path: str, directory: str | None
) -> None:
    other = "35 24 0:30 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory"
    found = find_directory(f"{other}\n36 24 0:31 {root} {point} rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n", path)
    assert found == (None if directory is None else Path(directory))


@pytest.mark.skipif(not LONG, reason="only in the long form: it boots a virtual machine, without KVM in minutes")
@pytest.mark.parametrize("user", [0, UID])
def test_all_of_this_passes_in_a_virtual_machine_with_a_delegated_cgroup(
    tmp_path: Path, require_program: RequireProgram, user: int
) -> None:
    for program in ("qemu-system-x86_64", "busybox"):
        require_program(program)
    said = run_in_machine(tmp_path, user, f"-m pytest -q --color=no -p no:cacheprovider {__file__}")
    assert re.search(r"\n\d+ passed, .*skipped", said), said[-5000:]
    assert "delegated cgroup v2" not in said
