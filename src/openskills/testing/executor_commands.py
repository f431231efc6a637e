"""Conformance checks of commands: environment, limits, streams, how they end, and several at once."""

import asyncio
import hashlib
import json
from dataclasses import replace

from openskills.errors import ExecutorUnavailable, ForbiddenPath, InvalidArgument
from openskills.executors.spec import (
    MIB,
    RUNS,
    Command,
    CommandResult,
    EndReason,
    Isolation,
    Limits,
    TerminalSize,
    build_variables,
)
from openskills.testing.checks import (
    EVERY_BYTE,
    PNG,
    ExecutorTrial,
    Promise,
    describe_result,
    expect,
    expect_refusal,
    list_paths,
    python_argv,
    read_content,
    read_until,
    shell_argv,
)
from openskills.testing.executor_skills import SKILL, stage_skill

DOCUMENTED = frozenset(
    {
        *build_variables("", "", SKILL),
        *("PATH", "HOME", "TMPDIR", "LANG", "TERM", "VIRTUAL_ENV"),
        # The name of the run, by which the executor finds it again.
        "OPENSKILL_RUN",
        # What shells add by themselves.
        *("PWD", "OLDPWD", "SHLVL", "_"),
    }
)
"""The variables that a command may see by default."""

_ENVIRONMENT = "import json, os; print(json.dumps({**os.environ}))"
_INTERPRETER = """
import json, os, sys
print(json.dumps([os.path.realpath(sys.executable), sys.version, sys.prefix, sys.base_prefix]))
"""
_STRANGE = {"GREETING": "héllo = 'a' \"b\" $HOME `c`\nand another line ", "EMPTY": "", "lower_case": "x" * 50_000}
_PLACES = """
import json, os, tempfile
def writable(path):
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            return 'yes' if file.write(b'x') else 'no'
    except OSError as error:
        return str(error)
names = ('WORK_DIR', 'OUTPUT_DIR', 'RUN_DIR', 'HOME', 'TMPDIR')
print(json.dumps({'.': os.getcwd()} | {name: writable(os.environ[name]) for name in names}))
"""


async def read_variables(trial: ExecutorTrial, command: Command) -> dict[str, str]:
    """The variables that a command sees."""
    return json.loads(await trial.read_output(command))


async def _check_clean_environment(trial: ExecutorTrial) -> None:
    """A command sees the documented variables only, and none of this process."""
    await stage_skill(trial)
    commands = (
        Command(python_argv(_ENVIRONMENT)),
        Command(python_argv(_ENVIRONMENT), skill=SKILL, cwd=f"skills/{SKILL}"),
        Command(python_argv(_ENVIRONMENT), terminal=TerminalSize()),
    )
    for command in commands:
        strange = (await read_variables(trial, command)).keys() - DOCUMENTED
        expect(not strange, f"it sees {', '.join(sorted(strange))}")


async def _check_layout(trial: ExecutorTrial) -> None:
    """The documented variables name the directories of the workspace."""
    await stage_skill(trial)
    for skill in (None, SKILL):
        run_dir = f"{RUNS}/check-{skill}"
        found = await read_variables(trial, Command(python_argv(_ENVIRONMENT), skill=skill, run_dir=run_dir))
        for name, value in build_variables(trial.workspace.root, run_dir, skill).items():
            expect(found.get(name) == value, f"{name} is {found.get(name)!r} and not {value!r}")
        expect(skill is not None or "SKILL_NAME" not in found, "SKILL_NAME is there without a skill")
        expect("UTF-8" in found.get("LANG", ""), f"LANG is {found.get('LANG')!r}, which is not UTF-8")


async def _check_places(trial: ExecutorTrial) -> None:
    """A command starts in its directory, and can write to the directories that its variables name."""
    await trial.workspace.make_directory("work/sub dir")
    root = trial.workspace.root
    for cwd, place in ((".", root), ("work/sub dir", f"{root}/work/sub dir"), ("out", f"{root}/out")):
        found = await read_variables(trial, Command(python_argv(_PLACES), cwd=cwd, run_dir="runs/new/run"))
        expect(found.pop(".") == place, f"the command with the directory {cwd!r} begins in another one")
        expect(set(found.values()) == {"yes"}, f"what can be written to: {found}")


