"""Who keeps books of invocations: the log, the metrics, the history. None of them waits for anything."""

from dataclasses import replace

from openskills.host.books.access_log import Access, AccessLog
from openskills.host.books.history import History
from openskills.host.books.metrics import Metrics
from openskills.host.books.run_record import RunRecord, id_prefix
from openskills.host.invocation import Invocation
from openskills.host.registration import Registration
from openskills.host.wire.trace_ids import new_hex
from openskills.trace.masking import masked


class LogBook:
    """A line for each."""

    def __init__(self, log: AccessLog) -> None:
        self._log = log

    def began(self, registration: Registration) -> None:
        """See `Watcher.began`."""

    def ended(self, invocation: Invocation) -> None:
        """See `Watcher.ended`."""
        kind = None if invocation.registration is None else invocation.registration.kind
        self._log.write(Access(invocation.at, invocation.result, kind, invocation.principal, invocation.secrets))


class MetricsBook:
    """Rates, errors, latencies, what is in flight."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def began(self, registration: Registration) -> None:
        """See `Watcher.began`."""
        self._metrics.began(registration.id)

    def ended(self, invocation: Invocation) -> None:
        """See `Watcher.ended`."""
        skill, kind = "", ""
        if invocation.registration is not None:
            skill, kind = invocation.registration.id, invocation.registration.kind
        sizes = (len(invocation.request), len(invocation.body))
        self._metrics.ended(invocation.result, kind, skill=skill, bytes_in=sizes[0], bytes_out=sizes[1])


class HistoryBook:
    """A row for each; messages without secrets."""

    def __init__(self, history: History) -> None:
        self._history = history

    def began(self, registration: Registration) -> None:
        """See `Watcher.began`."""

    def ended(self, invocation: Invocation) -> None:
        """See `Watcher.ended`."""
        record = RunRecord.of(
            invocation.result,
            run_id=invocation.run_id or f"{id_prefix(invocation.at)}{new_hex(10)}",
            who=invocation.principal,
            runner_type="" if invocation.registration is None else invocation.registration.kind,
            began=invocation.at,
            body=invocation.request,
            bytes_out=len(invocation.body),
        )
        self._history.record(_without_secrets(record, invocation))


def _without_secrets(record: RunRecord, invocation: Invocation) -> RunRecord:
    if not invocation.secrets or not record.message:
        return record
    return replace(record, message=masked(record.message, invocation.secrets))
