"""MCP: skills, their tools and hosted skills for any MCP client, and tools of MCP servers for agents.

Importing this package loads nothing else. It needs the extra `mcp`.
"""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.adapters.mcp.server import McpServer as McpServer
    from openskills.adapters.mcp.server import serve_stdio as serve_stdio
    from openskills.adapters.mcp.tools import mcp_tools as mcp_tools

_MODULES = {"server": ("McpServer", "serve_stdio"), "tools": ("mcp_tools",)}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __all__, _fetch, __dir__ = lazy_exports(__name__, _MODULES)

    def __getattr__(name: str) -> object:
        """Fetch a public name from its module and remember it; `MissingExtra` without the packages it needs."""
        try:
            return _fetch(name)
        except ModuleNotFoundError as error:
            from openskills.errors import MissingExtra

            if (error.name or "").partition(".")[0] in ("mcp", "mcp_types"):
                raise MissingExtra("mcp", f"{__name__}.{name}") from error
            raise
