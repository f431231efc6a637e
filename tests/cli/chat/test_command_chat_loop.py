"""A chat at a terminal: Ctrl-C stops a run and not the session, Ctrl-D ends it, and no error does."""

from dataclasses import replace
from pathlib import Path

import pytest

from openskills.agent.models.model import ModelResponse
from openskills.testing.model_server import ErrorReply, ModelReply, ModelServer
from openskills.testing.models import call_tools
from tests.cli.chatting import PROMPT, Chat
from tests.cli.command import Command
from tests.skill_writer import WriteSkill

MODEL = ("--model", "openai/scripted", "--executor", "none", "--skills", "skills")


@pytest.fixture(autouse=True)
def skill(openskills: Command, write_skill: WriteSkill) -> Path:
    """There is a skill."""
    del openskills  # makes the directory in which the skill is written
    return write_skill("alpha")


def test_words_are_answered_line_after_line_until_ctrl_d(new_openskills: Command) -> None:
    with (
        ModelServer(["Hello!", "Bye."]) as server,
        Chat(new_openskills, *MODEL, environment=server.environment) as chat,
    ):
        assert "session chat-" in chat.expect()
        assert chat.say("hi") == f"hi\nHello!{PROMPT}"
        assert chat.say("  ") == PROMPT
        assert chat.say("and now") == f"and now\nBye.{PROMPT}"
        ran = chat.end()
    assert ran.code == 0
    assert ran.out.splitlines()[-1].startswith("continue with: openskills chat --session ")
    assert [message["content"] for message in server.requests[1].body["messages"][1:]] == ["hi", "Hello!", "and now"]


def test_an_answer_appears_while_it_is_made_and_ctrl_c_ends_it_and_not_the_chat(openskills: Command) -> None:
    slow = ModelReply(ModelResponse("one two " * 200), piece=4, between=0.2)
    with (
        ModelServer([slow, "I am still here."]) as server,
        Chat(openskills, *MODEL, environment=server.environment) as chat,
    ):
        chat.expect()
        chat.type("count\n")
        chat.expect("one ")
        chat.type("\x03")
        assert "stopped; the conversation continues" in chat.expect()
        assert server.requests[0].disconnected.wait(30)
        assert chat.say("hello?") == f"hello?\nI am still here.{PROMPT}"
        assert chat.end().code == 0


def test_ctrl_c_at_the_prompt_throws_away_what_was_typed(openskills: Command) -> None:
    with ModelServer(["Yes."]) as server, Chat(openskills, *MODEL, environment=server.environment) as chat:
        chat.expect()
        chat.type("never mind")
        chat.expect("never mind")
        chat.interrupt_prompt()
        chat.type("really\n")
        chat.expect("Yes.")
    assert server.requests[0].body["messages"][-1]["content"] == "really"


def test_ctrl_c_that_is_pressed_many_times_at_the_prompt_does_not_end_the_chat(openskills: Command) -> None:
    with ModelServer(["Yes."]) as server, Chat(openskills, *MODEL, environment=server.environment) as chat:
        chat.expect()
        for _ in range(20):
            chat.type("x" + "\x03" * 20)
        # All of them are answered before anything else is typed, which they would throw away.
        while chat.writes_within(2.0):
            assert chat.more(), f"the program ended: {chat.screen!r}"
        chat.interrupt_prompt()
        assert "Yes." in chat.say("really")
        assert chat.end().code == 0


def test_an_error_is_one_line_and_the_chat_goes_on(openskills: Command) -> None:
    refused = ErrorReply(401, "that key is not valid")
    with ModelServer([refused, "Fine."]) as server, Chat(openskills, *MODEL, environment=server.environment) as chat:
        chat.expect()
        failed = chat.say("hi")
        assert "error: " in failed
        assert len(failed.splitlines()) == 3
        assert "error: /nothing: unknown command or skill" in chat.say("/nothing")
        assert "Fine." in chat.say("again")
        assert chat.end().code == 0
    assert "Traceback" not in chat.screen


def test_tool_calls_are_shown_with_their_results(openskills: Command) -> None:
    both = call_tools(("skill_load", {"skill": "alpha"}), ("skill_load", {"skill": "alfa"}), text="Let me see.")
    with ModelServer([both, "Done."]) as server, Chat(openskills, *MODEL, environment=server.environment) as chat:
        chat.expect()
        lines = chat.say("merge").splitlines()
        chat.end()
    assert lines[1:4] == ["Let me see.", "* skill_load alpha", "* skill_load alfa"]
    assert "  -> skill_load alpha: loaded: alpha" in lines
    assert any(line.startswith("  -> skill_load alfa: error: unknown skill 'alfa'") for line in lines)
    assert lines[-2] == "Done."


