"""The trace id of a request, the caller's or a new one, and the W3C `traceparent` that goes with it.

What a caller sends stands in headers, logs and files later on. So it is printable ASCII and short, or it is refused.
"""

import random
import re
from typing import NamedTuple

from openskills.errors import InvalidArgument

LONGEST = 128
HEADER = "X-Trace-Id"

_PRINTABLE = re.compile(rb"[\x20-\x7e]{1,%d}" % LONGEST)
_TRACE = re.compile(r"(?!0{32})[0-9a-f]{32}")
_PARENT = re.compile(rb"(?!ff)([0-9a-f]{2})-((?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(-.*)?")
_DICE = random.Random()  # noqa: S311 - seeded by the system once


class Trace(NamedTuple):
    """What ties together everything that happens for one request.

    `parent` is the caller's `traceparent` when it sent a good one; `here` is ours, for whoever we call and for the
    answer.
    """

    id: str
    here: str
    parent: str | None = None


def new_hex(size: int) -> str:
    """Random bytes as hex digits. They are for telling things apart, not for keeping them secret."""
    # Asking the system would cost more than all the rest of what is done here for a request.
    return f"{_DICE.getrandbits(8 * size):0{2 * size}x}"


def minted() -> Trace:
    """A new one."""
    dice = new_hex(24)
    return Trace(dice[:32], f"00-{dice[:32]}-{dice[32:]}-01")


def trace_of(trace_id: bytes | None, traceparent: bytes | None) -> Trace:
    """The trace of a request with these headers. Raises `InvalidArgument` for a trace id that cannot be used.

    A `traceparent` that is not well-formed is as good as none, as its specification says.
    """
    known = _PARENT.fullmatch(traceparent) if traceparent else None
    # Only a version of the future may have more fields.
    if known is not None and known[1] == b"00" and known[4]:
        known = None
    if not trace_id and known is None:
        return minted()
    if trace_id and not _PRINTABLE.fullmatch(trace_id):
        raise InvalidArgument(
            HEADER, f"must be printable ASCII of at most {LONGEST} characters; leave it out for a new one"
        )
    dice = new_hex(24)
    chosen = trace_id.decode("ascii").strip() if trace_id else ""
    if known is not None:
        inherited = known[2].decode("ascii")
        here = f"00-{inherited}-{dice[32:]}-{known[3].decode('ascii')}"
        return Trace(chosen or inherited, here, known[0].decode("latin-1"))
    chosen = chosen or dice[:32]
    shared = chosen if _TRACE.fullmatch(chosen) else dice[:32]
    return Trace(chosen, f"00-{shared}-{dice[32:]}-01")
