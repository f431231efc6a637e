"""The store in memory keeps what every store promises, and bounds one artifact."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.artifacts.store import Scope, read_artifact
from openskills.errors import LimitExceeded
from openskills.sync import run
from openskills.testing.stores import check_artifact_store


async def test_it_keeps_every_promise_of_a_store() -> None:
    await check_artifact_store(MemoryArtifactStore)


async def test_one_store_that_everybody_shares_keeps_them_too() -> None:
    shared = MemoryArtifactStore()
    await check_artifact_store(lambda: shared)


async def test_an_artifact_beyond_the_limit_is_refused_and_leaves_nothing(scope: Scope) -> None:
    store = MemoryArtifactStore(max_bytes=4)
    with pytest.raises(LimitExceeded, match="the maximum is 4 per artifact"):
        await store.put(scope, "a", b"12345")
    assert await store.list(scope) == ()
    assert (await store.put(scope, "a", b"1234")).version == 0


async def test_threads_with_loops_of_their_own_get_consecutive_versions(scope: Scope) -> None:
    store = MemoryArtifactStore()
    contents = [b"%d" % number for number in range(64)]
    with ThreadPoolExecutor(8) as threads:
        waiting = [threads.submit(run, store.put(scope, "a", content)) for content in contents]
        made = [one.result() for one in waiting]
    assert sorted(artifact.version for artifact in made) == list(range(64))
    assert [await read_artifact(store, scope, "a", artifact.version) for artifact in made] == contents
