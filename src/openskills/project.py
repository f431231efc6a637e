"""The project file `openskills.toml`: what skills may use, and the options of `openskills validate`.

Reading the file grants nothing: somebody else may have written it, so the caller checks first whether the user trusts
its digest.
"""

import hashlib
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from openskills.arguments import check_arguments
from openskills.errors import InvalidArgument
from openskills.settings import Settings, parse_seconds

PROJECT_FILE = "openskills.toml"
OFF = "off"
"""Instead of a path: use no project file."""
EVERY_SKILL = "*"
MAX_BYTES = 1024 * 1024
MAX_SECONDS = 10_000_000
MAX_ITEMS = 1_000
NOT_SHOWN = "(set, not shown)"
SECRET_NAME_PATTERN = re.compile(
    r"(?:^|_)(?:KEY|TOKEN|SECRET|PASS|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)|APIKEY|PASSWORD", re.IGNORECASE
)
"""Names of variables that probably hold secrets."""


@check_arguments
@dataclass(frozen=True, slots=True)
class SkillGrants:
    """What the commands of a skill may use, besides what every command has.

    `network` are hosts, in the syntax of the allow-list. `secrets` are names of variables, never values. `timeout` is
    in seconds: the default of the commands, and the longest that a model may ask for. `packages` are Python
    requirements, `npm` those of Node, and `venv` is an existing virtual environment.
    """

    network: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout: float | None = None
    packages: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    venv: Path | None = None

    def __bool__(self) -> bool:
        return self != NO_GRANTS

    def merge(self, over: "SkillGrants") -> "SkillGrants":
        """Both grants: lists are joined; for a variable, the timeout and the virtual environment `over` wins."""
        return SkillGrants(
            network=tuple(dict.fromkeys((*self.network, *over.network))),
            secrets=tuple(dict.fromkeys((*self.secrets, *over.secrets))),
            environment={**self.environment, **over.environment},
            timeout=self.timeout if over.timeout is None else over.timeout,
            packages=tuple(dict.fromkeys((*self.packages, *over.packages))),
            npm=tuple(dict.fromkeys((*self.npm, *over.npm))),
            venv=self.venv if over.venv is None else over.venv,
        )

    def describe(self) -> str:
        """The grants on one line: `network api.example.org; timeout 90 s`. Values that look like secrets are masked."""
        parts = {
            "packages": ", ".join(self.packages),
            "npm": ", ".join(self.npm),
            "venv": str(self.venv or ""),
            "network": ", ".join(self.network),
            "secrets": ", ".join(self.secrets),
            "environment": ", ".join(f"{name}={value}" for name, value in mask_variables(self.environment).items()),
            "timeout": "" if self.timeout is None else f"{self.timeout:g} s",
        }
        return "; ".join(f"{title} {text}" for title, text in parts.items() if text)


NO_GRANTS = SkillGrants()


def mask_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables for display, without values whose names look like those of secrets."""
    return {name: NOT_SHOWN if SECRET_NAME_PATTERN.search(name) else value for name, value in environment.items()}


def combine_grants(grants: Mapping[str, SkillGrants], skill: str | None) -> SkillGrants:
    """The grants of a skill: its own entry over that of `*`, which is all there is for None."""
    general = grants.get(EVERY_SKILL, NO_GRANTS)
    own = grants.get(skill) if skill is not None else None
    return general if own is None else general.merge(own)


@dataclass(frozen=True, slots=True)
class ValidateOptions:
    """`[validate]`: names of rules. `per_file_ignores` is by glob of a path, `per_skill_ignores` by name of a skill."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    per_skill_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A valid project file. `digest` is that of its bytes; `lines` has the lines of its keys, as far as known."""

    path: Path
    digest: str
    grants: Mapping[str, SkillGrants]
    validate: ValidateOptions
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict[tuple[str, ...], int], repr=False)

    def locate(self, *keys: str) -> str:
        """Where a key is: `/repo/openskills.toml:7`, or only the path."""
        line = self.lines.get(keys)
        return f"{self.path}:{line}" if line else str(self.path)

    def describe_grants(self) -> list[str]:
        """One line for each entry that grants something."""
        return [f"{name}: {entry.describe()}" for name, entry in self.grants.items() if entry]


def find_project_file(start: Path, home: Path) -> Path | None:
    """The file in `start` or its nearest parent, up to the root of the repository or the home directory, inclusive."""
    last = os.path.realpath(home)
    real = Path(os.path.realpath(start))
    for folder in (real, *real.parents):
        if os.path.lexists(folder / PROJECT_FILE):
            return folder / PROJECT_FILE
        if str(folder) == last or os.path.lexists(folder / ".git"):
            return None
    return None


