"""What a probe is, and how many of them run in one program: each in a forked child, with a time limit."""

import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from tests.hostile.probes.world import World

Attack = Callable[[World], str | None]
"""Says what it got hold of, or None. An OSError is a refusal, too; another exception is a broken probe."""

GROUPS = ("escape", "secrets", "network", "processes", "resources")
SECONDS = 20.0
_REFUSALS = (OSError, MemoryError, EOFError)


@dataclass(frozen=True)
class Probe:
    """One attack. Bare, without protection, it must succeed, or the suite says why it cannot.

    `by_root`: only root can do it bare. `depends`: bare it works where the machine lets it. `unarmed`: it is never
    tried bare, because that would touch what is not ours. `on_terminal`: it needs one.
    """

    id: str
    group: str
    tries: str
    attack: Attack
    by_root: bool = False
    depends: str = ""
    unarmed: str = ""
    on_terminal: bool = False


PROBES: dict[str, Probe] = {}


def probe(
    group: str, tries: str, *, by_root: bool = False, depends: str = "", unarmed: str = "", on_terminal: bool = False
) -> Callable[[Attack], Attack]:
    """Register a function as a probe; its name becomes the id."""

    def register(attack: Attack) -> Attack:
        add(Probe(named(attack), group, tries, attack, by_root, depends, unarmed, on_terminal))
        return attack

    return register


def add(one: Probe) -> None:
    """Register a probe that was made from data."""
    if one.id in PROBES or one.group not in GROUPS:
        raise ValueError(f"{one.id}: there is one already, or no group {one.group}")
    PROBES[one.id] = one


def named(attack: Attack) -> str:
    """The id of a probe from the name of its function."""
    return getattr(attack, "__name__", "").strip("_").replace("_", "-")


def attempt(one: Probe, world: World) -> dict[str, object]:
    """Run a probe in a child of its own and say how it ended."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _child(one, world, writing)
    os.close(writing)
    answer = _answer(reading, time.monotonic() + SECONDS)
    os.close(reading)
    _end(pid)
    if answer is None:
        return {"id": one.id, "escaped": False, "broken": True, "detail": "no answer"}
    return {"id": one.id, **answer}


def _child(one: Probe, world: World, writing: int) -> None:
    os.setpgid(0, 0)
    # A job in the background of a terminal would be stopped when it writes or changes something.
    for number in (signal.SIGTTOU, signal.SIGTTIN, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    answer: dict[str, object] = {"escaped": False, "broken": True, "detail": "it raised"}
    try:
        got = one.attack(world)
        answer = {"escaped": got is not None, "detail": (got or "nothing")[:200]}
    except _REFUSALS as error:
        answer = {"escaped": False, "detail": f"{type(error).__name__}: {error}"[:200]}
    finally:
        if "broken" in answer:
            traceback.print_exc()
        os.write(writing, json.dumps(answer).encode() + b"\n")
        os._exit(0)


def _answer(reading: int, deadline: float) -> dict[str, object] | None:
    data = b""
    while b"\n" not in data:
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        part = os.read(reading, 4096) if ready else b""
        if not part:
            return None
        data += part
    return json.loads(data.splitlines()[0])


def _end(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    os.waitpid(pid, 0)
