"""Synthetic skills shaped like the 134 real ones that were measured: sizes, fields and files in proportion."""

import argparse
import math
import random
from pathlib import Path

SEED = 20261115
_NOUNS = [
    "pdf",
    "csv",
    "image",
    "log",
    "mail",
    "chart",
    "report",
    "invoice",
    "schema",
    "ticket",
    "calendar",
    "audio",
    "contract",
    "map",
    "query",
    "ledger",
]
_VERBS = [
    "merge",
    "split",
    "convert",
    "summarise",
    "check",
    "translate",
    "index",
    "plot",
    "clean",
    "route",
    "extract",
    "label",
    "compare",
    "plan",
]
_WORDS = [
    "the",
    "file",
    "of",
    "a",
    "table",
    "and",
    "each",
    "record",
    "with",
    "its",
    "date",
    "to",
    "write",
    "when",
    "user",
    "asks",
    "for",
    "this",
    "data",
    "in",
    "one",
    "step",
    "then",
    "read",
    "value",
    "from",
    "line",
    "check",
    "result",
    "before",
    "output",
    "use",
    "script",
    "run",
    "option",
    "format",
    "page",
    "list",
    "error",
    "name",
    "report",
]


def build(target: Path, count: int, *, json_style: bool = False) -> None:
    """Write `count` valid skills below `target`. The same arguments always give the same bytes.

    With `json_style` two in five have nested metadata in JSON style, as the real ones of one project do; the
    specification does not allow that, and skills-ref refuses it.
    """
    target.mkdir(parents=True)
    for number in range(count):
        _write_skill(target, number, random.Random(SEED + number), json_style=json_style)


def _write_skill(target: Path, number: int, dice: random.Random, *, json_style: bool) -> None:
    name = f"{dice.choice(_VERBS)}-{dice.choice(_NOUNS)}-{number:05d}"
    folder = target / name
    folder.mkdir()
    front = _front(name, dice, nested=json_style and number % 5 < 2)
    (folder / "SKILL.md").write_text(f"---\n{front}---\n\n# {name}\n\n{_body(dice)}\n", encoding="utf-8")
    if dice.random() < 0.32:
        _write_files(folder / "scripts", "step", ".py", dice.randint(1, 6), 4000, dice)
    if dice.random() < 0.14:
        _write_files(folder / "references", "part", ".md", dice.randint(1, 3), 4400, dice)


def _front(name: str, dice: random.Random, *, nested: bool) -> str:
    """About 300 bytes in the median and 725 at the ninth decile."""
    length = int(min(900, math.exp(dice.gauss(math.log(150), 0.8))))
    lines = [f"name: {name}", f"description: {_text(dice, length)}. Use when the user mentions {dice.choice(_NOUNS)}."]
    if dice.random() < 0.5:
        lines.append("license: Apache-2.0")
    if dice.random() < 0.1:
        lines.append("compatibility: Requires Python 3.11 and git")
    if nested:
        needs = f'"requires": {{ "bins": ["sh"] }}, "os": ["linux", "darwin"], "note": "{_text(dice, 60)}",'
        lines.append(f'metadata:\n  {{\n    "openclaw": {{ "emoji": "🧰", {needs} }},\n  }}')
    elif dice.random() < 0.6:
        version = f"{dice.randint(0, 9)}.{dice.randint(0, 9)}"
        lines.append(f'metadata:\n  author: example\n  version: "{version}"\n  note: {_text(dice, 60)}')
    return "\n".join(lines) + "\n"


def _body(dice: random.Random) -> str:
    """Log-normal: 1.6 KB in the median, 10.4 KB at the ninth decile, 73 KB at most."""
    length = int(min(73_000, math.exp(dice.gauss(math.log(1600), 1.45))))
    return prose(dice, length)


def prose(dice: random.Random, length: int) -> str:
    """Lines of words, about so many characters."""
    return "\n".join(_text(dice, min(90, length)) for _ in range(max(1, length // 90)))


def _text(dice: random.Random, length: int) -> str:
    words: list[str] = []
    size = 0
    while size < length:
        words.append(dice.choice(_WORDS))
        size += len(words[-1]) + 1
    return " ".join(words)[: max(1, length)].strip() or "text"


def _write_files(folder: Path, stem: str, suffix: str, count: int, size: int, dice: random.Random) -> None:
    folder.mkdir()
    for number in range(count):
        (folder / f"{stem}{number}{suffix}").write_text("# " + _text(dice, size) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--json-style", action="store_true", help="nested metadata in JSON style in two of five")
    options = parser.parse_args()
    build(options.target, options.count, json_style=options.json_style)
