"""Talking to commands in a sandbox."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import InvalidArgument, NotLoaded, TooManyRequests, UnknownSkill
from openskills.executors.interactive import Interaction, ProcessLimits, ProcessPollResult, ProcessTable
from openskills.executors.requests import RunResult
from openskills.executors.spec import CapturedOutput, CommandResult, EndReason, Isolation, Limits, TerminalSize
from openskills.executors.terminal import ScreenSnapshot, ScreenView
from openskills.tools.interactive import (
    MAX_WAIT_SECONDS,
    SKILL_EXEC,
    SKILL_KILL_SESSION,
    SKILL_POLL_SESSION,
    SKILL_WRITE_STDIN,
    ExecArguments,
    WriteArguments,
    build_progress,
    clamp_wait,
    describe_progress,
    describe_staged_inputs,
    strip_terminal_codes,
)
from openskills.tools.run import SKILL_RUN
from openskills.tools.tool import AnyTool, ToolOptions, build_parameters, decode
from openskills.tools.uploads import WorkspaceUpload, upload_from_bytes
from tests.tools.contexts import loaded_view
from tests.tools.interactive_talks import TIMEOUT, Talker, agent_of, talker

LONG = int(TIMEOUT * 1000)

ASK = """
name = input("Name: ")
colour = input("Colour?\\n")
with open("out/answer.txt", "w") as file:
    file.write(f"{name} likes {colour}\\n")
print("thanks", name)
"""

CHOOSE = """
print("Choose a number")
options = ["red", "green", "blue"]
for number, option in enumerate(options, 1):
    print(f"  {number}) {option}")
print("You chose", options[int(input("> ")) - 1])
"""

MENU = """
import curses

def main(window):
    curses.curs_set(0)
    items, at = ["open", "save", "quit"], 0
    while True:
        window.erase()
        window.border()
        for number, item in enumerate(items):
            mark = ">" if number == at else " "
            window.addstr(2 + number, 4, f"{mark} {item}", curses.A_BOLD | curses.color_pair(0))
        window.refresh()
        key = window.getch()
        if key == curses.KEY_DOWN:
            at = min(at + 1, 2)
        elif key in (10, 13):
            return items[at]

