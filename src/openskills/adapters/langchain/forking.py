"""Skills that run in a subagent: loading one gives its answer instead of its instructions."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.tools import BaseTool

GENERAL_PURPOSE = "general-purpose"


@dataclass(frozen=True, slots=True)
class Delegation:
    """A skill to be done by a subagent: what it is told, and its name."""

    description: str
    agent: str = GENERAL_PURPOSE

    def arguments(self, runtime: Any) -> dict[str, Any]:
        """The arguments of deepagents' `task`."""
        return {"description": self.description, "subagent_type": self.agent, "runtime": runtime}


@dataclass(frozen=True, slots=True)
class Task:
    """deepagents' tool for subagents, called from another tool."""

    tool: Any

    @classmethod
    def among(cls, tools: Iterable[BaseTool]) -> "Task | None":
        """The tool if the agent has it."""
        found = next((tool for tool in tools if tool.name == "task"), None)
        return cls(cast("Any", found)) if found is not None else None

    def call(self, delegation: Delegation, runtime: Any) -> Any:
        """Have it done while the caller waits."""
        return self.tool.func(**delegation.arguments(runtime))

    async def calling(self, delegation: Delegation, runtime: Any) -> Any:
        """Have it done while the caller does something else."""
        return await self.tool.coroutine(**delegation.arguments(runtime))
