import os
from collections.abc import Generator
from pathlib import Path, PurePosixPath

import pytest

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.artifacts.ref import Ref
from openskills.artifacts.store import Scope
from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.staging.input_sources import Sources, names_below, pin_of
from openskills.executors.staging.inputs import Artifact, HostPath, InputSpec, Planned, Source, WorkspacePath
from openskills.sync import run
from tests.executors.tree_workspace import TreeWorkspace

SCOPE = Scope("app", "user", "session")


@pytest.fixture
def workspace(tmp_path: Path) -> Generator[TreeWorkspace]:
    workspace = TreeWorkspace(tmp_path / "workspace")
    yield workspace
    run(workspace.close())


def planned(source: Source, to: str, *, pin: bool = False) -> Planned:
    return Planned(InputSpec("from somewhere", to, pin=pin), source, to)


def test_looking_at_sources_leaves_nothing_open(workspace: TreeWorkspace, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a").touch()
    run(workspace.write("out/a", b""))
    store = MemoryArtifactStore()
    run(store.put(SCOPE, "a", b"1"))
    sources = Sources(workspace, (store, SCOPE), [tmp_path], {})
    wanted = [
        planned(Artifact(Ref("a", None)), "work/1"),
        planned(HostPath(PurePosixPath(tmp_path / "data")), "work/2"),
        planned(WorkspacePath("out"), "work/3"),
    ]
    before = os.listdir("/proc/self/fd")
    run(sources.check(wanted))
    assert os.listdir("/proc/self/fd") == before


def test_what_is_not_shared_is_refused_even_when_it_is_the_only_one(workspace: TreeWorkspace, tmp_path: Path) -> None:
    with pytest.raises(ForbiddenPath, match="host_roots"):
        run(Sources(workspace, None, [], {}).check([planned(HostPath(PurePosixPath(tmp_path)), "work/x")]))


def test_an_input_keeps_to_the_version_that_is_written_down_for_its_place(workspace: TreeWorkspace) -> None:
    store = MemoryArtifactStore()
    for data in (b"0", b"1"):
        run(store.put(SCOPE, "a", data))
    source = Artifact(Ref("a", None))
    pinned = planned(source, "work/a", pin=True)
    assert pin_of(pinned, source) == "a -> work/a"

    async def version(one: Planned) -> int:
        sources = Sources(workspace, (store, SCOPE), [], {"a -> work/a": 0})
        async with sources.artifact(one, source) as reading:
            return reading.artifact.version

    assert run(version(pinned)) == 0
    assert run(version(planned(source, "work/a"))) == 1
    assert run(version(planned(source, "work/b", pin=True))) == 1


def test_the_names_below_a_path_are_those_of_its_files(workspace: TreeWorkspace) -> None:
    run(workspace.write("out/d/a", b""))
    run(workspace.write("out/d/e/b", b""))
    assert sorted(run(names_below(workspace, WorkspacePath("out/d")))) == ["a", "e/b"]
    assert run(names_below(workspace, WorkspacePath("out/d/a"))) == [""]
    with pytest.raises(InvalidArgument, match="neither a file nor a directory"):
        run(names_below(workspace, WorkspacePath("out/none")))
