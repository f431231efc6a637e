"""`SkillManifest`, the front matter of a SKILL.md as one frozen value, with requirements and allowed tools."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from openskills.skillmd.yaml import Value

_PLATFORMS = {
    **{name: name for name in ("linux", "darwin", "windows", "freebsd", "openbsd", "netbsd", "android", "ios")},
    "win32": "windows",
    "win": "windows",
    "macos": "darwin",
    "mac": "darwin",
    "osx": "darwin",
}
MAX_NAMES = 100
"""How many programs, variables or systems a skill may require; further ones are ignored."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Requirements:
    """Required programs, environment variables and operating systems; empty means no requirement.

    All of `bins` and `env`, one of `any_bins`, and one of `platforms` (`linux`, `darwin`, `windows`). Variables of
    `optional_env` are used if they are set. `always` shows the skill regardless.
    """

    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    always: bool = False
    optional_env: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.bins or self.any_bins or self.env or self.platforms)


NO_REQUIREMENTS = Requirements()


def read_requirements(metadata: Mapping[str, Value]) -> Requirements:
    """Collect the requirements in `metadata`.

    Two shapes are in use: `metadata.requires` (or `bins`, `env`, `os` directly in `metadata`), and the same one level
    down under a client's key, as in `metadata.openclaw.requires.bins`. Both are read and merged. Invalid names of
    variables and operating systems are ignored: `env: production` outside of `requires` means something else.
    """
    found: dict[str, dict[str, None]] = {}
    for holder in (metadata, *metadata.values()):
        # Nearly all metadata is text, and this check is much faster than `isinstance` with `Mapping`.
        if holder.__class__ is not str and isinstance(holder, Mapping):
            _add_requirements(holder, found, _is_constant)
            requires = holder.get("requires")
            if isinstance(requires, Mapping):
                _add_requirements(requires, found, _is_variable)
    if not found:
        return NO_REQUIREMENTS
    named = {demand: tuple(islice(names, MAX_NAMES)) for demand, names in found.items()}
    return Requirements(
        bins=named.get("bins", ()),
        any_bins=named.get("any_bins", ()),
        env=named.get("env", ()),
        optional_env=tuple(name for name in named.get("optional_env", ()) if name not in named.get("env", ())),
        platforms=named.get("platforms", ()),
        always="true" in found.get("always", ()),
    )


def split_words(value: Value) -> tuple[str, ...]:
    """The items of a YAML list, or of a text with spaces or commas between them."""
    if isinstance(value, str):
        return tuple(value.replace(",", " ").split())
    if isinstance(value, Sequence):
        return tuple(item.strip() for item in value if isinstance(item, str) and item.strip())
    return ()


_DEMANDS = {
    "bins": "bins",
    "anyBins": "any_bins",
    "any_bins": "any_bins",
    "env": "env",
    "primaryEnv": "optional_env",
    "os": "platforms",
    "always": "always",
}


def _add_requirements(
    block: Mapping[str, Value], found: dict[str, dict[str, None]], is_variable: Callable[[str], bool]
) -> None:
    for key, demand in _DEMANDS.items():
        if key not in block:
            continue
        named: Iterable[str] = split_words(block[key])
        if key in ("env", "primaryEnv"):
            named = filter(is_variable, named)
        elif key == "os":
            named = (_PLATFORMS[name.lower()] for name in named if name.lower() in _PLATFORMS)
        found.setdefault(demand, {}).update(dict.fromkeys(named))


def _is_variable(name: str) -> bool:
    return _VARIABLE.fullmatch(name) is not None


def _is_constant(name: str) -> bool:
    return _is_variable(name) and name.isupper()


SPEC_FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
"""The fields of the specification, in its order."""

TEXT_EXTENSIONS = (
    "argument-hint",
    "model",
    "context",
    "agent",
    "version",
    "homepage",
    "when_to_use",
    "effort",
    "shell",
)
FLAG_EXTENSIONS = ("disable-model-invocation", "user-invocable")
OTHER_EXTENSIONS = ("hooks", "paths")
CLIENT_EXTENSIONS = TEXT_EXTENSIONS + FLAG_EXTENSIONS + OTHER_EXTENSIONS
"""Fields outside the specification that some client supports."""

TEXT_FIELDS = frozenset({"name", "description", "license", "compatibility", *TEXT_EXTENSIONS})
"""Fields whose value is one text."""


@dataclass(frozen=True, slots=True)
class SkillManifest:
    """The front matter of a SKILL.md; absent fields have defaults.

    `metadata` and `extra` have values exactly as written: scalars are text, lists and maps stay nested. `extra` has
    every key that is neither in the specification nor a known client extension.
    """

    name: str
    description: str
    license: str | None = None
    compatibility: str | None = None
    metadata: Mapping[str, Value] = field(default_factory=dict[str, Value])
    allowed_tools: tuple[str, ...] = ()
    disable_model_invocation: bool = False
    user_invocable: bool = True
    argument_hint: str | None = None
    model: str | None = None
    context: str | None = None
    agent: str | None = None
    version: str | None = None
    homepage: str | None = None
    when_to_use: str | None = None
    effort: str | None = None
    shell: str | None = None
    paths: tuple[str, ...] = ()
    hooks: Value = None
    keywords: tuple[str, ...] = ()
    requirements: Requirements = NO_REQUIREMENTS
    extra: Mapping[str, Value] = field(default_factory=dict[str, Value])


def read_tools(value: Value) -> tuple[str, ...]:
    """The patterns of `allowed-tools`, from a string (spaces or commas between them) or a list.

    Spaces and commas inside parentheses belong to the pattern. An unclosed parenthesis runs to the end.
    """
    if isinstance(value, str):
        return tuple(_split_tools(value))
    if isinstance(value, Sequence):
        return tuple(tool for item in value if isinstance(item, str) for tool in _split_tools(item))
    return ()


def _split_tools(text: str) -> list[str]:
    if "(" not in text:
        return text.replace(",", " ").split()
    tools: list[str] = []
    depth = begin = 0
    for position, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth = max(0, depth - 1)
        elif depth == 0 and (character == "," or character.isspace()):
            tools.append(text[begin:position])
            begin = position + 1
    tools.append(text[begin:])
    return [tool.strip() for tool in tools if tool.strip()]
