"""Approvals, allowed-tools.

Names that fit a pattern in which `*` stands for anything. Pure.

What a skill's `allowed-tools` pre-approves. Pure.

A pre-approval takes the question away, so in doubt there is none: `Bash(git:*)` covers one `git` with any arguments,
and nothing in which a shell could do more than that.

Asking before a command of a skill runs, and remembering the answer.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from openskills.errors import CommandDenied, InvalidArgument, UnknownSkill
from openskills.executors.approval import ApprovalGrant, ApprovalRequest
from openskills.executors.direct_start import ShellWord, parse_simple_command
from openskills.executors.spec import RESERVED, SKILLS
from openskills.skillmd.manifest import read_tools


def matches_pattern(pattern: str, name: str) -> bool:
    """Whether a name fits.

    Piece by piece instead of with an expression: whoever writes the pattern must not decide how long this takes.
    """
    first, *rest = pattern.split("*")
    if not rest:
        return name == first
    *between, last = rest
    if len(name) < len(first) + len(last) or not (name.startswith(first) and name.endswith(last)):
        return False
    place, end = len(first), len(name) - len(last)
    for part in between:
        found = name.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True


COMMAND_TOOLS = frozenset({"bash", "shell", "skill_run", "skill_exec"})
"""Tools that run commands; whoever writes one of them in `allowed-tools` means all of them. In any case."""

_ENTRY = re.compile(r"([^\s()]+)(?:\((.*)\))?", re.DOTALL)
_QUOTES = frozenset("'\"\\")


@dataclass(frozen=True, slots=True)
class AllowedToolEntry:
    """One entry. `only` is what stands in its parentheses; without them, and with `*` there, it is everything."""

    tool: str
    only: str | None = None


@dataclass(frozen=True, slots=True)
class _CommandPattern:
    """What a command has to look like: these words, and with `rest` anything after them. Words may have `*` in them."""

    words: tuple[str, ...]
    rest: bool
    wild: bool


def parse_allowed_tools(allowed_tools: Iterable[str]) -> tuple[AllowedToolEntry, ...]:
    """The entries of `allowed-tools`. One that cannot be read (`Bash(git`) means nothing and is left out."""
    found: list[AllowedToolEntry] = []
    for text in read_tools(list(allowed_tools)):
        match = _ENTRY.fullmatch(text)
        if match is not None:
            only = None if match[2] is None else match[2].strip()
            found.append(AllowedToolEntry(match[1], None if only == "*" else only))
    return tuple(found)


def select_command_entries(allowed_tools: Iterable[str]) -> tuple[str, ...]:
    """Those entries that are about running commands, as they were written."""
    written = read_tools(list(allowed_tools))
    return tuple(
        text
        for text in written
        if any(_is_tool(entry.tool, "skill_run", runs=True) for entry in parse_allowed_tools([text]))
    )


def is_preapproved(
    allowed_tools: Sequence[str],
    tool: str,
    command: str | None = None,
    *,
    at_home: bool = True,
    variables: bool = False,
) -> bool:
    """Whether a skill's `allowed-tools` pre-approves a call of a tool; for a tool that runs commands, of this command.

    `at_home`: the command runs in the skill's own folder; elsewhere an entry that names a file
    (`Bash(python scripts/*.py:*)`) means another one. `variables`: the call sets some, which is as good as `NAME=value`
    before the command. Both matter to entries with parentheses only; a plain `Bash` pre-approves every command.
    """
    runs = tool.casefold() in COMMAND_TOOLS
    same = [entry for entry in parse_allowed_tools(allowed_tools) if _is_tool(entry.tool, tool, runs=runs)]
    if any(entry.only is None for entry in same):
        return True
    if not runs or command is None or variables:
        return False
    words = parse_simple_command(command)
    return words is not None and any(_covers(entry.only or "", words, at_home=at_home) for entry in same)


def _is_tool(entry: str, tool: str, *, runs: bool) -> bool:
    if entry.endswith("*"):
        return tool.startswith(entry[:-1])
    return entry == tool or (runs and entry.casefold() in COMMAND_TOOLS)


def _covers(only: str, words: Sequence[ShellWord], *, at_home: bool) -> bool:
    shape = _parse_command_pattern(only)
    if shape is None or len(words) < len(shape.words) or (len(words) > len(shape.words) and not shape.rest):
        return False
    if not at_home and _has_relative_path(shape):
        return False
    return all(
        word.is_literal and (_matches(wanted, word.text) if shape.wild else wanted == word.text)
        for wanted, word in zip(shape.words, words, strict=False)
    )


def _parse_command_pattern(only: str) -> _CommandPattern | None:
    """From `git`, `git:*`, `git commit *`, `python scripts/*.py:*`. Words in quotes have no wildcards."""
    text, rest = only, False
    for end in (":*", " *"):
        if text.endswith(end):
            text, rest = text[: -len(end)], True
            break
    if not _QUOTES.isdisjoint(text):
        quoted = parse_simple_command(text)
        return None if quoted is None else _CommandPattern(tuple(word.text for word in quoted), rest, wild=False)
    words = tuple(text.split())
    return _CommandPattern(words, rest, wild=True) if words else None


def _has_relative_path(shape: _CommandPattern) -> bool:
    """Whether what it means depends on the directory: `scripts/run.sh`, `python run.py`; not `git log`."""
    first, *others = shape.words
    return any("/" in word and not word.startswith("/") for word in (first, *others)) or any(
        "." in word and "/" not in word for word in others
    )


def _matches(wanted: str, text: str) -> bool:
    """Whether a word is the wanted one. `*` is anything within one part of a path, and a lone `*` any one word.

    It never leads to another place: not up, not into hidden directories, not into those of a skill that commands write.
    """
    if wanted == "*" or "*" not in wanted:
        return wanted in ("*", text)
    wanted_parts, parts = wanted.split("/"), text.split("/")
    if len(wanted_parts) != len(parts) or (parts[0] in RESERVED and parts[0] != wanted_parts[0]):
        return False
    return all(_part_matches(*pair) for pair in zip(wanted_parts, parts, strict=True))


def _part_matches(wanted: str, part: str) -> bool:
    if wanted == part:
        return True
    if part in ("", ".", "..") or (part.startswith(".") and not wanted.startswith(".")):
        return False
    return matches_pattern(wanted, part)


_MAX_COMMAND_CHARS, _MAX_TOOLS = 200, 20
_LOGGER = logging.getLogger(__name__)


class ApprovalDecision(StrEnum):
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


ApprovalCallback: TypeAlias = Callable[[ApprovalQuestion], Awaitable[ApprovalDecision | bool | str]]
"""True is `allow_once`, False is `deny`; text that is no `Decision` is a `deny` with that reason."""

AllowedToolsLookup: TypeAlias = Callable[[str], tuple[str, ...]]
"""The `allowed-tools` of a skill, by its name."""


def _no_allowed_tools(skill: str) -> tuple[str, ...]:
    del skill
    return ()


@dataclass(slots=True, eq=False)
class _PendingQuestion:
    """A question that is not answered yet, and how many calls wait for the answer."""

    answer: "asyncio.Task[object]"
    waiting: int = 0


class Approvals:
    """The hook for `CommandRules.approve`; one for each conversation, because it remembers.

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
        ask: ApprovalCallback | None,
        *,
        allowed_tools_of: AllowedToolsLookup = _no_allowed_tools,
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
        self._asking: dict[Hashable, _PendingQuestion] = {}

    async def __call__(self, request: ApprovalRequest) -> ApprovalGrant:
        """Let a command run, or raise `CommandDenied` with what the model is to do instead."""
        question = self._build_question(request)
        if self._restrict and not question.preapproved and not request.installs:
            raise _build_restriction_error(question)
        if question.preapproved and (self._skip_preapproved or self._ask is None):
            return ApprovalGrant("preapproved")
        if self._ask is None:
            return ApprovalGrant("")
        same: Hashable = request.identity or request
        if same in self._remembered:
            return ApprovalGrant("remembered")
        decision = _parse_decision(question, await self._ask_once(same, question, self._ask))
        if decision is ApprovalDecision.ALLOW_SESSION:
            self._remembered.add(same)
        return ApprovalGrant(str(decision))

    def _build_question(self, request: ApprovalRequest) -> ApprovalQuestion:
        tools = self._find_allowed_tools(request.skill)
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

    def _find_allowed_tools(self, skill: str | None) -> tuple[str, ...]:
        if skill is None:
            return ()
        try:
            return tuple(self._allowed_tools_of(skill))
        except UnknownSkill:
            # Staged once and gone since: nobody vouches for it any more.
            return ()

    async def _ask_once(self, same: Hashable, question: ApprovalQuestion, ask: ApprovalCallback) -> object:
        """What was answered to this question, asked now unless somebody waits for it already."""
        asking = self._asking.get(same)
        if asking is None:
            asking = self._asking[same] = _PendingQuestion(asyncio.ensure_future(self._ask_with_timeout(question, ask)))
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
        return _read_answer(question, asking.answer)

    async def _ask_with_timeout(self, question: ApprovalQuestion, ask: ApprovalCallback) -> object:
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                return await ask(question)
        except TimeoutError:
            if not limit.expired():
                raise
            return f"nobody answered within {self._timeout:g} seconds"


