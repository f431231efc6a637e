"""Artifacts into files: whole or not at all, and never over something that is not a file.

Orders with a slash: what they do, and what they say when they cannot.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from openskills.artifacts.open import open_artifact_store
from openskills.artifacts.store import ArtifactStore, Scope
from openskills.cli.chat.commands import (
    SLASH_COMMANDS,
    ChatExit,
    complete_word,
    fetch_artifact,
    find_artifacts,
    run_slash_command,
)
from openskills.cli.chat.conversation import NO_SKILLS
from openskills.cli.chat.input import SlashCommand
from openskills.errors import InvalidArgument, SkillError
from openskills.settings import Settings
from openskills.sync import run
from tests.agent.agents import skills_for_agents
from tests.cli.chatting import talking
from tests.conftest import RequireProgram

SCOPE = Scope("cli", "u", "s")


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    """The store of a machine, with an artifact in two versions."""
    found = open_artifact_store(None, Settings.from_env({"HOME": str(tmp_path / "home")}))
    for data in (b"one\n", b"\x89PNG\0two"):
        run(found.put(SCOPE, "out/a.bin", data))
    return found


@pytest.mark.parametrize("ref", ["artifact://out/a.bin@0", "out/a.bin@0"])
async def test_a_version_is_written_under_the_name_that_was_given(
    store: ArtifactStore, tmp_path: Path, ref: str
) -> None:
    artifact, path = await fetch_artifact(store, SCOPE, ref, str(tmp_path / "copy"))
    assert (artifact.version, path) == (0, str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == b"one\n"


async def test_in_a_directory_it_has_its_own_name_and_the_latest_version_is_meant(
    store: ArtifactStore, tmp_path: Path
) -> None:
    assert (await fetch_artifact(store, SCOPE, "out/a.bin", str(tmp_path)))[1] == str(tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == b"\x89PNG\0two"


async def test_a_link_stays_a_link_and_a_pipe_is_written_into(store: ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to("old")
    await fetch_artifact(store, SCOPE, "out/a.bin@0", str(tmp_path / "link"))
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "old").read_bytes()) == (True, b"one\n")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    await fetch_artifact(store, SCOPE, "out/a.bin@0", str(tmp_path / "pipe"))
    assert os.read(reader, 100) == b"one\n"
    os.close(reader)


async def test_what_cannot_be_written_leaves_nothing_and_says_where(store: ArtifactStore, tmp_path: Path) -> None:
    with pytest.raises(SkillError, match=r"cannot write .*no/such/copy: No such file or directory"):
        await fetch_artifact(store, SCOPE, "out/a.bin", str(tmp_path / "no" / "such" / "copy"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]


@pytest.mark.parametrize("ref", ["out/b", "out/a.bin@7", "../x", "artifact://", "artifact://out/a.bin@"])
async def test_what_is_not_there_is_refused(store: ArtifactStore, ref: str) -> None:
    with pytest.raises(SkillError):
        await fetch_artifact(store, SCOPE, ref, None)


async def test_every_version_can_be_listed(store: ArtifactStore) -> None:
    assert [one.version for one in await find_artifacts(store, SCOPE, versions=False)] == [1]
    assert [one.version for one in await find_artifacts(store, SCOPE, versions=True)] == [0, 1]


async def test_stdout_gets_the_bytes_as_they_are(
    store: ArtifactStore, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    for bare in (True, False):
        assert (await fetch_artifact(store, SCOPE, "out/a.bin", None, bare=bare))[1] is None
    assert capfdbinary.readouterr().out == b"\x89PNG\0two" * 2


async def test_an_empty_file_name_is_refused(store: ArtifactStore) -> None:
    with pytest.raises(InvalidArgument, match="--to: must not be empty"):
        await fetch_artifact(store, SCOPE, "out/a.bin", "")


Said = Callable[[], str]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """What was printed since the last time."""
    return lambda: capsys.readouterr().out


@pytest.mark.parametrize("order", [SlashCommand("help"), SlashCommand("")])
async def test_help_has_every_order_and_how_to_name_skills_and_files(
    tmp_path: Path, said: Said, order: SlashCommand
) -> None:
    async with talking(skills_for_agents(tmp_path), []) as (talk, _):
        await run_slash_command(talk, order)
    lines = said().splitlines()
    assert [line.split()[0] for line in lines[:-1]] == [f"/{name}" for name in SLASH_COMMANDS]
    assert lines[-1].startswith("In a message, $NAME loads a skill and @PATH attaches a file.")


async def test_skills_are_those_that_there_are_now(tmp_path: Path, said: Said) -> None:
    async with talking(skills_for_agents(tmp_path), []) as (talk, _):
        await run_slash_command(talk, SlashCommand("load", "alpha"))
        folder = tmp_path / "skills" / "gamma"
        folder.mkdir()
        (folder / "SKILL.md").write_text(
            "---\nname: gamma\ndescription: Three.\ndisable-model-invocation: true\n---\nBody\n"
        )
        said()
        await run_slash_command(talk, SlashCommand("skills"))
    assert said().splitlines() == [
        "alpha\tloaded\tThe skill alpha.",
        "beta\t\tThe skill beta.",
        "gamma\thidden: only users may invoke it (disable-model-invocation)\tThree.",
    ]


async def test_without_skills_it_says_where_some_could_come_from(tmp_path: Path, said: Said) -> None:
    (tmp_path / "skills").mkdir()
    async with talking(tmp_path, []) as (talk, _):
        await run_slash_command(talk, SlashCommand("skills"))

    assert said() == f"{NO_SKILLS}\n"


async def test_a_loaded_skill_stays_loaded_with_its_documents_until_it_is_unloaded(tmp_path: Path, said: Said) -> None:
    async with talking(skills_for_agents(tmp_path), ["1", "2", "3"]) as (talk, model):
        await run_slash_command(talk, SlashCommand("load", "alpha guide.md"))
        assert said().startswith("alpha is loaded for all following messages")
        for _ in range(2):
            await talk.send("hi")
            assert "BODY OF alpha" in str(model.requests[-1].messages)
            assert "GUIDE OF alpha" in str(model.requests[-1].messages)
        await run_slash_command(talk, SlashCommand("unload", "alpha"))
        await talk.send("hi")
        assert "BODY OF alpha" not in str(model.requests[-1].messages)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (SlashCommand("load"), "/load: which skill?"),
        (SlashCommand("load", "alpa"), "unknown skill 'alpa'; did you mean 'alpha'?"),
        (SlashCommand("load", "alpha nothing.md"), "nothing.md"),
        (SlashCommand("unload"), "/unload: which skill?"),
        (SlashCommand("attach"), "/attach: which file?"),
        (SlashCommand("save"), "/save: which artifact?"),
        (SlashCommand("save", "out/nothing"), "unknown artifact 'out/nothing'"),
        (SlashCommand("attach", "nothing.csv"), "cannot read 'nothing.csv': No such file"),
        (SlashCommand("skils"), "did you mean /skills or /files?"),
        (SlashCommand("alpa"), "did you mean /alpha?"),
        (SlashCommand("nothing-like-it"), "/help lists the commands"),
    ],
)
async def test_errors_say_what_to_do(tmp_path: Path, order: SlashCommand, message: str) -> None:
    async with talking(skills_for_agents(tmp_path), []) as (talk, model):
        with pytest.raises(SkillError) as caught:
            await run_slash_command(talk, order)
        assert message in caught.value.message
        assert not model.requests


async def test_the_name_of_a_skill_sends_the_rest_with_that_skill_loaded(tmp_path: Path) -> None:
    async with talking(skills_for_agents(tmp_path), ["Done.", "Done again."]) as (talk, model):
        assert await run_slash_command(talk, SlashCommand("beta", "do it"))
        assert model.requests[-1].messages[-1]["content"] == "Use the skill beta: do it"
        assert "BODY OF beta" in str(model.requests[-1].messages)
        await run_slash_command(talk, SlashCommand("beta"))
        assert model.requests[-1].messages[-1]["content"] == "Use the skill beta."


async def test_files_that_were_attached_are_listed_until_they_are_sent(tmp_path: Path, said: Said) -> None:
    async with talking(skills_for_agents(tmp_path), ["Thanks."]) as (talk, _):
        (tmp_path / "my file.txt").write_text("x")
        await run_slash_command(talk, SlashCommand("attach", f'"{tmp_path}/my file.txt"'))
        await run_slash_command(talk, SlashCommand("attach"))
        assert said() == "attached to the next message: my file.txt (1 byte)\n"
        await talk.send("hi")
        with pytest.raises(InvalidArgument):
            await run_slash_command(talk, SlashCommand("attach"))


async def test_files_are_those_of_the_workspace_and_the_artifacts(
    tmp_path: Path, said: Said, require_program: RequireProgram
) -> None:
    require_program("bwrap")

    async with talking(skills_for_agents(tmp_path), [], executor="sandbox") as (talk, _):
        await (await talk.session.open_runner()).workspace.write("out/chart.svg", b"<svg/>")
        await talk.runtime.artifacts.put(talk.session.scope, "out/report.md", b"# Report")
        await run_slash_command(talk, SlashCommand("files"))
        assert said().splitlines() == ["out/chart.svg\t6", "artifact://out/report.md@0\t8"]
        await run_slash_command(talk, SlashCommand("files", "work/**"))
        assert said().startswith("[no files match")
        await talk.runtime.artifacts.delete(talk.session.scope, "out/report.md")
        await run_slash_command(talk, SlashCommand("files"))
        assert said().splitlines() == ["out/chart.svg\t6", "[no artifacts yet]"]


async def test_an_artifact_is_put_into_a_file_of_the_person(tmp_path: Path, said: Said) -> None:
    async with talking(skills_for_agents(tmp_path), []) as (talk, _):
        await talk.runtime.artifacts.put(talk.session.scope, "out/report.md", b"# Report")
        await run_slash_command(talk, SlashCommand("save", f"out/report.md {tmp_path}/my copy.md"))
    assert (tmp_path / "my copy.md").read_bytes() == b"# Report"
    assert said() == f"artifact://out/report.md@0: 8 bytes in {tmp_path}/my copy.md\n"


async def test_without_an_executor_there_are_only_artifacts(tmp_path: Path, said: Said) -> None:
    async with talking(skills_for_agents(tmp_path), []) as (talk, _):
        await run_slash_command(talk, SlashCommand("files"))
    assert said() == "[no artifacts yet]\n"


async def test_tokens_and_the_name_of_the_session_are_printed(tmp_path: Path, said: Said) -> None:
    async with talking(skills_for_agents(tmp_path), []) as (talk, _):
        await run_slash_command(talk, SlashCommand("session"))
        await run_slash_command(talk, SlashCommand("tokens"))
    lines = said().splitlines()
    assert (lines[0], lines[-1].startswith("all 2 skills in full: about")) == ("s", True)


@pytest.mark.parametrize("name", ["quit", "exit"])
async def test_leaving_is_an_order_too(tmp_path: Path, name: str) -> None:
    async with talking(skills_for_agents(tmp_path), []) as (talk, _):
        with pytest.raises(ChatExit):
            await run_slash_command(talk, SlashCommand(name))


async def test_words_can_be_completed(tmp_path: Path) -> None:
    async with talking(skills_for_agents(tmp_path), []) as (talk, _):
        assert complete_word(talk, "/a") == ["/alpha", "/attach"]
        assert complete_word(talk, "$") == ["$alpha", "$beta"]
        assert complete_word(talk, "/x") == []
