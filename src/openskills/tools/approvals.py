"""Approval of commands: what `allowed-tools` pre-approves, and asking the user about the rest.

A pre-approval skips the question, so in doubt there is none: `Bash(git:*)` covers one `git` command with any arguments,
and nothing in which a shell could do more than that.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, TypeAlias

from openskills.catalog.skill import COMMAND_TOOLS
from openskills.errors import CommandDenied, InvalidArgument, UnknownSkill, shorten
from openskills.executors.approval import ApprovalGrant, ApprovalRequest
from openskills.executors.direct_start import ShellWord, parse_simple_command
from openskills.executors.spec import RESERVED, SKILLS
from openskills.skillmd.manifest import read_tools


def matches_pattern(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern with `*` wildcards. Not a regular expression, so that it is always fast."""
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


_ENTRY = re.compile(r"([^\s()]+)(?:\((.*)\))?", re.DOTALL)
_QUOTES = frozenset("'\"\\")


@dataclass(frozen=True, slots=True)
class AllowedToolEntry:
    """One entry of `allowed-tools`; `only` is what its parentheses contain, None for everything."""

    tool: str
    only: str | None = None


@dataclass(frozen=True, slots=True)
class _CommandPattern:
    """The words of a command, with `rest` followed by anything; with `wild`, words may contain `*`."""

    words: tuple[str, ...]
    rest: bool
    wild: bool


def parse_allowed_tools(allowed_tools: Iterable[str]) -> tuple[AllowedToolEntry, ...]:
    """Parse the entries of `allowed-tools`; malformed ones (`Bash(git`) are left out."""
    found: list[AllowedToolEntry] = []
    for text in read_tools(list(allowed_tools)):
        match = _ENTRY.fullmatch(text)
        if match is not None:
            only = None if match[2] is None else match[2].strip()
            found.append(AllowedToolEntry(match[1], None if only == "*" else only))
    return tuple(found)


