"""Options that make sense."""

from typing import Any

import pytest

from openskills.errors import InvalidArgument
from openskills.prompt.blocks import Placement
from openskills.runtime.options import SessionOptions, WhenLost
from openskills.session.state import LoadMode, keep_most_recent
from openskills.tools.names import ToolProfile


def test_text_is_taken_for_every_choice() -> None:
    options = SessionOptions(load_mode=" Session ", placement="system", when_lost="unload", profile="FULL")
    assert options.load_mode is LoadMode.SESSION
    assert options.placement is Placement.SYSTEM
    assert options.when_lost is WhenLost.UNLOAD
    assert options.profile is ToolProfile.FULL


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"load_mode": "forever"}, "load_mode.*turn, once, session"),
        ({"placement": "user"}, "placement.*tool_result, system"),
        ({"profile": "none"}, "profile.*full, knowledge_only"),
        ({"overview_format": "toml"}, "overview_format.*xml"),
        ({"max_loaded_skills": -1}, "max_loaded_skills.*negative"),
        ({"evict": keep_most_recent(1), "max_loaded_skills": 3}, "evict"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_field(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        SessionOptions(**given)


def test_secrets_are_not_in_what_is_printed() -> None:
    assert "hunter2" not in repr(SessionOptions(secrets={"TOKEN": "hunter2"}))
