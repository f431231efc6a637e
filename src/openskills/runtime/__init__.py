"""A process that serves conversations (`SkillRuntime`), and one conversation (`SkillSession`)."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.runtime.branch import Branch as Branch
    from openskills.runtime.options import SessionOptions as SessionOptions
    from openskills.runtime.runtime import SkillRuntime as SkillRuntime
    from openskills.runtime.session import SkillSession as SkillSession
    from openskills.runtime.token_report import DisclosureMode as DisclosureMode
    from openskills.runtime.token_report import measure_tokens as measure_tokens

_MODULES = {
    "branch": ("Branch",),
    "options": ("SessionOptions",),
    "runtime": ("SkillRuntime",),
    "session": ("SkillSession",),
    "token_report": ("DisclosureMode", "measure_tokens"),
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_exports(__name__, _MODULES)
