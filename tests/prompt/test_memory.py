"""What was made here is known when it comes back, and only that."""

from typing import Any

from openskills.prompt.memory import Memory
from openskills.prompt.messages import Message


def tool(content: object, number: str = "call_1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": number, "content": content}


def test_an_extended_message_becomes_what_it_was() -> None:
    for content in ("loaded: pdf", None, "", [{"type": "text", "text": "loaded: pdf"}]):
        memory = Memory()
        made = memory.extended(tool(content), ("more",))
        assert memory.originals([made]) == [tool(content)]


def test_text_is_added_after_a_blank_line_and_to_parts_as_a_part() -> None:
    memory = Memory()
    assert memory.extended(tool("a"), ("b", "c"))["content"] == "a\n\nb\n\nc"
    assert memory.extended({"role": "system"}, ("b", "c"))["content"] == "b\n\nc"
    part = {"type": "text", "text": "a"}
    assert memory.extended(tool([part]), ("b", "c"))["content"] == [part, {"type": "text", "text": "b\n\nc"}]


def test_a_message_that_was_put_in_disappears() -> None:
    memory = Memory()
    made = memory.inserted("system", ("Loaded skill context:", "x"))
    user = {"role": "user", "content": "hi"}
    assert memory.originals([made, user]) == [user]


def test_the_smallest_difference_makes_it_a_message_of_somebody_else() -> None:
    memory = Memory()
    made = memory.extended(tool("loaded: pdf"), ("more",))
    inserted = memory.inserted("system", ("Loaded skill context:",))
    strangers: list[Message] = [
        {**made, "content": f"{made['content']} "},
        {**made, "tool_call_id": "call_2"},
        {**made, "name": "skill_load"},
        {**made, "cache_control": {"type": "ephemeral"}},
        {**inserted, "content": "Loaded skill context:\nmine"},
        {**inserted, "role": "developer"},
        {**inserted, "role": "user"},
    ]
    found = memory.originals(strangers)
    assert all(one is other for one, other in zip(found, strangers, strict=True))


def test_messages_that_differ_in_one_part_are_told_apart() -> None:
    memory = Memory()
    first, second = (tool([{"type": "text", "text": text}]) for text in ("loaded: a", "loaded: b"))
    made = [memory.extended(message, ("gone",)) for message in (first, second)]
    assert memory.originals(made) == [first, second]


def test_nothing_that_the_caller_changes_later_changes_what_is_remembered() -> None:
    memory = Memory()
    original = tool([{"type": "text", "text": "loaded: a"}])
    made = memory.extended(original, ("more",))
    copy = {**made, "content": list(made["content"])}
    made["content"] = "changed"
    original["content"].append("changed")
    assert memory.originals([copy]) == [tool([{"type": "text", "text": "loaded: a"}])]


def test_the_same_texts_are_not_put_together_twice_in_a_row() -> None:
    memory = Memory()
    first = memory.extended(tool("a"), ("b",))["content"]
    memory.close()
    assert memory.extended(tool("a"), ("b",))["content"] is first
    memory.close()
    memory.close()
    assert memory.extended(tool("a"), ("b",))["content"] is not first


def test_the_oldest_are_forgotten_but_never_those_of_one_request() -> None:
    memory = Memory(entries=3)
    one = [memory.extended(tool("a", str(number)), ("b",)) for number in range(5)]
    memory.close()
    assert memory.originals(one) == [tool("a", str(number)) for number in range(5)]
    two = [memory.extended(tool("c", str(number)), ("d",)) for number in range(2)]
    memory.close()
    assert memory.originals(two) == [tool("c", "0"), tool("c", "1")]
    assert memory.originals(one) == [*one[:4], tool("a", "4")]


def test_what_is_used_again_is_not_old() -> None:
    memory = Memory(entries=2)
    first = memory.extended(tool("a"), ("b",))
    others: list[dict[str, Any]] = []
    for number in range(5):
        others.append(memory.extended(tool("c", str(number)), ("d",)))
        memory.extended(tool("a"), ("b",))
        memory.close()
    assert memory.originals([first]) == [tool("a")]
    assert memory.originals(others) == [*others[:4], tool("c", "4")]


def test_long_texts_are_forgotten_sooner() -> None:
    memory = Memory(characters=1_000)
    first = memory.extended(tool("a" * 600, "1"), ("b",))
    memory.close()
    second = memory.extended(tool("a" * 600, "2"), ("b",))
    memory.close()
    assert memory.originals([first]) == [first]
    assert memory.originals([second]) == [tool("a" * 600, "2")]
