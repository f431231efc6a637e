"""Builds requests while nothing changes, and prints what was done to files meanwhile: `context_probe.py SKILLS HOME N`.

`N` skills are loaded. Under a tracer the same can be counted in its log.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from context_ours import names_of, talk_over
from context_talk import long_turn
from context_trace import file_events

REQUESTS = 100


async def probe(skills: Path, home: Path, loaded: int) -> dict[str, Any]:
    """The audit events of `REQUESTS` requests that are about files, and how many skills stand in the last one."""
    async with talk_over(skills, home) as talk:
        (turn,) = long_turn(names_of(skills, loaded))
        await talk.hold(turn)
        with file_events() as events:
            for _ in range(REQUESTS):
                talk.request()
        shown = [message for message in talk.request() if "[Loaded] " in str(message["content"])]
        return {"events": events, "requests": REQUESTS, "shown": len(shown)}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(probe(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))))
