"""Scripts of SKILL.md folders without a manifest, as hosted skills: their ids, descriptions and derived schemas.

`scripts/fill_form.py` of the skill `pdf` is `pdf.fill_form`, and `scripts/office/pack.py` is `pdf.office.pack`. If two
scripts differ only in their extensions, both have it in their ids (`pdf.run.py`, `pdf.run.sh`), so that an id never
stands for another script than before.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from typing import Any

from openskills.catalog.skill import Skill
from openskills.errors import InvalidSkill
from openskills.executors.requests import PackageOptions
from openskills.host.model import Registration
from openskills.host.registry.folders import find_version, read_stamp
from openskills.host.runners.script import (
    ARGS,
    FILES,
    STDIN,
    HelpReader,
    HelpText,
    ScriptArgument,
    ScriptProgram,
    inspect_script,
)
from openskills.paths import to_printable
from openskills.prompt.overview import shorten
from openskills.skillmd.problem import Problem, Severity

KIND = "cli:script"
_FOLDER = "scripts/"
_MAX_SCRIPTS = 200
_MAX_ID = 64
_MAX_TEXT = 300
_MAX_CONTEXT = 200
_DATA_SUFFIXES = (
    *(
        ".md",
        ".txt",
        ".rst",
        ".json",
        ".yaml",
        ".yml",
        ".toml",
        ".cfg",
        ".ini",
        ".lock",
        ".xml",
        ".xsd",
        ".csv",
        ".tsv",
    ),
    *(".html", ".css", ".svg", ".png", ".jpg", ".jpeg", ".gif", ".pdf", ".ttf", ".zip", ".gz", ".tgz", ".pyc", ".pyi"),
)
"""Files that nobody expects to be served, so that the reason would only be noise."""


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A script that is not served, or a skill without scripts (`script` is empty), and the reason.

    `id` is the id that it would have.
    """

    id: str
    skill: str
    script: str
    reason: str


