"""Each loaded text to the place where the model reads it. Pure, but for what `Memory` remembers; nothing raises.

In the tool results, everything is append-only: the body of a skill stands in the result of the first load since it was
gone, a document in the result of the call that selected it. No later load or selection changes anything above it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from openskills.prompt.history import Held, History, replay
from openskills.prompt.loaded import CONTEXT, Addition, Block, docs_of, in_context, withdrawn
from openskills.prompt.memory import Memory
from openskills.prompt.messages import Message, leading, string, takes_text
from openskills.prompt.outcomes import Verb
from openskills.prompt.shown import Layer, Part, Piece, Placement, Shown
from openskills.session.changes import LoadMode


@dataclass(frozen=True, slots=True)
class Placed:
    """A request: the messages, and what was done to them.

    `restored` names the skills of which something had no place in history, `withdrawn` those that were loaded in it and
    are not shown any more. `parts` are our texts in it.
    """

    messages: list[Message]
    restored: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class _Plan:
    """What goes where: to the end of the first system message or of others by index, into a message of its own."""

    top: Addition = ()
    additions: Mapping[int, Addition] = field(default_factory=dict[int, Addition])
    extra: Addition = ()
    restored: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()


def place(
    messages: Sequence[Message],
    shown: Sequence[Shown],
    *,
    mode: LoadMode,
    placement: Placement,
    layer_one: str = "",
    guidance: str = "",
    notices: Sequence[str] = (),
    memory: Memory | None = None,
) -> Placed:
    """The messages with everything in them that is to be shown, each text once.

    `messages` and what they consist of stay as they are; a message that does not change is the same object in the
    result. `layer_one` and `guidance` are put at the end of the first message if that is a system message, else they
    become one. What has no place in history, and `notices`, stand in one more system message after those at the
    beginning; with `Placement.SYSTEM` everything stands at the end of the first one.

    With the same `memory`, the result may be given as `messages` again.
    """
    memory = Memory() if memory is None else memory
    given = memory.originals(messages)
    shown = list({one.skill: one for one in shown}.values())
    if placement is Placement.SYSTEM:
        plan = _in_system(shown, notices)
    else:
        plan = _in_results(replay(given, mode), shown, notices)
    top = (*(text for text in (layer_one, guidance) if text), *plan.top)
    placed = _assembled(given, top, plan, memory)
    memory.close()
    first = [Part(Layer.OVERVIEW, "", layer_one), Part(Layer.GUIDANCE, "", guidance)]
    parts = (*(part for part in first if part.text), *plan.parts)
    return Placed(placed, plan.restored, plan.withdrawn, parts)


def _in_system(shown: Sequence[Shown], notices: Sequence[str]) -> _Plan:
    blocks = tuple(Block(one.skill, one.body, one.docs) for one in shown)
    return _Plan((*blocks, *_lines(notices)), parts=tuple(part for block in blocks for part in _parts(block)))


def _in_results(history: History, shown: Sequence[Shown], notices: Sequence[str]) -> _Plan:
    results: dict[int, Addition] = {}
    extra: list[str | Block] = []
    restored: list[str] = []
    parts: list[Part] = []
    current: set[int] = set()
    for one in shown:
        held = history.of(one.skill)
        current.update(held.calls)
        found, lost = _settled(one, held)
        results.update(_results(history, held, found, one.skill))
        parts += (part for block in found.values() for part in _parts(block))
        if lost is not None:
            extra += [lost] if lost.body else [docs_of(one.skill), lost]
            restored.append(one.skill)
            parts += (Part(Layer.FALLBACK, part.skill, part.text) for part in _parts(lost))
    gone = _stale(history, current)
    results.update((index, (withdrawn(skill),)) for index, skill in gone.items())
    names = {one.skill for one in shown}
    return _Plan(
        additions=results,
        extra=(CONTEXT, *_lines(notices), *extra) if extra or notices else (),
        restored=tuple(restored),
        withdrawn=tuple(dict.fromkeys(skill for skill in gone.values() if skill not in names)),
        parts=tuple(parts),
    )


def _settled(one: Shown, held: Held) -> tuple[dict[int, Block], Block | None]:
    """The texts of a skill by the message that holds them, and those that none holds."""
    docs: dict[int | None, list[Piece]] = {held.body: []}
    for doc in one.docs:
        docs.setdefault(held.doc(doc.path), []).append(doc)
    blocks = {
        index: Block(one.skill, one.body if index == held.body else None, tuple(found)) for index, found in docs.items()
    }
    lost = blocks.pop(None, None)
    return {index: block for index, block in blocks.items() if index is not None}, lost


def _results(history: History, held: Held, found: Mapping[int, Block], skill: str) -> Iterable[tuple[int, Addition]]:
    for index in dict.fromkeys((*held.calls, *found)):
        block = found.get(index)
        again = index != held.body and history.outcomes[index].verb is Verb.LOAD
        added = (*((in_context(skill),) if again else ()), *((block,) if block else ()))
        if added:
            yield index, added


def _stale(history: History, current: set[int]) -> dict[int, str]:
    """Results that hold nothing any more. A selection of nothing never held anything."""
    return {
        index: found.skill
        for index, found in history.outcomes.items()
        if index not in current and (found.verb is Verb.LOAD or found.docs)
    }


def _assembled(given: list[Message], top: Addition, plan: _Plan, memory: Memory) -> list[Message]:
    count = leading(given)
    role = string(given[0], "role") if count else "system"
    placed = [
        memory.extended(message, plan.additions[index]) if index in plan.additions else message
        for index, message in enumerate(given)
    ]
    if plan.extra:
        placed.insert(count, memory.inserted(role, plan.extra))
    if top and count and takes_text(given[0]):
        placed[0] = memory.extended(given[0], top)
    elif top:
        placed.insert(0, memory.inserted(role, top))
    return placed


def _lines(notices: Sequence[str]) -> Addition:
    return ("\n".join(notices),) if notices else ()


def _parts(block: Block) -> Iterable[Part]:
    if block.body is not None:
        yield Part(Layer.BODY, block.skill, block.body.text)
    for doc in block.docs:
        yield Part(Layer.DOCS, block.skill, doc.text)
