"""Tools that a model can call."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.tools.approvals import ApprovalDecision, ApprovalQuestion
    from openskills.tools.tool import Tool, ToolContext, ToolResult

__all__ = ["ApprovalDecision", "ApprovalQuestion", "Tool", "ToolContext", "ToolResult"]

_HOME = {
    "ApprovalDecision": "approvals",
    "ApprovalQuestion": "approvals",
    "Tool": "tool",
    "ToolContext": "tool",
    "ToolResult": "tool",
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOME)
