"""Lists of commands hold against everything that a model can write and a command can leave behind."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from openskills.errors import CommandDenied, InvalidArgument
from openskills.executors.commands import CommandRules, CommandRunner
from openskills.executors.interactive import InteractiveCommands, ProcessOwner, ProcessTable
from openskills.executors.policy import CommandPolicy
from openskills.executors.requests import RunRequest
from openskills.executors.spec import TerminalSize
from tests.executors.benches import audit_lines, demo, workbench

Start = Callable[[CommandRunner, RunRequest], Awaitable[object]]

SAYS = "#!/bin/sh\necho tricked\n"
PLANTED = r"""
mkdir -p .venv/bin && ln -s /bin/sh work/innocent && ln -s /usr/bin/env work/e
for f in .venv/bin/ls .venv/bin/python work/made.sh; do printf '#!/bin/sh\necho tricked\n' > $f && chmod +x $f; done
printf '#!%s/work/made.sh\n' $PWD > work/nested && printf '#!/usr/bin/env -S sh -c\n' > work/split
printf '#!/usr/bin/env bash\necho tricked\n' > work/by-env && chmod +x work/nested work/split work/by-env
true
"""
ANY_LIST = [
    *("bash -c 'echo tricked'", "sh -c 'echo tricked'", "BASH -c x", "dash", "/bin/sh -c x", "/usr/bin/bash -c x"),
    *("env echo tricked", "/usr/bin/env echo tricked", "xargs echo tricked", "timeout 5 echo tricked", "nohup echo x"),
    *(
        "busybox sh -c 'echo tricked'",
        "setsid echo tricked",
        "nice echo tricked",
        "eval echo tricked",
        ". work/made.sh",
    ),
    *("work/innocent -c 'echo tricked'", "./work/innocent -c x", "/proc/self/cwd/work/innocent -c 'echo tricked'"),
    *("work/e echo tricked", "work/made.sh", "./work/made.sh", ".venv/bin/ls", ".venv/bin/python", "python"),
    *("work/nested", "work/split 'echo tricked'", "work/by-env", "scripts/../work/made.sh", "inputs/../made.sh"),
    *("echo x; echo tricked", "echo $(echo tricked)", "echo x && sh", "echo x | sh", "A=b sh", "echo x\nsh", "`sh`"),
    *("rm -rf out", "/bin/rm -rf out", "/usr/bin/rm out", "RM out", "'r'm out", "r\\m out", "linux64 echo tricked"),
]
PROGRAMS = [
    ("sh", "-c", "echo tricked"),
    ("work/innocent", "-c", "echo tricked"),
    ("rm", "x"),
    ("", "x"),
    ("work/e", "id"),
]


async def to_the_end(bench: CommandRunner, request: RunRequest) -> object:
    return await bench.run(request)


async def talked_to(bench: CommandRunner, request: RunRequest) -> object:
    processes = ProcessTable()
    try:
        return await InteractiveCommands(bench, processes, ProcessOwner("a", "u", "s", "agent")).start(request)
    finally:
        await processes.close()


async def refused(state: Path, policy: CommandPolicy, commands: list[str | tuple[str, ...]], start: Start) -> None:
    async with workbench(state) as bench:
        assert (await bench.run(RunRequest(PLANTED, skill="demo"))).exit_code == 0
    async with workbench(state, CommandRules(policy=policy)) as bench:
        for command in commands:
            terminal = None if start is to_the_end else TerminalSize()
            with pytest.raises((CommandDenied, InvalidArgument)):
                await start(bench, RunRequest(command, skill="demo", terminal=terminal))
    assert [line["event"] for line in audit_lines(state)] == ["begin", "end", *["fail"] * len(commands)]


@pytest.mark.parametrize("start", [to_the_end, talked_to])
@pytest.mark.parametrize("policy", [CommandPolicy.of(["ls", "echo", "python3"]), CommandPolicy.of(None, ["rm"])])
async def test_no_trick_gets_past_a_list(tmp_path: Path, policy: CommandPolicy, start: Start) -> None:
    await refused(tmp_path, policy, [*ANY_LIST, *PROGRAMS], start)


async def test_a_skill_cannot_bring_what_is_taken_for_an_allowed_program(tmp_path: Path) -> None:
    for name in ("python3", "bin/only-here", "bin/ls"):
        (demo(tmp_path) / name).parent.mkdir(exist_ok=True)
        (demo(tmp_path) / name).write_text(SAYS)
        (demo(tmp_path) / name).chmod(0o755)
    commands: list[str | tuple[str, ...]] = ["./python3 x", "only-here", "bin/ls", "./bin/ls", ("./python3",)]
    await refused(tmp_path, CommandPolicy.of(["python3", "only-here"]), commands, to_the_end)


async def test_a_planted_program_is_named_and_the_machines_is_not_run_in_its_place(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        await bench.run(RunRequest(PLANTED, skill="demo"))
    async with workbench(tmp_path, CommandRules(policy=CommandPolicy.of(["ls"]))) as bench:
        with pytest.raises(CommandDenied, match=r"would run \.venv/bin/ls, not the machine's program"):
            await bench.run(RunRequest("ls", skill="demo"))


async def test_another_name_of_a_denied_interpreter_is_denied(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        await bench.run(RunRequest("ln -s $(command -v perl) work/p && cp scripts/hello.sh work/", skill="demo"))
    async with workbench(tmp_path, CommandRules(policy=CommandPolicy.of(None, ["perl", "sh"]))) as bench:
        for command in ("work/p -e 1", "perl -e 1", "scripts/hello.sh"):
            with pytest.raises(CommandDenied, match="is a denied command"):
                await bench.run(RunRequest(command, skill="demo"))


async def test_what_is_not_denied_still_runs(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        venv = "python3 -m venv --without-pip .venv && printf '#!%s\\nprint(1)\\n' $PWD/.venv/bin/python"
        await bench.run(RunRequest(f"{venv} > .venv/bin/tool; chmod +x .venv/bin/tool", skill="demo"))
    async with workbench(tmp_path, CommandRules(policy=CommandPolicy.of(None, ["rm"]))) as bench:
        for command, said in (("scripts/hello.sh", "hello from demo\n"), ("tool", "1\n"), ("echo 'a b'", "a b\n")):
            assert (await bench.run(RunRequest(command, skill="demo"))).stdout == said