async def _check_caller_variables(trial: ExecutorTrial) -> None:
    """Variables and secrets of the caller arrive unchanged, and the next command does not see them."""
    secrets = {"API_TOKEN": "s3cret \n'\" value"}
    found = await read_variables(trial, Command(python_argv(_ENVIRONMENT), env=_STRANGE, secrets=secrets))
    for name, value in {**_STRANGE, **secrets}.items():
        expect(found.get(name) == value, f"{name} is {str(found.get(name))[:60]!r} and not {value[:60]!r}")
    left = (await read_variables(trial, Command(python_argv(_ENVIRONMENT)))).keys() & {*_STRANGE, *secrets}
    expect(not left, f"the next command sees {', '.join(sorted(left))}")


async def _check_own_variables(trial: ExecutorTrial) -> None:
    """Variables of the caller never override those of the workspace."""
    wanted = {**build_variables("/elsewhere", "runs/other", "other"), "PATH": "/elsewhere", "HOME": "/elsewhere"}
    found = await read_variables(
        trial, Command(python_argv(_ENVIRONMENT), env=wanted, secrets={"WORK_DIR": "/elsewhere"})
    )
    del wanted["SKILL_NAME"]
    taken = [name for name, value in wanted.items() if found.get(name) == value]
    expect(not taken, f"the caller's value is that of {', '.join(taken)}")


async def _interpreter(trial: ExecutorTrial) -> None:
    """`python` and `python3` are the same interpreter, also in a shell."""
    found: dict[str, object] = {}
    for name in ("python", "python3"):
        for argv in ((name, "-c", _INTERPRETER), ("sh", "-c", f'{name} -c "$1"', "sh", _INTERPRETER)):
            ended = await trial.run(Command(argv))
            expect(ended.exit_code == 0, f"{name} does not run: {describe_result(ended)}")
            found[name] = json.loads(ended.stdout.text())
    expect(found["python"] == found["python3"], f"they differ: {found}")


async def _check_arguments(trial: ExecutorTrial) -> None:
    """Arguments arrive unchanged, without a shell: blanks, quotes, newlines, empty ones, long ones, 20,000 of them."""
    arguments = ["two words", "", "'\"$HOME`x`*", "line\nbreak", "-n", "é图", "x" * 100_000]
    found = await trial.run_json("import json, sys; print(json.dumps(sys.argv[1:]))", *arguments)
    expect(found == arguments, f"other arguments arrived: {str(found)[:200]}")
    for count in (9500, 20_000):
        many = [*arguments[:-1], *map(str, range(count))]
        found = await trial.run_json("import json, sys; print(json.dumps(sys.argv[1:]))", *many)
        expect(found == many, f"of {len(many)} arguments other ones arrived")


ENVIRONMENT: tuple[Promise, ...] = (
    _check_clean_environment,
    _check_layout,
    _check_places,
    _check_caller_variables,
    _check_own_variables,
    _interpreter,
    _check_arguments,
)


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


async def _check_open_files(trial: ExecutorTrial) -> None:
    """A process has at most `open_files` files open."""
    ended = await trial.run(Command(python_argv(_OPEN), limits=Limits(open_files=40)))
    count = ended.stdout.text().strip()
    expect(
        count.isdigit() and 10 < int(count) < 40, f"with a limit of 40 it opened {count!r}: {describe_result(ended)}"
    )


async def _check_file_bytes(trial: ExecutorTrial) -> None:
    """No file becomes larger than `file_bytes`."""
    ended = await trial.run(Command(python_argv(_WRITE), limits=Limits(file_bytes=MIB)))
    expect(ended.exit_code != 0, f"a command wrote 4 MiB with a limit of 1 MiB: {describe_result(ended)}")
    sizes = [info.size for info in (await trial.workspace.list(["work/large"])).files]
    expect(sizes == [MIB], f"with a limit of {MIB} bytes the file has {sizes}")


