"""What happens, for those who watch: spans, lines of a log, counters, and the trace id that ties them together.

Nothing is printed and nothing is sent from here. Spans and metrics go to OpenTelemetry when the application has set it
up; lines go to the logger `openskills`; counters can be read in the process. What a model, a skill or a user wrote is
in none of them unless the application asked for it, and secrets never are.
"""

from openskills.trace.binding import bind, trace_id
from openskills.trace.counting import Count, count, counters
from openskills.trace.lines import JsonFormatter
from openskills.trace.spans import Span, span
from openskills.trace.tool_calls import execute_tool

__all__ = ["Count", "JsonFormatter", "Span", "bind", "count", "counters", "execute_tool", "span", "trace_id"]
