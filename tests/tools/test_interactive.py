"""Talking to commands in a sandbox."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import InvalidArgument, NotLoaded, TooManyRequests, UnknownSkill
from openskills.executors.processes.interactive import Processes, ProcessLimits
from openskills.executors.spec import Limits
from openskills.sync import run
from openskills.tools.tool import ToolOptions
from openskills.tools.uploads import upload_of
from tests.tools.contexts import loaded_view
from tests.tools.interactive_talks import PATIENCE, Talker, agent_of, talker

LONG = int(PATIENCE * 1000)

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


def test_questions_are_answered_and_the_result_is_that_of_a_run(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_the_result_stays_the_same_and_nothing_is_printed_twice(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with talker(tmp_path) as me:
            await me.start("echo made > out/x; echo over; exit 7", output_files=["out/*"])
            first = await me.ended()
            assert me.seen == "over\n"
            for later in (await me.poll(), await me.type(), await me.poll()):
                assert (later["status"], later["output"], later["exit_code"]) == ("exited", "", 7)
                assert later["result"] == first["result"]
            again = await me.call("skill_poll_session", {"session_id": me.session_id, "offset": 0})
            assert (again.data["output"], again.data["offset"], again.data["next_offset"]) == ("over\n", 0, 5)

    run(scenario())


def test_a_numbered_list_is_a_selection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with talker(tmp_path, files={"scripts/choose.py": CHOOSE}) as me:
            first = await me.start("python3 scripts/choose.py", yield_ms=LONG)
            assert first["interaction"]["kind"] == "selection"
            last = await me.type("2", yield_ms=LONG)
            assert last["output"] == "You chose green\n"

    run(scenario())


def test_a_terminal_is_a_terminal_and_colours_are_left_out(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_a_full_screen_program_shows_its_screen_and_hears_keys(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    run(scenario())


def _lines(data: Any) -> list[str]:
    return data.get("screen", {}).get("lines", [])


def test_ctrl_c_ends_what_runs_in_the_foreground(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with talker(tmp_path) as me:
            await me.start("echo rea''dy; sleep 1000; echo not reached", tty=True)
            await me.until(lambda seen, _: "ready" in seen)
            last = await me.type("\u0003", submit=False, yield_ms=LONG)
            assert (last["status"], last["exit_code"]) == ("exited", 130)
            assert "not reached" not in last["result"]["stdout"]

    run(scenario())


def test_a_shell_lives_through_many_calls(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with talker(tmp_path) as me:
            await me.start("exec bash --norc --noprofile -i", tty=True)
            for number in range(3):
                await me.type(f"x={number}; echo value''=$x")
                await me.until(lambda seen, _, number=number: f"value={number}" in seen)
            await me.type("exit 5")
            assert (await me.ended())["exit_code"] == 5

    run(scenario())


def test_long_output_comes_in_pieces_and_no_character_is_lost(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_output_that_is_not_kept_is_counted(tmp_path: Path) -> None:
    async def scenario() -> None:
        options = ToolOptions(limits=Limits(output_bytes=1000))
        async with talker(tmp_path, options=options) as me:
            await me.start("seq -f %09g 5000; read", yield_ms=0)
            await me.until(lambda seen, _: "000005000" in seen)
            again = await me.call("skill_poll_session", {"session_id": me.session_id, "offset": 0, "yield_ms": 0})
            assert again.data["missed"] == again.data["offset"] > 0
            assert again.data["next_offset"] == 50_000

    run(scenario())


def test_input_can_be_closed_and_nothing_is_taken_after_that(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with talker(tmp_path) as me:
            await me.start("cat; echo end of input; exec sleep 1000", stdin="zero\n", yield_ms=0)
            await me.type("one", close_stdin=True)
            await me.until(lambda seen, _: "end of input" in seen)
            assert me.seen == "zero\none\nend of input\n"
            refused = await me.call("skill_write_stdin", {"session_id": me.session_id, "chars": "two"})
            assert isinstance(refused.error, InvalidArgument)
            assert refused.text == "error: chars: the input of this session is closed; start another with skill_exec"

    run(scenario())


def test_who_writes_to_a_command_that_has_ended_hears_how_it_ended(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with talker(tmp_path) as me:
            await me.start("echo bye; exit 4", yield_ms=0)
            await me.ended()
            late = await me.type("hello?")
            assert (late["status"], late["exit_code"]) == ("exited", 4)
            assert late["warnings"] == ["the command has ended; nothing was written"]

    run(scenario())


def test_a_command_that_does_not_read_says_how_much_is_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with talker(tmp_path) as me:
            await me.start("exec sleep 1000", yield_ms=0)
            data = await me.type("x" * 300_000)
            assert data["status"] == "running"
            assert "of 300,001 bytes; write the rest again" in data["warnings"][0]

    run(scenario())


def test_a_kill_ends_it_and_what_it_made_is_there(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_nobody_else_has_the_session_and_the_error_lists_ones_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with talker(tmp_path) as me:
            processes = Processes()
            mine, other = (Talker(agent_of(me.context, processes, name)) for name in ("mine", "other"))
            await mine.start("read", yield_ms=0)
            for name in ("skill_poll_session", "skill_write_stdin", "skill_kill_session"):
                refused = await other.call(name, {"session_id": mine.session_id})
                assert isinstance(refused.error, InvalidArgument)
                assert "none of yours is running; start one with skill_exec" in refused.text
            await other.start("read", yield_ms=0)
            refused = await other.call("skill_poll_session", {"session_id": mine.session_id})
            assert f"yours that are running: {other.session_id};" in refused.text
            assert (await mine.poll(yield_ms=0))["status"] == "running"
            unknown = await mine.call("skill_poll_session", {"session_id": "x" * 10_000})
            assert len(unknown.text) < 400
            await processes.close()

    run(scenario())


def test_the_gate_and_the_limits_hold(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with talker(tmp_path, limits=ProcessLimits(each=1)) as me:
            await me.start("read", yield_ms=0)
            full = await me.call("skill_exec", {"skill": "demo", "command": "read"})
            assert isinstance(full.error, TooManyRequests)
            unknown = await me.call("skill_exec", {"skill": "dmo", "command": "read"})
            assert isinstance(unknown.error, UnknownSkill)
            me.context = replace(me.context, view=loaded_view)
            refused = await me.call("skill_exec", {"skill": "demo", "command": "read"})
            assert isinstance(refused.error, NotLoaded)
            assert "skill_load" in refused.text

    run(scenario())


@pytest.mark.parametrize(("given", "timed_out"), [({"timeout": 0.5}, True), ({}, False)])
def test_a_command_that_waits_for_somebody_has_all_the_time_unless_it_says(
    tmp_path: Path, given: dict[str, object], timed_out: bool
) -> None:
    async def scenario() -> None:
        options = ToolOptions(limits=Limits(timeout=0.5), max_timeout=60.0)
        async with talker(tmp_path, options=options) as me:
            await me.start("sleep 1; echo done", **given)
            last = await me.ended()
            assert last["result"]["timed_out"] is timed_out

    run(scenario())


def test_the_users_files_are_told_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        uploads = (upload_of("data.csv", b"1,2\n"),)
        async with talker(tmp_path, uploads=uploads) as me:
            first = await me.start("cat work/inputs/data.csv; read", yield_ms=0)
            assert first["staged_inputs"] == [
                {"name": "work/inputs/data.csv", "original_name": "data.csv", "size_bytes": 4}
            ]
            await me.until(lambda seen, _: seen == "1,2\n")
            second = await me.start("read", yield_ms=0)
            assert "staged_inputs" not in second

    run(scenario())


def test_an_editor_that_the_command_opens_saves_the_text(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with talker(tmp_path) as me:
            await me.start('"$EDITOR" work/note.txt; cat work/note.txt', editor_text="from the model\n", tty=True)
            last = await me.ended()
            assert last["result"]["stdout"] == "from the model\n"

    run(scenario())


def test_a_call_that_is_given_up_before_the_id_is_known_leaves_nothing_running(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with talker(tmp_path) as me:
            talks = await me.context.talks()
            starting = asyncio.create_task(me.start("sleep 1000", yield_ms=LONG))
            async with asyncio.timeout(PATIENCE):
                while not talks.running():
                    await asyncio.sleep(0.01)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            assert talks.running() == ()

    run(scenario())


def test_the_text_for_a_model_says_what_the_data_says(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with talker(tmp_path) as me:
            arguments = {"skill": "demo", "command": "echo ü", "yield_ms": LONG}
            result = await me.call("skill_exec", arguments)
            assert json.loads(result.text) == result.data
            assert "ü" in result.text

    run(scenario())
