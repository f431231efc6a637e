""""""

from pathlib import Path

import pytest

from openskills.bench.tasks import (
    BenchStep,
    BenchTask,
    BenchTurn,
    SkillContents,
    StepKind,
    default_tasks,
    play,
    read_library,
)
from openskills.bench.token_report import (
    TOOLS,
    Cost,
    DisclosureMode,
    InjectedConversation,
    ReportCounter,
    TokenReport,
    best_counter,
    build_injected_prompt,
    cost_of,
    estimate_counter,
    sum_costs,
    token_report,
)
from openskills.errors import InvalidArgument
from openskills.prompt.blocks import PromptLayer
from openskills.prompt.usage import RequestTokens
from openskills.sync import run
from openskills.tokens import estimate_tokens
from tests.bench.shelves import BODY, DOC, contents, on_disk


def reported(tmp_path: Path, *skills: SkillContents, tasks: tuple[BenchTask, ...] = ()) -> TokenReport:
    catalog, settings = on_disk(tmp_path, *skills)
    library = read_library(catalog.skills)
    return run(token_report(catalog, library, tasks or default_tasks(library.skills), estimate_counter(), settings))


def test_the_library_is_measured_by_layer(tmp_path: Path) -> None:
    report = reported(tmp_path, contents("forms", "a.md", "b.md"), contents("plain"))
    assert (report.skills, report.counted, report.exact) == (2, "estimate", False)
    assert report.docs == 2 * estimate_tokens(DOC)
    assert abs(report.bodies - 2 * estimate_tokens(BODY)) <= 2
    assert 0 < report.overview < report.bodies


def test_a_task_that_needs_no_skill_pays_for_none_with_progressive_disclosure(tmp_path: Path) -> None:
    task, *_ = reported(tmp_path, contents("forms", "a.md"), contents("plain")).tasks
    assert task.name == "needs no skill"
    assert task.cost(DisclosureMode.PROGRESSIVE).by_layer["body"] == 0
    assert task.cost(DisclosureMode.BODIES).by_layer["body"] >= 3 * 2 * estimate_tokens(BODY)
    assert task.cost(DisclosureMode.EVERYTHING).by_layer["docs"] == 3 * estimate_tokens(DOC)


def test_full_injection_is_charged_for_fewer_requests(tmp_path: Path) -> None:
    _, forms, *_ = reported(tmp_path, contents("forms", "a.md")).tasks
    assert [forms.cost(way).requests for way in DisclosureMode] == [4, 3, 2]


def test_layers_and_requests_add_up(tmp_path: Path) -> None:
    report = reported(tmp_path, contents("forms", "a.md"), contents("plain"))
    for way in DisclosureMode:
        cost = report.cost(way)
        assert sum(cost.by_layer.values()) == cost.total
        assert cost.total == sum(one.total for task in report.tasks for one in task.ways[way])
        assert 0 < cost.new < cost.total


def test_many_skills_are_cheaper_to_disclose_and_few_small_ones_are_not(tmp_path: Path) -> None:
    many = [contents(f"skill-{number:02d}", body=BODY * 3) for number in range(40)]
    assert reported(tmp_path / "many", *many).savings(DisclosureMode.BODIES) > 0.5
    assert reported(tmp_path / "few", contents("tiny", body="Do it.")).savings(DisclosureMode.BODIES) < 0


def test_a_skill_that_the_list_has_no_room_for_is_searched_for_and_that_is_paid_for(tmp_path: Path) -> None:
    skills = [
        SkillContents(f"skill-{number:04d}", f"Makes kind {number} of reports. " + "Use for it. " * 20, "x")
        for number in range(700)
    ]
    _, one, *_ = reported(tmp_path, *skills).tasks
    assert one.cost(DisclosureMode.PROGRESSIVE).requests == 4


def test_descriptions_of_tools_cost_something_and_are_new_only_once() -> None:
    first = cost_of(RequestTokens(100, {PromptLayer.OTHER: 100}), 10)
    second = cost_of(RequestTokens(130, {PromptLayer.OTHER: 130}, unchanged=100, before=100), 10)
    assert (first.total, first.new) == (110, 110)
    assert (second.total, second.new) == (140, 30)
    assert second.by_layer == {TOOLS: 10, "other": 130}


