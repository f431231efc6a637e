import json

from openskills.executors.processes.hints import Interaction
from openskills.executors.processes.interactive import Poll
from openskills.executors.processes.screen import Picture
from openskills.executors.processes.viewing import View
from openskills.executors.requests import RunResult
from openskills.executors.spec import Captured, Ended, Ending, Isolation
from openskills.tools.interactive_outcome import progress, readable, staged_inputs, told
from openskills.tools.uploads import StagedUpload

PLAIN = {"status": "running", "session_id": "id", "output": "text", "offset": 3, "next_offset": 9}


def poll(**fields: object) -> Poll:
    given: dict[str, object] = {"status": "running", "output": "raw", "data": b"raw", "offset": 3, "next_offset": 9}
    return Poll(**{**given, **fields})  # pyright: ignore[reportArgumentType] - fields of every type


def result_of(stdout: Captured) -> RunResult:
    return RunResult(Ended(0, Ending.EXITED, 1, stdout, Captured()), Isolation.NONE, "run")


def test_what_there_is_nothing_to_say_about_is_left_out() -> None:
    assert progress("id", poll(), View("text")) == PLAIN


def test_everything_that_there_is_is_said() -> None:
    picture = Picture(("", "  menu", "", ""), 1, 2, True, True, False)
    asked = poll(missed=5, more=True, interaction=Interaction("prompt", "Name:"))
    assert progress("id", asked, View("text", picture)) == {
        **PLAIN,
        "missed": 5,
        "more": True,
        "interaction": {"needs_input": True, "kind": "prompt", "hint": "Name:"},
        "screen": {"lines": ["", "  menu"], "cursor": {"row": 2, "column": 3}},
    }


def test_a_screen_with_a_gap_says_so() -> None:
    found = progress("id", poll(), View("", Picture(("",), 0, 0, True, True, True)))
    assert found["screen"] == {"lines": [], "cursor": {"row": 1, "column": 1}, "incomplete": True}


def test_an_exit_code_is_there_once_it_has_exited() -> None:
    ended = Ended(7, Ending.EXITED, 1, Captured(), Captured())
    found = progress("id", poll(status="exited", result=ended), View("text"))
    assert (found["status"], found["exit_code"]) == ("exited", 7)


def test_a_model_reads_the_same_with_no_content_twice() -> None:
    file = {"name": "out/a", "content": "long"}
    result = {"output_files": [file], "primary_output": file}
    text = told({**PLAIN, "output": "ü", "result": result})
    assert text.count("long") == 1
    assert "ü" in text
    assert json.loads(text)["result"]["output_files"] == [file]
    assert json.loads(told(PLAIN)) == PLAIN


def test_the_output_of_a_terminal_becomes_text() -> None:
    found = readable(result_of(Captured(b"\x1b[31mred\x1b[0m\r\n")))
    assert (found.stdout, found.warnings) == ("red\n", ())


def test_what_was_drawn_on_an_own_screen_is_left_out_and_that_is_said() -> None:
    drawn = b"before\r\n\x1b[?1049h\x1b[Hdrawing\x1b[?1049lafter"
    found = readable(result_of(Captured(drawn)))
    assert found.stdout == "before\nafter"
    assert found.warnings == ("what the program drew on a screen of its own is not in stdout",)
    assert readable(result_of(Captured(drawn[:30]))).stdout == "before\n"


def test_what_was_not_kept_is_still_said() -> None:
    found = readable(result_of(Captured(b"head\r\n", b"tail\r\n", 1000)))
    assert found.stdout == "head\n\n[... 1000 bytes not kept ...]\ntail\n"


def test_files_are_named_by_where_they_are_and_what_they_were() -> None:
    assert staged_inputs([StagedUpload("work/inputs/a", "ä", "text/plain", 3)]) == [
        {"name": "work/inputs/a", "original_name": "ä", "size_bytes": 3}
    ]
