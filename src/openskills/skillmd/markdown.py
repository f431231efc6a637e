"""Links, file names and commands in a Markdown text, found in one pass over its lines."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FENCE = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]*)?(`{3,}|~{3,})([^\n]*)")
_HTML_COMMENT = re.compile("<!--.*?-->", re.DOTALL)
_NOT_LINE_END = re.compile(r"[^\n]")
_BACKTICKS = re.compile(r"`+")
_DEFINITION = re.compile(r" {0,3}\[(?!\^)[^\]\n]{1,200}\]:[ \t]*(?:<([^>\n]*)>|(\S+))")
_CODE_PATH = re.compile(r"(?<![^\s\"'=`])(?:\./)?((?:scripts|references|assets)/[\w./-]*\w\.\w{1,8})(?![^\s\"',;:)`])")
_PLACEHOLDER = re.compile(r"[{}<>$*|\[\]]|\.\.\.|…")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_ESCAPE = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_MAX_DESTINATION = 1000
_FILE_NAME = re.compile(
    r"(?<![\w/.:@~$-])[A-Za-z0-9_][\w-]{0,99}(?:/[\w-]{1,100}){0,9}\.(?:md|txt|py|sh|js|json|csv|html)\b(?![/-])"
)
_USED = re.compile(
    r"(?:\b(?:run|execute|start|call|see|read|load|open|consult|follow|refer to|described in|listed in)(?: the)?[ :`*]+"
    r"|\b(?:python3?|bash|sh|node|uv run)\s+)$",
    re.IGNORECASE,
)
_MAX_BEFORE = 40


@dataclass(frozen=True, slots=True)
class Link:
    """A link destination as written, with its line and column (from 1).

    `code` marks a path in an inline code span, such as `scripts/run.py`; `used` that the text says to run or read it.
    """

    destination: str
    line: int
    column: int
    code: bool = False
    used: bool = False


@dataclass(frozen=True, slots=True)
class LinkTarget:
    """Where a link leads: a path from the skill's folder, or out of it."""

    path: str
    outside: bool = False


def find_links(text: str) -> Iterator[Link]:
    """Links, images, link definitions, and script, reference and asset paths in inline code, in order of lines.

    Fenced code blocks and HTML comments are skipped. Linear in the length of the text.
    """
    for line in _iter_prose(text):
        yield from _find_links_in_line(line.text, line.number)


def find_file_names(text: str) -> Iterator[Link]:
    """Words outside of links, fenced code blocks and HTML comments that look like file names, such as `FORMS.md`."""
    for line in _iter_prose(text):
        for match in _FILE_NAME.finditer(line.text) if "." in line.text else ():
            if len(match.group()) <= _MAX_DESTINATION and not line.text.startswith("](", match.start() - 2):
                yield Link(match.group(), line.number, match.start() + 1)


def _iter_prose(text: str) -> "Iterator[_MarkdownLine]":
    """The lines outside of fenced code blocks; HTML comments are blank."""
    return (line for line in _iter_lines(_blank_comments(text)) if not line.is_fenced)


def resolve_link(destination: str, folder: str = "") -> LinkTarget | None:
    """The target of a destination in a file of `folder`; None for other things than files (a URL, an anchor)."""
    text = destination.strip()
    scheme = _SCHEME.match(text)
    if _DRIVE.match(text) or text.startswith("~/") or (scheme and scheme.group(1).lower() == "file"):
        return LinkTarget(text, outside=True)
    if not text or text[0] in "#?" or text.startswith("//") or scheme or _PLACEHOLDER.search(text):
        return None
    path = _ESCAPE.sub(_decode_escape, text.partition("#")[0].partition("?")[0])
    if path.startswith("/"):
        return LinkTarget(path, outside=True)
    parts = folder.split("/") if folder else []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return LinkTarget(path, outside=True)
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return LinkTarget("/".join(parts)) if parts else None


def find_linked_files(text: str, folder: str = "") -> tuple[str, ...]:
    """The distinct paths, relative to the skill, that a text in `folder` links to, in order."""
    targets = (resolve_link(link.destination, "" if link.code else folder) for link in find_links(text))
    return tuple(dict.fromkeys(target.path for target in targets if target and not target.outside))


def _blank_comments(text: str) -> str:
    """Replace HTML comments by blanks; lines and columns stay the same."""
    # What follows the last end cannot be a comment; without it, each `<!--` would be searched to the end of the text.
    end = text.rfind("-->") + 3
    return _HTML_COMMENT.sub(lambda comment: _NOT_LINE_END.sub(" ", comment[0]), text[:end]) + text[end:]


