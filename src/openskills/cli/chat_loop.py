"""The two ways to chat: line by line at a terminal, or one message and its answer."""

import signal
import sys
from types import FrameType

import typer

from openskills.cli.chat_keyboard import Keyboard
from openskills.cli.chat_orders import Ended, completions, obey
from openskills.cli.chat_talk import Talk
from openskills.cli.chat_words import order_in, words_in
from openskills.cli.output import warn
from openskills.errors import SkillError
from openskills.paths import printable
from openskills.sync import run

PROMPT = "> "


def converse(talk: Talk) -> None:
    """Read lines until the person ends it. Ctrl-C stops a run, or clears what was typed; nothing else ends the chat."""
    keyboard = Keyboard(lambda begun: completions(talk, begun))
    interrupted = False
    while True:
        try:
            # In here, because the key may be pressed again meanwhile.
            if interrupted:
                warn()
            interrupted = False
            line = keyboard.line(PROMPT)
        except KeyboardInterrupt:
            interrupted = True
            continue
        if line is None:
            return
        try:
            _tried(talk, line)
        except Ended:
            return


def once(talk: Talk, message: str) -> None:
    """Answer one message, or do what it orders. Exits with 1 when there is no answer."""
    try:
        if not run(_done(talk, message)):
            raise typer.Exit(1)
    except Ended:
        return


def ending_on_signals() -> None:
    """Asked to end from outside, or with its terminal gone, it ends what it has started, and then itself."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)


def _tried(talk: Talk, line: str) -> None:
    """Do what a line says; what goes wrong is told, and is over."""
    if not line.strip():
        return
    try:
        run(_done(talk, line))
    except KeyboardInterrupt:
        talk.view.note()
        talk.view.note("stopped; the conversation goes on")
    except SkillError as error:
        talk.view.note(("error", "bold red"), f": {printable(error.message)}")
    sys.stdout.flush()


async def _done(talk: Talk, line: str) -> bool:
    order = order_in(line)
    return await (talk.say(words_in(line)) if order is None else obey(talk, order))


def _leave(number: int, frame: FrameType | None) -> None:
    del frame
    raise typer.Exit(128 + number)