def open_project(choice: str | None, settings: Settings, start: Path | None = None) -> ProjectFile | None:
    """The project file that `choice` or `OPENSKILL_PROJECT` names, or that applies to `start`; None if there is none.

    `start` is the current directory by default; `off` means no file. Raises `InvalidArgument` that names the file, the
    line and the key of a fault.
    """
    named, field_name = (settings.project, "OPENSKILL_PROJECT") if choice is None else (choice, "--project")
    if named is None:
        try:
            path = find_project_file(start or Path.cwd(), settings.home)
        except FileNotFoundError:
            return None  # the current directory was removed
    elif named == OFF:
        return None
    else:
        path = Path(named).expanduser().absolute()
        if not path.is_file():
            raise InvalidArgument(field_name, f"{named} is not a file; name a project file, or {OFF} for none")
    return None if path is None else read_project(path)


def read_project(path: Path) -> ProjectFile:
    """Read a project file strictly. Raises `InvalidArgument` that names the file, the line and the key of a fault."""
    import tomllib

    data = _read_bytes(path)
    try:
        text = data.decode("utf-8")
        content = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise InvalidArgument(str(path), f"not UTF-8 at byte {error.start:,}") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument(str(path), f"not valid TOML: {error}") from None
    except RecursionError:
        raise InvalidArgument(str(path), "not valid TOML: nested too deeply") from None
    except ValueError as error:
        # A number of more than 4,300 digits, or an impossible date.
        raise InvalidArgument(str(path), f"not valid TOML: {str(error)[:100]}") from None
    reader = _ProjectReader(path, _find_lines(text))
    top = reader.read_table(content, (), ("skills", "validate"))
    skills = reader.read_table(top.get("skills", {}), ("skills",), None)
    return ProjectFile(
        path,
        hashlib.sha256(data).hexdigest(),
        {name: reader.read_grants(entry, ("skills", name)) for name, entry in skills.items()},
        reader.read_validate(top.get("validate", {}), ("validate",)),
        reader.lines,
    )


