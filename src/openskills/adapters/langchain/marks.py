"""What we write on a message beside its text: which skill it loads or unloads, and how much text that was.

A mark tells later whether the text is still what the skill said: other middleware clears, clips and evicts messages,
and leaves everything but the text as it was.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar, cast

from langchain_core.messages import BaseMessage

KEY = "openskills_skill"
"""Where the mark stands among a message's `additional_kwargs`; no provider is sent those of a tool's result."""


Message = TypeVar("Message", bound=BaseMessage)
Change = Literal["load", "reload", "unload", "none"]
_CHANGES: Mapping[object, Change] = {"load": "load", "reload": "reload", "unload": "unload", "none": "none"}


@dataclass(frozen=True, slots=True)
class Mark:
    """A message loads or unloads `skill`, or was to do so and did not. `before` is what was loaded when the call began.

    A `reload` brings new text of a skill that is loaded.
    `digest` is of the SKILL.md that was read, `characters` the length of the message's text and `text` a digest of it.
    """

    skill: str
    change: Change
    before: tuple[str, ...] = ()
    digest: str = ""
    characters: int = 0
    text: str = ""

    @property
    def loads(self) -> bool:
        """Whether the message holds instructions."""
        return self.change in {"load", "reload"}

    def on(self, text: str) -> "Mark":
        """The mark for a message with this text."""
        return replace(self, characters=len(text), text=digest_of(text.encode("utf-8", "surrogatepass")))

    def place_in(self, text: str) -> int | None:
        """Where in `text` the marked text begins; None when it is no longer there in whole.

        Others may put words before it, as LangChain does when a person edited the call, or behind it.
        """
        more = len(text) - self.characters
        if more == 0:
            return 0
        if more < 0 or self.characters < 1 or not self.text:
            return None
        for place in (more, 0):
            part = text[place : place + self.characters]
            if digest_of(part.encode("utf-8", "surrogatepass")) == self.text:
                return place
        return None

    def kwargs(self) -> dict[str, object]:
        """The `additional_kwargs` of a message that bears this mark."""
        plain = {"skill": self.skill, "change": self.change, "before": list(self.before)}
        return {KEY: {**plain, "digest": self.digest, "characters": self.characters, "text": self.text}}


def digest_of(content: bytes) -> str:
    """A short name for these bytes."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def mark_of(message: BaseMessage) -> Mark | None:
    """The mark of a message; None for messages of others and for marks that are no longer understood."""
    extra = cast("Mapping[str, object]", message.additional_kwargs)
    raw = extra.get(KEY)
    if not isinstance(raw, Mapping):
        return None
    fields = cast("Mapping[str, object]", raw)
    skill, change, before = fields.get("skill"), _CHANGES.get(fields.get("change")), fields.get("before")
    digest, characters, text = fields.get("digest"), fields.get("characters"), fields.get("text")
    if not isinstance(skill, str) or change is None:
        return None
    names = cast("Sequence[object]", before) if isinstance(before, list | tuple) else ()
    return Mark(
        skill,
        change,
        tuple(name for name in names if isinstance(name, str)),
        digest if isinstance(digest, str) else "",
        characters if isinstance(characters, int) else -1,
        text if isinstance(text, str) else "",
    )


def text_of(message: BaseMessage) -> str:
    """The text of a message."""
    content = cast("object", message.content)
    return content if isinstance(content, str) else str(message.text)


def retold(message: Message, text: str, change: Change | None = None) -> Message:
    """The message with another text. Its mark follows: a text that was whole is whole again."""
    extra = cast("Mapping[str, object]", message.additional_kwargs)
    mark = mark_of(message)
    if mark is not None:
        marked = replace(mark, change=change or mark.change)
        whole = mark.place_in(text_of(message)) is not None
        extra = {**extra, **(marked.on(text) if whole else replace(marked, characters=-1)).kwargs()}
    return message.model_copy(update={"content": text, "additional_kwargs": dict(extra)})


def restated(message: Message, text: str, change: Change | None = None) -> Message:
    """The message with another text in the place of ours, and with what others have put before it."""
    old, mark = text_of(message), mark_of(message)
    place = mark.place_in(old) if mark is not None else None
    return retold(message, f"{old[:place]}{text}" if place else text, change)


def whole_loads(messages: Iterable[BaseMessage]) -> dict[str, tuple[Mark, BaseMessage]]:
    """The skills whose last loading is still there in whole, not unloaded since, with the message that holds it."""
    found: dict[str, tuple[Mark, BaseMessage]] = {}
    for message in messages:
        # Most messages have nothing beside their text; this is asked on every call of the model.
        mark = mark_of(message) if message.additional_kwargs else None
        if mark is None or mark.change == "none":
            continue
        found.pop(mark.skill, None)
        if mark.loads and mark.place_in(text_of(message)) is not None:
            found[mark.skill] = (mark, message)
    return found
