"""Talking to a command under the rules of a workbench."""

import asyncio
import gc
import re
import time
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import CommandDenied, ExecutorUnavailable, InvalidArgument, TooManyRequests
from openskills.executors.commands import CommandRules
from openskills.executors.interactive import (
    Interaction,
    InteractiveCommands,
    OutputCursor,
    OwnedProcesses,
    ProcessLimits,
    ProcessOwner,
    ProcessPollResult,
    ProcessTable,
    detect_interaction,
)
from openskills.executors.policy import CommandPolicy
from openskills.executors.protocol import Process
from openskills.executors.requests import RunRequest, RunResult
from openskills.executors.spec import Command, EndReason, Limits, TerminalSize
from openskills.executors.staging.outputs import OutputSpec
from tests.executors.benches import audit_lines, workbench
from tests.executors.running import TIMEOUT, Starter, alive, eventually, shell, starter

ME = ProcessOwner("app", "ann", "session", "agent")
TTY = TerminalSize()


def talkative(commands: Starter, command: Command) -> Callable[[], Awaitable[Process]]:
    """Starts a command as interactive ones are started."""
    return lambda: commands.start(replace(command, input_open=True, readable=True))


class Table:
    """The table under test with what starts its commands."""

    def __init__(self, commands: Starter, limits: ProcessLimits | None) -> None:
        self.processes = ProcessTable(limits)
        self.mine = OwnedProcesses(self.processes, ME)
        self._commands = commands
        self.seen = ""

    async def start(self, script: str, *, terminal: TerminalSize | None = None, limits: Limits | None = None) -> str:
        command = Command(shell(script), terminal=terminal, limits=limits or Limits(grace=0.1))
        return await self.processes.start(talkative(self._commands, command), ME, terminal)

    async def type(self, identity: str, text: bytes, *, submit: bool = True) -> None:
        """Write as a model would, and keep what came back."""
        self.seen += (await self.mine.write(identity, text, submit=submit)).poll.output

    async def until(self, identity: str, done: Callable[[str], bool]) -> tuple[str, ProcessPollResult]:
        """Poll until what came in all is enough, or until the end."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            poll = await self.mine.poll(identity, wait=0.2)
            self.seen += poll.output
            if done(self.seen) or (poll.status == "exited" and not poll.more) or time.monotonic() > deadline:
                return self.seen, poll


@asynccontextmanager
async def table(directory: Path, limits: ProcessLimits | None = None) -> AsyncGenerator[Table]:
    async with starter(directory) as commands:
        made = Table(commands, limits)
        try:
            yield made
        finally:
            await made.processes.close()


async def test_a_prompt_comes_once_with_a_hint_and_without_waiting_for_the_whole_time(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("printf 'Name: '; read name; echo hello $name")
        first = await here.mine.poll(identity, wait=TIMEOUT * 50)
        assert (first.status, first.output, first.offset, first.next_offset) == ("running", "Name: ", 0, 6)
        assert first.interaction is not None
        assert (first.interaction.kind, first.interaction.hint) == ("prompt", "Name:")
        again = await here.mine.poll(identity, wait=TIMEOUT * 50)
        assert (again.output, again.offset, again.interaction) == ("", 6, first.interaction)
        written = await here.mine.write(identity, b"Bob", submit=True, wait=TIMEOUT)
        assert (written.taken, written.offered) == (4, 4)
        assert (written.poll.output, written.poll.status) == ("hello Bob\n", "exited")
        assert written.poll.interaction is None
        assert written.poll.result is not None
        assert written.poll.result.stdout.text() == "Name: hello Bob\n"


async def test_the_result_stays_the_same_in_every_later_poll(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("echo over; exit 7")
        _, poll = await here.until(identity, lambda _: False)
        later = await here.mine.poll(identity)
        assert poll.result is not None
        assert (later.status, later.output, later.result) == ("exited", "", poll.result)
        assert (poll.result.exit_code, poll.result.ending) == (7, EndReason.EXITED)
        assert (await here.mine.poll(identity, offset=0)).output == "over\n"
        beyond = await here.mine.poll(identity, offset=10**30)
        assert (beyond.output, beyond.offset, beyond.next_offset) == ("", 5, 5)


async def test_a_menu_is_a_selection(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("select color in red blue; do echo got $color; break; done", terminal=TTY)
        _, poll = await here.until(identity, lambda seen: "#? " in seen)
        assert poll.interaction is not None
        assert poll.interaction.kind == "selection"
        await here.type(identity, b"2")
        _, poll = await here.until(identity, lambda _: False)
        assert poll.result is not None
        assert "got blue" in poll.result.stdout.text()


async def test_nobody_else_can_use_a_process_or_learn_of_it(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("read")
        unknown = "0" * len(identity)
        with pytest.raises(InvalidArgument) as expected:
            await here.mine.poll(unknown)
        for other in (
            replace(ME, app="x"),
            replace(ME, user="bob"),
            replace(ME, session="x"),
            replace(ME, agent="x"),
        ):
            others = OwnedProcesses(here.processes, other)
            for call in (
                others.poll(identity),
                others.write(identity, b"x"),
                others.resize(identity, 1, 1),
                others.kill(identity),
            ):
                with pytest.raises(InvalidArgument) as refused:
                    await call
                assert str(refused.value).replace(identity, unknown) == str(expected.value)
        assert (await here.mine.poll(identity, wait=0)).status == "running"


async def test_ctrl_c_stops_the_foreground_job_and_not_the_session(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("exec bash --norc -i", terminal=TTY)
        await here.until(identity, lambda seen: seen.endswith(("$ ", "# ")))
        await here.type(identity, b"echo be''gun; sleep 1000")
        await here.until(identity, lambda seen: "begun" in seen)
        await here.type(identity, b"\x03", submit=False)
        await here.type(identity, b"echo status $?")
        seen, poll = await here.until(identity, lambda seen: "status 130" in seen)
        assert "status 130" in seen
        assert poll.status == "running"


async def test_jobs_can_be_stopped_and_brought_back(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("exec bash --norc -i", terminal=TTY)
        await here.type(identity, b"echo be''gun; cat")
        await here.until(identity, lambda seen: "begun" in seen)
        await here.type(identity, b"\x1a", submit=False)
        await here.until(identity, lambda seen: "Stopped" in seen)
        await here.type(identity, b"jobs")
        seen, _ = await here.until(identity, lambda seen: seen.count("Stopped") == 2)
        assert seen.count("Stopped") == 2
        await here.type(identity, b"fg")
        await here.type(identity, b"to the job\n\x04", submit=False)
        await here.type(identity, b"exit 5")
        _, poll = await here.until(identity, lambda _: False)
        assert poll.result is not None
        assert poll.result.exit_code == 5
        assert poll.result.stdout.text().count("to the job") == 2


async def test_a_new_size_is_seen_by_the_command(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("stty size; read; stty size", terminal=TerminalSize(30, 100))
        seen, _ = await here.until(identity, lambda seen: "30 100" in seen)
        assert "30 100" in seen
        await here.mine.resize(identity, 50, 132)
        await here.type(identity, b"")
        seen, _ = await here.until(identity, lambda _: False)
        assert "50 132" in seen


async def test_the_end_of_input_can_follow_what_is_written(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("cat; echo over")
        written = await here.mine.write(identity, b"line\n", close=True, wait=TIMEOUT)
        assert (written.poll.output, written.poll.status) == ("line\nover\n", "exited")


async def test_the_end_of_input_waits_for_what_was_not_taken(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("read -r go; cat | wc -c")
        first = await here.mine.write(identity, b"x" * (1 << 20), close=True, wait=0.1)
        assert first.taken < first.offered
        rest = first.offered - first.taken
        last = await here.mine.write(identity, b"\n" + b"x" * rest, close=True, wait=TIMEOUT)
        seen, _ = await here.until(identity, lambda _: False)
        assert (last.poll.output + seen).strip() == str(rest)


async def test_a_full_screen_program_has_a_screen_whatever_is_read(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        paint = r"printf '\033[?1049h\033[3;5H\033[7mMenu\033[0m'; read; printf '\033[?1049l'"
        identity = await here.start(paint, terminal=TerminalSize(10, 40))
        _, poll = await here.until(identity, lambda seen: "Menu" in seen)
        again = await here.mine.poll(identity, wait=0, offset=0)
        for found in (poll, again):
            view = await here.mine.view(identity, found)
            assert view.screen is not None
            assert view.screen.lines[2] == "    Menu"
        assert (await here.mine.view(identity, again)).text == "Menu"
        await here.mine.resize(identity, 5, 7)
        smaller = await here.mine.view(identity, poll)
        assert smaller.screen is not None
        assert smaller.screen.lines == ("", "", "    Men", "", "")


async def test_output_of_pipes_is_exact_and_has_no_screen(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start(r"printf 'a\r\n\033[31mb\033[3;3Hc'")
        _, poll = await here.until(identity, lambda _: False)
        whole = await here.mine.poll(identity, offset=0)
        view = await here.mine.view(identity, whole)
        assert (view.text, view.screen) == ("a\r\n\x1b[31mb\x1b[3;3Hc", None)
        assert poll.status == "exited"


async def test_an_owner_has_a_list_of_what_runs(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        first, second = await here.start("read"), await here.start("read")
        other = replace(ME, agent="x")
        assert here.processes.list_running(ME) == (first, second)
        assert here.processes.list_running(other) == ()
        await here.mine.kill(first)
        assert here.processes.list_running(ME) == (second,)
        assert here.processes.has_process(first, ME)
        assert not here.processes.has_process(first, other)
        assert not here.processes.has_process("unknown", ME)


async def test_without_a_terminal_there_is_no_size(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("read")
        with pytest.raises(InvalidArgument, match="terminal"):
            await here.mine.resize(identity, 50, 132)


@pytest.mark.parametrize("terminal", [None, TTY])
async def test_a_process_that_does_not_read_takes_only_a_part_of_a_megabyte(
    tmp_path: Path, terminal: TerminalSize | None
) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("sleep 1000", terminal=terminal)
        written = await here.mine.write(identity, b"0123456789abcde\n" * 65536, wait=0.2)
        assert 0 < written.taken < written.offered == 1 << 20
        assert await here.mine.kill(identity) == "killed"


async def test_a_process_that_reads_slowly_takes_a_megabyte_in_the_end(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("head -c 1048576 | wc -c")
        written = await here.mine.write(identity, b"x" * (1 << 20), wait=TIMEOUT)
        assert written.taken == 1 << 20
        assert (written.poll.output.strip(), written.poll.status) == ("1048576", "exited")


@pytest.mark.parametrize(
    "query", ["\x1b[c", "\x1b[6n", "\x1b]52;c;?\x07", "\x1b]10;?\x07", "\x1bP+q544e\x1b\\", "\x05"]
)
async def test_a_question_to_the_terminal_is_passed_on_and_never_answered(tmp_path: Path, query: str) -> None:
    async with table(tmp_path) as here:
        script = 'stty raw -echo; printf \'%s\' "$QUERY"; IFS= read -r -n 1 -t 0.3 answer; echo "[$answer]$?"'
        shown = f"QUERY=$(printf {query!r}); {script}"
        identity = await here.start(shown, terminal=TTY)
        seen, _ = await here.until(identity, lambda _: False)
        assert query in seen
        # 142: the time for an answer was over.
        assert "[]142" in seen


async def test_killing_twice_says_the_same_and_there_is_one_result(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("trap '' TERM; (setsid sleep 1000 & echo $!); sleep 1000")
        seen, _ = await here.until(identity, lambda seen: "\n" in seen)
        both = await asyncio.gather(here.mine.kill(identity), here.mine.kill(identity))
        assert [*both, await here.mine.kill(identity)] == ["killed"] * 3
        polls = [await here.mine.poll(identity) for _ in range(2)]
        assert polls[0].result == polls[1].result
        assert polls[0].result is not None
        assert polls[0].result.ending is EndReason.KILLED
        assert await eventually(lambda: not alive(int(seen)))


async def test_killing_what_has_exited_says_so(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("exit 3")
        await here.until(identity, lambda _: False)
        assert await here.mine.kill(identity) == "exited"


async def test_a_poll_that_waits_hears_of_the_kill(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("sleep 1000")
        waiting = asyncio.create_task(here.mine.poll(identity, wait=TIMEOUT * 50))
        await asyncio.sleep(0)
        assert await here.mine.kill(identity) == "killed"
        poll = await waiting
        assert (poll.status, poll.more) == ("exited", False)
        assert poll.result is not None
        assert poll.result.ending is EndReason.KILLED


async def test_two_polls_at_once_do_not_get_the_same_bytes(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("seq 20000")
        polls = await asyncio.gather(*(here.mine.poll(identity, limit=8000) for _ in range(4)))
        rest, _ = await here.until(identity, lambda _: False)
        seen = "".join(poll.output for poll in polls) + rest
        assert seen == "".join(f"{number}\n" for number in range(1, 20001))


async def test_nothing_can_be_written_to_what_has_exited(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("exit 0")
        await here.until(identity, lambda _: False)
        with pytest.raises(InvalidArgument, match="has ended"):
            await here.type(identity, b"x")


async def test_output_that_runs_over_is_counted(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("yes | head -c 3000000; read", limits=Limits(output_bytes=10_000, grace=0.1))
        total, missed, deadline = 0, 0, time.monotonic() + TIMEOUT
        while total < 3_000_000 and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
            poll = await here.mine.poll(identity, wait=0.05, limit=4000)
            assert poll.offset == total + poll.missed
            total, missed = poll.next_offset, missed + poll.missed
        assert total == 3_000_000
        assert missed > 0


async def test_a_line_of_a_million_characters_comes_whole(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("head -c 1000000 /dev/zero | tr '\\0' x; printf '?'; read")
        seen, poll = await here.until(identity, lambda seen: seen.endswith("?"))
        assert seen == "x" * 1_000_000 + "?"
        assert poll.interaction is not None


async def test_more_processes_than_allowed_are_refused_until_one_has_ended(tmp_path: Path) -> None:
    async with table(tmp_path, ProcessLimits(max_running=2)) as here:
        first, _ = await here.start("read"), await here.start("read")
        with pytest.raises(TooManyRequests, match="2 processes are running, the limit is 2"):
            await here.start("read")
        await here.mine.kill(first)
        await here.start("read")


async def test_one_owner_cannot_take_the_place_of_all(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        processes = ProcessTable(ProcessLimits(max_running=3, max_per_owner=1))
        command = Command(shell("read"))
        await processes.start(talkative(commands, command), ME)
        with pytest.raises(TooManyRequests):
            await processes.start(talkative(commands, command), ME)
        await processes.start(talkative(commands, command), replace(ME, user="bob"))
        await processes.close()


async def test_a_command_that_cannot_be_started_takes_no_place(tmp_path: Path) -> None:
    async with table(tmp_path, ProcessLimits(max_running=1)) as here, starter(tmp_path) as commands:
        with pytest.raises(InvalidArgument):
            await here.processes.start(talkative(commands, Command(("no-such-program",))), ME)
        await here.start("read")


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (ProcessLimits(idle_timeout=1), "killed after 1 s without a poll or input"),
        (ProcessLimits(max_lifetime=1), "after 1 s, the maximum lifetime"),
    ],
)
async def test_what_nobody_wants_is_ended_and_its_result_kept(tmp_path: Path, limits: ProcessLimits, said: str) -> None:
    async with table(tmp_path, limits) as here:
        identity = await here.start("echo $$; sleep 1000")
        pid = int((await here.until(identity, lambda seen: "\n" in seen))[0])
        # Nobody asks from here on; the process is watched from outside.
        assert await eventually(lambda: not alive(pid))
        _, poll = await here.until(identity, lambda _: False)
        assert poll.result is not None
        assert poll.result.ending is EndReason.KILLED
        assert said in poll.result.detail


async def test_a_process_that_is_asked_for_is_not_idle(tmp_path: Path) -> None:
    async with table(tmp_path, ProcessLimits(idle_timeout=3.0)) as here:
        identity = await here.start("for i in {1..16}; do sleep 0.25; done; echo still here")
        seen, poll = await here.until(identity, lambda _: False)
        assert seen == "still here\n"
        assert poll.result is not None
        assert poll.result.ending is EndReason.EXITED


async def test_results_are_forgotten_after_their_time(tmp_path: Path) -> None:
    async with table(tmp_path, ProcessLimits(ended_ttl=0.1)) as here:
        identity = await here.start("exit 0")
        gone = asyncio.Event()

        async def ask() -> None:
            while True:
                try:
                    await here.mine.poll(identity, wait=0.02)
                except InvalidArgument:
                    gone.set()
                    return

        async with asyncio.timeout(TIMEOUT):
            await ask()
        assert gone.is_set()


async def test_only_the_newest_results_are_kept(tmp_path: Path) -> None:
    async with table(tmp_path, ProcessLimits(max_ended=2)) as here:
        ended: list[str] = []
        for number in range(4):
            ended.append(await here.start(f"echo {number}"))
            await here.until(ended[-1], lambda _: False)
        for identity in ended[:2]:
            with pytest.raises(InvalidArgument, match="unknown process"):
                await here.mine.poll(identity)
        assert (await here.mine.poll(ended[3], offset=0)).output == "3\n"


async def test_closing_the_table_ends_everything(tmp_path: Path) -> None:
    async with table(tmp_path) as here:
        identity = await here.start("echo $$; sleep 1000")
        seen, _ = await here.until(identity, lambda seen: bool(re.search(r"\d+\n", seen)))
        await here.processes.close()
        assert await eventually(lambda: not alive(int(seen)))
        with pytest.raises(InvalidArgument):
            await here.mine.poll(identity)
        with pytest.raises(ExecutorUnavailable):
            await here.start("true")


async def _all(cursor: OutputCursor, *, limit: int = 64 * 1024) -> list[str]:
    pieces: list[str] = []
    while True:
        piece = await cursor.next(wait=TIMEOUT, settle=0.01, limit=limit)
        pieces.append(piece.output)
        if piece.ended:
            return pieces


async def test_each_byte_comes_once_and_no_character_is_broken(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        process = await commands.start(Command(shell("for i in {1..60}; do printf 'aé漢😀'; done"), readable=True))
        pieces = await _all(OutputCursor(process), limit=9)
        assert len(pieces) > 50
        assert "".join(pieces) == "aé漢😀" * 60


async def test_a_character_that_comes_in_two_parts_waits_for_its_second(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        script = r"printf 'x\xe6\xbc'; read; printf '\xa2y'"
        process = await commands.start(Command(shell(script), input_open=True))
        cursor = OutputCursor(process)
        first = await cursor.next(wait=0.1, settle=0, limit=4)
        async with asyncio.timeout(TIMEOUT):
            while not first.data:
                first = await cursor.next(wait=0.1, settle=0, limit=4)
        assert (first.output, first.next_offset) == ("x", 1)
        await process.write(b"\n")
        assert "".join(await _all(cursor)) == "漢y"


async def test_what_never_becomes_a_character_comes_at_the_end(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        process = await commands.start(Command(shell(r"printf '\xff\xfe\x80ok\xe6\xbc'"), readable=True))
        assert "".join(await _all(OutputCursor(process))) == "\ufffd\ufffd\ufffdok\ufffd"


async def test_a_line_end_is_one_character_wherever_it_is_cut(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        process = await commands.start(Command(shell(r"for i in {1..40}; do printf 'ab\r\n'; done"), readable=True))
        pieces = await _all(OutputCursor(process), limit=9)
        assert "".join(pieces) == "ab\n" * 40


async def test_output_that_nobody_read_is_counted_and_begins_with_a_whole_character(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        wanted = Command(shell("yes 漢漢漢漢漢 | head -c 300000"), readable=True, limits=Limits(output_bytes=5000))
        process = await commands.start(wanted)
        await process.wait()
        piece = await OutputCursor(process).next(wait=0, settle=0, limit=1 << 20)
        assert piece.missed > 0
        assert piece.missed == piece.offset
        assert piece.missed + len(piece.data) == 300000
        assert "\ufffd" not in piece.output.strip()[:-1]


async def test_a_piece_that_was_cancelled_is_not_lost(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        process = await commands.start(Command(shell("echo one; read; echo two"), input_open=True))
        cursor = OutputCursor(process)
        assert await _printed(cursor, 4)
        reading = cursor.next(wait=TIMEOUT, settle=0, limit=100)
        reading.send(None)
        reading.close()
        await process.write(b"\n")
        assert "".join(await _all(cursor)) == "one\ntwo\n"


async def test_an_echo_is_not_a_question(tmp_path: Path) -> None:
    async with starter(tmp_path) as commands:
        process = await commands.start(Command(shell("read; sleep 100"), terminal=TerminalSize()))
        cursor = OutputCursor(process)
        at = await cursor.read_end_offset()
        await process.write(b"really?\r")
        cursor.record_input(b"really?\r", at)
        assert await _printed(cursor, len(b"really?\r\n"))
        piece = await cursor.next(wait=0.05, settle=0, limit=100)
        assert (piece.output, piece.interaction) == ("really?\n", None)
        await process.kill()


async def _printed(cursor: OutputCursor, size: int) -> bool:
    """Look until so much has been printed."""
    deadline = time.monotonic() + TIMEOUT
    while await cursor.read_end_offset() < size:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True


@pytest.mark.parametrize(
    "output",
    [
        "What is your name?",
        "What is your name? ",
        "Password:",
        "some log\nName: ",
        "Name:\n\n\n",
        "Press ENTER to continue",
        "Type your answer and go on",
        "Overwrite it [y/N] ",
        "Are you sure (yes/no)",
        "\x1b[1;32mName:\x1b[0m \x1b[K",
        "\x1b]0;a title\x07Name: ",
        "10%\r20%\r\x1b[KReally?",
        "Name:\r\n",
        "Python 3.11\r\n>>> ",
        "\x1b[?2004huser@host:~$ ",
    ],
)
def test_a_question_is_a_prompt(output: str) -> None:
    found = detect_interaction(output)
    assert found is not None
    assert (found.kind, found.needs_input) == ("prompt", True)


@pytest.mark.parametrize(
    "output",
    [
        "Enter the number of your choice",
        "please CHOOSE A NUMBER",
        "Select a number (1-3) ",
        "1. red\n2. blue\n",
        "Pick one\n 1) red\n 2) blue\n> ",
        "\x1b[1m9)\x1b[0m nine\n10) ten\nYour choice:",
    ],
)
def test_a_numbered_list_is_a_selection(output: str) -> None:
    found = detect_interaction(output)
    assert found is not None
    assert found.kind == "selection"


@pytest.mark.parametrize(
    "output",
    [
        "",
        " \r\n\t\n",
        "\x1b[2J\x1b[H",
        "done\n",
        "Name: \nworking\n",
        "1. only one\n",
        "3.14 and\n2.72\n",
        "a -> b\n$ ls\n-> c> \nfinished",
        "50%\rName: \rdone",
        "\x1b[c\x1b[6n",
        "\x1b]52;c;?\x07",
    ],
)
def test_output_that_asks_nothing_is_not_a_prompt(output: str) -> None:
    assert detect_interaction(output) is None


def test_the_hint_is_the_line_without_anything_a_terminal_would_obey() -> None:
    found = detect_interaction("one\n\x1b[31mYour\x07 name\x1b[0m:\x1b]0;evil\x07 ")
    assert found == Interaction("prompt", "Your name:")


def test_a_long_line_gives_a_short_hint() -> None:
    found = detect_interaction("x" * 1_000_000 + "?")
    assert found is not None
    assert len(found.hint) == 200


@pytest.mark.parametrize("unit", ["\x1b[", "\x1b]", "\x1b[0;", "\r", "\n", " ", "1.", "\x1b", "\x1b[999999", "a\n"])
def test_a_megabyte_of_anything_is_judged_by_its_end(unit: str) -> None:
    hostile = unit * (1_000_000 // len(unit))
    assert detect_interaction(hostile + "\nName: ") is not None
    assert detect_interaction(hostile + "\nName: \nand on it goes\n") is None


CONVERSATIONS_ME, OTHER = (
    ProcessOwner("app", "user", "session", "agent"),
    ProcessOwner("app", "user", "session", "other"),
)


class Teller:
    """Tells a result; what it is held by can be found out."""

    def __call__(self, result: RunResult) -> Mapping[str, Any]:
        return {"code": result.exit_code}


async def test_what_an_interactive_command_made_is_in_its_result(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        talk = InteractiveCommands(bench, ProcessTable(), CONVERSATIONS_ME)
        request = RunRequest(
            "read -p 'Name: ' name; echo $name > out/name", skill="demo", outputs=OutputSpec(("out/*",), save=True)
        )
        identity = await talk.start(request)
        await talk.write(identity, b"Ada", submit=True)
        result = await talk.result(identity)
        assert [file.data for file in result.output_files] == [b"Ada\n"]
        assert [artifact.ref for artifact in result.artifact_files] == ["artifact://out/name@0"]
        assert (await talk.poll(identity)).status == "exited"

    assert [line["event"] for line in audit_lines(tmp_path)] == ["begin", "end"]


async def test_a_policy_holds_for_interactive_commands(tmp_path: Path) -> None:
    async with workbench(tmp_path, CommandRules(policy=CommandPolicy.of(["ls"]))) as bench:
        with pytest.raises(CommandDenied):
            await InteractiveCommands(bench, ProcessTable(), CONVERSATIONS_ME).start(RunRequest("bash", skill="demo"))

    assert [line["event"] for line in audit_lines(tmp_path)] == ["fail"]


async def test_another_agent_has_no_such_command_and_it_can_be_killed_by_its_own(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        processes = ProcessTable()
        mine, others = (
            InteractiveCommands(bench, processes, CONVERSATIONS_ME),
            InteractiveCommands(bench, processes, OTHER),
        )
        identity = await mine.start(RunRequest(("bash", "--norc", "-i"), skill="demo", terminal=TerminalSize()))
        await mine.resize(identity, 40, 100)
        with pytest.raises(InvalidArgument):
            await others.poll(identity)
        with pytest.raises(InvalidArgument):
            await others.result(identity)
        assert await mine.kill(identity) == "killed"
        assert (await mine.result(identity)).exit_code


async def test_a_result_is_told_as_it_was_asked_for_and_the_same_every_time(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        talk = InteractiveCommands(bench, ProcessTable(), CONVERSATIONS_ME)
        asked = await talk.start(RunRequest("exit 3", skill="demo"), Teller())
        usual = await talk.start(RunRequest("exit 4", skill="demo"))
        assert await talk.describe(asked) == await talk.describe(asked) == {"code": 3}
        assert (await talk.describe(usual))["exit_code"] == 4


async def test_only_what_was_started_here_is_known_and_results_are_forgotten_with_their_processes(
    tmp_path: Path,
) -> None:
    async with workbench(tmp_path) as bench:
        processes = ProcessTable(ProcessLimits(max_ended=1))
        talk, later = (
            InteractiveCommands(bench, processes, CONVERSATIONS_ME),
            InteractiveCommands(bench, processes, CONVERSATIONS_ME),
        )
        teller = Teller()
        told = weakref.ref(teller)
        first = await talk.start(RunRequest("exit 0", skill="demo"), teller)
        del teller
        await talk.result(first)
        assert talk.has_command(first)
        assert told() is not None
        assert not later.has_command(first)
        second = await talk.start(RunRequest("exit 0", skill="demo"))
        await talk.result(second)
        third = await talk.start(RunRequest("read", skill="demo"))
        assert [talk.has_command(one) for one in (first, second, third)] == [False, True, True]
        gc.collect()
        assert told() is None
        assert talk.list_running() == (third,)
        assert later.list_running() == ()
        await talk.close()


async def test_closing_ends_the_commands_of_one_owner_and_collects_what_they_made(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        processes = ProcessTable()
        mine, others = (
            InteractiveCommands(bench, processes, CONVERSATIONS_ME),
            InteractiveCommands(bench, processes, OTHER),
        )
        request = RunRequest("echo made > out/file; echo ready; read", skill="demo", outputs=OutputSpec(("out/*",)))
        identity = await mine.start(request)
        kept = await others.start(RunRequest("read", skill="demo"))
        async with asyncio.timeout(30):
            while "ready" not in (await mine.poll(identity, offset=0)).output:
                pass
        await mine.close()
        assert [file.data for file in (await mine.result(identity)).output_files] == [b"made\n"]
        assert others.list_running() == (kept,)
        await others.close()
