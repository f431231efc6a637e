"""Promises about stdin, stdout and stderr of commands that run to their end."""

import hashlib

from openskills.executors.spec import Command, Ending, Limits
from openskills.testing.promises import EVERY_BYTE, PNG, expect
from openskills.testing.trial import Promise, Trial, python, shell, told

MUCH = 3 * 1024 * 1024
_COPY = "import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"
_DIGEST = "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
_BOTH = """
import os, threading
def write(number, letter):
    for _ in range(512):
        os.write(number, letter * 1024)
threads = [threading.Thread(target=write, args=one) for one in ((1, b'o'), (2, b'e'))]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


async def _apart(trial: Trial) -> None:
    """Both streams are captured, each by itself, and neither waits for the other."""
    ended = await trial.run(Command(shell("echo out; echo error >&2; echo out again")))
    streams = (ended.stdout.bytes(), ended.stderr.bytes())
    expect(streams == (b"out\nout again\n", b"error\n"), f"captured are {streams}")
    ended = await trial.run(Command(python(_BOTH)))
    expect(ended.exit_code == 0, f"512 KiB to each stream: {told(ended)}")
    streams = (ended.stdout.bytes(), ended.stderr.bytes())
    same = streams == (b"o" * 512 * 1024, b"e" * 512 * 1024)
    expect(same, f"of 512 KiB in each stream there are {len(streams[0])} and {len(streams[1])} bytes, or other ones")


async def _bytes_pass(trial: Trial) -> None:
    """Bytes go in and come out unchanged: every byte, an image, what is no UTF-8, nothing at all."""
    for data in (EVERY_BYTE, PNG, b"\xff\xfe half \xc3", b"\r\n\x04\x03", b""):
        ended = await trial.run(Command(python(_COPY), stdin=data))
        expect(ended.exit_code == 0, f"a copy of {data[:20]!r}: {told(ended)}")
        back = ended.stdout.bytes()
        expect(back == data, f"{len(data)} bytes, {data[:20]!r}, came back as {len(back)}, {back[:20]!r}")


async def _much_input(trial: Trial) -> None:
    """Megabytes of input arrive whole; who does not read them ends as it likes."""
    data = (EVERY_BYTE * (MUCH // len(EVERY_BYTE) + 1))[:MUCH]
    said = (await trial.said(Command(python(_DIGEST), stdin=data))).strip()
    expect(said == hashlib.sha256(data).hexdigest(), f"{MUCH} bytes arrived as other ones")
    for command in ("true", "head -c 10 >/dev/null; exec true", "exec <&-"):
        ended = await trial.run(Command(shell(command), stdin=data))
        expect(ended.exit_code == 0, f"`{command}`, which does not read its input: {told(ended)}")


async def _cut(trial: Trial) -> None:
    """Of too much output its head and its tail are kept, and how many bytes are missing is said."""
    data = b"".join(b"%09d\n" % number for number in range(1000))
    limits = Limits(output_bytes=1000)
    for redirection in ("", " >&2"):
        ended = await trial.run(Command(shell(f"cat{redirection}"), stdin=data, limits=limits))
        captured = ended.stderr if redirection else ended.stdout
        expect(captured.head == data[:500], f"the head of 10,000 bytes is {captured.head[:20]!r}…")
        expect(captured.tail == data[-500:], f"their tail is …{captured.tail[-20:]!r}")
        expect((captured.cut, captured.total) == (9000, 10_000), f"{captured.cut} of {captured.total} are missing")
        expect("9,000 bytes not kept" in captured.text(), f"the text does not say it: {captured.text()[490:560]!r}")
    ended = await trial.run(Command(("cat",), stdin=data[:1000], limits=limits))
    expect((ended.stdout.bytes(), ended.stdout.cut) == (data[:1000], 0), "what is exactly as much as is kept was cut")


async def _flood(trial: Trial) -> None:
    """Output without end is kept within bounds, counted, and no way past the deadline."""
    limits = Limits(timeout=1.0, grace=0.2, output_bytes=4096)
    ended = await trial.run(Command(shell("yes & yes >&2"), limits=limits))
    expect(ended.ending is Ending.TIMED_OUT, f"`yes` gives: {ended.ending}, exit code {ended.exit_code}")
    for captured in (ended.stdout, ended.stderr):
        kept = len(captured.head) + len(captured.tail)
        expect(kept == 4096 and captured.cut > 0, f"of {captured.total} bytes {kept} were kept")


async def _last_words(trial: Trial) -> None:
    """What a command writes last, right before its end, is not lost."""
    for _ in range(10):
        ended = await trial.run(Command(shell("head -c 60000 /dev/zero; echo last; echo words >&2; kill -9 $$")))
        expect(ended.stdout.tail.endswith(b"last\n") or ended.stdout.bytes().endswith(b"last\n"), "stdout lacks it")
        expect(ended.stderr.bytes() == b"words\n", f"stderr is {ended.stderr.bytes()!r}")
        expect(ended.stdout.total == 60_005, f"of 60,005 bytes there came {ended.stdout.total}")


STREAMS: tuple[Promise, ...] = (_apart, _bytes_pass, _much_input, _cut, _flood, _last_words)
