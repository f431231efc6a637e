"""The host as a server of its own: one process, or several that share a port."""

import errno
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
from openskills.host.app import SkillHostApp, create_app
from openskills.host.auth import KeyRing, is_loopback
from openskills.host.connections import HostProtocol
from openskills.host.lifecycle import HostDirectory
from openskills.host.parts import HostOptions
from openskills.settings import Settings
from openskills.telemetry.context import JsonFormatter

_BACKLOG = 2048
_SHUTDOWN_TIMEOUT = 5


def open_socket(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises `InvalidArgument` that says what to do when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise InvalidArgument(*_describe_bind_error(error, host, port)) from None


def socket_url(found: socket.socket) -> str:
    """The URL of a socket that listens."""
    host, port = found.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def resolve_auth(settings: Settings, host: str, *, no_auth: bool) -> Settings:
    """Settings that say whether a key is needed. On loopback none is, unless that was asked for.

    Raises `InvalidArgument` where keys are needed and there are none: nobody could call, or, without, everybody.
    """
    if no_auth:
        return replace(settings, host_auth="off")
    if settings.host_auth == "off":
        if not is_loopback(host):
            raise InvalidArgument("OPENSKILL_HOST_AUTH", f"is off, and {host} can be reached by others; {_KEY_ADVICE}")
        return settings
    if settings.host_auth == "auto" and is_loopback(host):
        return replace(settings, host_auth="off")
    if not len(KeyRing.open(settings.host_keys)):
        raise InvalidArgument("--host", f"{host} needs keys, and there are none in {settings.host_keys}; {_KEY_ADVICE}")
    return replace(settings, host_auth="on")


_KEY_ADVICE = "make one with `openskills keys new`, or say --no-auth to let everybody call"


def serve(settings: Settings, options: HostOptions, listener: socket.socket) -> None:
    """Serve until a signal says that it is over."""
    _allow_many_connections()
    if options.workers == 1:
        server = _HostServer(_build_config(settings, options))
        signal.signal(signal.SIGTERM, server.stop_early)
        signal.signal(signal.SIGINT, server.stop_early)
        server.run([listener])
        return
    numbers = HostDirectory()
    try:
        shared = replace(options, numbers=numbers.path, supervisor=os.getpid())
        Multiprocess(_build_config(settings, shared), sockets=[listener]).run()
    finally:
        numbers.remove()


def create_worker_app(settings: Settings, options: HostOptions) -> SkillHostApp:
    """The application in the process that serves it."""
    _log_to_stderr(settings)
    return create_app(settings, options)


class _HostServer(uvicorn.Server):
    """One that also ends well when it is asked to before it has begun."""

    _takes_signals = False

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """See `uvicorn.Server`."""
        self._takes_signals = True
        with super().capture_signals():
            yield

    def stop_early(self, _: int, __: FrameType | None) -> None:
        """Take a signal that came before the server takes them itself.

        Afterwards the server passes on what ended it, to whom it was for before. That was a good end: nothing is done.
        """
        if not self._takes_signals:
            raise SystemExit(0)


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
        # From its start on: a busy machine takes its time to load a worker.
        timeout_worker_healthcheck=60,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT,
    )


def _describe_bind_error(error: OSError, host: str, port: int) -> tuple[str, str]:
    if error.errno == errno.EADDRINUSE:
        return "--port", f"{port} is in use on {host}; use another, or --port 0 for one that is free"
    if error.errno in {errno.EACCES, errno.EPERM}:
        return "--port", f"{port} may not be used by this user; use one above 1023"
    return "--host", f"{host} cannot be listened on: {error.strerror or error}"


def _allow_many_connections() -> None:
    """As many open files as the system lets us have: each connection is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _log_to_stderr(settings: Settings) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.getLogger("openskills").addHandler(handler)
    # Spans are lines of this logger, too, and cost something for every invocation: only for those who look for faults.
    logging.getLogger("openskills").setLevel(logging.DEBUG if settings.debug else logging.WARNING)
    logging.getLogger("openskills.host").setLevel(logging.DEBUG if settings.debug else logging.INFO)
    logging.getLogger("uvicorn.error").addHandler(handler)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