def _read_answer(question: ApprovalQuestion, answer: "asyncio.Task[object]") -> object:
    if answer.cancelled():
        raise _build_denial(question, "the question was withdrawn")
    error = answer.exception()
    if error is not None:
        _LOGGER.error("asking about %r failed", _excerpt(question.command), exc_info=error)
        # The model reads this: what the error says is for the log.
        raise _build_denial(question, f"nobody could be asked ({type(error).__name__})") from error
    return answer.result()


def _parse_decision(question: ApprovalQuestion, answer: object) -> ApprovalDecision:
    """The yes in an answer; raises `CommandDenied` for everything else."""
    if answer is True:
        return ApprovalDecision.ALLOW_ONCE
    if isinstance(answer, str) and answer.strip() in (ApprovalDecision.ALLOW_ONCE, ApprovalDecision.ALLOW_SESSION):
        return ApprovalDecision(answer.strip())
    if answer is False or (isinstance(answer, str) and answer.strip() in (ApprovalDecision.DENY, "")):
        raise _build_denial(question, "")
    if isinstance(answer, str):
        raise _build_denial(question, answer.strip())
    _LOGGER.error("asking about %r gave %r, which is no answer", _excerpt(question.command), answer)
    raise _build_denial(question, f"the answer was no answer but {type(answer).__name__}")


