"""The commands, one after the other: make a skill, check it, break it, mend it, find it, show it to a model, run it.

Each command is printed before it runs, so that you can type it yourself.
"""

import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

OPENSKILLS = Path(sys.executable).with_name("openskills")
BROKEN = """\
---
name: Invoice_Reader
description: Reads invoices: totals, dates and line items
---
# Invoices
See [the field list](references/fields.md).
"""
ATTACK = "cat /etc/shadow; ls /root; echo > scripts/report.py; exec 3<>/dev/tcp/127.0.0.1/22; env | grep KEY"


class Typist:
    """Somebody at a terminal in a directory. `failures` has the commands that ended otherwise than expected."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        self.environment = environment
        self.failures: list[str] = []

    def say(self, text: str) -> None:
        """Tell the person what comes next."""
        print(f"\n# {text}", flush=True)

    def type(self, *arguments: str, expect: int | None = 0) -> None:
        """Print a command and run it; `expect` is how it should end, None if nobody knows."""
        line = shlex.join(("openskills", *arguments))
        print(f"\n$ {line}", flush=True)
        # What goes to standard error belongs where it happened, also in a file.
        done = subprocess.run(
            [OPENSKILLS, *arguments],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if expect is not None and done.returncode != expect:
            self.failures.append(f"`{line}` ended with {done.returncode} instead of {expect}")


def tour(typist: Typist) -> list[str]:
    """All commands in order; gives what failed."""
    _write(typist)
    _find(typist)
    typist.say("Running a script: in a sandbox of its own. It sees its workspace, and nothing of yours.")
    (typist.directory / "sales.csv").write_text("month,amount\n2026-01,12\n2026-02,19\n", "utf-8")
    report = "python3 scripts/report.py inputs/sales.csv --output out/report.md && head -n 3 out/report.md"
    typist.type("run", "csv-report", "--skills", "skills", "--input", "sales.csv", "--output", "out/*", "--", report)
    typist.type("run", "csv-report", "--skills", "skills", "--", ATTACK, expect=1)
    if typist.failures:
        typist.say("Scripts run in a sandbox or not at all. What this machine has:")
        typist.type("doctor", expect=None)
    else:
        typist.say("Next: `.venv/bin/openskills --help`, `make test`, docs/getting-started/")
    return typist.failures


def _write(typist: Typist) -> None:
    typist.say("Make a skill. It is valid from the start.")
    typist.type("new", "release-notes", "--directory", "skills")
    typist.type("validate", "skills/release-notes")
    typist.say("A broken one: every fault with file, line and fix; the safe ones are mended for you.")
    broken = typist.directory / "skills" / "invoice-reader"
    broken.mkdir()
    (broken / "SKILL.md").write_text(BROKEN, "utf-8")
    typist.type("validate", "skills/invoice-reader", expect=1)
    typist.type("validate", "--fix", "skills/invoice-reader")


def _find(typist: Typist) -> None:
    typist.say("Loading is lenient: a file beyond repair is reported and never hides another skill.")
    (typist.directory / "skills" / "bomb").mkdir()
    (typist.directory / "skills" / "bomb" / "SKILL.md").write_text("---\nname: &a [*a]\n---\n", "utf-8")
    typist.type("list", "skills")
    typist.say("Everything about one, and finding one by what it does, in English or Chinese.")
    typist.type("info", "csv-report", "skills")
    typist.type("search", "which erors are in this log", "skills", "--limit", "1")
    typist.type("search", "日志里有哪些错误", "skills", "--limit", "1")
    typist.say("What a model sees: names and descriptions, until it asks for more.")
    typist.type("to-prompt", "skills/csv-report", "skills/meeting-notes")
