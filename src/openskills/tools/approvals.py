"""Asking before a command of a skill runs, and remembering the answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from openskills.errors import CommandDenied, InvalidArgument, UnknownSkill
from openskills.executors.layout import SKILLS
from openskills.executors.rules.approval import ApprovalRequest, Approved
from openskills.tools.allowed_tools import for_commands, is_preapproved

_SHOWN, _SHOWN_TOOLS = 200, 20
_LOGGER = logging.getLogger(__name__)


class Decision(StrEnum):
    """What a person says to a command. `deny` with a reason is the reason itself, as text."""

    ALLOW_ONCE = "allow_once"
    ALLOW_SESSION = "allow_session"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class ApprovalQuestion:
    """What somebody is asked: everything that the model put into the call, and on whose behalf.

    `command` is as the model wrote it, `argv` what will be executed, `cwd` relative to the workspace; `env` are names.
    `preapproved` says whether `allowed_tools`, those of the skill, cover it. `interactive`: the model can write to it
    while it runs. `installs`: nothing of the model's, but the installation of what the skill declares.
    """

    skill: str | None
    command: str
    argv: tuple[str, ...]
    cwd: str
    env: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    stdin: bytes = field(default=b"", repr=False)
    editor_text: str | None = field(default=None, repr=False)
    interactive: bool = False
    installs: bool = False
    user: str = ""
    session: str = ""
    agent: str = ""
    preapproved: bool = False
    allowed_tools: tuple[str, ...] = ()


Ask: TypeAlias = Callable[[ApprovalQuestion], Awaitable[Decision | bool | str]]
"""True is `allow_once`, False is `deny`; text that is no `Decision` is a `deny` with that reason."""

AllowedToolsOf: TypeAlias = Callable[[str], tuple[str, ...]]
"""The `allowed-tools` of a skill, by its name."""


def _nothing(skill: str) -> tuple[str, ...]:
    del skill
    return ()


@dataclass(slots=True, eq=False)
class _Asking:
    """A question that is not answered yet, and how many calls wait for the answer."""

    answer: "asyncio.Task[object]"
    waiting: int = 0


class Approvals:
    """The hook for `Rules.approve`; one for each conversation, because it remembers.

    Every command is put to `ask`, except what `allowed_tools_of` its skill pre-approves (unless `skip_preapproved` is
    false). `allow_session` is remembered for exactly what was asked: the same command text in the same version of the
    same skill, directory, variables, input. What files hold may change meanwhile. Calls that ask the same at the same
    time share one question and its answer. Only an answer is a yes: when `ask` raises, gives up, returns something
    else, or has not answered after `timeout` seconds, the command does not run.

    `restrict` refuses, without a question, what a skill's `allowed-tools` do not pre-approve; a skill without them, and
    a command without a skill, may run nothing. Without `ask` nobody is asked, and the rest runs.
    """

    def __init__(
        self,
        ask: Ask | None,
        *,
        allowed_tools_of: AllowedToolsOf = _nothing,
        skip_preapproved: bool = True,
        restrict: bool = False,
        timeout: float | None = None,
    ) -> None:
        if timeout is not None and not timeout > 0:
            raise InvalidArgument("timeout", f"{timeout!r} is no time to answer in; give seconds, or None")
        self._ask = ask
        self._allowed_tools_of = allowed_tools_of
        self._skip_preapproved = skip_preapproved
        self._restrict = restrict
        self._timeout = timeout
        self._remembered: set[Hashable] = set()
        self._asking: dict[Hashable, _Asking] = {}

    async def __call__(self, request: ApprovalRequest) -> Approved:
        """Let a command run, or raise `CommandDenied` with what the model is to do instead."""
        question = self._question(request)
        if self._restrict and not question.preapproved and not request.installs:
            raise _outside(question)
        if question.preapproved and (self._skip_preapproved or self._ask is None):
            return Approved("preapproved")
        if self._ask is None:
            return Approved("")
        same: Hashable = request.identity or request
        if same in self._remembered:
            return Approved("remembered")
        decision = _decided(question, await self._answer(same, question, self._ask))
        if decision is Decision.ALLOW_SESSION:
            self._remembered.add(same)
        return Approved(str(decision))

    def _question(self, request: ApprovalRequest) -> ApprovalQuestion:
        tools = self._tools_of(request.skill)
        covered = not request.installs and is_preapproved(
            tools,
            "skill_exec" if request.interactive else "skill_run",
            request.command,
            at_home=request.cwd == f"{SKILLS}/{request.skill}",
            variables=bool(request.env),
        )
        return ApprovalQuestion(
            request.skill,
            request.command,
            request.argv,
            request.cwd,
            env=request.env,
            network=request.network,
            stdin=request.stdin,
            editor_text=request.editor_text,
            interactive=request.interactive,
            installs=request.installs,
            user=request.user,
            session=request.session,
            agent=request.agent,
            preapproved=covered,
            allowed_tools=tools,
        )

    def _tools_of(self, skill: str | None) -> tuple[str, ...]:
        if skill is None:
            return ()
        try:
            return tuple(self._allowed_tools_of(skill))
        except UnknownSkill:
            # Staged once and gone since: nobody vouches for it any more.
            return ()

    async def _answer(self, same: Hashable, question: ApprovalQuestion, ask: Ask) -> object:
        """What was answered to this question, asked now unless somebody waits for it already."""
        asking = self._asking.get(same)
        if asking is None:
            asking = self._asking[same] = _Asking(asyncio.ensure_future(self._in_time(question, ask)))
        asking.waiting += 1
        try:
            # Neither cancelled with one of those who wait, nor raising what the callback raised.
            await asyncio.wait({asking.answer})
        finally:
            asking.waiting -= 1
            if self._asking.get(same) is asking and (asking.answer.done() or not asking.waiting):
                del self._asking[same]
            if not asking.waiting:
                asking.answer.cancel()
        return _answered(question, asking.answer)

    async def _in_time(self, question: ApprovalQuestion, ask: Ask) -> object:
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                return await ask(question)
        except TimeoutError:
            if not limit.expired():
                raise
            return f"nobody answered within {self._timeout:g} seconds"


def _answered(question: ApprovalQuestion, answer: "asyncio.Task[object]") -> object:
    if answer.cancelled():
        raise _denied(question, "the question was withdrawn")
    error = answer.exception()
    if error is not None:
        _LOGGER.error("asking about %r failed", _shown(question.command), exc_info=error)
        # The model reads this: what the error says is for the log.
        raise _denied(question, f"nobody could be asked ({type(error).__name__})") from error
    return answer.result()


def _decided(question: ApprovalQuestion, answer: object) -> Decision:
    """The yes in an answer; raises `CommandDenied` for everything else."""
    if answer is True:
        return Decision.ALLOW_ONCE
    if isinstance(answer, str) and answer.strip() in (Decision.ALLOW_ONCE, Decision.ALLOW_SESSION):
        return Decision(answer.strip())
    if answer is False or (isinstance(answer, str) and answer.strip() in (Decision.DENY, "")):
        raise _denied(question, "")
    if isinstance(answer, str):
        raise _denied(question, answer.strip())
    _LOGGER.error("asking about %r gave %r, which is no answer", _shown(question.command), answer)
    raise _denied(question, f"the answer was no answer but {type(answer).__name__}")


def _denied(question: ApprovalQuestion, reason: str) -> CommandDenied:
    what = f"installing for {question.skill!r}" if question.installs else repr(_shown(question.command))
    why = f" ({reason})" if reason else ""
    advice = "do not run it again, in this or another form; tell the user, and ask how to go on"
    return CommandDenied(f"{what} was not approved{why}: {advice}", rule="approval", skill=question.skill)


def _outside(question: ApprovalQuestion) -> CommandDenied:
    what = repr(_shown(question.command))
    tools = for_commands(question.allowed_tools)
    if not tools:
        whose = f"those of {question.skill!r} name none" if question.skill else "it belongs to no skill"
        said = (
            f"{what} is not allowed here: only commands in a skill's allowed-tools may run, and {whose}; ask the user"
        )
    else:
        more = f" (+{len(tools) - _SHOWN_TOOLS} more)" if len(tools) > _SHOWN_TOOLS else ""
        said = (
            f"{what} is not among what {question.skill!r} may run: {', '.join(tools[:_SHOWN_TOOLS])}{more}; run one "
            "such command, without shell syntax and env, from the skill's folder, or ask the user"
        )
    return CommandDenied(said, rule="restrict", skill=question.skill, allowed=list(tools[:_SHOWN_TOOLS]))


def _shown(command: str) -> str:
    return command if len(command) <= _SHOWN else f"{command[:_SHOWN]}…"
