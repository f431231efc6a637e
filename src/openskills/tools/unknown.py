"""What to say to a model that calls a tool which is not there. Pure."""

from collections.abc import Sequence
from difflib import get_close_matches

from openskills.errors import InvalidArgument
from openskills.tools.profiles import NAMES


def unknown_tool(name: str, available: Sequence[str]) -> InvalidArgument:
    """The error, with the nearest tools that there are; no guess for a tool that is only not offered here."""
    if name in NAMES:
        return InvalidArgument(
            "tool", f"{name} is not available in this session; there are {', '.join(available) or 'none'}"
        )
    # Models mix up the order of words: load_skill.
    same = [one for one in available if set(one.split("_")) == set(name.lower().split("_"))]
    near = same or get_close_matches(name[:100], available, n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(available) or 'none'}"
    return InvalidArgument("tool", f"there is no tool named {name[:100]!r}; {hint}")
