"""A request as Anthropic's Messages API wants it, made of OpenAI-style messages. Pure.

That API is strict: roles alternate and a user begins; every `tool_use` is answered in the very next message, once, and
nothing else is; text is never empty. Conversations that were cut, merged or broken off are made to keep that.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from openskills.agent.model import ModelRequest
from openskills.agent.wire.anthropic_content import Block, blocks_of, text_block
from openskills.agent.wire.calls import free_id, object_of
from openskills.errors import InvalidArgument
from openskills.prompt.messages import SYSTEM_ROLES, TOOL_ROLES, calls_of, get, leading, string

Said: TypeAlias = dict[str, Any]
"""A message of the API: `role`, and `content` as a list of blocks."""

THINKING = "thinking"
"""What an assistant's message, and then its turn, carries beside its content; see `anthropic_thoughts`."""
EARLIER = "(This conversation began earlier.)"
NO_RESULT = "There is no result of this call: it was interrupted."
NOTHING = "(nothing)"
_STRANGE = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 128


def request_body(model: str, request: ModelRequest, max_tokens: int) -> dict[str, Any]:
    """The JSON of the request. Raises `InvalidArgument` when there is nothing that a model could answer.

    System messages become blocks of `system`, wherever they stand. A temperature is left out: the API has none.
    """
    body: dict[str, Any] = {"model": model, "max_tokens": request.max_output_tokens or max_tokens, "stream": True}
    if system := _system(request.messages):
        body["system"] = system
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    body["messages"] = conversation(request.messages)
    return body


def conversation(messages: Iterable[Mapping[str, Any]]) -> list[Said]:
    """The messages of a conversation without those of the system. Raises `InvalidArgument` when none is left."""
    translated = _Conversation()
    for message in messages:
        translated.add(message)
    return translated.end()


def stable_blocks(messages: Sequence[Mapping[str, Any]]) -> int:
    """How many blocks of the system stay the same: those of its first message. Later ones say what is loaded."""
    return len(_system(messages[: leading(messages) and 1]))


class _Conversation:
    """Messages as they are added, in turns of the user and of the assistant."""

    def __init__(self) -> None:
        self._said: list[Said] = []
        self._taken: set[str] = set()
        self._open: list[tuple[str, str]] = []
        """Calls of the last turn of the assistant that have no result yet: their ids here, and there."""

    def add(self, message: Mapping[str, Any]) -> None:
        role = string(message, "role")
        if role in SYSTEM_ROLES:
            return
        if role == "assistant":
            self._assistant(message)
        elif role in TOOL_ROLES:
            self._result(message)
        elif blocks := blocks_of(message.get("content")):
            self._turn("user").extend(blocks)

    def end(self) -> list[Said]:
        self._close_calls()
        said = self._said
        if not said:
            raise InvalidArgument("messages", "there is none that a model could answer")
        if said[0]["role"] == "assistant":
            said.insert(0, {"role": "user", "content": [text_block(EARLIER)]})
        return [_results_first(turn) for turn in said]

    def _turn(self, role: str) -> list[Block]:
        if not self._said or self._said[-1]["role"] != role:
            self._said.append({"role": role, "content": []})
        return self._said[-1]["content"]

    def _assistant(self, message: Mapping[str, Any]) -> None:
        calls = calls_of(message)
        written = blocks_of(message.get("content") or message.get("refusal"))
        # Nothing else may stand in a turn of the assistant.
        blocks = [block for block in written if block["type"] == "text"]
        if not calls and not blocks:
            return
        self._close_calls()
        turn = self._turn("assistant")
        if not turn and get(message, THINKING) is not None:
            self._said[-1][THINKING] = message[THINKING]
        turn.extend(blocks)
        for call in calls:
            own = self._own_id(call.id)
            self._open.append((call.id, own))
            name = _STRANGE.sub("_", call.name)[:_LONGEST_NAME] or "unnamed_tool"
            turn.append({"type": "tool_use", "id": own, "name": name, "input": object_of(call.arguments)})

    def _result(self, message: Mapping[str, Any]) -> None:
        blocks = blocks_of(message.get("content")) or [text_block(NOTHING)]
        wanted = string(message, "tool_call_id")
        call = next((call for call in self._open if call[0] == wanted), None)
        if call is not None:
            self._open.remove(call)
            self._turn("user").append({"type": "tool_result", "tool_use_id": call[1], "content": blocks})
        else:
            # Its call is not in this conversation any more, or was answered already.
            self._turn("user").extend([text_block("[result of an earlier call]"), *blocks])

    def _close_calls(self) -> None:
        for _, own in self._open:
            result = {"type": "tool_result", "tool_use_id": own, "is_error": True, "content": [text_block(NO_RESULT)]}
            self._turn("user").append(result)
        self._open.clear()

    def _own_id(self, given: str) -> str:
        own = free_id(_STRANGE.sub("_", given), self._taken)
        self._taken.add(own)
        return own


def _results_first(turn: Said) -> Said:
    ordered = sorted(cast("list[Block]", turn["content"]), key=lambda block: block["type"] != "tool_result")
    return {**turn, "content": ordered}


def _system(messages: Sequence[Mapping[str, Any]]) -> list[Block]:
    return [
        block
        for message in messages
        if get(message, "role") in SYSTEM_ROLES
        for block in blocks_of(message.get("content"))
        if block["type"] == "text"
    ]


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = get(tool, "function")
    parameters = cast("dict[str, Any]", get(function, "parameters") or {"properties": {}})
    described: dict[str, Any] = {"name": string(function, "name"), "input_schema": {"type": "object", **parameters}}
    if text := string(function, "description"):
        described["description"] = text
    return described