def _read_bytes(path: Path) -> bytes:
    try:
        # O_NONBLOCK: opening a FIFO must not wait.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InvalidArgument(str(path), "not a regular file; replace or remove it")
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidArgument(str(path), f"cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise InvalidArgument(str(path), f"has more than {MAX_BYTES:,} bytes")
    return data


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_KEYS = tuple(each.name for each in fields(SkillGrants))
_PER_FILE, _PER_SKILL = "per-file-ignores", "per-skill-ignores"


class _ProjectReader:
    """Checks the values of a project file. Every method raises `InvalidArgument` for the first fault."""

    def __init__(self, path: Path, lines: Mapping[tuple[str, ...], int]) -> None:
        self.lines = lines
        self._path = path

    def read_table(self, value: object, keys: tuple[str, ...], known: Sequence[str] | None) -> dict[str, Any]:
        """A table with keys of `known` only; None: any."""
        if not isinstance(value, dict):
            raise self._fault(keys, f"expected a table, got {_describe_type(value)}")
        found = cast("dict[str, Any]", value)
        for name in found:
            if known is not None and name not in known:
                near = get_close_matches(name[:60], known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"use {', '.join(known)}"
                raise self._fault((*keys, name), f"unknown key; {hint}")
        return found

    def read_grants(self, value: object, keys: tuple[str, ...]) -> SkillGrants:
        readers = {
            "network": self._read_texts,
            "secrets": self._read_names,
            "environment": self._read_environment,
            "timeout": self._read_timeout,
            "packages": self._read_packages,
            "npm": self._read_packages,
            "venv": self._read_directory,
        }
        found = self.read_table(value, keys, _KEYS)
        given: dict[str, Any] = {name: readers[name](item, (*keys, name)) for name, item in found.items()}
        return SkillGrants(**given)

    def read_validate(self, value: object, keys: tuple[str, ...]) -> ValidateOptions:
        found = self.read_table(value, keys, ("select", "ignore", _PER_FILE, _PER_SKILL))
        tables: dict[str, dict[str, tuple[str, ...]]] = {}
        for name in (_PER_FILE, _PER_SKILL):
            below = self.read_table(found.get(name, {}), (*keys, name), None)
            tables[name] = {key: self._read_texts(rules, (*keys, name, key)) for key, rules in below.items()}
        select, ignore = (self._read_texts(found.get(name, []), (*keys, name)) for name in ("select", "ignore"))
        return ValidateOptions(select, ignore, tables[_PER_FILE], tables[_PER_SKILL])

    def _read_texts(self, value: object, keys: tuple[str, ...]) -> tuple[str, ...]:
        if not isinstance(value, list):
            example = f'["{value}"]' if isinstance(value, str) else "a list of strings"
            raise self._fault(keys, f"expected a list, got {_describe_type(value)}; write {example}")
        items = cast("list[object]", value)
        if len(items) > MAX_ITEMS:
            raise self._fault(keys, f"has {len(items):,} items, more than {MAX_ITEMS:,}")
        return tuple(dict.fromkeys(self._read_text(item, keys) for item in items))

    def _read_packages(self, value: object, keys: tuple[str, ...]) -> tuple[str, ...]:
        found = self._read_texts(value, keys)
        for item in found:
            if item.startswith("-"):
                raise self._fault(keys, f"{item!r} is an option of the installer; name a package")
        return found

    def _read_directory(self, value: object, keys: tuple[str, ...]) -> Path:
        return self._path.parent / os.path.expanduser(self._read_text(value, keys))

    def _read_names(self, value: object, keys: tuple[str, ...]) -> tuple[str, ...]:
        found = self._read_texts(value, keys)
        for number, name in enumerate(found, 1):
            if not _VARIABLE.fullmatch(name):
                # Not quoted, because it may be the secret itself.
                raise self._fault(keys, f"item {number} is not the name of a variable; do not put values here")
        return found

    def _read_environment(self, value: object, keys: tuple[str, ...]) -> dict[str, str]:
        found = self.read_table(value, keys, None)
        for name, text in found.items():
            if not _VARIABLE.fullmatch(name):
                raise self._fault((*keys, name), "invalid variable name: use letters, digits and _")
            if not isinstance(text, str) or "\0" in text:
                raise self._fault((*keys, name), f"expected a string, got {_describe_type(text)}; put it in quotes")
        return found

    def _read_timeout(self, value: object, keys: tuple[str, ...]) -> float:
        try:
            seconds = parse_seconds(value, "") if isinstance(value, str) else value
        except InvalidArgument:
            seconds = None
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < MAX_SECONDS:
            raise self._fault(keys, 'expected a number of seconds, or text such as "90s" or "15m"')
        return float(seconds)

    def _read_text(self, value: object, keys: tuple[str, ...]) -> str:
        if not isinstance(value, str):
            raise self._fault(keys, f"expected a string, got {_describe_type(value)}")
        text = value.strip()
        if not text or not text.isprintable():
            raise self._fault(keys, "a string is empty or has unprintable characters")
        return text

    def _fault(self, keys: tuple[str, ...], message: str) -> InvalidArgument:
        depth = next((depth for depth in range(len(keys), 0, -1) if keys[:depth] in self.lines), 0)
        line = f":{self.lines[keys[:depth]]}" if depth else ""
        return InvalidArgument(f"{self._path}{line}: {_format_keys(keys)}", message)


def _describe_type(value: object) -> str:
    names = {"bool": "a boolean", "int": "a number", "float": "a number"}
    names |= {"str": "a string", "list": "a list", "dict": "a table"}
    return names.get(type(value).__name__, "a date or time")


def _format_keys(keys: Sequence[str]) -> str:
    """Keys as TOML writes them: `skills."*".network`."""
    return ".".join(key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else f'"{key[:60]}"' for key in keys)


_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\\]*"|'[^']*')"""
_DOTTED = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_HEADER = re.compile(rf"[ \t]*\[\[?[ \t]*({_DOTTED})[ \t]*\]")
_ASSIGNMENT = re.compile(rf"[ \t]*({_DOTTED})[ \t]*=")


def _find_lines(text: str) -> dict[tuple[str, ...], int]:
    """The lines of tables and keys. For messages only: `tomllib` has no positions, and this does not read all TOML."""
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        if match := _HEADER.match(line):
            keys = table = _split_keys(match[1])
        elif match := _ASSIGNMENT.match(line):
            keys = (*table, *_split_keys(match[1]))
        else:
            continue
        for depth in range(1, len(keys) + 1):
            found.setdefault(keys[:depth], number)
    return found


def _split_keys(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))


def override_grants(grants: Mapping[str, SkillGrants], over: SkillGrants) -> dict[str, SkillGrants]:
    """The grants with `over` merged into every entry, so that it also wins over the entries of single skills."""
    return {name: entry.merge(over) for name, entry in {EVERY_SKILL: NO_GRANTS, **grants}.items()}


def drop_secrets(grants: Mapping[str, SkillGrants], names: Sequence[str]) -> dict[str, SkillGrants]:
    return {
        skill: replace(entry, secrets=tuple(name for name in entry.secrets if name not in names))
        for skill, entry in grants.items()
    }
