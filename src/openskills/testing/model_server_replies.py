"""What a scripted model server can be told to answer, and how."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from openskills.agent.model import Answer

Protocol: TypeAlias = Literal["openai", "anthropic"]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, and how it travels.

    Text and arguments come in pieces of `piece` characters, one event each. `first_after` and `between` are seconds of
    silence, before the answer begins and between its events; a client that leaves ends them. After `cut_after` events
    the connection breaks. `split` sends so many bytes at a time, which cuts characters and lines anywhere. Without
    `streams` the answer comes whole, also to a client that asked for events.
    """

    answer: Answer
    piece: int = 8
    first_after: float = 0.0
    between: float = 0.0
    cut_after: int | None = None
    split: int | None = None
    streams: bool = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error with a status, in the form of the protocol that was asked in. `kind` is its type and code."""

    status: int
    message: str = "refused by the script"
    kind: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class RawReply:
    """Bytes as they are, in chunks; with `cut` the connection breaks after them instead of ending well."""

    chunks: tuple[bytes, ...]
    content_type: str = "text/event-stream"
    status: int = 200
    between: float = 0.0
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is reset before a byte of an answer."""


@dataclass(eq=False, slots=True)
class Asked:
    """A request that came in. `left` is set when the client went away before the answer was over."""

    protocol: Protocol
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    left: threading.Event = field(default_factory=threading.Event)


Scripted: TypeAlias = Reply | Refusal | RawReply | Reset | Answer | str
"""One answer of a script; an `Answer` or a text stand for a `Reply` that gives them."""


def event(data: object, name: str = "") -> bytes:
    """A server-sent event; `data` is sent as JSON, unless it is text."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def pieces(text: str, size: int) -> list[str]:
    """The text in pieces of so many characters."""
    return [text[start : start + size] for start in range(0, len(text), size)]
