"""The program that `tests/servers/s3.py` starts: moto's S3 server, which does one thing at a time.

Moto looks whether an object is there, and then writes it; S3 promises that both are one step. Two requests at once
would fall between, so here they come one after the other. Arguments: the port, and the process to end with.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def one_at_a_time(application: Application) -> Application:
    """The same application; a request waits for the one before it."""
    lock = threading.Lock()

    def serial(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # Replaying recorded requests sends them to this server, and waits for them.
        if environ["PATH_INFO"].startswith("/moto-api/"):
            return list(application(environ, start_response))
        with lock:
            return list(application(environ, start_response))

    return serial


def end_with(parent: int) -> None:
    """End this process when its parent has ended, however that came."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


def main() -> None:
    """Serve until a signal comes."""
    port, parent = map(int, sys.argv[1:3])
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    application = one_at_a_time(DomainDispatcherApplication(create_backend_app))
    make_server("127.0.0.1", port, application, threaded=True).serve_forever()


if __name__ == "__main__":
    main()
