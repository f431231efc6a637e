"""Finds skills, or reads front matter, whenever it is told to: `discovery_serve.py`. Runs in every environment.

Every answer is what a probe says; the library is imported once, and everything else is made anew.
"""

import sys
from pathlib import Path
from typing import Any

# A benchmark may have the name of a library: looked for last, it is in nobody's way.
sys.path.append(sys.path.pop(0))

from probe import KEYS, PROBES
from trpc_process import serve


async def _answer(request: dict[str, Any]) -> dict[str, Any]:
    if "keys" in request:
        return KEYS[request["do"]](request["keys"])
    return PROBES[request["do"]](Path(request["skills"]))


if __name__ == "__main__":
    serve(lambda: _answer)
