"""Inputs as a model writes them.

Inputs in a workspace, from the four places that they can come from.
"""

import os
from collections.abc import Generator, Mapping
from pathlib import Path, PurePosixPath

import pytest

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.artifacts.store import ArtifactRef, Scope
from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.staging.inputs import (
    InputMode,
    InputPlan,
    InputSource,
    InputSources,
    InputSpec,
    StagedInput,
    WorkspaceInput,
    build_pin_key,
    list_input_files,
    plan_inputs,
    stage_inputs,
)
from openskills.sync import run
from tests.executors.skill_folder import skill_folder
from tests.executors.tree_workspace import TreeWorkspace


def destination(source: str, to: str | None = None) -> str:
    (planned,) = plan_inputs([InputSpec(source, to)], run_dir="runs/r1")
    return planned.to


def test_keys_may_be_written_in_any_case() -> None:
    assert InputSpec.parse({"From": "artifact://a", "TO": "work/x", "Mode": "LINK", "pin": True}) == InputSpec(
        "artifact://a", "work/x", InputMode.LINK, pin=True
    )
    assert InputSpec.parse({"from": "artifact://a", "to": None, "mode": ""}) == InputSpec("artifact://a")


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({}, "inputs.from"),
        ({"from": ""}, "inputs.from"),
        ({"from": 1}, "inputs.from"),
        ({"from": "artifact://a", "to": 1}, "inputs.to"),
        ({"from": "artifact://a", "mode": "move"}, "inputs.mode"),
        ({"from": "artifact://a", "pin": "yes"}, "inputs.pin"),
        ({"from": "artifact://a", "dst": "x"}, "inputs"),
    ],
)
def test_what_is_not_an_input_is_refused_by_its_field(value: Mapping[str, object], field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        InputSpec.parse(value)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("source", "means"),
    [
        ("artifact://data/a.csv@3", ArtifactRef("data/a.csv", 3)),
        ("artifact://user:a@b.txt", ArtifactRef("user:a@b.txt", None)),
        ("host:///data/a.csv", PurePosixPath("/data/a.csv")),
        ("workspace://out/a", WorkspaceInput("out/a")),
        ("workspace://$OUTPUT_DIR/a", WorkspaceInput("out/a")),
        ("workspace://inputs/a", WorkspaceInput("work/inputs/a")),
        ("skill://pdf/scripts/a.py", WorkspaceInput("skills/pdf/scripts/a.py", "pdf")),
        ("skill://pdf", WorkspaceInput("skills/pdf", "pdf")),
        ("HOST:///data/%2e%2e/a", PurePosixPath("/data/%2e%2e/a")),
    ],
)
def test_a_source_is_read_by_its_scheme(source: str, means: object) -> None:
    (planned,) = plan_inputs([InputSpec(source)])
    assert planned.source == means


@pytest.mark.parametrize(
    "source",
    [
        "data.csv",
        "http://example.org/x",
        "file:///etc/passwd",
        "host://relative",
        "host://",
        "host:///",
        "workspace://",
        "workspace://.",
        "skill://",
        "skill://.hidden/x",
        "artifact://",
        "artifact://a@",
        "artifact://a@01",
        "workspace://a\0b",
        "workspace://$HOME/x",
    ],
)
def test_what_is_not_a_source_is_refused(source: str) -> None:
    with pytest.raises(InvalidArgument):
        plan_inputs([InputSpec(source)])


@pytest.mark.parametrize(
    "source",
    [
        "skill://other/../../x",
        "artifact://../b",
        "artifact://a/../../b@1",
        "artifact://a@../../b",
        "workspace://../x",
        "workspace:///etc/passwd",
        "workspace://$WORK_DIR/../../x",
        "host:///data/../etc/passwd",
        "skill://../x",
    ],
)
def test_a_source_that_climbs_is_forbidden(source: str) -> None:
    with pytest.raises(ForbiddenPath):
        plan_inputs([InputSpec(source)])


