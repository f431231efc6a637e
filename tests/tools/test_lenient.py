"""What is forgiven."""

import pytest
from pydantic import TypeAdapter, ValidationError

from openskills.tools.lenient import Texts

_TEXTS: TypeAdapter[list[str]] = TypeAdapter(Texts)


def test_a_single_text_is_a_list_of_one() -> None:
    assert _TEXTS.validate_python("a") == ["a"]
    assert _TEXTS.validate_python(["a", "b"]) == ["a", "b"]


def test_what_is_no_text_is_not_forgiven() -> None:
    with pytest.raises(ValidationError):
        _TEXTS.validate_python([1])


def test_the_schema_says_a_list() -> None:
    assert _TEXTS.json_schema() == {"items": {"type": "string"}, "type": "array"}
