"""The messages that were made here, so that they are known when they come back. No clock, no I/O.

A caller may send us what we sent it. Every message that equals one of ours, field by field, is taken for what it was
made from; no text is ever searched for our marks, since anybody may write those.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from openskills.prompt.loaded import Addition, rendered
from openskills.prompt.messages import SYSTEM_ROLES, TOOL_ROLES, Message, get, items, string, texts_of

_Key: TypeAlias = tuple[tuple[str, ...], str, str, str]

_OURS = (*SYSTEM_ROLES, *TOOL_ROLES)
"""Messages of the user and of the model are never changed."""


class _Made(NamedTuple):
    message: Message
    original: Message | None
    """None for a message that was put in."""


class Memory:
    """What one conversation was sent. Bounded in entries and in characters, but never below one request.

    It also keeps the texts of the last request, so that the same ones are not put together again.
    """

    def __init__(self, entries: int = 1_024, characters: int = 4_000_000) -> None:
        self._most = (entries, characters)
        self._made: dict[_Key, _Made] = {}
        self._characters = 0
        self._now: set[_Key] = set()
        self._texts: dict[tuple[str, Addition], str] = {}
        self._texts_before: dict[tuple[str, Addition], str] = {}

    def originals(self, messages: Sequence[Message]) -> list[Message]:
        """The messages without what was added to them or put between them here."""
        if not self._made:
            return list(messages)
        found: list[Message] = []
        for message in messages:
            made = self._made.get(_key(message)) if get(message, "role") in _OURS else None
            if made is None or made.message != message:
                found.append(message)
            elif made.original is not None:
                found.append(made.original)
        return found

    def extended(self, message: Message, added: Addition) -> dict[str, Any]:
        """A copy of a message with something at its end. Its content is text, parts, or nothing."""
        content = get(message, "content")
        if content is None or isinstance(content, str):
            new = self._text(content or "", added)
            return self._remember({**message, "content": new}, dict(message))
        parts = list(items(content))
        return self._remember(
            {**message, "content": [*parts, {"type": "text", "text": self._text("", added)}]},
            {**message, "content": parts},
        )

    def inserted(self, role: str, added: Addition) -> dict[str, Any]:
        """A message of our own."""
        return self._remember({"role": role, "content": self._text("", added)}, None)

    def close(self) -> None:
        """A request is complete: forget what is too old, and the texts that it does not have."""
        entries, characters = self._most
        while len(self._made) > entries or self._characters > characters:
            oldest = next(iter(self._made))
            if oldest in self._now:
                break
            self._drop(oldest)
        self._now.clear()
        self._texts_before, self._texts = self._texts, {}

    def _text(self, content: str, added: Addition) -> str:
        key = (content, added)
        text = self._texts_before.get(key)
        if text is None:
            text = rendered((content, *added) if content else added)
        self._texts[key] = text
        return text

    def _remember(self, message: dict[str, Any], original: Message | None) -> dict[str, Any]:
        key = _key(message)
        self._drop(key)
        self._made[key] = _Made(dict(message), original)
        self._characters += _size(key)
        self._now.add(key)
        return message

    def _drop(self, key: _Key) -> None:
        if self._made.pop(key, None) is not None:
            self._characters -= _size(key)


def _key(message: object) -> _Key:
    """Cheap, and different for messages that differ, but for freaks: the texts, and who says them."""
    content = get(message, "content")
    texts = (content,) if isinstance(content, str) else texts_of(content)
    return texts, string(message, "role"), string(message, "tool_call_id"), string(message, "name")


def _size(key: _Key) -> int:
    return sum(map(len, key[0]))
