"""Input of the chat: line editing, slash commands, mentions of skills and files, attachments, and approvals.

/name rest       a slash command, or a skill of that name; `//` at the beginning is a plain slash
$name            a skill, anywhere in the text
@path            a file to attach, anywhere in the text; with blanks: @"my file.csv"
"""

import asyncio
import contextlib
import glob
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from openskills.agent.runner import Attachment
from openskills.cli.chat.view import ChatView
from openskills.cli.output import escape_line, escape_text, pluralize, read_reply
from openskills.errors import ExecutorUnavailable, InvalidArgument, LimitExceeded
from openskills.executors.files.mime import SNIFF_BYTES, detect_mime_type
from openskills.executors.files.tree import choose_upload_name
from openskills.executors.open import ISOLATING_EXECUTORS
from openskills.executors.protocol import Executor
from openskills.settings import Settings
from openskills.tools.approvals import ApprovalCallback, ApprovalDecision, ApprovalQuestion
from openskills.tools.uploads import UploadLimits

Complete: TypeAlias = Callable[[str], Sequence[str]]
"""Completions for the beginning of a word."""


class LineEditor:
    """Reads lines from stdin. If stdout is a terminal, too, uses readline for editing, history and completion."""

    def __init__(self, complete: Complete) -> None:
        self._complete = complete
        self._found: Sequence[str] = ()
        reconfigure = getattr(sys.stdin, "reconfigure", None)
        if reconfigure is not None:
            # Invalid bytes must not end the conversation.
            reconfigure(errors="replace")
        self._edits = sys.stdin.isatty() and sys.stdout.isatty() and self._set_up()

    def read_line(self, prompt: str) -> str | None:
        """The next line, None at the end of input. A backslash at the end continues a line. Ctrl-C raises."""
        lines: list[str] = []
        while True:
            typed = self._read_input(prompt if not lines else "." * (len(prompt) - 1) + " ")
            if typed is None:
                return "\n".join(lines) or None
            if not typed.endswith("\\"):
                return "\n".join([*lines, typed])
            lines.append(typed[:-1])

    def _read_input(self, prompt: str) -> str | None:
        if not self._edits:
            sys.stderr.write(prompt)
            sys.stderr.flush()
        try:
            return input(prompt if self._edits else "")
        except EOFError:
            sys.stderr.write("\n")
            return None

    def _set_up(self) -> bool:
        try:
            import readline
        except ImportError:
            # Python can be built without readline.
            return False
        readline.set_completer_delims(" \t\n")
        readline.set_completer(self._complete_next)
        libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
        return True

    def _complete_next(self, text: str, state: int) -> str | None:
        if state == 0:
            complete = complete_path if text.startswith("@") else self._complete
            self._found = complete(text) if text[:1] in "@/$" else ()
        return self._found[state] if state < len(self._found) else None


def complete_path(text: str) -> Sequence[str]:
    """Completions for a path after `@`; directories end with a slash."""
    begun = os.path.expanduser(text[1:].lstrip('"'))
    found: list[str] = []
    with contextlib.suppress(OSError):
        found = sorted(glob.glob(f"{glob.escape(begun)}*"))
    return [f"@{path}/" if os.path.isdir(path) else f"@{path}" for path in found]


_ORDER = re.compile(r"/(?P<name>[\w-]*)(?:\s+(?P<rest>.*))?", re.DOTALL)
_SKILL = re.compile(r"(?<![A-Za-z0-9_$@/\\.-])\$(?P<name>[^\W_]+(?:-[^\W_]+)*)(?![\w-])")
_FILE = re.compile(r'(?<![A-Za-z0-9_$@/\\.-])@(?:"(?P<quoted>[^"\n]+)"|(?P<bare>[^\s"]\S*))')
_ASCII = re.compile(r"[!-~]+")
_PUNCTUATION = ".,;:!?)]}'\"，。；：！？、）】」』"


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """`/name rest`."""

    name: str
    rest: str = ""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """Text for the agent, the paths of attached files, and words that look like files but do not exist."""

    text: str
    files: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def parse_slash_command(line: str) -> SlashCommand | None:
    """Parse `/name rest`; None for ordinary text, including paths such as `/etc/hosts`."""
    found = _ORDER.fullmatch(line.strip())
    return SlashCommand(found["name"], (found["rest"] or "").strip()) if found else None