@pytest.mark.parametrize(
    ("source", "to", "goes_to"),
    [
        ("artifact://data/a.csv@3", None, "work/inputs/a.csv"),
        ("artifact://user:a.csv", None, "work/inputs/a.csv"),
        ("host:///data/dir", "", "work/inputs/dir"),
        ("workspace://out/a", "inputs", "work/inputs/a"),
        ("workspace://out/a", ".", "work/inputs/a"),
        ("workspace://out/a", "inputs/", "work/inputs/a"),
        ("workspace://out/a", "inputs/b", "work/inputs/b"),
        ("workspace://out/a", "work/data/", "work/data/a"),
        ("workspace://out/a", "$OUTPUT_DIR/b", "out/b"),
        ("workspace://out/a", "${RUN_DIR}/b", "runs/r1/b"),
        ("skill://pdf/x", "skills/pdf/inputs/y", "work/inputs/y"),
        ("skill://pdf", None, "work/inputs/pdf"),
    ],
)
def test_a_destination_is_in_the_workspace(source: str, to: str | None, goes_to: str) -> None:
    assert destination(source, to) == goes_to


@pytest.mark.parametrize(
    "to",
    [
        "../../etc/cron.d/x",
        "/etc/passwd",
        "/",
        "a/../../b",
        "a//../..//b",
        "./..",
        "work/..",
        "$OUTPUT_DIR/../../x",
        "skills/pdf/SKILL.md",
        "skills/pdf/.venv/bin/python",
        "elsewhere/x",
        "out",
        "work",
    ],
)
def test_a_destination_elsewhere_is_forbidden(to: str) -> None:
    with pytest.raises(ForbiddenPath):
        destination("artifact://a", to)


@pytest.mark.parametrize("to", ["work/a\0b", "work/" + "x" * 300, "$HOME/x"])
def test_a_destination_that_is_not_a_path_is_refused(to: str) -> None:
    with pytest.raises(InvalidArgument):
        destination("artifact://a", to)


def test_two_inputs_with_one_destination_are_refused_with_both_names() -> None:
    with pytest.raises(InvalidArgument, match=r"artifact://a/x and artifact://b/x have the same destination 'work/in"):
        plan_inputs([InputSpec("artifact://a/x"), InputSpec("artifact://b/x", "inputs/x")])


SCOPE = Scope("app", "user", "session")


@pytest.fixture
def workspace(tmp_path: Path) -> Generator[TreeWorkspace]:
    workspace = TreeWorkspace(tmp_path / "workspace")
    yield workspace
    run(workspace.close())


def planned(source: InputSource, to: str, *, pin: bool = False) -> InputPlan:
    return InputPlan(InputSpec("from somewhere", to, pin=pin), source, to)


