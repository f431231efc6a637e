"""Logs of web servers: the common and the combined format, and the error logs of nginx and Apache."""

import re

from log_formats import stamps
from log_formats.levels import level_of_status
from log_formats.record import Record, record
from log_formats.rules import Rules

_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_ACCESS = re.compile(
    rf"(?:\S+:\d+ )?(\S+) (\S+) (\S+) \[([^\]]{{1,64}})\] {_QUOTED} (\d{{3}}) (\d+|-)(?: {_QUOTED} {_QUOTED})?(?: .*)?"
)
_NGINX_ERROR = re.compile(
    r"(\d{4}/\d\d/\d\d \d\d:\d\d:\d\d) \[(\w+)\] (\d+)#(\d+): (?:\*(\d+) )?(.*?)(?:, client: ([^,\s]+).*)?"
)
_APACHE_ERROR = re.compile(
    r"\[\w{3} (\w{3}) (\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?) (\d{4})\] \[(?:([\w-]*):)?(\w+)\]"
    r"(?: \[pid (\d+)(?::tid (\d+))?\])?(?: \[client ([^\]]+)\])? (.*)"
)
COLUMNS = ("client", "user", "method", "path", "protocol", "status", "bytes", "referer", "user_agent")
ERROR_COLUMNS = ("client", "module", "pid", "tid", "connection")


class Access:
    """Access logs. The level follows the status: 5xx is ERROR, 4xx is WARN, everything else INFO."""

    columns: tuple[str, ...] = COLUMNS
    combined: bool | None = None
    """Whether referer and user agent have to be there; None when it does not matter."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def parse(self, line: str) -> Record | None:
        """The record of a line; None for a line in another format."""
        match = _ACCESS.fullmatch(line)
        if match is None or (self.combined is not None and (match[8] is not None) != self.combined):
            return None
        client, _, user, when, request, status, size, referer, agent = match.groups()
        method, path, protocol = _request(request)
        return record(
            stamps.common(when),
            level_of_status(int(status)),
            request,
            client=client,
            user=_given(user),
            method=method,
            path=path,
            protocol=protocol,
            status=int(status),
            bytes=int(size) if size != "-" and len(size) < 19 else None,
            **({} if referer is None else {"referer": _given(referer), "user_agent": _given(agent)}),
        )


class Common(Access):
    """The common format only."""

    combined = False


class Combined(Access):
    """The combined format only."""

    combined = True


class Nginx(Access):
    """Access and error logs of nginx."""

    columns = (*COLUMNS, "pid", "tid", "connection")

    def parse(self, line: str) -> Record | None:
        """A record; None for a line that is neither."""
        match = _NGINX_ERROR.fullmatch(line)
        if match is None:
            return super().parse(line)
        when, level, pid, tid, connection, message, client = match.groups()
        known = {"client": client, "pid": pid, "tid": tid, "connection": connection}
        return record(_iso(when), level, message, **_present(known))


class Apache(Access):
    """Access and error logs of Apache."""

    columns = (*COLUMNS, "module", "pid", "tid")

    def parse(self, line: str) -> Record | None:
        """A record; None for a line that is neither."""
        match = _APACHE_ERROR.fullmatch(line)
        if match is None:
            return super().parse(line)
        month, day, time, year, module, level, pid, tid, client, message = match.groups()
        when = f"{year}-{stamps.MONTHS.get(month, month)}-{day}T{time}"
        return record(when, level, message, **_present({"client": client, "module": module, "pid": pid, "tid": tid}))


def _iso(text: str) -> str:
    match = stamps.ISO.fullmatch(text)
    return stamps.iso(match) if match else text


def _request(request: str) -> tuple[str | None, str | None, str | None]:
    parts = request.split(" ")
    if len(parts) == 3 and parts[0].isalpha():
        return parts[0], parts[1], parts[2]
    return None, None, None


def _given(text: str | None) -> str | None:
    return None if text in ("-", "") else text


def _present(fields: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}
