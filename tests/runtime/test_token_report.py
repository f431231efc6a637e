import json
import os
from pathlib import Path
from typing import Any

import pytest

from openskills.catalog.catalog import Catalog
from openskills.errors import InvalidArgument
from openskills.runtime.runtime import SkillRuntime
from openskills.runtime.token_report import (
    ANSWER,
    TOOLS,
    Cost,
    DisclosureMode,
    InjectedConversation,
    ProgressiveConversation,
    ScriptedStep,
    ScriptedTask,
    ScriptedTurn,
    SkillContents,
    StepKind,
    TokenReport,
    default_tasks,
    measure_tokens,
    parse_tasks,
    play,
    read_contents,
    sum_costs,
)
from openskills.settings import Settings
from openskills.tokens import estimate_tokens

BODY, DOC = "Do it step by step. " * 30, "All about forms. " * 40


def contents(name: str, *docs: str, body: str = BODY) -> SkillContents:
    """A skill in memory."""
    return SkillContents(name, f"{name} does things. Use for things.", body, dict.fromkeys(docs, DOC))


def on_disk(base: Path, *skills: SkillContents) -> tuple[Catalog, Settings]:
    """The catalog of these skills, written below `base`."""
    for skill in skills:
        folder = base / "skills" / skill.name
        folder.mkdir(parents=True)
        front = f"---\nname: {skill.name}\ndescription: {skill.description}\n---\n"
        (folder / "SKILL.md").write_text(f"{front}\n{skill.body}\n", encoding="utf-8")
        for path, text in skill.docs.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    settings = Settings.from_env({"HOME": str(base), "PATH": os.defpath})
    return Catalog.from_paths(base / "skills", settings=settings), settings


def library(count: int) -> list[SkillContents]:
    return [contents(f"skill-{number:02d}", body="word " * (number + 1)) for number in range(count)]


def loaded(task: ScriptedTask) -> list[str]:
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
    (first, second), _ = read_contents(catalog.skills)
    assert (first.name, second.name) == ("alpha", "forms")
    assert second.docs == {"references/a.md": DOC}
    assert second.body.startswith("Do it step by step.")


def test_what_cannot_be_read_is_named_and_hides_nothing_else(tmp_path: Path) -> None:
    catalog, _ = on_disk(tmp_path, contents("forms", "good.md", "bad.md"), contents("gone"))
    (tmp_path / "skills" / "forms" / "bad.md").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "skills" / "gone" / "SKILL.md").unlink()
    found, unread = read_contents(catalog.skills)
    assert unread == ("forms/bad.md", "gone")
    assert [(skill.name, list(skill.docs)) for skill in found] == [("forms", ["good.md"])]


LOAD, DOCS = ScriptedStep(StepKind.LOAD, "forms"), ScriptedStep(StepKind.DOCS, "forms", ("a.md",))
LOOK = ScriptedStep(StepKind.OTHER, answer="forty-two")


async def play_progressive(
    tmp_path: Path, *turns: ScriptedTurn, queries: dict[str, str] | None = None
) -> tuple[list[dict[str, Any]], tuple[Cost, ...]]:
    catalog, settings = on_disk(tmp_path, contents("forms", "a.md"))
    async with SkillRuntime(catalog, settings=settings) as runtime, runtime.session("s") as session:
        conversation = ProgressiveConversation(session, queries)
        costs = await play(conversation, turns)
        return conversation.messages, costs


async def test_a_request_follows_what_the_user_says_and_every_call(tmp_path: Path) -> None:
    messages, costs = await play_progressive(tmp_path, ScriptedTurn("Go", (LOAD, DOCS, LOOK)), ScriptedTurn("And now?"))
    assert len(costs) == 5
    assert [one["role"] for one in messages if one["role"] != "assistant"] == ["system", "user", *["tool"] * 3, "user"]
    assert [one["content"] for one in messages if one["role"] == "tool"][-1] == "forty-two"


async def test_texts_appear_when_they_are_asked_for(tmp_path: Path) -> None:
    _, costs = await play_progressive(tmp_path, ScriptedTurn("Go", (LOAD, DOCS, LOOK)))
    assert [cost.by_layer["body"] > 0 for cost in costs] == [False, True, True, True]
    assert [cost.by_layer["docs"] > 0 for cost in costs] == [False, False, True, True]


