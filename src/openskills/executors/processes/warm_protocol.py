"""Which commands a warm interpreter can run, and how one is started for them. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

from openskills.errors import InvalidArgument

METADATA = "openskills-warm"
"""The key of a skill's metadata that names the modules its scripts import: `openskills-warm: pandas numpy`."""

_MOST_MODULES = 32
_MODULE = re.compile(r"[A-Za-z_]\w{0,99}(\.[A-Za-z_]\w{0,99}){0,9}", re.ASCII)
# From the directory of a command, a relative path would lead elsewhere than from that of its server.
_PROGRAM = re.compile(r"(?:/.*/)?python(?:3(?:\.\d+)?)?")
_PLAIN_OPTIONS = re.compile(r"-[uBEsIPO]+")
_PYTHON_VARIABLES = frozenset(
    {
        *("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONHASHSEED", "PYTHONOPTIMIZE"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE", "PYTHONSAFEPATH", "PYTHONWARNINGS", "PYTHONPYCACHEPREFIX"),
    }
)
_EACH_RUN = frozenset({"RUN_DIR", "TERM", "PWD", "OLDPWD"})
_INFLUENTIAL = re.compile(
    r"PYTHON.*|LC_.*|LANG|LANGUAGE|LD_.*|TZ|TZDIR|PATH|HOME|TMPDIR|VIRTUAL_ENV|.*_NUM_THREADS"
    r"|(?:OMP|MKL|OPENBLAS|GOTO|BLIS|NUMPY|NPY|NUMBA|ARROW|MPL|MATPLOTLIB|XDG|MALLOC|GLIBC|OPENSSL|CUDA)_?.*|MPLBACKEND"
)

# The bottom of every run's stack. What is executed there ends as if the interpreter had been started with it.
_BOOTSTRAP = """\
import sys
first = frozenset(sys.modules)
if sys.path[:1] == [""]:
    del sys.path[0]
stream = open(0, "rb", closefd=False)
names = {{"__name__": "openskills_forkserver"}}
for size in {sizes!r}:
    exec(compile(stream.read(size), "<forkserver>", "exec"), names)
start = names["ColdStart"](first, {options})
work = names["serve"]({preload!r}, start)
try:
    work[0](*work[1:])
except BaseException:
    start.failed()
    raise
"""


@dataclass(frozen=True, slots=True)
class PythonCommand:
    """A command line `program options… (script | -c code | -m module) arguments…`."""

    program: str
    options: tuple[str, ...]


def python_command(argv: Sequence[str], env: Mapping[str, str]) -> PythonCommand | str:
    """The command line, taken apart; or the reason why it has to be started cold."""
    if not _PROGRAM.fullmatch(argv[0]):
        return "it does not start python"
    for name in env:
        if name.startswith("PYTHON") and name not in _PYTHON_VARIABLES:
            return f"{name} is set"
    if any(not path.startswith("/") for path in env.get("PYTHONPATH", "/").split(":")):
        return "PYTHONPATH has a relative directory"
    options: list[str] = []
    words = iter(argv[1:])
    for word in words:
        if word == "-W":
            options += [word, next(words, "")]
        elif _PLAIN_OPTIONS.fullmatch(word):
            options.append(word)
        else:
            return _judged(PythonCommand(argv[0], tuple(options)), word, next(words, None))
    return "it reads its program from stdin"


def _judged(found: PythonCommand, form: str, argument: str | None) -> PythonCommand | str:
    if form in ("-c", "-m"):
        return found if argument is not None else f"{form} has no argument"
    if form.startswith("-") or not form:
        return "it reads its program from stdin" if form in ("-", "") else f"{form} is an unusual option"
    return found


def server_environment(env: Mapping[str, str], added: Collection[str]) -> dict[str, str]:
    """What a server sees of a command's variables: not those of one run, and of `added` only what libraries look at.

    Secrets are among those that are added, and a server outlives the command they are for.
    """
    return {
        name: value
        for name, value in env.items()
        if name not in _EACH_RUN and (name not in added or _INFLUENTIAL.fullmatch(name))
    }


def server_argv(command: PythonCommand, preload: Sequence[str], parts: Sequence[bytes]) -> tuple[str, ...]:
    """The command line of a server, which reads the parts of its program from its stdin, and then serves it."""
    sizes = tuple(len(part) for part in parts)
    bootstrap = _BOOTSTRAP.format(sizes=sizes, options=len(command.options), preload=tuple(preload))
    return (command.program, *command.options, "-c", bootstrap)


def is_module_name(name: str) -> bool:
    """Whether this can be imported by that name, and does nothing else when it stands after `import`."""
    return bool(_MODULE.fullmatch(name)) and not any(iskeyword(part) for part in name.split("."))


def preload_names(text: str) -> tuple[str, ...]:
    """The modules that a skill's metadata or a caller names, separated by spaces or commas, each once, in their order.

    Raises `InvalidArgument` for what is no name of a module, and for too many.
    """
    names = tuple(dict.fromkeys(text.replace(",", " ").split()))
    for name in names:
        if not is_module_name(name):
            raise InvalidArgument(METADATA, f"{name[:80]!r} is no name of a module")
    if len(names) > _MOST_MODULES:
        raise InvalidArgument(METADATA, f"{len(names)} modules are too many; {_MOST_MODULES} is the most")
    return names


def refusal(hello: Mapping[str, Any]) -> str:
    """Why a server that has said hello will not serve; nothing when it will."""
    return str(hello.get("refused") or "")
