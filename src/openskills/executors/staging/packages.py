"""Install the Python packages that a skill declares.

A script with inline metadata (PEP 723) gets its own environment from `uv`:

# /// script
# requires-python = ">=3.11"
# dependencies = ["httpx"]
# ///

`requirements.txt`, or `[project]` of `pyproject.toml`, is installed into the skill's `.venv`; an environment that the
skill made itself is not touched. Installation runs as commands in the workspace, under the same isolation.
"""

import asyncio
import hashlib
import posixpath
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, cast
from weakref import WeakValueDictionary

from openskills.errors import DeadlineExceeded, InvalidArgument, InvalidSkill
from openskills.executors.policy import find_program
from openskills.executors.protocol import Workspace
from openskills.executors.spec import SKILLS, VENV, Command, CommandResult, EndReason, Limits

MAX_BLOCK = 64 * 1024

_START = re.compile(r"# /// ([a-zA-Z0-9-]+)")
_END = "# ///"
_TOML_LINE = re.compile(r"at line (\d+)")


@dataclass(frozen=True, slots=True)
class ScriptMetadata:
    """A parsed inline metadata block. `line` is its first line in the script, `text` its TOML."""

    dependencies: tuple[str, ...]
    requires_python: str | None
    tool: Mapping[str, Any]
    line: int
    text: str = field(repr=False)


def parse_script_metadata(source: str, *, name: str = "script") -> ScriptMetadata | None:
    """Parse the `script` block of a script; None if it has none. Unclosed blocks are ignored.

    Raises `InvalidArgument` with `name` and the line for a second or invalid block.
    """
    found = [(line, content) for line, kind, content in find_blocks(source) if kind == "script"]
    if not found:
        return None
    if len(found) > 1:
        first, second = found[0][0], found[1][0]
        raise _metadata_error(name, second, f"second `script` block, the first is at line {first}; use only one")
    line, content = found[0]
    text = "\n".join(row[2:] if row.startswith("# ") else row[1:] for row in content)
    if len(text) > MAX_BLOCK:
        raise _metadata_error(name, line, f"the `script` block has more than {MAX_BLOCK:,} characters")
    table = _parse_table(text, name, line)

    def error(key: str, expected: str) -> InvalidArgument:
        rows = enumerate(text.split("\n"), 1)
        offset = next((row for row, content in rows if content.lstrip(" \t['\"").startswith(key)), 0)
        return _metadata_error(name, line + offset, f"`{key}` must be {expected}")

    dependencies, python, tool = table.get("dependencies", []), table.get("requires-python"), table.get("tool", {})
    if not isinstance(dependencies, list) or not all(
        isinstance(item, str) for item in cast("list[object]", dependencies)
    ):
        raise error("dependencies", "a list of strings")
    if python is not None and not isinstance(python, str):
        raise error("requires-python", 'a string like ">=3.11"')
    if not isinstance(tool, dict):
        raise error("tool", "a table, with one table for each tool")
    return ScriptMetadata(tuple(cast("list[str]", dependencies)), python, cast("dict[str, Any]", tool), line, text)


def find_blocks(source: str) -> list[tuple[int, str, list[str]]]:
    """The line, type and content of every closed metadata block.

    Finds the same blocks as the regular expression of the specification, which takes quadratic time for a file of
    opening lines: a block ends at the last closing line of its run of comment lines.
    """
    lines = source.replace("\r\n", "\n").split("\n")
    found: list[tuple[int, str, list[str]]] = []
    place = 0
    while place < len(lines):
        match = _START.fullmatch(lines[place])
        if not match:
            place += 1
            continue
        after = place + 1
        while after < len(lines) and (lines[after] == "#" or lines[after].startswith("# ")):
            after += 1
        end = next((row for row in range(after - 1, place + 1, -1) if lines[row] == _END), None)
        if end is not None:
            found.append((place + 1, match[1], lines[place + 1 : end]))
        # The rest of the run has no closing line for another block.
        place = after
    return found


