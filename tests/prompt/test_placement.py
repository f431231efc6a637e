"""What a request looks like, in examples and over random conversations."""

import copy
from collections.abc import Mapping, Sequence
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openskills.prompt.blocks import (
    LoadedSkill,
    Placement,
    PromptLayer,
    PromptPart,
    format_already_loaded,
    format_withdrawn,
)
from openskills.prompt.history import Message, get_text
from openskills.prompt.placement import MessageMemory, PromptRequest, place_texts
from openskills.session.state import LoadMode
from tests.long_form import examples
from tests.prompt.conversations import (
    CLEARED,
    Conversation,
    Load,
    Messages,
    Select,
    Step,
    Unload,
    body,
    conversations,
    damaged,
    doc,
    happen,
    marks,
    steps,
)
from tests.prompt.garbage import garbage

SESSION = LoadMode.SESSION
LIST = "Available skills:\n- pdf: reads"
GUIDANCE = "Tooling and workspace guidance:\n- load first"
BODY = "[Loaded] pdf\n\n# Title\n«body of pdf»\nDocs loaded: none"


def request_of(
    conversation: Conversation, placement: Placement = Placement.TOOL_RESULT, **options: Any
) -> PromptRequest:
    return place_texts(
        conversation.messages, conversation.shown(), mode=conversation.mode, placement=placement, **options
    )


def contents(placed: PromptRequest) -> list[Any]:
    return [message.get("content") for message in placed.messages]


def first_layer(messages: Sequence[Any], **options: Any) -> list[Any]:
    found = place_texts(
        messages, [], mode=SESSION, placement=Placement.TOOL_RESULT, layer_one=LIST, guidance=GUIDANCE, **options
    )
    return found.messages


def asked(*batches: Any, mode: LoadMode = SESSION, limit: int = 0) -> Conversation:
    conversation = Conversation(mode, limit=limit)
    conversation.user("hi")
    for batch in batches:
        conversation.ask(batch)
    return conversation


def test_the_first_layer_stands_at_the_end_of_the_first_system_message() -> None:
    user = {"role": "user", "content": "hi"}
    for role in ("system", "developer"):
        found = first_layer([{"role": role, "content": "Be kind."}, {"role": "system", "content": "Be brief."}, user])
        assert found[0] == {"role": role, "content": f"Be kind.\n\n{LIST}\n\n{GUIDANCE}"}
        assert found[2] is user


def test_the_first_layer_is_a_part_where_the_content_has_parts() -> None:
    part = {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}
    found = first_layer([{"role": "system", "content": [part]}])
    assert found == [{"role": "system", "content": [part, {"type": "text", "text": f"{LIST}\n\n{GUIDANCE}"}]}]


@pytest.mark.parametrize("given", [[], [{"role": "user", "content": "hi"}, {"role": "system", "content": "late"}]])
def test_the_first_layer_becomes_a_system_message_where_none_comes_first(given: Messages) -> None:
    assert first_layer(given) == [{"role": "system", "content": f"{LIST}\n\n{GUIDANCE}"}, *given]


def test_the_first_layer_does_not_go_into_a_message_that_cannot_take_it() -> None:
    odd: list[Any] = [{"role": "system", "content": 3}, SimpleNamespace(role="system", content="Be kind.")]
    for message in odd:
        assert first_layer([message]) == [{"role": "system", "content": f"{LIST}\n\n{GUIDANCE}"}, message]


def test_a_message_of_any_mapping_type_is_extended_as_a_dictionary() -> None:
    assert first_layer([MappingProxyType({"role": "system", "content": "a"})])[0]["content"].startswith("a\n\n")


def test_an_empty_first_layer_changes_nothing() -> None:
    messages: Messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}]
    found = place_texts(messages, [], mode=SESSION, placement=Placement.TOOL_RESULT, layer_one="")
    assert found.messages == messages
    assert all(one is other for one, other in zip(found.messages, messages, strict=True))
    assert found.parts == ()


def test_somebody_who_mentions_our_marks_keeps_his_words_and_gets_ours() -> None:
    text = "Available skills: none. Loaded skill context: nothing. [Loaded] pdf"
    conversation = asked(Load("pdf"))
    conversation.messages[0:0] = [{"role": "system", "content": text}]
    conversation.messages[-1]["content"] = CLEARED
    found = request_of(conversation, layer_one=LIST, memory=MessageMemory())
    assert contents(found)[:2] == [f"{text}\n\n{LIST}", f"Loaded skill context:\n\n{BODY}"]


