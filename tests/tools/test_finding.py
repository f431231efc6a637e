import asyncio
from pathlib import Path

import pytest

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.errors import ForbiddenPath, InvalidArgument, UnknownSkill
from openskills.executors.files.globs import compiled
from openskills.tools.finding import Found, beside, find
from tests.tools.contexts import SCOPE, tool_context, write_skill

FILES = ("out/a.csv", "out/deep/b.csv", "work/c.txt", "work/inputs/d.csv", "runs/r/log", "top.csv", "sk/e.csv")


def found(directory: Path, glob: str | None, *, limit: int = 100, staged: bool = True) -> Found:
    folder = write_skill(directory, files={"data.csv": "x", "inputs.d/a": "x"})

    async def scenario() -> Found:
        async with tool_context(directory) as context:
            bench = await context.bench()
            for path in FILES:
                target = Path(bench.workspace.root) / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(b"12")
            if staged:
                await bench.stage("demo", folder)
            return await find(context, glob, limit=limit)

    return asyncio.run(scenario())


def names(result: Found) -> list[str]:
    return [entry.file.shown for entry in result.entries]


@pytest.mark.parametrize("glob", [None, "", "**", "/", ".", "./", "workspace://**", "$WORKSPACE_DIR", "**/*", "**/**"])
def test_without_a_pattern_everything_but_skills_is_found(glob: str | None, tmp_path: Path) -> None:
    if glob == "/":
        with pytest.raises(ForbiddenPath):
            found(tmp_path, glob)
        return
    assert names(found(tmp_path, glob)) == sorted(FILES)


@pytest.mark.parametrize(
    ("glob", "wanted"),
    [
        ("out", ["out/a.csv", "out/deep/b.csv"]),
        ("out/", ["out/a.csv", "out/deep/b.csv"]),
        ("out/*.csv", ["out/a.csv"]),
        ("**/*.csv", ["out/a.csv", "out/deep/b.csv", "sk/e.csv", "top.csv", "work/inputs/d.csv"]),
        ("**/{c,d}.*", ["work/c.txt", "work/inputs/d.csv"]),
        ("inputs", ["work/inputs/d.csv"]),
        ("out/a.csv", ["out/a.csv"]),
        ("skills/demo/data.csv", ["skills/demo/data.csv"]),
        ("nothing/**", []),
    ],
)
def test_a_pattern_a_directory_and_a_file_are_found(glob: str, wanted: list[str], tmp_path: Path) -> None:
    assert names(found(tmp_path, glob)) == wanted


def test_sizes_are_found_and_a_limit_is_said(tmp_path: Path) -> None:
    result = found(tmp_path, "out", limit=1)
    assert [entry.size for entry in result.entries] == [2]
    assert not result.complete


def test_files_of_a_skill_are_found_in_the_catalog(tmp_path: Path) -> None:
    everything = ["skill://demo/SKILL.md", "skill://demo/data.csv", "skill://demo/inputs.d/a"]
    assert names(found(tmp_path, "skill://demo", staged=False)) == everything
    assert names(found(tmp_path, "skill://demo/*.csv", staged=False)) == everything[1:2]
    assert names(found(tmp_path, "skills/demo", staged=False)) == everything
    assert names(found(tmp_path, "skills/nobody", staged=False)) == []
    assert not found(tmp_path, "skill://demo", limit=2).complete


def test_an_unknown_skill_has_no_files(tmp_path: Path) -> None:
    with pytest.raises(UnknownSkill, match="'demo'"):
        found(tmp_path, "skill://dem")


@pytest.mark.parametrize("glob", ["../*", "/etc/*", "host:///etc/*", "out/../../*", "skill://demo/../*"])
def test_a_pattern_that_leaves_is_forbidden(glob: str, tmp_path: Path) -> None:
    with pytest.raises(ForbiddenPath):
        found(tmp_path, glob)


def test_artifacts_are_found_latest_first_and_by_version(tmp_path: Path) -> None:
    store = MemoryArtifactStore()

    async def scenario(glob: str) -> list[str]:
        async with tool_context(tmp_path, executor=None, artifacts=store) as context:
            return names(await find(context, glob, limit=100))

    async def keep() -> None:
        for name in ("inputs/a.csv", "inputs/a.csv", "b.txt", "user:c.csv"):
            await store.put(SCOPE, name, b"1")

    asyncio.run(keep())
    assert asyncio.run(scenario("artifact://")) == [
        "artifact://b.txt@0",
        "artifact://inputs/a.csv@1",
        "artifact://user:c.csv@0",
    ]
    assert asyncio.run(scenario("artifact://inputs/*")) == ["artifact://inputs/a.csv@1"]
    assert asyncio.run(scenario("artifact://inputs/a.csv")) == [
        "artifact://inputs/a.csv@0",
        "artifact://inputs/a.csv@1",
    ]
    assert asyncio.run(scenario("artifact://inputs/a.csv@0")) == ["artifact://inputs/a.csv@0"]


def test_without_a_store_there_are_no_artifacts(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with tool_context(tmp_path, executor=None) as context:
            with pytest.raises(InvalidArgument, match="keeps no artifacts"):
                await find(context, "artifact://", limit=1)

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["a", "sk", "skill", "skillsx", "skillz", "work", "Skills", ".skills", "skills "])
def test_every_other_name_is_beside_a_name(name: str) -> None:
    assert compiled(beside("skills")).matches(name)
    assert not compiled(beside("skills")).matches("skills")
