"""A bare `os.fork()` from an interpreter that has modules loaded: `running_fork.py MODULE...`.

Runs in the environment of the modules. Each request forks a process that runs its `script`, with its output in a pipe,
as a user of `os.fork()` would; the answer has the `seconds` until it has ended, and what it `said`.
"""

import importlib
import os
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from trpc_process import serve


def forked(script: str) -> str:
    """What a script says that a forked process of this one runs as its main program; raises when it fails."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        _become(script, theirs)
    os.close(theirs)
    with open(ours, encoding="utf-8") as output:
        said = output.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"{script} failed with {os.waitstatus_to_exitcode(status)}")
    return said


def _become(script: str, output: int) -> None:
    code = 1
    try:
        os.dup2(output, 1)
        with open(1, "w", encoding="utf-8", closefd=False) as said, redirect_stdout(said):
            exec(compile(Path(script).read_bytes(), script, "exec"), {"__name__": "__main__"})
        code = 0
    finally:
        # Never back into the program of the parent, whatever happened.
        os._exit(code)


async def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Fork once."""
    begin = time.perf_counter()
    said = forked(request["script"])
    return {"seconds": time.perf_counter() - begin, "said": said}


def main(modules: list[str]) -> None:
    """Load the modules, then fork for whoever asks."""
    for name in modules:
        importlib.import_module(name)
    serve(lambda: answer)


if __name__ == "__main__":
    main(sys.argv[1:])
