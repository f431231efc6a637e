"""The skill host: any skill behind one HTTP protocol. Serving needs the extra `host`; its client needs nothing more.

Importing this package loads nothing else."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.host.app import create_app as create_app
    from openskills.host.client.client import Client as Client
    from openskills.host.client.router import RoutableSkill as RoutableSkill
    from openskills.host.client.router import Router as Router
    from openskills.host.client.router import extract_input as extract_input
    from openskills.host.client.transport import SkillFailed as SkillFailed
    from openskills.host.client.transport import unwrap as unwrap
    from openskills.host.history import History as History
    from openskills.host.history import RunFilter as RunFilter
    from openskills.host.history import RunRecord as RunRecord
    from openskills.host.history import new_run_id as new_run_id
    from openskills.host.model import Call as Call
    from openskills.host.model import Outcome as Outcome
    from openskills.host.model import Registration as Registration
    from openskills.host.model import normalize_outcome as normalize_outcome
    from openskills.host.model import success_outcome as success_outcome
    from openskills.host.runs import Run as Run

    __all__: list[str]

_MODULES = {
    "app": ("create_app",),
    "client.client": ("Client",),
    "client.router": ("RoutableSkill", "Router", "extract_input"),
    "client.transport": ("SkillFailed", "unwrap"),
    "history": ("History", "RunFilter", "RunRecord", "new_run_id"),
    "model": ("Call", "Outcome", "Registration", "normalize_outcome", "success_outcome"),
    "runs": ("Run",),
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_exports(__name__, _MODULES)
