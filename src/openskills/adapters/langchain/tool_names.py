"""What skills call the tools of other clients, and what they are called here."""

from collections.abc import Mapping

_HERE: Mapping[str, str] = {
    "bash": "execute",
    "edit": "edit_file",
    "ls": "ls",
    "read": "read_file",
    "shell": "execute",
    "todowrite": "write_todos",
    "write": "write_file",
}


def name_here(name: str) -> str:
    """The name of a tool in deepagents, from how a skill calls it: `Read` is `read_file`."""
    return _HERE.get(name.lower(), name)


def names_of(tool: str) -> tuple[str, ...]:
    """Every name under which a skill may mean this tool, its own first."""
    return (tool, *(other.capitalize() for other, here in _HERE.items() if here == tool and other != tool))