print("you took", curses.wrapper(main))
"""


async def test_questions_are_answered_and_the_result_is_that_of_a_run(tmp_path: Path) -> None:
    async with talker(tmp_path, files={"scripts/ask.py": ASK}) as me:
        first = await me.start(
            "python3 scripts/ask.py", output_files=["out/*.txt"], save_as_artifacts=True, yield_ms=LONG
        )
        assert (first["status"], first["output"], first["next_offset"]) == ("running", "Name: ", 6)
        assert first["interaction"] == {"needs_input": True, "kind": "prompt", "hint": "Name:"}
        second = await me.type("Ada", yield_ms=LONG)
        assert (second["output"], second["interaction"]["hint"]) == ("Colour?\n", "Colour?")
        last = await me.type("teal", yield_ms=LONG)
        assert (last["status"], last["output"], last["exit_code"]) == ("exited", "thanks Ada\n", 0)
        assert "interaction" not in last
        result = last["result"]
        assert me.seen == result["stdout"] == "Name: Colour?\nthanks Ada\n"
        assert (result["exit_code"], result["timed_out"], result["isolation"]) == (0, False, "bubblewrap")
        assert result["output_files"][0]["content"] == "Ada likes teal\n"
        assert result["artifact_files"] == [
            {"name": "out/answer.txt", "version": 0, "ref": "artifact://out/answer.txt@0"}
        ]


async def test_the_result_stays_the_same_and_nothing_is_printed_twice(tmp_path: Path) -> None:
    async with talker(tmp_path) as me:
        await me.start("echo made > out/x; echo over; exit 7", output_files=["out/*"])
        first = await me.ended()
        assert me.seen == "over\n"
        for later in (await me.poll(), await me.type(), await me.poll()):
            assert (later["status"], later["output"], later["exit_code"]) == ("exited", "", 7)
            assert later["result"] == first["result"]
        again = await me.call("skill_poll_session", {"session_id": me.session_id, "offset": 0})
        assert (again.data["output"], again.data["offset"], again.data["next_offset"]) == ("over\n", 0, 5)


async def test_a_numbered_list_is_a_selection(tmp_path: Path) -> None:
    async with talker(tmp_path, files={"scripts/choose.py": CHOOSE}) as me:
        first = await me.start("python3 scripts/choose.py", yield_ms=LONG)
        assert first["interaction"]["kind"] == "selection"
        last = await me.type("2", yield_ms=LONG)
        assert last["output"] == "You chose green\n"


async def test_a_terminal_is_a_terminal_and_colours_are_left_out(tmp_path: Path) -> None:
    async with talker(tmp_path) as me:
        command = "stty size; test -t 0 && printf '\\033[1;31mName:\\033[0m '; read -r name; echo \"hi $name\""
        first = await me.start(command, tty=True, rows=30, columns=100, yield_ms=LONG)
        assert first["output"] == "30 100\nName: "
        assert "screen" not in first
        # The offsets are those of the bytes, with the colours and the carriage returns in them.
        assert first["next_offset"] == len(b"30 100\r\n\x1b[1;31mName:\x1b[0m ")
        last = await me.type("Ada", yield_ms=LONG)
        assert (last["status"], last["output"]) == ("exited", "Ada\nhi Ada\n")
        assert last["result"]["stdout"] == "30 100\nName: Ada\nhi Ada\n"


async def test_a_full_screen_program_shows_its_screen_and_hears_keys(tmp_path: Path) -> None:
    async with talker(tmp_path, files={"scripts/menu.py": MENU}) as me:
        await me.start("python3 scripts/menu.py", tty=True, rows=8, columns=30)
        shown = await me.until(lambda _, data: _lines(data)[-1:] == ["└" + "─" * 28 + "┘"])
        assert _lines(shown) == [
            "┌" + "─" * 28 + "┐",
            "│" + " " * 28 + "│",
            "│   > open" + " " * 19 + "│",
            "│     save" + " " * 19 + "│",
            "│     quit" + " " * 19 + "│",
            "│" + " " * 28 + "│",
            "│" + " " * 28 + "│",
            "└" + "─" * 28 + "┘",
        ]
        assert set(shown["screen"]["cursor"]) == {"row", "column"}
        await me.type("\x1bOB", submit=False)
        await me.until(lambda _, data: "> save" in "".join(_lines(data)))
        last = await me.type("", yield_ms=LONG)
        assert (last["status"], last["exit_code"]) == ("exited", 0)
        assert "screen" not in last
        assert last["result"]["stdout"].strip() == "you took save"
        assert any("screen of its own" in warning for warning in last["result"]["warnings"])


def _lines(data: Any) -> list[str]:
    return data.get("screen", {}).get("lines", [])


async def test_ctrl_c_ends_what_runs_in_the_foreground(tmp_path: Path) -> None:
    async with talker(tmp_path) as me:
        await me.start("echo rea''dy; sleep 1000; echo not reached", tty=True)
        await me.until(lambda seen, _: "ready" in seen)
        last = await me.type("\u0003", submit=False, yield_ms=LONG)
        assert (last["status"], last["exit_code"]) == ("exited", 130)
        assert "not reached" not in last["result"]["stdout"]


async def test_a_shell_lives_through_many_calls(tmp_path: Path) -> None:
    async with talker(tmp_path) as me:
        await me.start("exec bash --norc --noprofile -i", tty=True)
        for number in range(3):
            await me.type(f"x={number}; echo value''=$x")
            await me.until(lambda seen, _, number=number: f"value={number}" in seen)
        await me.type("exit 5")
        assert (await me.ended())["exit_code"] == 5


async def test_long_output_comes_in_pieces_and_no_character_is_lost(tmp_path: Path) -> None:
    async with talker(tmp_path, options=ToolOptions(inline_bytes=1000)) as me:
        code = "print(''.join(f'{n} äöü漢字😀\\n' for n in range(2000)), end='')"
        first = await me.start(f'python3 -c "{code}"', yield_ms=LONG)
        assert first["more"] is True
        data = first
        while data.get("more") or data["status"] == "running":
            data = await me.poll(yield_ms=1000)
            assert len(data["output"].encode()) <= 1000
        assert me.seen == "".join(f"{number} äöü漢字😀\n" for number in range(2000))
        assert len(data["result"]["stdout"].encode()) < 1200


async def test_output_that_is_not_kept_is_counted(tmp_path: Path) -> None:
    options = ToolOptions(limits=Limits(output_bytes=1000))
    async with talker(tmp_path, options=options) as me:
        await me.start("seq -f %09g 5000; read", yield_ms=0)
        await me.until(lambda seen, _: "000005000" in seen)
        again = await me.call("skill_poll_session", {"session_id": me.session_id, "offset": 0, "yield_ms": 0})
        assert again.data["missed"] == again.data["offset"] > 0
        assert again.data["next_offset"] == 50_000


async def test_input_can_be_closed_and_nothing_is_taken_after_that(tmp_path: Path) -> None:
    async with talker(tmp_path) as me:
        await me.start("cat; echo end of input; exec sleep 1000", stdin="zero\n", yield_ms=0)
        await me.type("one", close_stdin=True)
        await me.until(lambda seen, _: "end of input" in seen)
        assert me.seen == "zero\none\nend of input\n"
        refused = await me.call("skill_write_stdin", {"session_id": me.session_id, "chars": "two"})
        assert isinstance(refused.error, InvalidArgument)
        assert refused.text == "error: chars: the input of this command is closed; start it again with skill_exec"


async def test_who_writes_to_a_command_that_has_ended_hears_how_it_ended(tmp_path: Path) -> None:
    async with talker(tmp_path) as me:
        await me.start("echo bye; exit 4", yield_ms=0)
        await me.ended()
        late = await me.type("hello?")
        assert (late["status"], late["exit_code"]) == ("exited", 4)
        assert late["warnings"] == ["the command has ended; nothing was written"]


async def test_a_command_that_does_not_read_says_how_much_is_left(tmp_path: Path) -> None:
    async with talker(tmp_path) as me:
        await me.start("exec sleep 1000", yield_ms=0)
        data = await me.type("x" * 300_000)
        assert data["status"] == "running"
        assert "of 300,001 bytes; write the rest again" in data["warnings"][0]


async def test_a_kill_ends_it_and_what_it_made_is_there(tmp_path: Path) -> None:
    async with talker(tmp_path) as me:
        await me.start("echo half > out/part.txt; echo ready; sleep 1000 & sleep 1000", output_files=["out/*"])
        await me.until(lambda seen, _: "ready" in seen)
        killed = await me.call("skill_kill_session", {"session_id": me.session_id})
        wanted = {"ok": True, "session_id": me.session_id, "status": "killed"}
        assert (killed.data, json.loads(killed.text)) == (wanted, wanted)
        again = await me.call("skill_kill_session", {"session_id": me.session_id})
        assert again.data == wanted
        last = await me.poll()
        assert last["result"]["output_files"][0]["content"] == "half\n"
        await me.start("exit 0", yield_ms=0)
        await me.ended()
        over = await me.call("skill_kill_session", {"session_id": me.session_id})
        assert over.data["status"] == "exited"


async def test_nobody_else_has_the_session_and_the_error_lists_ones_own(tmp_path: Path) -> None:
    async with talker(tmp_path) as me:
        processes = ProcessTable()
        mine, other = (Talker(agent_of(me.context, processes, name)) for name in ("mine", "other"))
        await mine.start("read", yield_ms=0)
        for name in ("skill_poll_session", "skill_write_stdin", "skill_kill_session"):
            refused = await other.call(name, {"session_id": mine.session_id})
            assert isinstance(refused.error, InvalidArgument)
            assert "none is running; start one with skill_exec" in refused.text
        await other.start("read", yield_ms=0)
        refused = await other.call("skill_poll_session", {"session_id": mine.session_id})
        assert f"running: {other.session_id};" in refused.text
        assert (await mine.poll(yield_ms=0))["status"] == "running"
        unknown = await mine.call("skill_poll_session", {"session_id": "x" * 10_000})
        assert len(unknown.text) < 400
        await processes.close()


async def test_the_gate_and_the_limits_hold(tmp_path: Path) -> None:
    async with talker(tmp_path, limits=ProcessLimits(max_per_owner=1)) as me:
        await me.start("read", yield_ms=0)
        full = await me.call("skill_exec", {"skill": "demo", "command": "read"})
        assert isinstance(full.error, TooManyRequests)
        unknown = await me.call("skill_exec", {"skill": "dmo", "command": "read"})
        assert isinstance(unknown.error, UnknownSkill)
        me.context = replace(me.context, view=loaded_view)
        refused = await me.call("skill_exec", {"skill": "demo", "command": "read"})
        assert isinstance(refused.error, NotLoaded)
        assert "skill_load" in refused.text


@pytest.mark.parametrize(("given", "timed_out"), [({"timeout": 0.5}, True), ({}, False)])
async def test_a_command_that_waits_for_somebody_has_all_the_time_unless_it_says(
    tmp_path: Path, given: dict[str, object], timed_out: bool
) -> None:
    options = ToolOptions(limits=Limits(timeout=0.5), max_timeout=60.0)
    async with talker(tmp_path, options=options) as me:
        await me.start("sleep 1; echo done", **given)
        last = await me.ended()
        assert last["result"]["timed_out"] is timed_out


async def test_the_users_files_are_told_at_once(tmp_path: Path) -> None:
    uploads = (upload_from_bytes("data.csv", b"1,2\n"),)
    async with talker(tmp_path, uploads=uploads) as me:
        first = await me.start("cat work/inputs/data.csv; read", yield_ms=0)
        assert first["staged_inputs"] == [
            {"name": "work/inputs/data.csv", "original_name": "data.csv", "size_bytes": 4}
        ]
        await me.until(lambda seen, _: seen == "1,2\n")
        second = await me.start("read", yield_ms=0)
        assert "staged_inputs" not in second


async def test_an_editor_that_the_command_opens_saves_the_text(tmp_path: Path) -> None:
    async with talker(tmp_path) as me:
        await me.start('"$EDITOR" work/note.txt; cat work/note.txt', editor_text="from the model\n", tty=True)
        last = await me.ended()
        assert last["result"]["stdout"] == "from the model\n"


async def test_a_call_that_is_given_up_before_the_id_is_known_leaves_nothing_running(tmp_path: Path) -> None:
    async with talker(tmp_path) as me:
        talks = await me.context.open_commands()
        starting = asyncio.create_task(me.start("sleep 1000", yield_ms=LONG))
        async with asyncio.timeout(TIMEOUT):
            while not talks.list_running():
                await asyncio.sleep(0.01)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert talks.list_running() == ()


async def test_the_text_for_a_model_says_what_the_data_says(tmp_path: Path) -> None:
    async with talker(tmp_path) as me:
        arguments = {"skill": "demo", "command": "echo ü", "yield_ms": LONG}
        result = await me.call("skill_exec", arguments)
        assert json.loads(result.text) == result.data
        assert "ü" in result.text


def test_everything_that_skill_run_takes_is_taken() -> None:
    run, execute = build_parameters(SKILL_RUN)["properties"], build_parameters(SKILL_EXEC)["properties"]
    assert set(execute) - set(run) == {"tty", "rows", "columns", "yield_ms"}
    assert set(run) <= set(execute)


def test_a_terminal_is_given_to_those_who_ask() -> None:
    asked: dict[str, Any] = {"skill": "demo", "command": "vi"}
    assert decode(SKILL_EXEC, asked).terminal is None
    assert decode(SKILL_EXEC, {**asked, "tty": True}).terminal == TerminalSize(24, 80)
    assert decode(SKILL_EXEC, {**asked, "tty": True, "rows": 50, "columns": 132}).terminal == TerminalSize(50, 132)


@pytest.mark.parametrize(
    "given", [{"rows": 0}, {"columns": 0}, {"rows": 100_000}, {"columns": 100_000}, {"yield_ms": "soon"}]
)
def test_a_size_or_a_time_that_cannot_be_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(given))):
        decode(SKILL_EXEC, {"skill": "demo", "command": "vi", "tty": True, **given})


@pytest.mark.parametrize(
    ("yield_ms", "seconds"),
    [
        (None, 0.4),
        (-1, 0.4),
        (-(10**30), 0.4),
        (0, 0.0),
        (1500, 1.5),
        (10**9, MAX_WAIT_SECONDS),
        (10**400, MAX_WAIT_SECONDS),
    ],
)
def test_a_call_waits_as_long_as_it_says_within_bounds(yield_ms: int | None, seconds: float) -> None:
    assert clamp_wait(yield_ms, 0.4) == seconds


def test_fields_of_others_are_taken_and_null_is_nothing() -> None:
    assert decode(SKILL_POLL_SESSION, {"session_id": "x", "poll_lines": 40, "yield_ms": None}).offset is None
    found = decode(SKILL_WRITE_STDIN, {"session_id": "x", "chars": None, "submit": None, "poll_lines": None})
    assert (found.chars, found.submit, found.close_stdin) == ("", False, False)
    assert decode(SKILL_EXEC, {"skill": "demo", "command": "x", "poll_lines": 3, "tty": None}).tty is False
    for tool in (SKILL_EXEC, SKILL_WRITE_STDIN, SKILL_POLL_SESSION):
        assert "poll_lines" not in build_parameters(tool)["properties"]


@pytest.mark.parametrize("tool", [SKILL_WRITE_STDIN, SKILL_POLL_SESSION, SKILL_KILL_SESSION])
def test_a_session_must_be_named(tool: AnyTool) -> None:
    assert build_parameters(tool)["required"] == ["session_id"]
    with pytest.raises(InvalidArgument, match="session_id: required"):
        decode(tool, {})


def test_an_offset_cannot_be_negative() -> None:
    with pytest.raises(InvalidArgument, match="offset"):
        decode(SKILL_POLL_SESSION, {"session_id": "x", "offset": -1})


def test_control_keys_are_bytes_and_a_lone_surrogate_is_refused() -> None:
    assert WriteArguments(session_id="x", chars="\u0003ü").encode_chars() == b"\x03\xc3\xbc"
    with pytest.raises(InvalidArgument, match="lone surrogate"):
        WriteArguments.model_construct(session_id="x", chars="\ud800").encode_chars()


def test_the_default_time_is_not_that_of_a_run() -> None:
    assert ExecArguments(skill="demo", command="x").timeout is None
    assert "300" not in str(build_parameters(SKILL_EXEC)["properties"]["timeout"])


PLAIN = {"status": "running", "session_id": "id", "output": "text", "offset": 3, "next_offset": 9}


def poll(**fields: object) -> ProcessPollResult:
    given: dict[str, object] = {"data": b"raw", "offset": 3, "next_offset": 9}
    return ProcessPollResult(**{**given, **fields})  # pyright: ignore[reportArgumentType] - fields of every type


def result_of(stdout: CapturedOutput) -> RunResult:
    return RunResult(CommandResult(0, EndReason.EXITED, 1, stdout, CapturedOutput()), Isolation.NONE, "run")


def test_what_there_is_nothing_to_say_about_is_left_out() -> None:
    assert build_progress("id", poll(), ScreenView("text")) == PLAIN


def test_everything_that_there_is_is_said() -> None:
    picture = ScreenSnapshot(("", "  menu", "", ""), 1, 2, True, True, False)
    asked = poll(missed=5, more=True, interaction=Interaction("prompt", "Name:"))
    assert build_progress("id", asked, ScreenView("text", picture)) == {
        **PLAIN,
        "missed": 5,
        "more": True,
        "interaction": {"needs_input": True, "kind": "prompt", "hint": "Name:"},
        "screen": {"lines": ["", "  menu"], "cursor": {"row": 2, "column": 3}},
    }


def test_a_screen_with_a_gap_says_so() -> None:
    found = build_progress("id", poll(), ScreenView("", ScreenSnapshot(("",), 0, 0, True, True, True)))
    assert found["screen"] == {"lines": [], "cursor": {"row": 1, "column": 1}, "incomplete": True}


def test_an_exit_code_is_there_once_it_has_exited() -> None:
    ended = CommandResult(7, EndReason.EXITED, 1, CapturedOutput(), CapturedOutput())
    found = build_progress("id", poll(result=ended), ScreenView("text"))
    assert (found["status"], found["exit_code"]) == ("exited", 7)


def test_a_model_reads_the_same_with_no_content_twice() -> None:
    file = {"name": "out/a", "content": "long"}
    result = {"output_files": [file], "primary_output": file}
    text = describe_progress({**PLAIN, "output": "ü", "result": result})
    assert text.count("long") == 1
    assert "ü" in text
    assert json.loads(text)["result"]["output_files"] == [file]
    assert json.loads(describe_progress(PLAIN)) == PLAIN


def test_the_output_of_a_terminal_becomes_text() -> None:
    found = strip_terminal_codes(result_of(CapturedOutput(b"\x1b[31mred\x1b[0m\r\n")))
    assert (found.stdout, found.warnings) == ("red\n", ())


def test_what_was_drawn_on_an_own_screen_is_left_out_and_that_is_said() -> None:
    drawn = b"before\r\n\x1b[?1049h\x1b[Hdrawing\x1b[?1049lafter"
    found = strip_terminal_codes(result_of(CapturedOutput(drawn)))
    assert found.stdout == "before\nafter"
    assert found.warnings == ("what the program drew on a screen of its own is not in stdout",)
    assert strip_terminal_codes(result_of(CapturedOutput(drawn[:30]))).stdout == "before\n"


def test_what_was_not_kept_is_still_said() -> None:
    found = strip_terminal_codes(result_of(CapturedOutput(b"head\r\n", b"tail\r\n", 1000)))
    assert found.stdout == "head\n\n[... 1000 bytes not kept ...]\ntail\n"


def test_files_are_named_by_where_they_are_and_what_they_were() -> None:
    assert describe_staged_inputs([WorkspaceUpload("work/inputs/a", "ä", "text/plain", 3)]) == [
        {"name": "work/inputs/a", "original_name": "ä", "size_bytes": 3}
    ]
