"""Keyboard, files, approval questions.

Lines that a person types, edited with readline where there is one.

What a person types into a chat: an order for us, or words for the agent, with skills and files named in them. Pure.

/name rest       an order, or a skill of that name; `//` at the beginning is a plain slash
$name            a skill, anywhere in the words
@path            a file to send, anywhere in the words; with blanks in it: @"my file.csv"

Files of this machine that a person sends with a message.

Asking a person at the terminal before a command runs.
"""

import asyncio
import contextlib
import glob
import os
import re
import stat
import sys
import termios
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from openskills.agent.runner import Attachment
from openskills.cli.chat.view import ChatView, escape_text
from openskills.cli.output import escape_line, pluralize
from openskills.errors import ExecutorUnavailable, InvalidArgument, LimitExceeded
from openskills.executors.files.mime import SNIFF_BYTES, detect_mime_type
from openskills.executors.files.tree import choose_upload_name
from openskills.executors.protocol import Executor
from openskills.settings import Settings
from openskills.tools.approvals import ApprovalCallback, ApprovalDecision, ApprovalQuestion
from openskills.tools.uploads import UploadLimits

Complete: TypeAlias = Callable[[str], Sequence[str]]
"""How a word that was begun may go on."""


class LineEditor:
    """Reads lines from the terminal. With a terminal for stdout, too, lines can be edited, recalled and completed."""

    def __init__(self, complete: Complete) -> None:
        self._complete = complete
        self._found: Sequence[str] = ()
        self._edits = sys.stdin.isatty() and sys.stdout.isatty()
        reconfigure = getattr(sys.stdin, "reconfigure", None)
        if reconfigure is not None:
            # Bytes that are no text must not end a conversation.
            reconfigure(errors="replace")
        if self._edits:
            self._edits = self._set_up()

    def read_line(self, prompt: str) -> str | None:
        """What was typed, None at the end of input. A line that ends with a backslash goes on. Raises Ctrl-C."""
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
            # Not every Python was built with it; then lines are read as the terminal gives them.
            return False
        readline.set_completer_delims(" \t\n")
        readline.set_completer(self._complete_next)
        libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
        return True

    def _complete_next(self, text: str, state: int) -> str | None:
        if state == 0:
            self._found = (
                complete_path(text) if text.startswith("@") else self._complete(text) if text[:1] in "/$" else ()
            )
        return self._found[state] if state < len(self._found) else None


def complete_path(text: str) -> Sequence[str]:
    """Paths that begin like the one behind the `@`; directories end with a slash, so that one can go on."""
    begun = os.path.expanduser(text[1:].lstrip('"'))
    found: list[str] = []
    with contextlib.suppress(OSError):
        found = sorted(glob.glob(f"{glob.escape(begun)}*"))
    return [f"@{path}/" if os.path.isdir(path) else f"@{path}" for path in found]


_ORDER = re.compile(r"/(?P<name>[\w-]*)(?:\s+(?P<rest>.*))?", re.DOTALL)
_SKILL = re.compile(r"(?<![A-Za-z0-9_$@/\\.-])\$(?P<name>[^\W_]+(?:-[^\W_]+)*)(?![\w-])")
_FILE = re.compile(r'(?<![A-Za-z0-9_$@/\\.-])@(?:"(?P<quoted>[^"\n]+)"|(?P<bare>[^\s"]\S*))')
_ASCII = re.compile(r"[!-~]+")
_AFTER_A_WORD = ".,;:!?)]}'\"，。；：！？、）】」』"


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """`/name rest`."""

    name: str
    rest: str = ""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """Words for the agent, with the paths of the files that go with them, and what looks like a file and is none."""

    text: str
    files: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def parse_slash_command(line: str) -> SlashCommand | None:
    """The order that a line is; None when it is words. A path such as `/etc/hosts` is words."""
    found = _ORDER.fullmatch(line.strip())
    return SlashCommand(found["name"], (found["rest"] or "").strip()) if found else None


def parse_words(line: str) -> str:
    """The words of a line that is no order."""
    text = line.strip()
    return text[1:] if text.startswith("//") else text


Find: TypeAlias = Callable[[str], str | None]
"""From what is written to what is meant by it; None when it means nothing."""


