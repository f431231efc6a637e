"""Promises about commands that have a terminal."""

from openskills.executors.protocol import Process
from openskills.executors.spec import Command, Ending, Limits, Terminal
from openskills.testing.executor_endings import FAMILY
from openskills.testing.promises import expect, expect_refusal
from openskills.testing.trial import Promise, Trial, python, read_until, told

CTRL_C, CTRL_Z = b"\x03", b"\x1a"
_SIZES = """
import os, signal
print([os.isatty(n) for n in range(3)], os.get_terminal_size(), os.open('/dev/tty', os.O_RDWR) > 2)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
print('waiting', flush=True)
signal.sigwait([signal.SIGWINCH])
print('now', os.get_terminal_size().columns, os.get_terminal_size().lines)
"""
_QUERY = """
import os, select, sys, termios
settings = termios.tcgetattr(0)
settings[3] &= ~(termios.ICANON | termios.ECHO)
termios.tcsetattr(0, termios.TCSANOW, settings)
os.write(1, b'\\x1b[6n\\x1b[c\\x1b]11;?\\x07\\x05')
print('answered' if select.select([0], [], [], 0.3)[0] else 'silence')
"""

# One process: a shell that has just forked may not be able to stop.
_JOB = b"""
import os, time
print('running', flush=True)
while not os.path.exists('work/go'):
    time.sleep(0.01)
print('done', flush=True)
"""


class _Shell:
    """A shell on a terminal, and somebody who types."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._offset = 0

    async def type(self, keys: bytes, wanted: bytes) -> bytes:
        """Press keys, and wait until something is written that was not there before."""
        await self.process.write(keys)
        said = await read_until(self.process, wanted, offset=self._offset)
        expect(wanted in said, f"typed {keys!r}, waited for {wanted!r}, and read {said[-300:]!r}")
        self._offset += len(said)
        return said


async def _started(trial: Trial, argv: tuple[str, ...] = ("sh", "-i")) -> _Shell:
    return _Shell(await trial.workspace.start(Command(argv, terminal=Terminal(), limits=Limits(grace=0.3))))


async def _size(trial: Trial) -> None:
    """A terminal has the size that it was given, and another one when it is resized, which the command hears."""
    process = await trial.workspace.start(Command(python(_SIZES), terminal=Terminal(33, 101)))
    said = await read_until(process, b"waiting")
    expect(b"[True, True, True]" in said, f"not everything is a terminal: {said!r}")
    expect(b"columns=101, lines=33" in said, f"33 rows and 101 columns were asked for: {said!r}")
    expect(b"True\r\n" in said, f"it is not the command's own terminal: {said!r}")
    await expect_refusal(process.resize(0, 80), "a terminal without rows is accepted")
    await process.resize(44, 132)
    ended = await process.wait()
    expect("now 132 44" in ended.stdout.text(), f"after a resize to 44 rows and 132 columns: {told(ended)}")
    await process.resize(24, 80)


async def _one_stream(trial: Trial) -> None:
    """A terminal has one stream: everything is in stdout, lines end with CR LF, and input is echoed."""
    shell = await _started(trial, ("sh", "-c", "read line; echo error $line >&2; exit 5"))
    await shell.type(b"typed\n", b"error typed\r\n")
    ended = await shell.process.wait()
    expect(ended.exit_code == 5, f"the exit code is {ended.exit_code}")
    expect(ended.stdout.bytes() == b"typed\r\nerror typed\r\n", f"stdout is {ended.stdout.bytes()!r}")
    expect(ended.stderr.total == 0, f"stderr is {ended.stderr.bytes()!r}")


async def _interrupt(trial: Trial) -> None:
    """Ctrl-C ends the command in the foreground, and the shell goes on."""
    shell = await _started(trial)
    await shell.type(b"sh -c 'echo run''ning; exec sleep 600'\n", b"running")
    await shell.type(CTRL_C + b"echo code''=$?\n", b"code=130")
    await shell.process.kill()


async def _job_control(trial: Trial) -> None:
    """Ctrl-Z stops the command in the foreground, and it can be continued in the background."""
    await trial.workspace.write("work/job.py", _JOB)
    shell = await _started(trial)
    await shell.type(b"python3 -I -S work/job.py\n", b"running")
    await shell.type(CTRL_Z, b"topped")
    await shell.type(b"bg; echo still''-here\n", b"still-here")
    await shell.type(b": > work/go; wait; echo wai''ted\n", b"waited")
    await shell.process.kill()
    said = (await shell.process.wait()).stdout.text()
    expect("done" in said, f"the job did not go on: {said[-300:]!r}")


async def _end_of_input(trial: Trial) -> None:
    """close_input() is Ctrl-D."""
    shell = await _started(trial, ("sh", "-c", "cat; echo e''nd"))
    await shell.type(b"line\n", b"line\r\nline\r\n")
    await shell.process.close_input()
    ended = await shell.process.wait()
    expect((ended.exit_code, ended.stdout.text()[-5:]) == (0, "end\r\n"), f"after Ctrl-D: {told(ended)}")


async def _hung_up(trial: Trial) -> None:
    """kill() ends a shell on a terminal with its jobs, those in the background and those that ignore signals, too."""
    await trial.workspace.write("work/family.py", FAMILY.encode())
    shell = await _started(trial)
    await shell.type(b"python3 -I -S work/family.py 'deaf children' work/lock &\n", b"ready")
    await shell.process.kill()
    ended = await shell.process.wait()
    expect(ended.ending is Ending.KILLED, f"after a kill: {told(ended)}")
    expect(not await trial.is_held("work/lock"), "its jobs are still there")


async def _queries(trial: Trial) -> None:
    """Nobody answers when a command asks the terminal what it is or where its cursor stands."""
    process = await trial.workspace.start(Command(python(_QUERY), terminal=Terminal()))
    ended = await process.wait()
    expect("silence" in ended.stdout.text(), f"it was answered: {told(ended)}")


TERMINAL: tuple[Promise, ...] = (_size, _one_stream, _interrupt, _job_control, _end_of_input, _hung_up, _queries)
