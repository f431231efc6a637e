"""A call of the model: the request with everything that the model is to see, and what that changes in the thread."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.tools import BaseTool
from langgraph.types import Command

from openskills.adapters.langchain.runtime_messages import as_mappings, as_messages
from openskills.adapters.langchain.runtime_state import SKILLS
from openskills.adapters.langchain.runtime_tools import SkillTool
from openskills.adapters.langchain.session_channel import plain_changes
from openskills.runtime.branch import Branch
from openskills.runtime.session import SkillSession
from openskills.session.changes import Consumed, LoadMode, Recorded

ToolsOf: TypeAlias = Callable[[SkillSession], Mapping[str, BaseTool]]
"""The tools of a session, by name, with the descriptions that fit to its skills."""


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A request that can be sent, and the changes that count once it was answered."""

    request: ModelRequest[Any]
    changes: tuple[Recorded, ...]

    def response(self, answer: ModelResponse[Any]) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """The answer, with the changes for the state of the thread. A call that failed changes nothing."""
        if not self.changes:
            return answer
        return ExtendedModelResponse(answer, Command(update={SKILLS: plain_changes(self.changes)}))


def prepared(request: ModelRequest[Any], session: SkillSession, branch: Branch, tools_of: ToolsOf) -> PreparedCall:
    """Show the skills, the loaded texts, and the tools as they are now, as far as nobody took them out. Blocks."""
    sent = session.context(as_mappings(request.system_message, request.messages))
    system, messages = as_messages(sent, request.system_message, request.messages)
    tools = tools_of(session)
    offered = [found for tool in request.tools if (found := _offered(tool, tools)) is not None]
    shown = request.override(system_message=system, messages=messages, tools=offered)
    return PreparedCall(shown, (*branch.changes, *_seen_once(session, branch)))


def _seen_once(session: SkillSession, branch: Branch) -> list[Recorded]:
    """In the mode `once`, what is in this request is gone when the model has answered it."""
    if session.options.load_mode is not LoadMode.ONCE:
        return []
    view = branch.state.of(session.agent)
    return [Recorded(view.entries[skill].loaded, session.agent, Consumed(skill)) for skill in view.loaded()]


def _offered(tool: BaseTool | dict[str, Any], ours: Mapping[str, BaseTool]) -> BaseTool | dict[str, Any] | None:
    """The tool itself, the description of ours that fits to the skills there are, or None if there is none now."""
    return ours.get(tool.name) if isinstance(tool, SkillTool) else tool
