"""Functions of yours that see, and may change, what an agent does."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from openskills.agent.model import Answer, ModelRequest, ToolCall
from openskills.tools.result import ToolResult

BeforeModel: TypeAlias = Callable[[str, ModelRequest], Awaitable[ModelRequest | Answer | None]]
AfterModel: TypeAlias = Callable[[str, Answer], Awaitable[Answer | None]]
BeforeTool: TypeAlias = Callable[[str, ToolCall], Awaitable[ToolResult | None]]
AfterTool: TypeAlias = Callable[[str, ToolCall, ToolResult], Awaitable[ToolResult | None]]
BeforeRun: TypeAlias = Callable[[str, str], Awaitable[str | None]]
AfterRun: TypeAlias = Callable[[str, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Each is called with the agent's name first, and may return None to leave everything as it is.

    `before_model` may give another request, or the answer itself, and then no model is asked. `after_model` may give
    another answer. `before_tool` may give the result, and then no tool is called; `after_tool` another result.
    `before_run` may give another message of the user; `after_run` is told the answer. What they raise ends the run.
    """

    before_model: BeforeModel | None = None
    after_model: AfterModel | None = None
    before_tool: BeforeTool | None = None
    after_tool: AfterTool | None = None
    before_run: BeforeRun | None = None
    after_run: AfterRun | None = None