def _find_links_in_line(line: str, number: int) -> Iterator[Link]:
    if "`" in line:
        spans = list(_find_code_spans(line))
        for start, end in spans:
            for match in _CODE_PATH.finditer(line, start, end):
                before = line[max(0, match.start() - _MAX_BEFORE) : match.start()]
                yield Link(match.group(1), number, match.start(1) + 1, code=True, used=bool(_USED.search(before)))
        line = _blank_spans(line, spans)
    definition = _DEFINITION.match(line)
    if definition:
        group = 1 if definition.group(1) is not None else 2
        yield Link(definition.group(group), number, definition.start(group) + 1)
    position = line.find("](")
    while position != -1:
        found = _parse_destination(line, position + 2)
        if found:
            yield Link(found[0], number, found[1] + 1)
        position = line.find("](", position + 2)


def _find_code_spans(line: str) -> Iterator[tuple[int, int]]:
    """Start and end of the text inside backticks; a run is closed by the next run of the same length."""
    runs = [(match.start(), match.end()) for match in _BACKTICKS.finditer(line)]
    closing: dict[int, int] = {}
    closed_by: list[int | None] = [None] * len(runs)
    for index in range(len(runs) - 1, -1, -1):
        length = runs[index][1] - runs[index][0]
        closed_by[index] = closing.get(length)
        closing[length] = index
    index = 0
    while index < len(runs):
        partner = closed_by[index]
        if partner is not None:
            yield runs[index][1], runs[partner][0]
        index = index + 1 if partner is None else partner + 1


def _blank_spans(line: str, spans: list[tuple[int, int]]) -> str:
    pieces: list[str] = []
    position = 0
    for start, end in spans:
        pieces += (line[position:start], " " * (end - start))
        position = end
    return "".join((*pieces, line[position:]))


def _parse_destination(line: str, start: int) -> tuple[str, int] | None:
    """The destination after `](` and its offset; None when the parenthesis is never closed."""
    limit = min(len(line), start + _MAX_DESTINATION)
    while start < limit and line[start] in " \t":
        start += 1
    if line.startswith("<", start):
        end = line.find(">", start, limit)
        return (line[start + 1 : end], start + 1) if end != -1 else None
    depth = 0
    for position in range(start, limit):
        character = line[position]
        if character in " \t":
            return (line[start:position], start) if line.find(")", position, limit) != -1 else None
        if character in "[]":
            # A placeholder, or the next link after one that was never closed.
            return None
        if character == "(":
            depth += 1
        elif character == ")":
            if depth == 0:
                return line[start:position], start
            depth -= 1
    return None


def _decode_escape(match: re.Match[str]) -> str:
    return bytes.fromhex(match.group().replace("%", "")).decode("utf-8", "replace")


_PROMPT = re.compile(r"^[$%][ \t]+")
_COMMENT = re.compile(r"(?:^|[ \t]+)#[ \t](?P<words>.*)$")
_RUN = re.compile(r"(?:python3?(?: -m)?|bash|sh|node|uv run)[ \t]+[^-\s]\S*|\./\S+|scripts/\S+")
_SET_UP = re.compile(r"(?:^|[ \t])(?:--help|-h|--version|pip|venv|install)(?:[ \t]|$)")
_SHELLS = frozenset({"", "bash", "sh", "shell", "console", "text", "terminal", "zsh"})
_LEAD = re.compile(r"^(?:>[ \t]*)*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?(?:\**[A-Z][\w ]{0,40}:\**[ \t]+)?(?:[$%][ \t]+)?")
_ARGUMENT = re.compile(r"""-\S+|"[^"]*"|'[^']*'|\S*[<>{}\[\]$=/\\*]\S*|\S+\.\w{1,8}|[A-Z0-9_]{2,}|\d+|[|>&;]+|\.{3}""")
_MAX_LINE = 2_000


@dataclass(frozen=True, slots=True)
class CommandExample:
    """A documented command, and the words that introduce it."""

    command: str
    about: str = ""


def find_commands(text: str) -> list[CommandExample]:
    """The commands of scripts in a text, without duplicates: those in code blocks, then on lines of their own, then
    in inline code."""
    blocks: list[CommandExample] = []
    lines: list[CommandExample] = []
    inline: list[CommandExample] = []
    heading, last, said = "", "", ""
    for line in _iter_lines(_join_continuations(text)):
        words = line.text.strip()
        if line.is_code:
            comment = _COMMENT.search(words) if line.language in _SHELLS else None
            command = _PROMPT.sub("", words[: comment.start()] if comment else words).strip()
            said = f"{said} {comment['words']}" if comment else said
            if line.language in _SHELLS and _is_script_command(command):
                blocks.append(CommandExample(command, f"{heading} {last} {said}".strip()))
            said = "" if command else said
            continue
        said = ""
        codes = [line.text[start:end].strip() for start, end in _find_code_spans(line.text)] if "`" in words else []
        found = [_PROMPT.sub("", code) for code in codes]
        # A path alone is more often a mention of a file than a command.
        inline += [CommandExample(one, words) for one in found if _is_script_command(one) and " " in one]
        plain = _LEAD.sub("", words)
        if not codes and _is_script_command(plain) and " " in plain and _has_only_arguments(plain):
            lines.append(CommandExample(plain, f"{heading} {last} {words.removesuffix(plain)}".strip()))
        heading, last = words if words.startswith("#") else heading, words or last
    return list({one.command: one for one in reversed((*blocks, *lines, *inline))}.values())[::-1]


