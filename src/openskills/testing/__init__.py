"""Conformance checks for authors of stores and executors, and fakes for tests.

Use them in your own tests: `run(check_artifact_store(MyStore))`, `run(check_session_store(MyStore))`,
`run(check_executor(MyExecutor))`.
"""

from openskills.testing.checks import PNG
from openskills.testing.executor import GROUPS, WITHOUT_COMMANDS, check_executor
from openskills.testing.fake_executor import FakeExecutor, FakeRun
from openskills.testing.model_server import (
    ErrorReply,
    ModelReply,
    ModelServer,
    ModelServerRequest,
    RawReply,
    ResetReply,
    event,
)
from openskills.testing.models import ScriptedModel, call_tools
from openskills.testing.stores import check_artifact_store, check_session_store

__all__ = [
    "GROUPS",
    "PNG",
    "WITHOUT_COMMANDS",
    "ErrorReply",
    "FakeExecutor",
    "FakeRun",
    "ModelReply",
    "ModelServer",
    "ModelServerRequest",
    "RawReply",
    "ResetReply",
    "ScriptedModel",
    "call_tools",
    "check_artifact_store",
    "check_executor",
    "check_session_store",
    "event",
]
