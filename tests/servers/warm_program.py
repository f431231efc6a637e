"""`python` in a process that has imported everything: a fork of it, with its own streams, for each call.

Runs as `python -m tests.servers.warm_program SOCKET KIND`, until its stdin ends. What a call runs is `-m openskills`,
or, if the kind is `script` or `program`, the file that is its first argument; programs use the package, scripts do not.
The interpreter of a call is a real process that begins with `__main__` and ends as any other does; only what it imports
is there before.
"""

import atexit
import fcntl
import gc
import importlib
import io
import marshal
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
import termios
import time
import warnings
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from typing import Any

COMMAND = (
    "openskills.cli.main",
    "openskills.runtime.token_report",
    "openskills.cli.chat.loop",
    "openskills.host.server",
    "openskills.host.client.transport",
    "openskills.host.runners.python",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
    "anyio._backends._asyncio",
    "httpcore2",
    "openskills.cli.run_execution",
    "openskills.agent.models.openai",
    "openskills.agent.rules.model",
    "openai.resources.chat.chat",
    "openskills.catalog.validate",
    "openskills.executors.bubblewrap.selftest",
    "openskills.executors.container.selftest",
    "openskills.executors.landlock",
    "openskills.executors.container.backend",
    "openskills.executors.local",
    "openskills.executors.ray.cluster",
    "ray",
    "openskills.catalog.sources.mcp",
    "openskills.catalog.sources.mcp_client",
    "openskills.adapters.mcp.http",
    "openskills.host.client.client",
    "openskills.runtime.details",
    "docker",
    "jinja2",
    "yaml",
    "typer.rich_utils",
    "typer._adapters",
    "rich.live",
    "rich.markdown",
    "rich.spinner",
)
# What scripts of skills import, all but one from the standard library or meant for it.
SCRIPT = (
    *("argparse", "codecs", "csv", "datetime", "decimal", "fractions", "hashlib", "html", "logging", "re", "shutil"),
    *("statistics", "subprocess", "tempfile", "textwrap", "unicodedata", "urllib.parse", "zipfile"),
    *("openskills.skillkit.entry", "openskills.skillkit.files", "pypdf"),
)
# What examples and benchmarks import.
PROGRAM = (
    "mcp.client",
    "openskills.adapters.mcp.tools",
    "openskills.agent.agent",
    "openskills.agent.runner",
    "openskills.agent.subagent",
    "openskills.agent.models.openai",
    "openskills.agent.rules.model",
    "openai.resources.chat.chat",
    "openskills.executors.bubblewrap.selftest",
    "openskills.executors.local",
    "openskills.host.server",
    "openskills.host.client.transport",
    "openskills.host.runners.python",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
    "anyio._backends._asyncio",
    "httpcore2",
    "openskills.testing",
    "openskills.testing.model_server",
    "openskills.testing.models",
)
PRELOADED = {"openskills": COMMAND, "script": SCRIPT, "program": PROGRAM}


@dataclass(frozen=True)
class Call:
    """What somebody wants to have run, the descriptors of its three streams, and whether they are its own terminal."""

    arguments: list[str]
    directory: str
    environment: dict[str, str]
    terminal: bool
    streams: list[int]
    strict: bool = False
    """Whether warnings are errors, as with the option `-W error`."""


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


def main(address: str, kind: str) -> None:
    """Serve; in the fork of a call, be the command."""
    status = Status()
    # Who registers first is called last.
    atexit.register(status.leave)
    for name in PRELOADED[kind]:
        importlib.import_module(name)
    if kind == "openskills":
        with redirect_stdout(io.StringIO()):
            # Whatever is made at the first call and kept.
            sys.modules["openskills.cli.main"].main(["--version"])
            importlib.import_module("openskills.tokens").load_exact_counter()
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
            if kind == "openskills":
                runpy.run_module("openskills", run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(_become_script(), run_name="__main__")
            status.code = 0
        except SystemExit as ending:
            # Anything but a number is for the interpreter to deal with, and so is a stream that cannot be written.
            status.code = ending.code if isinstance(ending.code, int) else None
            raise


def _next_call(listening: socket.socket) -> Call | None:
    """A call, in the fork that is for it; None in the process that served them all."""
    running: dict[int, Running] = {}
    while True:
        connections = {one.connection.fileno(): end for end, one in running.items()}
        ready = select.select([listening.fileno(), 0, *running, *connections], [], [])[0]
        if 0 in ready:
            for one in running.values():
                os.kill(one.pid, signal.SIGKILL)
            return None
        for end in [end for end in ready if end in running]:
            running.pop(end).finish(end)
        for end in [connections[number] for number in ready if number in connections]:
            if end in running:
                running[end].pass_on()
        if listening.fileno() in ready:
            connection, _ = listening.accept()
            call = _received(connection)
            child = os.fork()
            if child == 0:
                for end, one in running.items():
                    os.close(end)
                    one.connection.close()
                connection.close()
                listening.close()
                return call
            for stream in call.streams:
                os.close(stream)
            running[os.pidfd_open(child)] = Running(child, connection)
            with suppress(BrokenPipeError):
                connection.sendall(child.to_bytes(4, "big"))


@dataclass(frozen=True)
class Running:
    """The fork of a call, and who called."""

    pid: int
    connection: socket.socket

    def pass_on(self) -> None:
        """Signals are for the command; when the caller has gone the command ends."""
        number = self.connection.recv(1)
        os.kill(self.pid, number[0] if number else signal.SIGKILL)

    def finish(self, end: int) -> None:
        """Tell the caller how it ended."""
        os.close(end)
        _, status = os.waitpid(self.pid, 0)
        with self.connection, suppress(BrokenPipeError):
            self.connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))


def _received(connection: socket.socket) -> Call:
    size, streams, _, _ = socket.recv_fds(connection, 4, 3)
    content = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    return Call(**marshal.loads(content), streams=streams)


def _become(call: Call) -> None:
    """Have the streams, the variables and the directory of a call, as a new interpreter would."""
    was: tuple[Any, ...] = (sys.stdin, sys.stdout, sys.stderr)
    for number, stream in enumerate(call.streams):
        os.dup2(stream, number)
        os.close(stream)
    if call.terminal:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
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
    # What was read from other variables.
    tempfile.tempdir = None
    time.tzset()
    if call.strict:
        sys.warnoptions.append("error")
        warnings.simplefilter("error")


def _become_script() -> str:
    del sys.argv[0]
    script = sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    return script


if __name__ == "__main__":
    main(*sys.argv[1:])
