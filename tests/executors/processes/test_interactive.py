import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from openskills.errors import ExecutorUnavailable, InvalidArgument, TooManyRequests
from openskills.executors.processes.interactive import Owner, Poll, Processes, ProcessLimits
from openskills.executors.spec import Command, Ending, Limits, Terminal
from openskills.sync import run
from tests.executors.running import PATIENCE, Starter, alive, eventually, shell, starter

ME = Owner("app", "ann", "session", "agent")
TTY = Terminal()


class Table:
    """The table under test with what starts its commands."""

    def __init__(self, commands: Starter, limits: ProcessLimits | None) -> None:
        self.processes = Processes(limits)
        self._commands = commands
        self.seen = ""

    async def start(self, script: str, *, terminal: Terminal | None = None, limits: Limits | None = None) -> str:
        command = Command(shell(script), terminal=terminal, limits=limits or Limits(grace=0.1))
        return await self.processes.start(self._commands.start, command, ME)

    async def type(self, identity: str, text: bytes, *, submit: bool = True) -> None:
        """Write as a model would, and keep what came back."""
        self.seen += (await self.processes.write(identity, ME, text, submit=submit)).poll.output

    async def until(self, identity: str, done: Callable[[str], bool]) -> tuple[str, Poll]:
        """Poll until what came in all is enough, or until the end."""
        deadline = time.monotonic() + PATIENCE
        while True:
            poll = await self.processes.poll(identity, ME, wait=0.2)
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


def test_a_prompt_comes_once_with_a_hint_and_without_waiting_for_the_whole_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start("printf 'Name: '; read name; echo hello $name")
            first = await here.processes.poll(identity, ME, wait=PATIENCE * 50)
            assert (first.status, first.output, first.offset, first.next_offset) == ("running", "Name: ", 0, 6)
            assert first.interaction is not None
            assert (first.interaction.kind, first.interaction.hint) == ("prompt", "Name:")
            again = await here.processes.poll(identity, ME, wait=PATIENCE * 50)
            assert (again.output, again.offset, again.interaction) == ("", 6, first.interaction)
            written = await here.processes.write(identity, ME, b"Bob", submit=True, wait=PATIENCE)
            assert (written.taken, written.offered) == (4, 4)
            assert (written.poll.output, written.poll.status) == ("hello Bob\n", "exited")
            assert written.poll.interaction is None
            assert written.poll.result is not None
            assert written.poll.result.stdout.text() == "Name: hello Bob\n"

    run(scenario())