def _parse_table(text: str, name: str, line: int) -> Mapping[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = _TOML_LINE.search(str(error))
        # Without a line number, the error is at the end of the block.
        at = line + (int(where[1]) if where else text.count("\n") + 1)
        message = re.sub(r" \(at .*\)$", "", str(error))
        raise _metadata_error(name, at, f"the `script` block is not valid TOML: {message}") from None
    except RecursionError:
        raise _metadata_error(name, line, "the `script` block is nested too deeply") from None


def _metadata_error(name: str, line: int, message: str) -> InvalidArgument:
    return InvalidArgument(name, f"line {line}: {message}")


REQUIREMENTS, PYPROJECT = "requirements.txt", "pyproject.toml"
CACHE = f"{VENV}/.uv"
"""The cache of uv, with downloads and script environments, below a skill: other skills cannot write there."""
PROMPT = "openskills"
"""The prompt of a `.venv` that we made."""
KEY = f"{VENV}/.openskills-key"

_MAX_FILES = 50
_INCLUDE = re.compile(r"(?:-r|-c|--requirement|--constraint)(?:\s+|\s*=\s*|(?<=-[rc]))(\S.*)")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_PYTHON = re.compile(r"(?:.*/)?python(?:3(?:\.\d+)?)?")
_INSTALL_UV = "install uv where commands can find it (pip install uv), or list the packages in requirements.txt"


@dataclass(frozen=True, slots=True)
class PackageTools:
    """The programs that install packages, as commands in the workspace find them.

    `index_arguments` select the package index, for pip and uv alike; with `--no-index` no network is needed.
    """

    python: str = "python3"
    uv: str | None = None
    index_arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SetupStep:
    """One command of a setup, run in the skill's directory; `downloads` means that it needs the network."""

    argv: tuple[str, ...]
    downloads: bool = False


@dataclass(frozen=True, slots=True)
class SetupPlan:
    """The setup of a skill or script. `source` is the file that declares the packages.

    `key` depends on the declaration, and is written to the file `marker` below the skill's directory at the end.
    Without steps nothing can be installed, and the warnings say why.
    """

    skill: str
    source: str
    key: str
    marker: str
    steps: tuple[SetupStep, ...]
    warnings: tuple[str, ...] = ()

    @property
    def has_venv(self) -> bool:
        """Whether it fills the skill's `.venv`."""
        return self.marker == KEY


def plan_setup(
    skill: str,
    files: Mapping[str, bytes],
    *,
    script: str | None = None,
    tools: PackageTools = PackageTools(),  # noqa: B008 - frozen
) -> SetupPlan | None:
    """Plan the installation for a skill's command; None if nothing is declared.

    `files` has the skill's files by path, at least those of `find_requirement_files`. The inline metadata of `script`
    takes precedence. Raises `InvalidArgument` for an invalid declaration.
    """
    metadata = _read_metadata(files, script) if script is not None else None
    if script is None or metadata is None or not metadata.dependencies:
        return _plan_for_skill(skill, files, tools)
    if tools.uv is not None:
        return _plan_for_script(skill, script, metadata, tools, tools.uv)
    packages = ", ".join(metadata.dependencies)
    warning = f"{script} declares packages ({packages}), which needs uv; {_INSTALL_UV}"
    own = _plan_for_skill(skill, files, tools) or SetupPlan(skill, script, "", KEY, ())
    return SetupPlan(skill, own.source, own.key, own.marker, own.steps, (warning,))


def find_requirement_files(files: Mapping[str, bytes]) -> Iterator[str]:
    """The names of the files that declare packages, including files before included ones; they may be missing.

    The caller reads them one by one into `files` while iterating.
    """
    waiting, seen = [REQUIREMENTS], set[str]()
    while waiting and len(seen) < _MAX_FILES:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            yield name
            waiting += _find_includes(name, _decode_file(files, name))
    yield PYPROJECT


def wrap_with_uv(argv: Sequence[str], files: Mapping[str, bytes], tools: PackageTools) -> tuple[str, ...]:
    """The command line that runs a script with inline metadata in its environment, from the skill's directory.

    Any other command line is returned unchanged, also without uv.
    """
    script = find_script(argv)
    if script is None or tools.uv is None:
        return tuple(argv)
    metadata = _read_metadata(files, script)
    if metadata is None or not (metadata.dependencies or metadata.requires_python):
        return tuple(argv)
    rest = argv[1:] if argv[0] == script else argv[2:]
    return (tools.uv, "run", "--offline", "--script", script, *rest)


def find_script(argv: Sequence[str]) -> str | None:
    """The Python script that a command line runs, `python3 x.py …` or `./x.py …`; None for anything else."""
    if argv and argv[0].endswith(".py"):
        return argv[0]
    if len(argv) > 1 and _PYTHON.fullmatch(argv[0]) and argv[1].endswith(".py") and not argv[1].startswith("-"):
        return argv[1]
    return None


def build_uv_environment(root: str, skill: str) -> dict[str, str]:
    """The variables for uv and a skill, in a workspace that commands see at `root`."""
    return {
        "UV_CACHE_DIR": f"{root}/{SKILLS}/{skill}/{CACHE}",
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_CONFIG": "1",
        # Also trust the machine's own certificate authorities; the second name is for older versions.
        "UV_SYSTEM_CERTS": "1",
        "UV_NATIVE_TLS": "1",
        "UV_LINK_MODE": "copy",
    }


def _read_metadata(files: Mapping[str, bytes], script: str) -> ScriptMetadata | None:
    name = posixpath.normpath(script)
    # The script may have another encoding; the block is ASCII in all common ones.
    return parse_script_metadata(files.get(name, b"").decode("utf-8", "replace"), name=name)


def _plan_for_script(skill: str, script: str, metadata: ScriptMetadata, tools: PackageTools, uv: str) -> SetupPlan:
    sync = (uv, "sync", "--script", script, "--no-progress", *tools.index_arguments)
    key = _compute_digest("script", tools.python, metadata.text)
    name = hashlib.sha256(f"{skill}/{posixpath.normpath(script)}".encode()).hexdigest()[:24]
    return SetupPlan(skill, script, key, f"{CACHE}/openskills-{name}", (SetupStep(sync, downloads=True),))


def _plan_for_skill(skill: str, files: Mapping[str, bytes], tools: PackageTools) -> SetupPlan | None:
    source = REQUIREMENTS if REQUIREMENTS in files else PYPROJECT
    wanted = ("-r", REQUIREMENTS) if source == REQUIREMENTS else _read_project_requirements(files)
    if not wanted or (source == REQUIREMENTS and not _split_lines(_decode_file(files, REQUIREMENTS))):
        return None
    names = (name for name in find_requirement_files(files) if name != PYPROJECT)
    texts = [part for name in names for part in (name, _decode_file(files, name))]
    key = _compute_digest(source, tools.python, *wanted, *texts)
    empty = SetupStep(("find", VENV, "-mindepth", "1", "-delete"))
    venv = (tools.python, "-m", "venv", "--prompt", PROMPT, *(("--without-pip",) if tools.uv else ()), VENV)
    python = f"{VENV}/bin/python"
    if tools.uv:
        installer = (tools.uv, "pip", "install", "--no-progress", "--python", python)
    else:
        quiet = ("--no-input", "--disable-pip-version-check", "--no-cache-dir", "--progress-bar", "off")
        installer = (python, "-m", "pip", "install", *quiet)
    install = SetupStep((*installer, *tools.index_arguments, *wanted), downloads=True)
    return SetupPlan(skill, source, key, KEY, (empty, SetupStep(venv), install))


def _read_project_requirements(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The dependencies of `[project]`, as arguments for an installer."""
    try:
        table = tomllib.loads(_decode_file(files, PYPROJECT))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidArgument(PYPROJECT, f"is not valid TOML: {error}") from None
    project: object = table.get("project", {})
    found: object = cast("dict[str, object]", project).get("dependencies", []) if isinstance(project, dict) else []
    names = cast("list[object]", found) if isinstance(found, list) else None
    if names is None or not all(isinstance(name, str) and not name.lstrip().startswith("-") for name in names):
        raise InvalidArgument(PYPROJECT, "`project.dependencies` must be a list of requirements")
    return ("--", *cast("list[str]", names)) if names else ()


def _find_includes(name: str, text: str) -> list[str]:
    """The files in the skill that a requirements file includes."""
    found: list[str] = []
    for line in _split_lines(text):
        match = _INCLUDE.fullmatch(line)
        words = _split_words(match[1]) if match else []
        if words and "://" not in words[0]:
            found.append(posixpath.normpath(posixpath.join(posixpath.dirname(name), words[0])))
    return [path for path in found if not path.startswith(("/", ".."))]


def _split_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def _split_lines(text: str) -> list[str]:
    joined = text.replace("\r\n", "\n").replace("\\\n", " ")
    return [line for row in joined.split("\n") if (line := _COMMENT.sub("", row).strip())]


def _decode_file(files: Mapping[str, bytes], name: str) -> str:
    try:
        return files.get(name, b"").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgument(name, f"is not UTF-8 (byte {error.start})") from None


def _compute_digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


MAX_FILE = 1024 * 1024
LIMITS = Limits(timeout=900.0, output_bytes=64 * 1024)
"""The limits of each command of a setup."""

_TEMPORARY = f"{VENV}/.tmp"
_WITH_TEMPORARY = 'mkdir -p "$1" && export TMPDIR="$1" && shift && exec "$@"'
_LAST_LINES = 20
_NOTE = 'mkdir -p "$(dirname "$1")" && printf %s "$2" > "$1"'
_busy: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class SetupResult:
    """The result of a setup. `ready`: the packages are installed; `changed`: they were installed just now."""

    ready: bool
    changed: bool
    log: str = ""
    warnings: tuple[str, ...] = ()


async def read_requirement_files(workspace: Workspace, skill: str, *scripts: str) -> dict[str, bytes]:
    """Read the existing files of a staged skill that declare packages, and these scripts."""
    found: dict[str, bytes] = {}
    for name in chain(scripts, find_requirement_files(found)):
        data = await _read_skill_file(workspace, skill, name)
        if data is not None:
            found[name] = data
    return found


async def run_setup(
    workspace: Workspace, plan: SetupPlan, *, allowed_network: Sequence[str] = (), limits: Limits = LIMITS
) -> SetupResult:
    """Run a plan unless it is done already. Calls for the same skill wait for each other.

    Only downloads get the network, and only to the hosts of `allowed_network` (see `allowlist.py`); without hosts
    nothing is downloaded, with a warning. An interrupted setup starts over; a `.venv` that the skill made is not
    touched. Raises `InvalidSkill` with the last output lines if it fails, `DeadlineExceeded` if it takes too long.
    """
    if not plan.steps:
        return SetupResult(ready=False, changed=False, warnings=plan.warnings)
    lock = _busy.setdefault((workspace.id, plan.skill), asyncio.Lock())
    async with lock:
        if await is_setup_done(workspace, plan):
            return SetupResult(ready=True, changed=False, warnings=plan.warnings)
        reason = await _find_obstacle(workspace, plan, allowed_network)
        if reason:
            return SetupResult(ready=False, changed=False, warnings=(*plan.warnings, reason))
        log = await _install(workspace, plan, tuple(allowed_network), limits)
    return SetupResult(ready=True, changed=True, log=log, warnings=plan.warnings)


async def is_setup_done(workspace: Workspace, plan: SetupPlan) -> bool:
    """Whether a plan has been completed."""
    return await _read_skill_file(workspace, plan.skill, plan.marker) == plan.key.encode()


async def _find_obstacle(workspace: Workspace, plan: SetupPlan, allowed_network: Sequence[str]) -> str:
    if plan.has_venv and await _is_foreign_venv(workspace, plan.skill):
        return f"{plan.source} was not installed: {plan.skill} has its own {VENV}"
    if not allowed_network and any(step.downloads and "--no-index" not in step.argv for step in plan.steps):
        return f"{plan.source} was not installed: setup has no network access; allow the hosts of a package index"
    return ""


async def _is_foreign_venv(workspace: Workspace, skill: str) -> bool:
    """Whether `.venv` is not empty and was not made by us."""
    config = await _read_skill_file(workspace, skill, f"{VENV}/pyvenv.cfg")
    if config is not None:
        return f"prompt = '{PROMPT}'".encode() not in config
    found = await workspace.list([f"{SKILLS}/{skill}/{VENV}/{name}" for name in ("[!.]*", "[!.]*/**")], limit=1)
    return bool(found.files)


async def _install(workspace: Workspace, plan: SetupPlan, network: tuple[str, ...], limits: Limits) -> str:
    note = SetupStep(("sh", "-c", _NOTE, "sh", plan.marker, plan.key))
    steps = (*plan.steps, SetupStep(("rm", "-rf", _TEMPORARY)), note)
    return "".join([await _run_step(workspace, plan, step, network, limits) for step in steps])


async def _run_step(
    workspace: Workspace, plan: SetupPlan, step: SetupStep, network: tuple[str, ...], limits: Limits
) -> str:
    # Unpacked packages can be larger than the temporary directory of a sandbox.
    temporary = f"{workspace.root}/{SKILLS}/{plan.skill}/{_TEMPORARY}"
    argv = ("sh", "-c", _WITH_TEMPORARY, "sh", temporary, *step.argv) if step.downloads else step.argv
    command = Command(
        argv,
        skill=plan.skill,
        cwd=f"{SKILLS}/{plan.skill}",
        env=build_uv_environment(workspace.root, plan.skill),
        limits=limits,
        network=network if step.downloads else (),
    )
    process = await workspace.start(command)
    try:
        ended = await process.wait()
    except BaseException:
        # Cancelled: it must not keep running.
        await process.kill()
        raise
    return _check_step(ended, plan, step)


def _check_step(ended: CommandResult, plan: SetupPlan, step: SetupStep) -> str:
    log = ended.stdout.text() + ended.stderr.text()
    last_lines = "\n".join(log.rstrip().split("\n")[-_LAST_LINES:])
    what = f"{plan.skill}: cannot install {plan.source}"
    if ended.ending is EndReason.TIMED_OUT:
        raise DeadlineExceeded(f"{what}: `{step.argv[0]}` timed out\n{last_lines}")
    if ended.exit_code:
        reason = ended.detail or f"`{' '.join(step.argv[:4])}` failed with exit code {ended.exit_code}"
        raise InvalidSkill(f"{what}: {reason}\n{last_lines}")
    return log


async def _read_skill_file(workspace: Workspace, skill: str, name: str) -> bytes | None:
    try:
        async with workspace.open(f"{SKILLS}/{skill}/{name}") as reading:
            size = reading.info.size
            if size <= MAX_FILE:
                return b"".join([chunk async for chunk in reading.chunks])
    except InvalidArgument:
        return None
    raise InvalidArgument(name, f"has {size:,} bytes; the maximum for a file that declares packages is {MAX_FILE:,}")


_SCRIPT_FIRST = re.compile(r"\s*(?:python(?:3(?:\.\d+)?)?\s+)?[\w./-]+\.py(?=\s|$)")


@dataclass(frozen=True, slots=True)
class CommandRewrite:
    """The command line and variables that run a script with its packages."""

    argv: tuple[str, ...]
    env: dict[str, str]


class PackageInstaller:
    """Installs packages in one workspace. `index_arguments` select the package index, as for pip and uv."""

    def __init__(self, workspace: Workspace, *, index_arguments: tuple[str, ...] = ()) -> None:
        self._workspace = workspace
        self._index_arguments = index_arguments
        self._tools: PackageTools | None = None
        self._plain: set[tuple[str, str, str]] = set()

    def with_index(self, arguments: tuple[str, ...]) -> "PackageInstaller":
        """The same workspace with packages from another index."""
        if arguments == self._index_arguments:
            return self
        return PackageInstaller(self._workspace, index_arguments=arguments)

    async def get_status(self, skill: str, *, script: str | None = None) -> SetupResult | None:
        """The result of `install` if there is nothing to do or nothing can be done; None if it would install."""
        found = await self._plan_setup(skill, script)
        if found is None or not found.steps:
            return SetupResult(ready=found is None, changed=False, warnings=found.warnings if found else ())
        done = await is_setup_done(self._workspace, found)
        return SetupResult(ready=True, changed=False, warnings=found.warnings) if done else None

    async def install(self, skill: str, *, script: str | None = None, network: Sequence[str] = ()) -> SetupResult:
        """Install the packages that a staged skill, or one of its scripts, declares, unless that is done.

        `network` is only for the installation. Raises `InvalidSkill` with the last output lines if it fails.
        """
        found = await self._plan_setup(skill, script)
        if found is None:
            return SetupResult(ready=True, changed=False)
        return await run_setup(self._workspace, found, allowed_network=network)

    async def rewrite_command(
        self, skill: str, digest: str, wanted: str | tuple[str, ...], cwd: str
    ) -> CommandRewrite | None:
        """Rewrite a command whose script has inline metadata (PEP 723) to run with uv; None for other commands."""
        argv, rest = _split_command(wanted)
        script = find_script(argv)
        if script is None or cwd != f"{SKILLS}/{skill}" or (skill, digest, script) in self._plain:
            return None
        files = await read_requirement_files(self._workspace, skill, script)
        # Looking for uv starts a process, so only a script with a block pays for it.
        has_block = b"# /// script" in files.get(script, b"")
        changed = wrap_with_uv(argv, files, await self._find_tools()) if has_block else argv
        if changed == argv:
            # A snapshot never changes.
            self._plain.add((skill, digest, script))
            return None
        if isinstance(wanted, str):
            # Still run by a shell, for variables and pipes.
            changed = ("bash", "-c", shlex.join(changed) + rest)
        return CommandRewrite(changed, build_uv_environment(self._workspace.root, skill))

    async def _plan_setup(self, skill: str, script: str | None) -> SetupPlan | None:
        files = await read_requirement_files(self._workspace, skill, *([script] if script else []))
        return plan_setup(skill, files, script=script, tools=await self._find_tools())

    async def _find_tools(self) -> PackageTools:
        if self._tools is None:
            uv = await find_program(self._workspace, ("uv",), Command(("uv",), run_dir="runs/set-up"))
            self._tools = PackageTools(uv=uv.file if uv else None, index_arguments=self._index_arguments)
        return self._tools


def _split_command(wanted: str | tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The leading words of a command, and for a shell command the text after them."""
    if not isinstance(wanted, str):
        return wanted, ""
    match = _SCRIPT_FIRST.match(wanted)
    return (tuple(match[0].split()), wanted[match.end() :]) if match else ((), "")
