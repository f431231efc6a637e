"""What a model writes to have a command started, and to talk to it. Pure."""

from typing import Annotated

from pydantic import Field, PlainValidator
from pydantic.json_schema import SkipJsonSchema

from openskills.errors import InvalidArgument
from openskills.executors.spec import Terminal
from openskills.tools import run_forgiving
from openskills.tools.run_arguments import RunArguments
from openskills.tools.tool import Arguments

MOST_SECONDS = 60.0
"""The longest that one call waits for output."""

_MOST_MS = int(MOST_SECONDS * 1000)
_USUAL = Terminal()


class ExecArguments(RunArguments):
    """What `skill_exec` takes: everything that `skill_run` takes, and how to talk.

    `poll_lines` is accepted for those who know it; what comes back is bounded in bytes.
    """

    timeout: Annotated[float | None, PlainValidator(run_forgiving.seconds, json_schema_input_type=float)] = Field(
        default=None, description="Seconds until it is ended; as long as is allowed if left out"
    )
    tty: bool = Field(default=False, description="Give it a terminal; for full-screen programs and shells")
    rows: int = Field(default=_USUAL.rows, ge=1, le=100, description="Of the terminal")
    columns: int = Field(default=_USUAL.columns, ge=1, le=300, description="Of the terminal")
    yield_ms: int | None = Field(default=None, description="Milliseconds to wait for output; 1000 if left out")
    poll_lines: SkipJsonSchema[int | None] = None

    @property
    def terminal(self) -> Terminal | None:
        """The terminal that is wanted, if any."""
        return Terminal(self.rows, self.columns) if self.tty else None


class SessionArguments(Arguments):
    """What all calls for a running command have. `null` is the same as leaving a field out."""

    session_id: str = Field(description="From skill_exec")


class WriteArguments(SessionArguments):
    """What `skill_write_stdin` takes. Nothing to write is a poll."""

    chars: str = Field(default="", description="Text to write; control keys as characters, such as \\u0003 for Ctrl-C")
    submit: bool = Field(default=False, description="Press Enter after it")
    close_stdin: bool = Field(default=False, description="Then let the command see the end of its input")
    yield_ms: int | None = Field(default=None, description="Milliseconds to wait for output; 400 if left out")
    poll_lines: SkipJsonSchema[int | None] = None

    def encoded(self) -> bytes:
        """The text as bytes; raises `InvalidArgument` for what is no text."""
        try:
            return self.chars.encode()
        except UnicodeEncodeError:
            raise InvalidArgument("chars", "contains half a character (a lone surrogate)") from None


class PollArguments(SessionArguments):
    """What `skill_poll_session` takes."""

    yield_ms: int | None = Field(default=None, description="Milliseconds to wait for output; 400 if left out")
    offset: int | None = Field(default=None, ge=0, description="Read again from this byte on; not needed to read on")
    poll_lines: SkipJsonSchema[int | None] = None


class KillArguments(SessionArguments):
    """What `skill_kill_session` takes."""


def patience(yield_ms: int | None, usual: float) -> float:
    """How many seconds to wait: what is asked for, within bounds; `usual` when nothing or less than nothing is."""
    return usual if yield_ms is None or yield_ms < 0 else min(yield_ms, _MOST_MS) / 1000
