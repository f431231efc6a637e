"""What calls of one message did to each other, worked out from what really became of them.

Each call decided without knowing the others: one before it may have been rejected, interrupted or failed. Now their
results are there. They are gone through in order, by the rule that the reducer of `skills_loaded` follows; a result
that says something else is corrected before the model sees it.
"""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from openskills.adapters.langchain import wording
from openskills.adapters.langchain.marks import Mark, mark_of, restated, retold, text_of


def settled(messages: Sequence[BaseMessage], limit: int, *, tell_state: bool = False) -> dict[str, Any]:
    """The update that makes the results of the last calls true; empty when they are.

    With `tell_state` the last of them ends with what is loaded now.
    """
    batch = _batch(messages)
    if not batch:
        return {}
    loaded = list(batch[0][0].before)
    corrected: list[ToolMessage] = []
    for mark, message in batch:
        right = _outcome(mark, message, loaded, limit, marked=not tell_state)
        if mark is batch[-1][0] and tell_state:
            right = _telling(right, wording.state_line(loaded, limit))
        if right is not message:
            corrected.append(right)
    void = {mark.skill: None for mark, _ in batch if mark.loads and mark.skill not in loaded}
    update: dict[str, Any] = {"messages": corrected} if corrected else {}
    return {**update, "skill_resources": void} if void and corrected else update


def _batch(messages: Sequence[BaseMessage]) -> list[tuple[Mark, ToolMessage]]:
    """The marked results at the end of the conversation, in order."""
    found: list[tuple[Mark, ToolMessage]] = []
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            break
        if isinstance(message, ToolMessage) and (mark := mark_of(message)):
            found.append((mark, message))
    return found[::-1]


def _outcome(mark: Mark, message: ToolMessage, loaded: list[str], limit: int, *, marked: bool) -> ToolMessage:
    """The right result of a call; `loaded` becomes what it is after it."""
    if mark.change == "none":
        return message
    if mark.change == "unload":
        if mark.skill not in loaded:
            return _instead(message, wording.not_loaded(mark.skill, loaded))
        loaded.remove(mark.skill)
        text = wording.unloaded(mark.skill, loaded, limit, marked=marked)
        return message if text in text_of(message) else restated(message, text)
    if mark.skill in loaded:
        return message if mark.change == "reload" else _instead(message, wording.already_loaded(mark.skill))
    if len(loaded) >= limit:
        return _instead(message, wording.limit_reached(mark.skill, loaded, limit))
    loaded.append(mark.skill)
    return message


def _instead(message: ToolMessage, text: str) -> ToolMessage:
    return restated(message, text, "none")


def _telling(message: ToolMessage, line: str) -> ToolMessage:
    text = text_of(message)
    return message if text.endswith(line) else retold(message, f"{text}\n\n{line}")
