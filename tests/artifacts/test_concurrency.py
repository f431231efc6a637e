"""Threads and processes that put under one name at once get consecutive versions, each with its own bytes."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.store import Scope, read_artifact
from openskills.sync import run

THREADS, PROCESSES, PUTS = 8, 4, 8
SCOPE = Scope("app", "user", "session")

WRITER = f"""
import sys
from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.store import Scope
from openskills.sync import run

store = FileArtifactStore(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for turn in range({PUTS}):
    content = f"process {{sys.argv[2]}} turn {{turn}}"
    print(run(store.put(Scope("app", "user", "session"), "raced", content.encode())).version, content, flush=True)
"""


def put_in_a_thread(store: FileArtifactStore, number: int) -> list[tuple[int, str]]:
    contents = [f"thread {number} turn {turn}" for turn in range(PUTS)]
    return [(run(store.put(SCOPE, "raced", content.encode())).version, content) for content in contents]


def acknowledged(process: "subprocess.Popen[str]") -> list[tuple[int, str]]:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return [(int(line.partition(" ")[0]), line.partition(" ")[2]) for line in out.splitlines()]


async def test_eight_threads_and_four_processes_get_consecutive_versions(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, tmp_path, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    shared = FileArtifactStore(tmp_path)
    with ThreadPoolExecutor(THREADS) as threads:
        for process in processes:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        # Half of the threads share one store, the others have their own.
        stores = [shared if number % 2 else FileArtifactStore(tmp_path) for number in range(THREADS)]
        waiting = [threads.submit(put_in_a_thread, store, number) for number, store in enumerate(stores)]
    made = [one for done in waiting for one in done.result()]
    made += [one for process in processes for one in acknowledged(process)]
    assert sorted(version for version, _ in made) == list(range((THREADS + PROCESSES) * PUTS))
    assert len(await shared.versions(SCOPE, "raced")) == len(made)
    for version, content in made:
        assert await read_artifact(shared, SCOPE, "raced", version) == content.encode()


def test_readers_beside_a_writer_see_whole_versions_in_order(tmp_path: Path) -> None:
    store = FileArtifactStore(tmp_path)
    run(store.put(SCOPE, "a", b"0" * 5000))

    def look() -> list[int]:
        seen: list[int] = []
        while not seen or seen[-1] < 30:
            versions = run(store.versions(SCOPE, "a"))
            assert [artifact.version for artifact in versions] == list(range(len(versions)))
            latest = versions[-1].version
            assert run(read_artifact(store, SCOPE, "a", latest)) == b"%d" % (latest % 10) * 5000
            seen.append(latest)
        return seen

    with ThreadPoolExecutor(2) as threads:
        looking = [threads.submit(look) for _ in range(2)]
        for number in range(1, 31):
            run(store.put(SCOPE, "a", b"%d" % (number % 10) * 5000))
    for one in looking:
        assert one.result() == sorted(one.result())