def test_costs_together_are_their_sum_by_layer() -> None:
    found = sum_costs([Cost(10, 5, {"body": 7}), Cost(30, 1, {"body": 3, "docs": 2}, requests=2)])
    assert found == Cost(40, 6, {"body": 10, "docs": 2}, requests=3)
    assert found.per_request == 40 / 3


def test_nothing_costs_nothing() -> None:
    assert sum_costs([]).total == sum_costs([]).per_request == 0


def test_the_estimate_says_that_it_is_one() -> None:
    assert (estimate_counter().name, estimate_counter().exact, estimate_counter().count("word")) == (
        "estimate",
        False,
        estimate_tokens("word"),
    )


def test_the_exact_counter_is_taken_where_it_is_installed() -> None:
    pytest.importorskip("bpe_openai")
    found = best_counter("cl100k_base")
    assert (found.name, found.exact, found.count("hello world")) == ("cl100k_base", True, 2)


def test_an_unknown_encoding_is_refused() -> None:
    pytest.importorskip("bpe_openai")
    with pytest.raises(InvalidArgument, match="unknown encoding"):
        best_counter("klingon")


def test_a_text_is_counted_once_by_a_counter_that_remembers() -> None:
    seen: list[str] = []
    counting = ReportCounter(lambda text: len(seen.append(text) or text), "letters", exact=True)
    count = counting.with_cache()
    assert [count("abc"), count("abc"), count("d")] == [3, 3, 1]
    assert seen == ["abc", "d"]


SKILLS = [contents("forms", "a.md", "b.md"), contents("plain")]
TURN = BenchTurn("Go", (BenchStep(StepKind.LOAD, "forms"), BenchStep(StepKind.DOCS, "forms", ("a.md",))))


def played(*turns: BenchTurn, docs: bool) -> tuple[InjectedConversation, list[list[dict[str, str]]]]:
    talk = InjectedConversation(SKILLS, build_injected_prompt(SKILLS, docs=docs), estimate_tokens, docs=docs)
    return talk, run(play(talk, turns))


@pytest.mark.parametrize("docs", [True, False])
def test_every_text_stands_in_the_system_message_once(docs: bool) -> None:
    _, requests = played(TURN, docs=docs)
    system = requests[0][0]["content"]
    assert system.count(BODY) == 2
    assert system.count(DOC) == (2 if docs else 0)


def test_nothing_is_called_for_what_is_in_the_prompt() -> None:
    assert len(played(TURN, docs=True)[1]) == 1


def test_a_document_that_is_not_in_the_prompt_comes_as_an_answer() -> None:
    talk, requests = played(TURN, docs=False)
    assert len(requests) == 2
    assert requests[-1][-1]["content"].count(DOC) == 1
    assert talk.tokens[0].by_layer[PromptLayer.DOCS] == 0
    assert talk.tokens[1].by_layer[PromptLayer.DOCS] == estimate_tokens(DOC)


def test_lines_of_a_document_and_all_documents_can_be_meant() -> None:
    part = BenchTurn("Go", (BenchStep(StepKind.DOCS, "forms", ("a.md#L1-L1",)),))
    every = BenchTurn("Go", (BenchStep(StepKind.DOCS, "forms", ("*",)),))
    assert "[Doc] a.md#L1-L1" in played(part, docs=False)[1][-1][-1]["content"]
    assert played(every, docs=False)[1][-1][-1]["content"].count(DOC) == 2


@pytest.mark.parametrize(("skill", "doc"), [("forms", "zzz.md"), ("nobody", "a.md")])
def test_a_script_that_does_not_fit_the_skills_is_refused(skill: str, doc: str) -> None:
    with pytest.raises(InvalidArgument, match=r"nobody|zzz\.md"):
        played(BenchTurn("Go", (BenchStep(StepKind.DOCS, skill, (doc,)),)), docs=False)


def test_requests_that_only_grow_are_new_only_where_they_grow() -> None:
    talk, _ = played(TURN, docs=False)
    assert talk.tokens[1].unchanged == talk.tokens[0].total