def _build_denial(question: ApprovalQuestion, reason: str) -> CommandDenied:
    what = f"installing for {question.skill!r}" if question.installs else repr(_excerpt(question.command))
    why = f" ({reason})" if reason else ""
    advice = "do not run it again, in this or another form; tell the user, and ask how to go on"
    return CommandDenied(f"{what} was not approved{why}: {advice}", rule="approval", skill=question.skill)


def _build_restriction_error(question: ApprovalQuestion) -> CommandDenied:
    what = repr(_excerpt(question.command))
    tools = select_command_entries(question.allowed_tools)
    if not tools:
        whose = f"those of {question.skill!r} name none" if question.skill else "it belongs to no skill"
        said = (
            f"{what} is not allowed here: only commands in a skill's allowed-tools may run, and {whose}; ask the user"
        )
    else:
        more = f" (+{len(tools) - _MAX_TOOLS} more)" if len(tools) > _MAX_TOOLS else ""
        said = (
            f"{what} is not among what {question.skill!r} may run: {', '.join(tools[:_MAX_TOOLS])}{more}; run one "
            "such command, without shell syntax and env, from the skill's folder, or ask the user"
        )
    return CommandDenied(said, rule="restrict", skill=question.skill, allowed=list(tools[:_MAX_TOOLS]))


def _excerpt(command: str) -> str:
    return command if len(command) <= _MAX_COMMAND_CHARS else f"{command[:_MAX_COMMAND_CHARS]}…"
