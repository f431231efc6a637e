"""Conversations in tests: one in this process with a scripted model, and the real command on a terminal."""

import sys
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pyte
import pyte.screens

from openskills.agent.runner import Runner
from openskills.cli.chat.conversation import ChatSession, TokenTracker
from openskills.cli.chat.view import TextChatView
from openskills.runtime.options import SessionOptions
from openskills.testing.models import ScriptedModel, ScriptLine
from tests.agent.agents import agent_in
from tests.cli.command import Command
from tests.cli.ran import Ran
from tests.cli.terminal import Terminal

PROMPT = "\n> "
COLUMNS = 200

_TAKES_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


@asynccontextmanager
async def talking(
    directory: Path, answers: Iterable[ScriptLine], *, executor: str | None = None
) -> AsyncGenerator[tuple[ChatSession, ScriptedModel]]:
    """A conversation about the skills in `directory/skills`, and its model."""
    tokens = TokenTracker()
    agent, model = agent_in(
        directory, list(answers), executor=executor, options=SessionOptions(before_model=tokens.record_request)
    )
    async with agent.runtime.session("s", agent=agent.name, user="u", app="app") as session:
        yield ChatSession(Runner("app", agent), agent.runtime, session, TextChatView(agent.name), tokens), model
    await agent.runtime.close()


def _text(line: Mapping[int, pyte.screens.Char]) -> str:
    """A line of the emulator without blanks at its end, except behind the prompt."""
    text = "".join(line[column].data for column in range(COLUMNS)).rstrip()
    return "> " if text == ">" else text


class Chat(Terminal):
    """`openskills chat` on a terminal that is its own, so that Ctrl-C is what it is for a person.

    With `stdout` a pipe, only input and stderr are the terminal.
    """

    def __init__(
        self,
        command: Command,
        *arguments: str | Path,
        stdout: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            [*(() if command.warm else (sys.executable, "-c", _TAKES_TERMINAL)), *command.line(["chat", *arguments])],
            cwd=command.cwd,
            variables=command.variables(environment or {}),
            columns=COLUMNS,
            stdout=stdout,
        )
        self._read_to = 0
        self._emulator = pyte.HistoryScreen(COLUMNS, 40, history=10_000, ratio=1e-9)
        self._stream = pyte.ByteStream(self._emulator)
        self._fed = 0

    @property
    def screen(self) -> str:
        """The text on the screen up to the cursor, and what has scrolled away; without what was erased again."""
        self._stream.feed(self._seen[self._fed :])
        self._fed = len(self._seen)
        cursor = self._emulator.cursor
        shown = [self._emulator.buffer[row] for row in range(cursor.y)]
        lines = [_text(line) for line in (*self._emulator.history.top, *shown)]
        return "\n".join([*lines, _text(self._emulator.buffer[cursor.y])[: cursor.x].ljust(cursor.x)])

    def expect(self, text: str = PROMPT) -> str:
        """Read on until a text appears, behind all that was expected before; gives what is written up to it."""
        self.wait_for(text, self._read_to)
        before, self._read_to = self._read_to, self.screen.index(text, self._read_to) + len(text)
        return self.screen[before : self._read_to]

    def interrupt_prompt(self) -> None:
        """Press Ctrl-C at the prompt until there is a new one.

        Python misses it when it comes right behind a key, before it waits for the next one; a person presses again. On
        a busy machine the answer to the first may only be late: then each is answered, and all answers are waited for.
        """
        presses = 0
        while PROMPT not in self.screen[self._read_to :]:
            self.type("\x03")
            presses += 1
            if self.writes_within(5.0):
                assert self.more(), f"the program ended after {presses} times Ctrl-C: {self.screen!r}"
        while presses > 1 and self.writes_within(2.0):
            assert self.more(), f"the program ended after {presses} times Ctrl-C: {self.screen!r}"
        self._read_to = self.screen.rindex(PROMPT) + len(PROMPT)

    def say(self, text: str) -> str:
        """Type a line; gives what is written until the next prompt."""
        self.type(f"{text}\n")
        return self.expect()

    def end(self, keys: str = "\x04") -> Ran:
        """Type Ctrl-D, or something else that ends it, and read to the end."""
        self.type(keys)
        return self.finish()
