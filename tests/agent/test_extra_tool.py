"""Tools of your own."""

from openskills.agent.extra_tool import ExtraTool


async def nothing(_: object) -> str:
    return ""


def test_a_tool_is_described_as_models_want_it() -> None:
    assert ExtraTool("x", "Does x.", nothing).described() == {
        "type": "function",
        "function": {"name": "x", "description": "Does x.", "parameters": {"type": "object", "properties": {}}},
    }
