import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import ExecutorUnavailable, InvalidArgument
from openskills.executors.bubblewrap.backend import (
    SandboxBackend,
    SandboxTools,
    allow_traversal,
    build_reach_command,
    find_closed_parents,
    read_kernel_setting,
    select_topmost,
    suggest_fix,
)
from openskills.executors.bubblewrap.selftest import PASSED
from openskills.executors.files.descriptors import delete_tree
from openskills.executors.protocol import WorkspaceDirectory
from openskills.executors.spec import Command, EndReason, Isolation, Limits, TerminalSize
from tests.conftest import RequireProgram, needs_root, skip_unless_root
from tests.executors.boxes import QUICK, SKILL, Box, box, get_uid, new_place
from tests.executors.open_place import open_place
from tests.executors.running import eventually, read_until

PYTHON = os.path.realpath(sys.executable)
CTRL_C, CTRL_Z = b"\x03", b"\x1a"


@pytest.fixture(autouse=True)
def needed(require_program: RequireProgram) -> None:
    for program_ in ("bwrap", "setpriv"):
        require_program(program_)


async def test_the_self_test_passes_here_and_says_what_stands_between() -> None:
    PASSED.clear()
    backend = SandboxBackend()
    try:
        assert await backend.check() is Isolation.BUBBLEWRAP
    finally:
        await backend.close()


async def test_the_self_test_runs_again_only_for_another_setup() -> None:
    with open_place() as place:
        calls, program = place / "calls", place / "bwrap"
        calls.touch()
        calls.chmod(0o666)
        text = f'#!/bin/bash\necho >> {calls}\nexec /usr/bin/bwrap "$@"\n'

        async def count(**options: Any) -> int:
            before = calls.stat().st_size
            backend = SandboxBackend(bwrap=program, **options)
            assert await backend.check() is Isolation.BUBBLEWRAP
            await backend.close()
            return calls.stat().st_size - before

        program.write_text(text)
        program.chmod(0o755)
        assert [await count(), await count(), await count(kept=0, workspaces=place / "workspaces")] == [1, 0, 0]
        assert [await count(read_only=(place,)), await count(read_only=(place,))] == [1, 0]
        program.write_text(f"{text}# changed\n")
        assert [await count(), await count()] == [1, 0]


async def test_a_command_runs_as_an_ordinary_user_in_its_workspace(tmp_path: Path) -> None:
    async with box(SandboxBackend(), tmp_path) as one:
        ended = await one.shell("id -un; pwd; echo hello > work/x; hostname; date +%Z; getent passwd u >&2")
        assert (ended.exit_code, ended.stdout.text().split()[:3]) == (0, ["u", "/workspace", "sandbox"])
        assert (one.place.tree / "work" / "x").read_text() == "hello\n"


async def test_its_environment_is_what_it_was_given_and_so_is_that_of_its_first_process(tmp_path: Path) -> None:
    async with box(SandboxBackend(), tmp_path) as one:
        command = Command(("bash", "-c", "env; tr '\\0' '\\n' </proc/1/environ"), secrets={"TOKEN": "s3cr3t"})
        ended = await (await one.start(command)).wait()
        names = {line.partition("=")[0] for line in ended.stdout.text().splitlines()}
        documented = {"WORKSPACE_DIR", "SKILLS_DIR", "WORK_DIR", "OUTPUT_DIR", "RUN_DIR", "PATH", "HOME", "TMPDIR"}
        assert names - documented == {"TOKEN", "LANG", "OPENSKILL_RUN", "PWD", "SHLVL", "_"}


async def test_a_secret_is_on_no_command_line_of_the_machine(tmp_path: Path) -> None:
    async with box(SandboxBackend(), tmp_path) as one:
        command = Command(("cat",), secrets={"TOKEN": "s3cr3t-of-a-test"}, input_open=True, limits=QUICK)
        process = await one.start(command)
        await process.write(b"up\n")
        await read_until(process, b"up\n")
        lines = [_cmdline(name) for name in os.listdir("/proc") if name.isdigit()]
        assert any(b"OPENSKILL_RUN" in line for line in lines)
        assert not any(b"s3cr3t-of-a-test" in line for line in lines)
        await process.close_input()
        assert (await process.wait()).exit_code == 0


