"""MCP: skills, their tools and hosted skills for any MCP client, and tools of MCP servers for agents."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.adapters.mcp.tools import mcp_tools

__all__ = [
    "mcp_tools",
]

_HOME = {
    "mcp_tools": "tools",
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOME)
