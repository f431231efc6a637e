"""`python -m openskills` in a process that has imported everything: a fork of it, with its own streams, for each call.

Runs as `python -m tests.servers.warm_program SOCKET`, until its stdin ends. The interpreter of a call is a real process
that begins with `__main__` and ends as any other does; only what it imports is there before.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from dataclasses import dataclass
from typing import Any

PRELOADED = (
    "openskills.cli.main",
    "openskills.runtime.token_report",
    "openskills.cli.chat.loop",
    "openskills.cli.run_execution",
    "openskills.agent.models.openai",
    "openai.resources.chat.completions",
    "openskills.catalog.validate",
    "openskills.executors.bubblewrap.selftest",
    "openskills.executors.container.selftest",
    "openskills.executors.landlock",
    "openskills.executors.container.backend",
    "docker",
    "yaml",
    "typer.rich_utils",
    "rich.markdown",
)


@dataclass(frozen=True)
class Call:
    """What somebody wants to have run, and the descriptors of its three streams."""

    arguments: list[str]
    directory: str
    environment: dict[str, str]
    streams: list[int]


class Status:
    """How the command ends; with it this process leaves when all else has been done."""

    def __init__(self) -> None:
        self.code: int | None = None

    def leave(self) -> None:
        """End without taking apart what was imported: it is shared with all other calls, until somebody touches it."""
        if self.code is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.code)


def main(address: str) -> None:
    """Serve; in the fork of a call, be the command."""
    status = Status()
    # Who registers first is called last.
    atexit.register(status.leave)
    for name in PRELOADED:
        importlib.import_module(name)
    # Nothing of this is garbage, and looking at it would copy it into each fork.
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{address}.soon")
        listening.listen(50)
        os.rename(f"{address}.soon", address)
        call = _next_call(listening)
    if call is not None:
        _become(call)
        try:
            runpy.run_module("openskills", run_name="__main__", alter_sys=True)
        except SystemExit as ending:
            # Anything but a number is for the interpreter to deal with, and so is a stream that cannot be written.
            status.code = ending.code if isinstance(ending.code, int) else None
            raise


def _next_call(listening: socket.socket) -> Call | None:
    """A call, in the fork that is for it; None in the process that served them all."""
    running: set[int] = set()
    while 0 not in select.select([listening, 0], [], [])[0]:
        connection, _ = listening.accept()
        with connection:
            child = os.fork()
            if child == 0:
                listening.close()
                return _look_after(connection)
        running.add(child)
        running -= {child for child in running if os.waitpid(child, os.WNOHANG)[0]}
    return None


def _look_after(connection: socket.socket) -> Call:
    """Fork the call and give it there; here, tell the caller how it ends, and end it when the caller has gone."""
    call = _received(connection)
    child = os.fork()
    if child == 0:
        return call
    for stream in call.streams:
        os.close(stream)
    end = os.pidfd_open(child)
    while end not in select.select([end, connection], [], [])[0]:
        number = connection.recv(1)
        os.kill(child, number[0] if number else signal.SIGKILL)
        if not number:
            break
    _, status = os.waitpid(child, 0)
    try:
        connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
    finally:
        os._exit(0)


def _received(connection: socket.socket) -> Call:
    size, streams, _, _ = socket.recv_fds(connection, 4, 3)
    content = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    return Call(**json.loads(content), streams=streams)


def _become(call: Call) -> None:
    """Have the streams, the variables and the directory of a call, as a new interpreter would."""
    was: tuple[Any, ...] = (sys.stdin, sys.stdout, sys.stderr)
    for number, stream in enumerate(call.streams):
        os.dup2(stream, number)
        os.close(stream)
    modes = ("r", "w", "w")
    # They stay open until the end, as those of any interpreter do.
    new = [
        open(  # noqa: SIM115
            number, mode, encoding=old.encoding, errors=old.errors, newline=None if mode == "r" else "\n"
        )
        for number, (mode, old) in enumerate(zip(modes, was, strict=True))
    ]
    new[2].reconfigure(line_buffering=True)
    sys.stdin, sys.stdout, sys.stderr = new
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = new
    os.environ.clear()
    os.environ.update(call.environment)
    os.chdir(call.directory)
    sys.argv = [sys.argv[0], *call.arguments]
    sys.path[0] = call.directory


if __name__ == "__main__":
    main(sys.argv[1])
