"""A process that serves conversations (`SkillRuntime`), and one conversation (`SkillSession`)."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.runtime.branch import Branch
    from openskills.runtime.options import SessionOptions
    from openskills.runtime.runtime import SkillRuntime
    from openskills.runtime.session import SkillSession
    from openskills.runtime.token_report import DisclosureMode, measure_tokens

__all__ = ["Branch", "DisclosureMode", "SessionOptions", "SkillRuntime", "SkillSession", "measure_tokens"]

_HOME = {
    "Branch": "branch",
    "DisclosureMode": "token_report",
    "SessionOptions": "options",
    "SkillRuntime": "runtime",
    "SkillSession": "session",
    "measure_tokens": "token_report",
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOME)
