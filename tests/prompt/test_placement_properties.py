"""Over random conversations: what is loaded is in the request, once; nothing else is; nothing of others is touched."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from openskills.prompt.blocks import LoadedSkill, Placement
from openskills.prompt.history import get_text
from openskills.prompt.placement import MessageMemory, PromptRequest, place_texts
from openskills.session.state import LoadMode
from tests.long_form import examples
from tests.prompt.conversations import (
    Conversation,
    Messages,
    Step,
    body,
    conversations,
    damaged,
    doc,
    happen,
    marks,
    steps,
)
from tests.prompt.garbage import garbage

LAYER_ONE = "Available skills:\n- pdf: reads files"
GUIDANCE = "Tooling and workspace guidance:\n- load first"
EXAMPLES = settings(max_examples=examples(200))

layers = st.sampled_from([("", ""), (LAYER_ONE, ""), (LAYER_ONE, GUIDANCE)])
notices = st.sampled_from([(), ("[Unloaded] pdf: gone",)])


def placed_by(
    conversation: Conversation,
    messages: Sequence[Mapping[str, Any]],
    placement: Placement = Placement.TOOL_RESULT,
    layer: tuple[str, str] = (LAYER_ONE, GUIDANCE),
    notes: Sequence[str] = (),
    memory: MessageMemory | None = None,
) -> PromptRequest:
    return place_texts(
        messages,
        conversation.shown(),
        layer_one=layer[0],
        guidance=layer[1],
        mode=conversation.mode,
        placement=placement,
        notices=notes,
        memory=memory,
    )


def occurrences(messages: Sequence[Mapping[str, Any]], text: str) -> int:
    return sum(get_text(message).count(text) for message in messages)


def is_extension(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether a message is another one with something put at the end of its content."""
    if {**new, "content": None} != {**old, "content": None}:
        return False
    before, after = old["content"], new["content"]
    if isinstance(before, list):
        return after[:-1] == before and after[-1]["type"] == "text"
    return before is None or after == before or after.startswith(f"{before}\n\n")


