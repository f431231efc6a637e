import asyncio
import os
from pathlib import Path

import pytest

from openskills.artifacts.memory import MemoryArtifactStore
from openskills.errors import ExecutorUnavailable, ForbiddenPath, InvalidArgument, InvalidSkill, UnknownSkill
from openskills.executors.requests import RunRequest
from openskills.tools.readable import named, readable
from openskills.tools.refs import ArtifactFile, SkillFile, WorkspaceFile, parse_file
from openskills.tools.tool import ToolContext
from openskills.tools.uploads import Upload, upload_of
from tests.tools.contexts import SCOPE, skills_in, tool_context, write_skill


async def read(context: ToolContext, text: str) -> bytes:
    async with readable(context, await named(context, text)) as source:
        return b"".join([chunk async for chunk in source.chunks])


def test_a_skill_is_read_without_an_executor(tmp_path: Path) -> None:
    write_skill(tmp_path, files={"scripts/run.py": "print(1)\n"})

    async def scenario() -> None:
        async with tool_context(tmp_path, executor=None) as context:
            assert await read(context, "skill://demo/scripts/run.py") == b"print(1)\n"
            assert (await read(context, "skill://demo")).startswith(b"---\nname: demo\n")
            assert await read(context, "skills/demo/scripts/run.py") == b"print(1)\n"

    asyncio.run(scenario())


def test_a_staged_skill_is_read_as_commands_see_it(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, files={"a.txt": "staged"})

    async def scenario() -> None:
        async with tool_context(tmp_path) as context:
            await (await context.bench()).stage("demo", folder)
            (folder / "a.txt").write_text("changed")
            assert await read(context, "skills/demo/a.txt") == b"staged"
            assert await read(context, "skill://demo/a.txt") == b"changed"

    asyncio.run(scenario())


def test_reading_a_skill_or_an_artifact_opens_no_workspace(tmp_path: Path) -> None:
    write_skill(tmp_path)
    store = MemoryArtifactStore()

    async def scenario() -> None:
        await store.put(SCOPE, "a", b"bytes")
        async with tool_context(tmp_path, artifacts=store) as context:
            assert await read(context, "artifact://a") == b"bytes"
            await read(context, "skill://demo/SKILL.md")
        assert not (tmp_path / "state" / "workspaces").exists()

    asyncio.run(scenario())


def test_without_an_executor_a_workspace_file_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with tool_context(tmp_path, executor=None) as context:
            for text in ("out/a", "skills/none/a", "/workspace/out/a"):
                with pytest.raises(ExecutorUnavailable, match="no executor"):
                    await read(context, text)

    asyncio.run(scenario())


def test_an_absolute_path_below_the_workspace_is_one_in_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with tool_context(tmp_path) as context:
            workspace = (await context.bench()).workspace
            await workspace.write("out/a", b"bytes")
            assert await named(context, f"{workspace.root}/out/a") == WorkspaceFile("out/a")
            assert await read(context, f"{workspace.root}/out/a") == b"bytes"
            with pytest.raises(ForbiddenPath):
                await named(context, f"{workspace.root}/../x")

    asyncio.run(scenario())


def test_an_artifact_without_version_is_the_latest_and_says_which(tmp_path: Path) -> None:
    store = MemoryArtifactStore()

    async def scenario() -> None:
        for data in (b"one", b"two"):
            await store.put(SCOPE, "a", data)
        async with tool_context(tmp_path, executor=None, artifacts=store) as context:
            async with readable(context, parse_file("artifact://a")) as source:
                assert source.file == ArtifactFile("a", 1)
                assert len(source.sha256) == 64
            assert await read(context, "artifact://a@0") == b"one"

    asyncio.run(scenario())


def test_an_unknown_artifact_has_its_nearest_names(tmp_path: Path) -> None:
    store = MemoryArtifactStore()

    async def scenario() -> None:
        async with tool_context(tmp_path, executor=None, artifacts=store) as context:
            with pytest.raises(InvalidArgument, match="there are none yet"):
                await read(context, "artifact://reports.txt")
            await store.put(SCOPE, "report.txt", b"x")
            with pytest.raises(InvalidArgument, match=r"did you mean 'artifact://report.txt'\?"):
                await read(context, "artifact://reports.txt")
            with pytest.raises(InvalidArgument, match=r"file_name: 'report\.txt' has no version 7; it has 0"):
                await read(context, "artifact://report.txt@7")
            with pytest.raises(InvalidArgument, match=r"there are report.txt"):
                await read(context, "artifact://zzz")

    asyncio.run(scenario())


