"""Tools of your own beside those of the skills."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from openskills.tools.result import ToolResult


@dataclass(frozen=True, slots=True)
class ExtraTool:
    """A tool that an agent offers to its model. `parameters` is the JSON schema of an object.

    `run` is called with the arguments of the model. It gives a `ToolResult`, or text; what it raises as a `SkillError`
    becomes a result for the model.
    """

    name: str
    description: str
    run: Callable[[Mapping[str, Any]], Awaitable[ToolResult | str]]
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})

    def described(self) -> dict[str, Any]:
        """As models want to be told about it, in OpenAI's format."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}
