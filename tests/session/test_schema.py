"""Tables are made in steps that a database remembers."""

import re

import pytest

from openskills.errors import SkillError
from openskills.session.schema import STEPS, missing_steps


def test_an_empty_database_has_every_step_before_it() -> None:
    assert [number for number, _ in missing_steps(0, place="here")] == list(range(1, len(STEPS) + 1))


def test_a_database_of_today_has_none() -> None:
    assert missing_steps(len(STEPS), place="here") == []


def test_an_older_database_has_the_newer_steps_before_it() -> None:
    steps = (("one",), ("two", "and a half"), ("three",))
    assert missing_steps(1, place="here", steps=steps) == [(2, ("two", "and a half")), (3, ("three",))]


def test_a_database_of_a_newer_version_is_refused_with_what_to_do() -> None:
    expected = "the place was written by a newer OpenSkill: its tables have version 9, this one knows 1; install the"
    with pytest.raises(SkillError, match=re.escape(expected)):
        missing_steps(9, place="the place", steps=(("one",),))
