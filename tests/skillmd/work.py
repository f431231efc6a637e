"""How much work a call is, counted in function calls instead of time."""

import sys
from collections.abc import Callable
from types import FrameType


def calls(function: Callable[[], object]) -> int:
    """How many functions are called, those of C included."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def is_linear(function: Callable[[int], object], size: int) -> bool:
    """Whether four times the size is at most about four times the work."""
    return calls(lambda: function(4 * size)) <= 4.4 * calls(lambda: function(size)) + 100