@dataclass(frozen=True, slots=True)
class HostedScript:
    """A script that is served, without the limits of the host."""

    registration: Registration
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class ScriptScan:
    """The scripts of some skills, and what is not served."""

    scripts: tuple[HostedScript, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()


class ScriptFinder:
    """Finds the scripts of skills without a manifest and entry. Only a `help_reader` runs any of them.

    `base` has the values that all registrations share, `packages_of` the packages of a skill by name. Skills that have
    not changed are not read again.
    """

    def __init__(
        self,
        base: Registration,
        search_path: str,
        help_reader: HelpReader | None = None,
        packages_of: Callable[[str], PackageOptions] = lambda _: PackageOptions(),
    ) -> None:
        self._base = base
        self._search_path = search_path
        self._help_reader = help_reader
        self._packages_of = packages_of
        self._known: dict[str, tuple[Skill, tuple[object, ...], ScriptScan]] = {}

    def find(self, skills: Iterable[tuple[Skill, Problem | None]]) -> ScriptScan:
        """The scripts of these skills, and what is not served. Problems of skills are problems of their scripts."""
        scripts: list[HostedScript] = []
        skipped: list[SkippedFile] = []
        known: dict[str, tuple[Skill, tuple[object, ...], ScriptScan]] = {}
        for skill, problem in skills:
            found = known[skill.directory] = self._find_in_skill(skill)
            more = () if problem is None else (problem,)
            scripts += [replace(script, problems=(*script.problems, *more)) for script in found[2].scripts]
            skipped += found[2].skipped
        self._known = known
        return ScriptScan(tuple(scripts), tuple(skipped))

    def _find_in_skill(self, skill: Skill) -> tuple[Skill, tuple[object, ...], ScriptScan]:
        try:
            paths = [one.path for one in skill.resources() if one.path.startswith(_FOLDER)]
        except InvalidSkill as error:
            return skill, (), ScriptScan(skipped=(SkippedFile(_to_slug(skill.name), skill.name, "", error.message),))
        stamps = tuple((path, read_stamp(skill.path / path)) for path in paths)
        known = self._known.get(skill.directory)
        if known is not None and known[0] is skill and known[1] == stamps:
            return known
        return skill, stamps, self._scan(skill, paths)

    def _scan(self, skill: Skill, paths: Sequence[str]) -> ScriptScan:
        ids = build_ids(skill.name, paths)
        programs: dict[str, ScriptProgram] = {}
        skipped: list[SkippedFile] = []
        for path in paths:
            program = inspect_script(skill.path, path, self._search_path)
            if isinstance(program, ScriptProgram) and path in ids and len(programs) < _MAX_SCRIPTS:
                programs[path] = program
            elif not path.endswith(_DATA_SUFFIXES):
                too_many = f"the skill has more than {_MAX_SCRIPTS} scripts"
                other = too_many if path in ids else "another script has the same id; rename one of them"
                reason = program if isinstance(program, str) else other
                skipped.append(SkippedFile(ids.get(path, _to_slug(skill.name)), skill.name, path, reason))
        if not programs:
            skipped.append(SkippedFile(_to_slug(skill.name), skill.name, "", "it has no scripts that can be served"))
        reader = self._help_reader
        packages = self._packages_of(skill.name)
        texts = reader.read(skill.path, programs, packages) if reader is not None and programs else {}
        found = [
            _build_script(skill, path, one, self._base, ids[path], texts.get(path)) for path, one in programs.items()
        ]
        return ScriptScan(tuple(found), tuple(skipped))


_PLAIN_PATH = re.compile(r"[A-Za-z0-9._/-]+", re.ASCII)


def build_ids(skill: str, paths: Sequence[str]) -> dict[str, str]:
    """Unique ids by path. Paths that cannot be told apart have none."""
    short = {
        path: _join_id(skill, path.rpartition(".")[0] if "." in path.rpartition("/")[2] else path) for path in paths
    }
    # Data files do not make a script ambiguous.
    scripts = [path for path in paths if not path.endswith(_DATA_SUFFIXES)]
    count = Counter(short[path] for path in scripts)
    long = {path: short[path] if count[short[path]] < 2 else _join_id(skill, path) for path in paths}
    again = Counter(long[path] for path in scripts)
    # A file with an odd name, such as `go!.py`, does not take the id of `go.py`.
    plain = Counter(long[path] for path in scripts if _PLAIN_PATH.fullmatch(path))
    return {
        path: one for path, one in long.items() if again[one] < 2 or (plain[one] == 1 and _PLAIN_PATH.fullmatch(path))
    }


def _join_id(skill: str, path: str) -> str:
    parts = [_to_slug(part) for part in path.removeprefix(_FOLDER).replace(".", "/").split("/")]
    found = ".".join((_to_slug(skill), *filter(None, parts)))
    # In the name of a tool, a dot is two characters.
    if len(found) + found.count(".") <= _MAX_ID:
        return found
    digest = blake2b(found.encode(), digest_size=4).hexdigest()
    return f"{_to_slug(skill)[:40].rstrip('_-')}.{digest}"


def _to_slug(text: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "_", text.lower()).strip("_-") or "x"


def _build_script(
    skill: Skill, path: str, program: ScriptProgram, base: Registration, skill_id: str, text: HelpText | None
) -> HostedScript:
    schema = parse_help(text.text, path.rpartition("/")[2]) if text is not None and not text.failure else None
    problems: tuple[Problem, ...] = ()
    if text is not None and schema is None:
        message = f"the arguments are not known: {text.failure or 'the usage cannot be parsed'}; use `args`"
        problems = (Problem("schema-derived", message, Severity.NOTE),)
    typed = schema or HelpSchema()
    about = " ".join((program.about or typed.about).split())[:_MAX_TEXT]
    where = f"{to_printable(path)} of the skill {skill.name}"
    # A host may have many scripts of one skill: its description is not repeated in full.
    context = f"{where}: {shorten(skill.description, _MAX_CONTEXT)}"
    description = f"{about.rstrip('.')}. ({context})" if about else context
    registration = replace(
        base,
        id=skill_id,
        kind=KIND,
        entry=str(skill.path / path),
        version=find_version(skill) or base.version,
        description=description,
        input_schema=build_schema(typed),
        output_schema=OUTPUT_SCHEMA,
        derived="default" if schema is None else "help",
        options={"command": program.command, "arguments": [asdict(argument) for argument in typed.arguments]},
    )
    return HostedScript(registration, problems)


_FILE_SCHEMA: Mapping[str, Any] = {
    "oneOf": [
        {"type": "string", "description": "the text of the file"},
        {
            "type": "object",
            "properties": {"text": {"type": "string"}, "base64": {"type": "string", "contentEncoding": "base64"}},
            "oneOf": [{"required": ["text"]}, {"required": ["base64"]}],
        },
    ]
}
OUTPUT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "exit_code": {"const": 0},
        "stdout": {"type": "string"},
        "stderr": {"type": "string"},
        "files": {
            "type": "object",
            "description": "the files that were written, by name; text or base64",
            "additionalProperties": {"type": "object", "required": ["mime_type", "size"]},
        },
    },
    "required": ["exit_code", "stdout", "stderr", "files"],
}


