"""The store on disk keeps what every store promises, and what only a disk can promise."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import count
from pathlib import Path

import pytest

from openskills.artifacts.disk import locked
from openskills.artifacts.files import FORMAT, FileArtifactStore, Swept
from openskills.artifacts.store import Scope, read
from openskills.errors import InvalidArgument, LimitExceeded, SkillError
from openskills.sync import run
from openskills.testing import PNG, check_artifact_store


def python(program: str, *args: object) -> str:
    """What a program prints; it must end well and in silence."""
    command = [sys.executable, "-W", "error", "-c", program, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def files_below(root: Path) -> list[str]:
    return sorted(path.relative_to(root).parts[0] for path in root.rglob("*") if path.is_file())


def test_it_keeps_every_promise_of_a_store(tmp_path: Path) -> None:
    number = count()
    run(check_artifact_store(lambda: FileArtifactStore(tmp_path / str(next(number)))))


def test_one_directory_that_everybody_shares_keeps_them_too(tmp_path: Path) -> None:
    run(check_artifact_store(lambda: FileArtifactStore(tmp_path / "shared")))


def test_making_a_store_touches_nothing_and_the_first_use_makes_the_directory(tmp_path: Path, scope: Scope) -> None:
    store = FileArtifactStore(str(tmp_path / "deep" / "store"))
    assert list(tmp_path.iterdir()) == []
    assert run(store.list(scope)) == ()
    assert (tmp_path / "deep" / "store" / "format").read_bytes() == FORMAT


def test_another_store_in_the_same_place_finds_everything(tmp_path: Path, scope: Scope) -> None:
    first = FileArtifactStore(tmp_path)
    made = [run(first.put(scope, name, PNG, mime_type="image/png")) for name in ("a", "user:b")]
    second = FileArtifactStore(tmp_path)
    assert list(run(second.list(scope))) == made
    assert run(read(second, scope, "user:b")) == PNG


def test_everything_is_for_the_owner_only(files: FileArtifactStore, scope: Scope, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        run(files.put(scope, "a", b"x"))
        run(files.delete(scope, "a"))
        run(files.put(scope, "b", b"x"))
    finally:
        os.umask(before)
    paths = [tmp_path / "store", *(tmp_path / "store").rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_file()} == {0o600}


def test_no_name_is_a_path(files: FileArtifactStore, scope: Scope, tmp_path: Path) -> None:
    for name in ("con", "-rf", "a/b/c", "x" * 255, "%2e%2e%2fx", "..a", "user:图", "C:\\x", "~", "$HOME"):
        run(files.put(scope, name, name.encode()))
        assert run(read(files, scope, name)) == name.encode()
    words = {path.name for path in (tmp_path / "store").rglob("*")} - {"arriving", "blobs", "format", "locks", "logs"}
    assert all(set(word) <= set("0123456789abcdef") for word in words - {"sweep"})
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_the_same_content_takes_its_place_once(files: FileArtifactStore, scope: Scope, tmp_path: Path) -> None:
    for name in ("a", "b", "user:c"):
        run(files.put(scope, name, b"same"))
    assert files_below(tmp_path / "store").count("blobs") == 1


def test_more_than_the_limit_is_refused_and_nothing_is_left_of_it(tmp_path: Path, scope: Scope) -> None:
    store = FileArtifactStore(tmp_path / "store", max_bytes=3_000_000)
    asked: list[int] = []

    async def endless() -> AsyncGenerator[bytes]:
        for number in count():
            asked.append(number)
            yield b"x" * 1_000_000

    with pytest.raises(LimitExceeded, match="this store takes 3,000,000 per artifact"):
        run(store.put(scope, "a", endless()))
    assert len(asked) == 4
    assert files_below(tmp_path / "store") == ["format"]
    assert run(store.put(scope, "a", b"x" * 3_000_000)).version == 0


def test_a_put_that_is_cancelled_while_it_writes_leaves_nothing(
    files: FileArtifactStore, scope: Scope, tmp_path: Path
) -> None:
    async def cancel_at(moment: int) -> bool:
        task = asyncio.ensure_future(files.put(scope, "a", b"x" * 100_000))
        for _ in range(moment):
            await asyncio.sleep(0.0005)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    outcomes = [run(cancel_at(moment)) for moment in range(25)]
    assert any(outcomes)
    assert list((tmp_path / "store" / "arriving").iterdir()) == []
    versions = [artifact.version for artifact in run(files.versions(scope, "a"))]
    assert versions == list(range(len(versions)))
    assert len(versions) >= outcomes.count(False)


def test_a_reading_that_is_left_early_closes_its_file(files: FileArtifactStore, scope: Scope) -> None:
    async def peek() -> tuple[bytes, int]:
        async with files.open(scope, "a") as reading:
            first = await anext(reading.chunks)
            during = len(os.listdir("/dev/fd"))
        return first[:3], during - len(os.listdir("/dev/fd"))

    run(files.put(scope, "a", b"abc" * 1_000_000))
    assert run(peek()) == (b"abc", 1)


def test_content_that_somebody_changed_is_an_error_and_not_a_result(
    files: FileArtifactStore, scope: Scope, tmp_path: Path
) -> None:
    artifact = run(files.put(scope, "a", b"hello"))
    blob = tmp_path / "store" / "blobs" / artifact.sha256
    blob.write_bytes(b"hellO")
    with pytest.raises(SkillError, match="artifact://a@0 is damaged"):
        run(read(files, scope, "a"))
    blob.unlink()
    with pytest.raises(SkillError, match=f"artifact://a@0 is damaged: {blob} is missing or has changed; restore it"):
        run(read(files, scope, "a"))


def test_what_a_killed_process_left_on_the_way_is_gone_after_a_start(tmp_path: Path, scope: Scope) -> None:
    run(FileArtifactStore(tmp_path).put(scope, "a", b"x"))
    (tmp_path / "arriving" / "tmporphan").write_bytes(b"half")
    store = FileArtifactStore(tmp_path)
    assert len(run(store.list(scope))) == 1
    assert list((tmp_path / "arriving").iterdir()) == []


def test_a_start_does_not_disturb_what_arrives_elsewhere(tmp_path: Path, scope: Scope) -> None:
    async def with_a_start_in_the_middle() -> AsyncGenerator[bytes]:
        yield b"x" * 2_000_000
        await FileArtifactStore(tmp_path).list(scope)
        await FileArtifactStore(tmp_path).sweep()
        yield b"y"

    store = FileArtifactStore(tmp_path)
    run(store.put(scope, "a", with_a_start_in_the_middle()))
    assert run(read(store, scope, "a")) == b"x" * 2_000_000 + b"y"


def test_a_directory_of_another_version_is_refused_and_left_alone(tmp_path: Path, scope: Scope) -> None:
    (tmp_path / "format").write_text("openskills artifacts 2\n")
    store = FileArtifactStore(tmp_path)
    for _ in range(2):
        with pytest.raises(SkillError, match=r"was written by another version of OpenSkill: .*; choose another"):
            run(store.put(scope, "a", b"x"))
    assert (tmp_path / "format").read_text() == "openskills artifacts 2\n"
    assert files_below(tmp_path) == ["format"]


def test_sweeping_removes_what_nothing_refers_to(files: FileArtifactStore, scope: Scope, tmp_path: Path) -> None:
    for name, content in (("a", b"shared"), ("b", b"shared"), ("a", b"only in a"), ("c", b"kept")):
        run(files.put(scope, name, content))
    assert run(files.sweep()) == Swept(0, 0)
    run(files.delete(scope, "a"))
    (tmp_path / "store" / "arriving" / "tmporphan").write_bytes(b"half")
    assert run(files.sweep()) == Swept(1, len(b"only in a"))
    assert run(read(files, scope, "b")) == b"shared"
    assert files_below(tmp_path / "store").count("blobs") == 2
    assert list((tmp_path / "store" / "arriving").iterdir()) == []


def test_a_damaged_log_keeps_a_sweep_from_removing_anything(
    files: FileArtifactStore, scope: Scope, tmp_path: Path
) -> None:
    for content in (b"1", b"2"):
        run(files.put(scope, "a", content))
    (log,) = (tmp_path / "store" / "logs").glob("*/*")
    log.write_bytes(b"x" + log.read_bytes()[1:])
    with pytest.raises(SkillError, match="is damaged"):
        run(files.sweep())
    assert files_below(tmp_path / "store").count("blobs") == 2


def test_sweeping_beside_writers_never_takes_what_was_acknowledged(tmp_path: Path, scope: Scope) -> None:
    stop = threading.Event()

    def sweep() -> int:
        store, removed = FileArtifactStore(tmp_path), 0
        while not stop.is_set():
            removed += run(store.sweep()).blobs
        return removed

    def write(name: str) -> None:
        store = FileArtifactStore(tmp_path)
        for number in range(40):
            # The same few contents in all threads, so that one often finds what another has just let go.
            content = b"%d" % (number % 3)
            version = run(store.put(scope, name, content)).version
            assert run(read(store, scope, name, version)) == content
            run(store.delete(scope, name))

    with ThreadPoolExecutor(4) as threads:
        sweeping = threads.submit(sweep)
        writing = [threads.submit(write, name) for name in ("a", "b")]
        wait(writing)
        stop.set()
    assert [one.exception() for one in writing] == [None, None]
    assert sweeping.result() > 0


def test_nothing_is_recorded_while_a_sweep_removes(files: FileArtifactStore, scope: Scope, tmp_path: Path) -> None:
    async def put_beside_a_sweep() -> tuple[bool, int]:
        with locked(tmp_path / "store" / "locks" / "sweep"):
            waiting = asyncio.ensure_future(files.put(scope, "new", b"x"))
            await asyncio.sleep(0.05)
            done = waiting.done()
        return done, (await waiting).version

    run(files.list(scope))
    assert run(put_beside_a_sweep()) == (False, 0)


def test_a_sweep_removes_nothing_while_something_is_recorded(
    files: FileArtifactStore, scope: Scope, tmp_path: Path
) -> None:
    async def sweep_beside_a_put() -> tuple[bool, Swept]:
        with locked(tmp_path / "store" / "locks" / "sweep", shared=True):
            waiting = asyncio.ensure_future(files.sweep())
            await asyncio.sleep(0.05)
            done = waiting.done()
        return done, await waiting

    run(files.put(scope, "a", b"x"))
    run(files.delete(scope, "a"))
    assert run(sweep_beside_a_put()) == (False, Swept(1, 1))


def test_a_reader_that_comes_too_late_is_told_that_it_is_gone(files: FileArtifactStore, scope: Scope) -> None:
    run(files.put(scope, "a", b"x"))
    run(files.delete(scope, "a"))
    run(files.sweep())
    with pytest.raises(InvalidArgument, match="there is no artifact named 'a'"):
        run(read(files, scope, "a", 0))


def test_64_mb_go_through_in_little_memory(tmp_path: Path) -> None:
    program = """
