"""Output of the chat: the answer as it is generated, and a line for each tool call and result.

The answer goes to stdout, everything else to stderr. On a terminal the answer is rendered as Markdown, block by block,
with a preview of the current block, or a spinner, below it. In a pipe stdout gets only the final answer as it is, not
the messages before tool calls.
"""

import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from openskills.agent.agent import ARTIFACT, DELTA, END, ERROR, SUMMARY, TOOL_CALL
from openskills.cli.output import Part, escape_line, escape_text, get_console, pluralize, say_text, warn
from openskills.session.events import MESSAGE, TOOL_RESPONSE, Event, event_to_json
from openskills.tools.names import MAIN_ARGUMENTS

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.markdown import Markdown
    from rich.spinner import Spinner

MAX_LENGTH = 200
_MAX_FILES = 4


def format_call(tool: str, arguments: str) -> str:
    """`skill_run csv-report: python3 scripts/report.py`."""
    found = _parse_object(arguments)
    if found is None:
        return shorten(f"{tool} {arguments}")
    shown = [_to_text(found[name]) for name in MAIN_ARGUMENTS if found.get(name) not in (None, "")]
    if not shown:
        shown = [f"{name}={_to_text(value)}" for name, value in found.items() if value not in (None, "", [], {})]
    return shorten(f"{tool} {': '.join(shown)}" if shown else tool)


def format_result(content: str, *, failed: bool = False) -> str:
    """A result on one line: the exit code and files of a command, or the first line of a text."""
    found = None if failed else _parse_object(content)
    if found is None:
        return _first_line(content)
    if "status" in found:
        return shorten(_format_interactive(found))
    if "exit_code" in found:
        return shorten(_format_ending(found))
    return shorten(json.dumps(found, ensure_ascii=False))


def shorten(text: str, max_length: int = MAX_LENGTH) -> str:
    """Untrusted text on one line, truncated to `max_length` characters."""
    line = escape_line(text)
    return line if len(line) <= max_length else f"{line[: max_length - 1]}…"


def _first_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return "(nothing)"
    more = f" (+{pluralize(len(lines) - 1, 'line')})" if len(lines) > 1 else ""
    return shorten(lines[0]) + more


def _format_ending(found: Mapping[str, Any]) -> str:
    code = found["exit_code"]
    parts = [f"exit code {code}" + (", timed out" if found.get("timed_out") else "")]
    output = str(found.get("stdout") or "") if code == 0 else str(found.get("stderr") or found.get("stdout") or "")
    lines = [line for line in output.splitlines() if line.strip()]
    if lines:
        # Error messages are usually last.
        parts.append(lines[0] if code == 0 else lines[-1])
    files = found.get("output_files")
    listed = cast("Sequence[Any]", files) if isinstance(files, list) else ()
    if names := [str(cast("Mapping[str, Any]", file).get("name")) for file in listed if isinstance(file, Mapping)]:
        more = f" and {len(names) - _MAX_FILES} more" if len(names) > _MAX_FILES else ""
        parts.append(", ".join(names[:_MAX_FILES]) + more)
    if found.get("isolation") == "none":
        parts.append("not isolated")
    return "; ".join(parts)


def _format_interactive(found: Mapping[str, Any]) -> str:
    interaction = found.get("interaction")
    if isinstance(interaction, Mapping) and (hint := cast("Mapping[str, Any]", interaction).get("hint")):
        return f"{found['status']}; waiting for input: {hint}"
    if isinstance(found.get("result"), Mapping):
        return f"{found['status']}; {_format_ending({'exit_code': found.get('exit_code'), **found['result']})}"
    output = [line for line in str(found.get("output") or "").splitlines() if line.strip()]
    return "; ".join([str(found["status"]), *output[-1:]])


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _parse_object(text: str) -> dict[str, Any] | None:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


_MAX_NAME_LENGTH = 60
_SPINNER_DELAY = 0.5
_BLOCK_END = re.compile(r"\n[ \t]*\n(?=[^\s\d*+>-])")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)


def split_blocks(text: str) -> tuple[list[str], str]:
    """The complete Markdown blocks of a text that is being generated, and the rest; lists stay together."""
    blocks: list[str] = []
    start = 0
    for match in _BLOCK_END.finditer(text):
        # A blank line inside a code block does not end it.
        if len(_FENCE.findall(text, start, match.start())) % 2 == 0:
            blocks.append(text[start : match.start()])
            start = match.end()
    return blocks, text[start:]


def render_markdown(text: str) -> "Markdown":
    """Untrusted text as Markdown for a terminal; HTML tags and addresses of links are shown as text."""
    from markdown_it import MarkdownIt
    from rich.markdown import Markdown

    rendered = Markdown("", code_theme="ansi_dark", hyperlinks=False)
    parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")
    rendered.parsed = parser.parse(escape_text(text))
    return rendered


