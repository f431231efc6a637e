"""What is the same for all sandboxes of one maker: programs, options, the system call filter, `/etc`."""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import which

from openskills.errors import ExecutorUnavailable
from openskills.executors.sandbox.bubblewrap import BASH, DASH, encoded, system_options
from openskills.executors.sandbox.etc_held import HeldEtc
from openskills.executors.sandbox.memory import Sealed
from openskills.executors.sandbox.seccomp import program
from openskills.executors.sandbox.visible import SYSTEM_PATH, visible_system

_INSTALL = "install it (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap)"


class Stand:
    """Made once, and closed by who made it.

    `read_only` are directories of this machine that commands see, besides the system; `links` (path and target) are
    made beside them. `bwrap` and `rules` (the system call filter) are for those who have better ones. Raises
    `ExecutorUnavailable` with what is missing, and the fix.
    """

    def __init__(
        self,
        search_path: str,
        read_only: Sequence[Path],
        *,
        links: Mapping[str, str] | None = None,
        bwrap: Path | None = None,
        rules: bytes | None = None,
    ) -> None:
        if sys.platform != "linux":
            raise ExecutorUnavailable("bubblewrap needs Linux; use the executor `container`, or allow `local`")
        self.bwrap = str(bwrap) if bwrap else _found("bwrap", search_path, f"bubblewrap is missing; {_INSTALL}")
        self.setpriv = _found("setpriv", search_path, "setpriv is missing; install util-linux")
        self.shell = DASH if os.path.exists(DASH) else BASH
        self.read_only = tuple(read_only)
        system = visible_system(self.read_only)
        made = ((target, path) for path, target in (links or {}).items())
        self.options = encoded(system_options(replace(system, links=(*system.links, *made))))
        self.filter = Sealed(program(platform.machine()) if rules is None else rules)
        self.etc = HeldEtc(dict(system.in_etc))

    def close(self) -> None:
        """Give back the descriptors."""
        self.filter.close()
        self.etc.close()


def _found(name: str, search_path: str, missing: str) -> str:
    # What lies in the current directory is not the system's.
    places = [place for place in search_path.split(":") if os.path.isabs(place)]
    found = which(name, path=":".join([*places, *SYSTEM_PATH]))
    if found is None:
        raise ExecutorUnavailable(missing)
    return os.path.abspath(found)
