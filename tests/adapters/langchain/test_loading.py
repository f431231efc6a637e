"""Loading and unloading as values; most of it is tested by the document's names."""

from typing import Any

import pytest

from openskills.adapters.langchain.calls import SkillCall
from openskills.adapters.langchain.discovery import Discovery
from openskills.adapters.langchain.forking import Delegation
from openskills.adapters.langchain.loading import Loading, with_arguments, with_resources
from openskills.adapters.langchain.marks import digest_of, mark_of
from openskills.adapters.langchain.steps import blocking
from tests.adapters.langchain.entries import entry
from tests.adapters.langchain.runtimes import text_of, update_of
from tests.adapters.langchain.scripted import load, says, unload
from tests.skill_writer import WriteSkill


def loading(limit: int = 2, **options: Any) -> Loading:
    return Loading(Discovery(["/skills/"]), limit, **options)


def answer(backend: Any, skill: str, state: dict[str, Any], call_id: str = "1", **options: Any) -> Any:
    given = {"skills_metadata": [entry("a"), entry("b"), entry("c")], **state}
    return blocking(loading(**options).load(SkillCall.of(skill, call_id, given)), backend)


def test_the_result_bears_a_mark_of_what_was_read(write_skill: WriteSkill, backend: Any) -> None:
    content = (write_skill("a") / "SKILL.md").read_bytes()
    result = answer(backend, "a", {"skills_loaded": ["b"]})
    (message,) = update_of(result)["messages"]
    mark = mark_of(message)
    assert mark is not None
    assert (mark.skill, mark.before, mark.digest) == ("a", ("b",), digest_of(content))
    assert mark.characters == len(text_of(result))


def test_a_list_that_is_missing_is_found_again(write_skill: WriteSkill, backend: Any) -> None:
    write_skill("a")
    assert not isinstance(answer(backend, "a", {"skills_metadata": None}), str)


@pytest.mark.parametrize(
    ("earlier", "refused"),
    [
        ((), True),
        ((unload("a", "0"),), False),
        ((unload("c", "0"),), True),
        ((load("c", "0"),), True),
    ],
)
def test_at_the_limit_a_load_goes_on_only_if_an_earlier_call_may_make_room(
    write_skill: WriteSkill, backend: Any, earlier: Any, refused: bool
) -> None:
    write_skill("c")
    state = {"messages": [says(*earlier, load("c", "1"))], "skills_loaded": ["a", "b"]}
    assert isinstance(answer(backend, "c", state), str) is refused


def test_text_that_is_not_utf8_is_an_error_for_the_model(write_skill: WriteSkill, backend: Any) -> None:
    (write_skill("a") / "SKILL.md").write_bytes(b"---\nname: \xff\n---\n")
    assert answer(backend, "a", {}).startswith("Error: Failed to decode skill file: 'utf-8' codec")


def test_resources_that_are_known_are_not_looked_for_again(write_skill: WriteSkill, backend: Any) -> None:
    (write_skill("a") / "new.md").write_text("x", "utf-8")
    known = [{"path": "/old.md", "type": "other", "skill_name": "a"}]
    assert "- [other] `/old.md`" in text_of(answer(backend, "a", {"skill_resources": {"a": known}}))
    again = {"messages": [says(unload("a", "0"), load("a", "1"))], "skills_loaded": ["a"]}
    assert "new.md" in text_of(answer(backend, "a", {"skill_resources": {"a": known}, **again}))


def test_a_skill_that_forks_becomes_a_delegation_whatever_is_loaded(write_skill: WriteSkill, backend: Any) -> None:
    (write_skill("a", body="Do $ARGUMENTS.") / "x.md").write_text("x", "utf-8")
    skills = [entry("a", extensions={"context": "fork", "agent": "helper"})]
    call = SkillCall.of("a", "1", {"skills_metadata": skills, "skills_loaded": ["a", "b"]})
    made = blocking(loading(fork=True).load(call, "it"), backend)
    assert isinstance(made, Delegation)
    assert made.agent == "helper"
    assert "Do it." in made.description
    assert "`/skills/a/x.md`" in made.description


def test_a_skill_that_forks_and_cannot_be_read_is_an_error(backend: Any) -> None:
    skills = [entry("gone", extensions={"context": "fork"})]
    call = SkillCall.of("gone", "1", {"skills_metadata": skills})
    assert str(blocking(loading(fork=True).load(call), backend)).startswith("Error: Failed to read")


def test_arguments_take_every_place_or_the_end() -> None:
    assert with_arguments("a $ARGUMENTS b $ARGUMENTS", "x") == "a x b x"
    assert with_arguments("a", "x") == "a\n\nARGUMENTS: x"
    assert with_arguments("a $ARGUMENTS", "") == "a $ARGUMENTS"


def test_a_text_without_resources_is_left_as_it_is() -> None:
    assert with_resources("text", []) == "text"