async def test_looking_at_sources_leaves_nothing_open(workspace: TreeWorkspace, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a").touch()
    await workspace.write("out/a", b"")
    store = MemoryArtifactStore()
    await store.put(SCOPE, "a", b"1")
    sources = InputSources(workspace, (store, SCOPE), [tmp_path], {})
    wanted = [
        planned(ArtifactRef("a", None), "work/1"),
        planned(PurePosixPath(tmp_path / "data"), "work/2"),
        planned(WorkspaceInput("out"), "work/3"),
    ]
    before = os.listdir("/proc/self/fd")
    await sources.check(wanted)
    assert os.listdir("/proc/self/fd") == before


async def test_what_is_not_shared_is_refused_even_when_it_is_the_only_one(
    workspace: TreeWorkspace, tmp_path: Path
) -> None:
    with pytest.raises(ForbiddenPath, match="host_roots"):
        await InputSources(workspace, None, [], {}).check([planned(PurePosixPath(tmp_path), "work/x")])


async def test_an_input_keeps_to_the_version_that_is_written_down_for_its_place(workspace: TreeWorkspace) -> None:
    store = MemoryArtifactStore()
    for data in (b"0", b"1"):
        await store.put(SCOPE, "a", data)
    source = ArtifactRef("a", None)
    pinned = planned(source, "work/a", pin=True)
    assert build_pin_key(pinned, source) == "a -> work/a"

    async def version(one: InputPlan) -> int:
        sources = InputSources(workspace, (store, SCOPE), [], {"a -> work/a": 0})
        async with sources.open_artifact(one, source) as reading:
            return reading.artifact.version

    assert await version(pinned) == 0
    assert await version(planned(source, "work/a")) == 1
    assert await version(planned(source, "work/b", pin=True)) == 1


async def test_the_names_below_a_path_are_those_of_its_files(workspace: TreeWorkspace) -> None:
    await workspace.write("out/d/a", b"")
    await workspace.write("out/d/e/b", b"")
    assert sorted(await list_input_files(workspace, WorkspaceInput("out/d"))) == ["a", "e/b"]
    assert await list_input_files(workspace, WorkspaceInput("out/d/a")) == [""]
    with pytest.raises(InvalidArgument, match="neither a file nor a directory"):
        await list_input_files(workspace, WorkspaceInput("out/none"))


@pytest.fixture
def store() -> MemoryArtifactStore:
    return MemoryArtifactStore()


def staged(workspace: TreeWorkspace, *specs: InputSpec, roots: tuple[Path, ...] = ()) -> list[StagedInput]:
    return run(stage_inputs(workspace, specs, host_roots=roots))


def everything(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())


async def test_an_artifact_is_streamed_into_the_workspace(workspace: TreeWorkspace, store: MemoryArtifactStore) -> None:
    data = os.urandom(3_000_000)
    await store.put(SCOPE, "data/a.bin", b"old")
    await store.put(SCOPE, "data/a.bin", data)
    specs = [InputSpec("artifact://data/a.bin"), InputSpec("artifact://data/a.bin@0", "out/old", InputMode.LINK)]
    latest, first = await stage_inputs(workspace, specs, scope=SCOPE, artifacts=store)
    assert (latest.source, latest.to, latest.size) == ("artifact://data/a.bin@1", "work/inputs/a.bin", 3_000_000)
    assert (workspace.tree / "work/inputs/a.bin").read_bytes() == data
    assert (workspace.tree / "out/old").read_bytes() == b"old"
    assert first.mode is InputMode.COPY
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


async def test_an_artifact_that_is_not_there_leaves_nothing(
    workspace: TreeWorkspace, store: MemoryArtifactStore
) -> None:
    with pytest.raises(InvalidArgument, match="unknown artifact"):
        await stage_inputs(workspace, [InputSpec("artifact://a")], scope=SCOPE, artifacts=store)
    assert everything(workspace.tree) == []


def test_a_file_and_a_directory_of_this_machine_are_copied(workspace: TreeWorkspace, tmp_path: Path) -> None:
    (tmp_path / "data/deep/empty").mkdir(parents=True)
    (tmp_path / "data/a").write_bytes(b"\xff\0")
    (tmp_path / "data/deep/tool").touch(mode=0o755)
    (tmp_path / "data/leaves").symlink_to("/etc/passwd")
    one, many = staged(
        workspace,
        InputSpec(f"host://{tmp_path}/data/a", mode=InputMode.LINK),
        InputSpec(f"host://{tmp_path}/data", "work/all"),
        roots=(tmp_path,),
    )
    assert everything(workspace.tree) == ["work/all/a", "work/all/deep/tool", "work/inputs/a"]
    assert (workspace.tree / "work/inputs/a").read_bytes() == b"\xff\0"
    assert not (workspace.tree / "work/inputs/a").is_symlink()
    assert os.access(workspace.tree / "work/all/deep/tool", os.X_OK)
    assert (one.mode, one.size) == (InputMode.COPY, 2)
    assert "copied, not linked" in one.warnings[0]
    assert (many.files, many.warnings) == (2, ("skipped: leaves is a link",))


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
        ("artifact://none", "unknown artifact"),
        ("artifact://there@7", "version"),
        ("host://{}/none", "none"),
        ("workspace://out/none", "neither a file nor a directory"),
        ("skill://none/x", "load it first"),
    ],
)
async def test_a_source_that_is_not_there_is_found_before_anything_is_written(
    workspace: TreeWorkspace, store: MemoryArtifactStore, tmp_path: Path, missing: str, said: str
) -> None:
    (tmp_path / "a").touch()
    await store.put(SCOPE, "there", b"1")
    pins: dict[str, int] = {}
    specs = [
        InputSpec("artifact://there", pin=True),
        InputSpec(f"host://{tmp_path}/a"),
        InputSpec(missing.format(tmp_path), "work/missing"),
    ]
    with pytest.raises(InvalidArgument, match=said):
        await stage_inputs(workspace, specs, scope=SCOPE, artifacts=store, host_roots=(tmp_path,), pins=pins)
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
        InputSpec("workspace://work/d", "work/link", InputMode.LINK),
        InputSpec("workspace://work/link/a", "out/two"),
        roots=(tmp_path,),
    )
    assert (workspace.tree / "out/one").read_bytes() == (workspace.tree / "out/two").read_bytes() == b"1"
    assert (workspace.tree / "out/all/d/a").exists()


