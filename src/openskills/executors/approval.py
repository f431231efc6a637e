"""Somebody else decides whether a command may run: a person, or a program that knows more than we do."""

import hashlib
import json
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from openskills.errors import CommandDenied
from openskills.executors.records.audit import AuditRun


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What is about to be run, and for whom. Of variables only the names: values may be secrets.

    `command` is what the caller wrote (of a list: its words, quoted), `argv` what will be executed for it; `env` are
    the variables that the caller sets. `interactive`: it can be talked to while it runs. `installs`: no command, but
    the installation of what the skill declares. `digest` names the version of the skill. `identity` is the same for
    two requests exactly when everything that the caller gave is the same, values of variables and input included.
    """

    argv: tuple[str, ...]
    cwd: str
    skill: str | None = None
    env: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    who: str = ""
    command: str = ""
    digest: str = ""
    interactive: bool = False
    installs: bool = False
    stdin: bytes = field(default=b"", repr=False)
    editor_text: str | None = field(default=None, repr=False)
    user: str = ""
    session: str = ""
    agent: str = ""
    identity: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class ApprovalGrant:
    """A yes, and how it came about: a word for the audit log."""

    how: str


ApprovalHook: TypeAlias = Callable[[ApprovalRequest], Awaitable[bool | str | ApprovalGrant]]
"""True and `ApprovalGrant` let it run. False refuses it, and so does text, which is the reason."""


async def check_approval(hook: ApprovalHook | None, request: ApprovalRequest) -> str:
    """Ask, when there is somebody to ask, and return how the yes came about, "" when nobody was asked.

    Raises `CommandDenied` with the reason. Only `True` itself and `ApprovalGrant` are a yes.
    """
    if hook is None:
        return ""
    answer = await hook(request)
    if isinstance(answer, ApprovalGrant):
        return answer.how
    if answer is not True:
        reason = answer.strip() if isinstance(answer, str) else ""
        raise CommandDenied(f"{request.argv[0]} was not approved{f': {reason}' if reason else ''}", rule="approval")
    return "approved"


def build_approval_request(
    run: AuditRun,
    wanted: str | tuple[str, ...],
    *,
    env: tuple[str, ...] = (),
    editor_text: str | None = None,
    installs: bool = False,
) -> ApprovalRequest:
    """What is asked about a run; `wanted` is the command as it was asked for, `env` the variables that came with it."""
    command, who = run.command, run.who
    # Every run has a directory of its own: its name is no difference.
    cwd = command.cwd.replace(command.run_dir, "$RUN_DIR")
    interactive = command.input_open or command.terminal is not None
    said = [command.argv, wanted, command.skill, run.digest, cwd, sorted(command.env.items()), sorted(command.secrets)]
    more = [command.network, interactive, installs, editor_text]
    seen = hashlib.sha256(json.dumps([*said, *more]).encode() + b"\0" + command.stdin)
    return ApprovalRequest(
        command.argv,
        command.cwd,
        skill=command.skill,
        env=tuple(sorted(env)),
        network=command.network,
        who="/".join(part for part in (who.app, who.user, who.session, who.agent) if part),
        command=wanted if isinstance(wanted, str) else shlex.join(wanted),
        digest=run.digest,
        interactive=interactive,
        installs=installs,
        stdin=command.stdin,
        editor_text=editor_text,
        user=who.user,
        session=who.session,
        agent=who.agent,
        identity=seen.hexdigest(),
    )
