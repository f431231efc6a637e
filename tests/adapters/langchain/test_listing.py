"""The list of skills as text."""

from typing import Any

from openskills.adapters.langchain.listing import skills_list
from openskills.adapters.langchain.resources import ResourceMetadata
from tests.adapters.langchain.entries import entry


def test_an_entry_has_everything_that_is_known() -> None:
    skill = entry("pdf", license="MIT", compatibility="Python", allowed_tools=["search", "fetch"])
    assert skills_list([skill], [], {}) == (
        "- **pdf**: Does it. (License: MIT, Compatibility: Python)\n"
        "  -> Recommended tools: search, fetch\n"
        '  -> Use `load_skill("pdf")` to read full instructions (`/skills/pdf/SKILL.md`)'
    )


def test_a_loaded_skill_shows_its_resources_instead_of_how_to_load_it() -> None:
    files = [ResourceMetadata(path="/x", type="script", skill_name="pdf")]
    assert skills_list([entry("pdf")], ["pdf"], {"pdf": files}) == (
        "- **pdf** [Loaded]: Does it.\n  -> Resources: 1 script"
    )
    assert skills_list([entry("pdf")], ["pdf"], {}) == "- **pdf** [Loaded]: Does it."


def test_hints_are_shown_only_on_request() -> None:
    manual: Any = {"disable_model_invocation": True}
    hinted: Any = {"argument_hint": "[env]"}
    skills = [entry("a", extensions=manual), entry("b", extensions=hinted)]
    assert "Manual" not in skills_list(skills, [], {})
    text = skills_list(skills, [], {}, hints=True)
    assert "- **a** (Manual only): Does it.\n  -> Do not load this skill yourself" in text
    assert '`load_skill("b", args="[env]")`' in text
