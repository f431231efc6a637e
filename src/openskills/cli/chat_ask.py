"""Asking a person at the terminal before a command runs."""

import asyncio
import contextlib
import os
import sys
import termios

from openskills.cli.chat_lines import whole
from openskills.cli.chat_view import View
from openskills.cli.output import counted, plain
from openskills.errors import ExecutorUnavailable
from openskills.executors.protocol import Executor
from openskills.settings import Settings
from openskills.tools.approvals import ApprovalQuestion, Ask, Decision

QUESTION = "Allow it? y: once, s: always in this session, anything else: no > "
NOBODY = "nobody can be asked here; the user can allow commands with --yes, or use an executor that isolates them"

_ISOLATED = frozenset({"sandbox", "container", "landlock"})
_YES = {"y": Decision.ALLOW_ONCE, "yes": Decision.ALLOW_ONCE}
_SESSION = {"s": Decision.ALLOW_SESSION, "session": Decision.ALLOW_SESSION, "always": Decision.ALLOW_SESSION}
_ANSWERS = {**_YES, **_SESSION, "": Decision.DENY, "n": Decision.DENY, "no": Decision.DENY}
_MOST_LINES = 40


async def is_isolated(name: str, place: Executor, settings: Settings) -> bool:
    """Whether every command of an executor runs isolated. Tried only where the name does not say it."""
    if name in _ISOLATED or (name == "auto" and not settings.allow_local):
        return True
    try:
        return str(await place.check()) != "none"
    except ExecutorUnavailable:
        # Nothing will run; why, is said when something is to.
        return False


def asking(view: View, *, interactive: bool) -> Ask:
    """How commands are asked about: at the terminal, or, where there is none, with a no that says why."""
    turn = asyncio.Lock()

    async def ask(question: ApprovalQuestion) -> Decision | str:
        async with turn:
            _show(view, question)
            if not interactive:
                view.note(("denied", "bold red"), f": {NOBODY}")
                return NOBODY
            return answered(await _typed(QUESTION))

    return ask


def answered(line: str | None) -> Decision | str:
    """What an answer means. An end of input is a no; other words are a no with this reason for the model."""
    text = (line or "").strip()
    return _ANSWERS.get(text.lower(), text)


def _show(view: View, question: ApprovalQuestion) -> None:
    """Everything that would be run: whoever agrees must know to what."""
    who = question.skill or question.agent
    what = "wants to install what it declares" if question.installs else "wants to run"
    view.note((plain(who), "bold"), f" {what}, in {plain(question.cwd)}:")
    for line in whole(question.command).split("\n"):
        view.note(f"    {line}")
    for title, names in (("with the variables", question.env), ("reaching", question.network)):
        if names:
            view.note(f"  {title} {plain(', '.join(names))}")
    if question.interactive:
        view.note("  it will be talked to while it runs")
    _show_text(view, "input", question.stdin.decode("utf-8", "replace"))
    _show_text(view, "text for its editor", question.editor_text or "")


def _show_text(view: View, title: str, text: str) -> None:
    if not text:
        return
    lines = whole(text).split("\n")
    view.note(f"  {title}:")
    for line in lines[:_MOST_LINES]:
        view.note(f"    {line}")
    if len(lines) > _MOST_LINES:
        view.note(f"    … and {counted(len(lines) - _MOST_LINES, 'more line')}")


async def _typed(prompt: str) -> str | None:
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
