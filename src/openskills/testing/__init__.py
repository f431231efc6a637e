"""Checks that ship with OpenSkill: what every implementation of a protocol promises; and fakes to test with.

Use them in the tests of your own: `run(check_artifact_store(MyStore))`, `run(check_session_store(MyStore))`,
`run(check_executor(MyExecutor))`.
"""

from openskills.testing.artifact_store import check_artifact_store
from openskills.testing.executor import GROUPS, WITHOUT_COMMANDS, check_executor
from openskills.testing.fake import FakeExecutor
from openskills.testing.fake_process import FakeRun
from openskills.testing.model_server import ModelServer
from openskills.testing.model_server_replies import Asked, RawReply, Refusal, Reply, Reset, event
from openskills.testing.promises import PNG
from openskills.testing.scripted_model import ScriptedModel, calling
from openskills.testing.session_store import check_session_store

__all__ = [
    "GROUPS",
    "PNG",
    "WITHOUT_COMMANDS",
    "Asked",
    "FakeExecutor",
    "FakeRun",
    "ModelServer",
    "RawReply",
    "Refusal",
    "Reply",
    "Reset",
    "ScriptedModel",
    "calling",
    "check_artifact_store",
    "check_executor",
    "check_session_store",
    "event",
]