class _LiveArea:
    """The last lines of a terminal, on stderr: the block of the answer that is not complete yet, or a spinner."""

    def __init__(self) -> None:
        self._live: Live | None = None
        self._text = ""
        self._since = 0.0

    def show(self, text: str = "") -> None:
        """Show `text`, or the spinner after a moment. Does nothing in a pipe."""
        self._text = text
        if self._live is None and sys.stderr.isatty():
            from rich.live import Live
            from rich.spinner import Spinner

            self._since = time.monotonic()
            spinner = Spinner("dots", "thinking", style="dim")
            self._live = Live(
                get_renderable=lambda: self._render(spinner),
                console=get_console(sys.stderr),
                refresh_per_second=10,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def _render(self, spinner: "Spinner") -> "RenderableType":
        if self._text:
            return render_markdown(self._text)
        return spinner if time.monotonic() - self._since > _SPINNER_DELAY else ""

    def clear(self) -> None:
        """Remove it."""
        if self._live is not None:
            self._live.stop()
            self._live = None


class ChatView(Protocol):
    """Shows the events of a conversation."""

    def show(self, event: Event) -> None:
        """Show one event of a run."""
        ...

    def note(self, *parts: Part) -> None:
        """Print a line that is not part of the answer to stderr."""
        warn(*parts)

    def begin(self) -> None:
        """Start a run."""

    def finish(self) -> None:
        """End a run, however it ended."""


class JsonChatView(ChatView):
    """Prints events as lines of JSON to stdout."""

    def show(self, event: Event) -> None:
        """Print one event and flush."""
        say_text(event_to_json(event))
        sys.stdout.flush()


class TextChatView(ChatView):
    """Prints text. `agent` is the one the user talks to; events of other agents are shown with their names."""

    def __init__(self, agent: str, *, verbose: bool = False) -> None:
        self._agent = agent
        self._verbose = verbose
        self._streams = sys.stdout.isatty()
        self._streamed = False
        self._pending = ""
        self._blocks = 0
        self._live = _LiveArea()
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
        """Show one event; events that only change state are ignored."""
        shown = self._shown.get(event.kind)
        if shown is not None:
            shown(event)

    def note(self, *parts: Part) -> None:
        """Print a line to stderr, after the text that was generated before it."""
        self.finish()
        warn(*parts)

    def begin(self) -> None:
        """Discard open calls of the previous run."""
        self._calls.clear()
        self._live.show()

    def finish(self) -> None:
        """Print the rest of the text, and remove the spinner."""
        self._live.clear()
        if self._pending.strip():
            self._print_block(self._pending)
        self._pending, self._streamed, self._blocks = "", False, 0

    def _print_block(self, text: str) -> None:
        console = get_console(sys.stdout)
        if self._blocks:
            console.print()
        console.print(render_markdown(text.strip("\n")))
        self._blocks += 1

    def _delta(self, event: Event) -> None:
        if not self._streams or event.author != self._agent:
            return
        self._streamed = True
        blocks, self._pending = split_blocks(self._pending + str(event.payload.get("text", "")))
        if blocks:
            self._live.clear()
        for block in blocks:
            self._print_block(block)
        self._live.show(self._pending.strip())

    def _message(self, event: Event) -> None:
        message = cast("Mapping[str, Any]", event.payload.get("message") or {})
        if event.author != self._agent or "to" in event.payload:
            return
        streamed = self._streamed
        text = str(message.get("content") or "").strip("\n")
        if self._streams and not streamed:
            self._pending = text
        self.finish()
        if self._streams or not text:
            return
        if message.get("tool_calls"):
            warn(escape_text(text) if sys.stderr.isatty() else text)
        else:
            say_text(text)
        sys.stdout.flush()

    def _call(self, event: Event) -> None:
        arguments = str(event.payload.get("arguments") or "")
        line = format_call(str(event.payload.get("tool")), arguments)
        self._calls[str(event.payload.get("call_id"))] = line
        self._several = len(self._calls) > 1
        self.note(("* ", "bold"), f"{self._author_prefix(event)}{line}")
        if self._verbose:
            self._print_indented(arguments)

    def _response(self, event: Event) -> None:
        payload = event.payload
        content, failed = str(payload.get("content") or ""), bool(payload.get("failed"))
        call = self._calls.pop(str(payload.get("call_id")), None)
        if payload.get("call_id") and call is None:
            # A call of an earlier run that was stopped.
            return
        # With several pending calls, show which one the result belongs to.
        whose = f"{shorten(call, _MAX_NAME_LENGTH)}: " if call and self._several else ""
        # Results without a call are skills that the user loaded.
        arrow: Part = ("  -> " if payload.get("call_id") else "* ", "red" if failed else "dim")
        self.note(arrow, f"{self._author_prefix(event)}{whose}{format_result(content, failed=failed)}")
        if self._verbose:
            self._print_indented(content)
        if not self._calls:
            self._live.show()

    def _artifact(self, event: Event) -> None:
        self.note(("  saved ", "dim"), escape_line(str(event.payload.get("ref"))))

    def _summary(self, event: Event) -> None:
        self.note("the conversation so far was summarised")
        if self._verbose:
            self._print_indented(str(event.payload.get("text", "")))

    def _error(self, event: Event) -> None:
        message = escape_line(str(event.payload.get("message")))
        self.note(("error", "bold red"), f": {self._author_prefix(event)}{message}")

    def _end(self, event: Event) -> None:
        if event.author != self._agent:
            return
        self.finish()
        if not str(event.payload.get("text") or "").strip():
            self.note("(no answer)")
        if self._verbose:
            self.note(format_cost(event.payload))

    def _author_prefix(self, event: Event) -> str:
        return "" if event.author == self._agent else f"{escape_line(event.author)}: "

    def _print_indented(self, text: str) -> None:
        for line in escape_text(text).split("\n"):
            warn(f"     {line}")


def format_cost(payload: Mapping[str, Any]) -> str:
    """The cost of a run, from its last event."""
    usage = cast("Mapping[str, int]", payload.get("usage") or {})
    steps, calls = payload.get("steps", 0), payload.get("tool_calls", 0)
    return f"steps: {steps}; tool calls: {calls}; tokens: {format_usage(usage)}"


def format_usage(usage: Mapping[str, int]) -> str:
    """`1,200 in (1,000 of them cached), 40 out`."""
    cached = f" ({usage['cached']:,} of them cached)" if usage.get("cached") else ""
    return f"{usage.get('input', 0):,} in{cached}, {usage.get('output', 0):,} out"
