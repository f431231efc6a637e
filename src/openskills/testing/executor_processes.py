"""Promises about several commands, and about what runs when a workspace or an executor is closed."""

import asyncio
from dataclasses import replace

from openskills.errors import ExecutorUnavailable
from openskills.executors.spec import Command, Ending, Limits
from openskills.testing.executor_endings import FAMILY
from openskills.testing.promises import expect, expect_refusal
from openskills.testing.trial import Promise, Trial, content, listed, python, read_until, shell, told

AT_ONCE = 20
_FAMILY = Command(python(FAMILY, "deaf children", "work/lock"), readable=True, limits=Limits(grace=0.3))
_QUIET = replace(_FAMILY, argv=python(FAMILY, "deaf children quiet", "work/lock"))
"""Nobody may be there any more who reads what it writes."""


async def _at_once(trial: Trial) -> None:
    """Twenty commands run at once, each with its own input, output, variables and directory."""
    results = await asyncio.gather(*(_numbered(trial, number) for number in range(AT_ONCE)))
    wrong = [result for result in results if result]
    expect(not wrong, f"{len(wrong)} of {AT_ONCE} got something else, such as {wrong[:1]}")
    files = await listed(trial.workspace, "runs/**")
    expect(len(files) == AT_ONCE, f"{AT_ONCE} commands put a file each, and there are {len(files)}")


async def _numbered(trial: Trial, number: int) -> str:
    text = f"number {number} "
    command = Command(
        shell("cat; echo $NUMBER; echo error $NUMBER >&2; echo x > $RUN_DIR/file; exit $NUMBER"),
        env={"NUMBER": str(number)},
        stdin=text.encode(),
        run_dir=f"runs/{number}",
    )
    ended = await trial.run(command)
    right = (number, f"{text}{number}\n", f"error {number}\n")
    return "" if (ended.exit_code, ended.stdout.text(), ended.stderr.text()) == right else told(ended)


async def _side_by_side(trial: Trial) -> None:
    """Commands of one workspace share its files, and one that ends does not end another."""
    waiting = await trial.workspace.start(Command(("cat",), input_open=True))
    for number in range(3):
        await trial.said(Command(shell(f"echo {number} >> work/shared; sleep 600 &")))
    await waiting.write(b"x")
    await waiting.close_input()
    ended = await waiting.wait()
    expect((ended.exit_code, ended.stdout.bytes()) == (0, b"x"), f"the one that went on: {told(ended)}")
    expect(await content(trial.workspace, "work/shared") == b"0\n1\n2\n", "they did not write to the same file")


async def _names(trial: Trial) -> None:
    """Every command has an id of its own."""
    processes = [await trial.workspace.start(Command(("true",))) for _ in range(5)]
    for process in processes:
        await process.wait()
    expect(len({process.id for process in processes}) == 5, "two commands have the same id")


async def _workspace_closed(trial: Trial) -> None:
    """Closing a workspace ends what runs in it."""
    process = await trial.workspace.start(_FAMILY)
    await read_until(process, b"ready")
    await trial.workspace.close()
    ended = await process.wait()
    expect(ended.ending is not Ending.EXITED, f"it ended by itself: {told(ended)}")
    expect(not await (await _again(trial)).is_held("work/lock"), "its processes are still there")


async def _start_cancelled(trial: Trial) -> None:
    """A start that is cancelled leaves nothing running."""
    for number in range(40):
        starting = asyncio.ensure_future(trial.workspace.start(_QUIET))
        await asyncio.sleep(number * 0.0003)
        starting.cancel()
        await asyncio.wait([starting])
        if not starting.cancelled():
            await starting.result().kill()
    expect(not await trial.is_held("work/lock"), "there are processes of a command that nobody has")


async def _closed_while_starting(trial: Trial) -> None:
    """What is being started while its workspace is closed does not start, or ends."""
    starting = [asyncio.ensure_future(trial.workspace.start(_QUIET)) for _ in range(4)]
    await asyncio.sleep(0.001)
    await trial.workspace.close()
    await asyncio.wait(starting)
    for one in starting:
        if one.exception() is None:
            await one.result().wait()
        else:
            await expect_refusal(one, "a start fails in another way", ExecutorUnavailable)
    expect(not await (await _again(trial)).is_held("work/lock"), "processes of a command are still there")


async def _again(trial: Trial) -> Trial:
    """The same trial, with its workspace opened again."""
    return replace(trial, workspace=await trial.executor.open(trial.key))


async def _workspace_removed(trial: Trial) -> None:
    """Removing a workspace ends what runs in it."""
    process = await trial.workspace.start(_FAMILY)
    await read_until(process, b"ready")
    expect(await trial.executor.remove(trial.key), "remove() says that there was none")
    ended = await process.wait()
    expect(ended.ending is not Ending.EXITED, f"it ended by itself: {told(ended)}")
    again = await trial.executor.open(trial.key)
    expect(not await listed(again, "**"), "its files are still there")


async def _executor_closed(trial: Trial) -> None:
    """Closing an executor ends everything that runs in its workspaces."""
    other = trial.make()
    key = f"{trial.key}-closing"
    try:
        workspace = await other.open(key)
        process = await workspace.start(_FAMILY)
        await read_until(process, b"ready")
        await other.close()
        ended = await process.wait()
        expect(ended.ending is not Ending.EXITED, f"it ended by itself: {told(ended)}")
    finally:
        await other.close()
        await _forgotten(trial, key)


async def _forgotten(trial: Trial, key: str) -> None:
    """Remove the workspace that a closed executor has left."""
    other = trial.make()
    try:
        await other.check()
        await other.remove(key)
    finally:
        await other.close()


PROCESSES: tuple[Promise, ...] = (
    _at_once,
    _side_by_side,
    _names,
    _start_cancelled,
    _workspace_closed,
    _closed_while_starting,
    _workspace_removed,
    _executor_closed,
)
