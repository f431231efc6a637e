"""The span of a tool call, as the GenAI conventions of OpenTelemetry have it, and how long such calls take."""

from collections.abc import Generator
from contextlib import contextmanager
from time import perf_counter

from openskills.trace import otel
from openskills.trace.counting import count
from openskills.trace.spans import Span, span
from openskills.trace.values import Attributes, Value, error_type, one_line

DURATION = "gen_ai.execute_tool.duration"


class ToolCall(Span):
    """A tool call. It knows how it ended even when nobody watches its span: metrics want to know, too."""

    __slots__ = ("_span", "error")

    def __init__(self, span: Span) -> None:
        self._span = span
        self.error = ""

    @property
    def shows(self) -> bool:
        """See `Span.shows`."""
        return self._span.shows

    def set(self, attributes: Attributes | None = None, /, **more: Value) -> None:
        """See `Span.set`."""
        self._span.set(attributes, **more)

    def show(self, attributes: Attributes | None = None, /, **more: Value) -> None:
        """See `Span.show`."""
        self._span.show(attributes, **more)

    def failed(self, error: BaseException) -> None:
        """See `Span.failed`."""
        self.error = error_type(error)
        self._span.failed(error)


@contextmanager
def execute_tool(name: str, *, call_id: str | None = None, skill: str | None = None) -> Generator[ToolCall]:
    """One call of a tool: everything that begins in the block is below its span.

    `name` is that of a tool that there is, and `skill` of a skill that there is: both name things in metrics. An error
    that becomes a result is told with `failed`; one that passes is seen. Arguments and results are for `show`.
    """
    began = perf_counter()
    title = f"execute_tool {name} {skill}" if skill and name == "skill_load" else f"execute_tool {name}"
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call_id,
        "gen_ai.skill.name": skill,
    }
    with span(title, attributes) as watched:
        call = ToolCall(watched)
        try:
            yield call
        except BaseException as error:
            call.failed(error)
            raise
        finally:
            _measure(one_line(name), call.error, perf_counter() - began)


def _measure(tool: str, error: str, seconds: float) -> None:
    count("openskills.tool.calls", tool=tool, error=error or None)
    labels = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
    otel.observe_seconds(DURATION, seconds, {**labels, "error.type": error} if error else labels)
