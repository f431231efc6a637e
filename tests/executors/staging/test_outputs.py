"""What is wanted from a run, and the file that is shown first.

Files on their way back: the right ones, whole, and nobody else's.
"""

import asyncio
import os
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.artifacts.store import Scope, read_artifact
from openskills.errors import ForbiddenPath, InvalidArgument
from openskills.executors.staging.outputs import (
    OutputCollection,
    OutputFile,
    OutputSpec,
    collect_outputs,
    describe_unmatched,
    save_outputs,
    select_primary,
)
from openskills.sync import run
from tests.executors.hostile_files import deep, swapping
from tests.executors.tree_workspace import TreeWorkspace


def file(path: str, data: bytes = b"text", mime_type: str = "text/plain", *, truncated: bool = False) -> OutputFile:
    return OutputFile(path, data, len(data), mime_type, truncated)


def test_both_spellings_of_the_documents_are_understood() -> None:
    snake = {"globs": ["out/**"], "inline": False, "save": True, "name_template": "r/", "max_files": 1}
    legacy = {"Globs": ["out/**"], "Inline": False, "SAVE": True, "NameTemplate": "r/", "MaxFiles": 1}
    assert OutputSpec.parse(snake) == OutputSpec.parse(legacy)
    assert OutputSpec.parse(snake) == OutputSpec(("out/**",), inline=False, save=True, name_template="r/", max_files=1)


