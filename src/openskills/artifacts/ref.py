"""How an artifact is called: its name, its version, and the reference that has both. Pure."""

import re
import unicodedata
from typing import NamedTuple

from openskills.errors import InvalidArgument
from openskills.paths import relative

SCHEME = "artifact://"
USER_PREFIX = "user:"
MAX_NAME = 1024

_VERSION = re.compile(r"0|[1-9][0-9]{0,17}")
_UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp"})
# Format characters that belong to words and emoji: the two joiners.
_JOINERS = frozenset("\u200c\u200d")


class Ref(NamedTuple):
    """What `artifact://name[@version]` says; no version means the latest."""

    name: str
    version: int | None


def parse_ref(text: str, *, field: str = "artifact") -> Ref:
    """Read a reference. The version is the digits after the last `@`; every other `@` belongs to the name.

    Nothing is decoded: `%2e` is three characters. Raises `InvalidArgument` for what is no reference, for a version that
    is not written as a plain number, and whatever `checked_name` raises.
    """
    if not text.startswith(SCHEME):
        raise InvalidArgument(field, f"{_shown(text)} is no artifact; write artifact://name or artifact://name@version")
    whole = text.removeprefix(SCHEME)
    name, at, version = whole.rpartition("@")
    if at and not version:
        raise InvalidArgument(field, f"{_shown(text)} ends with '@'; write a version after it, or leave it out")
    if not at or not (version.isascii() and version.isdigit()):
        return Ref(checked_name(whole, field=field), None)
    if not _VERSION.fullmatch(version):
        raise InvalidArgument(field, f"{_shown(version)} is no version; write a number such as 0 or 12")
    return Ref(checked_name(name, field=field), int(version))


def checked_name(name: str, *, field: str = "name") -> str:
    """The name in its only spelling: `a//b/./c` is `a/b/c`.

    A name is a relative path of printable characters, at most 1,024 of them; a leading `user:` is kept and is no part
    of the path. It is an identifier and never a place on a disk. Raises `InvalidArgument`, or `ForbiddenPath` for what
    is absolute or climbs with `..`.
    """
    if len(name) > MAX_NAME:
        raise InvalidArgument(field, f"a name of {len(name):,} characters is too long; {MAX_NAME:,} is the most")
    path = name.removeprefix(USER_PREFIX)
    if not path:
        raise InvalidArgument(field, f"{name!r} is no name for an artifact; write one such as out/report.pdf")
    for char in path:
        if unicodedata.category(char) in _UNSEEN and char not in _JOINERS:
            raise InvalidArgument(field, f"{name!r} contains a control or invisible character ({char!a})")
    return name[: len(name) - len(path)] + str(relative(path, field=field))


def checked_version(version: int | None) -> int | None:
    """The same version; raises `InvalidArgument` for a negative one."""
    if version is not None and version < 0:
        raise InvalidArgument("version", f"{version} is no version; the first one is 0")
    return version


def _shown(text: str) -> str:
    return repr(text if len(text) <= 100 else text[:100] + "…")
