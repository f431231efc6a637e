"""Terminals: its own, when it has one, and those of others."""

import errno
import fcntl
import os
import termios

from tests.hostile.probes.probe import probe
from tests.hostile.probes.world import World

_TIOCLINUX = 0x541C
_OLD_KERNELS_ONLY = "the kernel may refuse it to everybody"


@probe("processes", "types into its own terminal", on_terminal=True, depends=_OLD_KERNELS_ONLY)
def type_into_terminal(world: World) -> str | None:
    fcntl.ioctl(0, termios.TIOCSTI, b" ")
    return "typed"


@probe("processes", "uses the clipboard of the console", on_terminal=True)
def console_selection(world: World) -> str | None:
    try:
        fcntl.ioctl(0, _TIOCLINUX, b"\x02")
    except OSError as error:
        # This terminal is not a console; a filter says EPERM before that is known.
        if error.errno not in (errno.ENOTTY, errno.EINVAL):
            raise
    return "the call is let through"


@probe("processes", "hides the call in the upper half of the number", on_terminal=True, depends=_OLD_KERNELS_ONLY)
def type_with_odd_number(world: World) -> str | None:
    from tests.hostile.probes.calls import libc

    # The kernel looks at 32 bits, a careless filter at 64.
    libc("ioctl", 0, termios.TIOCSTI | (1 << 32), b" ")
    return "typed"


@probe("processes", "takes the terminal of somebody else as its own")
def steal_a_terminal(world: World) -> str | None:
    pid = os.fork()
    if pid:
        # Only who leads no group can begin a session.
        _, status = os.waitpid(pid, 0)
        return "taken" if status == 0 else None
    os.setsid()
    status = 1
    try:
        status = 0 if _taken(world) else 1
    finally:
        os._exit(status)


def _taken(world: World) -> bool:
    opened = os.open(world.terminal, os.O_RDWR | os.O_NOCTTY)
    found = os.fstat(opened)
    if world.identities[world.terminal] != [found.st_dev, found.st_ino]:
        return False
    fcntl.ioctl(opened, termios.TIOCSCTTY, 1)
    return True
