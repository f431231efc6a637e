from typing import Any

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.spec import Terminal
from openskills.tools.decode import decode
from openskills.tools.interactive import SKILL_EXEC, SKILL_KILL_SESSION, SKILL_POLL_SESSION, SKILL_WRITE_STDIN
from openskills.tools.interactive_arguments import MOST_SECONDS, ExecArguments, WriteArguments, patience
from openskills.tools.run import SKILL_RUN
from openskills.tools.schemas import parameters_of
from openskills.tools.tool import AnyTool


def test_everything_that_skill_run_takes_is_taken() -> None:
    run, execute = parameters_of(SKILL_RUN)["properties"], parameters_of(SKILL_EXEC)["properties"]
    assert set(execute) - set(run) == {"tty", "rows", "columns", "yield_ms"}
    assert set(run) <= set(execute)


def test_a_terminal_is_given_to_those_who_ask() -> None:
    asked: dict[str, Any] = {"skill": "demo", "command": "vi"}
    assert decode(SKILL_EXEC, asked).terminal is None
    assert decode(SKILL_EXEC, {**asked, "tty": True}).terminal == Terminal(24, 80)
    assert decode(SKILL_EXEC, {**asked, "tty": True, "rows": 50, "columns": 132}).terminal == Terminal(50, 132)


@pytest.mark.parametrize(
    "given", [{"rows": 0}, {"columns": 0}, {"rows": 100_000}, {"columns": 100_000}, {"yield_ms": "soon"}]
)
def test_a_size_or_a_time_that_cannot_be_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(given))):
        decode(SKILL_EXEC, {"skill": "demo", "command": "vi", "tty": True, **given})


@pytest.mark.parametrize(
    ("yield_ms", "seconds"),
    [(None, 0.4), (-1, 0.4), (-(10**30), 0.4), (0, 0.0), (1500, 1.5), (10**9, MOST_SECONDS), (10**400, MOST_SECONDS)],
)
def test_a_call_waits_as_long_as_it_says_within_bounds(yield_ms: int | None, seconds: float) -> None:
    assert patience(yield_ms, 0.4) == seconds


def test_fields_of_others_are_taken_and_null_is_nothing() -> None:
    assert decode(SKILL_POLL_SESSION, {"session_id": "x", "poll_lines": 40, "yield_ms": None}).offset is None
    found = decode(SKILL_WRITE_STDIN, {"session_id": "x", "chars": None, "submit": None, "poll_lines": None})
    assert (found.chars, found.submit, found.close_stdin) == ("", False, False)
    assert decode(SKILL_EXEC, {"skill": "demo", "command": "x", "poll_lines": 3, "tty": None}).tty is False
    for tool in (SKILL_EXEC, SKILL_WRITE_STDIN, SKILL_POLL_SESSION):
        assert "poll_lines" not in parameters_of(tool)["properties"]


@pytest.mark.parametrize("tool", [SKILL_WRITE_STDIN, SKILL_POLL_SESSION, SKILL_KILL_SESSION])
def test_a_session_must_be_named(tool: AnyTool) -> None:
    assert parameters_of(tool)["required"] == ["session_id"]
    with pytest.raises(InvalidArgument, match="session_id: is missing"):
        decode(tool, {})


def test_an_offset_cannot_be_negative() -> None:
    with pytest.raises(InvalidArgument, match="offset"):
        decode(SKILL_POLL_SESSION, {"session_id": "x", "offset": -1})


def test_control_keys_are_bytes_and_half_a_character_is_refused() -> None:
    assert WriteArguments(session_id="x", chars="\u0003ü").encoded() == b"\x03\xc3\xbc"
    with pytest.raises(InvalidArgument, match="half a character"):
        WriteArguments.model_construct(session_id="x", chars="\ud800").encoded()


def test_the_default_time_is_not_that_of_a_run() -> None:
    assert ExecArguments(skill="demo", command="x").timeout is None
    assert "300" not in parameters_of(SKILL_EXEC)["properties"]["timeout"]["description"]
