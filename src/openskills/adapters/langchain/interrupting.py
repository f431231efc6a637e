"""People who decide about commands while the graph waits for them."""

from collections.abc import Awaitable, Mapping
from contextvars import ContextVar
from typing import Any

from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from openskills.errors import InvalidArgument
from openskills.tools.approvals import ApprovalQuestion, Decision
from openskills.tools.result import ToolResult

_KIND = "skill_command"
_NOBODY = "nobody has answered yet"
_waiting: ContextVar[list[GraphInterrupt] | None] = ContextVar("openskills_waiting", default=None)


async def ask_by_interrupt(question: ApprovalQuestion) -> Decision | bool | str:
    """For `SessionOptions(ask=ask_by_interrupt)`: each command that no skill pre-approves interrupts the graph.

    The interrupt says what is to be run. Resume with `Command(resume=...)`: True, False, a `Decision`, or the reason
    for a no. Needs a checkpointer. Only for tools of `SkillRuntimeMiddleware`.
    """
    waiting = _waiting.get()
    if waiting is None:
        raise InvalidArgument("ask", "ask_by_interrupt is for agents with SkillRuntimeMiddleware")
    try:
        return _decision(interrupt(_shown(question)))
    except GraphInterrupt as paused:
        # Carried around the door of the session, which would make a result of it.
        waiting.append(paused)
        return _NOBODY


async def answered(call: Awaitable[ToolResult], arguments: Mapping[str, Any]) -> ToolResult:
    """The result of a call; interrupts the graph when the call came to a question that nobody has answered."""
    waiting: list[GraphInterrupt] = []
    token = _waiting.set(waiting)
    try:
        result = await call
    finally:
        _waiting.reset(token)
    if waiting:
        raise waiting[0]
    if result.error is not None and _NOBODY in result.error.message:
        # Another call of the same message asked the same, and both had the answer that was meant for that one.
        interrupt({"type": _KIND, "skill": arguments.get("skill"), "command": arguments.get("command")})
    return result


def _shown(question: ApprovalQuestion) -> dict[str, Any]:
    return {
        "type": _KIND,
        "skill": question.skill,
        "command": question.command,
        "cwd": question.cwd,
        "env": list(question.env),
        "network": list(question.network),
        "interactive": question.interactive,
        "installs": question.installs,
        # Plain text: an enumeration in a checkpoint could not be read without its class.
        "choices": [decision.value for decision in Decision],
    }


def _decision(answer: object) -> bool | str:
    return answer if isinstance(answer, bool | str) else False
