"""Somebody may be asked before a command runs, and only a yes is a yes."""

import asyncio
from typing import Any

import pytest

from openskills.errors import CommandDenied
from openskills.executors.rules.approval import ApprovalRequest, approved

REQUEST = ApprovalRequest(argv=("rm", "-r", "x"), cwd="work", skill="pdf", env=("A",), network=(), who="user")


def ask(answer: Any) -> list[ApprovalRequest]:
    asked: list[ApprovalRequest] = []

    async def hook(request: ApprovalRequest) -> bool | str:
        asked.append(request)
        return answer

    asyncio.run(approved(hook, REQUEST))
    return asked


def test_a_yes_lets_it_run() -> None:
    assert ask(True) == [REQUEST]


def test_without_anybody_to_ask_it_runs() -> None:
    asyncio.run(approved(None, REQUEST))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (False, "rm was not approved"),
        (" it deletes files ", "rm was not approved: it deletes files"),
        ("", "rm was not approved"),
        ("yes", "rm was not approved: yes"),
        (None, "rm was not approved"),
        (1, "rm was not approved"),
    ],
)
def test_everything_else_is_a_no_with_its_reason(answer: object, message: str) -> None:
    with pytest.raises(CommandDenied) as raised:
        ask(answer)
    assert str(raised.value) == message
    assert raised.value.details["rule"] == "approval"


def test_a_request_has_names_of_variables_and_cannot_be_changed() -> None:
    assert REQUEST.env == ("A",)
    with pytest.raises(AttributeError):
        REQUEST.argv = ("ls",)  # type: ignore[misc]
