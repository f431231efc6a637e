"""One message with everything that goes with it: skills, files, and what stays for the next one."""

from pathlib import Path

import pytest

from openskills.artifacts.store import read_artifact
from openskills.errors import InvalidArgument, ModelUnavailable, SkillError, UnknownSkill
from openskills.testing.models import ScriptedModel
from tests.agent.agents import skills_for_agents
from tests.cli.chatting import talking


def last_words(model: ScriptedModel) -> str:
    return str(model.requests[-1].messages[-1]["content"])


def system_text(model: ScriptedModel) -> str:
    return "\n".join(str(one["content"]) for one in model.requests[-1].messages if one["role"] == "system")


def reserved(directory: Path) -> Path:
    """Two usual skills, one for people, one for models, and one that cannot be used here."""
    skills_for_agents(directory)
    for name, front in (
        ("deploy", "disable-model-invocation: true"),
        ("inner", "user-invocable: false"),
        ("far", "metadata:\n  openskills:\n    requires:\n      env: [SURELY_NOT_SET]"),
    ):
        folder = directory / "skills" / name
        folder.mkdir()
        text = f"---\nname: {name}\ndescription: The skill {name}.\n{front}\n---\nBODY OF {name}\n"
        (folder / "SKILL.md").write_text(text)
    return directory


async def test_an_answer_is_true_and_an_error_of_the_model_is_false(tmp_path: Path) -> None:
    answers = ["Hello.", ModelUnavailable("it is down")]
    async with talking(skills_for_agents(tmp_path), answers) as (talk, _):
        result = await talk.send("hi"), await talk.send("hi")

    assert result == (True, False)


async def test_a_skill_that_is_named_is_loaded_before_the_model_is_asked_for_this_turn(tmp_path: Path) -> None:
    async with talking(skills_for_agents(tmp_path), ["One.", "Two."]) as (talk, model):
        await talk.send("Use $alpha now")
        assert last_words(model) == "Use $alpha now"
        assert "BODY OF alpha" in str(model.requests[-1].messages)
        await talk.send("and then?")
        assert "BODY OF alpha" not in str(model.requests[-1].messages)


async def test_a_name_that_is_nearly_a_skill_is_not_sent_and_money_is(tmp_path: Path) -> None:
    async with talking(skills_for_agents(tmp_path), ["Fine."]) as (talk, model):
        with pytest.raises(UnknownSkill, match="did you mean 'alpha'"):
            await talk.send("$alphaa please")
        assert await talk.send("$5 is too much for $HOME and me$alpha")
        assert len(model.requests) == 1


async def test_files_go_with_one_message_and_are_kept_as_artifacts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sales.csv").write_text("a,b\n")
    (tmp_path / "more.txt").write_text("more")
    monkeypatch.chdir(tmp_path)

    async with talking(skills_for_agents(tmp_path), ["One.", "Two."]) as (talk, model):
        talk.attach("more.txt")
        await talk.send("What is in @data/sales.csv, and in @nothing.csv?")
        said, _, attached = last_words(model).partition("\n\n")
        assert said == "What is in sales.csv, and in @nothing.csv?"
        assert attached.startswith("[attached: more.txt, sales.csv;")
        kept = await read_artifact(talk.runtime.artifacts, talk.session.scope, "uploads/sales.csv")
        assert kept == b"a,b\n"
        await talk.send("and now?")
        assert last_words(model) == "and now?"

    shown = capsys.readouterr().err
    assert "attached: more.txt (4 bytes)" in shown
    assert "note: file not found: nothing.csv?; sent as text" in shown


async def test_what_cannot_be_sent_keeps_its_files_for_the_next_message(tmp_path: Path) -> None:
    async with talking(skills_for_agents(tmp_path), ["Fine."]) as (talk, model):
        (tmp_path / "a.txt").write_text("a")
        talk.attach(str(tmp_path / "a.txt"))
        with pytest.raises(SkillError):
            await talk.send("$alphaa please")
        await talk.send("$alpha please")
        assert "[attached: a.txt;" in last_words(model)


async def test_a_skill_for_people_is_seen_by_the_model_while_a_person_uses_it_and_no_longer(tmp_path: Path) -> None:
    async with talking(reserved(tmp_path), ["One.", "Two."]) as (talk, model):
        await talk.send("Please $deploy")
        assert "BODY OF deploy" in str(model.requests[-1].messages)
        await talk.send("thanks")
        assert "deploy" not in system_text(model)


async def test_a_skill_for_models_or_one_that_cannot_be_used_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with talking(reserved(tmp_path), []) as (talk, _):
        with pytest.raises(InvalidArgument, match="not user-invocable"):
            await talk.send("$inner please")
        with pytest.raises(InvalidArgument, match="SURELY_NOT_SET"):
            talk.find_skill("far")


async def test_files_with_the_same_name_are_distinguished_by_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("north", "south"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.csv").write_text(folder)
    monkeypatch.chdir(tmp_path)

    async with talking(skills_for_agents(tmp_path), ["One.", "Two."]) as (talk, model):
        await talk.send("Compare @north/x.csv and @south/x.csv.")
        said, _, attached = last_words(model).partition("\n\n")
        assert said == "Compare north/x.csv and south/x.csv."
        assert attached.startswith("[attached: x.csv (north/x.csv), x_2.csv (south/x.csv);")
        await talk.send("And @south/x.csv again.")
        assert last_words(model).partition("\n\n")[2].startswith("[attached: x_3.csv (x.csv);")