def find_skill_mentions(text: str, find: Find) -> tuple[str, ...]:
    """The skills that are named with a `$`, each once. What `find` does not know is text: `$5`, `$HOME`."""
    found = (_match_name(match["name"], find) for match in _SKILL.finditer(text))
    return tuple(dict.fromkeys(name for _, name in filter(None, found)))


def find_unknown_skill(text: str, find: Find) -> str | None:
    """The name after a `$` that a text begins with, when `find` does not know it."""
    match = _SKILL.match(text)
    return match["name"] if match and _match_name(match["name"], find) is None else None


def extract_files(text: str, name_of: Find) -> ChatMessage:
    """Take the files out of a text: in the place of `@path` stands the name that `attachment_name` gives for the path.

    A full stop or another sign behind a path belongs to it only when there is such a file. What looks like a path and
    leads nowhere stays, and is among the missing.
    """
    files: list[str] = []
    missing: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        written = match["quoted"] or match["bare"]
        found = _match_name(written, name_of) if match["bare"] else _match_exactly(written, name_of)
        if found is not None:
            files.append(found[0])
            return found[1] + written[len(found[0]) :]
        if match["quoted"] or "/" in written or "." in written.strip(_AFTER_A_WORD):
            missing.append(written)
        return match[0]

    said = _FILE.sub(replaced, text)
    return ChatMessage(said, tuple(dict.fromkeys(files)), tuple(dict.fromkeys(missing)))


def _match_name(written: str, find: Find) -> tuple[str, str] | None:
    """How much of a word is a name, and whose: all of it, or without the signs or the Chinese text behind it."""
    ascii_part = _ASCII.match(written)
    parts = [written, *([ascii_part[0]] if ascii_part else [])]
    found = (_match_exactly(part, find) for whole in parts for part in (whole, whole.rstrip(_AFTER_A_WORD)))
    return next(filter(None, found), None)


def _match_exactly(written: str, find: Find) -> tuple[str, str] | None:
    found = find(written) if written else None
    return None if found is None else (written, found)


STDIN = "-"
_MAX_ATTACHMENT_BYTES = UploadLimits().file_bytes


def is_file(path: str) -> bool:
    """Whether there is a regular file at a path as people write it: `~` is the home directory."""
    try:
        return stat.S_ISREG(_expand_path(path).stat().st_mode)
    except (OSError, ValueError):
        return False


def attachment_name(path: str) -> str | None:
    """What the agent will call the file at a path; None when there is none."""
    return choose_upload_name(os.path.basename(path)) if is_file(path) else None


def resolve_path(path: str) -> str | None:
    """A path as it was written; None when there is no file."""
    return path if is_file(path) else None


def has_unique_names(names: Iterable[str | None]) -> bool:
    """Whether no two names are the same to somebody who reads them."""
    found = [choose_upload_name(name or "").casefold() for name in names]
    return len(set(found)) == len(found)


def read_attachment(path: str, *, field: str = "--attach") -> Attachment:
    """The file at a path; `-` is what is piped in. Raises `InvalidArgument`, or `LimitExceeded` for one too large."""
    if path == STDIN:
        return _create_attachment("stdin", sys.stdin.buffer.read(_MAX_ATTACHMENT_BYTES + 1), field)
    try:
        with open(_expand_path(path), "rb", opener=_open_nonblocking) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidArgument(field, f"{escape_line(path)!r} is no file; send files, each by its path")
            return _create_attachment(os.path.basename(path), file.read(_MAX_ATTACHMENT_BYTES + 1), field)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidArgument(field, f"{escape_line(path)!r} cannot be read: {reason}") from None


def describe_attachment(file: Attachment) -> str:
    """`sales.csv (48 bytes)`."""
    return f"{escape_line(file.name)} ({pluralize(len(file.data or b''), 'byte')})"


def _create_attachment(name: str, data: bytes, field: str) -> Attachment:
    if len(data) > _MAX_ATTACHMENT_BYTES:
        raise LimitExceeded(
            f"{field}: {escape_line(name)} is larger than {_MAX_ATTACHMENT_BYTES:,} bytes, the limit for one file"
        )
    return Attachment(name, data, mime_type=detect_mime_type(name, data[:SNIFF_BYTES]))