def select_command_entries(allowed_tools: Iterable[str]) -> tuple[str, ...]:
    """The entries that are about running commands, as written."""
    return tuple(
        text
        for text in read_tools(list(allowed_tools))
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

    `at_home`: the command runs in the skill's folder; elsewhere an entry that names a file
    (`Bash(python scripts/*.py:*)`) does not apply. `variables`: the call sets environment variables, and only entries
    without parentheses apply: a plain `Bash` pre-approves every command.
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
    """Parse `git`, `git:*`, `git commit *`, `python scripts/*.py:*`. Quoted words have no wildcards."""
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
    """Whether its meaning depends on the directory: `scripts/run.sh`, `python run.py`; not `git log`."""
    first, *others = shape.words
    return any("/" in word and not word.startswith("/") for word in (first, *others)) or any(
        "." in word and "/" not in word for word in others
    )


def _matches(wanted: str, text: str) -> bool:
    """Whether a word matches. `*` matches within one part of a path, and a lone `*` any word.

    It never matches `..`, hidden directories, or directories of a skill that commands can write.
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
    """The user's answer. To deny with a reason, return the reason as text."""

    ALLOW_ONCE = "allow_once"
    ALLOW_SESSION = "allow_session"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class ApprovalQuestion(ApprovalRequest):
    """A command that needs approval.

    `command` is as the model wrote it, `argv` what will be executed, `cwd` relative to the workspace, `env` the names
    of variables. `preapproved`: the skill's `allowed_tools` cover it. `interactive`: the model can write to it while it
    runs. `installs`: it installs the packages that the skill declares. `changed`: scripts of the skill that earlier
    commands changed or added, so that `allowed_tools` do not apply.
    """

    preapproved: bool = False
    allowed_tools: tuple[str, ...] = ()


ApprovalCallback: TypeAlias = Callable[[ApprovalQuestion], Awaitable[ApprovalDecision | bool | str]]
"""True means `allow_once`, False `deny`; any other text denies with that reason."""

AllowedToolsLookup: TypeAlias = Callable[[str], tuple[str, ...]]
"""The `allowed-tools` of a skill, by its name."""


@dataclass(slots=True, eq=False)
class _PendingQuestion:
    """An open question, and how many calls wait for its answer."""

    answer: "asyncio.Task[object]"
    waiting: int = 0


class Approvals:
    """The hook for `CommandRules.approve`; one per conversation, because it remembers answers.

    Every command is put to `ask`, except those that `allowed_tools_of` the skill pre-approve (unless `skip_preapproved`
    is false). `allow_session` is remembered for the same command text in the same version of the same skill, directory,
    variables and input; the content of files may change. Identical concurrent questions are asked once. If `ask`
    raises, returns something else, or does not answer within `timeout` seconds, the command does not run.

    `restrict` refuses, without asking, what the skill's `allowed-tools` do not pre-approve; without `allowed-tools` or
    without a skill, nothing runs. Without `ask`, everything else runs.
    """

    def __init__(
        self,
        ask: ApprovalCallback | None,
        *,
        allowed_tools_of: AllowedToolsLookup = lambda _: (),
        skip_preapproved: bool = True,
        restrict: bool = False,
        timeout: float | None = None,
    ) -> None:
        if timeout is not None and not timeout > 0:
            raise InvalidArgument("timeout", f"invalid timeout {timeout!r}; use a number of seconds above 0, or None")
        self._ask = ask
        self._allowed_tools_of = allowed_tools_of
        self._skip_preapproved = skip_preapproved
        self._restrict = restrict
        self._timeout = timeout
        self._remembered: set[Hashable] = set()
        self._asking: dict[Hashable, _PendingQuestion] = {}

    async def __call__(self, request: ApprovalRequest) -> ApprovalGrant:
        """Grant a command, or raise `CommandDenied` with what the model should do instead."""
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
        is_unchanged = not (request.installs or request.changed)
        covered = is_unchanged and is_preapproved(
            tools,
            "skill_exec" if request.interactive else "skill_run",
            request.command,
            at_home=request.cwd == f"{SKILLS}/{request.skill}",
            variables=bool(request.env),
        )
        asked: dict[str, Any] = {one.name: getattr(request, one.name) for one in fields(request)}
        # The identity depends on values of variables, which may be secrets.
        asked["identity"] = ""
        return ApprovalQuestion(**asked, preapproved=covered, allowed_tools=tools)

    def _find_allowed_tools(self, skill: str | None) -> tuple[str, ...]:
        if skill is None:
            return ()
        try:
            return tuple(self._allowed_tools_of(skill))
        except UnknownSkill:
            return ()  # staged before, and no longer in the catalog

    async def _ask_once(self, same: Hashable, question: ApprovalQuestion, ask: ApprovalCallback) -> object:
        asking = self._asking.get(same)
        if asking is None:
            asking = self._asking[same] = _PendingQuestion(asyncio.ensure_future(self._ask_with_timeout(question, ask)))
        asking.waiting += 1
        try:
            # Waiting neither cancels the question with one of its callers nor raises what the callback raised.
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
            return f"no answer within {self._timeout:g} seconds"


def _read_answer(question: ApprovalQuestion, answer: "asyncio.Task[object]") -> object:
    if answer.cancelled():
        raise _build_denial(question, "the request for approval was cancelled")
    error = answer.exception()
    if error is not None:
        _LOGGER.error("asking about %r failed", _excerpt(question.command), exc_info=error)
        # The model reads this; the error's own message is for the log.
        raise _build_denial(question, f"asking failed ({type(error).__name__})") from error
    return answer.result()


def _parse_decision(question: ApprovalQuestion, answer: object) -> ApprovalDecision:
    if answer is True:
        return ApprovalDecision.ALLOW_ONCE
    if isinstance(answer, str) and answer.strip() in (ApprovalDecision.ALLOW_ONCE, ApprovalDecision.ALLOW_SESSION):
        return ApprovalDecision(answer.strip())
    if answer is False or (isinstance(answer, str) and answer.strip() in (ApprovalDecision.DENY, "")):
        raise _build_denial(question, "")
    if isinstance(answer, str):
        raise _build_denial(question, answer.strip())
    _LOGGER.error("asking about %r returned an invalid answer: %r", _excerpt(question.command), answer)
    raise _build_denial(question, f"invalid answer of type {type(answer).__name__}")


def _build_denial(question: ApprovalQuestion, reason: str) -> CommandDenied:
    what = f"installing for {question.skill!r}" if question.installs else repr(_excerpt(question.command))
    why = f" ({reason})" if reason else ""
    advice = "do not run it again in any form; tell the user and ask how to go on"
    return CommandDenied(f"{what} was not approved{why}: {advice}", rule="approval", skill=question.skill)


def _build_restriction_error(question: ApprovalQuestion) -> CommandDenied:
    what = repr(_excerpt(question.command))
    tools = select_command_entries(question.allowed_tools)
    if not tools:
        why = f"{question.skill!r} names none" if question.skill else "it belongs to no skill"
        message = f"{what} is not allowed: only commands in a skill's allowed-tools may run, and {why}; ask the user"
    else:
        more = f" (+{len(tools) - _MAX_TOOLS} more)" if len(tools) > _MAX_TOOLS else ""
        message = (
            f"{what} is not allowed: {question.skill!r} may run {', '.join(tools[:_MAX_TOOLS])}{more}; run one such "
            "command, without shell syntax and env, from the skill's folder, or ask the user"
        )
    return CommandDenied(message, rule="restrict", skill=question.skill, allowed=list(tools[:_MAX_TOOLS]))


def _excerpt(command: str) -> str:
    return shorten(command, _MAX_COMMAND_CHARS)
