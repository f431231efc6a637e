import pytest

from openskills.bench.injected import InjectedTalk, injected
from openskills.bench.talk import play
from openskills.bench.tasks import Step, StepKind, Turn
from openskills.errors import InvalidArgument
from openskills.prompt.shown import Layer
from openskills.sync import run
from openskills.tokens import estimate
from tests.bench.shelves import BODY, DOC, contents

SKILLS = [contents("forms", "a.md", "b.md"), contents("plain")]
TURN = Turn("Go", (Step(StepKind.LOAD, "forms"), Step(StepKind.DOCS, "forms", ("a.md",))))


def played(*turns: Turn, docs: bool) -> tuple[InjectedTalk, list[list[dict[str, str]]]]:
    talk = InjectedTalk(SKILLS, injected(SKILLS, docs=docs), estimate, docs=docs)
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
    assert talk.tokens[0].by_layer[Layer.DOCS] == 0
    assert talk.tokens[1].by_layer[Layer.DOCS] == estimate(DOC)


def test_lines_of_a_document_and_all_documents_can_be_meant() -> None:
    part = Turn("Go", (Step(StepKind.DOCS, "forms", ("a.md#L1-L1",)),))
    every = Turn("Go", (Step(StepKind.DOCS, "forms", ("*",)),))
    assert "[Doc] a.md#L1-L1" in played(part, docs=False)[1][-1][-1]["content"]
    assert played(every, docs=False)[1][-1][-1]["content"].count(DOC) == 2


@pytest.mark.parametrize(("skill", "doc"), [("forms", "zzz.md"), ("nobody", "a.md")])
def test_a_script_that_does_not_fit_the_skills_is_refused(skill: str, doc: str) -> None:
    with pytest.raises(InvalidArgument, match=r"nobody|zzz\.md"):
        played(Turn("Go", (Step(StepKind.DOCS, skill, (doc,)),)), docs=False)


def test_requests_that_only_grow_are_new_only_where_they_grow() -> None:
    talk, _ = played(TURN, docs=False)
    assert talk.tokens[1].unchanged == talk.tokens[0].total