def _open_nonblocking(path: str, flags: int) -> int:
    # Whoever opens a pipe otherwise waits until somebody writes into it.
    return os.open(path, flags | os.O_NONBLOCK)


def _expand_path(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:
        # `~nobody`: there is no such user, so it is a name like any other.
        return Path(path)


QUESTION = "Allow it? y: once, s: always in this session, anything else: no > "
NOBODY = "nobody can be asked here; the user can allow commands with --yes, or use an executor that isolates them"

_ISOLATED = frozenset({"sandbox", "container", "landlock"})
_YES = {"y": ApprovalDecision.ALLOW_ONCE, "yes": ApprovalDecision.ALLOW_ONCE}
_SESSION = {
    "s": ApprovalDecision.ALLOW_SESSION,
    "session": ApprovalDecision.ALLOW_SESSION,
    "always": ApprovalDecision.ALLOW_SESSION,
}
_ANSWERS = {**_YES, **_SESSION, "": ApprovalDecision.DENY, "n": ApprovalDecision.DENY, "no": ApprovalDecision.DENY}
_MAX_LINES = 40


async def is_isolated(name: str, place: Executor, settings: Settings) -> bool:
    """Whether every command of an executor runs isolated. Tried only where the name does not say it."""
    if name in _ISOLATED or (name == "auto" and not settings.allow_local):
        return True
    try:
        return str(await place.check()) != "none"
    except ExecutorUnavailable:
        # Nothing will run; why, is said when something is to.
        return False


def create_approver(view: ChatView, *, interactive: bool) -> ApprovalCallback:
    """How commands are asked about: at the terminal, or, where there is none, with a no that says why."""
    turn = asyncio.Lock()

    async def ask(question: ApprovalQuestion) -> ApprovalDecision | str:
        async with turn:
            _show_question(view, question)
            if not interactive:
                view.note(("denied", "bold red"), f": {NOBODY}")
                return NOBODY
            return parse_decision(await _read_reply(QUESTION))

    return ask


def parse_decision(line: str | None) -> ApprovalDecision | str:
    """What an answer means. An end of input is a no; other words are a no with this reason for the model."""
    text = (line or "").strip()
    return _ANSWERS.get(text.lower(), text)


def _show_question(view: ChatView, question: ApprovalQuestion) -> None:
    """Everything that would be run: whoever agrees must know to what."""
    who = question.skill or question.agent
    what = "wants to install what it declares" if question.installs else "wants to run"
    view.note((escape_line(who), "bold"), f" {what}, in {escape_line(question.cwd)}:")
    for line in escape_text(question.command).split("\n"):
        view.note(f"    {line}")
    for title, names in (("with the variables", question.env), ("reaching", question.network)):
        if names:
            view.note(f"  {title} {escape_line(', '.join(names))}")
    if question.interactive:
        view.note("  it will be talked to while it runs")
    _show_text(view, "input", question.stdin.decode("utf-8", "replace"))
    _show_text(view, "text for its editor", question.editor_text or "")


def _show_text(view: ChatView, title: str, text: str) -> None:
    if not text:
        return
    lines = escape_text(text).split("\n")
    view.note(f"  {title}:")
    for line in lines[:_MAX_LINES]:
        view.note(f"    {line}")
    if len(lines) > _MAX_LINES:
        view.note(f"    … and {pluralize(len(lines) - _MAX_LINES, 'more line')}")


async def _read_reply(prompt: str) -> str | None:
    """The next line that is typed; what was typed before the question is no answer to it. None at the end of input."""
    descriptor = sys.stdin.fileno()
    with contextlib.suppress(termios.error):
        termios.tcflush(descriptor, termios.TCIFLUSH)
    sys.stderr.write(prompt)
    sys.stderr.flush()
    loop = asyncio.get_running_loop()
    line: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        loop.remove_reader(descriptor)
        data = b""
        # A terminal that has gone says so instead of ending.
        with contextlib.suppress(OSError):
            data = os.read(descriptor, 4096)
        if not line.done():
            line.set_result(data)

    # Never in a thread: one that waits for a line after the run was stopped would take the next message.
    loop.add_reader(descriptor, read)
    try:
        data = await line
    finally:
        loop.remove_reader(descriptor)
    return data.decode("utf-8", "replace") if data else None
