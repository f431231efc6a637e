"""Telemetry: spans, log lines, counters, and the trace id that connects them.

Nothing is printed and nothing is sent from here. Spans and metrics go to OpenTelemetry when the application has set it
up; lines go to the logger `openskills`; counters can be read in the process. What a model, a skill or a user wrote is
in none of them unless the application asked for it, and secrets never are.
"""

from openskills.telemetry.context import JsonFormatter, bind, trace_id
from openskills.telemetry.metrics import Count, count, counters
from openskills.telemetry.spans import Span, execute_tool, span

__all__ = ["Count", "JsonFormatter", "Span", "bind", "count", "counters", "execute_tool", "span", "trace_id"]
