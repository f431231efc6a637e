"""What a host says of its skills, read without trusting it."""

from typing import Any

import pytest

from openskills.errors import BadSkillOutput, Unauthorized, UnknownSkill
from openskills.host.calling.listing import HostedSkill, read_skill, read_skills, told
from openskills.host.calling.reading import SkillFailed, from_plain
from openskills.host.result import InvokeResult
from tests.host.scripted_server import normal


def document(data: Any) -> InvokeResult:
    return from_plain(normal(data=data))


def refusal(code: int, **details: Any) -> InvokeResult:
    return from_plain(normal(success=False, data=None, error={"code": code, "message": "no", "details": details}))


def test_a_skill_has_what_the_host_says() -> None:
    schema = {"type": "object", "required": ["query"]}
    plain = {"id": "s", "description": "Looks.", "status": "ready", "kind": "cli:python", "version": "1", "more": 2}
    (skill,) = read_skills(document({"skills": [{**plain, "input_schema": schema}]}))
    assert skill.plain["more"] == 2
    assert skill.required == ("query",)
    assert (skill.description, skill.kind, skill.version, skill.ready) == ("Looks.", "cli:python", "1", True)


def test_fields_of_a_strange_type_are_as_good_as_none() -> None:
    assert read_skill(document({"id": "s", "description": 3, "input_schema": []}), "s") == HostedSkill(
        "s", plain={"id": "s", "description": 3, "input_schema": []}
    )
    assert HostedSkill("s", input_schema={"required": "query"}).required == ()


NO_LISTS: list[Any] = [{}, {"skills": {}}, {"skills": [{}]}, {"skills": ["echo"]}]


@pytest.mark.parametrize("data", NO_LISTS)
def test_a_list_that_is_none_is_refused(data: Any) -> None:
    with pytest.raises(BadSkillOutput):
        read_skills(document(data))


def test_an_unknown_skill_has_the_nearest_names() -> None:
    with pytest.raises(UnknownSkill) as caught:
        read_skill(refusal(404, near=["echo"]), "ecko")
    assert caught.value.near == ("echo",)
    with pytest.raises(UnknownSkill):
        read_skill(refusal(404, near="echo"), "ecko")


def test_what_kept_a_document_back_is_raised() -> None:
    with pytest.raises(Unauthorized, match="OPENSKILL_API_KEY"):
        told(refusal(401))
    with pytest.raises(SkillFailed):
        told(refusal(500))
