"""Promises about limits of one command."""

from openskills.executors.spec import MIB, Command, Ending, Isolation, Limits
from openskills.testing.promises import expect
from openskills.testing.trial import Promise, Trial, python, told

_OPEN = """
import os
count = 0
try:
    while count < 1000:
        os.open('/dev/null', os.O_RDONLY)
        count += 1
except OSError:
    pass
print(count)
"""
_WRITE = """
import os
with open('work/large', 'wb') as file:
    for _ in range(64):
        file.write(bytes(65536))
        file.flush()
"""
_ALLOCATE = """
try:
    kept = bytearray(300 * 1024 * 1024)
    print('allocated', len(kept))
except MemoryError:
    print('refused')
"""
_FORK = """
import os, time
count = 0
try:
    while count < 100:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
        count += 1
except OSError:
    pass
print(count)
"""
_OWN_USER = (Isolation.BUBBLEWRAP, Isolation.CONTAINER)


async def _open_files(trial: Trial) -> None:
    """A process has at most `open_files` files open."""
    ended = await trial.run(Command(python(_OPEN), limits=Limits(open_files=40)))
    count = ended.stdout.text().strip()
    expect(count.isdigit() and 10 < int(count) < 40, f"with a limit of 40 it opened {count!r}: {told(ended)}")


async def _file_bytes(trial: Trial) -> None:
    """No file becomes larger than `file_bytes`."""
    ended = await trial.run(Command(python(_WRITE), limits=Limits(file_bytes=MIB)))
    expect(ended.exit_code != 0, f"a command wrote 4 MiB with a limit of 1 MiB: {told(ended)}")
    sizes = [info.size for info in (await trial.workspace.list(["work/large"])).files]
    expect(sizes == [MIB], f"with a limit of {MIB} bytes the file has {sizes}")


async def _memory(trial: Trial) -> None:
    """A process has at most `memory_bytes` of memory."""
    ended = await trial.run(Command(python(_ALLOCATE), limits=Limits(memory_bytes=128 * MIB)))
    expect("allocated" not in ended.stdout.text(), f"300 MiB, with a limit of 128 MiB: {told(ended)}")
    said = await trial.said(Command(python(_ALLOCATE), limits=Limits(memory_bytes=600 * MIB)))
    expect("allocated" in said, "300 MiB are refused with a limit of 600 MiB")


async def _cpu(trial: Trial) -> None:
    """A process that has used `cpu_seconds` is ended."""
    ended = await trial.run(Command(python("while True: pass"), limits=Limits(cpu_seconds=1, timeout=50.0)))
    expect(ended.ending is not Ending.TIMED_OUT and ended.exit_code > 128, f"a limit of 1 second: {told(ended)}")


async def _processes(trial: Trial) -> None:
    """Where commands have a user of their own, a command has at most `processes` processes."""
    if trial.isolation in _OWN_USER:
        ended = await trial.run(Command(python(_FORK), limits=Limits(processes=20)))
        count = ended.stdout.text().strip()
        expect(count.isdigit() and 5 < int(count) <= 20, f"with a limit of 20 it started {count!r}: {told(ended)}")


async def _one_command(trial: Trial) -> None:
    """The limits of one command are not those of the next."""
    await trial.run(Command(python(_OPEN), limits=Limits(open_files=40)))
    said = (await trial.said(Command(python(_OPEN), limits=Limits(open_files=200)))).strip()
    expect(150 < int(said) < 200, f"with a limit of 200, after a command with 40, it opened {said}")


LIMITS: tuple[Promise, ...] = (_open_files, _file_bytes, _memory, _cpu, _processes, _one_command)
