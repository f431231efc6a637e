"""A conversation as a person reads it: words in full, each call with its result in one line."""

from openskills.agent.log import ARTIFACT, END, ERROR, SUMMARY, TOOL_CALL
from openskills.cli.chat_story import story, title
from openskills.session.events import MESSAGE, STATE_UPDATE, TOOL_RESPONSE, Event, new_event


def said(author: str, text: str | None, **more: object) -> Event:
    return new_event(author, MESSAGE, {"message": {"content": text}, **more})


def lines(*events: Event) -> list[str]:
    return ["".join(part if isinstance(part, str) else part[0] for part in line) for line in story(events)]


def call(identity: str, tool: str = "skill_load") -> Event:
    return new_event("assistant", TOOL_CALL, {"call_id": identity, "tool": tool, "arguments": '{"skill": "pdf"}'})


def result(identity: str, text: str = "loaded: pdf", *, failed: bool = False) -> Event:
    return new_event("assistant", TOOL_RESPONSE, {"call_id": identity, "content": text, "failed": failed})


def test_words_are_whole_and_every_call_stands_with_its_result() -> None:
    assert lines(
        said("user", "What is\nin it?\x1b", to="assistant"),
        said("assistant", None),
        call("1"),
        call("2"),
        result("2", "error: no\nmore", failed=True),
        result("1"),
        new_event("assistant", ARTIFACT, {"ref": "artifact://out/a@0"}),
        said("assistant", "Much."),
        new_event("assistant", END, {"text": "Much."}),
    ) == [
        "user: What is\nin it?\\x1b",
        "  * skill_load pdf -> loaded: pdf",
        "  * skill_load pdf -> error: no (+1 line)",
        "  kept artifact://out/a@0",
        "assistant: Much.",
    ]


def test_what_the_person_loaded_what_another_agent_was_told_and_how_it_failed_is_in_it() -> None:
    assert lines(
        result(""),
        said("assistant", "Find it.", to="assistant.pdf"),
        call("1", "skill_run"),
        new_event("assistant", SUMMARY, {"upto": 2, "text": "They met."}),
        new_event("assistant", ERROR, {"message": "it is gone"}),
        new_event("assistant", STATE_UPDATE, {}),
    ) == [
        "  * loaded: pdf",
        "assistant to assistant.pdf: Find it.",
        "  * skill_run pdf -> no result",
        "  summary of everything before: They met.",
        "  error: it is gone",
    ]


def test_events_that_somebody_else_wrote_in_another_way_break_nothing() -> None:
    strange = [new_event("x", kind) for kind in (MESSAGE, TOOL_CALL, TOOL_RESPONSE, ARTIFACT, SUMMARY, ERROR)]
    assert len(lines(*strange)) == 5
    assert lines(new_event("x", MESSAGE, {"message": "hi"}), said("x", None)) == []


def test_the_title_is_what_the_user_said_first_without_its_files() -> None:
    first = said("user", "What is\nin it?\n\n[attached: a.csv; commands find the user's files in work/inputs/]")
    assert title([said("assistant", "Hello."), first, said("user", "More.")]) == "What is in it?"
    assert title([]) == ""