def parse_words(line: str) -> str:
    """The text of a line that is not a slash command."""
    text = line.strip()
    return text[1:] if text.startswith("//") else text


Find: TypeAlias = Callable[[str], str | None]
"""Resolves a word to a name; None when it is unknown."""


def find_skill_mentions(text: str, find: Find) -> tuple[str, ...]:
    """The skills mentioned with `$`, each once. Unknown names such as `$5` and `$HOME` are ordinary text."""
    found = (_match_name(match["name"], find) for match in _SKILL.finditer(text))
    return tuple(dict.fromkeys(name for _, name in filter(None, found)))


def find_unknown_skill(text: str, find: Find) -> str | None:
    """The name after `$` at the beginning of a text, if it is unknown."""
    match = _SKILL.match(text)
    return match["name"] if match and _match_name(match["name"], find) is None else None


def extract_files(text: str, name_of: Find) -> ChatMessage:
    """Replace each `@path` in a text with the name that `name_of` returns, and collect the paths.

    Punctuation after a path belongs to it only if such a file exists. Paths that do not exist stay in the text and are
    returned as `missing`.
    """
    files: list[str] = []
    missing: list[str] = []

    def replace(match: re.Match[str]) -> str:
        written = match["quoted"] or match["bare"]
        found = _match_name(written, name_of) if match["bare"] else _match_exactly(written, name_of)
        if found is not None:
            files.append(found[0])
            return found[1] + written[len(found[0]) :]
        if match["quoted"] or "/" in written or "." in written.strip(_PUNCTUATION):
            missing.append(written)
        return match[0]

    return ChatMessage(_FILE.sub(replace, text), tuple(dict.fromkeys(files)), tuple(dict.fromkeys(missing)))


def _match_name(written: str, find: Find) -> tuple[str, str] | None:
    """The part of a word that is a name, and what it resolves to; punctuation or Chinese text may follow it."""
    ascii_part = _ASCII.match(written)
    parts = [written, *([ascii_part[0]] if ascii_part else [])]
    found = (_match_exactly(part, find) for whole in parts for part in (whole, whole.rstrip(_PUNCTUATION)))
    return next(filter(None, found), None)


def _match_exactly(written: str, find: Find) -> tuple[str, str] | None:
    found = find(written) if written else None
    return None if found is None else (written, found)


STDIN = "-"
_MAX_ATTACHMENT_BYTES = UploadLimits().file_bytes


def is_file(path: str) -> bool:
    """Whether there is a regular file at a path, which may begin with `~`."""
    try:
        return stat.S_ISREG(_expand_path(path).stat().st_mode)
    except (OSError, ValueError):
        return False


def attachment_name(path: str) -> str | None:
    """The name of the file at a path for the agent; None when it does not exist."""
    return choose_upload_name(os.path.basename(path)) if is_file(path) else None


def resolve_path(path: str) -> str | None:
    """The path itself; None when there is not a file."""
    return path if is_file(path) else None


def has_unique_names(names: Iterable[str | None]) -> bool:
    """Whether the names differ, ignoring case."""
    found = [choose_upload_name(name or "").casefold() for name in names]
    return len(set(found)) == len(found)