def test_the_result_stays_the_same_in_every_later_poll(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start("echo over; exit 7")
            _, poll = await here.until(identity, lambda _: False)
            later = await here.processes.poll(identity, ME)
            assert poll.result is not None
            assert (later.status, later.output, later.result) == ("exited", "", poll.result)
            assert (poll.result.exit_code, poll.result.ending) == (7, Ending.EXITED)
            assert (await here.processes.poll(identity, ME, offset=0)).output == "over\n"
            beyond = await here.processes.poll(identity, ME, offset=10**30)
            assert (beyond.output, beyond.offset, beyond.next_offset) == ("", 5, 5)

    run(scenario())


def test_a_menu_is_a_selection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start("select color in red blue; do echo got $color; break; done", terminal=TTY)
            _, poll = await here.until(identity, lambda seen: "#? " in seen)
            assert poll.interaction is not None
            assert poll.interaction.kind == "selection"
            await here.type(identity, b"2")
            _, poll = await here.until(identity, lambda _: False)
            assert poll.result is not None
            assert "got blue" in poll.result.stdout.text()

    run(scenario())


def test_nobody_else_can_use_a_process_or_learn_of_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start("read")
            processes = here.processes
            unknown = "0" * len(identity)
            with pytest.raises(InvalidArgument) as expected:
                await processes.poll(unknown, ME)
            for other in (
                replace(ME, app="x"),
                replace(ME, user="bob"),
                replace(ME, session="x"),
                replace(ME, agent="x"),
            ):
                for call in (
                    processes.poll(identity, other),
                    processes.write(identity, other, b"x"),
                    processes.resize(identity, other, 1, 1),
                    processes.kill(identity, other),
                ):
                    with pytest.raises(InvalidArgument) as refused:
                        await call
                    assert str(refused.value).replace(identity, unknown) == str(expected.value)
            assert (await processes.poll(identity, ME, wait=0)).status == "running"

    run(scenario())


def test_ctrl_c_stops_the_foreground_job_and_not_the_session(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_jobs_can_be_stopped_and_brought_back(tmp_path: Path) -> None:
    async def scenario() -> None:
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

    run(scenario())


def test_a_new_size_is_seen_by_the_command(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start("stty size; read; stty size", terminal=Terminal(30, 100))
            seen, _ = await here.until(identity, lambda seen: "30 100" in seen)
            assert "30 100" in seen
            await here.processes.resize(identity, ME, 50, 132)
            await here.type(identity, b"")
            seen, _ = await here.until(identity, lambda _: False)
            assert "50 132" in seen

    run(scenario())


def test_the_end_of_input_can_follow_what_is_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start("cat; echo over")
            written = await here.processes.write(identity, ME, b"line\n", close=True, wait=PATIENCE)
            assert (written.poll.output, written.poll.status) == ("line\nover\n", "exited")

    run(scenario())


def test_the_end_of_input_waits_for_what_was_not_taken(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start("read -r go; cat | wc -c")
            first = await here.processes.write(identity, ME, b"x" * (1 << 20), close=True, wait=0.1)
            assert first.taken < first.offered
            rest = first.offered - first.taken
            last = await here.processes.write(identity, ME, b"\n" + b"x" * rest, close=True, wait=PATIENCE)
            seen, _ = await here.until(identity, lambda _: False)
            assert (last.poll.output + seen).strip() == str(rest)

    run(scenario())


def test_a_full_screen_program_has_a_screen_whatever_is_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            paint = r"printf '\033[?1049h\033[3;5H\033[7mMenu\033[0m'; read; printf '\033[?1049l'"
            identity = await here.start(paint, terminal=Terminal(10, 40))
            _, poll = await here.until(identity, lambda seen: "Menu" in seen)
            again = await here.processes.poll(identity, ME, wait=0, offset=0)
            for found in (poll, again):
                view = await here.processes.view(identity, ME, found)
                assert view.picture is not None
                assert view.picture.lines[2] == "    Menu"
            assert (await here.processes.view(identity, ME, again)).text == "Menu"
            await here.processes.resize(identity, ME, 5, 7)
            smaller = await here.processes.view(identity, ME, poll)
            assert smaller.picture is not None
            assert smaller.picture.lines == ("", "", "    Men", "", "")

    run(scenario())


def test_output_of_pipes_is_exact_and_has_no_screen(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start(r"printf 'a\r\n\033[31mb\033[3;3Hc'")
            _, poll = await here.until(identity, lambda _: False)
            whole = await here.processes.poll(identity, ME, offset=0)
            view = await here.processes.view(identity, ME, whole)
            assert (view.text, view.picture) == ("a\r\n\x1b[31mb\x1b[3;3Hc", None)
            assert poll.status == "exited"

    run(scenario())


def test_an_owner_has_a_list_of_what_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            first, second = await here.start("read"), await here.start("read")
            other = replace(ME, agent="x")
            assert here.processes.running(ME) == (first, second)
            assert here.processes.running(other) == ()
            await here.processes.kill(first, ME)
            assert here.processes.running(ME) == (second,)
            assert here.processes.knows(first, ME)
            assert not here.processes.knows(first, other)
            assert not here.processes.knows("unknown", ME)

    run(scenario())


def test_without_a_terminal_there_is_no_size(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start("read")
            with pytest.raises(InvalidArgument, match="terminal"):
                await here.processes.resize(identity, ME, 50, 132)

    run(scenario())


@pytest.mark.parametrize("terminal", [None, TTY])
def test_a_process_that_does_not_read_takes_only_a_part_of_a_megabyte(
    tmp_path: Path, terminal: Terminal | None
) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start("sleep 1000", terminal=terminal)
            written = await here.processes.write(identity, ME, b"0123456789abcde\n" * 65536, wait=0.2)
            assert 0 < written.taken < written.offered == 1 << 20
            assert await here.processes.kill(identity, ME) == "killed"

    run(scenario())


def test_a_process_that_reads_slowly_takes_a_megabyte_in_the_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start("head -c 1048576 | wc -c")
            written = await here.processes.write(identity, ME, b"x" * (1 << 20), wait=PATIENCE)
            assert written.taken == 1 << 20
            assert (written.poll.output.strip(), written.poll.status) == ("1048576", "exited")

    run(scenario())


@pytest.mark.parametrize(
    "query", ["\x1b[c", "\x1b[6n", "\x1b]52;c;?\x07", "\x1b]10;?\x07", "\x1bP+q544e\x1b\\", "\x05"]
)
def test_a_question_to_the_terminal_is_passed_on_and_never_answered(tmp_path: Path, query: str) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            script = 'stty raw -echo; printf \'%s\' "$QUERY"; IFS= read -r -n 1 -t 0.3 answer; echo "[$answer]$?"'
            shown = f"QUERY=$(printf {query!r}); {script}"
            identity = await here.start(shown, terminal=TTY)
            seen, _ = await here.until(identity, lambda _: False)
            assert query in seen
            # 142: the time for an answer was over.
            assert "[]142" in seen

    run(scenario())


def test_killing_twice_says_the_same_and_there_is_one_result(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start("trap '' TERM; (setsid sleep 1000 & echo $!); sleep 1000")
            seen, _ = await here.until(identity, lambda seen: "\n" in seen)
            both = await asyncio.gather(here.processes.kill(identity, ME), here.processes.kill(identity, ME))
            assert [*both, await here.processes.kill(identity, ME)] == ["killed"] * 3
            polls = [await here.processes.poll(identity, ME) for _ in range(2)]
            assert polls[0].result == polls[1].result
            assert polls[0].result is not None
            assert polls[0].result.ending is Ending.KILLED
            assert await eventually(lambda: not alive(int(seen)))

    run(scenario())


def test_killing_what_has_exited_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start("exit 3")
            await here.until(identity, lambda _: False)
            assert await here.processes.kill(identity, ME) == "exited"

    run(scenario())


def test_a_poll_that_waits_hears_of_the_kill(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start("sleep 1000")
            waiting = asyncio.create_task(here.processes.poll(identity, ME, wait=PATIENCE * 50))
            await asyncio.sleep(0)
            assert await here.processes.kill(identity, ME) == "killed"
            poll = await waiting
            assert (poll.status, poll.more) == ("exited", False)
            assert poll.result is not None
            assert poll.result.ending is Ending.KILLED

    run(scenario())


def test_two_polls_at_once_do_not_get_the_same_bytes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start("seq 20000")
            polls = await asyncio.gather(*(here.processes.poll(identity, ME, limit=8000) for _ in range(4)))
            rest, _ = await here.until(identity, lambda _: False)
            seen = "".join(poll.output for poll in polls) + rest
            assert seen == "".join(f"{number}\n" for number in range(1, 20001))

    run(scenario())


def test_nothing_can_be_written_to_what_has_exited(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start("exit 0")
            await here.until(identity, lambda _: False)
            with pytest.raises(InvalidArgument, match="has ended"):
                await here.type(identity, b"x")

    run(scenario())


def test_output_that_runs_over_is_counted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start("yes | head -c 3000000; read", limits=Limits(output_bytes=10_000, grace=0.1))
            total, missed, deadline = 0, 0, time.monotonic() + PATIENCE
            while total < 3_000_000 and time.monotonic() < deadline:
                await asyncio.sleep(0.02)
                poll = await here.processes.poll(identity, ME, wait=0.05, limit=4000)
                assert poll.offset == total + poll.missed
                total, missed = poll.next_offset, missed + poll.missed
            assert total == 3_000_000
            assert missed > 0

    run(scenario())


def test_a_line_of_a_million_characters_comes_whole(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start("head -c 1000000 /dev/zero | tr '\\0' x; printf '?'; read")
            seen, poll = await here.until(identity, lambda seen: seen.endswith("?"))
            assert seen == "x" * 1_000_000 + "?"
            assert poll.interaction is not None

    run(scenario())


def test_more_processes_than_allowed_are_refused_until_one_has_ended(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path, ProcessLimits(running=2)) as here:
            first, _ = await here.start("read"), await here.start("read")
            with pytest.raises(TooManyRequests, match="2 processes are running, and 2 is the most"):
                await here.start("read")
            await here.processes.kill(first, ME)
            await here.start("read")

    run(scenario())


def test_one_owner_cannot_take_the_place_of_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with starter(tmp_path) as commands:
            processes = Processes(ProcessLimits(running=3, each=1))
            command = Command(shell("read"))
            await processes.start(commands.start, command, ME)
            with pytest.raises(TooManyRequests):
                await processes.start(commands.start, command, ME)
            await processes.start(commands.start, command, replace(ME, user="bob"))
            await processes.close()

    run(scenario())


def test_a_command_that_cannot_be_started_takes_no_place(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path, ProcessLimits(running=1)) as here, starter(tmp_path) as commands:
            with pytest.raises(InvalidArgument):
                await here.processes.start(commands.start, Command(("no-such-program",)), ME)
            await here.start("read")

    run(scenario())


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (ProcessLimits(idle=1), "nobody asked for it for 1 seconds"),
        (ProcessLimits(lifetime=1), "after 1 seconds, the most it may run"),
    ],
)
def test_what_nobody_wants_is_ended_and_its_result_kept(tmp_path: Path, limits: ProcessLimits, said: str) -> None:
    async def scenario() -> None:
        async with table(tmp_path, limits) as here:
            identity = await here.start("echo $$; sleep 1000")
            pid = int((await here.until(identity, lambda seen: "\n" in seen))[0])
            # Nobody asks from here on; the process is watched from outside.
            assert await eventually(lambda: not alive(pid))
            _, poll = await here.until(identity, lambda _: False)
            assert poll.result is not None
            assert poll.result.ending is Ending.KILLED
            assert said in poll.result.detail

    run(scenario())


def test_a_process_that_is_asked_for_is_not_idle(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path, ProcessLimits(idle=3.0)) as here:
            identity = await here.start("for i in {1..16}; do sleep 0.25; done; echo still here")
            seen, poll = await here.until(identity, lambda _: False)
            assert seen == "still here\n"
            assert poll.result is not None
            assert poll.result.ending is Ending.EXITED

    run(scenario())


def test_results_are_forgotten_after_their_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path, ProcessLimits(keep=0.1)) as here:
            identity = await here.start("exit 0")
            gone = asyncio.Event()

            async def ask() -> None:
                while True:
                    try:
                        await here.processes.poll(identity, ME, wait=0.02)
                    except InvalidArgument:
                        gone.set()
                        return

            async with asyncio.timeout(PATIENCE):
                await ask()
            assert gone.is_set()

    run(scenario())


def test_only_the_newest_results_are_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path, ProcessLimits(kept=2)) as here:
            ended: list[str] = []
            for number in range(4):
                ended.append(await here.start(f"echo {number}"))
                await here.until(ended[-1], lambda _: False)
            for identity in ended[:2]:
                with pytest.raises(InvalidArgument, match="there is no process"):
                    await here.processes.poll(identity, ME)
            assert (await here.processes.poll(ended[3], ME, offset=0)).output == "3\n"

    run(scenario())


def test_closing_the_table_ends_everything(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with table(tmp_path) as here:
            identity = await here.start("echo $$; sleep 1000")
            seen, _ = await here.until(identity, lambda seen: bool(re.search(r"\d+\n", seen)))
            await here.processes.close()
            assert await eventually(lambda: not alive(int(seen)))
            with pytest.raises(InvalidArgument):
                await here.processes.poll(identity, ME)
            with pytest.raises(ExecutorUnavailable):
                await here.start("true")

    run(scenario())
