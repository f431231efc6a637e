"""Whatever is put, read and deleted in whatever order, both stores agree with a plain dictionary."""

import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.memory import MemoryArtifactStore
from openskills.artifacts.store import ArtifactStore, Scope, read_artifact
from openskills.errors import InvalidArgument
from openskills.sync import run
from tests.long_form import examples


@dataclass
class Shelf:
    """The model of one name: what can be read, and the next number."""

    kept: dict[int, bytes] = field(default_factory=dict[int, bytes])
    following: int = 0


Key = tuple[str, ...]
Step = tuple[str, Scope, str, bytes, int | None]
Model = defaultdict[Key, Shelf]

scopes = st.sampled_from([Scope("a", "u", "s"), Scope("a", "u", "t"), Scope("a", "v", "s")])
names = st.sampled_from(["a", "a/b", "user:a"])
verbs = st.sampled_from(["put", "put", "put", "read", "versions", "list", "delete", "sweep"])
steps = st.lists(st.tuples(verbs, scopes, names, st.binary(max_size=6), st.none() | st.integers(0, 4)), max_size=14)


def key(scope: Scope, name: str) -> Key:
    """Written out again, so that the model does not lean on what it checks."""
    return (scope.app, scope.user, name) if name.startswith("user:") else (scope.app, scope.user, scope.session, name)


async def follow(store: ArtifactStore, model: Model, step: Step) -> None:
    """Do one step in the store and in the model, and compare the answers."""
    verb, scope, name, data, version = step
    shelf = model[key(scope, name)]
    if verb == "put":
        assert (await store.put(scope, name, data)).version == shelf.following
        shelf.kept[shelf.following] = data
        shelf.following += 1
    elif verb == "read":
        wanted = max(shelf.kept, default=None) if version is None else version
        assert await found(store, scope, name, version) == (None if wanted is None else shelf.kept.get(wanted))
    elif verb == "versions":
        assert [artifact.version for artifact in await store.versions(scope, name)] == list(shelf.kept)
    elif verb == "delete":
        assert await store.delete(scope, name) == bool(shelf.kept)
        shelf.kept.clear()
    elif verb == "sweep" and isinstance(store, FileArtifactStore):
        await store.sweep()
    elif verb == "list":
        await compare(store, model, scope)


async def found(store: ArtifactStore, scope: Scope, name: str, version: int | None) -> bytes | None:
    try:
        return await read_artifact(store, scope, name, version)
    except InvalidArgument:
        return None


async def compare(store: ArtifactStore, model: Model, scope: Scope) -> None:
    """What the scope lists."""
    listed = [(artifact.name, artifact.version, artifact.size) for artifact in await store.list(scope)]
    shelves = {name: model[key(scope, name)] for name in ("a", "a/b", "user:a")}
    assert listed == [
        (name, max(shelf.kept), len(shelf.kept[max(shelf.kept)])) for name, shelf in shelves.items() if shelf.kept
    ]


async def play(store: ArtifactStore, todo: list[Step]) -> None:
    model: Model = defaultdict(Shelf)
    for step in todo:
        await follow(store, model, step)
    for scope in (Scope("a", "u", "s"), Scope("a", "u", "t"), Scope("a", "v", "s")):
        await compare(store, model, scope)
        for name in ("a", "a/b", "user:a"):
            for version, data in model[key(scope, name)].kept.items():
                assert await read_artifact(store, scope, name, version) == data


@given(steps)
def test_the_store_in_memory_agrees_with_a_dictionary(todo: list[Step]) -> None:
    run(play(MemoryArtifactStore(), todo))


@given(steps)
@settings(max_examples=examples(40))
def test_the_store_on_disk_agrees_with_a_dictionary(todo: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        run(play(FileArtifactStore(Path(directory) / "store"), todo))
