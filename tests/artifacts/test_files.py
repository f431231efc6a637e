"""The store on disk keeps what every store promises, and what only a disk can promise.

Content is kept once, under its digest, and checked when it is read.

Versions are consecutive, survive a line that was cut short, and are forgotten in one step.

Logs are read back as they were written; what a crash cut short is not there, other damage is noticed.
"""

import asyncio
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.artifacts.files import (
    FORMAT,
    MAX_LINE,
    BlobStore,
    CorruptLog,
    FileArtifactStore,
    SweepResult,
    VersionLogEntry,
    VersionLogs,
    format_mark,
    format_record,
    parse_tail,
    parse_versions,
)
from openskills.artifacts.store import MAX_ID, MAX_NAME, Artifact, Scope, read_artifact
from openskills.errors import InvalidArgument, LimitExceeded, SkillError
from openskills.filesystem import lock_file, make_private
from openskills.sync import run
from openskills.testing.checks import PNG
from openskills.testing.stores import check_artifact_store
from tests.artifacts.test_store import NOW


def python(program: str, *args: object) -> str:
    """What a program prints; it must end well and in silence."""
    command = [sys.executable, "-W", "error", "-c", program, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def files_below(root: Path) -> list[str]:
    return sorted(path.relative_to(root).parts[0] for path in root.rglob("*") if path.is_file())


async def test_it_keeps_every_promise_of_a_store(tmp_path: Path) -> None:
    number = count()
    await check_artifact_store(lambda: FileArtifactStore(tmp_path / str(next(number))))


async def test_one_directory_that_everybody_shares_keeps_them_too(tmp_path: Path) -> None:
    await check_artifact_store(lambda: FileArtifactStore(tmp_path / "shared"))


async def test_making_a_store_touches_nothing_and_the_first_use_makes_the_directory(
    tmp_path: Path, scope: Scope
) -> None:
    store = FileArtifactStore(str(tmp_path / "deep" / "store"))
    assert list(tmp_path.iterdir()) == []
    assert await store.list(scope) == ()
    assert (tmp_path / "deep" / "store" / "format").read_bytes() == FORMAT


async def test_another_store_in_the_same_place_finds_everything(tmp_path: Path, scope: Scope) -> None:
    first = FileArtifactStore(tmp_path)
    made = [await first.put(scope, name, PNG, mime_type="image/png") for name in ("a", "user:b")]
    second = FileArtifactStore(tmp_path)
    assert list(await second.list(scope)) == made
    assert await read_artifact(second, scope, "user:b") == PNG


async def test_everything_is_for_the_owner_only(files: FileArtifactStore, scope: Scope, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        await files.put(scope, "a", b"x")
        await files.delete(scope, "a")
        await files.put(scope, "b", b"x")
    finally:
        os.umask(before)
    paths = [tmp_path / "store", *(tmp_path / "store").rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_file()} == {0o600}


async def test_no_name_is_a_path(files: FileArtifactStore, scope: Scope, tmp_path: Path) -> None:
    for name in ("con", "-rf", "a/b/c", "x" * 255, "%2e%2e%2fx", "..a", "user:图", "C:\\x", "~", "$HOME"):
        await files.put(scope, name, name.encode())
        assert await read_artifact(files, scope, name) == name.encode()
    words = {path.name for path in (tmp_path / "store").rglob("*")} - {"arriving", "blobs", "format", "locks", "logs"}
    assert all(set(word) <= set("0123456789abcdef") for word in words - {"sweep"})
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


async def test_the_same_content_takes_its_place_once(files: FileArtifactStore, scope: Scope, tmp_path: Path) -> None:
    for name in ("a", "b", "user:c"):
        await files.put(scope, name, b"same")
    assert files_below(tmp_path / "store").count("blobs") == 1


async def test_more_than_the_limit_is_refused_and_nothing_is_left_of_it(tmp_path: Path, scope: Scope) -> None:
    store = FileArtifactStore(tmp_path / "store", max_bytes=3_000_000)
    asked: list[int] = []

    async def endless() -> AsyncGenerator[bytes]:
        for number in count():
            asked.append(number)
            yield b"x" * 1_000_000

    with pytest.raises(LimitExceeded, match="the maximum is 3,000,000 per artifact"):
        await store.put(scope, "a", endless())
    assert len(asked) == 4
    assert files_below(tmp_path / "store") == ["format"]
    assert (await store.put(scope, "a", b"x" * 3_000_000)).version == 0


async def test_a_put_that_is_cancelled_while_it_writes_leaves_nothing(
    files: FileArtifactStore, scope: Scope, tmp_path: Path
) -> None:
    async def cancel_at(moment: int) -> bool:
        task = asyncio.ensure_future(files.put(scope, "a", b"x" * 100_000))
        for _ in range(moment):
            await asyncio.sleep(0.0005)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    outcomes = [await cancel_at(moment) for moment in range(25)]
    assert any(outcomes)
    assert list((tmp_path / "store" / "arriving").iterdir()) == []
    versions = [artifact.version for artifact in await files.versions(scope, "a")]
    assert versions == list(range(len(versions)))
    assert len(versions) >= outcomes.count(False)


async def test_a_reading_that_is_left_early_closes_its_file(files: FileArtifactStore, scope: Scope) -> None:
    await files.put(scope, "a", b"abc" * 1_000_000)
    async with files.open(scope, "a") as reading:
        first = await anext(reading.chunks)
        during = len(os.listdir("/dev/fd"))
    assert (first[:3], during - len(os.listdir("/dev/fd"))) == (b"abc", 1)


async def test_content_that_somebody_changed_is_an_error_and_not_a_result(
    files: FileArtifactStore, scope: Scope, tmp_path: Path
) -> None:
    artifact = await files.put(scope, "a", b"hello")
    blob = tmp_path / "store" / "blobs" / artifact.sha256
    blob.write_bytes(b"hellO")
    with pytest.raises(SkillError, match="artifact://a@0 is damaged"):
        await read_artifact(files, scope, "a")
    blob.unlink()
    with pytest.raises(SkillError, match=f"artifact://a@0 is damaged: {blob} is missing or was changed; restore it"):
        await read_artifact(files, scope, "a")


async def test_what_a_killed_process_left_on_the_way_is_gone_after_a_start(tmp_path: Path, scope: Scope) -> None:
    await FileArtifactStore(tmp_path).put(scope, "a", b"x")
    (tmp_path / "arriving" / "tmporphan").write_bytes(b"half")
    store = FileArtifactStore(tmp_path)
    assert len(await store.list(scope)) == 1
    assert list((tmp_path / "arriving").iterdir()) == []


async def test_a_start_does_not_disturb_what_arrives_elsewhere(tmp_path: Path, scope: Scope) -> None:
    async def with_a_start_in_the_middle() -> AsyncGenerator[bytes]:
        yield b"x" * 2_000_000
        await FileArtifactStore(tmp_path).list(scope)
        await FileArtifactStore(tmp_path).sweep()
        yield b"y"

    store = FileArtifactStore(tmp_path)
    await store.put(scope, "a", with_a_start_in_the_middle())
    assert await read_artifact(store, scope, "a") == b"x" * 2_000_000 + b"y"


async def test_a_directory_of_another_version_is_refused_and_left_alone(tmp_path: Path, scope: Scope) -> None:
    (tmp_path / "format").write_text("openskills artifacts 2\n")
    store = FileArtifactStore(tmp_path)
    for _ in range(2):
        with pytest.raises(SkillError, match=r"was written by another version of OpenSkill: .*; use another"):
            await store.put(scope, "a", b"x")
    assert (tmp_path / "format").read_text() == "openskills artifacts 2\n"
    assert files_below(tmp_path) == ["format"]


async def test_sweeping_removes_what_nothing_refers_to(files: FileArtifactStore, scope: Scope, tmp_path: Path) -> None:
    for name, content in (("a", b"shared"), ("b", b"shared"), ("a", b"only in a"), ("c", b"kept")):
        await files.put(scope, name, content)
    assert await files.sweep() == SweepResult(0, 0)
    await files.delete(scope, "a")
    (tmp_path / "store" / "arriving" / "tmporphan").write_bytes(b"half")
    assert await files.sweep() == SweepResult(1, len(b"only in a"))
    assert await read_artifact(files, scope, "b") == b"shared"
    assert files_below(tmp_path / "store").count("blobs") == 2
    assert list((tmp_path / "store" / "arriving").iterdir()) == []


async def test_a_damaged_log_keeps_a_sweep_from_removing_anything(
    files: FileArtifactStore, scope: Scope, tmp_path: Path
) -> None:
    for content in (b"1", b"2"):
        await files.put(scope, "a", content)
    (log,) = (tmp_path / "store" / "logs").glob("*/*")
    log.write_bytes(b"x" + log.read_bytes()[1:])
    with pytest.raises(SkillError, match="is damaged"):
        await files.sweep()
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
            assert run(read_artifact(store, scope, name, version)) == content
            run(store.delete(scope, name))

    with ThreadPoolExecutor(4) as threads:
        sweeping = threads.submit(sweep)
        writing = [threads.submit(write, name) for name in ("a", "b")]
        wait(writing)
        stop.set()
    assert [one.exception() for one in writing] == [None, None]
    assert sweeping.result() > 0


async def test_nothing_is_recorded_while_a_sweep_removes(
    files: FileArtifactStore, scope: Scope, tmp_path: Path
) -> None:
    await files.list(scope)
    with lock_file(tmp_path / "store" / "locks" / "sweep"):
        waiting = asyncio.ensure_future(files.put(scope, "new", b"x"))
        await asyncio.sleep(0.05)
        done = waiting.done()
    assert (done, (await waiting).version) == (False, 0)


async def test_a_sweep_removes_nothing_while_something_is_recorded(
    files: FileArtifactStore, scope: Scope, tmp_path: Path
) -> None:
    await files.put(scope, "a", b"x")
    await files.delete(scope, "a")
    with lock_file(tmp_path / "store" / "locks" / "sweep", shared=True):
        waiting = asyncio.ensure_future(files.sweep())
        await asyncio.sleep(0.05)
        done = waiting.done()
    assert (done, await waiting) == (False, SweepResult(1, 1))


async def test_a_reader_that_comes_too_late_is_told_that_it_is_gone(files: FileArtifactStore, scope: Scope) -> None:
    await files.put(scope, "a", b"x")
    await files.delete(scope, "a")
    await files.sweep()
    with pytest.raises(InvalidArgument, match="unknown artifact 'a'"):
        await read_artifact(files, scope, "a", 0)


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


async def test_a_disk_that_takes_no_more_is_reported_and_what_was_there_stays(tmp_path: Path, scope: Scope) -> None:
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
    assert await read_artifact(store, Scope("a", "u", "s"), "a", 0) == b"first"


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
    assert f"no permission to use the artifact store {tmp_path / 'place' / 'theirs'}: Permission denied (" in said
    assert said.endswith("; check its owner and mode\n")


async def test_a_file_in_the_place_of_the_directory_is_named(tmp_path: Path, scope: Scope) -> None:
    (tmp_path / "store").write_text("not a directory")
    with pytest.raises(SkillError, match=f"the artifact store {tmp_path}/store cannot be used: File exists"):
        await FileArtifactStore(tmp_path / "store").put(scope, "a", b"x")


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(make_private(tmp_path / "blobs", durable=True), make_private(tmp_path / "way", durable=True))


def keep(blobs: BlobStore, *pieces: bytes) -> Artifact:
    with blobs.create_writer() as arrival:
        for piece in pieces:
            arrival.write(piece)
        blobs.add(arrival)
        return Artifact("a", 0, arrival.size, "a/b", arrival.sha256, NOW)


def read_blobs(blobs: BlobStore, artifact: Artifact) -> bytes:
    with blobs.open_reader(artifact) as outgoing:
        return b"".join(iter(outgoing.read_piece, b""))


def test_content_is_named_by_its_digest_and_comes_back(blobs: BlobStore, tmp_path: Path) -> None:
    artifact = keep(blobs, b"hello ", b"world")
    assert artifact.sha256 == hashlib.sha256(b"hello world").hexdigest()
    assert read_blobs(blobs, artifact) == b"hello world"
    file = tmp_path / "blobs" / artifact.sha256
    assert file.stat().st_mode & 0o777 == 0o600
    assert list((tmp_path / "way").iterdir()) == []


def test_the_same_content_is_written_once(blobs: BlobStore, tmp_path: Path) -> None:
    first = keep(blobs, b"same")
    before = (tmp_path / "blobs" / first.sha256).stat()
    assert keep(blobs, b"sa", b"me").sha256 == first.sha256
    after = (tmp_path / "blobs" / first.sha256).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert blobs.list_digests() == {first.sha256}


def test_content_that_is_not_kept_is_gone(blobs: BlobStore, tmp_path: Path) -> None:
    with blobs.create_writer() as arrival:
        arrival.write(b"never mind")
    assert blobs.list_digests() == set()
    assert list((tmp_path / "way").iterdir()) == []


@pytest.mark.parametrize("now", [b"hellO", b"hell", b"hello!", b""], ids=["changed", "shorter", "longer", "empty"])
def test_content_that_was_changed_is_never_passed_off_as_whole(blobs: BlobStore, tmp_path: Path, now: bytes) -> None:
    artifact = keep(blobs, b"hello")
    (tmp_path / "blobs" / artifact.sha256).write_bytes(now)
    with pytest.raises(SkillError, match=r"artifact://a@0 is damaged: .* is missing or was changed; restore it"):
        read_blobs(blobs, artifact)


def test_removing_says_what_it_freed_and_who_reads_can_read_on(blobs: BlobStore) -> None:
    kept, gone = keep(blobs, b"kept"), keep(blobs, b"gone!")
    with blobs.open_reader(gone) as outgoing:
        assert blobs.remove({gone.sha256, "0" * 64}) == 5
        assert b"".join(iter(outgoing.read_piece, b"")) == b"gone!"
    assert blobs.list_digests() == {kept.sha256}
    with pytest.raises(FileNotFoundError):
        read_blobs(blobs, gone)


OWNER = ("app", "user", "session")


@pytest.fixture
def logs(tmp_path: Path) -> VersionLogs:
    return VersionLogs(
        make_private(tmp_path / "logs", durable=True),
        make_private(tmp_path / "locks", durable=True),
        make_private(tmp_path / "way", durable=True),
    )


def called(name: str, mime_type: str = "a/b") -> Callable[[int], Artifact]:
    return lambda number: Artifact(name, number, 0, mime_type, "0" * 64, NOW)


def the_log(tmp_path: Path) -> Path:
    (path,) = (tmp_path / "logs").glob("*/*")
    return path


def test_versions_are_numbered_from_0_and_remembered(logs: VersionLogs) -> None:
    made = [logs.add(OWNER, "a", called("a")) for _ in range(3)]
    assert [artifact.version for artifact in made] == [0, 1, 2]
    assert logs.versions(OWNER, "a") == tuple(made)
    assert logs.latest(OWNER, "a") == made[-1]


def test_nothing_is_known_about_what_was_never_there(logs: VersionLogs) -> None:
    assert logs.versions(OWNER, "a") == ()
    assert logs.latest(OWNER, "a") is None
    assert logs.list_latest(OWNER) == []
    assert not logs.remove(OWNER, "a")


def test_names_and_owners_never_become_paths(logs: VersionLogs, tmp_path: Path) -> None:
    for owner in (("..", ".."), ("/etc", "x", "y")):
        logs.add(owner, "../../escape", called("../../escape"))
    made = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert all(set(path.name) <= set("0123456789abcdef") for path in made)
    assert {path.parts[0] for path in made} == {"logs", "locks"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.rglob("*"))


def test_owners_whose_ids_join_to_the_same_text_are_apart(logs: VersionLogs) -> None:
    logs.add(("a", "b/c"), "d", called("d"))
    for owner, name in ((("a/b", "c"), "d"), (("a", "b", "c"), "d"), (("a",), "b/c/d")):
        assert logs.latest(owner, name) is None


def test_a_line_that_was_cut_short_is_replaced_by_the_next_one(logs: VersionLogs, tmp_path: Path) -> None:
    logs.add(OWNER, "a", called("a"))
    path = the_log(tmp_path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole + whole[:length])
        assert [artifact.version for artifact in logs.versions(OWNER, "a")] == [0]
        assert logs.add(OWNER, "a", called("a", "c/d")).version == 1
        assert [artifact.mime_type for artifact in logs.versions(OWNER, "a")] == ["a/b", "c/d"]


def test_nothing_is_left_of_what_was_cut_short(logs: VersionLogs, tmp_path: Path) -> None:
    made = logs.add(OWNER, "a", called("a"))
    path = the_log(tmp_path)
    path.write_bytes(path.read_bytes() + b"x" * 3000)
    added = logs.add(OWNER, "a", called("a"))
    assert path.read_bytes() == format_record(made, OWNER) + format_record(added, OWNER)


def test_a_log_whose_first_line_was_cut_short_begins_again(logs: VersionLogs, tmp_path: Path) -> None:
    logs.add(OWNER, "a", called("a"))
    path = the_log(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    assert logs.latest(OWNER, "a") is None
    assert logs.add(OWNER, "a", called("a")).version == 0


def test_forgetting_keeps_the_number_and_no_trace_of_the_name(logs: VersionLogs, tmp_path: Path) -> None:
    for _ in range(3):
        logs.add(OWNER, "secret-name", called("secret-name"))
    assert logs.remove(OWNER, "secret-name")
    assert not logs.remove(OWNER, "secret-name")
    assert b"secret" not in the_log(tmp_path).read_bytes()
    assert logs.versions(OWNER, "secret-name") == ()
    assert logs.add(OWNER, "secret-name", called("secret-name")).version == 3
    assert [artifact.version for artifact in logs.versions(OWNER, "secret-name")] == [3]


def test_a_log_that_could_only_be_marked_counts_as_forgotten(logs: VersionLogs, tmp_path: Path) -> None:
    logs.add(OWNER, "a", called("a"))
    with the_log(tmp_path).open("ab") as file:
        file.write(format_mark(1))
    assert (logs.versions(OWNER, "a"), logs.latest(OWNER, "a"), logs.remove(OWNER, "a")) == ((), None, False)
    assert logs.add(OWNER, "a", called("a")).version == 1
    assert [artifact.version for artifact in logs.versions(OWNER, "a")] == [1]
    assert logs.remove(OWNER, "a")
    assert the_log(tmp_path).read_bytes() == format_mark(2)


def test_everything_is_every_version_of_everybody(logs: VersionLogs) -> None:
    for owner in (OWNER, ("app", "user")):
        for name in ("a", "b", "b"):
            logs.add(owner, name, called(name))
    assert sorted((artifact.name, artifact.version) for artifact in logs.list_all()) == sorted(
        [("a", 0), ("b", 0), ("b", 1)] * 2
    )
    assert sorted((artifact.name, artifact.version) for artifact in logs.list_latest(OWNER)) == [("a", 0), ("b", 1)]


def test_threads_get_consecutive_versions(logs: VersionLogs) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = [threads.submit(logs.add, OWNER, "a", called("a")) for _ in range(40)]
    assert sorted(one.result().version for one in made) == list(range(40))


def test_damage_is_an_error_that_names_the_file(logs: VersionLogs, tmp_path: Path) -> None:
    for _ in range(2):
        logs.add(OWNER, "a", called("a"))
    path = the_log(tmp_path)
    path.write_bytes(b"x" + path.read_bytes()[1:])
    with pytest.raises(SkillError, match=f"the artifact store log {path} is damaged: .*; restore it"):
        logs.versions(OWNER, "a")


def test_a_log_that_ends_in_much_garbage_is_not_begun_again(logs: VersionLogs, tmp_path: Path) -> None:
    logs.add(OWNER, "a", called("a"))
    with the_log(tmp_path).open("ab") as file:
        file.write(b"\0" * 100_000)
    with pytest.raises(SkillError, match="damaged: no record in its last 65,536 bytes"):
        logs.add(OWNER, "a", called("a"))


def test_adding_to_a_long_log_reads_only_its_end(logs: VersionLogs, tmp_path: Path) -> None:
    logs.add(OWNER, "a", called("a", "a/" + "b" * 200))
    path = the_log(tmp_path)
    path.write_bytes(b"#" * 1_000_000 + b"\n" + path.read_bytes())
    assert logs.add(OWNER, "a", called("a")).version == 1


RECORDS_NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


def version(number: int, name: str = "out/a b.txt") -> Artifact:
    return Artifact(name, number, 3, "text/plain", f"{number:064x}", RECORDS_NOW)


def log_of(count: int, first: int = 0) -> bytes:
    mark = format_mark(first) if first else b""
    return mark + b"".join(format_record(version(number), OWNER) for number in range(first, first + count))


def test_versions_come_back_in_order() -> None:
    assert parse_versions(log_of(3)) == (version(0), version(1), version(2))
    assert parse_versions(b"") == ()


def test_after_a_mark_numbers_go_on() -> None:
    assert parse_versions(log_of(2, first=5)) == (version(5), version(6))
    assert parse_versions(format_mark(5)) == ()
    assert parse_tail(format_mark(5)) is not None


def test_a_mark_forgets_what_is_before_it() -> None:
    assert parse_versions(log_of(2) + format_mark(2)) == ()
    assert parse_versions(log_of(2) + format_mark(2) + format_record(version(2), OWNER)) == (version(2),)
    last = parse_tail(log_of(2) + format_mark(2))
    assert last
    assert last.entry == VersionLogEntry(2)


def test_the_end_of_a_log_says_the_next_number_and_where_whole_lines_end() -> None:
    log = log_of(2)
    for tail in (b"", b"\0\0\0", b"deadbeef {", b"12345678 {}\n", b"\n\n"):
        last = parse_tail(log + tail)
        assert last
        assert (last.entry, last.position) == (VersionLogEntry(2, version(1)), len(log))
    assert parse_tail(b"") is None
    assert parse_tail(b"half a line") is None
    assert parse_tail(b"not whole\n") is None


def test_the_end_can_be_read_from_the_last_bytes_only() -> None:
    log = log_of(5)
    line = format_record(version(4), OWNER)
    assert parse_tail(log[-len(line) :], offset=len(log) - len(line)) == parse_tail(log)
    assert parse_tail(log[-len(line) - 7 :], offset=len(log) - len(line) - 7) == parse_tail(log)
    assert parse_tail(log[-len(line) + 1 :], offset=len(log) - len(line) + 1) is None


def test_a_line_that_was_cut_short_anywhere_is_not_there() -> None:
    whole, line = log_of(2), format_record(version(2), OWNER)
    for length in range(len(line)):
        cut = whole + line[:length]
        assert len(parse_versions(cut)) == 2
        last = parse_tail(cut)
        assert last
        assert last.position == len(whole)


@pytest.mark.parametrize(
    "log",
    [
        log_of(1) + b"garbage\n" + format_record(version(1), OWNER),
        format_record(version(1), OWNER),
        log_of(2) + format_record(version(3), OWNER),
        log_of(2) + format_record(version(1), OWNER),
        log_of(2) + format_mark(1),
        log_of(2) + format_mark(3),
        b"00000000 \n",
    ],
    ids=["hole", "begins late", "gap", "twice", "mark too early", "mark too late", "no record"],
)
def test_damage_that_no_crash_leaves_is_noticed(log: bytes) -> None:
    with pytest.raises(CorruptLog, match=r"a record|invalid record"):
        parse_versions(log)


def test_a_changed_byte_in_an_older_record_is_noticed() -> None:
    log = bytearray(log_of(3))
    for place in range(0, len(log_of(1)) - 1, 7):
        damaged = bytes(log[:place]) + bytes([log[place] ^ 1]) + bytes(log[place + 1 :])
        with pytest.raises(CorruptLog):
            parse_versions(damaged)


def test_the_longest_names_and_ids_make_no_longer_lines_than_said() -> None:
    owner = ("\0" * MAX_ID,) * 3
    widest = Artifact("𝔸" * MAX_NAME, 10**17, 10**15, "a/" + '"' * 253, "f" * 64, RECORDS_NOW)
    assert len(format_record(widest, owner)) < MAX_LINE


names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)


@given(names, st.lists(st.sampled_from("abc"), max_size=5), st.binary(max_size=60))
def test_any_name_survives_and_no_tail_adds_a_version(name: str, owner: list[str], tail: bytes) -> None:
    log = format_record(version(0, name), tuple(owner)) + format_record(version(1, name), tuple(owner))
    expected = (version(0, name), version(1, name))
    assert parse_versions(log) == expected
    assert parse_versions(log + tail) == expected
