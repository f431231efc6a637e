"""Approval hooks: a person or another program decides whether a command may run."""

import hashlib
import json
import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from openskills.errors import CommandDenied
from openskills.executors.records.audit import AuditRun
from openskills.executors.spec import FileStamp


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A command that waits for approval. Only the names of variables are included, because values may be secrets.

    `command` is the caller's text (a list is quoted and joined), `argv` is what will be executed, and `env` names the
    variables that the caller sets. `interactive` commands can receive input while they run. `installs` marks the
    installation of a skill's dependencies. `digest` identifies the version of the skill, `changed` are its scripts that
    commands have changed or added since. Two requests have the same `identity` exactly when everything that the caller
    supplied is equal, including values of variables and input, and no script has changed in between.
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
    changed: tuple[str, ...] = ()
    stdin: bytes = field(default=b"", repr=False)
    editor_text: str | None = field(default=None, repr=False)
    user: str = ""
    session: str = ""
    agent: str = ""
    identity: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class ApprovalGrant:
    """Approval, with a word for the audit log that says how it was given."""

    how: str


ApprovalHook: TypeAlias = Callable[[ApprovalRequest], Awaitable[bool | str | ApprovalGrant]]
"""Returns True or `ApprovalGrant` to allow the command; False, or the reason as text, to deny it."""


async def check_approval(hook: ApprovalHook | None, request: ApprovalRequest) -> str:
    """Call the hook, if there is one. Returns how approval was given, or "" without a hook.

    Raises `CommandDenied` with the reason. Only `True` itself and `ApprovalGrant` count as approval.
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
    changed: Mapping[str, FileStamp] = MappingProxyType({}),
) -> ApprovalRequest:
    """The approval request for a run; `wanted` is the command as the caller wrote it, `env` the caller's variables.

    `changed` maps the changed scripts of the skill to their versions.
    """
    command, who = run.command, run.who
    # Each run has its own directory, so its name must not change the identity.
    cwd = command.cwd.replace(command.run_dir, "$RUN_DIR")
    interactive = command.input_open or command.terminal is not None
    parts = [command.argv, wanted, command.skill, run.digest, cwd, sorted(command.env.items()), sorted(command.secrets)]
    parts += [command.network, interactive, installs, editor_text, sorted(changed.items())]
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
        changed=tuple(changed),
        stdin=command.stdin,
        editor_text=editor_text,
        user=who.user,
        session=who.session,
        agent=who.agent,
        identity=hashlib.sha256(json.dumps(parts).encode() + b"\0" + command.stdin).hexdigest(),
    )