@dataclass(frozen=True, slots=True)
class _MarkdownLine:
    text: str
    number: int
    is_code: bool
    is_fenced: bool = False
    language: str = ""


def _iter_lines(text: str) -> Iterator[_MarkdownLine]:
    """The lines of a text, without those that open and close code blocks."""
    fence = language = ""
    # An indented block follows a blank line, or another line of the block.
    can_indent, is_listed = True, False
    for number, line in enumerate(text.split("\n"), 1):
        mark = _FENCE.match(line)
        if mark and (mark[1].startswith(fence) and not mark[2].strip() if fence else "`" not in mark[2]):
            fence, language = ("", "") if fence else (mark[1], (mark[2].split() or [""])[0].lower())
            can_indent = True
        elif fence:
            yield _MarkdownLine(line, number, is_code=True, is_fenced=True, language=language)
        else:
            bare = line.lstrip(" \t")
            # Below an item of a list, four blanks only continue the item.
            is_indented = can_indent and bool(bare) and line.startswith(("\t", " " * (8 if is_listed else 4)))
            yield _MarkdownLine(line, number, is_code=is_indented)
            can_indent = is_indented or not bare
            if bare and not is_indented:
                is_listed = bool(re.match(r"(?:[-*+]|\d{1,9}[.)])[ \t]", bare)) or (is_listed and bare is not line)


def _join_continuations(text: str) -> str:
    return re.sub(r"[ \t]*\\\n[ \t]*", " ", _blank_comments(text))


def _is_script_command(text: str) -> bool:
    return len(text) <= _MAX_LINE and _RUN.match(text) is not None and not _SET_UP.search(text)


def _has_only_arguments(command: str) -> bool:
    """Whether a line is a command and not a sentence about one: the words after the script are not prose."""
    match = _RUN.match(command)
    rest = command[match.end() :] if match else ""
    return not _ARGUMENT.sub(" ", rest).strip() and not command.endswith((".", ":", ","))


_CODE_LANGUAGES = _SHELLS - {"", "text"} | {
    *("python", "py", "python3", "pycon", "javascript", "js", "mjs", "typescript", "ts", "node", "ruby", "rb", "perl"),
    *("php", "r", "go", "rust", "java", "lua", "powershell", "ps1", "fish", "sql", "applescript", "make", "makefile"),
}
_PROGRAM_CALL = re.compile(r"(?:\./)?[a-z][\w.+-]*(?:/[\w.+-]+)*[ \t]+(?=\S)")
_TAKES_PROGRAM = re.compile(
    r"(?:\b(?:run|runs|running|execute|invoke|call|launch|start|use|uses|using|via|with|through|install)\b|[$])[\s\w]{0,20}$",
    re.IGNORECASE,
)
_PROGRAM = re.compile(r"[a-z][a-z0-9+-]+")


def has_commands(text: str) -> bool:
    """Whether a text has code or a command that a model could run. In doubt it has: `jq` after "use" is enough."""
    if "skill_run" in text or "skill_exec" in text:
        return True
    for line in _iter_lines(_join_continuations(text)):
        words = line.text.strip()[:_MAX_LINE]
        if line.is_code:
            if words and (line.language in _CODE_LANGUAGES or _looks_like_call(_PROMPT.sub("", words))):
                return True
            continue
        plain = _LEAD.sub("", words)
        if _RUN.match(plain) and _has_only_arguments(plain):
            return True
        for start, end in _find_code_spans(line.text) if "`" in words else ():
            code = _PROMPT.sub("", line.text[start:end].strip()[:_MAX_LINE])
            before = line.text[max(0, start - _MAX_BEFORE) : start].rstrip("`")
            if _looks_like_call(code) or (_PROGRAM.fullmatch(code) and _TAKES_PROGRAM.search(before)):
                return True
    return False


def _looks_like_call(code: str) -> bool:
    """Whether code is a program with an argument that only a command line has: an option, a path or a file."""
    if _RUN.match(code):
        return True
    call = _PROGRAM_CALL.match(code)
    words = code[call.end() :].split() if call else []
    return any(
        re.fullmatch(r"--?[A-Za-z][\w-]*(?:=\S*)?|[\w./~$<>{}-]*[\w>}](?:/|\.[A-Za-z]\w{0,7})[\w./<>{}-]*", word)
        for word in words
    )
