"""`openskills` for who does not want to pay for imports: hands its call to the warm program, and ends as that ends.

Runs by itself, as `python -ISE warm_client.py SOCKET ARGUMENT...`. What cannot be handed over becomes `python -m
openskills`: variables that an interpreter reads when it starts, closed streams, a user who may not reach the socket.

It imports as little as it can: `socket`, `json` and `typing` would take more time than everything else it does.
"""

import _socket
import fcntl
import marshal
import os
import signal
import sys
import termios

STREAMS = (0, 1, 2)
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main(address: str, *arguments: str) -> "NoReturn":
    """Call, pass on signals, and end with the same status."""
    if _is_particular():
        _start(arguments)
    connection = _socket.socket(_socket.AF_UNIX)
    try:
        connection.connect(address)
    except OSError:
        _start(arguments)
    place = {"directory": os.getcwd(), "environment": dict(os.environ), "terminal": _is_at_terminal()}
    call = marshal.dumps({"arguments": arguments, **place})
    streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in STREAMS)
    connection.sendmsg([len(call).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    connection.sendall(call)
    # From here on the streams are the other's alone: who reads them sees the end when it ends.
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in STREAMS:
        os.dup2(nothing, stream)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: connection.sendall(bytes([received])))
    answer = b""
    # The number of the process, then its status. A signal may come between them.
    while len(answer) < 8:
        piece = connection.recv(8 - len(answer))
        if not piece:
            # The warm program has ended, and with it what it ran.
            _end(-signal.SIGKILL)
        answer += piece
    _end(int.from_bytes(answer[4:], "big", signed=True))


def _is_particular() -> bool:
    try:
        for stream in STREAMS:
            os.fstat(stream)
    except OSError:
        return True
    read_at_start = any(name.startswith(("PYTHON", "LC_")) for name in os.environ)
    return read_at_start or os.environ.get("LANG") != "C.UTF-8"


def _is_at_terminal() -> bool:
    """Whether this process is what a terminal was opened for: then the terminal is to be the command's own."""
    return os.getsid(0) == os.getpid() and os.isatty(0)


def _start(arguments: tuple[str, ...]) -> "NoReturn":
    if _is_at_terminal():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.execv(sys.executable, [sys.executable, "-m", "openskills", *arguments])


def _end(status: int) -> "NoReturn":
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
