"""Variables, secrets, editor.

Which commands may run, with which variables.

Which variables a command sees, which ones a caller may add, and what of them may be written down. Pure.

A command never sees the environment of this process. What it sees is made here, from nothing.

`editor_text`: a command that opens an editor finds its text already written. Pure.

Two files lie in the run's own directory, so that calls at the same time do not share them: `.editor/text`, and
`.editor/write`, which stands where a person's editor would and puts the text into the file it is asked to open. Names
that begin with a dot are not collected by `*`, and both go with the run's directory.
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from openskills.errors import InvalidArgument, LimitExceeded
from openskills.executors.spec import SKILLS, VENV, Command, build_variables

MAX_VARIABLES = 256
MAX_VALUE = 96 * 1024
"""Bytes of one variable. The kernel takes a little more, and says nothing useful when it does not."""
MAX_TOTAL = 512 * 1024
MIN_REDACTED = 4
"""Shorter secrets would also be found in words that have nothing to do with them."""

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
_ADVICE = "set it inside the command if it is really wanted"
_REASONS: Sequence[tuple[frozenset[str], tuple[str, ...], str]] = (
    (_OWNED, ("OPENSKILL_",), "belongs to the runtime, which sets it itself"),
    (_LOADS_CODE, ("LD_", "DYLD_"), f"changes which code every program loads; {_ADVICE}"),
    (_STARTS_PROGRAMS, ("BASH_FUNC_", "GIT_CONFIG"), f"makes other programs start what it says; {_ADVICE}"),
    (_CHANGES_SHELLS, (), f"changes how a shell reads commands; {_ADVICE}"),
)


def build_environment(
    root: str,
    command: Command,
    *,
    path: Sequence[str],
    home: str,
    extra: Mapping[str, str] | None = None,
    tmp: str = "/tmp",  # noqa: S108 - inside an isolated workspace it is the command's own
    venv: bool = False,
) -> dict[str, str]:
    """Exactly the variables that a command sees, in a workspace that it sees at `root`.

    `path` is where it finds the machine's programs; a skill's `.venv/bin` comes before them and its `bin` after them.
    `extra` is what the executor adds. `venv` says that the skill's `.venv` holds an environment. What the runtime owns
    wins over everything, then `extra`, then secrets, then what the caller wants.
    """
    found = {"LANG": "C.UTF-8"}
    if command.terminal is not None:
        found["TERM"] = "xterm-256color"
    found |= {**command.env, **command.secrets, **(extra or {})}
    found |= {**build_variables(root, command.run_dir, command.skill), "HOME": home, "TMPDIR": tmp}
    place = f"{root}/{SKILLS}/{command.skill}"
    own = (f"{place}/{VENV}/bin", f"{place}/bin") if command.skill is not None else None
    found["PATH"] = ":".join([own[0], *path, own[1]] if own else path)
    if own and venv:
        found["VIRTUAL_ENV"] = f"{place}/{VENV}"
    return found


def check_env(env: Mapping[str, str], field: str = "env") -> dict[str, str]:
    """The same variables, which a caller may add to a command.

    Raises `InvalidArgument` with the variable and the reason: no POSIX name, owned by the runtime, or one of those that
    make programs load or start something else. That a name is refused is a convenience; what a command can do is
    decided by its isolation. Raises `LimitExceeded` for too many or too long values.
    """
    if len(env) > MAX_VARIABLES:
        raise LimitExceeded(f"{field}: {len(env):,} variables are too many; {MAX_VARIABLES:,} is the most")
    total = 0
    for name, value in env.items():
        _check_name(name, field)
        size = _measure_value(name, value, field)
        total += len(name) + size + 2
        if size > MAX_VALUE:
            raise LimitExceeded(f"{field}: {name} has {size:,} bytes; {MAX_VALUE:,} is the most, use a file")
    if total > MAX_TOTAL:
        raise LimitExceeded(f"{field}: {total:,} bytes in all are too many; {MAX_TOTAL:,} is the most, use files")
    return dict(env)


def resolve_secrets(names: Iterable[str], values: Mapping[str, str], field: str = "secrets") -> dict[str, str]:
    """The declared secrets with their values, taken from `values` and nowhere else.

    Raises `InvalidArgument` that names all those without a value, and for names that no command may be given. No
    message has a value in it.
    """
    wanted = sorted(set(names))
    missing = [name for name in wanted if not values.get(name)]
    if missing:
        verb = "has" if len(missing) == 1 else "have"
        raise InvalidArgument(
            field, f"{', '.join(missing)} {verb} no value; give it to the runtime that runs the skill"
        )
    return check_env({name: values[name] for name in wanted}, field)


def redact(text: str, secrets: Mapping[str, str]) -> str:
    """Text for logs: a secret in it is replaced by its name. Longer ones first, none below 4 characters."""
    names = {value: name for name, value in secrets.items() if len(value) >= MIN_REDACTED}
    if not names:
        return text
    longest_first = sorted(names, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda match: f"[secret {names[match[0]]}]", text)


def _check_name(name: str, field: str) -> None:
    for names, prefixes, why in _REASONS:
        if name in names or name.startswith(prefixes):
            raise InvalidArgument(field, f"{name} {why}")
    if _PROXY.fullmatch(name):
        raise InvalidArgument(field, f"{name} is set by the executor, from the hosts that the command may reach")
    if not _NAME.fullmatch(name):
        raise InvalidArgument(field, f"{name[:80]!r} is no name of a variable; use letters, digits and underscores")


def _measure_value(name: str, value: str, field: str) -> int:
    if "\0" in value:
        raise InvalidArgument(field, f"{name} contains a NUL byte")
    try:
        return len(value.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        raise InvalidArgument(field, f"{name} contains half a character (a lone surrogate)") from None


MAX_EDITOR_TEXT = 1024 * 1024
EDITOR_VARIABLES = ("EDITOR", "VISUAL")
EDITOR_DIRECTORY = ".editor"
EDITOR_TEXT, EDITOR_SCRIPT = f"{EDITOR_DIRECTORY}/text", f"{EDITOR_DIRECTORY}/write"
"""Below the directory of the run."""

_SCRIPT_TEMPLATE = """#!/bin/sh
# Stands where an editor would: puts the given text into the file that is to be edited, which comes last.
if [ "$#" -eq 0 ]; then
    echo 'editor: there is no file to write to' >&2
    exit 2
