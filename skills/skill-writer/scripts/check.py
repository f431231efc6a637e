#!/usr/bin/env python3
"""Check skills: the format of SKILL.md, its links and its scripts. Reads files, runs nothing, needs no packages.

Exit status: 0 nothing wrong, 1 something is, 2 wrong argument.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

# The parts lie beside this file, and the folder of a skill stays as it is.
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from skillfile.front import Finding, read_front  # noqa: E402
from skillfile.rules import MAX_FILE, all_rules  # noqa: E402

EXAMPLES = """examples:
  check.py my-skill
  check.py skills/* --strict --json

This is a quick look. `openskills validate FOLDER` knows every rule, and fixes some problems with --fix.
"""


def findings(folder: Path) -> list[Finding]:
    """Everything that is wrong with a skill, in the order of its lines."""
    try:
        with (folder / "SKILL.md").open("rb") as file:
            data = file.read(MAX_FILE + 1)
        text = data.decode("utf-8")
    except OSError as error:
        return [Finding("file-missing", f"cannot be read: {error.strerror or error}")]
    except UnicodeDecodeError as error:
        return [Finding("text-encoding", f"is not UTF-8 (byte {error.start})")]
    if len(data) > MAX_FILE or "\0" in text:
        return [Finding("file-size", f"has more than {MAX_FILE:,} bytes, or a NUL character")]
    front = read_front(text)
    if any(finding.rule.startswith("frontmatter-") for finding in front.findings):
        return front.findings
    found = [*front.findings, *all_rules(front, folder)]
    return sorted(found, key=lambda finding: (finding.file != "SKILL.md", finding.file, finding.line))


def main() -> int:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=shape)
    parser.add_argument(
        "folders", nargs="+", type=Path, metavar="FOLDER", help="the folder of a skill, or its SKILL.md"
    )
    parser.add_argument("--strict", action="store_true", help="warnings are faults, too")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    options = parser.parse_args()
    folders = [path.parent if path.name == "SKILL.md" and path.is_file() else path for path in options.folders]
    for folder in folders:
        if not folder.is_dir():
            parser.error(f"{folder} is not a folder")
    found = [(folder, finding) for folder in folders for finding in findings(folder)]
    errors = sum(options.strict or finding.level == "error" for _, finding in found)
    if options.json:
        print(json.dumps([{"skill": str(folder), **asdict(finding)} for folder, finding in found], indent=2))
        return 1 if errors else 0
    for folder, one in found:
        print(ascii_safe(f"{folder / one.file}:{one.line}: {one.level}: {one.message} [{one.rule}]"))
    warnings = sum(finding.level == "warning" for _, finding in found)
    print(f"{len(folders)} checked: {len(found) - warnings} errors, {warnings} warnings")
    if shutil.which("openskills"):
        print("`openskills validate` is installed and knows more rules; run it, too")
    return 1 if errors else 0


def ascii_safe(text: str) -> str:
    return text.encode(sys.stdout.encoding or "utf-8", "backslashreplace").decode(sys.stdout.encoding or "utf-8")


if __name__ == "__main__":
    sys.exit(main())