async def test_files_of_the_workspace_are_copied_or_linked(workspace: TreeWorkspace) -> None:
    await workspace.write("out/d/a", b"1")
    await workspace.write("out/d/[b]*", b"2")
    copy, link, whole = staged(
        workspace,
        InputSpec("workspace://out/d/[b]*", "inputs/b"),
        InputSpec("workspace://out/d", "inputs/link", InputMode.LINK),
        InputSpec("workspace://out/d", "work/copy"),
    )
    assert (copy.files, link.files, whole.files) == (1, 2, 2)
    assert (workspace.tree / "work/inputs/b").read_bytes() == b"2"
    assert os.readlink(workspace.tree / "work/inputs/link") == "../../out/d"
    assert (workspace.tree / "work/copy/a").read_bytes() == b"1"
    (again,) = staged(workspace, InputSpec("workspace://work/inputs/link/a", "work/again"))
    assert again.size == 1


async def test_a_directory_can_be_copied_into_itself(workspace: TreeWorkspace) -> None:
    await workspace.write("work/a", b"1")
    staged(workspace, InputSpec("workspace://work", "work/copy"))
    assert everything(workspace.tree) == ["work/a", "work/copy/a"]


async def test_files_of_a_staged_skill_are_copied_or_linked(workspace: TreeWorkspace, tmp_path: Path) -> None:
    await workspace.stage(workspace.store.take("pdf", skill_folder(tmp_path)))
    (workspace.tree / "skills/pdf/.venv/installed").touch()
    script, link, whole = staged(
        workspace,
        InputSpec("skill://pdf/scripts/1.py"),
        InputSpec("skill://pdf/SKILL.md", "work/link", InputMode.LINK),
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
        staged(workspace, InputSpec(source, "work/link", InputMode.LINK))


def test_a_link_that_leaves_is_not_a_source(workspace: TreeWorkspace, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (workspace.tree / "out/leaves").symlink_to(tmp_path / "secret")
    with pytest.raises(ForbiddenPath):
        staged(workspace, InputSpec("workspace://out/leaves"))


async def test_a_link_to_itself_is_refused(workspace: TreeWorkspace) -> None:
    await workspace.write("work/a", b"1")
    with pytest.raises(InvalidArgument, match="itself"):
        staged(workspace, InputSpec("workspace://work/a", "work/a", InputMode.LINK))
    assert (workspace.tree / "work/a").read_bytes() == b"1"


def test_no_descriptor_stays_open_when_the_place_cannot_be_written(workspace: TreeWorkspace, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (workspace.tree / "work/d").symlink_to("/etc")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ForbiddenPath):
        staged(workspace, InputSpec(f"host://{tmp_path}/a", "work/d/x"), roots=(tmp_path,))
    assert len(os.listdir("/proc/self/fd")) == before
