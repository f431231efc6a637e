"""What skills cost a model: scripted tasks, played with progressive disclosure and with everything in the prompt."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.bench.tasks import default_tasks, read_library
    from openskills.bench.token_report import DisclosureMode, best_counter

__all__ = ["DisclosureMode", "best_counter", "default_tasks", "read_library"]

_HOME = {
    "DisclosureMode": "token_report",
    "best_counter": "token_report",
    "default_tasks": "tasks",
    "read_library": "tasks",
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOME)
