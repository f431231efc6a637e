"""What each executor does not promise, probe by probe, with the reason. Everything else it promises. Data only."""

from collections.abc import Mapping

from tests.hostile.probes.battery import PROBES

EXECUTORS = ("sandbox", "landlock", "container", "local")

_NO_NAMESPACES = "Landlock has no namespaces: a command sees the names, though not the insides, of what others have"
_OWN_FILES = "Landlock does not guard modes, times and attributes of files that belong to the command's user"
_ONE_USER = (
    "processes are counted for a user; a host that is not root has one user for all commands, and watches instead"
)
_NO_POWER = "a bounding set gives nothing to who has no capabilities and cannot gain any"
_NAMES = "Landlock hides contents, not that a path exists"
_DISK = "HOME is in the workspace, whose size is watched"

_LANDLOCK = {
    **dict.fromkeys(
        (
            *("net-namespace", "mnt-namespace", "pid-namespace", "ipc-namespace", "uts-namespace"),
            *("arguments-of-all", "arguments-by-shell", "host-process-is-visible", "list-of-connections"),
            *("list-of-keys", "too-many-devices", "pin-another"),
        ),
        _NO_NAMESPACES,
    ),
    **dict.fromkeys(("existence-outside", "link-outside"), _NAMES),
    **dict.fromkeys(("outside-chmod", "outside-utime", "outside-xattr"), _OWN_FILES),
    "capabilities-CapBnd": _NO_POWER,
    "fill-home": _DISK,
}

NOT_PROMISED: Mapping[str, Mapping[str, str]] = {
    "sandbox": {},
    "landlock": _LANDLOCK,
    "container": {},
}
"""From the executor to the probes that may succeed in it."""

_NOBODY_HAS_IT = (
    "memory that no process has mapped is seen by no limit of a process and by nobody who watches processes"
)
_NO_NAME = "a file without a name is not part of the workspace; what holds is that some of the disk has to stay free"
_SESSION = "the memory of a container is limited as a whole, for its session"

NOT_COUNTED: Mapping[str, Mapping[str, str]] = {
    "sandbox": {"deleted_files": _NO_NAME},
    "landlock": {"deleted_files": _NO_NAME},
    "local": {"memory_files": _NOBODY_HAS_IT, "segments": _NOBODY_HAS_IT, "deleted_files": _NO_NAME},
    "container": {
        **dict.fromkeys(("shared", "many_processes", "memory_files", "segments"), _SESSION),
        "deleted_files": _NO_NAME,
    },
}
"""What an executor does not hold back in a single command, and why."""

WATCHED = frozenset({"fork-bomb", "thread-bomb"})
"""Held back by ending the whole command, so not in a battery where that is all there is: see `test_exhaustion.py`."""

OF_THE_FIRST = frozenset({"trace-the-first", "memory-of-the-first"})
"""Not tried where process 1 is the machine's: nobody lays hands on that, not even to be refused."""

LOCAL = (
    *("own-environment", "variable-by-name", "loader-variables", "environment-of-a-shell", "environ-of-self"),
    *("environ-of-parent", "inherited-descriptors", "more-than-three-descriptors", "streams-lead-to-files"),
    *("odd-streams", "private-memory", "one-large-block", "descriptor-bomb", "large-file", "long-file"),
    *("large-memory-file", "core-dump"),
)
"""What `local` promises: a clean environment, nothing inherited, limits. Nothing else is asked of it."""


def asked_of(executor: str, *, root: bool) -> list[str]:
    """The probes that are run under an executor."""
    if executor == "local":
        return list(LOCAL)
    without = OF_THE_FIRST if executor == "landlock" else frozenset[str]()
    if executor == "landlock" and not root:
        without |= WATCHED
    return [identity for identity in PROBES if identity not in without]