async def _check_memory(trial: ExecutorTrial) -> None:
    """A process has at most `memory_bytes` of memory."""
    ended = await trial.run(Command(python_argv(_ALLOCATE), limits=Limits(memory_bytes=128 * MIB)))
    expect("allocated" not in ended.stdout.text(), f"300 MiB, with a limit of 128 MiB: {describe_result(ended)}")
    said = await trial.read_output(Command(python_argv(_ALLOCATE), limits=Limits(memory_bytes=600 * MIB)))
    expect("allocated" in said, "300 MiB are refused with a limit of 600 MiB")


async def _check_cpu(trial: ExecutorTrial) -> None:
    """A process that has used `cpu_seconds` is ended."""
    ended = await trial.run(Command(python_argv("while True: pass"), limits=Limits(cpu_seconds=1, timeout=50.0)))
    expect(
        ended.ending is not EndReason.TIMED_OUT and ended.exit_code > 128,
        f"a limit of 1 second: {describe_result(ended)}",
    )


async def _check_processes(trial: ExecutorTrial) -> None:
    """Where commands have a user of their own, a command has at most `processes` processes."""
    if trial.isolation in _OWN_USER:
        ended = await trial.run(Command(python_argv(_FORK), limits=Limits(processes=20)))
        count = ended.stdout.text().strip()
        expect(
            count.isdigit() and 5 < int(count) <= 20,
            f"with a limit of 20 it started {count!r}: {describe_result(ended)}",
        )


async def _check_limits_of_one_command(trial: ExecutorTrial) -> None:
    """The limits of one command are not those of the next."""
    await trial.run(Command(python_argv(_OPEN), limits=Limits(open_files=40)))
    said = (await trial.read_output(Command(python_argv(_OPEN), limits=Limits(open_files=200)))).strip()
    expect(150 < int(said) < 200, f"with a limit of 200, after a command with 40, it opened {said}")


LIMITS: tuple[Promise, ...] = (
    _check_open_files,
    _check_file_bytes,
    _check_memory,
    _check_cpu,
    _check_processes,
    _check_limits_of_one_command,
)


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


async def _check_separate_streams(trial: ExecutorTrial) -> None:
    """Both streams are captured separately, and neither blocks the other."""
    ended = await trial.run(Command(shell_argv("echo out; echo error >&2; echo out again")))
    streams = (ended.stdout.bytes(), ended.stderr.bytes())
    expect(streams == (b"out\nout again\n", b"error\n"), f"captured are {streams}")
    ended = await trial.run(Command(python_argv(_BOTH)))
    expect(ended.exit_code == 0, f"512 KiB to each stream: {describe_result(ended)}")
    streams = (ended.stdout.bytes(), ended.stderr.bytes())
    same = streams == (b"o" * 512 * 1024, b"e" * 512 * 1024)
    expect(same, f"of 512 KiB in each stream there are {len(streams[0])} and {len(streams[1])} bytes, or other ones")


async def _check_named_streams(trial: ExecutorTrial) -> None:
    """A command can open its streams by name: `/dev/stdin`, `/dev/stdout`, `/dev/stderr`."""
    command = "cat /dev/stdin >/dev/stdout; echo error >/dev/stderr"
    ended = await trial.run(Command(shell_argv(command), stdin=b"input\n"))
    streams = (ended.stdout.bytes(), ended.stderr.bytes())
    expect(streams == (b"input\n", b"error\n"), f"opened by name, they have {streams}")
    ended = await trial.run(Command(shell_argv("echo x >/dev/stdout; echo y >/dev/tty"), terminal=TerminalSize()))
    expect(ended.stdout.bytes() == b"x\r\ny\r\n", f"on a terminal: {describe_result(ended)}")


async def _check_bytes_pass(trial: ExecutorTrial) -> None:
    """Input and output are bytes and stay unchanged: every byte, an image, invalid UTF-8, no byte at all."""
    for data in (EVERY_BYTE, PNG, b"\xff\xfe half \xc3", b"\r\n\x04\x03", b""):
        ended = await trial.run(Command(python_argv(_COPY), stdin=data))
        expect(ended.exit_code == 0, f"a copy of {data[:20]!r}: {describe_result(ended)}")
        back = ended.stdout.bytes()
        expect(back == data, f"{len(data)} bytes, {data[:20]!r}, came back as {len(back)}, {back[:20]!r}")


