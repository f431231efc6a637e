"""From names to tools."""

from openskills.tools.registry import TOOLS


def test_every_tool_is_found_under_its_own_name() -> None:
    assert all(name == tool.name for name, tool in TOOLS.items())
    assert len(TOOLS) == 14