def _cmdline(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    "attempt",
    [
        "cat /etc/shadow",
        "ls /var",
        "ls /proc/1/root/work/main",
        "touch /x",
        "touch /usr/x",
        "touch /etc/x",
        "touch /etc/ssl/certs/x",
        "chmod 644 /etc/passwd",
        "echo x >> /etc/passwd",
        "rm -f /etc/hosts; test ! -e /etc/hosts",
        "mv /etc/ssl /etc/lss",
        "ls /etc/ssl/private",
        "touch /dev/x",
        "echo changed > skills/demo/SKILL.md",
        "rm skills/demo/SKILL.md",
        "touch skills/demo/sitecustomize.py",
        "mv skills elsewhere",
        "rmdir skills",
        "ln -s /etc skills/x",
        "test -w /proc/sys/kernel/core_pattern",
        "test -w /proc/sysrq-trigger",
        "test -r /proc/kcore",
        "mount -t tmpfs x /tmp",
        "mount -o remount,rw /",
        "umount /proc",
        "unshare -U true",
        "unshare -n true",
        "chroot / true",
        "nsenter -t 1 -m true",
        "mknod work/sda b 8 0",
        "chown 0 work",
        "hostname changed",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX)'",
        "python3 -c 'import socket; socket.socket(40, 1)'",
        "python3 -c 'import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)'",
        "python3 -c 'import socket; socket.create_connection((\"1.1.1.1\", 53), 2)'",
        'python3 -c \'import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.sendto(b"x", ("1.1.1.1", 53))\'',
        "exec 3<>/dev/tcp/127.0.0.1/22",
        "dd if=/dev/zero of=/dev/shm/x bs=1M count=200",
        "dd if=/dev/zero of=/tmp/x bs=1M count=600",
        "ls /sys/kernel",
        "ls /run/docker.sock",
        "kill -9 1",
        "ls /proc/self/fd | grep -vE '^[0-3]$'",
    ],
)
async def test_what_a_command_must_not_do_fails(tmp_path: Path, attempt: str) -> None:
    async with box(SandboxBackend(), tmp_path) as one:
        ended = await one.shell(
            attempt if not attempt.startswith("kill") else f"{attempt}; kill -0 1 && exit 1; exit 1"
        )
        assert ended.exit_code != 0, ended.stdout.text()
        assert ended.ending is EndReason.EXITED


@pytest.mark.parametrize(
    "attempt",
    [
        "python3 -c 'import multiprocessing as m; m.Lock()'",
        "python3 -c 'import socket; socket.socketpair()'",
        "python3 -c 'import socket as s; a = s.create_server((\"\", 0)); s.create_connection(a.getsockname())'",
        "python3 -c 'import ssl; assert ssl.create_default_context().cert_store_stats()[\"x509_ca\"]'",
        "python3 -c 'import os; os.openpty()'",
        "python3 -c 'import threading; t = threading.Thread(target=print); t.start(); t.join()'",
        "cat <(echo through /dev/fd)",
        "test $(awk 'BEGIN { print 6 * 7 }') = 42",
        "echo x > $HOME/x; echo x > $TMPDIR/x; echo x > /dev/null; head -c 9 /dev/urandom",
        "test -w $WORK_DIR -a -w $OUTPUT_DIR -a -w $RUN_DIR",
        "(sleep 1000 & disown); true",
    ],
)
async def test_what_programs_need_works(tmp_path: Path, attempt: str) -> None:
    async with box(SandboxBackend(), tmp_path) as one:
        ended = await one.shell(attempt)
        assert ended.exit_code == 0, ended.stderr.text()


async def test_etc_is_a_copy_that_a_second_backend_uses_too_and_that_comes_back_when_it_is_removed(
    tmp_path: Path,
) -> None:
    shown = tmp_path / "workspaces" / ".system"

    async def check(one: Box) -> None:
        listed = (await one.shell("ls /etc; cat /etc/passwd | wc -l; date +%Z")).stdout.text().split()
        assert {"passwd", "group", "hosts", "nsswitch.conf", "ld.so.cache", "ssl"} <= set(listed)
        assert not {"shadow", "sudoers", "hostname", "machine-id", "ssh"} & set(listed)

    async with box(SandboxBackend(), tmp_path) as one:
        await check(one)
    (first,) = shown.iterdir()
    shutil.rmtree(tmp_path / "workspaces" / "one")
    async with box(SandboxBackend(), tmp_path) as one:
        await check(one)
        for path in shown.iterdir():
            delete_tree(path)
        await check(one)
    (second,) = shown.iterdir()
    assert first.name == second.name


