"""A skill that is instructions only."""

import re

from tests.skills.shipped import SKILLS, documented

FOLDER = SKILLS / "meeting-notes"


def test_it_needs_no_script_and_links_to_its_layout() -> None:
    assert documented("meeting-notes") == []
    assert not (FOLDER / "scripts").exists()
    (link,) = re.findall(r"\]\(([^)]+)\)", (FOLDER / "SKILL.md").read_text("utf-8"))
    assert (FOLDER / link).is_file()


def test_the_layout_has_a_place_for_everything_that_the_instructions_name() -> None:
    layout = (FOLDER / "assets" / "minutes.md").read_text("utf-8")
    assert [line for line in layout.splitlines() if line.startswith("#")] == [
        *("# {title}, {date}", "## Decisions", "## Action items", "## Open questions"),
    ]
    assert "| what | owner | until |" in layout