def test_without_a_store_an_artifact_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with tool_context(tmp_path, executor=None) as context:
            with pytest.raises(InvalidArgument, match="keeps no artifacts"):
                await read(context, "artifact://a")

    asyncio.run(scenario())


def test_an_unknown_or_hidden_skill_is_unknown_with_the_nearest_name(tmp_path: Path) -> None:
    write_skill(tmp_path, "visible")
    write_skill(tmp_path, "secret")
    skills = skills_in(tmp_path).view(lambda skill: skill.name != "secret")

    async def scenario() -> None:
        async with tool_context(tmp_path, executor=None, skills=skills) as context:
            with pytest.raises(UnknownSkill, match="'visible'"):
                await read(context, "skill://visibel/SKILL.md")
            with pytest.raises(UnknownSkill):
                await read(context, "skill://secret/SKILL.md")
            with pytest.raises(ExecutorUnavailable):
                await read(context, "skills/secret/SKILL.md")

    asyncio.run(scenario())


def test_a_link_that_leaves_a_skill_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = write_skill(tmp_path, files={"real.md": "real"})
    (folder / "inside.md").symlink_to("real.md")
    (folder / "outside.md").symlink_to("../../secret")
    (folder / "absolute.md").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to("..")

    async def scenario() -> None:
        async with tool_context(tmp_path, executor=None) as context:
            assert await read(context, "skill://demo/inside.md") == b"real"
            for name in ("outside.md", "absolute.md", "up/../secret", "up/demo/real.md"):
                with pytest.raises(ForbiddenPath):
                    await read(context, f"skill://demo/{name}")

    asyncio.run(scenario())


def test_what_is_no_file_of_a_skill_is_never_waited_for(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, files={"references/a.md": "a"})
    os.mkfifo(folder / "fifo")

    async def scenario() -> None:
        async with tool_context(tmp_path, executor=None) as context:
            with pytest.raises(InvalidArgument, match="no regular file"):
                await read(context, "skill://demo/fifo")
            with pytest.raises(InvalidArgument, match="is a directory; list_files"):
                await read(context, "skill://demo/references")

    asyncio.run(scenario())


def test_a_folder_that_is_no_skill_any_more_is_not_read(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, files={"a.md": "a"})

    async def scenario() -> None:
        async with tool_context(tmp_path, executor=None) as context:
            (folder / "SKILL.md").unlink()
            with pytest.raises(InvalidSkill):
                await read(context, "skill://demo/a.md")

    asyncio.run(scenario())


def test_a_link_that_a_command_made_leads_nowhere_outside(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")

    async def scenario() -> None:
        async with tool_context(tmp_path) as context:
            bench = await context.bench()
            made = f"echo in > work/b; ln -s {tmp_path}/secret out/a; ln -s .. out/up; ln -s / out/root"
            await bench.run(RunRequest(f"cd $WORKSPACE_DIR && {made}; ln -s ../work/b out/c"))
            assert await read(context, "out/c") == b"in\n"
            for text in ("out/a", f"out/root/{tmp_path}/secret", "out/up/../secret"):
                with pytest.raises(ForbiddenPath):
                    await read(context, text)

    asyncio.run(scenario())


def test_what_was_opened_is_closed_again(tmp_path: Path) -> None:
    write_skill(tmp_path, files={"a.md": "a" * 3_000_000})

    async def scenario() -> None:
        async with tool_context(tmp_path, executor=None) as context:
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(20):
                async with readable(context, SkillFile("demo", "a.md")) as source:
                    assert len(await anext(source.chunks)) == 1024 * 1024
            assert len(os.listdir("/proc/self/fd")) <= before + 1

    asyncio.run(scenario())


def test_a_file_of_the_conversation_is_there_before_any_command_ran(tmp_path: Path) -> None:
    uploads = [upload_of("notes.txt", b"mine")]

    async def scenario() -> None:
        async with tool_context(tmp_path, uploads=uploads) as context:
            assert await read(context, "work/inputs/notes.txt") == b"mine"
            assert await read(context, "inputs/notes.txt") == b"mine"

    asyncio.run(scenario())


def test_a_file_of_the_conversation_that_cannot_be_had_says_why(tmp_path: Path) -> None:
    uploads = [Upload("file_id/f1/name/notes.txt", "notes.txt", file_id="f1")]

    async def scenario() -> None:
        async with tool_context(tmp_path, uploads=uploads) as context:
            with pytest.raises(InvalidArgument, match=r"notes.*cannot be downloaded here"):
                await read(context, "inputs/notes.txt")

    asyncio.run(scenario())
