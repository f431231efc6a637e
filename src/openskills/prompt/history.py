"""Where the texts of skills stand in a conversation, found by replaying its calls. Pure; nothing raises.

History says where, never whether: a text is shown because the state of the session says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from openskills.prompt.messages import TOOL_ROLES, Message, ToolCall, calls_of, get, string, takes_text, text_of
from openskills.prompt.outcomes import Outcome, Verb, outcome
from openskills.session.changes import ALL, LoadMode


class Held(NamedTuple):
    """The messages, by index, that hold the texts of one skill since it was last gone.

    `rest` holds every document that `docs` does not name. `calls` are all loads and selections in that time.
    """

    body: int | None = None
    docs: Mapping[str, int] = MappingProxyType({})
    rest: int | None = None
    calls: tuple[int, ...] = ()

    def doc(self, path: str) -> int | None:
        """The message that holds a document."""
        return self.docs.get(path, self.rest)

    def selection(self) -> tuple[str, ...]:
        """The documents that are selected; `(ALL,)` for every one."""
        return tuple(self.docs) if self.rest is None else (ALL,)

    def choosing(self, docs: Sequence[str], index: int) -> "Held":
        """After a message that left this selection: what is new stands there, what is not stays where it is."""
        if ALL in docs:
            return Held(self.body, self.docs, index if self.rest is None else self.rest, self.calls)
        new = index if self.rest is None else self.rest
        return Held(self.body, {path: self.docs.get(path, new) for path in docs}, None, self.calls)

    def called(self, index: int) -> "Held":
        """After one more call."""
        return Held(self.body, self.docs, self.rest, (*self.calls, index))


@dataclass(frozen=True, slots=True)
class History:
    """What the calls of a conversation say.

    `held` has the skills that are loaded as far as the messages tell. `spare` has places of skills that were loaded and
    are not any more, for the case that the state of the session knows better: a message of the user that began no turn,
    or calls of one message that ran in another order than their results stand in. `outcomes` has every load and
    selection, by the index of its result.
    """

    held: Mapping[str, Held]
    spare: Mapping[str, Held]
    outcomes: Mapping[int, Outcome]

    def of(self, skill: str) -> Held:
        """Where the texts of a skill stand; nowhere, if nothing is known."""
        return self.held.get(skill) or self.spare.get(skill) or Held()


def replay(messages: Sequence[Message], mode: LoadMode) -> History:
    """Walk through the messages in order.

    A result belongs to the nearest call before it that has its id; without one, its `name` or its text says what it is.
    A skill is gone when it was unloaded or evicted; when the user speaks, unless the mode is `session`; and in the mode
    `once` when the model has answered, which it does with everything that was loaded before in its sight.
    """
    walk = _Walk(mode)
    for index, message in enumerate(messages):
        role = get(message, "role")
        if role == "assistant":
            walk.answered(index, calls_of(message))
        elif role == "user":
            walk.spoken()
        elif role in TOOL_ROLES:
            walk.result(index, message)
    return History(walk.held, walk.spare, walk.outcomes)


class _Walk:
    def __init__(self, mode: LoadMode) -> None:
        self.held: dict[str, Held] = {}
        self.spare: dict[str, Held] = {}
        self.outcomes: dict[int, Outcome] = {}
        self._mode = mode
        self._calls: dict[str, list[ToolCall]] = {}
        self._answer = -1
        self._outlived: dict[str, tuple[str, ...]] = {}

    def answered(self, index: int, calls: Sequence[ToolCall]) -> None:
        self._answer = index
        if self._mode is LoadMode.ONCE and self.held:
            # What was seen once is gone; which documents were selected is not, they come back with the next load.
            self._outlived.update((skill, held.selection()) for skill, held in self.held.items())
            self._set_aside()
        if calls:
            fresh: dict[str, list[ToolCall]] = {}
            for call in calls:
                fresh.setdefault(call.id or call.name, []).append(call)
            self._calls.update(fresh)

    def spoken(self) -> None:
        if self._mode is not LoadMode.SESSION:
            self._outlived.clear()
            self._set_aside()

    def result(self, index: int, message: Message) -> None:
        call = self._call_of(message)
        tool, arguments = (call.name, call.arguments) if call else (string(message, "name"), None)
        found = outcome(tool, arguments, text_of(message))
        if found is None or not takes_text(message):
            return
        if found.verb is Verb.UNLOAD:
            self._gone(found.skill)
        else:
            self.outcomes[index] = found
            self._keep(index, found)
        for skill in found.evicted:
            self._gone(skill)

    def _call_of(self, message: Message) -> ToolCall | None:
        calls = self._calls.get(string(message, "tool_call_id") or string(message, "name"))
        if not calls:
            return None
        # Several calls of one message with one id: their results come in the same order.
        return calls.pop(0) if len(calls) > 1 else calls[0]

    def _keep(self, index: int, found: Outcome) -> None:
        held = self.held.get(found.skill)
        outlived = self._outlived.pop(found.skill, ())
        if found.verb is Verb.LOAD and (held is None or held.body is None):
            # Documents that were selected earlier come with the body, so that nothing above it changes.
            held = Held(index).choosing(held.selection() if held else outlived, index)
        elif held is None:
            # A skill that was seen once is shown again by a selection; else the load was lost.
            held = Held(index if self._mode is LoadMode.ONCE else None)
        if found.docs is not None:
            held = held.choosing(found.docs, index)
        self.held[found.skill] = held.called(index)

    def _gone(self, skill: str) -> None:
        held = self.held.pop(skill, Held())
        self.spare.pop(skill, None)
        self._outlived.pop(skill, None)
        # A load of the same answer may have run after this, although its result stands above it.
        for index in held.calls:
            found = self.outcomes[index]
            if index > self._answer and found.verb is Verb.LOAD:
                again = Held(index).choosing(found.docs or (), index).called(index)
                self.spare[skill] = held if held.body == index else again
                break

    def _set_aside(self) -> None:
        self.spare.update(self.held)
        self.held.clear()
