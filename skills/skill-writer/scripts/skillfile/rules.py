"""What a good skill keeps to. The rules have the ids that `openskills validate` gives them, where it has them."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from skillfile.front import Finding, Front

MAX_NAME, MAX_DESCRIPTION, MAX_LINES, MAX_TOKENS = 64, 1024, 500, 5000
MAX_FILE = 1024 * 1024

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_WHEN = re.compile(r"\b(when|whenever|if|use for|for tasks)\b|用于|当|时使用|适用", re.IGNORECASE)
_LINK = re.compile(r"\]\(\s*<?([^()<>\s]+)>?(?:\s+[\"'][^\"'\n]*[\"'])?\s*\)")
_SCRIPT = re.compile(r"(?<![\w/.-])((?:scripts|bin)/[\w./-]+\.\w+)")
_PYTHON = re.compile(r"(?<![\w/.-])python (?=[\w./-]+\.py)")
_MACHINE = re.compile(r"(?<![\w/.~$}-])(/(?:home|Users|root)/[\w.-]+|[A-Z]:\\Users\\\w+)")
_CODE = re.compile(r"`[^`\n]*`")


def all_rules(front: Front, folder: Path) -> Iterator[Finding]:
    """Everything that is wrong with a skill in this folder, beyond what reading it has found."""
    yield from name_rules(front, folder.resolve().name)
    yield from description_rules(front)
    yield from body_rules(front)
    yield from link_rules(front, folder)
    yield from command_rules(front, folder)
    yield from script_rules(folder)


def name_rules(front: Front, folder: str) -> Iterator[Finding]:
    name, line = front.fields.get("name", "").strip(), front.lines.get("name", 1)
    if not name:
        yield Finding("name-required", "there is no name", line)
        return
    if len(name) > MAX_NAME:
        yield Finding("name-length", f"the name has {len(name)} characters, {MAX_NAME} is the most", line)
    if not _NAME.fullmatch(name):
        message = f"invalid name {name!r}; use a-z and 0-9 with single hyphens between them"
        yield Finding("name-characters", message, line)
    if name != folder:
        yield Finding("name-folder", f"the name is {name!r} and the folder {folder!r}; they must be the same", line)


def description_rules(front: Front) -> Iterator[Finding]:
    text, line = front.fields.get("description", "").strip(), front.lines.get("description", 1)
    if not text:
        yield Finding("description-required", "there is no description", line)
        return
    if len(text) > MAX_DESCRIPTION:
        message = f"the description has {len(text):,} characters, {MAX_DESCRIPTION:,} is the most"
        yield Finding("description-length", message, line)
    if "<" in text or ">" in text:
        yield Finding(
            "description-markup", "angle brackets in the description; some clients refuse them", line, level="warning"
        )
    if not _WHEN.search(text):
        message = "the description does not say when to use the skill; add a sentence: Use when the user ..."
        yield Finding("description-when", message, line, level="warning")
    if len(text) < 40:
        yield Finding("description-short", "the description is too short to be chosen by", line, level="warning")


def body_rules(front: Front) -> Iterator[Finding]:
    if not front.body.strip():
        yield Finding("body-empty", "there are no instructions", front.body_line, level="warning")
    lines = front.body.count("\n") + 1
    if lines > MAX_LINES:
        message = f"the body has {lines:,} lines, {MAX_LINES} is the most; move parts to references/"
        yield Finding("body-lines", message, front.body_line, level="warning")
    tokens = about_tokens(front.body)
    if tokens > MAX_TOKENS:
        message = f"the body has about {tokens:,} tokens, {MAX_TOKENS:,} is the most; move parts to references/"
        yield Finding("body-tokens", message, front.body_line, level="warning")


def about_tokens(text: str) -> int:
    """Four letters of an alphabet make a token, or one character of another script."""
    plain = sum(ord(one) < 0x2E80 for one in text)
    return plain // 4 + len(text) - plain


def link_rules(front: Front, folder: Path) -> Iterator[Finding]:
    fenced = False
    for number, row in enumerate(front.body.split("\n"), front.body_line):
        if row.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        for match in _LINK.finditer(_CODE.sub("", row)) if not fenced else ():
            place = unquote(match[1].split("#")[0].split("?")[0])
            if not place or re.match(r"[A-Za-z][\w+.-]*:|//", match[1]):
                continue
            if place.startswith("/") or not inside(folder / place, folder):
                yield Finding("link-outside", f"{match[1]} leaves the folder of the skill", number, level="warning")
            elif not (folder / place).exists():
                yield Finding("link-dead", f"{match[1]} is not there", number, level="warning")


def inside(path: Path, folder: Path) -> bool:
    real, home = os.path.realpath(path), os.path.realpath(folder)
    return real == home or real.startswith(home + os.sep)


def command_rules(front: Front, folder: Path) -> Iterator[Finding]:
    """What the instructions say about scripts and places."""
    for number, row in enumerate(front.body.split("\n"), front.body_line):
        for match in _SCRIPT.finditer(row):
            if not (folder / match[1]).exists():
                yield Finding("script-missing", f"{match[1]} is not there", number, level="warning")
        if _PYTHON.search(row):
            yield Finding("python-name", "write python3: many systems have no `python`", number, level="warning")
        if found := _MACHINE.search(row):
            yield Finding("machine-path", f"{found[1]} is a place on one machine", number, level="warning")


def script_rules(folder: Path) -> Iterator[Finding]:
    """Scripts that cannot work. They are read, never run."""
    for path in sorted((folder / "scripts").rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        data = path.read_bytes()[:MAX_FILE] if path.is_file() else b""
        try:
            ast.parse(data, name)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None) or 1
            yield Finding("script-syntax", f"not valid Python: {getattr(error, 'msg', error)}", line, name)
        if data.startswith(b"#!") and os.name == "posix" and not path.stat().st_mode & 0o111:
            yield Finding("script-mode", "begins with #! and cannot be executed; chmod +x", 1, name, "warning")
