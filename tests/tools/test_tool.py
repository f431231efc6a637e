"""What tools are made of."""

import pytest
from pydantic import ValidationError

from openskills.tools.tool import Arguments


class Wish(Arguments):
    name: str
    number: int = 3


def test_null_is_the_same_as_nothing() -> None:
    assert Wish.model_validate({"name": "a", "number": None}) == Wish(name="a")
    with pytest.raises(ValidationError, match="name"):
        Wish.model_validate({"name": None})


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(ValidationError, match="other"):
        Wish.model_validate({"name": "a", "other": 1})
    with pytest.raises(ValidationError):
        Wish.model_validate([1])
