"""A program that appends to a session for ever, or so many times, and says what was acknowledged.

Arguments: the address of the store, a name, how many events (0: until it is killed). On stdout: `ready`, then, after a
line on stdin, `ack NUMBER SEQ` for each event that was stored.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

from openskills.errors import SessionsUnavailable
from openskills.session.events import Event, new_event
from openskills.session.open import open_session_store
from openskills.session.store import AppendResult, SessionKey, SessionStore
from openskills.settings import Settings
from openskills.sync import run

KEY = SessionKey("app", "erika", "shared")


def counting(event: Event, state: Mapping[str, str]) -> Event:
    """A hook that counts the events: a state that it did not see would make it count one twice."""
    return replace(event, delta={**event.delta, "count": str(int(state.get("count", 0)) + 1)})


def event_of(name: str, number: int) -> Event:
    """The event of an appender; some are large."""
    text = "x" * (200_000 if number % 7 == 6 else number)
    return new_event("agent", "message", {"by": name, "number": number, "text": text}, {f"{name}/last": str(number)})


async def append(store: SessionStore, name: str, numbers: range | None) -> None:
    """Append, and say what was acknowledged."""
    for number in numbers or count():
        done = await until_it_answers(store, event_of(name, number))
        say(f"ack {number} {done.event.seq}")


async def until_it_answers(store: SessionStore, event: Event) -> AppendResult:
    """Repeat the call as it is, as the store says: on a machine with much to do a server may answer late."""
    for _ in range(9):
        try:
            return await store.append(KEY, event)
        except SessionsUnavailable as error:
            sys.stderr.write(f"{error}\n")
    return await store.append(KEY, event)


def say(text: str) -> None:
    """One line, in one call, so that nothing is between its parts."""
    os.write(1, f"{text}\n".encode())


def main() -> None:
    """Wait for the beginning, and begin."""
    address, name, times = sys.argv[1:4]
    store = open_session_store(address, Settings.from_env({"HOME": str(Path.cwd())}), hook=counting)
    say("ready")
    sys.stdin.readline()
    run(append(store, name, range(int(times)) if int(times) else None))


if __name__ == "__main__":
    main()
