"""Inputs in a workspace, from the four places that they can come from."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.artifacts.store import Scope
from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.staging.input_staging import StagedInput, stage_inputs
from openskills.executors.staging.inputs import InputSpec, Mode
from openskills.sync import run
from tests.executors.skill_folder import skill_folder
from tests.executors.tree_workspace import TreeWorkspace

SCOPE = Scope("app", "user", "session")


@pytest.fixture
def workspace(tmp_path: Path) -> Generator[TreeWorkspace]:
    workspace = TreeWorkspace(tmp_path / "workspace")
    yield workspace
    run(workspace.close())


@pytest.fixture
def store() -> MemoryArtifactStore:
    return MemoryArtifactStore()


def staged(workspace: TreeWorkspace, *specs: InputSpec, roots: tuple[Path, ...] = ()) -> list[StagedInput]:
    return run(stage_inputs(workspace, specs, host_roots=roots))


def everything(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())


def test_an_artifact_is_streamed_into_the_workspace(workspace: TreeWorkspace, store: MemoryArtifactStore) -> None:
    data = os.urandom(3_000_000)
    run(store.put(SCOPE, "data/a.bin", b"old"))
    run(store.put(SCOPE, "data/a.bin", data))
    specs = [InputSpec("artifact://data/a.bin"), InputSpec("artifact://data/a.bin@0", "out/old", Mode.LINK)]
    latest, first = run(stage_inputs(workspace, specs, scope=SCOPE, artifacts=store))
    assert (latest.source, latest.to, latest.size) == ("artifact://data/a.bin@1", "work/inputs/a.bin", 3_000_000)
    assert (workspace.tree / "work/inputs/a.bin").read_bytes() == data
    assert (workspace.tree / "out/old").read_bytes() == b"old"
    assert first.mode is Mode.COPY
    assert "copied, not linked" in first.warnings[0]


def test_a_pinned_artifact_keeps_to_its_first_version(workspace: TreeWorkspace, store: MemoryArtifactStore) -> None:
    pins: dict[str, int] = {}
    run(store.put(SCOPE, "a", b"0"))
    pinned = InputSpec("artifact://a", pin=True)

    def again(spec: InputSpec) -> bytes:
        (one,) = run(stage_inputs(workspace, [spec], scope=SCOPE, artifacts=store, pins=pins))
        return (workspace.tree / one.to).read_bytes()

    assert again(pinned) == b"0"
    run(store.put(SCOPE, "a", b"1"))
    assert again(pinned) == b"0"
    assert again(InputSpec("artifact://a")) == b"1"
    assert again(InputSpec("artifact://a", "out/elsewhere", pin=True)) == b"1"
    assert again(InputSpec("artifact://a@1", pin=True)) == b"1"
    assert pins == {"a -> work/inputs/a": 1, "a -> out/elsewhere": 1}


def test_without_a_store_there_are_no_artifacts(workspace: TreeWorkspace) -> None:
    with pytest.raises(InvalidArgument, match="artifact store"):
        staged(workspace, InputSpec("artifact://a"))


def test_an_artifact_that_is_not_there_leaves_nothing(workspace: TreeWorkspace, store: MemoryArtifactStore) -> None:
    with pytest.raises(InvalidArgument, match="no artifact named"):
        run(stage_inputs(workspace, [InputSpec("artifact://a")], scope=SCOPE, artifacts=store))
    assert everything(workspace.tree) == []


def test_a_file_and_a_directory_of_this_machine_are_copied(workspace: TreeWorkspace, tmp_path: Path) -> None:
    (tmp_path / "data/deep/empty").mkdir(parents=True)
    (tmp_path / "data/a").write_bytes(b"\xff\0")
    (tmp_path / "data/deep/tool").touch(mode=0o755)
    (tmp_path / "data/leaves").symlink_to("/etc/passwd")
    one, many = staged(
        workspace,
        InputSpec(f"host://{tmp_path}/data/a", mode=Mode.LINK),
        InputSpec(f"host://{tmp_path}/data", "work/all"),
        roots=(tmp_path,),
    )
    assert everything(workspace.tree) == ["work/all/a", "work/all/deep/tool", "work/inputs/a"]
    assert (workspace.tree / "work/inputs/a").read_bytes() == b"\xff\0"
    assert not (workspace.tree / "work/inputs/a").is_symlink()
    assert os.access(workspace.tree / "work/all/deep/tool", os.X_OK)
    assert (one.mode, one.size) == (Mode.COPY, 2)
    assert "copied, not linked" in one.warnings[0]
    assert (many.files, many.warnings) == (2, ("leaves is a link; it is left out",))


@pytest.mark.parametrize("shared", [True, False])
def test_a_file_that_is_not_shared_is_forbidden_before_anything_is_written(
    workspace: TreeWorkspace, tmp_path: Path, shared: bool
) -> None:
    (tmp_path / "roots").mkdir()
    (tmp_path / "roots/fine").touch()
    (tmp_path / "secret").touch()
    specs = [InputSpec(f"host://{tmp_path}/roots/fine"), InputSpec(f"host://{tmp_path}/secret")]
    with pytest.raises(ForbiddenPath, match="host_roots"):
        staged(workspace, *specs, roots=(tmp_path / "roots",) if shared else ())
    assert everything(workspace.tree) == []


def test_a_bad_destination_is_found_before_anything_is_written(workspace: TreeWorkspace, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    specs = [InputSpec(f"host://{tmp_path}/a"), InputSpec(f"host://{tmp_path}/a", "skills/pdf/SKILL.md")]
    with pytest.raises(ForbiddenPath, match="read-only"):
        staged(workspace, *specs, roots=(tmp_path,))
    assert everything(workspace.tree) == []


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("artifact://none", "no artifact named"),
        ("artifact://there@7", "version"),
        ("host://{}/none", "none"),
        ("workspace://out/none", "neither a file nor a directory"),
        ("skill://none/x", "load it first"),
    ],
)
def test_a_source_that_is_not_there_is_found_before_anything_is_written(
    workspace: TreeWorkspace, store: MemoryArtifactStore, tmp_path: Path, missing: str, said: str
) -> None:
    (tmp_path / "a").touch()
    run(store.put(SCOPE, "there", b"1"))
    pins: dict[str, int] = {}
    specs = [
        InputSpec("artifact://there", pin=True),
        InputSpec(f"host://{tmp_path}/a"),
        InputSpec(missing.format(tmp_path), "work/missing"),
    ]
    with pytest.raises(InvalidArgument, match=said):
        run(stage_inputs(workspace, specs, scope=SCOPE, artifacts=store, host_roots=(tmp_path,), pins=pins))
    assert everything(workspace.tree) == []
    assert pins == {}


def test_an_input_may_come_from_what_an_earlier_one_brings(workspace: TreeWorkspace, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a").write_bytes(b"1")
    staged(
        workspace,
        InputSpec(f"host://{tmp_path}/d", "work/d"),
        InputSpec("workspace://work/d/a", "out/one"),
        InputSpec("workspace://work", "out/all"),
        InputSpec("workspace://work/d", "work/link", Mode.LINK),
        InputSpec("workspace://work/link/a", "out/two"),
        roots=(tmp_path,),
    )
    assert (workspace.tree / "out/one").read_bytes() == (workspace.tree / "out/two").read_bytes() == b"1"
    assert (workspace.tree / "out/all/d/a").exists()


def test_files_of_the_workspace_are_copied_or_linked(workspace: TreeWorkspace) -> None:
    run(workspace.write("out/d/a", b"1"))
    run(workspace.write("out/d/[b]*", b"2"))
    copy, link, whole = staged(
        workspace,
        InputSpec("workspace://out/d/[b]*", "inputs/b"),
        InputSpec("workspace://out/d", "inputs/link", Mode.LINK),
        InputSpec("workspace://out/d", "work/copy"),
    )
    assert (copy.files, link.files, whole.files) == (1, 2, 2)
    assert (workspace.tree / "work/inputs/b").read_bytes() == b"2"
    assert os.readlink(workspace.tree / "work/inputs/link") == "../../out/d"
    assert (workspace.tree / "work/copy/a").read_bytes() == b"1"
    (again,) = staged(workspace, InputSpec("workspace://work/inputs/link/a", "work/again"))
    assert again.size == 1


def test_a_directory_can_be_copied_into_itself(workspace: TreeWorkspace) -> None:
    run(workspace.write("work/a", b"1"))
    staged(workspace, InputSpec("workspace://work", "work/copy"))
    assert everything(workspace.tree) == ["work/a", "work/copy/a"]


def test_files_of_a_staged_skill_are_copied_or_linked(workspace: TreeWorkspace, tmp_path: Path) -> None:
    run(workspace.stage(workspace.store.take("pdf", skill_folder(tmp_path))))
    (workspace.tree / "skills/pdf/.venv/installed").touch()
    script, link, whole = staged(
        workspace,
        InputSpec("skill://pdf/scripts/1.py"),
        InputSpec("skill://pdf/SKILL.md", "work/link", Mode.LINK),
        InputSpec("skill://pdf", "work/whole"),
    )
    assert (workspace.tree / script.to).read_text() == "print(1)\n"
    assert os.readlink(workspace.tree / link.to) == "../skills/pdf/SKILL.md"
    assert whole.files == 4
    assert (workspace.tree / "work/whole/scripts/1.py").exists()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("skill://none/x", "'none' is not in the workspace; load it first"),
        ("workspace://out/none", "neither a file nor a directory"),
        ("workspace://out", "neither a file nor a directory"),
    ],
)
def test_what_is_not_there_is_said(workspace: TreeWorkspace, source: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        staged(workspace, InputSpec(source))
    with pytest.raises(InvalidArgument, match=said):
        staged(workspace, InputSpec(source, "work/link", Mode.LINK))


def test_a_link_that_leaves_is_no_source(workspace: TreeWorkspace, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (workspace.tree / "out/leaves").symlink_to(tmp_path / "secret")
    with pytest.raises(ForbiddenPath):
        staged(workspace, InputSpec("workspace://out/leaves"))


def test_a_link_to_itself_is_refused(workspace: TreeWorkspace) -> None:
    run(workspace.write("work/a", b"1"))
    with pytest.raises(InvalidArgument, match="itself"):
        staged(workspace, InputSpec("workspace://work/a", "work/a", Mode.LINK))
    assert (workspace.tree / "work/a").read_bytes() == b"1"


def test_no_descriptor_stays_open_when_the_place_cannot_be_written(workspace: TreeWorkspace, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (workspace.tree / "work/d").symlink_to("/etc")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ForbiddenPath):
        staged(workspace, InputSpec(f"host://{tmp_path}/a", "work/d/x"), roots=(tmp_path,))
    assert len(os.listdir("/proc/self/fd")) == before