@dataclass(frozen=True, slots=True)
class HelpSchema:
    """The arguments of a script, with the JSON schemas of their values and the names of required ones."""

    arguments: tuple[ScriptArgument, ...] = ()
    properties: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    required: tuple[str, ...] = ()
    about: str = ""


def build_schema(known: HelpSchema) -> dict[str, Any]:
    """The input schema of a script: its known arguments, and `args`, `stdin` and `files`."""
    more = "further arguments" if known.arguments else "arguments"
    common: dict[str, Any] = {
        ARGS: {
            "type": "array",
            "items": {"type": "string"},
            "description": f"{more} for the command line; the name of a file of `files` stands for its path",
        },
        STDIN: {"type": "string", "description": "text for standard input"},
        FILES: {"type": "object", "additionalProperties": _FILE_SCHEMA, "description": "input files by name"},
    }
    found = {"type": "object", "properties": {**known.properties, **common}, "additionalProperties": False}
    return {**found, "required": list(known.required)} if known.required else found


_MAX_ARGUMENTS = 100
_MAX_HELP = 64 * 1024
_IGNORED = frozenset({"-h", "--help", "--version", "--install-completion", "--show-completion"})
_BOX = re.compile(r"[│┃╭╮╰╯─━┏┓┗┛┡┩└┘┌┐├┤]+")
_NAME = r"(?:<[^<>]+>|\{[A-Za-z][\w-]*\}|[A-Za-z][\w-]*)"
_VALUE = rf"(?:\w+(?:\|\w+)+|{_NAME}|\{{[^{{}}\s]+\}}|\[[^\[\]\s]+\|[^\[\]\s]+\])"
_FLAG = r"--?[A-Za-z][\w-]*"
_OPTION = rf"{_FLAG}(?:(?:=| ){_VALUE}(?: {_VALUE})*(?: \[{_VALUE} \.\.\.\])?)?"
_USAGE = re.compile(
    rf"(?P<options>\[OPTIONS\]|\[options\])"
    rf"|[\[(](?P<group>{_OPTION}(?: ?\| ?{_OPTION})*)[\])]"
    rf"|(?P<needed>{_FLAG}(?:=| ){_VALUE}(?: \[{_VALUE} \.\.\.\])?)"
    rf"|(?P<first>{_NAME}) \[(?P=first) \.\.\.\]"
    rf"|\[(?P<any>{_NAME})(?:\]\.\.\.| ?\.\.\.\]| \[(?P=any) \.\.\.\]\])"
    rf"|(?P<several>{_NAME})\.\.\."
    rf"|\[(?P<maybe>{_NAME})\]"
    rf"|(?P<one>{_NAME})"
)
"""One item of a usage line. What does not match is not understood."""
_CHOICES = re.compile(r"[{\[]?(?P<words>[^{}\[\]<>]+[,|][^{}\[\]<>]+)[}\]]?")
_METAVAR = re.compile(r"<[^<>]+>|[A-Z]{3,}(?: RANGE)?|\[[^\[\]]+\|[^\[\]]+\]")
_TYPES: Mapping[str, Mapping[str, Any]] = {
    "INTEGER": {"type": "integer"},
    "INT": {"type": "integer"},
    "FLOAT": {"type": "number"},
    "BOOLEAN": {"type": "boolean"},
}
_ANY_WORD: Mapping[str, Any] = {"type": ["string", "number"]}


