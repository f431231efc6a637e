"""How a skill says no."""

import pytest

from openskills.skillkit import Refused


@pytest.mark.parametrize(
    ("word", "code"),
    [("INVALID_ARGUMENT", 400), ("FORBIDDEN_PATH", 403), ("INTERNAL", 500), ("LIMIT_EXCEEDED", 413)],
)
def test_a_word_has_the_number_of_the_error_table(word: str, code: int) -> None:
    refused = Refused(word, "no", field="x")
    assert (refused.code, refused.message, refused.details) == (code, "no", {"field": "x"})


def test_a_word_that_nobody_knows_is_a_mistake_of_the_author() -> None:
    with pytest.raises(ValueError, match=r"'OOPS' is no reason; use one of .*FORBIDDEN_PATH"):
        Refused("OOPS", "no")
