"""Turns log files into records: JSON on stdout, or a file of JSON, JSON Lines or CSV. In constant memory."""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal

from openskills.skillkit.entry import Answer, SkillRefusal, artifact, main, progress
from openskills.skillkit.files import SAMPLE_BYTES, AllowedRoot, detect_encoding, root

# Where a host starts this file in its own way, its folder may not be on the path.
if (HERE := os.path.dirname(os.path.abspath(__file__))) not in sys.path:
    sys.path.insert(0, HERE)

from log_formats.lines import Lines, first_lines
from log_formats.reading import Reading, Stats
from log_formats.record import Record
from log_formats.rules import FILES, Rules, invalid
from log_formats.table import FORMATS, detected
from log_formats.watch import TooSlow, Watch
from log_formats.writing import writer

DEFAULT_LIMIT = 200
MAX_RECORDS = 10_000
MAX_ANSWER_BYTES = 3 * 1024 * 1024
DETECTION_LINES = 50
PROGRESS_INTERVAL = 100_000

FormatName = Literal["auto", "text", "jsonl", "syslog", "nginx", "apache", "common", "combined"]


def transform(
    input_path: str,
    format: FormatName = "auto",  # noqa: A002
    output: Literal["stdout", "file"] = "stdout",
    rules: dict[str, Any] | None = None,
    limit: int | None = None,
) -> Answer:
    """Read a log below the allowed directory; return its first records, or write all of them to a file."""
    watch = Watch()
    wanted = Rules(rules or {}, watch)
    _check(limit, output, wanted)
    allowed = root()
    try:
        with allowed.open(input_path, field="input_path") as file, watch:
            reading = _begun(file, input_path, format, wanted)
            if output == "stdout":
                return _answered(reading, DEFAULT_LIMIT if limit is None else limit)
            return _written(reading, allowed, allowed.inner(input_path), wanted, limit)
    except TooSlow as slow:
        raise invalid(slow.rule, "takes too long on a line of this log; avoid nested repeats") from None


def _check(limit: int | None, output: str, rules: Rules) -> None:
    max_limit = MAX_RECORDS if output == "stdout" else 10**12
    if limit is not None and not 1 <= limit <= max_limit:
        raise SkillRefusal("INVALID_ARGUMENT", f"limit: {limit} is not between 1 and {max_limit}", field="limit")
    if output == "stdout" and (rules.output_path is not None or rules.output_format is not None):
        rule = "output_path" if rules.output_path is not None else "output_format"
        raise invalid(rule, 'requires "output": "file"')


def _begun(file: BinaryIO, name: str, format_name: str, rules: Rules) -> Reading:
    sample = file.read(SAMPLE_BYTES)
    file.seek(0)
    encoding = rules.encoding or detect_encoding(sample)
    if encoding is None:
        message = f"input_path: {name!r} is not text; unpack it, or set rules.encoding"
        raise SkillRefusal("INVALID_ARGUMENT", message, field="input_path")
    if format_name == "auto":
        format_name = detected(first_lines(sample, encoding, DETECTION_LINES), rules)
    stats = Stats(format_name, encoding, os.fstat(file.fileno()).st_size)
    return Reading(Lines(file, encoding), FORMATS[format_name](rules), rules, stats)


def _answered(reading: Reading, limit: int) -> Answer:
    records: list[Record] = []
    size, more = 0, False
    for record in reading.records():
        size += len(json.dumps(record))
        more = len(records) == limit or size > MAX_ANSWER_BYTES
        if more:
            break
        records.append(record)
    return Answer({"records": records, "stats": reading.finished(len(records), more)}, truncated=more)


def _written(reading: Reading, allowed: AllowedRoot, source: str, rules: Rules, limit: int | None) -> Answer:
    kind, target = _target(allowed, source, rules)
    count, more = 0, False
    with allowed.open_writer(target, field="rules.output_path") as file:
        into = writer(kind, file, rules.fields or reading.columns)
        for record in _with_progress(reading.records(), reading):
            more = count == limit
            if more:
                break
            into.write(record)
            count += 1
        into.finish()
        size = file.tell()
    artifact(allowed.outer(target), bytes=size)
    stats = {**reading.finished(count, more), "bytes_written": size}
    return Answer({"output_path": allowed.outer(target), "stats": stats}, truncated=more)


def _target(allowed: AllowedRoot, source: str, rules: Rules) -> tuple[str, str]:
    """The kind of file, and where it goes."""
    if rules.output_path is None:
        kind = rules.output_format or "jsonl"
        return kind, f"out/{os.path.basename(source)}.{kind}"
    target = allowed.inner(rules.output_path, field="rules.output_path")
    ending = target.rpartition(".")[2].lower() if "." in os.path.basename(target) else ""
    if ending not in FILES:
        raise invalid("output_path", f"must end in one of {', '.join(f'.{kind}' for kind in FILES)}")
    if rules.output_format not in (None, ending):
        raise invalid("output_path", f"ends in .{ending}, but rules.output_format is {rules.output_format}")
    if target == source or any(part.startswith(".") for part in target.split("/")):
        raise invalid("output_path", "must be neither the log itself nor hidden")
    return ending, target


def _with_progress(records: Iterator[Record], reading: Reading) -> Iterator[Record]:
    for number, record in enumerate(records, 1):
        if number % PROGRESS_INTERVAL == 0:
            progress(reading.lines.number, message=f"{number} records")
        yield record


if __name__ == "__main__":
    main(transform, version="0.1.0")