class _UnknownUsage(Exception):
    """The text is not a usage that can be understood with certainty."""


@dataclass(slots=True)
class _HelpRow:
    """A line of a help text about an option or an argument. `values` are the words after an option."""

    names: list[str]
    values: list[str]
    about: str


def parse_help(text: str, script: str) -> HelpSchema | None:
    """The arguments in the help of argparse, click, typer or docopt; None if anything is unclear."""
    lines = [_BOX.sub(" ", line).rstrip() for line in text[:_MAX_HELP].splitlines()]
    try:
        usage, rest = _split_usage(lines)
        by_name = {name: row for row in _parse_rows(rest) for name in row.names}
        arguments: list[ScriptArgument] = []
        properties: dict[str, Mapping[str, Any]] = {}
        required: list[str] = []
        for argument, schema, is_required in _parse_usage(_strip_program(usage, script), by_name):
            if argument in arguments and argument.flag:
                continue
            if argument.name in properties or len(arguments) >= _MAX_ARGUMENTS:
                return None
            arguments.append(argument)
            properties[argument.name] = schema
            required += [argument.name] if is_required else []
        return HelpSchema(tuple(arguments), properties, tuple(required), _find_about(rest))
    except _UnknownUsage:
        return None


_UsageItem = tuple[ScriptArgument, Mapping[str, Any], bool]
"""An argument, its schema, and whether it is required."""


def _split_usage(lines: Sequence[str]) -> tuple[str, list[str]]:
    """The usage, with its continuation lines, and the lines after it."""
    start = next((number for number, line in enumerate(lines) if line.strip()), 0)
    end = next((number for number in range(start + 1, len(lines)) if not lines[number].strip()), len(lines))
    paragraph = [line.strip() for line in lines[start:end]]
    if not paragraph or not paragraph[0].lower().startswith("usage:"):
        raise _UnknownUsage
    paragraph[0] = paragraph[0][len("usage:") :]
    words = [line.split() for line in paragraph if line.split()]
    # Several forms, one per line: it is not clear which arguments belong together.
    if not words or any(line[0] == words[0][0] for line in words[1:]):
        raise _UnknownUsage
    return " ".join(word for line in words for word in line), list(lines[end:])


def _strip_program(usage: str, script: str) -> str:
    words = usage.split()
    names = (script, script.rpartition(".")[0] or script)
    for place, word in enumerate(words[:4]):
        if word.rpartition("/")[2] in names or word.rpartition(".")[2] in names:
            return " ".join(words[place + 1 :])
    raise _UnknownUsage


def _parse_usage(usage: str, rows: Mapping[str, _HelpRow]) -> Iterator[_UsageItem]:
    position = 0
    while position < len(usage):
        match = _USAGE.match(usage, position)
        if match is None:
            raise _UnknownUsage
        position = match.end()
        if usage[position : position + 1] not in ("", " "):
            raise _UnknownUsage
        position += len(usage[position:]) - len(usage[position:].lstrip())
        yield from _read_usage_item(match, rows)


def _read_usage_item(match: re.Match[str], rows: Mapping[str, _HelpRow]) -> Iterator[_UsageItem]:
    if match["options"]:
        options = {id(row): row for row in rows.values() if row.names[0].startswith("-")}
        for row in options.values():
            yield from _build_option(row.names[0], row.values, rows, is_required="[required]" in row.about)
    elif match["group"] or match["needed"]:
        for option in re.split(r" ?\| ?(?=-)", match["group"] or match["needed"]):
            flag, *values = option.replace("=", " ", 1).split()
            yield from _build_option(flag, values, rows, is_required=match["needed"] is not None)
    else:
        groups = match.groupdict()
        form = next(name for name in ("first", "any", "several", "maybe", "one") if groups[name])
        yield _build_positional(groups[form], form, rows)


