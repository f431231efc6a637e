"""The skill host: any skill behind one HTTP protocol. Serving needs the extra `host`; its client needs nothing more.

Importing this package loads nothing else."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.host.app import create_app
    from openskills.host.client.client import Client
    from openskills.host.client.router import RoutableSkill, Router, extract_input
    from openskills.host.client.transport import SkillFailed, unwrap
    from openskills.host.history import History, RunFilter, RunRecord, new_run_id
    from openskills.host.model import Call, Outcome, Registration, normalize_outcome, success_outcome
    from openskills.host.runs import Run

__all__ = [
    "Call",
    "Client",
    "History",
    "Outcome",
    "Registration",
    "RoutableSkill",
    "Router",
    "Run",
    "RunFilter",
    "RunRecord",
    "SkillFailed",
    "create_app",
    "extract_input",
    "new_run_id",
    "normalize_outcome",
    "success_outcome",
    "unwrap",
]

_HOME = {
    "Call": "model",
    "Client": "client.client",
    "History": "history",
    "Outcome": "model",
    "Registration": "model",
    "RoutableSkill": "client.router",
    "Router": "client.router",
    "Run": "runs",
    "RunFilter": "history",
    "RunRecord": "history",
    "SkillFailed": "client.transport",
    "create_app": "app",
    "extract_input": "client.router",
    "new_run_id": "history",
    "normalize_outcome": "model",
    "success_outcome": "model",
    "unwrap": "client.transport",
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOME)