fi
for target do :; done
exec cat <{text} >"$target"
"""


@dataclass(frozen=True, slots=True)
class EditorFiles:
    """What has to be written into the workspace before the command starts, and what the command is told.

    Paths are relative to the workspace; `script` must be executable.
    """

    text_path: str
    text: bytes
    script_path: str
    script: bytes
    env: Mapping[str, str]


def build_editor_files(text: str, *, root: str, run_dir: str, env: Mapping[str, str]) -> EditorFiles:
    """The files and variables that make every editor write `text`, for a workspace that commands see at `root`.

    Raises `InvalidArgument` when `env` says already which editor to use, for NUL bytes and for half characters, and
    `LimitExceeded` above 1 MiB.
    """
    for name in EDITOR_VARIABLES:
        if name in env:
            raise InvalidArgument("editor_text", f"cannot be combined with {name} in env; give one of the two")
    written = f"{root}/{run_dir}/{EDITOR_TEXT}"
    # Programs give the variable to a shell, so a place with blanks or quotes in it has to be quoted once more.
    told = shlex.quote(f"{root}/{run_dir}/{EDITOR_SCRIPT}")
    return EditorFiles(
        text_path=f"{run_dir}/{EDITOR_TEXT}",
        text=_encode_text(text),
        script_path=f"{run_dir}/{EDITOR_SCRIPT}",
        script=_SCRIPT_TEMPLATE.format(text=shlex.quote(written)).encode("utf-8", "surrogateescape"),
        env=dict.fromkeys(EDITOR_VARIABLES, told),
    )


def _encode_text(text: str) -> bytes:
    if "\0" in text:
        raise InvalidArgument("editor_text", "contains a NUL byte; an editor's text has none")
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("editor_text", "contains half a character (a lone surrogate)") from None
    if len(data) > MAX_EDITOR_TEXT:
        raise LimitExceeded(
            f"editor_text: {len(data):,} bytes are too many; {MAX_EDITOR_TEXT:,} is the most, use an input"
        )
    return data
