"""From a log to messages."""

from datetime import UTC, datetime
from typing import Any

from openskills.agent.log import SUMMARISED, in_order, last_turn, transcript, unanswered
from openskills.session.events import Event


def event(seq: int, author: str, kind: str, **payload: Any) -> Event:
    return Event(f"e{seq}", author, kind, datetime.now(UTC), payload, {}, seq)


def user(seq: int, text: str, to: str = "a") -> Event:
    return event(seq, "user", "message", to=to, message={"role": "user", "content": text})


def calls(*identities: str) -> dict[str, Any]:
    made = [{"id": one, "type": "function", "function": {"name": "t", "arguments": "{}"}} for one in identities]
    return {"role": "assistant", "content": None, "tool_calls": made}


def test_an_agent_sees_what_was_said_to_it_and_by_it() -> None:
    log = [
        user(1, "hello"),
        event(2, "a", "message", message=calls("c1")),
        event(3, "a", "tool.call", call_id="c1"),
        event(4, "a", "tool.response", call_id="c1", content="done"),
        event(5, "a", "state.update"),
        event(6, "a", "message", to="b", message={"role": "user", "content": "a task"}),
        event(7, "b", "message", message={"role": "assistant", "content": "b's answer"}),
        event(8, "a", "message", message={"role": "assistant", "content": "an answer"}),
    ]
    assert [message["role"] for message in transcript(log, "a")] == ["user", "assistant", "tool", "assistant"]
    assert [message["content"] for message in transcript(log, "b")] == ["a task", "b's answer"]


def test_results_stand_in_the_order_of_the_calls() -> None:
    messages = [calls("c1", "c2"), *({"role": "tool", "tool_call_id": one, "content": one} for one in ("c2", "c1"))]
    assert [message.get("content") for message in in_order(messages)] == [None, "c1", "c2"]
    assert unanswered(messages) == []
    assert unanswered([calls("c1", "c2"), messages[1]]) == [("c1", "t")]


def test_a_summary_takes_the_place_of_what_was_before_it() -> None:
    log = [user(1, "one"), user(2, "two"), user(3, "three"), event(4, "a", "summary", upto=2, text="they counted")]
    assert [message["content"] for message in transcript(log, "a")] == [f"{SUMMARISED}\nthey counted", "three"]
    assert transcript(log, "b") == []


def test_the_last_turns_begin_with_what_was_said_to_the_agent() -> None:
    log = [user(1, "one"), event(2, "a", "message", message={}), user(3, "two"), user(4, "three")]
    assert last_turn(log, "a") == 3
    assert last_turn(log, "a", 2) == 2
    assert last_turn(log, "a", 5) == 0
    assert last_turn(log, "a", 0) == 4
    assert last_turn([], "a") == 0


def test_of_two_calls_with_one_id_the_one_without_a_result_is_unanswered() -> None:
    call = calls("c1")
    result = {"role": "tool", "tool_call_id": "c1", "content": "x"}
    assert unanswered([call, result, call]) == [("c1", "t")]
    assert unanswered([call, result, call, result]) == []
