"""What models say."""

from openskills.agent.model import Answer, ToolCall, Usage


def test_an_answer_is_a_message_as_others_write_it() -> None:
    said = Answer("hello", (ToolCall("c1", "skill_load", '{"skill": "a"}'),)).message()
    assert said == {
        "role": "assistant",
        "content": "hello",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "skill_load", "arguments": '{"skill": "a"}'}}
        ],
    }
    assert Answer().message() == {"role": "assistant", "content": None}


def test_usage_adds_up() -> None:
    assert Usage(1, 2, 3) + Usage(10, 20, 30) == Usage(11, 22, 33)
