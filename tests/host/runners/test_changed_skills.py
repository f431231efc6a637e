"""Scripts whose registration changes while they are called: nothing of that is seen by a call that has begun."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from openskills.executors.watchdog import list_descendants
from openskills.host.model import Outcome, Registration, SkillRunner
from openskills.host.runners.isolation import IsolationProvider
from openskills.host.runners.python import PythonRunner
from tests.host.calls_made import called, open_runner, python_skill, script, settings

# It says which interpreter it was forked from, at once or when a file has come.
WAITING = """
    import json, os, pathlib, sys, time
    gate = json.load(sys.stdin)["input"].get("gate")
    if gate:
        pathlib.Path(gate + ".begun").touch()
        while not os.path.exists(gate):
            time.sleep(0.01)
    mother = int(open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1])
    print(json.dumps({"mother": mother, "version": os.getenv("VERSION")}))
"""


def both(directory: Path) -> tuple[Registration, Registration]:
    """A skill before a change of its manifest, and after it."""
    old = python_skill(script(directory, WAITING), environment={"VERSION": "old"})
    return old, replace(old, environment={"VERSION": "new"})


async def begun(runner: SkillRunner, skill: Registration, gate: Path) -> "asyncio.Task[Outcome]":
    """A call that has begun, and ends when there is such a file."""
    task = asyncio.create_task(runner.invoke(skill, called({"gate": str(gate)})))
    await until(lambda: Path(f"{gate}.begun").exists())
    return task


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


def said(outcome: Outcome) -> tuple[object, object]:
    data = outcome.data or {}
    return data.get("version"), data.get("mother")


async def test_a_call_that_has_begun_ends_as_usual_when_its_skill_is_forgotten_and_its_interpreter_behind_it(
    tmp_path: Path,
) -> None:
    old, _ = both(tmp_path)

    async with open_runner(tmp_path, old) as runner:
        calling = await begun(runner, old, tmp_path / "gate")
        await runner.forget(old.id)
        (tmp_path / "gate").touch()
        version, mother = said(await calling)
        assert version == "old"
        await until(lambda: not os.path.exists(f"/proc/{mother}"))


async def test_a_late_call_of_the_old_registration_leaves_the_new_one_as_it_is(tmp_path: Path) -> None:
    old, new = both(tmp_path)

    async with open_runner(tmp_path, old) as runner:
        await runner.prepare(old)
        await runner.forget(old.id)
        await runner.prepare(new)
        calling = await begun(runner, new, tmp_path / "gate")
        version, other = said(await runner.invoke(old, called()))
        (tmp_path / "gate").touch()
        first, second = said(await calling), said(await runner.invoke(new, called()))
        assert (version, first[0], first) == ("old", "new", second)
        await until(lambda: not os.path.exists(f"/proc/{other}"))


async def test_an_old_registration_that_takes_long_to_prepare_does_not_take_the_place_of_the_new_one(
    tmp_path: Path,
) -> None:
    plain, new = both(tmp_path)
    slow = tmp_path / "python"
    slow.write_text(f'#!/bin/sh\nread line < {tmp_path}/pipe && rm {tmp_path}/pipe && echo "[]"\n')
    slow.chmod(0o755)
    os.mkfifo(tmp_path / "pipe")
    old = replace(plain, options={"python": str(slow)})

    async with open_runner(tmp_path, old) as runner:
        late = asyncio.create_task(runner.prepare(old))
        await asyncio.sleep(0)
        await runner.prepare(new)
        first = said(await runner.invoke(new, called()))
        await asyncio.to_thread((tmp_path / "pipe").write_text, "go\n")
        await asyncio.wait((late,))
        assert said(await runner.invoke(new, called())) == first


async def test_a_registration_that_is_prepared_twice_at_once_leaves_no_interpreter(tmp_path: Path) -> None:
    old, new = both(tmp_path)

    places = IsolationProvider(settings(tmp_path), tmp_path)
    runner = PythonRunner(places, concurrency=2)
    try:
        await runner.prepare(old)
        await asyncio.gather(*(runner.prepare(new) for _ in range(3)))
        assert interpreters()
        await runner.close()
        await until(lambda: not interpreters())
    finally:
        await places.close()


def interpreters() -> list[int]:
    """The warm interpreters below this process. Only root could ask in which directory they are."""
    found: list[int] = []
    for pid in list_descendants(os.getpid()):
        with suppress(OSError):
            if b"openskills_zygote" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found
