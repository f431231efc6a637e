#!/usr/bin/env python3
"""Make the folder of a new skill: a SKILL.md that is valid from the start and, if wanted, a script with its manners.

Exit status: 0 made, 2 wrong argument, or the folder is there already.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

# The parts lie beside this file, and the folder of a skill stays as it is.
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from skillfile.front import Front  # noqa: E402
from skillfile.rules import description_rules, name_rules  # noqa: E402

EXAMPLES = """examples:
  scaffold.py invoice-reader --description "Read totals and dates from invoices. Use when the user gives an invoice."
  scaffold.py invoice-reader --description "..." --script read --output skills

The folder is made below --output (default: $OUTPUT_DIR, or this folder). Where the command is installed,
`openskills new NAME` does the same.
"""
SKILL = """\
---
name: {name}
description: {description}
metadata:
  version: "0.1"
---

# {title}

{first}

## Steps

1. Look at what the user gave: which files, which question, which form of answer.
2. {step}
3. Check the result before you show it: compare one value with the input by hand.

## When it fails

Say what could not be done and why, in one sentence, and what the user can do about it. Never invent a result.
"""
WITH_SCRIPT = """Run the script, and read what it says:

   ```
   python3 scripts/{script}.py input.txt --output result.txt
   ```
"""
SCRIPT = '''\
#!/usr/bin/env python3
"""Say in one line what this does.

Exit status: 0 done, 2 wrong argument or unreadable file.
"""

import argparse
import os
import sys
from pathlib import Path


def work(text):
    """The heart of it: text in, text out. Replace this line by what the skill is about."""
    return f"{len(text.splitlines())} lines\\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input", type=Path, help="the file of the user")
    parser.add_argument("--output", type=Path, help="where to write (default: standard output)")
    options = parser.parse_args()
    try:
        result = work(options.input.read_text(encoding="utf-8"))
        if options.output is None:
            sys.stdout.write(result)
            return 0
        # A bare name lies in $OUTPUT_DIR: the folder of a skill is often read-only.
        folder = os.environ.get("OUTPUT_DIR")
        bare = options.output.parent == Path()
        target = Path(folder, options.output) if folder and bare else options.output
        target.write_text(result, encoding="utf-8")
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except UnicodeDecodeError:
        print(f"error: {options.input} is not UTF-8 text", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
'''


def faults(name: str, description: str) -> list[str]:
    """Why this cannot be a skill; warnings about a description count, because now is the easiest time to fix it."""
    front = Front(fields={"name": name, "description": description})
    found = [*name_rules(front, name), *description_rules(front)]
    return [finding.message for finding in found]


def skill_text(name: str, description: str, script: str | None) -> str:
    plain = " ".join(description.split())
    step = (
        WITH_SCRIPT.format(script=script).rstrip()
        if script
        else "Say here what to do, in the order in which it is done."
    )
    title = name.replace("-", " ").capitalize()
    return SKILL.format(
        # A JSON string is a YAML string, whatever is in it.
        name=name,
        description=json.dumps(plain, ensure_ascii=False),
        title=title,
        first=plain.split(". ")[0].rstrip(".") + ".",
        step=step,
    )


def make(folder: Path, text: str, script: str | None) -> list[Path]:
    """Write the files. Raises FileExistsError when the folder is there."""
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    made = [folder / "SKILL.md"]
    if script:
        (folder / "scripts").mkdir()
        made.append(folder / "scripts" / f"{script}.py")
        made[1].write_text(SCRIPT, encoding="utf-8")
        made[1].chmod(0o755)
    return made


def main() -> int:
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=shape)
    parser.add_argument("name", help="a-z and 0-9 with single hyphens, at most 64 characters")
    parser.add_argument("--description", required=True, help="what it does, and when to use it")
    parser.add_argument("--script", metavar="NAME", help="also a script of this name")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where the folder of the skill goes")
    options = parser.parse_args()
    wrong = faults(options.name, options.description)
    if wrong:
        parser.error("; ".join(wrong))
    if options.script is not None and not options.script.isidentifier():
        parser.error(f"argument --script: invalid module name {options.script!r}; use letters, digits and _")
    folder = (options.output or Path(os.environ.get("OUTPUT_DIR") or ".")) / options.name
    try:
        made = make(folder, skill_text(options.name, options.description, options.script), options.script)
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror or error}", file=sys.stderr)
        return 2
    print(*made, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
