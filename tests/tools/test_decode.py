"""From what a model wrote to arguments."""

from typing import Any

import pytest

from openskills.errors import InvalidArgument
from openskills.tools.decode import decode
from openskills.tools.docs import SKILL_SELECT_DOCS
from openskills.tools.load import SKILL_LOAD, LoadArguments
from openskills.tools.search import SKILL_SEARCH


@pytest.mark.parametrize("given", [{"skill": "a"}, '{"skill": "a"}', {"skill": "a", "docs": None}])
def test_objects_and_json_text_are_taken(given: dict[str, Any] | str) -> None:
    assert decode(SKILL_LOAD, given) == LoadArguments(skill="a")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "skill: is missing; skill_load takes skill, docs, include_all_docs"),
        ("", "skill: is missing"),
        ("{", "are no JSON"),
        (5, "are a int"),
        (["x"], "are a list"),
        ("[1]", "are a JSON list"),
        ('{"skill": ' + "1" * 5000 + "}", "are no JSON"),
        ("[" * 100_000, "nested too deeply|are no JSON"),
        ({"skill": "a", "doc": "x"}, "doc: is no field of skill_load; it takes"),
        ({"skill": ["a"]}, r"skill: .*it was \['a'\]"),
        ({"skill": 3}, "skill: "),
        ({"skill": "a", "docs": [{"x" * 10_000: 1}]}, "docs.0: "),
    ],
)
def test_what_is_wrong_is_said_with_the_field(given: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said) as caught:
        decode(SKILL_LOAD, given)
    assert len(caught.value.message) < 600


def test_a_choice_names_what_there_is() -> None:
    with pytest.raises(InvalidArgument, match="'add', 'replace' or 'clear'"):
        decode(SKILL_SELECT_DOCS, {"skill": "a", "mode": "all"})
    with pytest.raises(InvalidArgument, match=r"limit: .*20"):
        decode(SKILL_SEARCH, {"query": "x", "limit": 1000})
