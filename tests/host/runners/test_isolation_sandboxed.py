"""Hosted skills in a sandbox: what they see, what they cannot, and that calls leave nothing for each other."""

import asyncio
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import ExecutorUnavailable, LimitExceeded
from openskills.host.model import HostLimits, ManifestFault, Outcome, Registration, SkillStartMethod
from openskills.host.runners.isolation import build_sandbox_options
from openskills.sync import run
from tests.conftest import skip_unless_root
from tests.host.both_ways import BOTH_WAYS
from tests.host.calls_made import called, invoke, open_runner, python_skill, script

RequireProgram = Callable[[str], str]


@pytest.fixture(autouse=True)
def bubblewrap(require_program: RequireProgram) -> None:
    """None of this works without it."""
    require_program("bwrap")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory that other users can get to, with a skill's own directories in it."""
    for name in ("skills", "data", "private"):
        (tmp_path / name).mkdir(mode=0o755)
    (tmp_path / "private" / "key").write_text("secret")
    (tmp_path / "data" / "a.txt").write_text("something")
    return tmp_path


def sandboxed(place: Path, text: str, **more: Any) -> Registration:
    """A skill that runs in a sandbox."""
    entry = script(place / "skills", text)
    entry.chmod(0o644)
    return python_skill(entry, **{"executor": "sandbox", "allowed_root": place / "data", **more})


@pytest.mark.parametrize("warm", [SkillStartMethod.FORK, SkillStartMethod.SPAWN])
async def test_a_skill_sees_its_script_its_root_and_nothing_else_of_the_place(
    place: Path, warm: SkillStartMethod
) -> None:
    text = """
        import json, os
        root = os.environ["OPENSKILL_ALLOWED_ROOT"]
        above = os.path.dirname(root)
        print(json.dumps({"here": sorted(os.listdir(above)), "cwd": os.getcwd() == above, "data": os.listdir("./data"),
                          "read": open(root + "/a.txt").read(), "user": os.getuid(),
                          "home": os.listdir(os.environ["HOME"]),
                          "processes": sum(name.isdigit() for name in os.listdir("/proc"))}))
    """
    outcome = await invoke(place, sandboxed(place, text, warm=warm))
    found = dict(outcome.data or {})
    assert found.pop("processes") <= 6
    assert found == {
        "here": ["data", "skills"],
        "cwd": True,
        "data": ["a.txt"],
        "read": "something",
        "user": 1000,
        "home": [],
    }
    assert outcome.notes["isolation"] == "bubblewrap"


@pytest.mark.parametrize("warm", [SkillStartMethod.FORK, SkillStartMethod.SPAWN])
async def test_a_skill_runs_without_its_root_and_sees_it_as_soon_as_it_is_created(
    place: Path, warm: SkillStartMethod
) -> None:
    text = """
        import json, os
        root = os.environ["OPENSKILL_ALLOWED_ROOT"]
        print(json.dumps({"files": os.listdir(root) if os.path.isdir(root) else None}))
    """
    later = place / "later"
    skill = sandboxed(place, text, warm=warm, allowed_root=later)
    async with open_runner(place, skill) as runner:
        assert (await runner.invoke(skill, called())).data == {"files": None}
        later.mkdir(mode=0o755)
        (later / "a.txt").write_text("something")
        assert (await runner.invoke(skill, called())).data == {"files": ["a.txt"]}


async def test_a_skill_that_may_write_needs_its_root(place: Path) -> None:
    with pytest.raises(ManifestFault, match="allowed_root: directory not found"):
        await invoke(place, sandboxed(place, "print('{}')", writable=True, allowed_root=place / "later"))


WRITES = """
    import errno, json, os
    def attempt(path):
        try:
            with open(path, "w") as file:
                file.write("x")
        except OSError as error:
            return errno.errorcode[error.errno]
        return "written"
    root = os.environ["OPENSKILL_ALLOWED_ROOT"]
    places = (root + "/new", __file__, "/etc/new", "/tmp/new")
    print(json.dumps({"a": [attempt(place) for place in places]}))
"""


@pytest.mark.parametrize(("writable", "expected"), [(False, "EROFS"), (True, "written")])
@pytest.mark.parametrize("owner", [0, 52345])
async def test_a_skill_writes_to_its_root_only_when_that_is_writable(
    place: Path, writable: bool, expected: str, owner: int
) -> None:
    if os.geteuid() == 0:
        os.chown(place / "data", owner, owner)
    found = (await invoke(place, sandboxed(place, WRITES, writable=writable))).data
    assert found == {"a": [expected, "EROFS", "EROFS", "written"]}
    assert (place / "data" / "new").exists() is writable
    if writable:
        assert (place / "data" / "new").stat().st_uid == (place / "data").stat().st_uid


