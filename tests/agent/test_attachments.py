"""Files of users: what the model is told about them is where its commands find them."""

import json
from pathlib import Path
from typing import Any

import pytest

from openskills.agent.agent import Agent
from openskills.agent.attached_line import split
from openskills.agent.attachments import Attachment
from openskills.agent.model import Answer
from openskills.errors import InvalidArgument
from openskills.session.memory import MemorySessionStore
from openskills.sync import run
from openskills.testing import ScriptedModel
from tests.agent.agents import agent_in, calling, heard, skills_for_agents
from tests.runtime.talking import runtime_in

ALIKE = ["x.csv", "a/x.csv", "X.CSV", "b\\x.csv", "x_2.csv", "", "-rf", "a, b.csv"]
SHOW = {"skill": "alpha", "command": 'cd $WORK_DIR/inputs && for one in *; do printf \'%s=\' "$one"; cat "$one"; done'}
LOADED = (calling(("skill_load", {"skill": "alpha"})), calling(("skill_run", SHOW)), Answer("ok"))


def told(model: ScriptedModel, number: int) -> tuple[str, ...]:
    return split(str(model.requests[number].messages[-1]["content"]))[1]


def printed(model: ScriptedModel) -> dict[str, str]:
    result: dict[str, Any] = json.loads(str(model.requests[-1].messages[-1]["content"]))
    return dict(line.split("=", 1) for line in result["stdout"].splitlines())


def files(names: list[str], mark: str = "") -> list[Attachment]:
    return [Attachment(name, f"{mark}{number}\n".encode()) for number, name in enumerate(names)]


def test_a_file_is_bytes_or_a_reference() -> None:
    with pytest.raises(InvalidArgument, match="needs data or a ref"):
        Attachment("a")
    with pytest.raises(InvalidArgument, match="needs data or a ref"):
        Attachment("a", b"x", "artifact://x")


def test_files_with_names_alike_are_found_as_the_model_was_told(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    agent, model = agent_in(tmp_path, [Answer("first"), *LOADED], executor="local")

    async def go() -> None:
        async with agent.runtime:
            await heard(agent, files=files(ALIKE, "a"))
            await heard(agent, "again", files=files(["x.csv", "x_9.csv"], "b"))

    run(go())
    first, second = told(model, 0), told(model, 1)
    assert first[:4] == ("x.csv", "x_2.csv", "X_3.CSV", "x_4.csv")
    found = printed(model)
    assert [found[name] for name in first] == [f"a{number}" for number in range(len(ALIKE))]
    assert [found[name] for name in second] == ["b0", "b1"]
    assert len(found) == len(ALIKE) + 2


def test_what_a_command_has_put_there_is_not_taken_for_the_users_file(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    write = {"skill": "alpha", "command": "echo mine > $WORK_DIR/inputs/x.csv"}
    answers = [calling(("skill_load", {"skill": "alpha"})), calling(("skill_run", write)), Answer("ok"), *LOADED]
    agent, model = agent_in(tmp_path, answers, executor="local")

    async def go() -> None:
        async with agent.runtime:
            await heard(agent)
            await heard(agent, "look", files=[Attachment("x.csv", b"theirs\n")])

    run(go())
    assert told(model, 3) == ("x_2.csv",)
    assert printed(model) == {"x.csv": "mine", "x_2.csv": "theirs"}


def test_after_a_restart_the_files_are_where_they_were(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    store = MemorySessionStore()
    model = ScriptedModel([*LOADED, *LOADED])

    async def go() -> None:
        for message, sent in (("one", files(ALIKE)), ("two", files(["x.csv"], "later "))):
            async with runtime_in(tmp_path, executor="local", store=store) as runtime:
                await heard(Agent("assistant", model, runtime), message, files=sent)

    run(go())
    found = printed(model)
    assert [found[name] for name in told(model, 0)] == [str(number) for number in range(len(ALIKE))]
    assert [found[name] for name in told(model, 3)] == ["later 0"]


def test_without_commands_files_are_kept_and_named_all_the_same(tmp_path: Path) -> None:
    skills_for_agents(tmp_path)
    agent, model = agent_in(tmp_path, [Answer("ok")])
    events = run(heard(agent, files=files(["x.csv", "a/x.csv"])))
    kept = events[0].payload["files"]
    assert [(one["name"], one["path"]) for one in kept] == [
        ("x.csv", "work/inputs/x.csv"),
        ("a/x.csv", "work/inputs/x_2.csv"),
    ]
    assert [one["ref"] for one in kept] == ["artifact://uploads/x.csv@0", "artifact://uploads/x_2.csv@0"]
    assert told(model, 0) == ("x.csv", "x_2.csv")


def test_files_beyond_the_limit_have_names_of_their_own_and_the_model_hears_that_they_are_not_there(
    tmp_path: Path,
) -> None:
    skills_for_agents(tmp_path)
    agent, model = agent_in(tmp_path, list(LOADED), executor="local")
    run(heard(agent, files=files(["x.csv"] * 103)))
    assert len(told(model, 0)) == 103
    warnings = json.loads(str(model.requests[-1].messages[-1]["content"]))["warnings"]
    assert "x_101.csv, x_102.csv, x_103.csv of the conversation are not there: 100 files are the most" in warnings
