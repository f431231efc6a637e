"""Promises about commands that are read and written to while they run."""

import asyncio
import hashlib

from openskills.executors.spec import Command, Limits, Stream
from openskills.testing.promises import expect, expect_refusal
from openskills.testing.trial import Promise, Trial, python, read_until, shell, told

_LATE_READER = """
import hashlib, os, sys, time
while not os.path.exists('work/go'):
    time.sleep(0.01)
data = sys.stdin.buffer.read()
print(len(data), hashlib.sha256(data).hexdigest())
"""
_TAKES_AT_MOST = 64 * 1024 * 1024


async def _dialogue(trial: Trial) -> None:
    """A command is answered while it runs: what it writes can be read at once, what is written to it arrives."""
    command = "import sys\nfor line in sys.stdin: print('heard', line.strip(), flush=True)"
    process = await trial.workspace.start(Command(python(command), stdin=b"zero\n", input_open=True))
    offset = 0
    for word in ("zero", "one", "two"):
        if word != "zero":
            expect(await process.write(f"{word}\n".encode()) == len(word) + 1, "three letters are not taken at once")
        heard = await read_until(process, f"{word}\n".encode(), offset=offset)
        expect(heard == f"heard {word}\n".encode(), f"it heard {word!r} and said {heard!r}")
        offset += len(heard)
    await process.close_input()
    await process.close_input()
    ended = await process.wait()
    expect(ended.exit_code == 0, f"after the end of its input: {told(ended)}")


async def _once(trial: Trial) -> None:
    """Output is read by byte offset, each byte once, in pieces of any size; and again, as long as it is kept."""
    wanted = b"".join(b"line %d\n" % number for number in range(2000))
    command = "import time\nfor n in range(2000):\n print('line', n, flush=n % 100 == 0)"
    process = await trial.workspace.start(Command(python(command), readable=True))
    pieces, offset, ended = b"", 0, False
    while not ended:
        output = await process.read(offset, wait=1.0, limit=777)
        expect(output.offset == offset, f"asked for {offset}, it gave what is at {output.offset}")
        expect(output.next_offset == offset + len(output.data), f"after {offset} it goes on at {output.next_offset}")
        expect(len(output.data) <= 777, f"asked for 777 bytes, it gave {len(output.data)}")
        pieces, offset, ended = pieces + output.data, output.next_offset, output.ended
    expect(pieces == wanted, f"{len(wanted)} bytes were written, {len(pieces)} were read, or other ones")
    await process.wait()
    again = await process.read(100, limit=50)
    expect((again.data, again.ended) == (wanted[100:150], False), f"after the end, from 100 on, there is {again}")
    last = await process.read(len(wanted) - 3, limit=1000)
    expect((last.data, last.ended) == (wanted[-3:], True), f"at the end there is {last}")
    beyond = await process.read(len(wanted), wait=5.0)
    expect((beyond.data, beyond.ended) == (b"", True), f"after the last byte there is {beyond}")
    await expect_refusal(process.read(-1), "a negative offset is accepted")


async def _reading_waits(trial: Trial) -> None:
    """A read gives what is there, waits for the first byte when it is told to, and not when it is not."""
    process = await trial.workspace.start(Command(("cat",), input_open=True))
    nothing = await process.read(0)
    expect((nothing.data, nothing.ended) == (b"", False), f"nothing was written, and it reads {nothing}")
    nothing = await process.read(0, wait=0.05)
    expect((nothing.data, nothing.ended) == (b"", False), f"nothing was written, and it reads {nothing}")
    reading = asyncio.ensure_future(process.read(0, wait=30.0))
    await asyncio.sleep(0)
    await process.write(b"x")
    expect((await reading).data == b"x", "whoever waits for a byte does not get it")
    ending = asyncio.ensure_future(process.read(1, wait=30.0))
    await process.close_input()
    last = await ending
    if not last.ended:
        last = await process.read(1, wait=30.0)
    expect((last.data, last.ended) == (b"", True), f"whoever waits while it ends gets {last}")


async def _missed(trial: Trial) -> None:
    """Of a long output the last part is kept; what is missed before it is counted."""
    command = Command(shell("seq -f %09g 10000"), readable=True, limits=Limits(output_bytes=1000))
    process = await trial.workspace.start(command)
    await process.wait()
    output = await process.read(0)
    expect(output.missed == output.offset > 0, f"from 0 on there is {output.missed} missed before {output.offset}")
    tail = output.data
    while not output.ended:
        output = await process.read(output.next_offset)
        tail += output.data
    whole = b"".join(b"%09d\n" % number for number in range(1, 10_001))
    expect(
        output.next_offset == len(whole), f"{len(whole)} bytes were written; the last offset is {output.next_offset}"
    )
    expect(len(tail) >= 1000 and whole.endswith(tail), f"the {len(tail)} bytes that are kept are not the last ones")


async def _each_stream(trial: Trial) -> None:
    """Where it was asked for, each stream can be read by itself."""
    process = await trial.workspace.start(Command(shell("echo out; echo error >&2"), readable=True))
    await process.wait()
    found = [(await process.read(0, stream=stream)).data for stream in (Stream.STDOUT, Stream.STDERR)]
    expect(found == [b"out\n", b"error\n"], f"stdout and stderr are {found}")
    both = (await process.read(0)).data
    expect(sorted(both.splitlines()) == [b"error", b"out"], f"both together are {both!r}")
    plain = await trial.workspace.start(Command(("true",)))
    await expect_refusal(plain.read(0), "what was not started to be read can be read")


async def _back_pressure(trial: Trial) -> None:
    """Who does not read is given no more than fits: write() says how much was taken, and no byte is lost."""
    process = await trial.workspace.start(Command(python(_LATE_READER), input_open=True))
    piece, sent, digest = bytes(range(256)) * 256, 0, hashlib.sha256()
    taken = len(piece)
    while taken == len(piece) and sent < _TAKES_AT_MOST:
        taken = await process.write(piece)
        digest.update(piece[:taken])
        sent += taken
    expect(sent < _TAKES_AT_MOST, f"{sent} bytes were taken by a command that does not read")
    await trial.workspace.write("work/go", b"")
    rest = piece
    while rest:
        taken = await process.write(rest)
        digest.update(rest[:taken])
        sent, rest = sent + taken, rest[taken:]
        await asyncio.sleep(0 if taken else 0.01)
    await process.close_input()
    ended = await process.wait()
    expect(ended.stdout.text().split() == [str(sent), digest.hexdigest()], f"of {sent} bytes it got: {told(ended)}")


async def _closed_input(trial: Trial) -> None:
    """Nothing can be written to a closed input, to one that was never open, and to what has ended: InvalidArgument."""
    waiting = Command(shell("cat >/dev/null; while ! [ -e work/go ]; do sleep 0.02; done"), input_open=True)
    process = await trial.workspace.start(waiting)
    await process.close_input()
    await expect_refusal(process.write(b"x"), "something can be written after the input was closed")
    await trial.workspace.write("work/go", b"")
    await process.wait()
    await expect_refusal(process.write(b"x"), "something can be written after the end")
    await process.close_input()
    await trial.workspace.remove("work/go")
    unopened = await trial.workspace.start(Command(waiting.argv))
    await expect_refusal(unopened.write(b"x"), "something can be written to an input that was not left open")
    await expect_refusal(unopened.resize(24, 80), "what has no terminal can be resized")
    await unopened.kill()


INTERACTIVE: tuple[Promise, ...] = (
    _dialogue,
    _once,
    _reading_waits,
    _missed,
    _each_stream,
    _back_pressure,
    _closed_input,
)
