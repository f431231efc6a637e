"""The host as a server: one process, or several that share a port."""

import errno
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from types import FrameType

import uvicorn
from uvicorn.supervisors import Multiprocess

from openskills.errors import InvalidArgument
from openskills.executors.cgroup import find_cgroups
from openskills.executors.supervisor import is_orphaned
from openskills.host.app import SkillHostApp, create_app
from openskills.host.auth import is_loopback
from openskills.host.connections import HostProtocol
from openskills.host.keys import open_key_store
from openskills.host.lifecycle import HostDirectory
from openskills.host.parts import HostOptions
from openskills.settings import Settings
from openskills.sync import run
from openskills.telemetry.context import JsonFormatter

_BACKLOG = 2048
_SHUTDOWN_TIMEOUT = 5


def open_socket(host: str, port: int) -> socket.socket:
    """Open a listening socket. Raises `InvalidArgument` with advice if that fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            field, message = "--port", f"{port} is in use on {host}; use another, or --port 0 for a free one"
        elif error.errno in {errno.EACCES, errno.EPERM}:
            field, message = "--port", f"no permission to use {port}; use a port above 1023"
        else:
            field, message = "--host", f"cannot listen on {host}: {error.strerror or error}"
        raise InvalidArgument(field, message) from None


def socket_url(found: socket.socket) -> str:
    host, port = found.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def resolve_auth(settings: Settings, host: str, *, no_auth: bool) -> Settings:
    """Resolve `host_auth` for an address: only on loopback it may stay `auto`.

    Raises `InvalidArgument` if keys are needed and none exist, or if an open address would need no key.
    """
    if no_auth:
        return replace(settings, host_auth="off")
    if settings.host_auth == "off":
        if not is_loopback(host):
            raise InvalidArgument(
                "OPENSKILL_HOST_AUTH", f"is off, but {host} can be reached from other machines; {_KEY_ADVICE}"
            )
        return settings
    if settings.host_auth == "auto" and is_loopback(host):
        return settings
    count, place = count_keys(settings)
    if not count:
        raise InvalidArgument("--host", f"{host} requires keys, but {place} has none; {_KEY_ADVICE}")
    return replace(settings, host_auth="on")


def count_keys(settings: Settings) -> tuple[int, str]:
    """How many keys there are, and where."""

    async def count() -> tuple[int, str]:
        store = open_key_store(settings)
        try:
            return len(await store.list()), store.place
        finally:
            await store.close()

    return run(count())


_KEY_ADVICE = "create one with `openskills keys new`, or use --no-auth to allow everyone"


def serve(settings: Settings, options: HostOptions, listener: socket.socket) -> None:
    """Serve until a signal stops the server."""
    # Each connection is an open file.
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    if options.workers == 1:
        server = _HostServer(_build_config(settings, options))
        signal.signal(signal.SIGTERM, server.stop_early)
        signal.signal(signal.SIGINT, server.stop_early)
        server.run([listener])
        return
    # Before there are workers, of which each would find the others in its cgroup.
    find_cgroups(is_orphaned)
    numbers = HostDirectory()
    try:
        shared = replace(options, numbers=numbers.path, supervisor=os.getpid())
        _HostWorkers(_build_config(settings, shared), sockets=[listener]).run()
    finally:
        numbers.remove()


def create_worker_app(settings: Settings, options: HostOptions) -> SkillHostApp:
    """Create the application in a worker process."""
    _log_to_stderr(settings)
    if options.json_log == "-":
        # Whatever skills and libraries write to stdout goes to stderr; the access log has stdout for itself.
        sys.stdout.flush()
        options = replace(options, json_log=os.dup(1))
        os.dup2(2, 1)
    app = create_app(settings, options)
    gc.collect()
    # Most objects of a host are modules, which live as long as it: each full collection would visit all of them, and
    # take 25 ms instead of 1.
    gc.freeze()
    return app


class _HostServer(uvicorn.Server):
    """A server that also exits cleanly on signals before it has started."""

    _takes_signals = False

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        self._takes_signals = True
        with super().capture_signals():
            yield

    def stop_early(self, _: int, __: FrameType | None) -> None:
        """Handle a signal that arrives before the server handles signals itself: it ends as soon as it has started.

        Raises nothing, because an exception at any place, as in an import, may become another one. At its end the
        server raises the signal again for this handler, which then does nothing.
        """
        if not self._takes_signals:
            self.should_exit = True


class _HostWorkers(Multiprocess):
    """The worker processes. One that dies is replaced at once, also while it is asked whether it is alive."""

    def keep_subprocess_alive(self) -> None:
        for process in self.processes:
            # As long as this process has a copy of a worker's end of the pipe, it would wait for an answer of the dead.
            process.child_conn.close()
        super().keep_subprocess_alive()


def _build_config(settings: Settings, options: HostOptions) -> uvicorn.Config:
    return uvicorn.Config(
        partial(create_worker_app, settings, options),
        factory=True,
        workers=options.workers,
        http=HostProtocol,
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=30,
        # Includes the start of a worker, which takes long on a busy machine.
        timeout_worker_healthcheck=60,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT,
    )


def _log_to_stderr(settings: Settings) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.getLogger("openskills").addHandler(handler)
    # Spans are lines of this logger, too, and slow down every invocation: only for debugging.
    logging.getLogger("openskills").setLevel(logging.DEBUG if settings.debug else logging.WARNING)
    logging.getLogger("openskills.host").setLevel(logging.DEBUG if settings.debug else logging.INFO)
    logging.getLogger("uvicorn.error").addHandler(handler)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