async def _check_much_input(trial: ExecutorTrial) -> None:
    """Megabytes of input arrive completely; a command that does not read them can still end."""
    data = (EVERY_BYTE * (MUCH // len(EVERY_BYTE) + 1))[:MUCH]
    said = (await trial.read_output(Command(python_argv(_DIGEST), stdin=data))).strip()
    expect(said == hashlib.sha256(data).hexdigest(), f"{MUCH} bytes arrived as other ones")
    for command in ("true", "head -c 10 >/dev/null; exec true", "exec <&-"):
        ended = await trial.run(Command(shell_argv(command), stdin=data))
        expect(ended.exit_code == 0, f"`{command}`, which does not read its input: {describe_result(ended)}")


async def _check_truncation(trial: ExecutorTrial) -> None:
    """If there is too much output, its head and tail are kept and the missing bytes are counted."""
    data = b"".join(b"%09d\n" % number for number in range(1000))
    limits = Limits(output_bytes=1000)
    for redirection in ("", " >&2"):
        ended = await trial.run(Command(shell_argv(f"cat{redirection}"), stdin=data, limits=limits))
        captured = ended.stderr if redirection else ended.stdout
        expect(captured.head == data[:500], f"the head of 10,000 bytes is {captured.head[:20]!r}…")
        expect(captured.tail == data[-500:], f"their tail is …{captured.tail[-20:]!r}")
        expect((captured.cut, captured.total) == (9000, 10_000), f"{captured.cut} of {captured.total} are missing")
        expect("9,000 bytes not kept" in captured.text(), f"the text does not say it: {captured.text()[490:560]!r}")
    ended = await trial.run(Command(("cat",), stdin=data[:1000], limits=limits))
    expect((ended.stdout.bytes(), ended.stdout.cut) == (data[:1000], 0), "what is exactly as much as is kept was cut")


async def _check_flood(trial: ExecutorTrial) -> None:
    """Endless output is bounded and counted, and does not delay the timeout."""
    limits = Limits(timeout=1.0, grace=0.2, output_bytes=4096)
    ended = await trial.run(Command(shell_argv("yes & yes >&2"), limits=limits))
    expect(ended.ending is EndReason.TIMED_OUT, f"`yes` gives: {ended.ending}, exit code {ended.exit_code}")
    for captured in (ended.stdout, ended.stderr):
        kept = len(captured.head) + len(captured.tail)
        expect(kept == 4096 and captured.cut > 0, f"of {captured.total} bytes {kept} were kept")


async def _check_last_output(trial: ExecutorTrial) -> None:
    """Output that a command writes right before its end is not lost."""
    for _ in range(5):
        ended = await trial.run(Command(shell_argv("head -c 60000 /dev/zero; echo last; echo words >&2; kill -9 $$")))
        expect(ended.stdout.tail.endswith(b"last\n") or ended.stdout.bytes().endswith(b"last\n"), "stdout lacks it")
        expect(ended.stderr.bytes() == b"words\n", f"stderr is {ended.stderr.bytes()!r}")
        expect(ended.stdout.total == 60_005, f"of 60,005 bytes there came {ended.stdout.total}")


STREAMS: tuple[Promise, ...] = (
    _check_separate_streams,
    _check_named_streams,
    _check_bytes_pass,
    _check_much_input,
    _check_truncation,
    _check_flood,
    _check_last_output,
)


FAMILY = """
import fcntl, os, signal, sys, time
traits, path = sys.argv[1].split(), sys.argv[2]
lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX)
if 'deaf' in traits:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
if 'children' in traits:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    os.wait()
if 'quiet' not in traits:
    print('ready', flush=True)
if 'stopped' in traits:
    os.kill(os.getpid(), signal.SIGSTOP)
if 'gone' not in traits:
    time.sleep(600)
"""
"""A program that runs for ten minutes. All its processes hold the lock of a file and the pipes."""

_PATIENT = 4
_GRACE = 0.3
_CANNOT_RUN = (126, 127)


async def _check_exit_codes(trial: ExecutorTrial) -> None:
    """The exit code is that of the command."""
    for code in (0, 1, 3, 100, 255):
        ended = await trial.run(Command(shell_argv(f"exit {code}")))
        said = (ended.exit_code, ended.ending)
        expect(said == (code, EndReason.EXITED), f"`exit {code}` gives: {describe_result(ended)}")


async def _check_signals(trial: ExecutorTrial) -> None:
    """A command that signal n ends has the exit code 128 + n."""
    for number in (9, 15, 11, 1):
        ended = await trial.run(Command(shell_argv(f"kill -{number} $$")))
        said = (ended.exit_code, ended.ending)
        expect(said == (128 + number, EndReason.EXITED), f"`kill -{number} $$` gives: {describe_result(ended)}")


async def _check_no_program(trial: ExecutorTrial) -> None:
    """A missing or not executable program is reported: InvalidArgument, or exit code 127 or 126 and a message."""
    await trial.workspace.write("work/no-program", b"#!/bin/sh\n", executable=False)
    root = trial.workspace.root
    for program in ("openskills-no-such-program", "/no/such/program", f"{root}/work/no-program", f"{root}/work"):
        try:
            ended = await trial.run(Command((program, "x")))
        except InvalidArgument:
            continue
        expect(ended.exit_code in _CANNOT_RUN, f"{program!r} gives: {describe_result(ended)}")
        expect(bool(ended.stderr.total), f"{program!r} ends with {ended.exit_code}, and there is no error message")


async def _check_no_directory(trial: ExecutorTrial) -> None:
    """A missing directory is InvalidArgument, one outside is ForbiddenPath, and nothing is run."""
    await trial.workspace.write("work/file", b"")
    command = shell_argv("echo ran > $WORK_DIR/ran")
    for cwd, kind in (
        ("work/none", InvalidArgument),
        ("work/file", InvalidArgument),
        ("..", ForbiddenPath),
        ("/tmp", ForbiddenPath),  # noqa: S108 - one that is refused
        ("work/../../..", ForbiddenPath),
    ):
        refused = trial.workspace.start(Command(command, cwd=cwd))
        await expect_refusal(refused, f"a command starts in {cwd!r}", kind)
    refused = trial.workspace.start(Command(command, run_dir="../run"))
    await expect_refusal(refused, "a command has a RUN_DIR outside", ForbiddenPath)
    ran = (await trial.workspace.list(["work/ran"])).files
    expect(not ran, "a command was refused and ran")


async def _check_deadline(trial: ExecutorTrial) -> None:
    """A timeout ends a command with all its processes, even if they ignore SIGTERM, are stopped, or forked twice."""
    families = ("", "deaf", "stopped", "deaf stopped", "children", "deaf children", "deaf stopped children")
    await asyncio.gather(*(_expect_timeout(trial, traits, f"work/{n}.lock") for n, traits in enumerate(families)))


async def _expect_timeout(trial: ExecutorTrial, traits: str, lock: str) -> None:
    ended = await _run_until_ready(trial, traits, lock)
    said = f"a command that is {traits or 'ordinary'} gives: {describe_result(ended)}"
    expect(ended.ending is EndReason.TIMED_OUT and ended.exit_code != 0, said)
    expect(bool(ended.detail), f"{said}; it does not say what happened")
    expect(not await trial.is_held(lock), f"processes of a command that is {traits or 'ordinary'} are still running")


async def _run_until_ready(trial: ExecutorTrial, traits: str, lock: str) -> CommandResult:
    """How it ended; with more time if the machine was too busy to start it."""
    timeout = 1.0
    while True:
        limits = Limits(timeout=timeout, grace=_GRACE)
        ended = await trial.run(Command(python_argv(FAMILY, traits, lock), limits=limits))
        if b"ready" in ended.stdout.bytes() or timeout > _PATIENT:
            return ended
        timeout *= 2


async def _check_grace(trial: ExecutorTrial) -> None:
    """A command gets SIGTERM and a grace period before it is killed."""
    command = "trap 'echo tidied; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
    process = await trial.workspace.start(Command(shell_argv(command), readable=True, limits=Limits(grace=20.0)))
    await read_until(process, b"ready")
    await process.kill()
    ended = await process.wait()
    expect("tidied" in ended.stdout.text() and ended.exit_code == 3, f"it could not: {describe_result(ended)}")
    expect(ended.ending is EndReason.KILLED, f"its ending is {ended.ending}")


async def _check_pipes(trial: ExecutorTrial) -> None:
    """A descendant that holds the pipes does not delay the result, and ends with the command."""
    ended = await trial.run(Command(python_argv(FAMILY, "deaf children gone", "work/lock")))
    said = (ended.exit_code, ended.ending)
    expect(said == (0, EndReason.EXITED), f"the command ended with 0; the result is: {describe_result(ended)}")
    expect("ready" in ended.stdout.text(), "what it wrote is missing")
    expect(not await trial.is_held("work/lock"), "the descendant is still there")


async def _check_kill(trial: ExecutorTrial) -> None:
    """kill() ends a command with all its processes; it may be called twice, at once, and after the end."""
    for traits in ("", "deaf children", "deaf stopped children"):
        command = Command(python_argv(FAMILY, traits, "work/lock"), readable=True, limits=Limits(grace=_GRACE))
        process = await trial.workspace.start(command)
        await read_until(process, b"ready")
        await asyncio.gather(process.kill(), process.kill())
        ended = await process.wait()
        expect(
            ended.ending is EndReason.KILLED,
            f"a command that is {traits or 'ordinary'} gives: {describe_result(ended)}",
        )
        await process.kill()
        expect(await process.wait() == ended, "a kill after the end changes how it ended")
        expect(not await trial.is_held("work/lock"), "its processes are still running")
    process = await trial.workspace.start(Command(shell_argv("exit 3")))
    first = await process.wait()
    await process.kill()
    expect(await process.wait() == first, "a kill changes how a command ended that had ended by itself")


async def _check_cancelled_wait(trial: ExecutorTrial) -> None:
    """A cancelled wait leaves the command running; other waits get the same result."""
    process = await trial.workspace.start(Command(("cat",), input_open=True))
    waiting = [asyncio.ensure_future(process.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.wait(waiting[:1])
    await process.write(b"still there")
    await process.close_input()
    first, second = await asyncio.gather(*waiting[1:])
    expect(first == second == await process.wait(), "two waiters get different results")
    said = (first.exit_code, first.stdout.bytes())
    expect(said == (0, b"still there"), f"after a wait was cancelled: {describe_result(first)}")


async def _check_duration(trial: ExecutorTrial) -> None:
    """The duration is that of the command."""
    ended = await trial.run(Command(python_argv("import time; time.sleep(0.4)")))
    expect(ended.duration_ms >= 390, f"a command of 400 ms took {ended.duration_ms} ms")


ENDINGS: tuple[Promise, ...] = (
    _check_exit_codes,
    _check_signals,
    _check_no_program,
    _check_no_directory,
    _check_deadline,
    _check_grace,
    _check_pipes,
    _check_kill,
    _check_cancelled_wait,
    _check_duration,
)


AT_ONCE = 20
_FAMILY = Command(python_argv(FAMILY, "deaf children", "work/lock"), readable=True, limits=Limits(grace=0.3))
_QUIET = replace(_FAMILY, argv=python_argv(FAMILY, "deaf children quiet", "work/lock"))
"""It writes nothing, because nothing may read it any more."""


async def _check_parallel_commands(trial: ExecutorTrial) -> None:
    """Twenty commands run at once, each with its own input, output, variables and directory."""
    results = await asyncio.gather(*(_run_numbered(trial, number) for number in range(AT_ONCE)))
    wrong = [result for result in results if result]
    expect(not wrong, f"{len(wrong)} of {AT_ONCE} got something else, such as {wrong[:1]}")
    files = await list_paths(trial.workspace, "runs/**")
    expect(len(files) == AT_ONCE, f"{AT_ONCE} commands put a file each, and there are {len(files)}")


async def _run_numbered(trial: ExecutorTrial, number: int) -> str:
    text = f"number {number} "
    command = Command(
        shell_argv("cat; echo $NUMBER; echo error $NUMBER >&2; echo x > $RUN_DIR/file; exit $NUMBER"),
        env={"NUMBER": str(number)},
        stdin=text.encode(),
        run_dir=f"runs/{number}",
    )
    ended = await trial.run(command)
    right = (number, f"{text}{number}\n", f"error {number}\n")
    return "" if (ended.exit_code, ended.stdout.text(), ended.stderr.text()) == right else describe_result(ended)


async def _check_side_by_side(trial: ExecutorTrial) -> None:
    """Commands of one workspace share its files, and one that ends does not end another."""
    waiting = await trial.workspace.start(Command(("cat",), input_open=True))
    for number in range(3):
        await trial.read_output(Command(shell_argv(f"echo {number} >> work/shared; sleep 600 &")))
    await waiting.write(b"x")
    await waiting.close_input()
    ended = await waiting.wait()
    expect((ended.exit_code, ended.stdout.bytes()) == (0, b"x"), f"the one that went on: {describe_result(ended)}")
    expect(await read_content(trial.workspace, "work/shared") == b"0\n1\n2\n", "they did not write to the same file")


async def _check_ids(trial: ExecutorTrial) -> None:
    """Every command has its own id."""
    processes = [await trial.workspace.start(Command(("true",))) for _ in range(5)]
    for process in processes:
        await process.wait()
    expect(len({process.id for process in processes}) == 5, "two commands have the same id")


async def _check_workspace_close(trial: ExecutorTrial) -> None:
    """Closing a workspace ends its commands."""
    process = await trial.workspace.start(_FAMILY)
    await read_until(process, b"ready")
    await trial.workspace.close()
    ended = await process.wait()
    expect(ended.ending is not EndReason.EXITED, f"it ended by itself: {describe_result(ended)}")
    expect(not await (await _reopen(trial)).is_held("work/lock"), "its processes are still running")


async def _check_cancelled_start(trial: ExecutorTrial) -> None:
    """A start that is cancelled leaves nothing running."""
    for number in range(20):
        starting = asyncio.ensure_future(trial.workspace.start(_QUIET))
        await asyncio.sleep(number * 0.0006)
        starting.cancel()
        await asyncio.wait([starting])
        if not starting.cancelled():
            await starting.result().kill()
    expect(not await trial.is_held("work/lock"), "processes of an abandoned command are still running")


async def _check_close_while_starting(trial: ExecutorTrial) -> None:
    """A command that is being started while its workspace is closed does not start, or ends."""
    starting = [asyncio.ensure_future(trial.workspace.start(_QUIET)) for _ in range(4)]
    await asyncio.sleep(0.001)
    await trial.workspace.close()
    await asyncio.wait(starting)
    for one in starting:
        if one.exception() is None:
            await one.result().wait()
        else:
            await expect_refusal(one, "a start fails in another way", ExecutorUnavailable)
    expect(not await (await _reopen(trial)).is_held("work/lock"), "processes of a command are still running")


async def _reopen(trial: ExecutorTrial) -> ExecutorTrial:
    """The same trial, with its workspace opened again."""
    return replace(trial, workspace=await trial.executor.open(trial.key))


async def _check_workspace_removal(trial: ExecutorTrial) -> None:
    """Removing a workspace ends its commands."""
    process = await trial.workspace.start(_FAMILY)
    await read_until(process, b"ready")
    expect(await trial.executor.remove(trial.key), "remove() says that there was none")
    ended = await process.wait()
    expect(ended.ending is not EndReason.EXITED, f"it ended by itself: {describe_result(ended)}")
    again = await trial.executor.open(trial.key)
    expect(not await list_paths(again, "**"), "its files are still there")


async def _check_executor_close(trial: ExecutorTrial) -> None:
    """Closing an executor ends all commands in its workspaces."""
    other = trial.make()
    key = f"{trial.key}-closing"
    try:
        workspace = await other.open(key)
        process = await workspace.start(_FAMILY)
        await read_until(process, b"ready")
        await other.close()
        ended = await process.wait()
        expect(ended.ending is not EndReason.EXITED, f"it ended by itself: {describe_result(ended)}")
    finally:
        await other.close()
        await _remove_workspace(trial, key)


async def _remove_workspace(trial: ExecutorTrial, key: str) -> None:
    """Remove the workspace that a closed executor has left."""
    other = trial.make()
    try:
        await other.check()
        await other.remove(key)
    finally:
        await other.close()


PROCESSES: tuple[Promise, ...] = (
    _check_parallel_commands,
    _check_side_by_side,
    _check_ids,
    _check_cancelled_start,
    _check_workspace_close,
    _check_close_while_starting,
    _check_workspace_removal,
    _check_executor_close,
)
