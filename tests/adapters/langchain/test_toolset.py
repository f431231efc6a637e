"""The tools as LangChain sees them."""

from typing import Any

from openskills.adapters.langchain.toolset import skill_tools


class NoDoor:
    """Nobody calls these tools here."""

    def load(self, skill: str, args: str, runtime: Any) -> str:  # noqa: ARG002
        return skill + args

    async def loading(self, skill: str, args: str, runtime: Any) -> str:  # noqa: ARG002
        return skill + args

    def unload(self, skill: str, runtime: Any) -> str:  # noqa: ARG002
        return skill


def schemas(*, with_arguments: bool) -> dict[str, Any]:
    tools = skill_tools(NoDoor(), with_arguments=with_arguments)
    return {tool.name: tool.tool_call_schema.model_json_schema() for tool in tools}  # type: ignore[union-attr]


def test_a_model_sees_the_name_of_the_skill_and_nothing_of_ours() -> None:
    found = schemas(with_arguments=False)
    assert {name: list(schema["properties"]) for name, schema in found.items()} == {
        "load_skill": ["skill_name"],
        "unload_skill": ["skill_name"],
    }
    assert found["load_skill"]["properties"]["skill_name"]["description"].startswith("Name of the skill to load")


def test_arguments_are_offered_when_skills_take_them() -> None:
    found = schemas(with_arguments=True)["load_skill"]
    assert list(found["properties"]) == ["skill_name", "args"]
    assert found["required"] == ["skill_name"]
