"""Somebody may be asked before a command runs, and only a yes is a yes."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from openskills.errors import CommandDenied
from openskills.executors.approval import ApprovalGrant, ApprovalRequest, build_approval_request, check_approval
from openskills.executors.records.audit import AuditRun, AuditSubject
from openskills.executors.spec import Command, Isolation, TerminalSize

REQUEST = ApprovalRequest(argv=("rm", "-r", "x"), cwd="work", skill="pdf", env=("A",), network=(), who="user")


def ask(answer: Any) -> list[ApprovalRequest]:
    asked: list[ApprovalRequest] = []

    async def hook(request: ApprovalRequest) -> bool | str:
        asked.append(request)
        return answer

    asyncio.run(check_approval(hook, REQUEST))
    return asked


def test_a_yes_lets_it_run() -> None:
    assert ask(True) == [REQUEST]


async def test_without_anybody_to_ask_it_runs() -> None:
    assert await check_approval(None, REQUEST) == ""


@pytest.mark.parametrize(("answer", "how"), [(True, "approved"), (ApprovalGrant("by a friend"), "by a friend")])
async def test_a_yes_says_how_it_came_about(answer: Any, how: str) -> None:
    async def hook(request: ApprovalRequest) -> bool | ApprovalGrant:
        del request
        return answer

    assert await check_approval(hook, REQUEST) == how


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


COMMAND = Command(
    ("bash", "-c", "cat"), "pdf", cwd="skills/pdf", run_dir="runs/run_1", env={"A": "b", "UV": "x"}, stdin=b"input"
)


def asked(
    command: Command = COMMAND, wanted: str | tuple[str, ...] = "cat", digest: str = "d", **how: Any
) -> ApprovalRequest:
    run = AuditRun("id", AuditSubject("app", "user", "session", "agent"), command, Isolation.NONE, digest)
    return build_approval_request(run, wanted, **how)


def test_a_request_is_made_of_a_run() -> None:
    made = asked(env=("A",), editor_text="text")
    assert (made.command, made.argv, made.cwd, made.skill) == ("cat", COMMAND.argv, "skills/pdf", "pdf")
    assert (made.env, made.stdin, made.editor_text, made.digest) == (("A",), b"input", "text", "d")
    assert (made.user, made.session, made.agent, made.who) == ("user", "session", "agent", "app/user/session/agent")
    assert (made.interactive, made.installs) == (False, False)
    assert asked(wanted=("echo", "a b")).command == "echo 'a b'"
    assert asked(replace(COMMAND, input_open=True)).interactive
    assert asked(replace(COMMAND, terminal=TerminalSize())).interactive


def test_the_same_request_has_the_same_identity_whenever_it_is_made() -> None:
    assert asked().identity == asked().identity != ""
    first, second = (replace(COMMAND, cwd=f"runs/run_{n}/x", run_dir=f"runs/run_{n}") for n in (1, 2))
    assert asked(first).identity == asked(second).identity


def test_whatever_differs_makes_another_identity() -> None:
    others = [
        asked(wanted="cat "),
        asked(wanted=("cat",)),
        asked(digest="e"),
        asked(installs=True),
        asked(editor_text=""),
        asked(replace(COMMAND, argv=("cat",))),
        asked(replace(COMMAND, skill="other")),
        asked(replace(COMMAND, cwd="work")),
        asked(replace(COMMAND, env={"A": "c", "UV": "x"})),
        asked(replace(COMMAND, secrets={"S": "x"})),
        asked(replace(COMMAND, stdin=b"other")),
        asked(replace(COMMAND, input_open=True)),
        asked(replace(COMMAND, network=("example.org",))),
    ]
    assert len({asked().identity, *(other.identity for other in others)}) == len(others) + 1


def test_no_value_of_a_variable_can_be_read_from_a_request() -> None:
    made = asked(replace(COMMAND, env={"A": "hidden"}, secrets={"S": "hidden"}, stdin=b"hidden"), editor_text="hidden")
    assert "hidden" not in repr(made)
