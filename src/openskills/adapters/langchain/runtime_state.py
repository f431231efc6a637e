"""The state that `SkillRuntimeMiddleware` adds to a thread."""

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware.types import AgentState, PrivateStateAttr

from openskills.adapters.langchain.session_channel import fold, state_of

SKILLS = "openskills_state"
SESSION = "openskills_session"


class SkillRuntimeState(AgentState[Any]):
    """What a thread remembers. Nothing of it comes in with a request, or goes out to a parent graph.

    A reducer must be the last annotation; LangGraph looks for it there and nowhere else.
    """

    openskills_state: NotRequired[Annotated[dict[str, Any], PrivateStateAttr, fold]]
    """What is loaded. Updates are changes; `session_channel` says how both are written."""

    openskills_session: NotRequired[Annotated[str, PrivateStateAttr]]
    """The name of the session, in a run that belongs to no thread."""


def loaded_skills(values: Mapping[str, Any], agent: str = "assistant") -> tuple[str, ...]:
    """The skills that an agent has loaded, from `graph.get_state(config).values`; the one touched last at the end."""
    return state_of(values.get(SKILLS)).of(agent).loaded()