import hashlib, sys, tracemalloc
from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.store import Scope
from openskills.sync import run

scope = Scope("a", "u", "s")
store = FileArtifactStore(sys.argv[1])

async def content():
    for number in range(1024):
        yield number.to_bytes(4, "big") * 16384

async def there_and_back():
    tracemalloc.start()
    made = await store.put(scope, "large", content())
    digest = hashlib.sha256()
    async with store.open(scope, "large") as reading:
        async for chunk in reading.chunks:
            digest.update(chunk)
    assert digest.hexdigest() == made.sha256
    return made.size, tracemalloc.get_traced_memory()[1]

print(*run(there_and_back()))
"""
    size, most = map(int, python(program, tmp_path / "store").split())
    assert size == 64 * 1024 * 1024
    # Two pieces of 1 MiB and what is needed to gather one.
    assert most < 6 * 1024 * 1024


def test_a_disk_that_takes_no_more_is_reported_and_what_was_there_stays(tmp_path: Path, scope: Scope) -> None:
    # A limit on the size of files stands for a full disk: writes come back short, then fail. It hits content first,
    # and then, with small content and many versions, the log in the middle of a record.
    program = """
import resource, sys
from pathlib import Path
from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.store import Scope
from openskills.errors import SkillError
from openskills.sync import run

