"""How a skill gets the Python packages that it declares: which commands put them where. Pure.

A script with an inline block (PEP 723) gets an environment of its own from `uv`. What `requirements.txt` (or the
`[project]` of `pyproject.toml`) names goes into the skill's `.venv`. An environment that the skill brought about by
itself is left alone.
"""

import hashlib
import posixpath
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from openskills.errors import InvalidArgument
from openskills.executors.layout import VENV, WORK
from openskills.executors.staging.pep723 import ScriptMetadata, script_metadata

REQUIREMENTS, PYPROJECT = "requirements.txt", "pyproject.toml"
CACHE = f"{WORK}/.cache/uv"
"""Where uv keeps what it has downloaded and the environments of scripts: in the workspace, and gone with it."""
PROMPT = "openskills"
"""Says in a `.venv` who has made it."""
KEY = f"{VENV}/.openskills-key"

_MAX_FILES = 50
_INCLUDE = re.compile(r"(?:-r|-c|--requirement|--constraint)(?:\s+|\s*=\s*|(?<=-[rc]))(\S.*)")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_PYTHON = re.compile(r"(?:.*/)?python(?:3(?:\.\d+)?)?")
_INSTALL_UV = "install uv where commands can find it (pip install uv), or name the packages in requirements.txt"


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs that install packages, as commands in the workspace find them.

    `index_arguments` say where packages come from, for pip and uv alike; with `--no-index` no network is needed.
    """

    python: str = "python3"
    uv: str | None = None
    index_arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a set-up, in the skill's directory; `downloads` says that it needs the network."""

    argv: tuple[str, ...]
    downloads: bool = False


@dataclass(frozen=True, slots=True)
class SetUp:
    """What has to be done once for a skill or script. `source` is the file that asks for it.

    `key` changes with what is asked for. It is kept in the file `marker`, below the skill's directory, when all is
    done. Without steps nothing can be done, and the warnings say why.
    """

    skill: str
    source: str
    key: str
    marker: str
    steps: tuple[Step, ...]
    warnings: tuple[str, ...] = ()

    @property
    def makes_venv(self) -> bool:
        """Whether it fills the skill's `.venv`."""
        return self.marker == KEY


def plan(
    skill: str,
    files: Mapping[str, bytes],
    *,
    script: str | None = None,
    tools: Tools = Tools(),  # noqa: B008 - frozen
) -> SetUp | None:
    """What has to be installed before a skill's command can run; None when nothing is declared.

    `files` has the skill's files by path, at least those that `declaring` names. `script` is the Python script that
    is to run; when it has a block of its own, that one counts. Raises `InvalidArgument` for a declaration that cannot
    be read.
    """
    metadata = _metadata(files, script) if script is not None else None
    if script is None or metadata is None or not metadata.dependencies:
        return _for_skill(skill, files, tools)
    if tools.uv is not None:
        return _for_script(skill, script, metadata, tools, tools.uv)
    packages = ", ".join(metadata.dependencies)
    warning = f"{script} asks for packages of its own ({packages}), which needs uv; {_INSTALL_UV}"
    own = _for_skill(skill, files, tools) or SetUp(skill, script, "", KEY, ())
    return SetUp(skill, own.source, own.key, own.marker, own.steps, (warning,))


def declaring(files: Mapping[str, bytes]) -> Iterator[str]:
    """The names of the files that declare packages, those that include others first; a missing one is named, too.

    Meant for whoever reads them one by one into `files` while this runs.
    """
    waiting, seen = [REQUIREMENTS], set[str]()
    while waiting and len(seen) < _MAX_FILES:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            yield name
            waiting += _included(name, _text(files, name))
    yield PYPROJECT


def with_uv(argv: Sequence[str], files: Mapping[str, bytes], tools: Tools) -> tuple[str, ...]:
    """The command line that runs a script with a block of its own in the environment that was set up for it.

    It is meant for the skill's directory as the working directory. Any other command line is returned as it is, also
    when there is no uv.
    """
    script = script_of(argv)
    if script is None or tools.uv is None:
        return tuple(argv)
    metadata = _metadata(files, script)
    if metadata is None or not (metadata.dependencies or metadata.requires_python):
        return tuple(argv)
    rest = argv[1:] if argv[0] == script else argv[2:]
    return (tools.uv, "run", "--offline", "--script", script, *rest)


