"""Parse times in logs to ISO 8601. Times without a year are kept as they are, unless the caller gives one."""

import re
from datetime import UTC, datetime

MONTHS = {
    name: f"{number:02}"
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}
ISO = re.compile(
    r"(?P<date>\d{4}[-/]\d\d[-/]\d\d)[T ](?P<time>\d\d:\d\d(?::\d\d)?)(?P<part>[.,]\d{1,9})?"
    r"(?P<zone> ?(?:Z|[+-]\d\d:?\d\d)(?![\d:]))?"
)
BSD = re.compile(r"(?P<month>[A-Z][a-z]{2}) (?P<day>[ \d]\d) (?P<time>\d\d:\d\d:\d\d)")
COMMON = re.compile(
    r"(?P<day>\d\d)/(?P<month>[A-Z][a-z]{2})/(?P<year>\d{4}):(?P<time>\d\d:\d\d:\d\d)(?: (?P<zone>[+-]\d{4}))?"
)
_LONGEST = 200
_SECONDS = (10**8, 10**11)
_MILLISECONDS = (10**11, 10**14)


def iso(match: re.Match[str]) -> str:
    """`2026/01/05 10:00:00,123` as `2026-01-05T10:00:00.123`."""
    part = (match["part"] or "").replace(",", ".")
    return f"{match['date'].replace('/', '-')}T{match['time']}{part}{_zone(match['zone'])}"


def bsd(match: re.Match[str], year: int | None) -> str:
    """`Jan  5 10:00:00` with its year; without one as it is."""
    month = MONTHS.get(match["month"])
    if year is None or month is None:
        return match[0]
    return f"{year:04}-{month}-{match['day'].replace(' ', '0')}T{match['time']}"


def common(text: str) -> str:
    """`05/Jan/2026:10:00:00 +0800` as `2026-01-05T10:00:00+08:00`; anything else as it is."""
    match = COMMON.fullmatch(text)
    month = MONTHS.get(match["month"]) if match else None
    if match is None or month is None:
        return text
    return f"{match['year']}-{month}-{match['day']}T{match['time']}{_zone(match['zone'])}"


def formatted(text: str, form: str) -> str | None:
    """A time in the caller's own format; None when it is not in it."""
    if len(text) > _LONGEST:
        return None
    try:
        return _read(text, form).isoformat()
    except (ValueError, OverflowError, re.error):
        return None


def is_format(form: str) -> bool:
    """Whether a text is a format of times at all."""
    try:
        _read("", form)
    except ValueError as error:
        return "does not match" in str(error)
    except re.error:
        # A directive occurs twice.
        return False
    return True


def _read(text: str, form: str) -> datetime:
    """A time without a year is one of the year 1900. Newer versions of Python warn of that, and will refuse it."""
    directives = set(re.findall("%(.)", form, re.DOTALL))
    if "d" in directives and directives.isdisjoint("YyGcx"):
        text, form = f"1900/{text}", f"%Y/{form}"
    return datetime.strptime(text, form)


def from_number(value: float) -> str | None:
    """Seconds or milliseconds since 1970; None for other numbers."""
    if _MILLISECONDS[0] <= value < _MILLISECONDS[1]:
        value /= 1000
    elif not _SECONDS[0] <= value < _SECONDS[1]:
        return None
    return datetime.fromtimestamp(value, UTC).isoformat()


def _zone(text: str | None) -> str:
    zone = (text or "").strip()
    return f"{zone[:3]}:{zone[3:]}" if len(zone) == len("+0800") else zone