def read_attachment(path: str, *, field: str = "--attach") -> Attachment:
    """Read the file at a path, or stdin for `-`. Raises `InvalidArgument`, or `LimitExceeded` for a large file."""
    if path == STDIN:
        return _create_attachment("stdin", sys.stdin.buffer.read(_MAX_ATTACHMENT_BYTES + 1), field)
    try:
        # Opening a pipe would otherwise block until there is a writer.
        with open(_expand_path(path), "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidArgument(field, f"not a regular file: {escape_line(path)!r}")
            return _create_attachment(os.path.basename(path), file.read(_MAX_ATTACHMENT_BYTES + 1), field)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidArgument(field, f"cannot read {escape_line(path)!r}: {reason}") from None


def describe_attachment(file: Attachment) -> str:
    """`sales.csv (48 bytes)`."""
    return f"{escape_line(file.name)} ({pluralize(len(file.data or b''), 'byte')})"


def _create_attachment(name: str, data: bytes, field: str) -> Attachment:
    if len(data) > _MAX_ATTACHMENT_BYTES:
        raise LimitExceeded(f"{field}: {escape_line(name)} is larger than the limit of {_MAX_ATTACHMENT_BYTES:,} bytes")
    return Attachment(name, data, mime_type=detect_mime_type(name, data[:SNIFF_BYTES]))


def _expand_path(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        # `~name` for an unknown user is an ordinary name.
        return Path(path)


QUESTION = "Allow it? y: once, s: always in this session, anything else: no > "
NO_TERMINAL = (
    "no terminal to ask for approval; the user can allow commands with --yes, or use an executor that isolates"
)

_ANSWERS: dict[str, ApprovalDecision] = {
    **dict.fromkeys(("y", "yes"), ApprovalDecision.ALLOW_ONCE),
    **dict.fromkeys(("s", "session", "always"), ApprovalDecision.ALLOW_SESSION),
    **dict.fromkeys(("", "n", "no"), ApprovalDecision.DENY),
}
_MAX_LINES = 40


async def is_isolated(name: str, place: Executor, settings: Settings) -> bool:
    """Whether an executor isolates every command; runs its self-test only if the name does not tell."""
    if name in ISOLATING_EXECUTORS or (name == "auto" and not settings.allow_local):
        return True
    try:
        return str(await place.check()) != "none"
    except ExecutorUnavailable:
        # The error is reported when a command is run.
        return False


def create_approver(view: ChatView, *, interactive: bool) -> ApprovalCallback:
    """A callback that asks for approval on the terminal, or denies with a reason if not `interactive`."""
    turn = asyncio.Lock()

    async def ask(question: ApprovalQuestion) -> ApprovalDecision | str:
        async with turn:
            _show_question(view, question)
            if not interactive:
                view.note(("denied", "bold red"), f": {NO_TERMINAL}")
                return NO_TERMINAL
            return parse_decision(await read_reply(QUESTION))

    return ask


def parse_decision(line: str | None) -> ApprovalDecision | str:
    """Parse an answer. The end of input denies; other text denies with that text as the reason for the model."""
    text = (line or "").strip()
    return _ANSWERS.get(text.lower(), text)


def _show_question(view: ChatView, question: ApprovalQuestion) -> None:
    who = question.skill or question.agent
    what = "wants to install its declared packages" if question.installs else "wants to run"
    view.note((escape_line(who), "bold"), f" {what}, in {escape_line(question.cwd)}:")
    for line in escape_text(question.command).split("\n"):
        view.note(f"    {line}")
    for title, names in (("with variables", question.env), ("with network access to", question.network)):
        if names:
            view.note(f"  {title} {escape_line(', '.join(names))}")
    if question.interactive:
        view.note("  interactively: the agent sends input while it runs")
    _show_text(view, "input", question.stdin.decode("utf-8", "replace"))
    _show_text(view, "text for the editor", question.editor_text or "")


def _show_text(view: ChatView, title: str, text: str) -> None:
    if not text:
        return
    lines = escape_text(text).split("\n")
    view.note(f"  {title}:")
    for line in lines[:_MAX_LINES]:
        view.note(f"    {line}")
    if len(lines) > _MAX_LINES:
        view.note(f"    … and {pluralize(len(lines) - _MAX_LINES, 'more line')}")