scope, store = Scope("a", "u", "s"), FileArtifactStore(sys.argv[1])
run(store.put(scope, "a", b"first"))
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
try:
    run(store.put(scope, "a", b"x" * 5000))
except SkillError as error:
    print("content:", error)
for number in range(100):
    try:
        run(store.put(scope, "a", b"%d" % number))
    except SkillError as error:
        print("log:", error)
        break
print(len(run(store.versions(scope, "a"))), number + 1)
(log,) = Path(sys.argv[1]).glob("logs/*/*")
assert log.read_bytes().endswith(b"\\n"), "half a record was left behind"
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
print(run(store.put(scope, "a", b"x" * 5000)).version, number + 1)
"""
    content, log, during, after = python(program, tmp_path / "store").splitlines()
    assert content == f"content: the artifact store {tmp_path / 'store'} cannot be used: File too large"
    assert log == f"log: the artifact store {tmp_path / 'store'} cannot be used: File too large"
    assert len(set(during.split())) == 1
    assert len(set(after.split())) == 1
    store = FileArtifactStore(tmp_path / "store")
    assert run(read(store, Scope("a", "u", "s"), "a", 0)) == b"first"


def test_a_place_that_may_not_be_used_is_named(tmp_path: Path) -> None:
    program = """
import os, sys
from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.store import Scope
from openskills.errors import SkillError
from openskills.sync import run

run(FileArtifactStore(sys.argv[1] + "/ours").list(Scope("a", "u", "s")))
os.chmod(sys.argv[1], 0o500)
if os.geteuid() == 0:
    os.setuid(65534)
try:
    run(FileArtifactStore(sys.argv[1] + "/theirs").list(Scope("a", "u", "s")))
except SkillError as error:
    print(error)
"""
    (tmp_path / "place").mkdir()
    try:
        said = python(program, tmp_path / "place")
    finally:
        (tmp_path / "place").chmod(0o700)
    assert f"{tmp_path / 'place' / 'theirs'} may not be used by this user: Permission denied (" in said
    assert said.endswith("; check its owner and mode\n")


def test_a_file_in_the_place_of_the_directory_is_named(tmp_path: Path, scope: Scope) -> None:
    (tmp_path / "store").write_text("not a directory")
    with pytest.raises(SkillError, match=f"the artifact store {tmp_path}/store cannot be used: File exists"):
        run(FileArtifactStore(tmp_path / "store").put(scope, "a", b"x"))
