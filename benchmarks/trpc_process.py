"""trpc-agent-py in a process of its own, in the environment of the peers: a line of JSON in, a line of JSON out."""

import asyncio
import importlib
import json
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Any

Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Does what a request says, and tells what came of it."""


def sdk(name: str) -> Any:
    """A module of the peer."""
    return importlib.import_module(f"trpc_agent_sdk.{name}")


def serve(make: Callable[[], Answer]) -> None:
    """Say that all is ready, then answer until there is no more input."""
    logging.disable(logging.CRITICAL)
    # The directory of this script has a module named mcp, which must not hide the package.
    sys.path.append(sys.path.pop(0))
    # Libraries print what they like; answers go where standard output went.
    answers, sys.stdout = sys.stdout, sys.stderr
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    answer = make()
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(loop.run_until_complete(answer(json.loads(line)))), file=answers, flush=True)
