"""What a request says about the turn that runs: what was asked, with which files, what was done so far. Pure.

Nothing here raises, whatever the messages are.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from openskills.agent.attached_line import split
from openskills.prompt.messages import SYSTEM_ROLES, TOOL_ROLES, calls_of, get, json_object, string, text_of
from openskills.tools.profiles import LOAD, RUN

_LOADED = re.compile(r"^\[Loaded\] (?P<name>[^\n]+)\n", re.MULTILINE)
_BODY_END = re.compile(r"^(?:Docs loaded: |\[Loaded\] |\[Doc\] )", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """A call that was made in this turn; `result` is None as long as there is none."""

    tool: str
    arguments: Mapping[str, object]
    result: str | None = None


@dataclass(frozen=True, slots=True)
class TurnSoFar:
    """The turn that runs.

    `text` is the user's request without the line about its files; `files` are those that came with it, `earlier` those
    of the messages before, the newest first. `bodies` are the texts of the skills that can be seen, by name.
    """

    text: str = ""
    files: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    bodies: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def loads(self) -> tuple[Step, ...]:
        """The skills that were asked for."""
        return tuple(step for step in self.steps if step.tool == LOAD)

    @property
    def runs(self) -> tuple[Step, ...]:
        """The commands that were run."""
        return tuple(step for step in self.steps if step.tool == RUN)


def turn_of(messages: Sequence[object]) -> TurnSoFar:
    """The turn that the last message of a user began."""
    asked = [index for index, message in enumerate(messages) if string(message, "role") == "user"]
    if not asked:
        return TurnSoFar(bodies=_bodies(messages))
    text, files = split(text_of(messages[asked[-1]]))
    before = [name for index in reversed(asked[:-1]) for name in split(text_of(messages[index]))[1]]
    earlier = tuple(name for name in dict.fromkeys(before) if name not in files)
    return TurnSoFar(text, files, earlier, _steps(messages[asked[-1] + 1 :]), _bodies(messages))


def _steps(messages: Sequence[object]) -> tuple[Step, ...]:
    results = {string(one, "tool_call_id"): text_of(one) for one in messages if get(one, "role") in TOOL_ROLES}
    return tuple(
        Step(call.name, json_object(call.arguments), results.get(call.id))
        for message in messages
        if get(message, "role") == "assistant"
        for call in calls_of(message)
    )


def _bodies(messages: Sequence[object]) -> dict[str, str]:
    """The texts of loaded skills, the one that stands last in the conversation at the end."""
    found: dict[str, str] = {}
    for text in _carriers(messages):
        for loaded in _LOADED.finditer(text):
            end = _BODY_END.search(text, loaded.end())
            found.pop(loaded["name"], None)
            found[loaded["name"]] = text[loaded.end() : end.start() if end else len(text)].strip()
    return found


def _carriers(messages: Sequence[object]) -> Iterator[str]:
    """The messages that we put loaded texts into. What a command printed or a user wrote is none of them."""
    loads = {call.id for message in messages for call in calls_of(message) if call.name == LOAD and call.id}
    for message in messages:
        role = get(message, "role")
        if role in SYSTEM_ROLES or (role in TOOL_ROLES and string(message, "tool_call_id") in loads):
            yield text_of(message)