def _build_option(
    flag: str, values: Sequence[str], rows: Mapping[str, _HelpRow], *, is_required: bool
) -> Iterator[_UsageItem]:
    row = rows.get(flag)
    names = [flag] if row is None else row.names
    if _IGNORED & {*names}:
        return
    flag = next((name for name in names if name.startswith("--")), flag)
    values = list(values if row is None else row.values or values)
    about = _describe("" if row is None else row.about)
    if not values:
        yield ScriptArgument(_to_name(flag), flag, "nothing"), {"type": "boolean", **about}, False
        return
    schema = _to_schema(values[0])
    several = len(values) > 1
    argument = ScriptArgument(_to_name(flag), flag, "values" if several else "value")
    yield argument, {**({"type": "array", "items": schema} if several else schema), **about}, is_required


def _build_positional(name: str, form: str, rows: Mapping[str, _HelpRow]) -> _UsageItem:
    row = rows.get(name) or rows.get(name.strip("<>{}"))
    # Other words are subcommands.
    is_listed = row is not None or name.startswith(("<", "{")) or name.isupper()
    if not is_listed or name.strip("<>").upper() in ("COMMAND", "ARGS", "OPTIONS"):
        raise _UnknownUsage
    is_required, several = form in ("first", "several", "one"), form in ("first", "any", "several")
    schema = _to_schema(row.values[0] if row is not None and row.values else name)
    if several:
        schema = {"type": "array", "items": schema, **({"minItems": 1} if is_required else {})}
    argument = ScriptArgument(_to_name(name), "", "values" if several else "value")
    return argument, {**schema, **_describe("" if row is None else row.about)}, is_required


def _parse_rows(lines: Sequence[str]) -> list[_HelpRow]:
    """The indented lines of the sections: `-o FILE, --output FILE  where to write`. Deeper lines continue them."""
    rows: list[_HelpRow] = []
    last_indent = 0
    for line in lines:
        text = line.strip().removeprefix("*").strip()
        indent = len(line) - len(line.lstrip())
        if not text or not indent:
            last_indent = 0 if not indent else last_indent
        elif rows and last_indent and indent > last_indent + 4 and not text.startswith("-"):
            rows[-1].about = f"{rows[-1].about} {text}".strip()
        elif (row := _parse_row(text)) is not None:
            rows.append(row)
            last_indent = indent
    return rows


def _parse_row(text: str) -> _HelpRow | None:
    first, *fields = re.split(r"\s{2,}", text)
    names: list[str] = []
    values: list[str] = []
    if not first.startswith("-"):
        if not re.fullmatch(_NAME, first):
            return None
        names = [first]
    else:
        # typer has every name and the type in columns of their own.
        while fields and fields[0].startswith("-"):
            first = f"{first}, {fields.pop(0)}"
        for part in re.split(r",\s+| / | (?=-)", first):
            flag, *words = part.replace("=", " ", 1).split(" ")
            if not re.fullmatch(_FLAG, flag):
                return None
            names.append(flag)
            values = values or [word for word in words if word not in ("RANGE", "")]
    if fields and not values and _METAVAR.fullmatch(fields[0]):
        kind = fields.pop(0).partition(" ")[0]
        # A switch of typer has a type, but takes no value.
        values = [] if kind == "<bool>" else [kind]
    return _HelpRow(names, values, " ".join(fields))


def _to_schema(value: str) -> dict[str, Any]:
    choices = _CHOICES.fullmatch(value)
    if choices is not None:
        return {"enum": re.split(r"[,|]", choices["words"])}
    return dict(_TYPES.get(value.strip("<>").upper(), _ANY_WORD))


def _describe(about: str) -> dict[str, str]:
    text = " ".join(about.split())[:_MAX_TEXT]
    return {"description": text} if text else {}


def _find_about(lines: Sequence[str]) -> str:
    """The first paragraph after the usage, unless it is a section."""
    text = "\n".join(lines).strip("\n")
    paragraph = text.partition("\n\n")[0].split("\n")
    is_section = paragraph[0].rstrip().endswith(":") or paragraph[0].strip() in ("Options", "Arguments")
    return "" if is_section else " ".join(paragraph)


def _to_name(word: str) -> str:
    """The name of a field: `--skill-name` is `skill_name`. Names that other fields have get an underscore."""
    name = re.sub(r"[^a-z0-9]+", "_", word.lower()).strip("_")
    if not name:
        raise _UnknownUsage
    return f"{name}_" if name in (ARGS, STDIN, FILES) else name
