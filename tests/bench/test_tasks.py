""""""

import json
from pathlib import Path
from typing import Any

import pytest

from openskills.bench.tasks import (
    ANSWER,
    BenchStep,
    BenchTask,
    BenchTurn,
    ProgressiveConversation,
    SkillContents,
    StepKind,
    default_tasks,
    parse_tasks,
    play,
    read_library,
)
from openskills.errors import InvalidArgument
from openskills.runtime.runtime import SkillRuntime
from openskills.sync import run
from tests.bench.shelves import BODY, DOC, contents, on_disk


def library(count: int) -> list[SkillContents]:
    return [contents(f"skill-{number:02d}", body="word " * (number + 1)) for number in range(count)]


def loaded(task: BenchTask) -> list[str]:
    return [step.skill for turn in task.turns for step in turn.steps if step.kind is StepKind.LOAD]


def test_the_same_library_in_any_order_gives_the_same_tasks() -> None:
    assert default_tasks(library(30)) == default_tasks(reversed(library(30)))


def test_nine_skills_from_the_shortest_to_the_longest_have_a_task_of_their_own() -> None:
    singles = [loaded(task) for task in default_tasks(library(30)) if task.name.startswith("one skill")]
    assert len(singles) == 9
    assert (singles[0], singles[-1]) == (["skill-00"], ["skill-29"])


def test_the_first_task_needs_no_skill_and_the_last_two_need_the_same_three() -> None:
    first, *_, question, questions = default_tasks(library(30))
    assert loaded(first) == []
    assert loaded(question) == loaded(questions)
    assert (len(question.turns), len(questions.turns)) == (1, 3)


def test_a_document_is_read_where_there_is_one() -> None:
    (_, plain, documented, *_) = default_tasks([contents("a", body="x"), contents("b", "one.md", "two.md")])
    assert [step.kind for step in plain.turns[0].steps] == [StepKind.LOAD, StepKind.OTHER]
    assert documented.turns[0].steps[1].docs == ("one.md",)


def test_a_library_of_one_skill_has_tasks_too() -> None:
    assert [task.name for task in default_tasks([contents("only")])] == ["needs no skill", "one skill: only"]


def test_bodies_and_documents_are_read_whole(tmp_path: Path) -> None:
    catalog, _ = on_disk(tmp_path, contents("forms", "references/a.md"), contents("alpha"))
    first, second = read_library(catalog.skills).skills
    assert (first.name, second.name) == ("alpha", "forms")
    assert second.docs == {"references/a.md": DOC}
    assert second.body.startswith("Do it step by step.")


def test_what_cannot_be_read_is_named_and_hides_nothing_else(tmp_path: Path) -> None:
    catalog, _ = on_disk(tmp_path, contents("forms", "good.md", "bad.md"), contents("gone"))
    (tmp_path / "skills" / "forms" / "bad.md").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "skills" / "gone" / "SKILL.md").unlink()
    library = read_library(catalog.skills)
    assert library.unread == ("forms/bad.md", "gone")
    assert [(skill.name, list(skill.docs)) for skill in library.skills] == [("forms", ["good.md"])]


LOAD, DOCS = BenchStep(StepKind.LOAD, "forms"), BenchStep(StepKind.DOCS, "forms", ("a.md",))
LOOK = BenchStep(StepKind.OTHER, answer="forty-two")


def played(
    tmp_path: Path, *turns: BenchTurn, searched: dict[str, str] | None = None
) -> tuple[ProgressiveConversation, list[list[Any]]]:
    catalog, settings = on_disk(tmp_path, contents("forms", "a.md"))

    async def talked() -> tuple[ProgressiveConversation, list[list[Any]]]:
        async with SkillRuntime(catalog, settings=settings) as runtime, runtime.session("s") as session:
            talk = ProgressiveConversation(session, searched)
            return talk, await play(talk, turns)

    return run(talked())


def test_a_request_follows_what_the_user_says_and_every_call(tmp_path: Path) -> None:
    talk, requests = played(tmp_path, BenchTurn("Go", (LOAD, DOCS, LOOK)), BenchTurn("And now?"))
    assert len(requests) == len(talk.tokens) == 5
    assert [request[-1]["role"] for request in requests] == ["user", "tool", "tool", "tool", "user"]


def test_texts_appear_when_they_are_asked_for(tmp_path: Path) -> None:
    _, requests = played(tmp_path, BenchTurn("Go", (LOAD, DOCS, LOOK)))
    texts = [str([message["content"] for message in request]) for request in requests]
    assert [BODY.strip() in text for text in texts] == [False, True, True, True]
    assert [DOC.strip() in text for text in texts] == [False, False, True, True]
    assert requests[-1][-1]["content"] == "forty-two"


def test_a_skill_that_is_not_listed_is_searched_for_first(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="skill_search"):
        # This session lists everything, so it has no such tool: the call was made.
        played(tmp_path, BenchTurn("Go", (LOAD,)), searched={"forms": "fill in forms"})


def test_a_script_that_does_not_fit_the_skills_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="skill_load of 'nobody' failed"):
        played(tmp_path, BenchTurn("Go", (BenchStep(StepKind.LOAD, "nobody"),)))


def written(*steps: dict[str, Any], **more: Any) -> str:
    return json.dumps({"tasks": [{"name": "one", "turns": [{"user": "Hello", "steps": list(steps)}], **more}]})


def test_each_kind_of_step_is_understood() -> None:
    text = written({"load": "pdf"}, {"docs": ["a.md"], "skill": "pdf"}, {"answer": "42"}, {"answer": ""})
    ((turn,),) = [task.turns for task in parse_tasks(text)]
    assert turn.user == "Hello"
    assert turn.steps == (
        BenchStep(StepKind.LOAD, "pdf"),
        BenchStep(StepKind.DOCS, "pdf", ("a.md",)),
        BenchStep(StepKind.OTHER, answer="42"),
        BenchStep(StepKind.OTHER, answer=ANSWER),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "the file: Invalid JSON"),
        ('{"tasks": []}', "tasks: List should have at least 1 item"),
        (written({"load": "pdf", "answer": "x"}), "tasks.0.turns.0.steps.0: a step is"),
        (written({"docs": ["a.md"]}), "tasks.0.turns.0.steps.0: a step is"),
        (written({}), "tasks.0.turns.0.steps.0: a step is"),
        (written(colour="red"), "tasks.0.colour: Extra inputs are not permitted"),
        ('{"tasks": [{"name": "x", "turns": [{"user": ""}]}]}', "tasks.0.turns.0.user: String should have at least 1"),
    ],
)
def test_a_wrong_document_is_refused_with_the_place(text: str, said: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_tasks(text)
    assert said in refused.value.message
