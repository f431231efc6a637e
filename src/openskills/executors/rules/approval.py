"""Somebody else decides whether a command may run: a person, or a program that knows more than we do."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from openskills.errors import CommandDenied


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What is about to be run, and for whom. Of variables only the names: values may be secrets."""

    argv: tuple[str, ...]
    cwd: str
    skill: str | None = None
    env: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    who: str = ""


Approve: TypeAlias = Callable[[ApprovalRequest], Awaitable[bool | str]]
"""True lets it run. False refuses it, and so does text, which is the reason."""


async def approved(hook: Approve | None, request: ApprovalRequest) -> None:
    """Ask, when there is somebody to ask; raises `CommandDenied` with the reason. Only `True` itself is a yes."""
    if hook is None:
        return
    answer = await hook(request)
    if answer is not True:
        reason = answer.strip() if isinstance(answer, str) else ""
        raise CommandDenied(f"{request.argv[0]} was not approved{f': {reason}' if reason else ''}", rule="approval")
