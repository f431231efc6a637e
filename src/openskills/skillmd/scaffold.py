"""The files of a new skill, which validates and explains in every file what belongs there."""

import re
from collections.abc import Mapping

from openskills.errors import InvalidArgument
from openskills.skillmd.recovery import to_yaml
from openskills.skillmd.rules.specification import MAX_DESCRIPTION, MAX_NAME, is_valid_name, suggest_name

DEFAULT_DESCRIPTION = (
    "Does one thing well: replace this with what the skill does. "
    "Use when the user asks for that thing; name the tasks, file types and words by which it is recognised."
)

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

_SKILL = """\
---
name: {name}
description: {description}
{license}---

# {title}

Say here what an agent must know to do this task, in the order in which it works. Write what a capable colleague would
not know already, and leave out the rest. Keep this file under 500 lines; put details into `references/`, where they
cost nothing until they are needed.

## Steps

1. Check the input. Say what is needed and what to do when it is missing.
2. Run the script, which prints JSON:

   ```bash
   python3 scripts/example.py --input notes.txt
   ```

3. Fill in [the template](assets/template.md) with the result.

## When something goes wrong

- Exit code 1: the input cannot be read. Ask the user for the right file.
- Exit code 2: the arguments are wrong. Run `python3 scripts/example.py --help`.

## More

Read [the reference](references/REFERENCE.md) only when the steps above are not enough.
"""

_SCRIPT = '''\
#!/usr/bin/env python3
"""Count the lines, words and characters of a text file and print them as JSON.

An example of a script that an agent can use: it asks no questions, explains itself with --help, writes its result to
stdout and its complaints to stderr, and tells success from failure by its exit code.
"""

import argparse
import json
import sys
from pathlib import Path

EXIT_OK = 0
EXIT_UNREADABLE = 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Count the lines, words and characters of a text file.",
        epilog="Exit codes: 0 success, 1 the input cannot be read, 2 wrong arguments.",
    )
    parser.add_argument("--input", type=Path, required=True, help="a UTF-8 text file")
    arguments = parser.parse_args()
    try:
        text = arguments.input.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        print(f"cannot read {arguments.input}: {error}; expected a UTF-8 text file", file=sys.stderr)
        return EXIT_UNREADABLE
    counts = {"lines": len(text.splitlines()), "words": len(text.split()), "characters": len(text)}
    print(json.dumps(counts))
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
'''

_REFERENCE = """\
# Reference for {title}

What an agent needs only now and then: formats, special cases, long examples, tables. `SKILL.md` links here, so link
nothing from here that `SKILL.md` does not link as well.
"""

_TEMPLATE = """\
# Report

- Lines: ...
- Words: ...
- Characters: ...
"""


def scaffold(name: str, description: str = DEFAULT_DESCRIPTION, *, license: str | None = None) -> Mapping[str, str]:  # noqa: A002
    """The files of a new skill, relative path to text; they pass the strict validation.

    `scripts/example.py` should be made executable. Raises `InvalidArgument` for an invalid name or description, with a
    valid name as a suggestion.
    """
    if not is_valid_name(name):
        hint = suggest_name(name) or "my-skill"
        expected = f"1 to {MAX_NAME} lowercase letters, digits and single hyphens, a letter or digit at both ends"
        raise InvalidArgument("name", f"invalid skill name {name!r}; expected {expected}, such as {hint!r}")
    text = " ".join(description.split())
    if not 1 <= len(text) <= MAX_DESCRIPTION:
        raise InvalidArgument("description", f"has {len(text):,} characters; expected 1 to {MAX_DESCRIPTION:,}")
    if _CONTROL.search(text):
        raise InvalidArgument("description", "contains control characters; expected text")
    title = name.replace("-", " ").capitalize()
    skill = _SKILL.format(
        name=to_yaml(name),
        description=to_yaml(text),
        license=f"license: {to_yaml(license)}\n" if license else "",
        title=title,
    )
    return {
        "SKILL.md": skill,
        "scripts/example.py": _SCRIPT,
        "references/REFERENCE.md": _REFERENCE.format(title=title),
        "assets/template.md": _TEMPLATE,
    }