def test_a_body_stands_in_the_result_of_its_load_below_the_stub() -> None:
    found = request_of(asked(Load("pdf")))
    assert contents(found)[2] == f"loaded: pdf\n\n{BODY}"
    assert (found.restored, found.withdrawn) == ((), ())


def test_documents_stand_in_the_result_that_selected_them_and_the_body_stays() -> None:
    found = contents(request_of(asked(Load("pdf"), Select("pdf", ("a.md",)))))
    assert found[2] == f"loaded: pdf\n\n{BODY}"
    assert found[4].endswith('"selected_docs": ["a.md"]}\n\nDocs loaded: a.md\n\n[Doc] a.md\n\n«a.md of pdf»')


def test_a_second_load_points_to_the_first_and_shows_only_new_documents() -> None:
    found = contents(request_of(asked(Load("pdf"), Load("pdf"), Load("pdf", ("a.md",)))))
    assert found[4] == f"loaded: pdf\n\n{format_already_loaded('pdf')}"
    assert (
        found[6] == f"loaded: pdf\n\n{format_already_loaded('pdf')}\n\nDocs loaded: a.md\n\n[Doc] a.md\n\n«a.md of pdf»"
    )


def test_evictions_stay_below_the_stub() -> None:
    found = contents(request_of(asked(Load("pdf-tools"), Load("pdf"), limit=1)))
    assert found[2] == f"loaded: pdf-tools\n\n{format_withdrawn('pdf-tools')}"
    assert found[4] == f"loaded: pdf\nevicted: pdf-tools\n\n{BODY}"


def test_what_has_gone_says_so_in_the_same_words_even_when_it_is_loaded_again() -> None:
    conversation = asked(Load("pdf"), Select("pdf", ("a.md",)), Select("pdf", mode="clear"), Unload("pdf"))
    before = request_of(conversation)
    assert before.withdrawn == ("pdf",)
    assert contents(before)[2] == f"loaded: pdf\n\n{format_withdrawn('pdf')}"
    assert contents(before)[4].endswith(f"\n\n{format_withdrawn('pdf')}")
    assert contents(before)[6].endswith('"selected_docs": []}')
    conversation.ask(Load("pdf"))
    after = request_of(conversation)
    assert after.messages[: len(before.messages)] == before.messages
    assert after.withdrawn == ()


def test_what_history_lost_stands_in_one_message_after_the_system_messages() -> None:
    conversation = asked(Load("pdf", ("a.md",)), Load("数据"), Select("数据", ("docs/b.md",)))
    conversation.messages[0:5] = [
        {"role": "developer", "content": "Be kind."},
        {"role": "developer", "content": "So far: x"},
    ]
    found = request_of(conversation, layer_one=LIST, notices=["[Unloaded] x: gone", "[Unloaded] y: gone"])
    assert found.restored == ("pdf", "数据")
    assert found.messages[2] == {
        "role": "developer",
        "content": "Loaded skill context:\n\n[Unloaded] x: gone\n[Unloaded] y: gone\n\n"
        "[Loaded] pdf\n\n# Title\n«body of pdf»\nDocs loaded: a.md\n\n[Doc] a.md\n\n«a.md of pdf»\n\n"
        "[Loaded] 数据\n\n# Title\n«body of 数据»\nDocs loaded: none",
    }
    assert found.messages[4]["content"].endswith("[Doc] docs/b.md\n\n«docs/b.md of 数据»")


def test_a_document_whose_place_was_lost_comes_back_without_its_body() -> None:
    conversation = asked(Load("pdf"), Select("pdf", ("a.md",)))
    conversation.messages[4]["content"] = CLEARED
    found = contents(request_of(conversation))
    assert found[0].splitlines()[2] == "Documents of pdf, whose instructions stand in their own place:"
    assert found[0].endswith("Docs loaded: a.md\n\n[Doc] a.md\n\n«a.md of pdf»")
    assert found[3] == f"loaded: pdf\n\n{BODY}"


def test_notices_alone_have_the_message_too() -> None:
    found = request_of(asked(), notices=["[Unloaded] x: gone"])
    assert contents(found) == ["Loaded skill context:\n\n[Unloaded] x: gone", "hi"]