async def test_a_directory_below_etc_can_be_shown(tmp_path: Path) -> None:
    below = next(path for path in sorted(Path("/etc").iterdir()) if path.is_dir() and any(path.iterdir()))

    async with box(SandboxBackend(read_only=[below]), tmp_path) as one:
        ended = await one.run("ls", "-A", str(below))
        assert sorted(ended.stdout.text().split("\n"))[1:] == sorted(os.listdir(below)), ended.stderr.text()


async def test_a_command_can_write_to_the_folder_of_its_own_skill_only(tmp_path: Path) -> None:
    async with box(SandboxBackend(), tmp_path) as one:
        assert (await one.shell("touch .venv/x new", skill=SKILL, cwd=f"skills/{SKILL}")).exit_code == 0
        assert (await one.shell(f"touch skills/{SKILL}/.venv/y")).exit_code != 0
        assert (await one.shell(f"touch skills/{SKILL}/other")).exit_code != 0
        assert [path.name for path in (one.place.tree / "skills" / SKILL / ".venv").iterdir()] == ["x"]
        assert (one.place.tree / "skills" / SKILL / "new").exists()


async def test_a_listener_on_the_hosts_loopback_cannot_be_reached(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        code = f"import socket; socket.create_connection(('127.0.0.1', {listener.getsockname()[1]}), 5)"

        async with box(SandboxBackend(), tmp_path) as one:
            ended = await one.run("python3", "-c", code)
            assert "ConnectionRefusedError" in ended.stderr.text()


class Hello(SimpleHTTPRequestHandler):
    """Answers every request with a word, and keeps quiet about it."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        del code, size


async def test_a_command_reaches_the_hosts_of_its_list_and_no_other(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), Hello) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        here = f"127.0.0.1:{server.server_port}"
        fetch = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"

        try:
            async with box(SandboxBackend(), tmp_path) as one:
                for url, expected in ((f"http://{here}/", "hello"), ("http://127.0.0.2:1/", "403")):
                    command = Command(("python3", "-c", fetch, url), network=(here,), limits=QUICK)
                    ended = await (await one.start(command)).wait()
                    assert expected in ended.stdout.text() + ended.stderr.text()
        finally:
            server.shutdown()
            serving.join()


async def test_limits_hold_inside(tmp_path: Path) -> None:
    limits = Limits(timeout=30, processes=20, open_files=64, file_bytes=1 << 20, memory_bytes=256 << 20)

    async with box(SandboxBackend(), tmp_path) as one:
        forks = (
            "import os, signal\nn = 0\ntry:\n  while n < 100:\n    if not os.fork(): signal.pause()\n    n += 1\n"
            "except OSError: pass\n"
        )
        ended = await one.run("python3", "-c", f"{forks}print(n)", limits=limits)
        assert ended.stdout.text().strip() == "19"
        files = "import os\nn = 0\ntry:\n  while True: os.dup(0); n += 1\nexcept OSError: print(n)"
        assert (await one.run("python3", "-c", files, limits=limits)).stdout.text().strip() == "61"
        big = await one.run("bash", "-c", "head -c 2000000 /dev/zero > work/big; echo $?; ulimit -c", limits=limits)
        assert big.stdout.text().split() == ["153", "0"]
        assert (one.place.tree / "work" / "big").stat().st_size == 1 << 20
        memory = await one.run("python3", "-c", "bytearray(300 << 20)", limits=limits)
        assert "MemoryError" in memory.stderr.text()


async def test_a_missing_program_is_said_as_a_shell_would(tmp_path: Path) -> None:
    async with box(SandboxBackend(), tmp_path) as one:
        ended = await one.run("no-such-program")
        assert (ended.exit_code, "no-such-program: not found" in ended.stderr.text()) == (127, True)
        (one.place.tree / "work" / "plain").write_text("x")
        (one.place.tree / "work" / "plain").chmod(0o444)
        assert (await one.run("work/plain")).exit_code == 126
        assert (await one.run("--help")).exit_code == 127


@pytest.mark.parametrize("command", [Command(("echo", "a\0b")), Command(("true",), env={"X": "1\0--bind\0/\0/x"})])
async def test_nothing_can_be_smuggled_into_the_options(tmp_path: Path, command: Command) -> None:
    async with box(SandboxBackend(), tmp_path) as one:
        with pytest.raises(InvalidArgument, match="NUL"):
            await one.start(command)


async def test_a_workspace_that_is_swapped_for_a_link_is_not_followed(tmp_path: Path) -> None:
    async with box(SandboxBackend(), tmp_path) as one:
        outside = tmp_path / "outside"
        (outside / "skills").mkdir(parents=True)
        (outside / "secret").write_text("secret")
        outside.chmod(0o777)
        tree = one.place.tree
        tree.rename(tree.with_name("moved"))
        tree.symlink_to(outside)
        ended = await (await one.start(Command(("ls",), limits=QUICK))).wait()
        assert "secret" not in ended.stdout.text()
        assert ended.stdout.text().split() == ["out", "runs", "skills", "work"]


async def test_sessions_do_not_see_each_other(tmp_path: Path) -> None:
    async with box(SandboxBackend(), tmp_path) as one:
        other = await one.start(Command(("sleep", "60"), input_open=True, limits=QUICK))
        ended = await one.shell("ls /proc | grep -c '^[0-9]'; pgrep sleep; ls /tmp /dev/shm $HOME")
        assert int(ended.stdout.text().split()[0]) < 6
        assert "sleep" not in ended.stdout.text()
        await other.kill()


async def test_a_killed_keeper_takes_its_commands_along_and_the_next_command_gets_a_new_one(tmp_path: Path) -> None:
    backend = SandboxBackend()
    async with box(backend, tmp_path) as one:
        process = await one.start(Command(("sleep", "60"), input_open=True, limits=QUICK))
        keeper = await backend.get_supervisor(one.place)
        pid = _pid_of(keeper)
        os.kill(pid, signal.SIGKILL)
        assert (await process.wait()).ending is EndReason.INTERRUPTED
        assert await eventually(lambda: not _descendants_named("sleep", one.place))
        assert (await one.run("true")).exit_code == 0


def _pid_of(keeper: object) -> int:
    helper = getattr(keeper, "_helper")  # noqa: B009 - who ends it in real life does not ask either
    return int(helper.pid)


def _descendants_named(name: str, place: WorkspaceDirectory) -> list[str]:
    found = [pid for pid in os.listdir("/proc") if pid.isdigit() and _cmdline(pid).split(b"\0")[0] == name.encode()]
    return [pid for pid in found if _owner(pid) == (place.uid or os.getuid())]


def _owner(pid: str) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


async def until(process_read: Callable[[int], Awaitable[tuple[bytes, int]]], wanted: bytes, offset: int) -> int:
    seen = b""
    deadline = time.monotonic() + 20
    while wanted not in seen:
        assert time.monotonic() < deadline, seen
        data, offset = await process_read(offset)
        seen += data
    return offset


class Typist:
    """Somebody at the terminal of a command."""

    def __init__(self, one: Box) -> None:
        self._box = one
        self._offset = 0

    async def begin(self, *argv: str) -> None:
        self.process = await self._box.start(Command(argv, terminal=TerminalSize(), limits=QUICK))

    async def types(self, keys: bytes) -> None:
        await self.process.write(keys)

    async def sees(self, wanted: bytes) -> None:
        async def read(offset: int) -> tuple[bytes, int]:
            output = await self.process.read(offset, wait=5)
            assert not output.ended or output.data, (await self.process.wait(), await self.process.read(0))
            return output.data, output.next_offset

        self._offset = await until(read, wanted, self._offset)


async def test_ctrl_c_ends_the_foreground_job_and_not_the_session(tmp_path: Path) -> None:
    async with box(SandboxBackend(), tmp_path) as one:
        typist = Typist(one)
        await typist.begin("bash", "--norc", "-i")
        await typist.sees(b"$ ")
        # What the job itself says comes when it is in the foreground; before, bash may take the key for itself.
        await typist.types(b"bash -c 'echo begin; exec sleep 60'\n")
        await typist.sees(b"begin\r\n")
        await typist.types(CTRL_C)
        await typist.sees(b"$ ")
        await typist.types(b"echo code=$?\n")
        await typist.sees(b"code=130")
        await typist.types(b"exit 7\n")
        assert (await typist.process.wait()).exit_code == 7


async def test_jobs_can_be_stopped_and_sent_to_the_background(tmp_path: Path) -> None:
    async with box(SandboxBackend(), tmp_path) as one:
        typist = Typist(one)
        await typist.begin("bash", "--norc", "-i")
        await typist.types(b"bash -c 'echo begin; exec sleep 60'\n")
        await typist.sees(b"begin\r\n")
        await typist.types(CTRL_Z)
        await typist.sees(b"Stopped")
        await typist.types(b"bg; jobs; kill %1; wait; echo all-$((40 + 2))\n")
        await typist.sees(b"all-42")
        await typist.process.kill()


async def test_ctrl_c_reaches_a_program_that_runs_directly(tmp_path: Path) -> None:
    async with box(SandboxBackend(), tmp_path) as one:
        typist = Typist(one)
        await typist.begin("bash", "-c", "echo begin; exec sleep 60")
        await typist.sees(b"begin")
        await typist.types(CTRL_C)
        assert (await typist.process.wait()).exit_code == 130


async def test_ctrl_c_interrupts_python_and_python_goes_on(tmp_path: Path) -> None:
    async with box(SandboxBackend(), tmp_path) as one:
        typist = Typist(one)
        await typist.begin("python3", "-q")
        await typist.sees(b">>> ")
        # Not one long sleep: Python itself overlooks a key that comes in the moment before it.
        await typist.types(b"import time; print('be' 'gin'); any(time.sleep(0.01) for _ in range(6000))\n")
        await typist.sees(b"begin")
        await typist.types(CTRL_C)
        await typist.sees(b"KeyboardInterrupt")
        await typist.types(b"40 + 2\n")
        await typist.sees(b"42")
        await typist.process.kill()


async def test_a_terminal_cannot_be_typed_into_from_inside(tmp_path: Path) -> None:
    code = "import fcntl, termios\ntry: fcntl.ioctl(0, termios.TIOCSTI, b'x')\nexcept PermissionError: print('refused')"

    async with box(SandboxBackend(), tmp_path) as one:
        typist = Typist(one)
        await typist.begin("python3", "-c", code)
        await typist.sees(b"refused")
        assert (await typist.process.wait()).exit_code == 0


async def test_a_program_whose_name_looks_like_a_variable_is_still_a_program(tmp_path: Path) -> None:
    async with box(SandboxBackend(), tmp_path) as one:
        process = await one.start(Command(("A=b",), terminal=TerminalSize(), limits=QUICK))
        assert (await process.wait()).exit_code == 127


async def refused(backend: SandboxBackend) -> str:
    try:
        with pytest.raises(ExecutorUnavailable) as caught:
            await backend.check()
        return caught.value.message
    finally:
        await backend.close()


async def test_a_bubblewrap_that_runs_commands_bare_is_found_out() -> None:
    with open_place() as place:
        fake = place / "bwrap"
        fake.write_text('#!/bin/bash\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
        fake.chmod(0o755)
        message = await refused(SandboxBackend(bwrap=fake))
    assert "bubblewrap" in message
    assert "nothing is run" in message or "nothing was run" in message


async def test_a_missing_bubblewrap_is_refused_with_the_way_to_install_it(tmp_path: Path) -> None:
    message = await refused(SandboxBackend(bwrap=tmp_path / "bwrap"))
    assert "does not work on this machine" in message


async def test_a_filter_that_the_kernel_does_not_take_is_refused() -> None:
    assert "nothing was run" in await refused(SandboxBackend(rules=b"\xff" * 16))


async def test_a_filter_that_lets_everything_through_is_found_out() -> None:
    allow_all = bytes.fromhex("06000000" + "0000ff7f")
    message = await refused(SandboxBackend(rules=allow_all))
    assert "unix sockets: done" in message
    assert "user namespaces" not in message or "ENOSPC" in message


async def test_a_failed_self_test_is_not_remembered() -> None:
    PASSED.clear()

    async def main(link: Path) -> None:
        backend = SandboxBackend(bwrap=link)
        with pytest.raises(ExecutorUnavailable):
            await backend.check()
        link.symlink_to("/usr/bin/bwrap")
        assert await backend.check() is Isolation.BUBBLEWRAP
        await backend.close()

    with open_place() as place:
        await main(place / "bwrap")


async def test_root_never_enters_a_sandbox_as_root(tmp_path: Path) -> None:
    skip_unless_root("only it could run commands as root")
    place = new_place(tmp_path)

    with pytest.raises(ExecutorUnavailable, match="do not run as root"):
        await SandboxBackend().attach(WorkspaceDirectory(place.id, place.tree, None))


as_root = needs_root("only root starts commands as somebody else")


def as_somebody(*argv: str) -> list[str]:
    return ["/usr/bin/setpriv", "--reuid", str(get_uid()), "--regid", str(get_uid()), "--clear-groups", "--", *argv]


def test_only_the_topmost_closed_directory_is_covered() -> None:
    closed = {Path("/mine"), Path("/mine/deep/closed")}
    found = find_closed_parents(
        [Path("/mine/deep/closed/x"), Path("/mine/y"), Path("/usr/z")], lambda path: path not in closed
    )
    assert found == [Path("/mine")]


def test_a_directory_below_another_one_needs_no_way_of_its_own() -> None:
    wanted = [Path("/mine/state/.system"), Path("/usr"), Path("/mine/state"), Path("/mine/state2"), Path("/usr")]
    assert select_topmost(wanted) == [Path("/mine/state"), Path("/mine/state2"), Path("/usr")]


@as_root
def test_another_user_gets_to_a_directory_below_a_closed_one_and_to_nothing_beside_it(tmp_path: Path) -> None:
    shown, hidden = tmp_path / "shown", tmp_path / "hidden"
    for directory in (shown, hidden):
        directory.mkdir(mode=0o755)
        (directory / "file").write_text(directory.name)
    tmp_path.chmod(0o700)
    script = f"cat {shown}/file; ls {tmp_path} || cat {hidden}/file"
    done = subprocess.run(
        build_reach_command([shown], as_somebody("/bin/bash", "-c", script)), capture_output=True, text=True
    )
    assert done.stdout == "shown"
    assert done.returncode != 0
    assert subprocess.run(as_somebody("/bin/cat", f"{shown}/file"), capture_output=True).returncode != 0


@as_root
def test_only_the_user_of_a_workspace_may_pass_to_it(tmp_path: Path) -> None:
    tree = tmp_path / "workspaces" / "one" / "tree"
    tree.mkdir(parents=True)
    tree.parent.chmod(0o700)
    allow_traversal(tree, get_uid())
    found = tree.parent.stat()
    assert (found.st_gid, found.st_mode & 0o777) == (get_uid(), 0o710)
    assert tree.parents[1].stat().st_mode & 0o001


@pytest.mark.parametrize(
    ("said", "settings", "fix"),
    [
        ("bwrap: Unknown option --bind-fd", {}, "Upgrade it"),
        ("x", {"user/max_user_namespaces": "0"}, "sysctl -w user.max_user_namespaces"),
        ("x", {"kernel/unprivileged_userns_clone": "0"}, "sysctl -w kernel.unprivileged_userns_clone=1"),
        ("x", {"kernel/apparmor_restrict_unprivileged_userns": "1"}, "AppArmor"),
        ("bwrap: No permissions to create new namespace", {}, "If this is a container"),
        ("something else", {}, "container"),
    ],
)
def test_each_reason_has_its_own_fix(said: str, settings: dict[str, str], fix: str) -> None:
    assert fix in suggest_fix(said, lambda name: settings.get(name, ""))


def test_a_setting_that_this_kernel_does_not_have_is_empty() -> None:
    assert read_kernel_setting("kernel/no_such_setting") == ""
    assert read_kernel_setting("kernel/ostype") == "Linux"


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap needs Linux")


def test_the_programs_are_found_on_the_search_path_and_in_the_system(tmp_path: Path) -> None:
    bwrap = tmp_path / "bwrap"
    bwrap.write_text("#!/bin/sh\n")
    bwrap.chmod(0o755)
    stand = SandboxTools(str(tmp_path), ())
    assert stand.bwrap == str(bwrap)
    assert os.access(stand.setpriv, os.X_OK)
    stand.close()


def test_a_program_of_the_current_directory_is_not_the_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bwrap", "setpriv"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    stand = SandboxTools(".:", (), bwrap=Path("/bin/true"))
    assert Path(stand.setpriv).parent != tmp_path
    stand.close()


def test_a_chosen_bubblewrap_and_filter_are_taken(tmp_path: Path) -> None:
    stand = SandboxTools("", (tmp_path,), bwrap=Path("/bin/true"), rules=b"rules")
    assert stand.bwrap == "/bin/true"
    with os.fdopen(stand.filter.open_reader(), "rb") as rules:
        assert rules.read() == b"rules"
    assert stand.read_only == (tmp_path,)
    stand.close()


def test_closing_gives_the_descriptors_back(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    stand = SandboxTools("", (tmp_path,), bwrap=Path("/bin/true"))
    assert len(os.listdir("/proc/self/fd")) > before
    stand.close()
    assert len(os.listdir("/proc/self/fd")) == before
