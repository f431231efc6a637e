"""People who are asked for approval, in tests."""

import asyncio
from typing import Any

from openskills.executors.approval import ApprovalRequest
from openskills.tools.approvals import ApprovalDecision, ApprovalQuestion, Approvals


class Person:
    """Gives the same answer to every question, and knows what was asked."""

    def __init__(self, answer: Any = ApprovalDecision.ALLOW_ONCE) -> None:
        self.answer = answer
        self.asked: list[ApprovalQuestion] = []

    async def __call__(self, question: ApprovalQuestion) -> ApprovalDecision | bool | str:
        self.asked.append(question)
        return self.answer

    @property
    def commands(self) -> list[str]:
        """What was asked about."""
        return [question.command for question in self.asked]


def request(command: str = "ls", **fields: Any) -> ApprovalRequest:
    """What a workbench asks about a command of the skill `demo`."""
    return ApprovalRequest(("bash", "-c", command), "skills/demo", "demo", command=command, identity=command, **fields)


def ask_about(approvals: Approvals, wanted: ApprovalRequest) -> str:
    """How the yes came about."""
    return asyncio.run(approvals(wanted)).how