def test_in_the_system_message_everything_follows_the_first_layer_in_order_and_stubs_stay() -> None:
    conversation = asked(Load("pdf-tools"), Load("pdf", ("a.md",)), Load("pdf"), Unload("pdf-tools"), Load("数据"))
    found = request_of(
        conversation, Placement.SYSTEM, layer_one=LIST, guidance=GUIDANCE, notices=["[Unloaded] x: gone"]
    )
    assert found.messages[1:] == conversation.messages
    assert contents(found)[0] == (
        f"{LIST}\n\n{GUIDANCE}\n\n"
        "[Loaded] pdf\n\n# Title\n«body of pdf»\nDocs loaded: a.md\n\n[Doc] a.md\n\n«a.md of pdf»\n\n"
        "[Loaded] 数据\n\n# Title\n«body of 数据»\nDocs loaded: none\n\n"
        "[Unloaded] x: gone"
    )
    assert (found.restored, found.withdrawn) == ((), ())


def test_what_was_loaded_without_a_call_is_restored() -> None:
    shown = [LoadedSkill("pdf", body("pdf"), (doc("pdf", "a.md"),))]
    found = place_texts([], shown, mode=LoadMode.TURN, placement=Placement.TOOL_RESULT)
    assert found.restored == ("pdf",)
    assert contents(found)[0].startswith("Loaded skill context:\n\n[Loaded] pdf\n")


def test_a_skill_that_is_named_twice_is_shown_once() -> None:
    shown = [LoadedSkill("pdf", body("pdf"))] * 2
    for placement in Placement:
        found = place_texts([], shown, mode=SESSION, placement=placement)
        assert contents(found)[0].count("«body of pdf»") == 1


def test_a_user_message_that_began_no_turn_for_the_session_moves_nothing() -> None:
    conversation = asked(Load("pdf"), mode=LoadMode.TURN)
    shown = conversation.shown()
    before = request_of(conversation).messages
    conversation.messages.append({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]})
    after = place_texts(conversation.messages, shown, mode=LoadMode.TURN, placement=Placement.TOOL_RESULT)
    assert after.messages[: len(before)] == before
    assert after.restored == ()


def test_the_parts_are_our_texts_by_layer_and_skill() -> None:
    conversation = asked(Load("pdf"), Select("pdf", ("a.md", "docs/b.md")), Load("数据"))
    conversation.messages[6]["content"] = CLEARED
    found = request_of(conversation, layer_one=LIST, guidance=GUIDANCE)
    assert found.parts == (
        PromptPart(PromptLayer.OVERVIEW, "", LIST),
        PromptPart(PromptLayer.GUIDANCE, "", GUIDANCE),
        PromptPart(PromptLayer.BODY, "pdf", body("pdf").text),
        PromptPart(PromptLayer.DOCS, "pdf", doc("pdf", "a.md").text),
        PromptPart(PromptLayer.DOCS, "pdf", doc("pdf", "docs/b.md").text),
        PromptPart(PromptLayer.FALLBACK, "数据", body("数据").text),
    )


def tool(content: object, number: str = "call_1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": number, "content": content}


def extended(memory: MessageMemory, message: Message, added: tuple[str, ...], index: int = 0) -> dict[str, Any]:
    return memory.extend(index, message, added, is_same=False)


def restored(memory: MessageMemory, messages: Sequence[Message]) -> list[Message]:
    return list(memory.read(messages, SESSION).messages)


def test_an_extended_message_becomes_what_it_was() -> None:
    for content in ("loaded: pdf", None, "", [{"type": "text", "text": "loaded: pdf"}]):
        memory = MessageMemory()
        made = extended(memory, tool(content), ("more",))
        assert restored(memory, [made]) == [tool(content)]


def test_text_is_added_after_a_blank_line_and_to_parts_as_a_part() -> None:
    memory = MessageMemory()
    assert extended(memory, tool("a"), ("b", "c"))["content"] == "a\n\nb\n\nc"
    assert extended(memory, {"role": "system"}, ("b", "c"))["content"] == "b\n\nc"
    part = {"type": "text", "text": "a"}
    assert extended(memory, tool([part]), ("b", "c"))["content"] == [part, {"type": "text", "text": "b\n\nc"}]


