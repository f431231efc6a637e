from pathlib import Path
from typing import Any

import pytest

from openskills.bench.talk import SessionTalk, play
from openskills.bench.tasks import Step, StepKind, Turn
from openskills.errors import InvalidArgument
from openskills.runtime.runtime import SkillRuntime
from openskills.sync import run
from tests.bench.shelves import BODY, DOC, contents, on_disk

LOAD, DOCS = Step(StepKind.LOAD, "forms"), Step(StepKind.DOCS, "forms", ("a.md",))
LOOK = Step(StepKind.OTHER, answer="forty-two")


def played(tmp_path: Path, *turns: Turn, searched: dict[str, str] | None = None) -> tuple[SessionTalk, list[list[Any]]]:
    catalog, settings = on_disk(tmp_path, contents("forms", "a.md"))

    async def talked() -> tuple[SessionTalk, list[list[Any]]]:
        async with SkillRuntime(catalog, settings=settings) as runtime, runtime.session("s") as session:
            talk = SessionTalk(session, searched)
            return talk, await play(talk, turns)

    return run(talked())


def test_a_request_follows_what_the_user_says_and_every_call(tmp_path: Path) -> None:
    talk, requests = played(tmp_path, Turn("Go", (LOAD, DOCS, LOOK)), Turn("And now?"))
    assert len(requests) == len(talk.tokens) == 5
    assert [request[-1]["role"] for request in requests] == ["user", "tool", "tool", "tool", "user"]


def test_texts_appear_when_they_are_asked_for(tmp_path: Path) -> None:
    _, requests = played(tmp_path, Turn("Go", (LOAD, DOCS, LOOK)))
    texts = [str([message["content"] for message in request]) for request in requests]
    assert [BODY.strip() in text for text in texts] == [False, True, True, True]
    assert [DOC.strip() in text for text in texts] == [False, False, True, True]
    assert requests[-1][-1]["content"] == "forty-two"


def test_a_skill_that_is_not_listed_is_searched_for_first(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="skill_search"):
        # This session lists everything, so it has no such tool: the call was made.
        played(tmp_path, Turn("Go", (LOAD,)), searched={"forms": "fill in forms"})


def test_a_script_that_does_not_fit_the_skills_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="skill_load of 'nobody' failed"):
        played(tmp_path, Turn("Go", (Step(StepKind.LOAD, "nobody"),)))