def test_snake_case_wins_and_null_is_the_default() -> None:
    spec = OutputSpec.parse({"MaxFiles": 1, "max_files": 2, "globs": "out/*", "max_file_bytes": None, "save": None})
    assert (spec.max_files, spec.max_file_bytes, spec.save, spec.globs) == (2, 4 * 1024 * 1024, False, ("out/*",))


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({}, "outputs.globs"),
        ({"globs": []}, "outputs.globs"),
        ({"globs": [1]}, "outputs.globs"),
        ({"globs": ["["]}, "outputs.globs"),
        ({"globs": ["x"], "max_files": "many"}, "outputs.max_files"),
        ({"globs": ["x"], "max_files": True}, "outputs.max_files"),
        ({"globs": ["x"], "max_total_bytes": -1}, "outputs.max_total_bytes"),
        ({"globs": ["x"], "inline": "yes"}, "outputs.inline"),
        ({"globs": ["x"], "name_template": 1}, "outputs.name_template"),
        ({"globs": ["x"], "glob": 1}, "outputs"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_field(value: Mapping[str, object], field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        OutputSpec.parse(value)
    assert refused.value.field == field


@pytest.mark.parametrize("value", [{"globs": ["../x"]}, {"globs": ["x"], "name_template": "../../x/"}])
def test_what_climbs_is_forbidden(value: Mapping[str, object]) -> None:
    with pytest.raises(ForbiddenPath):
        OutputSpec.parse(value)


def test_text_is_text_and_bytes_stay_bytes() -> None:
    assert file("a", "é".encode()).text() == "é"
    assert file("a", b"\x89PNG\0").text() is None
    assert file("a", b"\xff").text() is None
    assert file("a", b"x" + "é".encode()[:1], truncated=True).text() == "x"
    assert file("a", b"x" + "é".encode()[:1]).text() is None
    assert file("a").ref == "workspace://a"
    assert b"secret".decode() not in repr(file("a", b"secret"))


def test_the_file_whose_name_says_so_is_shown_first() -> None:
    files = [
        file("out/a.txt"),
        file("out/deep/report.json", mime_type="application/json"),
        file("out/b.md", mime_type="text/markdown"),
    ]
    assert select_primary(files) is files[1]
    assert select_primary(files[::2]) is files[2]
    assert select_primary([file("out/d/a.txt"), shallow := file("out/z.txt")]) is shallow
    assert select_primary([file("out/b.txt"), first := file("out/a.txt")]) is first


@pytest.mark.parametrize(
    "unsuitable",
    [
        file("a", b""),
        file("a", b" \n"),
        file("a", b"\0"),
        file("a", b"x" * 40_000),
        file("a", b"half", truncated=True),
    ],
)
def test_what_cannot_be_shown_whole_is_not_shown_first(unsuitable: OutputFile) -> None:
    assert select_primary([unsuitable]) is None


SCOPE = Scope("app", "user", "session")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.fixture
def workspace(tmp_path: Path) -> Generator[TreeWorkspace]:
    workspace = TreeWorkspace(tmp_path / "workspace")
    yield workspace
    run(workspace.close())


@pytest.fixture
def out(workspace: TreeWorkspace) -> Path:
    return workspace.tree / "out"


def collected(
    workspace: TreeWorkspace, spec: OutputSpec | None = None, *, since: int | None = None
) -> OutputCollection:
    return run(collect_outputs(workspace, spec or OutputSpec(("out/**",)), since=since))


def paths(result: OutputCollection) -> list[str]:
    return [file.path for file in result.files]


def test_files_come_back_as_the_bytes_that_they_are(workspace: TreeWorkspace, out: Path) -> None:
    (out / "b.png").write_bytes(PNG)
    (out / "a.json").write_text("{}")
    (out / "empty").touch()
    result = collected(workspace)
    assert paths(result) == ["out/a.json", "out/b.png", "out/empty"]
    picture = result.files[1]
    assert (picture.data, picture.size, picture.mime_type, picture.truncated) == (PNG, len(PNG), "image/png", False)
    assert picture.text() is None
    assert picture.ref == "workspace://out/b.png"
    assert result.files[0].text() == "{}"
    assert not result.warnings


async def test_only_what_this_run_made_or_changed_comes_back(workspace: TreeWorkspace, out: Path) -> None:
    for name in ("old", "changed", "touched"):
        (out / name).write_text("old")
    mark = await workspace.mark()
    (out / "changed").write_text("new")
    (out / "new").touch()
    (out / "touched").chmod(0o600)
    os.utime(out / "new", (0, 0))
    assert paths(collected(workspace, since=mark)) == ["out/changed", "out/new", "out/touched"]


async def test_an_older_file_comes_back_when_it_is_named_without_a_pattern(workspace: TreeWorkspace, out: Path) -> None:
    (out / "old.txt").write_text("old")
    since = await workspace.mark()
    (out / "new.txt").write_text("new")
    collected = await collect_outputs(workspace, OutputSpec(("out/old.txt", "out/n*")), since=since)
    assert [file.path for file in collected.files] == ["out/new.txt", "out/old.txt"]
    assert collected.warnings == ()


def test_each_pattern_without_a_file_is_reported() -> None:
    globs = ("out/*.pdf", "out/*.txt", "$OUTPUT_DIR/b", "$RUN_DIR/*.log", "$RUN_DIR/*.csv")
    assert describe_unmatched(globs, [file("out/a.txt"), file("runs/run_1/x.log")]) == [
        "no new or changed file matches out/*.pdf",
        "no new or changed file matches $OUTPUT_DIR/b",
        "no new or changed file matches $RUN_DIR/*.csv",
    ]


def test_a_file_that_is_too_large_is_cut_and_says_so(workspace: TreeWorkspace, out: Path) -> None:
    (out / "exact").write_bytes(b"x" * 1000)
    (out / "more").write_bytes(b"x" * 1001)
    exact, more = collected(workspace, OutputSpec(("out/*",), max_file_bytes=1000)).files
    assert (len(exact.data), exact.truncated) == (1000, False)
    assert (len(more.data), more.size, more.truncated) == (1000, 1001, True)


def test_the_limit_for_all_leaves_metadata_of_the_rest(workspace: TreeWorkspace, out: Path) -> None:
    for name in "abc":
        (out / name).write_bytes(name.encode() * 1000)
    result = collected(workspace, OutputSpec(("out/*",), max_total_bytes=1500))
    assert [len(file.data) for file in result.files] == [500, 500, 500]
    assert [file.truncated for file in result.files] == [True, True, True]
    assert [file.size for file in result.files] == [1000, 1000, 1000]
    assert result.files[2].mime_type == "text/plain"
    (out / "d").write_bytes(b"small")
    assert [len(file.data) for file in collected(workspace, OutputSpec(("out/*",), max_total_bytes=305)).files] == [
        100,
        100,
        100,
        5,
    ]
    assert "4 files have no content" in collected(workspace, OutputSpec(("out/*",), max_total_bytes=0)).warnings[0]


def test_without_inline_only_metadata_comes_back(workspace: TreeWorkspace, out: Path) -> None:
    (out / "a.png").write_bytes(PNG)
    result = collected(workspace, OutputSpec(("out/*",), inline=False))
    (file,) = result.files
    assert (file.data, file.size, file.mime_type, file.truncated) == (b"", len(PNG), "image/png", False)
    assert not result.warnings


def test_more_files_than_asked_for_are_left_out_with_a_warning(workspace: TreeWorkspace, out: Path) -> None:
    for number in range(20):
        (out / f"{number:02}").touch()
    result = collected(workspace, OutputSpec(("out/**",), max_files=5))
    assert paths(result) == [f"out/{number:02}" for number in range(5)]
    assert "only the first 5 were collected" in result.warnings[0]


async def test_a_run_directory_can_be_collected_from(workspace: TreeWorkspace) -> None:
    await workspace.write("runs/r1/log", b"x")
    result = await collect_outputs(workspace, OutputSpec(("$RUN_DIR/**",)), run_dir="runs/r1")
    assert paths(result) == ["runs/r1/log"]


def test_hostile_entries_are_warnings_and_lose_nothing_else(
    workspace: TreeWorkspace, out: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    (out / "fine").write_text("fine")
    (out / "link").symlink_to(tmp_path / "secret")
    (out / "directory").symlink_to(tmp_path)
    (out / "\udcff").touch()
    (out / "esc\x1b[31m").touch()
    os.mkfifo(out / "fifo")
    with deep(out, 2_500):
        result = collected(workspace)
    assert paths(result) == ["out/esc\x1b[31m", "out/fine"]
    assert all(word in " ".join(result.warnings) for word in ("link", "fifo", "directory", "UTF-8", "too deep"))
    assert all(warning.isprintable() for warning in result.warnings)
    assert b"secret" not in b"".join(file.data for file in result.files)


def test_a_hard_link_to_a_skill_is_content_like_any_other(workspace: TreeWorkspace, out: Path) -> None:
    (workspace.tree / "skills/x").write_text("skill")
    os.link(workspace.tree / "skills/x", out / "x")
    assert collected(workspace).files[0].text() == "skill"


async def test_a_file_that_grows_while_it_is_read_is_read_to_its_limit(workspace: TreeWorkspace, out: Path) -> None:
    (out / "log").write_bytes(b"x" * 1000)

    with (out / "log").open("ab", buffering=0) as log:
        collecting = asyncio.create_task(collect_outputs(workspace, OutputSpec(("out/*",), max_file_bytes=1500)))
        while not collecting.done():
            log.write(b"x" * 1000)
            await asyncio.sleep(0)
        result = await collecting

    (file,) = result.files
    assert len(file.data) <= 1500
    assert file.truncated == (len(file.data) < file.size)


@pytest.mark.slow
async def test_nothing_leaks_while_the_directory_is_swapped_for_a_link(
    workspace: TreeWorkspace, out: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    for name in ("a", "b", "c"):
        (out / name).write_bytes(b"mine")
        (secret / name).write_bytes(b"secret")

    with swapping(out, secret):
        spec = OutputSpec(("out/**",))
        seen = {file.data for _ in range(2_000) for file in (await collect_outputs(workspace, spec)).files}
    assert seen <= {b"mine"}
    assert seen


async def test_large_files_are_saved_whole_whatever_was_inlined(workspace: TreeWorkspace, out: Path) -> None:
    data = os.urandom(5_000_000)
    (out / "large").write_bytes(data)
    (out / "a.png").write_bytes(PNG)
    store = MemoryArtifactStore()
    result = collected(workspace, OutputSpec(("out/*",), max_file_bytes=1000))
    saved = await save_outputs(workspace, result.files, store, SCOPE, prefix="r/")
    assert [artifact.ref for artifact in saved.artifacts] == ["artifact://r/out/a.png@0", "artifact://r/out/large@0"]
    assert not saved.warnings
    assert await read_artifact(store, SCOPE, "r/out/large") == data
    assert await read_artifact(store, SCOPE, "r/out/a.png") == PNG
    assert saved.artifacts[0].mime_type == "image/png"


async def test_a_file_that_vanished_or_is_refused_loses_nothing_else(workspace: TreeWorkspace, out: Path) -> None:
    for name, size in {"a": 10, "b": 3000, "c": 3000, "d\n": 5}.items():
        (out / name).write_bytes(b"x" * size)
    result = collected(workspace, OutputSpec(("out/*",), inline=False))
    (out / "a").unlink()
    (out / "b").write_bytes(b"x" * 100_000)
    saved = await save_outputs(workspace, result.files, MemoryArtifactStore(max_bytes=50_000), SCOPE)
    assert [artifact.name for artifact in saved.artifacts] == ["out/c", "out/d\\n"]
    assert len(saved.warnings) == 2
    assert "out/a was not saved" in saved.warnings[0]
    assert "the maximum is 50,000" in saved.warnings[1]


def test_a_pattern_that_leaves_is_forbidden() -> None:
    with pytest.raises(ForbiddenPath):
        OutputSpec(("../**",))
