"""What a model sees of loaded skills: nothing that counts as loaded is out of its sight.

Summaries, clearing and clipping take messages out of a request. What they took of a loaded skill is given back from the
thread's own messages; what is nowhere any more, or does not fit, no longer counts as loaded.
"""

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage

from openskills.adapters.langchain import wording
from openskills.adapters.langchain.marks import Mark, text_of, whole_loads


@dataclass(frozen=True, slots=True)
class Sight:
    """`given_back`: texts of skills that are out of sight, by name. `forgotten`: skills that stay out of it."""

    given_back: Mapping[str, str]
    forgotten: tuple[str, ...] = ()


NOTHING_HIDDEN = Sight({})


def look(loaded: Sequence[str], shown: Iterable[BaseMessage], history: Iterable[BaseMessage], characters: int) -> Sight:
    """What `shown` lacks of the loaded skills, as far as `history` has it. At most so many characters are given back.

    The skills that were loaded last come first.
    """
    hidden = set(loaded) - whole_loads(shown).keys() if loaded else set[str]()
    if not hidden:
        return NOTHING_HIDDEN
    kept: dict[str, str] = {}
    known = whole_loads(history)
    for name in reversed(loaded):
        text = text_of(known[name][1]) if name in hidden and name in known else None
        if text is not None and len(text) <= characters:
            kept[name] = text
            characters -= len(text)
    in_order = {name: kept[name] for name in loaded if name in kept}
    return Sight(in_order, tuple(name for name in loaded if name in hidden and name not in kept))


def completed(messages: Sequence[AnyMessage], sight: Sight, paths: Mapping[str, str]) -> list[AnyMessage]:
    """The messages with what is given back, and with word of what is not, near their beginning.

    After a summary, which is the first message: so what comes before it stays the same from call to call.
    """
    more: list[AnyMessage] = []
    for name, text in sight.given_back.items():
        intro = f"{wording.GIVEN_BACK}\n\n" if not more else ""
        more.append(skill_message(name, paths.get(name, ""), text, intro=intro))
    if sight.forgotten:
        more.append(HumanMessage(wording.forgotten(sight.forgotten)))
    place = 1 if messages and isinstance(messages[0], HumanMessage) else 0
    return [*messages[:place], *more, *messages[place:]]


def skill_message(name: str, path: str, text: str, *, intro: str = "", digest: str = "") -> HumanMessage:
    """A message that holds the instructions of a skill, in the form of upstream's pinned skills.

    With the digest of the file it counts as a loading of the skill.
    """
    attributes = f'name="{html.escape(name, quote=True)}" path="{html.escape(path, quote=True)}"'
    content = f"{intro}<skill {attributes}>\n{text}\n</skill>"
    # Upstream takes such a message for a reading of the skill and discloses the tools that come with it.
    pinned = {"lc_source": "pinned_skill", "skill": {"name": name, "path": path}}
    mark = Mark(name, "load", (), digest).on(content).kwargs() if digest else {}
    return HumanMessage(content, additional_kwargs={**pinned, **mark})
