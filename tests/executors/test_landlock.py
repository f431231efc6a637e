import os
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable
from openskills.executors.bubblewrap.selftest import PASSED
from openskills.executors.landlock import LandlockBackend
from openskills.executors.programs.landlock import MIN_VERSION, get_version
from openskills.executors.protocol import WorkspaceDirectory
from openskills.executors.spec import Command, Isolation, Limits, TerminalSize
from tests.conftest import skip_unless_root
from tests.executors.boxes import QUICK, SKILL, box, get_uid, new_place

pytestmark = pytest.mark.skipif(get_version() < 6, reason="this kernel has no Landlock, or an older one")


async def refused(backend: LandlockBackend) -> str:
    try:
        with pytest.raises(ExecutorUnavailable) as caught:
            await backend.check()
        return caught.value.message
    finally:
        await backend.close()


async def test_the_self_test_passes_here_and_says_what_stands_between() -> None:
    assert get_version() >= MIN_VERSION
    PASSED.clear()
    backend = LandlockBackend()
    assert await backend.check() is Isolation.LANDLOCK
    await backend.close()


async def test_a_command_runs_in_its_workspace_as_its_own_user(tmp_path: Path) -> None:
    async with box(LandlockBackend(), tmp_path) as one:
        ended = await one.shell(
            "id -u; pwd; echo hello > work/x; echo $TMPDIR; touch $TMPDIR/x; grep Cap /proc/self/status"
        )
        user, where, tmp, *capabilities = ended.stdout.text().splitlines()
        assert (ended.exit_code, user, where) == (0, str(one.place.uid or os.getuid()), one.launcher.root)
        assert tmp == f"{one.launcher.root}/runs/run/tmp"
        assert (one.place.tree / "work" / "x").read_text() == "hello\n"
        if os.geteuid() == 0:
            assert capabilities[1].split()[1].strip("0") == ""


@pytest.mark.parametrize(
    "attempt",
    [
        "cat /etc/shadow",
        "ls /root",
        "ls /home",
        "ls ../..",
        "touch x",
        "touch /tmp/openskills-probe",
        "touch /dev/shm/openskills-probe",
        "echo changed > skills/demo/SKILL.md",
        "rm skills/demo/SKILL.md",
        "mv skills work/elsewhere",
        "ln skills/demo/SKILL.md work/link && echo x > work/link",
        "unshare -U true",
        "cat /proc/1/environ",
        "kill -0 $PPID",
        "kill -0 1",
        "python3 -c 'import socket; socket.socket()'",
        "python3 -c 'import socket; socket.socket(type=socket.SOCK_DGRAM)'",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX)'",
        "python3 -c 'import socket; socket.socket(40, 1)'",
        "prlimit --pid $PPID --nofile=9:9",
        "ipcmk -M 100",
        "ls /proc/self/fd | grep -vE '^[0-3]$'",
    ],
)
async def test_what_a_command_must_not_do_fails(tmp_path: Path, attempt: str) -> None:
    async with box(LandlockBackend(), tmp_path) as one:
        ended = await one.shell(attempt)
        assert ended.exit_code != 0, ended.stdout.text()
        assert (one.place.tree / "skills" / SKILL / "SKILL.md").read_text() == "original"


async def test_a_command_can_write_to_the_folder_of_its_own_skill_only(tmp_path: Path) -> None:
    async with box(LandlockBackend(), tmp_path) as one:
        assert (await one.shell("touch .venv/x new", skill=SKILL, cwd=f"skills/{SKILL}")).exit_code == 0
        assert (await one.shell(f"touch skills/{SKILL}/.venv/y")).exit_code != 0
        assert (await one.shell(f"touch skills/{SKILL}/other")).exit_code != 0


async def test_limits_hold(tmp_path: Path) -> None:
    async with box(LandlockBackend(), tmp_path) as one:
        limits = Limits(timeout=30, open_files=50, file_bytes=1024, processes=10)
        ended = await one.shell("ulimit -n; ulimit -c; head -c 9000 /dev/zero > work/big; ulimit -u", limits=limits)
        files, core, processes = ended.stdout.text().split()
        assert (files, core) == ("50", "0")
        assert (one.place.tree / "work" / "big").stat().st_size == 1024
        assert os.geteuid() != 0 or processes == "10"


async def test_a_missing_program_is_said_as_a_shell_would(tmp_path: Path) -> None:
    async with box(LandlockBackend(), tmp_path) as one:
        ended = await one.run("no-such-program")
        assert (ended.exit_code, ended.stderr.text()) == (127, "no-such-program: command not found\n")
        assert (await one.run("skills/demo/SKILL.md")).exit_code == 126


async def test_a_terminal_works_and_ctrl_c_is_heard(tmp_path: Path) -> None:
    async with box(LandlockBackend(), tmp_path) as one:
        argv = ("bash", "-c", "tty -s && echo begin; exec sleep 60")
        process = await one.start(Command(argv, terminal=TerminalSize(), limits=QUICK))
        seen = b""
        while b"begin" not in seen:
            seen = (await process.read(0, wait=5)).data
        await process.write(b"\x03")
        assert (await process.wait()).exit_code == 130


async def test_a_filter_that_the_kernel_does_not_take_is_refused() -> None:
    assert "system call filter" in await refused(LandlockBackend(rules=b"\xff" * 16))


async def test_a_filter_that_lets_everything_through_is_found_out() -> None:
    message = await refused(LandlockBackend(rules=bytes.fromhex("06000000" + "0000ff7f")))
    assert "unix sockets: done" in message


async def test_a_network_is_refused_and_not_ignored(tmp_path: Path) -> None:
    async with box(LandlockBackend(), tmp_path) as one:
        with pytest.raises(ExecutorUnavailable, match="network access is not supported"):
            await one.start(Command(("true",), network=("example.org",)))


async def test_nothing_is_run_as_root(tmp_path: Path) -> None:
    skip_unless_root("only it could run commands as root")
    place = new_place(tmp_path)

    with pytest.raises(ExecutorUnavailable, match="as root"):
        await LandlockBackend().attach(WorkspaceDirectory(place.id, place.tree, None))

    assert place.uid == get_uid()