@pytest.mark.parametrize("warm", [SkillStartMethod.FORK, SkillStartMethod.SPAWN])
async def test_a_skill_leaves_no_program_with_a_set_id_bit(place: Path, warm: SkillStartMethod) -> None:
    text = """
        import json, os, shutil
        path = os.environ["OPENSKILL_ALLOWED_ROOT"] + "/sh"
        shutil.copyfile("/bin/sh", path)
        try:
            os.chmod(path, 0o6755)
        except OSError as error:
            print(json.dumps({"refused": error.strerror}))
    """
    found = (await invoke(place, sandboxed(place, text, writable=True, warm=warm))).data
    assert found == {"refused": "Operation not permitted"}
    assert (place / "data" / "sh").stat().st_mode & 0o6000 == 0


async def test_a_skill_has_no_network(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = f"""
            import json, socket
            with socket.socket() as s:
                print(json.dumps({{"refused": s.connect_ex(("127.0.0.1", {server.getsockname()[1]})) != 0}}))
        """
        assert (await invoke(place, sandboxed(place, text))).data == {"refused": True}


async def test_a_call_finds_nothing_of_an_earlier_one(place: Path) -> None:
    text = """
        import json, os, sys
        places = ("/tmp", "/dev/shm", os.environ["HOME"])
        found = [path for path in places if os.path.exists(path + "/a")]
        for path in places:
            os.makedirs(path + "/a/b")
            open(path + "/a/b/c", "w").write("left behind")
        os.chmod("/tmp/a", 0)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execvp("sleep", ["sleep", "600"])
            os._exit(0)
        running = [open(f"/proc/{pid}/cmdline").read() for pid in os.listdir("/proc") if pid.isdigit()]
        print(json.dumps({"found": found, "sleeps": sum("600" in line for line in running)}))
    """
    skill = sandboxed(place, text, limits=HostLimits(concurrency=1))

    async with open_runner(place, skill) as runner:
        outcomes = [await runner.invoke(skill, called()) for _ in range(4)]
    for outcome in outcomes:
        assert (outcome.data or {})["found"] == []
        assert (outcome.data or {})["sleeps"] <= 1


async def test_a_sandbox_whose_traces_cannot_be_undone_is_not_used_again(place: Path) -> None:
    text = """
        import json, os, resource, sys
        found = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (found - 1, found - 1))
        print(json.dumps({"found": found}))
    """
    skill = sandboxed(place, text, limits=HostLimits(concurrency=1))

    async with open_runner(place, skill) as runner:
        outcomes = [await runner.invoke(skill, called()) for _ in range(3)]
    assert len({json.dumps(dict(outcome.data or {})) for outcome in outcomes}) == 1


async def test_calls_at_the_same_time_do_not_see_each_other(place: Path) -> None:
    text = """
        import json, os, time
        open(f"/dev/shm/call-{os.getpid()}-{time.time()}", "w").close()
        time.sleep(.1)
        print(json.dumps({"n": sum(name.startswith("call-") for name in os.listdir("/dev/shm"))}))
    """
    skill = sandboxed(place, text, limits=HostLimits(concurrency=3))

    async with open_runner(place, skill) as runner:
        outcomes = await asyncio.gather(*(runner.invoke(skill, called()) for _ in range(6)))
    assert {(outcome.data or {})["n"] for outcome in outcomes} == {1}


async def test_a_skill_that_is_stopped_takes_its_sandbox_with_it_and_the_next_call_gets_another(place: Path) -> None:
    text = """
        import json, sys, time
        if json.load(sys.stdin)["input"]["wait"]:
            time.sleep(600)
        print("{}")
    """
    skill = sandboxed(place, text)

    async with open_runner(place, skill) as runner:
        task = asyncio.ensure_future(runner.invoke(skill, called({"wait": True})))
        await asyncio.wait((task,), timeout=1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await runner.invoke(skill, called({"wait": False}))).data == {}


async def test_a_large_input_arrives_whole(place: Path) -> None:
    text = "import json, sys; print(json.dumps({'n': len(json.load(sys.stdin)['input']['text'])}))"
    assert (await invoke(place, sandboxed(place, text), input={"text": "x" * 500_000})).data == {"n": 500_000}


async def test_memory_is_limited(place: Path) -> None:
    skill = sandboxed(place, "x = bytearray(600_000_000)\nprint('{}')", limits=HostLimits(memory_bytes=200_000_000))
    failure = (await invoke(place, skill)).failure
    assert failure is not None
    assert "MemoryError" in failure.message


@pytest.mark.parametrize("executor", ["sandbox", "local"])
@pytest.mark.parametrize("warm", [SkillStartMethod.FORK, SkillStartMethod.SPAWN])
async def test_memory_of_all_processes_of_a_call_is_limited(place: Path, warm: SkillStartMethod, executor: str) -> None:
    text = """
        import os, time
        for _ in range(6):
            if os.fork() == 0:
                data = bytearray(os.urandom(1000)) * 100_000
                time.sleep(60)
                os._exit(0)
        time.sleep(60)
    """
    limits = HostLimits(memory_bytes=256 * 1024 * 1024)
    with pytest.raises(LimitExceeded, match=r"processes used [\d,]+ bytes of memory; the limit is 268,435,456"):
        await invoke(place, sandboxed(place, text, limits=limits, warm=warm, executor=executor))


FILES_IN_MEMORY = """
    import os, time
    for place, size in (("/tmp", 200), ("/dev/shm", 50), (os.environ["HOME"], 50)):
        file = os.open(place, os.O_TMPFILE | os.O_RDWR)
        for _ in range(size):
            os.write(file, b"x" * 1024 * 1024)
    time.sleep(60)
"""
QUEUED_DATA = """
    import socket, time
    listener = socket.create_server(("127.0.0.1", 0), backlog=200)
    kept = []
    for _ in range(100):
        kept.append(socket.create_connection(listener.getsockname()))
        kept[-1].settimeout(0.01)
        try:
            while True: kept[-1].sendall(b"x" * 1024 * 1024)
        except TimeoutError:
            pass
    time.sleep(60)
"""


@pytest.mark.parametrize("text", [FILES_IN_MEMORY, QUEUED_DATA], ids=["files in memory", "data in sockets"])
async def test_memory_that_no_process_has_counts_for_the_call(place: Path, text: str) -> None:
    skill = sandboxed(place, text, limits=HostLimits(memory_bytes=160 * 1024 * 1024))
    with pytest.raises(LimitExceeded, match=r"processes used [\d,]+ bytes of memory; the limit is 167,772,160"):
        await invoke(place, skill)


async def test_a_script_that_its_user_may_not_read_is_reported(place: Path) -> None:
    skip_unless_root("only it has other users for sandboxes")
    skill = sandboxed(place, "print('{}')")
    (place / "skills" / "skill.py").chmod(0o600)
    async with open_runner(place, skill) as runner:
        with pytest.raises(ExecutorUnavailable, match=r"PermissionError.*skill\.py"):
            await runner.prepare(skill)


@pytest.fixture(scope="module")
def both_ways(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Outcome, Outcome]]:
    """Every script of `BOTH_WAYS`, warm and cold, in sandboxes."""
    directory = tmp_path_factory.mktemp("both")
    directory.chmod(0o755)
    script(directory, "VALUE = 'beside'", "beside.py")
    for number, text in enumerate(BOTH_WAYS.values()):
        (directory / f"skill{number}.py").write_text(text, encoding="utf-8")

    async def work() -> dict[str, tuple[Outcome, Outcome]]:
        found: dict[str, tuple[Outcome, Outcome]] = {}
        async with open_runner(directory, python_skill(directory / "skill0.py")) as runner:
            for number, name in enumerate(BOTH_WAYS):
                entry = directory / f"skill{number}.py"
                fork, spawn = [
                    await runner.invoke(
                        python_skill(entry, warm=warm, executor="sandbox"),
                        called({"text": "x"}, secrets={"TOKEN": "geheim"}),
                    )
                    for warm in (SkillStartMethod.FORK, SkillStartMethod.SPAWN)
                ]
                found[name] = (fork, spawn)
        return found

    return run(work())


@pytest.mark.parametrize("name", [name for name in BOTH_WAYS if name != "session"])
def test_a_script_does_the_same_in_a_kept_sandbox_as_in_a_new_one(
    name: str, both_ways: dict[str, tuple[Outcome, Outcome]]
) -> None:
    warm, cold = both_ways[name]
    notes = [
        {key: value for key, value in one.notes.items() if key not in {"cold_start", "memory_bytes"}}
        for one in (warm, cold)
    ]
    assert (warm.data, warm.failure, notes[0]) == (cold.data, cold.failure, notes[1])


def test_what_lies_in_another_directory_is_shown_after_it() -> None:
    shown = {Path("/a"): False, Path("/a/b"): True}
    options = build_sandbox_options(shown, Path("/a"), {"X": "1"})
    assert options[:6] == ["--ro-bind", "/a", "/a", "--bind", "/a/b", "/a/b"]
    assert options[-3:] == ["--setenv", "X", "1"]
