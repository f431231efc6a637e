"""A run as a person sees it: the answer as it is made, and a line for everything that is done for it.

The answer is on stdout, everything else on stderr. In a pipe stdout has whole messages, and of these only the answer;
what the agent says before it calls tools is beside the answer there.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from openskills.agent.log import ARTIFACT, DELTA, END, ERROR, SUMMARY, TOOL_CALL
from openskills.cli.chat_lines import call_line, cut, result_line, whole
from openskills.cli.output import Part, plain, say_text, warn
from openskills.session.events import MESSAGE, TOOL_RESPONSE, Event, to_json

_MOST_NAMED = 60


class View(Protocol):
    """Shows what happens in a conversation."""

    def show(self, event: Event) -> None:
        """One event of a run."""
        ...

    def note(self, *parts: Part) -> None:
        """A line beside the answer."""
        ...

    def begin(self) -> None:
        """A run begins; that of before is over, however it ended."""
        ...


class JsonView:
    """Events as lines of JSON on stdout, for a program."""

    def show(self, event: Event) -> None:
        """One event, at once."""
        say_text(to_json(event))
        sys.stdout.flush()

    def note(self, *parts: Part) -> None:
        """A line on stderr."""
        warn(*parts)

    def begin(self) -> None:
        """Nothing is left of the run before."""


class TextView:
    """Text for a person. `agent` is the one who is talked to; what others do for it is shown with their name."""

    def __init__(self, agent: str, *, verbose: bool = False) -> None:
        self._agent = agent
        self._verbose = verbose
        self._streams = sys.stdout.isatty()
        self._streamed = False
        self._in_line = False
        self._calls: dict[str, str] = {}
        self._several = False
        self._shown: Mapping[str, Callable[[Event], None]] = {
            DELTA: self._delta,
            MESSAGE: self._message,
            TOOL_CALL: self._call,
            TOOL_RESPONSE: self._response,
            ARTIFACT: self._artifact,
            SUMMARY: self._summary,
            ERROR: self._error,
            END: self._end,
        }

    def show(self, event: Event) -> None:
        """One event; what changes only our own state is not shown."""
        shown = self._shown.get(event.kind)
        if shown is not None:
            shown(event)

    def note(self, *parts: Part) -> None:
        """A line on stderr, after the end of what is being written."""
        self.end_line()
        warn(*parts)

    def begin(self) -> None:
        """Forget what the run before has left open."""
        self.end_line()
        self._calls.clear()

    def end_line(self) -> None:
        """Let the next line begin at the left."""
        if self._in_line:
            say_text("")
            sys.stdout.flush()
        self._in_line = self._streamed = False

    def _delta(self, event: Event) -> None:
        if not self._streams or event.author != self._agent:
            return
        text = whole(str(event.payload.get("text", "")))
        text = text if self._streamed else text.lstrip("\n")
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
            self._streamed = True
            self._in_line = not text.endswith("\n")

    def _message(self, event: Event) -> None:
        message = cast("Mapping[str, Any]", event.payload.get("message") or {})
        if event.author != self._agent or "to" in event.payload:
            return
        streamed = self._streamed
        self.end_line()
        text = str(message.get("content") or "").strip("\n")
        if streamed or not text:
            return
        if self._streams:
            say_text(whole(text))
        elif message.get("tool_calls"):
            warn(whole(text) if sys.stderr.isatty() else text)
        else:
            say_text(text)
        sys.stdout.flush()

    def _call(self, event: Event) -> None:
        arguments = str(event.payload.get("arguments") or "")
        line = call_line(str(event.payload.get("tool")), arguments)
        self._calls[str(event.payload.get("call_id"))] = line
        self._several = len(self._calls) > 1
        self.note(("* ", "bold"), f"{self._who(event)}{line}")
        if self._verbose:
            self._indented(arguments)

    def _response(self, event: Event) -> None:
        payload = event.payload
        content, failed = str(payload.get("content") or ""), bool(payload.get("failed"))
        call = self._calls.pop(str(payload.get("call_id")), None)
        if payload.get("call_id") and call is None:
            # A call of an earlier run, which was stopped: its end is noted now, and is no news.
            return
        # With several calls on their way a result must say whose it is.
        whose = f"{cut(call, _MOST_NAMED)}: " if call and self._several else ""
        # What was called by nobody was loaded for the person.
        arrow: Part = ("  -> " if payload.get("call_id") else "* ", "red" if failed else "dim")
        self.note(arrow, f"{self._who(event)}{whose}{result_line(content, failed=failed)}")
        if self._verbose:
            self._indented(content)

    def _artifact(self, event: Event) -> None:
        self.note(("  kept ", "dim"), plain(str(event.payload.get("ref"))))

    def _summary(self, event: Event) -> None:
        self.note("the conversation so far was summarised")
        if self._verbose:
            self._indented(str(event.payload.get("text", "")))

    def _error(self, event: Event) -> None:
        self.note(("error", "bold red"), f": {self._who(event)}{plain(str(event.payload.get('message')))}")

    def _end(self, event: Event) -> None:
        if event.author != self._agent:
            return
        self.end_line()
        if not str(event.payload.get("text") or "").strip():
            self.note("(no answer)")
        if self._verbose:
            self.note(cost_line(event.payload))

    def _who(self, event: Event) -> str:
        return "" if event.author == self._agent else f"{plain(event.author)}: "

    def _indented(self, text: str) -> None:
        for line in whole(text).split("\n"):
            warn(f"     {line}")


def cost_line(payload: Mapping[str, Any]) -> str:
    """What a run cost, as its last event says."""
    usage = cast("Mapping[str, int]", payload.get("usage") or {})
    steps, calls = payload.get("steps", 0), payload.get("tool_calls", 0)
    return f"steps: {steps}; tool calls: {calls}; tokens: {usage_words(usage)}"


def usage_words(usage: Mapping[str, int]) -> str:
    """`1,200 in (1,000 of them cached), 40 out`."""
    cached = f" ({usage['cached']:,} of them cached)" if usage.get("cached") else ""
    return f"{usage.get('input', 0):,} in{cached}, {usage.get('output', 0):,} out"