def test_what_a_model_says_cannot_command_the_terminal(openskills: Command) -> None:
    with (
        ModelServer(["a\x1b]52;c;aGk=\x07b\tc\n表"]) as server,
        Chat(openskills, *MODEL, environment=server.environment) as chat,
    ):
        chat.expect()
        assert chat.say("hi") == f"hi\na\\x1b]52;c;aGk=\\x07b    c 表{PROMPT}"


def test_a_chat_goes_on_in_another_process(openskills: Command) -> None:
    with ModelServer(["Hello Ada!", "Ada."]) as server:
        with Chat(openskills, *MODEL, "--session", "mine", environment=server.environment) as chat:
            chat.expect()
            chat.say("I am Ada")
            chat.end("/quit\n")
        with Chat(openskills, *MODEL, "--session", "mine", environment=server.environment) as chat:
            assert "session mine, 3 events so far" in chat.expect()
            assert "Ada." in chat.say("Who am I?")
            chat.end()
    said = [message["content"] for message in server.requests[1].body["messages"][1:]]
    assert said == ["I am Ada", "Hello Ada!", "Who am I?"]


def test_asked_to_end_it_ends_what_it_does_and_says_so_by_its_status(openskills: Command) -> None:
    slow = ModelReply(ModelResponse("one two " * 200), piece=4, between=0.2)
    with ModelServer([slow]) as server, Chat(openskills, *MODEL, environment=server.environment) as chat:
        chat.expect()
        chat.type("count\n")
        chat.expect("one ")
        chat.terminate()
        assert chat.finish().code == 143
        assert server.requests[0].disconnected.wait(30)


def test_an_answer_is_rendered_as_markdown_with_whole_words_on_each_line(openskills: Command) -> None:
    text = "# Title\n\nSome **bold** " + "words " * 60 + "\n\n```\na  b\n\nc\n```\n\n- one <tag>\n- two"
    with ModelServer([text]) as server, Chat(openskills, *MODEL, environment=server.environment) as chat:
        chat.expect()
        lines = chat.say("hi").splitlines()
        chat.end()
    assert "**" not in "".join(lines)
    assert "# Title" not in lines
    assert [line.strip() for line in lines if "tag" in line or "two" in line] == ["• one <tag>", "• two"]
    assert [line.strip() for line in lines if line.strip() in ("a  b", "c")] == ["a  b", "c"]
    wrapped = [line for line in lines if "words" in line]
    assert len(wrapped) == 2
    assert all(set(line.split()) <= {"Some", "bold", "words"} for line in wrapped)


def test_a_spinner_is_shown_while_the_model_thinks_and_removed_with_the_answer(openskills: Command) -> None:
    slow = ModelReply(ModelResponse("Done."), first_after=2.0)
    with ModelServer([slow]) as server, Chat(openskills, *MODEL, environment=server.environment) as chat:
        chat.expect()
        chat.type("hi\n")
        chat.expect("thinking")
        chat.wait_for(f"Done.{PROMPT}")
        chat.end()
        assert "thinking" not in chat.screen
        # The cursor is visible again.
        assert chat.written.rindex(b"\x1b[?25h") > chat.written.rindex(b"\x1b[?25l")


def test_a_spinner_does_not_reach_a_pipe(openskills: Command) -> None:
    slow = ModelReply(ModelResponse("**Done.**"), first_after=1.0)
    with ModelServer([slow]) as server:
        ran = replace(openskills, environment=server.environment)("chat", "hi", *MODEL)
    assert (ran.code, ran.out) == (0, "**Done.**\n")
    assert "thinking" not in ran.err


def test_the_model_can_be_changed_during_a_conversation(openskills: Command) -> None:
    with ModelServer(["One.", "Two."]) as server, Chat(openskills, *MODEL, environment=server.environment) as chat:
        chat.expect()
        assert "One." in chat.say("hi")
        assert "model: openai/scripted" in chat.say("/model")
        assert "error: model: unknown model 'nonsense'" in chat.say("/model nonsense")
        assert "model: openai/other" in chat.say("/model openai/other")
        assert "Two." in chat.say("again")
        assert chat.end().code == 0
    assert [request.body["model"] for request in server.requests] == ["scripted", "other"]
    assert [message["content"] for message in server.requests[1].body["messages"][1:]] == ["hi", "One.", "again"]


def test_a_new_conversation_starts_empty_and_keeps_the_old_one(openskills: Command) -> None:
    with ModelServer(["One.", "Two."]) as server:
        with Chat(openskills, *MODEL, "--session", "first", environment=server.environment) as chat:
            chat.expect()
            chat.say("hi")
            assert "new conversation second; `--session first` continues the old" in chat.say("/new second")
            assert "Two." in chat.say("again")
            assert "/model [NAME]" in chat.say("/help")
            assert "openskills chat --session second" in chat.end().out
        assert [message["content"] for message in server.requests[1].body["messages"][1:]] == ["again"]
    listed = openskills("sessions", "list", "--json").json["sessions"]
    assert sorted(one["session"] for one in listed) == ["first", "second"]
