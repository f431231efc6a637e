"""Environment variables, secrets and the scripted editor of a command. Pure.

A command never sees the environment of this process; its environment is built here from nothing.

With `editor_text`, a command that opens an editor finds the text already written. Each run has two files below
`skills/`, where commands cannot write: `text`, and `write`, which takes the place of an editor and copies the text into
the file to be edited.
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from openskills.errors import InvalidArgument, LimitExceeded
from openskills.executors.network.allowlist import AllowList
from openskills.executors.spec import EDITOR_DIRECTORY, SKILLS, VENV, Command, build_variables, encode_text
from openskills.project import SkillGrants

MAX_VARIABLES = 256
MAX_VALUE = 96 * 1024
"""Bytes of one variable: a little less than the kernel's limit, whose error message is not helpful."""
MAX_TOTAL = 512 * 1024

_TMP = "/tmp"  # noqa: S108 - inside an isolated workspace it is the command's own
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_OWNED = frozenset(
    {
        *("WORKSPACE_DIR", "SKILLS_DIR", "WORK_DIR", "OUTPUT_DIR", "RUN_DIR", "SKILL_NAME"),
        *("PATH", "HOME", "TMPDIR", "VIRTUAL_ENV", "PWD", "OLDPWD"),
    }
)
_PROXY = re.compile(r"(?:HTTP|HTTPS|FTP|ALL|NO)_PROXY", re.IGNORECASE)
_LOADS_CODE = frozenset(
    {
        *("GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONUSERBASE", "PYTHONBREAKPOINT"),
        *("PYTHONWARNINGS", "PYTHONEXECUTABLE", "PYTHONPLATLIBDIR"),
        *("NODE_OPTIONS", "NODE_PATH", "PERL5OPT", "PERL5LIB", "PERL5DB", "PERLLIB", "RUBYOPT", "RUBYLIB"),
        *("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH", "AWKPATH", "AWKLIBPATH"),
        *("LUA_INIT", "LUA_PATH", "LUA_CPATH", "R_PROFILE", "R_PROFILE_USER", "R_ENVIRON", "JULIA_LOAD_PATH"),
    }
)
_STARTS_PROGRAMS = frozenset(
    {
        *("BASH_ENV", "ENV", "PROMPT_COMMAND", "ZDOTDIR", "SHELL", "LESSOPEN", "LESSCLOSE", "PAGER", "MANPAGER"),
        *("BROWSER", "MAKEFLAGS", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND", "GIT_PAGER"),
        *("GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_ASKPASS", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "SSH_ASKPASS"),
    }
)
_CHANGES_SHELLS = frozenset({"PS4", "SHELLOPTS", "BASHOPTS", "IFS", "CDPATH", "GLOBIGNORE", "POSIXLY_CORRECT"})
_ADVICE = "set it inside the command if needed"
_REASONS: Sequence[tuple[frozenset[str], tuple[str, ...], str]] = (
    (_OWNED, ("OPENSKILL_",), "is set by the runtime"),
    (_LOADS_CODE, ("LD_", "DYLD_"), f"changes which code programs load; {_ADVICE}"),
    (_STARTS_PROGRAMS, ("BASH_FUNC_", "GIT_CONFIG"), f"makes other programs start commands; {_ADVICE}"),
    (_CHANGES_SHELLS, (), f"changes how a shell reads commands; {_ADVICE}"),
)


def build_environment(
    root: str, command: Command, *, path: Sequence[str], home: str, venv: bool = False
) -> dict[str, str]:
    """All variables of a command, in a workspace that the command sees at `root`.

    `path` lists the directories of the machine's programs; the skill's `.venv/bin` and the command's packages come
    before them, the skill's `bin` after them. `venv` says that the skill has a virtual environment in `.venv`.
    The runtime's own variables take precedence, then those of packages, then secrets, then the caller's variables.
    """
    found = {"LANG": "C.UTF-8"}
    if command.terminal is not None:
        found["TERM"] = "xterm-256color"
    found |= {**command.env, **command.secrets, **dict(command.packages.variables)}
    found |= {**build_variables(root, command.run_dir, command.skill), "HOME": home, "TMPDIR": _TMP}
    place = f"{root}/{SKILLS}/{command.skill}"
    own = (f"{place}/{VENV}/bin", f"{place}/bin") if command.skill is not None else None
    path = (*command.packages.path, *path)
    found["PATH"] = ":".join([own[0], *path, own[1]] if own else path)
    if own and venv:
        found["VIRTUAL_ENV"] = f"{place}/{VENV}"
    return found


def check_env(env: Mapping[str, str], field: str = "env") -> dict[str, str]:
    """Check the variables that a caller adds to a command, and return a copy.

    Raises `InvalidArgument` for a variable with an invalid name, one that the runtime sets, or one that makes programs
    load or start something else. This is a convenience: what a command can do is decided by its isolation. Raises
    `LimitExceeded` for too many variables or too long values.
    """
    if len(env) > MAX_VARIABLES:
        raise LimitExceeded(f"{field}: {len(env):,} variables exceed the limit of {MAX_VARIABLES:,}")
    total = 0
    for name, value in env.items():
        if fault := _find_fault(name):
            raise InvalidArgument(field, fault)
        size = len(encode_text(value, field, f"{name} "))
        total += len(name) + size + 2
        if size > MAX_VALUE:
            raise LimitExceeded(f"{field}: {name} has {size:,} bytes, the limit is {MAX_VALUE:,}; use a file")
    if total > MAX_TOTAL:
        raise LimitExceeded(f"{field}: {total:,} bytes in total exceed the limit of {MAX_TOTAL:,}; use files")
    return dict(env)


def check_grants(grants: SkillGrants) -> None:
    """Check hosts and variables now, not with the first command. Raises `InvalidArgument` and `LimitExceeded`."""
    AllowList(grants.network)
    if grants.timeout is not None and grants.timeout <= 0:
        raise InvalidArgument("timeout", f"{grants.timeout:g} is not a positive number of seconds")
    check_env(grants.environment, "environment")
    check_env(dict.fromkeys(grants.secrets, ""), "secrets")


def can_grant(name: str) -> bool:
    """Whether a caller may set this variable; `HOME`, which is set by the runtime, is an example that it may not."""
    return not _find_fault(name)


def resolve_secrets(names: Iterable[str], values: Mapping[str, str]) -> dict[str, str]:
    """The named secrets with their values, taken from `values` only.

    Raises `InvalidArgument` with the names of all missing secrets, and for names that are not allowed. Messages never
    contain values.
    """
    field, wanted = "secrets", sorted(set(names))
    missing = [name for name in wanted if not values.get(name)]
    if missing:
        raise InvalidArgument(field, f"no value for {', '.join(missing)}; set it in the runtime that runs the skill")
    return check_env({name: values[name] for name in wanted}, field)


def _find_fault(name: str) -> str:
    """Why a caller may not set this variable; empty if it may."""
    for names, prefixes, why in _REASONS:
        if name in names or name.startswith(prefixes):
            return f"{name} {why}"
    if _PROXY.fullmatch(name):
        return f"{name} is set by the executor, based on the hosts that the command may reach"
    return "" if _NAME.fullmatch(name) else f"invalid variable name {name[:80]!r}: use letters, digits and _"


MAX_EDITOR_TEXT = 1024 * 1024
EDITOR_VARIABLES = ("EDITOR", "VISUAL")

_SCRIPT_TEMPLATE = """#!/bin/sh
# Takes the place of an editor: writes the given text to the file to be edited, the last argument.
if [ "$#" -eq 0 ]; then
    echo 'editor: no file to write to' >&2
    exit 2
fi
for target do :; done
exec cat <{text} >"$target"
"""


@dataclass(frozen=True, slots=True)
class EditorFiles:
    """Files to write into the workspace before the command starts, and variables to set.

    Paths are relative to the workspace; `script` must be executable.
    """

    text_path: str
    text: bytes
    script_path: str
    script: bytes
    env: Mapping[str, str]


def build_editor_files(text: str, *, root: str, run: str, env: Mapping[str, str]) -> EditorFiles:
    """The files and variables that make any editor write `text`, for a workspace that commands see at `root`.

    Raises `InvalidArgument` if `env` already names an editor, for NUL bytes and for lone surrogates, and
    `LimitExceeded` above 1 MiB.
    """
    for name in EDITOR_VARIABLES:
        if name in env:
            raise InvalidArgument("editor_text", f"cannot be combined with {name} in env")
    data = encode_text(text, "editor_text", "", errors="strict")
    if len(data) > MAX_EDITOR_TEXT:
        raise LimitExceeded(f"editor_text: {len(data):,} bytes exceed the limit of {MAX_EDITOR_TEXT:,}; use an input")
    text_path, script_path = f"{EDITOR_DIRECTORY}/{run}/text", f"{EDITOR_DIRECTORY}/{run}/write"
    return EditorFiles(
        text_path=text_path,
        text=data,
        script_path=script_path,
        script=_SCRIPT_TEMPLATE.format(text=shlex.quote(f"{root}/{text_path}")).encode("utf-8", "surrogateescape"),
        # Programs pass the variable to a shell, so the path has to be quoted.
        env=dict.fromkeys(EDITOR_VARIABLES, shlex.quote(f"{root}/{script_path}")),
    )
