"""The first minute: make a skill, check it, break it, mend it, find it, show it to a model, run it.

Everything happens in a temporary directory. Each command is printed before it runs, so that you can type it yourself.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
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


def main() -> int:
    """Run the demo; 0 when every command did what it should."""
    with tempfile.TemporaryDirectory(prefix="openskills-demo-") as scratch:
        return Demo(Path(scratch)).run()


class Demo:
    """A session at a terminal, in a directory with a copy of the skills of this repository."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.failures: list[str] = []
        # Nothing of the person who runs the demo is read or written.
        home = directory / "home"
        home.mkdir()
        own = {
            "HOME": str(home),
            "OPENSKILL_CACHE_DIR": str(home / "cache"),
            "OPENSKILL_CONFIG_DIR": str(home / "conf"),
            "OPENSKILL_STATE_DIR": str(home / "state"),
        }
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("OPENSKILL", "SKILLS_", "XDG"))
        }
        self.environment = {**kept, **own}

    def run(self) -> int:
        """All steps in order."""
        shutil.copytree(ROOT / "skills", self.directory / "skills")
        self.say("Make a skill. It is valid from the start.")
        self.type("new", "release-notes", "--directory", "skills")
        self.type("validate", "skills/release-notes")
        self.say("A broken one: every fault with file, line and fix; the safe ones are mended for you.")
        broken = self.directory / "skills" / "invoice-reader"
        broken.mkdir()
        (broken / "SKILL.md").write_text(BROKEN, "utf-8")
        self.type("validate", "skills/invoice-reader", expect=1)
        self.type("validate", "--fix", "skills/invoice-reader")
        self.say("Loading is lenient: a file beyond repair is reported and never hides another skill.")
        (self.directory / "skills" / "bomb").mkdir()
        (self.directory / "skills" / "bomb" / "SKILL.md").write_text("---\nname: &a [*a]\n---\n", "utf-8")
        self.type("list", "skills")
        self.say("Everything about one, and finding one by what it does, in English or Chinese.")
        self.type("info", "csv-report", "skills")
        self.type("search", "which erors are in this log", "skills", "--limit", "1")
        self.type("search", "日志里有哪些错误", "skills", "--limit", "1")
        self.say("What a model sees: names and descriptions, until it asks for more.")
        self.type("to-prompt", "skills/csv-report", "skills/meeting-notes")
        self.run_a_script()
        return self.end()

    def run_a_script(self) -> None:
        """In a sandbox, or not at all."""
        if not shutil.which("bwrap"):
            self.say("Scripts run in a sandbox or not at all. This machine has no bubblewrap; this is what to do:")
            self.type("doctor")
            return
        self.say("Running a script: in a sandbox of its own. It sees its workspace, and nothing of yours.")
        (self.directory / "sales.csv").write_text("month,amount\n2026-01,12\n2026-02,19\n", "utf-8")
        report = "python3 scripts/report.py inputs/sales.csv --output out/report.md && head -n 3 out/report.md"
        self.type("run", "csv-report", "--skills", "skills", "--input", "sales.csv", "--output", "out/*", "--", report)
        self.type("run", "csv-report", "--skills", "skills", "--", ATTACK, expect=1)

    def say(self, text: str) -> None:
        """Tell the person what comes next."""
        print(f"\n# {text}", flush=True)

    def type(self, *arguments: str, expect: int = 0) -> None:
        """Print a command and run it; remember when it ends otherwise than expected."""
        line = shlex.join(("openskills", *arguments))
        print(f"\n$ {line}", flush=True)
        done = subprocess.run([OPENSKILLS, *arguments], cwd=self.directory, env=self.environment, check=False)
        if done.returncode != expect:
            self.failures.append(f"`{line}` ended with {done.returncode} instead of {expect}")

    def end(self) -> int:
        """What to do next, or what went wrong."""
        for failure in self.failures:
            print(failure, file=sys.stderr)
        if not self.failures:
            print("\n# Next: `.venv/bin/openskills --help`, `make test`, docs/getting-started/")
        return 1 if self.failures else 0


if __name__ == "__main__":
    sys.exit(main())
