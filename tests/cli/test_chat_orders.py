"""Orders with a slash: what they do, and what they say when they cannot."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from openskills.cli.chat_orders import ORDERS, Ended, completions, obey
from openskills.cli.chat_talk import NO_SKILLS, Talk
from openskills.cli.chat_words import Order
from openskills.errors import InvalidArgument, SkillError
from openskills.sync import run
from openskills.testing import ScriptedModel
from tests.agent.agents import skills_for_agents
from tests.cli.chatting import talking
from tests.conftest import RequireProgram

Said = Callable[[], str]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """What was printed since the last time."""
    return lambda: capsys.readouterr().out


def in_talk(
    directory: Path,
    work: Callable[[Talk, ScriptedModel], Awaitable[object]],
    *answers: str,
    executor: str | None = None,
) -> None:
    async def whole() -> None:
        async with talking(skills_for_agents(directory), answers, executor=executor) as (talk, model):
            await work(talk, model)

    run(whole())


@pytest.mark.parametrize("order", [Order("help"), Order("")])
def test_help_has_every_order_and_how_to_name_skills_and_files(tmp_path: Path, said: Said, order: Order) -> None:
    in_talk(tmp_path, lambda talk, _: obey(talk, order))
    lines = said().splitlines()
    assert [line.split()[0] for line in lines[:-1]] == [f"/{name}" for name in ORDERS]
    assert lines[-1].startswith("In a message, $NAME uses a skill and @PATH sends a file.")


def test_skills_are_those_that_there_are_now(tmp_path: Path, said: Said) -> None:
    async def work(talk: Talk, _: ScriptedModel) -> None:
        await obey(talk, Order("load", "alpha"))
        folder = tmp_path / "skills" / "gamma"
        folder.mkdir()
        (folder / "SKILL.md").write_text(
            "---\nname: gamma\ndescription: Three.\ndisable-model-invocation: true\n---\nBody\n"
        )
        said()
        await obey(talk, Order("skills"))

    in_talk(tmp_path, work)
    assert said().splitlines() == [
        "alpha\tloaded\tThe skill alpha.",
        "beta\t\tThe skill beta.",
        "gamma\thidden: its author reserves it for people (disable-model-invocation)\tThree.",
    ]


def test_without_skills_it_says_where_some_could_come_from(tmp_path: Path, said: Said) -> None:
    async def work() -> None:
        (tmp_path / "skills").mkdir()
        async with talking(tmp_path, []) as (talk, _):
            await obey(talk, Order("skills"))

    run(work())
    assert said() == f"{NO_SKILLS}\n"


def test_a_loaded_skill_stays_loaded_with_its_documents_until_it_is_unloaded(tmp_path: Path, said: Said) -> None:
    async def work(talk: Talk, model: ScriptedModel) -> None:
        await obey(talk, Order("load", "alpha guide.md"))
        assert said().startswith("alpha is loaded, from now on with every message")
        for _ in range(2):
            await talk.say("hi")
            assert "BODY OF alpha" in str(model.requests[-1].messages)
            assert "GUIDE OF alpha" in str(model.requests[-1].messages)
        await obey(talk, Order("unload", "alpha"))
        await talk.say("hi")
        assert "BODY OF alpha" not in str(model.requests[-1].messages)

    in_talk(tmp_path, work, "1", "2", "3")


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (Order("load"), "/load: which skill?"),
        (Order("load", "alpa"), "there is no skill named 'alpa'; did you mean 'alpha'?"),
        (Order("load", "alpha nothing.md"), "nothing.md"),
        (Order("unload"), "/unload: which skill?"),
        (Order("attach"), "/attach: which file?"),
        (Order("save"), "/save: which artifact?"),
        (Order("save", "out/nothing"), "there is no artifact named 'out/nothing'"),
        (Order("attach", "nothing.csv"), "'nothing.csv' cannot be read: No such file"),
        (Order("skils"), "did you mean /skills or /files?"),
        (Order("alpa"), "did you mean /alpha?"),
        (Order("nothing-like-it"), "/help shows what there is"),
    ],
)
def test_what_cannot_be_done_is_said_with_what_to_do(tmp_path: Path, order: Order, message: str) -> None:
    async def work(talk: Talk, model: ScriptedModel) -> None:
        with pytest.raises(SkillError) as caught:
            await obey(talk, order)
        assert message in caught.value.message
        assert not model.requests

    in_talk(tmp_path, work)


def test_the_name_of_a_skill_sends_the_rest_with_that_skill_loaded(tmp_path: Path) -> None:
    async def work(talk: Talk, model: ScriptedModel) -> None:
        assert await obey(talk, Order("beta", "do it"))
        assert model.requests[-1].messages[-1]["content"] == "Use the skill beta: do it"
        assert "BODY OF beta" in str(model.requests[-1].messages)
        await obey(talk, Order("beta"))
        assert model.requests[-1].messages[-1]["content"] == "Use the skill beta."

    in_talk(tmp_path, work, "Done.", "Done again.")


def test_files_that_were_attached_are_listed_until_they_are_sent(tmp_path: Path, said: Said) -> None:
    async def work(talk: Talk, _: ScriptedModel) -> None:
        (tmp_path / "my file.txt").write_text("x")
        await obey(talk, Order("attach", f'"{tmp_path}/my file.txt"'))
        await obey(talk, Order("attach"))
        assert said() == "goes with the next message: my file.txt (1 byte)\n"
        await talk.say("hi")
        with pytest.raises(InvalidArgument):
            await obey(talk, Order("attach"))

    in_talk(tmp_path, work, "Thanks.")


def test_files_are_those_of_the_workspace_and_the_artifacts(
    tmp_path: Path, said: Said, require_program: RequireProgram
) -> None:
    require_program("bwrap")

    async def work(talk: Talk, _: ScriptedModel) -> None:
        await (await talk.session.bench()).workspace.write("out/chart.svg", b"<svg/>")
        await talk.runtime.artifacts.put(talk.session.scope, "out/report.md", b"# Report")
        await obey(talk, Order("files"))
        assert said().splitlines() == ["out/chart.svg\t6", "artifact://out/report.md@0\t8"]
        await obey(talk, Order("files", "work/**"))
        assert said().startswith("[no files match")
        await talk.runtime.artifacts.delete(talk.session.scope, "out/report.md")
        await obey(talk, Order("files"))
        assert said().splitlines() == ["out/chart.svg\t6", "[no artifacts yet]"]

    in_talk(tmp_path, work, executor="sandbox")


def test_an_artifact_is_put_into_a_file_of_the_person(tmp_path: Path, said: Said) -> None:
    async def work(talk: Talk, _: ScriptedModel) -> None:
        await talk.runtime.artifacts.put(talk.session.scope, "out/report.md", b"# Report")
        await obey(talk, Order("save", f"out/report.md {tmp_path}/my copy.md"))

    in_talk(tmp_path, work)
    assert (tmp_path / "my copy.md").read_bytes() == b"# Report"
    assert said() == f"artifact://out/report.md@0: 8 bytes in {tmp_path}/my copy.md\n"


def test_without_an_executor_there_are_only_artifacts(tmp_path: Path, said: Said) -> None:
    in_talk(tmp_path, lambda talk, _: obey(talk, Order("files")))
    assert said() == "[no artifacts yet]\n"


def test_tokens_and_the_name_of_the_session_are_told(tmp_path: Path, said: Said) -> None:
    async def work(talk: Talk, _: ScriptedModel) -> None:
        await obey(talk, Order("session"))
        await obey(talk, Order("tokens"))

    in_talk(tmp_path, work)
    lines = said().splitlines()
    assert (lines[0], lines[-1].startswith("all 2 skills in full would be about")) == ("s", True)


@pytest.mark.parametrize("name", ["quit", "exit"])
def test_leaving_is_an_order_too(tmp_path: Path, name: str) -> None:
    async def work(talk: Talk, _: ScriptedModel) -> None:
        with pytest.raises(Ended):
            await obey(talk, Order(name))

    in_talk(tmp_path, work)


def test_words_can_be_completed(tmp_path: Path) -> None:
    async def work(talk: Talk, _: ScriptedModel) -> None:
        assert completions(talk, "/a") == ["/alpha", "/attach"]
        assert completions(talk, "$") == ["$alpha", "$beta"]
        assert completions(talk, "/x") == []

    in_talk(tmp_path, work)