def without_ours(
    request: Sequence[Mapping[str, Any]], given: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """What is left of the given messages in a request when everything that we put in is taken out again."""
    left: list[Mapping[str, Any]] = []
    inserted = 0
    for message in request:
        expected = given[len(left)] if len(left) < len(given) else None
        if expected is not None and (message is expected or is_extension(message, expected)):
            left.append(expected)
        else:
            assert message["role"] == "system"
            inserted += 1
    assert inserted <= 2
    return left


@EXAMPLES
@given(st.data(), conversations(), st.sampled_from(Placement), layers, notices)
def test_what_is_loaded_stands_in_the_request_once_and_nothing_else_does(
    data: st.DataObject, conversation: Conversation, placement: Placement, layer: tuple[str, str], notes: Sequence[str]
) -> None:
    messages = data.draw(damaged(conversation.messages))
    found = placed_by(conversation, messages, placement, layer, notes)
    seen = {(one.skill, path) for one in conversation.shown() for path in ("", *(doc.path for doc in one.docs))}
    for skill, path, mark in marks():
        assert occurrences(found.messages, mark) == ((skill, path) in seen), (skill, path)
    for text in (*filter(None, layer), *notes):
        assert occurrences(found.messages, text) == 1
    for one in conversation.shown():
        assert occurrences(found.messages, f"[Loaded] {one.skill}\n\n{one.body.text}") == 1


@EXAMPLES
@given(st.data(), conversations(), st.sampled_from(Placement), layers, notices)
def test_without_what_is_ours_a_request_is_what_was_given(
    data: st.DataObject, conversation: Conversation, placement: Placement, layer: tuple[str, str], notes: Sequence[str]
) -> None:
    messages = data.draw(damaged(conversation.messages))
    before = copy.deepcopy(messages)
    found = placed_by(conversation, messages, placement, layer, notes)
    assert messages == before
    assert without_ours(found.messages, messages) == messages


@EXAMPLES
@given(steps(in_order=True), st.sampled_from(LoadMode), st.sampled_from([0, 1, 2]), st.booleans())
def test_as_long_as_nothing_is_withdrawn_a_request_begins_with_the_whole_request_before(
    happening: list[Step], mode: LoadMode, limit: int, one_id: bool
) -> None:
    conversation = Conversation(mode, limit=limit, one_id=one_id)
    conversation.user("Hello")
    before = placed_by(conversation, conversation.messages)
    for step in happening:
        losses = conversation.losses
        happen(conversation, step)
        now = placed_by(conversation, conversation.messages)
        assert now.restored == ()
        if conversation.losses == losses:
            assert now.messages[: len(before.messages)] == before.messages
        before = now


@EXAMPLES
@given(steps(in_order=True), st.sampled_from(LoadMode), st.sampled_from([0, 1, 2]))
def test_a_withdrawal_changes_nothing_above_the_first_text_that_goes(
    happening: list[Step], mode: LoadMode, limit: int
) -> None:
    conversation = Conversation(mode, limit=limit)
    conversation.user("Hello")
    before = placed_by(conversation, conversation.messages)
    for step in happening:
        seen = {mark for _, _, mark in marks() if occurrences(before.messages, mark)}
        happen(conversation, step)
        now = placed_by(conversation, conversation.messages)
        for old, new in zip(before.messages, now.messages, strict=False):
            if old != new:
                gone = [mark for mark in seen if mark in get_text(old) and mark not in get_text(new)]
                assert gone, (old, new)
                break
        before = now


@EXAMPLES
@given(st.data(), conversations(), st.sampled_from(Placement), layers, notices)
def test_a_request_that_comes_back_gives_the_same_request(
    data: st.DataObject, conversation: Conversation, placement: Placement, layer: tuple[str, str], notes: Sequence[str]
) -> None:
    messages = data.draw(damaged(conversation.messages))
    memory = MessageMemory()
    first = placed_by(conversation, messages, placement, layer, notes, memory)
    second = placed_by(conversation, copy.deepcopy(first.messages), placement, layer, notes, memory)
    assert second == first
    assert placed_by(conversation, messages, placement, layer, notes, memory) == first


@EXAMPLES
@given(steps(), st.sampled_from(LoadMode), st.sampled_from(Placement))
def test_a_conversation_may_be_continued_from_requests_as_well_as_from_what_was_stored(
    happening: list[Step], mode: LoadMode, placement: Placement
) -> None:
    conversation = Conversation(mode, limit=2)
    conversation.system("You are helpful.")
    conversation.user("Hello")
    memory = MessageMemory()
    request = placed_by(conversation, conversation.messages, placement, memory=memory)
    for step in happening:
        length = len(conversation.messages)
        happen(conversation, step)
        sent_back: Messages = [dict(message) for message in (*request.messages, *conversation.messages[length:])]
        request = placed_by(conversation, sent_back, placement, memory=memory)
        assert request == placed_by(conversation, conversation.messages, placement)


@EXAMPLES
@given(st.data(), steps(), st.sampled_from(LoadMode), st.sampled_from(Placement), layers)
def test_a_memory_that_reads_only_what_is_new_gives_the_same_requests_as_an_empty_one(
    data: st.DataObject, happening: list[Step], mode: LoadMode, placement: Placement, layer: tuple[str, str]
) -> None:
    conversation = Conversation(mode, limit=2)
    if data.draw(st.booleans()):
        conversation.system("You are helpful.")
    conversation.user("Hello")
    memory = MessageMemory()
    before: Sequence[Mapping[str, Any]] = ()
    for step in happening:
        happen(conversation, step)
        messages = data.draw(damaged(conversation.messages)) if data.draw(st.booleans()) else conversation.messages
        notes = data.draw(notices)
        request = placed_by(conversation, copy.deepcopy(messages), placement, layer, notes, memory)
        assert request == placed_by(conversation, messages, placement, layer, notes)
        assert request.messages[: request.unchanged] == list(before[: request.unchanged])
        before = request.messages


@EXAMPLES
@given(st.lists(garbage, max_size=6), st.sampled_from(LoadMode), st.sampled_from(Placement))
def test_nothing_that_stands_in_messages_makes_it_fail_or_lose_a_text(
    messages: list[Any], mode: LoadMode, placement: Placement
) -> None:
    before = copy.deepcopy(messages)
    shown = [LoadedSkill("pdf", body("pdf"), (doc("pdf", "a.md"),))]
    memory = MessageMemory()
    found = place_texts(messages, shown, layer_one=LAYER_ONE, mode=mode, placement=placement, memory=memory)
    assert messages == before
    for text in (LAYER_ONE, "«body of pdf»", "«a.md of pdf»"):
        assert occurrences(found.messages, text) == 1
    again = place_texts(found.messages, shown, layer_one=LAYER_ONE, mode=mode, placement=placement, memory=memory)
    assert again == found
