"""A process that serves conversations (`SkillRuntime`), and one conversation (`SkillSession`)."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.runtime.branch import Branch
    from openskills.runtime.options import SessionOptions
    from openskills.runtime.runtime import SkillRuntime
    from openskills.runtime.session import SkillSession

__all__ = ["Branch", "SessionOptions", "SkillRuntime", "SkillSession"]

_HOME = {"Branch": "branch", "SessionOptions": "options", "SkillRuntime": "runtime", "SkillSession": "session"}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOME)
