"""Builds requests while nothing changes, and says what was done to files meanwhile: `context_probe.py SKILLS HOME`.

Files with names that nobody has are looked for before and after, so that a tracer knows where to count.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from context_ours import names_of, talk_over
from context_talk import long_turn

REQUESTS = 100
BEGIN, END = "/openskills-bench-begins-here", "/openskills-bench-ends-here"
_FILES = ("open", "os.", "shutil.", "pathlib.", "glob.", "tempfile.", "mmap.", "fcntl.", "sqlite3.")


async def probe(skills: Path, home: Path, loaded: int) -> dict[str, Any]:
    """The audit events of `REQUESTS` requests that are about files, and how large the last one was."""
    async with talk_over(skills, home) as talk:
        (turn,) = long_turn(names_of(skills, loaded))
        await talk.hold(turn)
        found: list[str] = []
        counting = False

        def note(event: str, _: tuple[object, ...]) -> None:
            if counting and event.startswith(_FILES):
                found.append(event)

        sys.addaudithook(note)
        os.access(BEGIN, os.F_OK)
        counting = True
        for _ in range(REQUESTS):
            talk.request()
        counting = False
        os.access(END, os.F_OK)
        shown = [message for message in talk.request() if "[Loaded] " in str(message["content"])]
        return {"events": found, "requests": REQUESTS, "shown": len(shown)}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(probe(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))))