def script_of(argv: Sequence[str]) -> str | None:
    """The Python script that a command line runs, `python3 x.py …` or `./x.py …`; None for anything else."""
    if argv and argv[0].endswith(".py"):
        return argv[0]
    if len(argv) > 1 and _PYTHON.fullmatch(argv[0]) and argv[1].endswith(".py") and not argv[1].startswith("-"):
        return argv[1]
    return None


def uv_environment(root: str) -> dict[str, str]:
    """The variables with which uv works in a workspace that commands see at `root`."""
    return {
        "UV_CACHE_DIR": f"{root}/{CACHE}",
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_CONFIG": "1",
        # The authorities that the machine trusts, which may be more than those of the world; older versions say it so.
        "UV_SYSTEM_CERTS": "1",
        "UV_NATIVE_TLS": "1",
        # The cache and a skill's `.venv` may be on different mounts.
        "UV_LINK_MODE": "copy",
    }


def _metadata(files: Mapping[str, bytes], script: str) -> ScriptMetadata | None:
    name = posixpath.normpath(script)
    # A script may be in another encoding; the block is plain text in all that matter.
    return script_metadata(files.get(name, b"").decode("utf-8", "replace"), name=name)


def _for_script(skill: str, script: str, metadata: ScriptMetadata, tools: Tools, uv: str) -> SetUp:
    sync = (uv, "sync", "--script", script, "--no-progress", *tools.index_arguments)
    key = _digest("script", tools.python, metadata.text)
    name = hashlib.sha256(f"{skill}/{posixpath.normpath(script)}".encode()).hexdigest()[:24]
    return SetUp(skill, script, key, f"{CACHE}/openskills-{name}", (Step(sync, downloads=True),))


def _for_skill(skill: str, files: Mapping[str, bytes], tools: Tools) -> SetUp | None:
    source = REQUIREMENTS if REQUIREMENTS in files else PYPROJECT
    wanted = ("-r", REQUIREMENTS) if source == REQUIREMENTS else _project(files)
    if not wanted or (source == REQUIREMENTS and not _lines(_text(files, REQUIREMENTS))):
        return None
    texts = [part for name in declaring(files) if name != PYPROJECT for part in (name, _text(files, name))]
    key = _digest(source, tools.python, *wanted, *texts)
    empty = Step(("find", VENV, "-mindepth", "1", "-delete"))
    venv = (tools.python, "-m", "venv", "--prompt", PROMPT, *(("--without-pip",) if tools.uv else ()), VENV)
    install = Step((*_installer(tools), *tools.index_arguments, *wanted), downloads=True)
    return SetUp(skill, source, key, KEY, (empty, Step(venv), install))


def _installer(tools: Tools) -> tuple[str, ...]:
    python = f"{VENV}/bin/python"
    if tools.uv:
        return (tools.uv, "pip", "install", "--no-progress", "--python", python)
    quiet = ("--no-input", "--disable-pip-version-check", "--no-cache-dir", "--progress-bar", "off")
    return (python, "-m", "pip", "install", *quiet)


def _project(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """What `[project]` depends on, as arguments for an installer."""
    try:
        table = tomllib.loads(_text(files, PYPROJECT))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidArgument(PYPROJECT, f"is not TOML: {error}") from None
    project: object = table.get("project", {})
    found: object = cast("dict[str, object]", project).get("dependencies", []) if isinstance(project, dict) else []
    names = cast("list[object]", found) if isinstance(found, list) else None
    if names is None or not all(isinstance(name, str) and not name.lstrip().startswith("-") for name in names):
        raise InvalidArgument(PYPROJECT, "`project.dependencies` must be a list of requirements")
    return ("--", *cast("list[str]", names)) if names else ()


def _included(name: str, text: str) -> list[str]:
    """The files that a requirements file includes, by their path in the skill; not those beyond it."""
    found: list[str] = []
    for line in _lines(text):
        match = _INCLUDE.fullmatch(line)
        words = _words(match[1]) if match else []
        if words and "://" not in words[0]:
            found.append(posixpath.normpath(posixpath.join(posixpath.dirname(name), words[0])))
    return [path for path in found if not path.startswith(("/", ".."))]


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def _lines(text: str) -> list[str]:
    joined = text.replace("\r\n", "\n").replace("\\\n", " ")
    return [line for row in joined.split("\n") if (line := _COMMENT.sub("", row).strip())]


def _text(files: Mapping[str, bytes], name: str) -> str:
    try:
        return files.get(name, b"").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgument(name, f"is not UTF-8 (byte {error.start})") from None


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