def test_a_message_that_was_put_in_disappears() -> None:
    memory = MessageMemory()
    made = memory.insert(-1, "system", ("Loaded skill context:", "x"))
    user = {"role": "user", "content": "hi"}
    assert restored(memory, [made, user]) == [user]


def test_the_smallest_difference_makes_it_a_message_of_somebody_else() -> None:
    memory = MessageMemory()
    made = extended(memory, tool("loaded: pdf"), ("more",))
    inserted = memory.insert(-1, "system", ("Loaded skill context:",))
    strangers: list[Message] = [
        {**made, "content": f"{made['content']} "},
        {**made, "tool_call_id": "call_2"},
        {**made, "name": "skill_load"},
        {**made, "cache_control": {"type": "ephemeral"}},
        {**inserted, "content": "Loaded skill context:\nmine"},
        {**inserted, "role": "developer"},
        {**inserted, "role": "user"},
    ]
    found = restored(memory, strangers)
    assert all(one is other for one, other in zip(found, strangers, strict=True))


def test_messages_that_differ_in_one_part_are_told_apart() -> None:
    memory = MessageMemory()
    first, second = (tool([{"type": "text", "text": text}]) for text in ("loaded: a", "loaded: b"))
    made = [extended(memory, message, ("gone",), index) for index, message in enumerate((first, second))]
    assert restored(memory, made) == [first, second]


def test_nothing_that_the_caller_changes_later_changes_what_is_remembered() -> None:
    memory = MessageMemory()
    original = tool([{"type": "text", "text": "loaded: a"}])
    made = extended(memory, original, ("more",))
    copy = {**made, "content": list(made["content"])}
    original["content"].append("changed")
    assert restored(memory, [copy]) == [tool([{"type": "text", "text": "loaded: a"}])]


def test_the_same_texts_are_not_put_together_twice_in_a_row() -> None:
    memory = MessageMemory()
    first = extended(memory, tool("a"), ("b",))["content"]
    memory.finish_request(0)
    assert memory.extend(0, tool("a"), ("b",), is_same=True)["content"] is first
    assert memory.finish_request(0) > 0
    assert memory.extend(0, tool("a"), ("c",), is_same=True)["content"] == "a\n\nc"
    assert memory.finish_request(0) == 0
    assert memory.extend(0, tool("d"), ("c",), is_same=False)["content"] == "d\n\nc"


def test_the_oldest_are_forgotten_but_never_those_of_one_request() -> None:
    memory = MessageMemory(entries=3)
    one = [extended(memory, tool("a", str(number)), ("b",), number) for number in range(5)]
    memory.finish_request(0)
    assert restored(memory, one) == [tool("a", str(number)) for number in range(5)]
    two = [extended(memory, tool("c", str(number)), ("d",), number) for number in range(2)]
    memory.finish_request(0)
    assert restored(memory, two) == [tool("c", "0"), tool("c", "1")]
    assert restored(memory, one) == [*one[:4], tool("a", "4")]


def test_what_is_used_again_is_not_old() -> None:
    memory = MessageMemory(entries=2)
    first = extended(memory, tool("a"), ("b",))
    others: list[dict[str, Any]] = []
    for number in range(5):
        others.append(extended(memory, tool("c", str(number)), ("d",), 1))
        extended(memory, tool("a"), ("b",))
        memory.finish_request(0)
    assert restored(memory, [first]) == [tool("a")]
    assert restored(memory, others) == [*others[:4], tool("c", "4")]


def test_long_texts_are_forgotten_sooner() -> None:
    memory = MessageMemory(characters=1_000)
    first = extended(memory, tool("a" * 600, "1"), ("b",))
    memory.finish_request(0)
    second = extended(memory, tool("a" * 600, "2"), ("b",))
    memory.finish_request(0)
    assert restored(memory, [first]) == [first]
    assert restored(memory, [second]) == [tool("a" * 600, "2")]


LAYER_ONE = "Available skills:\n- pdf: reads files"
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


def test_a_request_is_built_anew_when_its_first_message_becomes_a_system_message() -> None:
    conversation, memory = Conversation(LoadMode.SESSION), MessageMemory()
    conversation.user("Hello")
    placed_by(conversation, conversation.messages, memory=memory)
    summary: list[Message] = [{"role": "system", "content": "So far: nothing"}]
    assert placed_by(conversation, summary, memory=memory) == placed_by(conversation, summary)


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
