"""Tools that a model can call."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.tools.approvals import ApprovalDecision as ApprovalDecision
    from openskills.tools.approvals import ApprovalQuestion as ApprovalQuestion
    from openskills.tools.tool import Tool as Tool
    from openskills.tools.tool import ToolContext as ToolContext
    from openskills.tools.tool import ToolResult as ToolResult

_MODULES = {"approvals": ("ApprovalDecision", "ApprovalQuestion"), "tool": ("Tool", "ToolContext", "ToolResult")}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_exports(__name__, _MODULES)