async def test_a_skill_that_is_not_listed_is_searched_for_first(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="skill_search"):
        # This session lists everything, so it has no such tool: the call was made.
        await play_progressive(tmp_path, ScriptedTurn("Go", (LOAD,)), queries={"forms": "fill in forms"})


async def test_a_script_that_loads_an_unknown_skill_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="skill_load of 'nobody' failed"):
        await play_progressive(tmp_path, ScriptedTurn("Go", (ScriptedStep(StepKind.LOAD, "nobody"),)))


def written(*steps: dict[str, Any], **more: Any) -> str:
    return json.dumps({"tasks": [{"name": "one", "turns": [{"user": "Hello", "steps": list(steps)}], **more}]})


def test_each_kind_of_step_is_understood() -> None:
    text = written({"load": "pdf"}, {"docs": ["a.md"], "skill": "pdf"}, {"answer": "42"}, {"answer": ""})
    ((turn,),) = [task.turns for task in parse_tasks(text)]
    assert turn.user == "Hello"
    assert turn.steps == (
        ScriptedStep(StepKind.LOAD, "pdf"),
        ScriptedStep(StepKind.DOCS, "pdf", ("a.md",)),
        ScriptedStep(StepKind.OTHER, answer="42"),
        ScriptedStep(StepKind.OTHER, answer=ANSWER),
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


async def reported(tmp_path: Path, *skills: SkillContents) -> TokenReport:
    catalog, settings = on_disk(tmp_path, *skills)
    return await measure_tokens(catalog, encoding=None, settings=settings)


async def test_the_library_is_measured_by_layer(tmp_path: Path) -> None:
    report = await reported(tmp_path, contents("forms", "a.md", "b.md"), contents("plain"))
    assert (report.skills, report.counted, report.exact) == (2, "estimate", False)
    assert report.docs == 2 * estimate_tokens(DOC)
    assert abs(report.bodies - 2 * estimate_tokens(BODY)) <= 2
    assert 0 < report.overview < report.bodies


async def test_a_task_that_needs_no_skill_pays_for_none_with_progressive_disclosure(tmp_path: Path) -> None:
    task, *_ = (await reported(tmp_path, contents("forms", "a.md"), contents("plain"))).tasks
    assert task.name == "needs no skill"
    assert task.cost(DisclosureMode.PROGRESSIVE).by_layer["body"] == 0
    assert task.cost(DisclosureMode.BODIES).by_layer["body"] >= 3 * 2 * estimate_tokens(BODY)
    assert task.cost(DisclosureMode.EVERYTHING).by_layer["docs"] == 3 * estimate_tokens(DOC)


async def test_full_injection_is_charged_for_fewer_requests(tmp_path: Path) -> None:
    _, forms, *_ = (await reported(tmp_path, contents("forms", "a.md"))).tasks
    assert [forms.cost(way).requests for way in DisclosureMode] == [4, 3, 2]


async def test_layers_and_requests_add_up(tmp_path: Path) -> None:
    report = await reported(tmp_path, contents("forms", "a.md"), contents("plain"))
    for way in DisclosureMode:
        cost = report.cost(way)
        assert sum(cost.by_layer.values()) == cost.total
        assert cost.total == sum(one.total for task in report.tasks for one in task.modes[way])
        assert 0 < cost.new < cost.total


async def test_many_skills_are_cheaper_to_disclose_and_few_small_ones_are_not(tmp_path: Path) -> None:
    many = [contents(f"skill-{number:02d}", body=BODY * 3) for number in range(40)]
    assert (await reported(tmp_path / "many", *many)).savings(DisclosureMode.BODIES) > 0.5
    assert (await reported(tmp_path / "few", contents("tiny", body="Do it."))).savings(DisclosureMode.BODIES) < 0


async def test_a_skill_that_the_list_has_no_room_for_is_searched_for_and_that_is_paid_for(tmp_path: Path) -> None:
    skills = [
        SkillContents(f"skill-{number:04d}", f"Makes kind {number} of reports. " + "Use for it. " * 20, "x")
        for number in range(700)
    ]
    _, one, *_ = (await reported(tmp_path, *skills)).tasks
    assert one.cost(DisclosureMode.PROGRESSIVE).requests == 4


async def test_tool_schemas_cost_something_and_are_new_only_once() -> None:
    conversation = InjectedConversation(SKILLS, estimate_tokens, docs=True)
    first, second = await play(conversation, (ScriptedTurn("Go", (LOOK,)),), tools=10)
    plain, _ = await play(InjectedConversation(SKILLS, estimate_tokens, docs=True), (ScriptedTurn("Go", (LOOK,)),))
    assert (first.total, first.new, first.by_layer[TOOLS]) == (plain.total + 10, plain.total + 10, 10)
    assert second.new == second.total - first.total


def test_costs_together_are_their_sum_by_layer() -> None:
    found = sum_costs([Cost(10, 5, {"body": 7}), Cost(30, 1, {"body": 3, "docs": 2}, requests=2)])
    assert found == Cost(40, 6, {"body": 10, "docs": 2}, requests=3)
    assert found.per_request == 40 / 3


def test_nothing_costs_nothing() -> None:
    assert sum_costs([]).total == sum_costs([]).per_request == 0


async def test_tokens_are_exact_if_the_tokenizer_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("bpe_openai")
    catalog, settings = on_disk(tmp_path, contents("forms"))
    found = await measure_tokens(catalog, encoding="cl100k_base", settings=settings)
    assert (found.counted, found.exact) == ("cl100k_base", True)
    with pytest.raises(InvalidArgument, match="unknown encoding"):
        await measure_tokens(catalog, encoding="klingon", settings=settings)


SKILLS = [contents("forms", "a.md", "b.md"), contents("plain")]
TURN = ScriptedTurn("Go", (ScriptedStep(StepKind.LOAD, "forms"), ScriptedStep(StepKind.DOCS, "forms", ("a.md",))))


async def play_injected(*turns: ScriptedTurn, docs: bool) -> tuple[list[dict[str, Any]], tuple[Cost, ...]]:
    """The messages before the final answer, and the costs."""
    conversation = InjectedConversation(SKILLS, estimate_tokens, docs=docs)
    costs = await play(conversation, turns)
    return conversation.messages[:-1], costs


@pytest.mark.parametrize("docs", [True, False])
async def test_every_text_stands_in_the_system_message_once(docs: bool) -> None:
    messages, _ = await play_injected(TURN, docs=docs)
    system = messages[0]["content"]
    assert system.count(BODY) == 2
    assert system.count(DOC) == (2 if docs else 0)


async def test_nothing_is_called_for_what_is_in_the_prompt() -> None:
    assert len((await play_injected(TURN, docs=True))[1]) == 1


async def test_a_document_that_is_not_in_the_prompt_comes_as_an_answer() -> None:
    messages, costs = await play_injected(TURN, docs=False)
    assert messages[-1]["content"].count(DOC) == 1
    assert [cost.by_layer["docs"] for cost in costs] == [0, estimate_tokens(DOC)]
    assert costs[1].total - costs[1].new == costs[0].total


async def test_lines_of_a_document_and_all_documents_can_be_meant() -> None:
    part = ScriptedTurn("Go", (ScriptedStep(StepKind.DOCS, "forms", ("a.md#L1-L1",)),))
    every = ScriptedTurn("Go", (ScriptedStep(StepKind.DOCS, "forms", ("*",)),))
    assert "[Doc] a.md#L1-L1" in (await play_injected(part, docs=False))[0][-1]["content"]
    assert (await play_injected(every, docs=False))[0][-1]["content"].count(DOC) == 2


@pytest.mark.parametrize(("skill", "doc"), [("forms", "zzz.md"), ("nobody", "a.md")])
async def test_a_script_that_does_not_fit_the_skills_is_refused(skill: str, doc: str) -> None:
    with pytest.raises(InvalidArgument, match=r"nobody|zzz\.md"):
        await play_injected(ScriptedTurn("Go", (ScriptedStep(StepKind.DOCS, skill, (doc,)),)), docs=False)
