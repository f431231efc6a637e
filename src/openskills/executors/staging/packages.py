"""Requirements, PEP 723, uv.

Inline script metadata (PEP 723): what a Python script says about the packages that it needs. Pure.

# /// script
# requires-python = ">=3.11"
# dependencies = ["httpx"]
# ///

How a skill gets the Python packages that it declares: which commands put them where. Pure.

A script with an inline block (PEP 723) gets an environment of its own from `uv`. What `requirements.txt` (or the
`[project]` of `pyproject.toml`) names goes into the skill's `.venv`. An environment that the skill brought about by
itself is left alone.

Installing what a skill declares, by commands in its workspace, so under the same isolation as everything else.

The packages of a session's skills: installed when the caller allows it, used when a script asks for them.
"""

import asyncio
import hashlib
import posixpath
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from weakref import WeakValueDictionary

from openskills.errors import DeadlineExceeded, InvalidArgument, InvalidSkill
from openskills.executors.policy import find_program_path
from openskills.executors.protocol import Workspace
from openskills.executors.spec import SKILLS, VENV, WORK, Command, CommandResult, EndReason, Limits

MAX_BLOCK = 64 * 1024

_START = re.compile(r"# /// ([a-zA-Z0-9-]+)")
_END = "# ///"
_TOML_LINE = re.compile(r"at line (\d+)")


@dataclass(frozen=True, slots=True)
class ScriptMetadata:
    """What the block says. `line` is where it begins in the script, `text` is its TOML."""

    dependencies: tuple[str, ...]
    requires_python: str | None
    tool: Mapping[str, Any]
    line: int
    text: str = field(repr=False)


def parse_script_metadata(source: str, *, name: str = "script") -> ScriptMetadata | None:
    """What a script's `script` block says; None when it has none. A block that is not closed is not one.

    Raises `InvalidArgument` with `name` and the line for a second block and for one that is not what the
    specification says.
    """
    found = [(line, content) for line, kind, content in find_blocks(source) if kind == "script"]
    if not found:
        return None
    if len(found) > 1:
        first, second = found[0][0], found[1][0]
        raise _metadata_error(name, second, f"there is a `script` block at line {first} already; a script has one")
    line, content = found[0]
    text = "\n".join(row[2:] if row.startswith("# ") else row[1:] for row in content)
    if len(text) > MAX_BLOCK:
        raise _metadata_error(name, line, f"the `script` block has more than {MAX_BLOCK:,} characters")
    table = _parse_table(text, name, line)
    return ScriptMetadata(
        _read_dependencies(table, text, name, line),
        _read_requires_python(table, text, name, line),
        _read_tool(table, text, name, line),
        line,
        text,
    )


def find_blocks(source: str) -> list[tuple[int, str, list[str]]]:
    """The line, type and content of every closed block of metadata.

    The specification gives a regular expression, which needs quadratic time for a file of opening lines. This finds
    the same: a block ends at the last closing line of the run of comment lines that it begins.
    """
    lines = source.replace("\r\n", "\n").split("\n")
    found: list[tuple[int, str, list[str]]] = []
    place = 0
    while place < len(lines):
        match = _START.fullmatch(lines[place])
        if not match:
            place += 1
            continue
        after = _find_run_end(lines, place + 1)
        end = next((row for row in range(after - 1, place + 1, -1) if lines[row] == _END), None)
        if end is not None:
            found.append((place + 1, match[1], lines[place + 1 : end]))
        # What is left of the run after the end, or all of it without one, has no closing line for another block.
        place = after
    return found


def _find_run_end(lines: list[str], place: int) -> int:
    while place < len(lines) and (lines[place] == "#" or lines[place].startswith("# ")):
        place += 1
    return place


def _parse_table(text: str, name: str, line: int) -> Mapping[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = _TOML_LINE.search(str(error))
        # Without a number it is the end of the block.
        at = line + (int(where[1]) if where else text.count("\n") + 1)
        message = re.sub(r" \(at .*\)$", "", str(error))
        raise _metadata_error(name, at, f"the `script` block is not TOML: {message}") from None
    except RecursionError:
        raise _metadata_error(name, line, "the `script` block is nested too deeply") from None


def _read_dependencies(table: Mapping[str, object], text: str, name: str, line: int) -> tuple[str, ...]:
    value = table.get("dependencies", [])
    items = cast("list[object]", value) if isinstance(value, list) else None
    if items is None or not all(isinstance(item, str) for item in items):
        raise _metadata_error(name, _find_line("dependencies", text, line), "`dependencies` must be a list of strings")
    return tuple(cast("list[str]", items))


def _read_requires_python(table: Mapping[str, object], text: str, name: str, line: int) -> str | None:
    value = table.get("requires-python")
    if value is not None and not isinstance(value, str):
        raise _metadata_error(
            name, _find_line("requires-python", text, line), '`requires-python` must be a string like ">=3.11"'
        )
    return value


def _read_tool(table: Mapping[str, object], text: str, name: str, line: int) -> Mapping[str, Any]:
    value = table.get("tool", {})
    if not isinstance(value, dict):
        raise _metadata_error(
            name, _find_line("tool", text, line), "`tool` must be a table, with one table for each tool"
        )
    return cast("dict[str, Any]", value)


def _find_line(key: str, text: str, line: int) -> int:
    """The line of the script on which a key stands; the first of the block when it cannot be told."""
    rows = text.split("\n")
    return line + next((row for row, content in enumerate(rows, 1) if content.lstrip(" \t['\"").startswith(key)), 0)


def _metadata_error(name: str, line: int, message: str) -> InvalidArgument:
    return InvalidArgument(name, f"line {line}: {message}")


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
class PackageTools:
    """The programs that install packages, as commands in the workspace find them.

    `index_arguments` say where packages come from, for pip and uv alike; with `--no-index` no network is needed.
    """

    python: str = "python3"
    uv: str | None = None
    index_arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SetupStep:
    """One command of a set-up, in the skill's directory; `downloads` says that it needs the network."""

    argv: tuple[str, ...]
    downloads: bool = False


@dataclass(frozen=True, slots=True)
class SetupPlan:
    """What has to be done once for a skill or script. `source` is the file that asks for it.

    `key` changes with what is asked for. It is kept in the file `marker`, below the skill's directory, when all is
    done. Without steps nothing can be done, and the warnings say why.
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
    """What has to be installed before a skill's command can run; None when nothing is declared.

    `files` has the skill's files by path, at least those that `declaring` names. `script` is the Python script that
    is to run; when it has a block of its own, that one counts. Raises `InvalidArgument` for a declaration that cannot
    be read.
    """
    metadata = _read_metadata(files, script) if script is not None else None
    if script is None or metadata is None or not metadata.dependencies:
        return _plan_for_skill(skill, files, tools)
    if tools.uv is not None:
        return _plan_for_script(skill, script, metadata, tools, tools.uv)
    packages = ", ".join(metadata.dependencies)
    warning = f"{script} asks for packages of its own ({packages}), which needs uv; {_INSTALL_UV}"
    own = _plan_for_skill(skill, files, tools) or SetupPlan(skill, script, "", KEY, ())
    return SetupPlan(skill, own.source, own.key, own.marker, own.steps, (warning,))


def find_requirement_files(files: Mapping[str, bytes]) -> Iterator[str]:
    """The names of the files that declare packages, those that include others first; a missing one is named, too.

    Meant for whoever reads them one by one into `files` while this runs.
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
    """The command line that runs a script with a block of its own in the environment that was set up for it.

    It is meant for the skill's directory as the working directory. Any other command line is returned as it is, also
    when there is no uv.
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


def build_uv_environment(root: str) -> dict[str, str]:
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


def _read_metadata(files: Mapping[str, bytes], script: str) -> ScriptMetadata | None:
    name = posixpath.normpath(script)
    # A script may be in another encoding; the block is plain text in all that matter.
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
    texts = [
        part
        for name in find_requirement_files(files)
        if name != PYPROJECT
        for part in (name, _decode_file(files, name))
    ]
    key = _compute_digest(source, tools.python, *wanted, *texts)
    empty = SetupStep(("find", VENV, "-mindepth", "1", "-delete"))
    venv = (tools.python, "-m", "venv", "--prompt", PROMPT, *(("--without-pip",) if tools.uv else ()), VENV)
    install = SetupStep((*_build_installer_argv(tools), *tools.index_arguments, *wanted), downloads=True)
    return SetupPlan(skill, source, key, KEY, (empty, SetupStep(venv), install))


def _build_installer_argv(tools: PackageTools) -> tuple[str, ...]:
    python = f"{VENV}/bin/python"
    if tools.uv:
        return (tools.uv, "pip", "install", "--no-progress", "--python", python)
    quiet = ("--no-input", "--disable-pip-version-check", "--no-cache-dir", "--progress-bar", "off")
    return (python, "-m", "pip", "install", *quiet)


def _read_project_requirements(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """What `[project]` depends on, as arguments for an installer."""
    try:
        table = tomllib.loads(_decode_file(files, PYPROJECT))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidArgument(PYPROJECT, f"is not TOML: {error}") from None
    project: object = table.get("project", {})
    found: object = cast("dict[str, object]", project).get("dependencies", []) if isinstance(project, dict) else []
    names = cast("list[object]", found) if isinstance(found, list) else None
    if names is None or not all(isinstance(name, str) and not name.lstrip().startswith("-") for name in names):
        raise InvalidArgument(PYPROJECT, "`project.dependencies` must be a list of requirements")
    return ("--", *cast("list[str]", names)) if names else ()


def _find_includes(name: str, text: str) -> list[str]:
    """The files that a requirements file includes, by their path in the skill; not those beyond it."""
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
"""What each command of a set-up may use."""

_TEMPORARY = "work/.cache/tmp"
_LAST_LINES = 20
_NOTE = 'mkdir -p "$(dirname "$1")" && printf %s "$2" > "$1"'
_busy: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class SetupResult:
    """What a set-up has come to. `changed`: packages were installed just now; `ready`: they are there."""

    ready: bool
    changed: bool
    log: str = ""
    warnings: tuple[str, ...] = ()


async def read_requirement_files(workspace: Workspace, skill: str, *scripts: str) -> dict[str, bytes]:
    """The files of a staged skill that declare packages, and these scripts, as far as they are there."""
    found: dict[str, bytes] = {}
    for name in scripts:
        await _add_file(workspace, skill, name, found)
    for name in find_requirement_files(found):
        await _add_file(workspace, skill, name, found)
    return found


async def run_setup(
    workspace: Workspace, plan: SetupPlan, *, allowed_network: Sequence[str] = (), limits: Limits = LIMITS
) -> SetupResult:
    """Do what a plan says, unless that is done already. Two calls for one skill wait for each other.

    Only downloads get the network, and only to the hosts of `allowed_network` (see `hosts.py`). Without any nothing is
    downloaded, and a warning says so. What was broken off is done again from its start; a `.venv` that somebody else
    made is left alone. Raises `InvalidSkill` with the last lines when an installation fails, `DeadlineExceeded` when
    it takes too long.
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
    """Whether everything that a plan says is done."""
    return await _read_skill_file(workspace, plan.skill, plan.marker) == plan.key.encode()


async def _find_obstacle(workspace: Workspace, plan: SetupPlan, allowed_network: Sequence[str]) -> str:
    if plan.has_venv and await _is_foreign_venv(workspace, plan.skill):
        return f"{plan.source} was not installed: {plan.skill} has a {VENV} that it has made itself"
    if not allowed_network and any(step.downloads and "--no-index" not in step.argv for step in plan.steps):
        return f"{plan.source} was not installed: set-up has no network; allow it the hosts of a package index"
    return ""


async def _is_foreign_venv(workspace: Workspace, skill: str) -> bool:
    """Whether something is in `.venv`, and not an environment of ours, whole or broken off."""
    config = await _read_skill_file(workspace, skill, f"{VENV}/pyvenv.cfg")
    if config is not None:
        return f"prompt = '{PROMPT}'".encode() not in config
    return bool((await workspace.list([f"{SKILLS}/{skill}/{VENV}/**"], limit=1)).files)


async def _install(workspace: Workspace, plan: SetupPlan, network: tuple[str, ...], limits: Limits) -> str:
    note = SetupStep(("sh", "-c", _NOTE, "sh", plan.marker, plan.key))
    await workspace.make_directory(_TEMPORARY)
    try:
        return "".join([await _run_step(workspace, plan, step, network, limits) for step in (*plan.steps, note)])
    finally:
        await workspace.remove(_TEMPORARY)


async def _run_step(
    workspace: Workspace, plan: SetupPlan, step: SetupStep, network: tuple[str, ...], limits: Limits
) -> str:
    # What is unpacked on the way can be larger than the temporary directory of a sandbox.
    argv = ("env", f"TMPDIR={workspace.root}/{_TEMPORARY}", *step.argv)
    command = Command(
        argv,
        skill=plan.skill,
        cwd=f"{SKILLS}/{plan.skill}",
        env=build_uv_environment(workspace.root),
        limits=limits,
        network=network if step.downloads else (),
    )
    process = await workspace.start(command)
    try:
        ended = await process.wait()
    except BaseException:
        # Cancelled: nobody waits for it any more, and nobody may find it at work.
        await process.kill()
        raise
    return _check_step(ended, plan, step)


def _check_step(ended: CommandResult, plan: SetupPlan, step: SetupStep) -> str:
    log = ended.stdout.text() + ended.stderr.text()
    what = f"{plan.skill}: {plan.source} cannot be installed"
    if ended.ending is EndReason.TIMED_OUT:
        raise DeadlineExceeded(f"{what}: `{step.argv[0]}` took more than its time\n{_take_last_lines(log)}")
    if ended.exit_code:
        said = ended.detail or f"`{' '.join(step.argv[:4])}` ended with {ended.exit_code}"
        raise InvalidSkill(f"{what}: {said}\n{_take_last_lines(log)}")
    return log


def _take_last_lines(log: str) -> str:
    return "\n".join(log.rstrip().split("\n")[-_LAST_LINES:])


async def _add_file(workspace: Workspace, skill: str, name: str, found: dict[str, bytes]) -> None:
    data = await _read_skill_file(workspace, skill, name)
    if data is not None:
        found[name] = data


async def _read_skill_file(workspace: Workspace, skill: str, name: str) -> bytes | None:
    try:
        async with workspace.open(f"{SKILLS}/{skill}/{name}") as reading:
            size = reading.info.size
            if size <= MAX_FILE:
                return b"".join([chunk async for chunk in reading.chunks])
    except InvalidArgument:
        return None
    raise InvalidArgument(name, f"has {size:,} bytes, and {MAX_FILE:,} is the most for a file that declares packages")


_SCRIPT_FIRST = re.compile(r"\s*(?:python(?:3(?:\.\d+)?)?\s+)?[\w./-]+\.py(?=\s|$)")


@dataclass(frozen=True, slots=True)
class CommandRewrite:
    """A command as it is to be run so that its script finds its packages, and the variables for that."""

    argv: tuple[str, ...]
    env: dict[str, str]


class PackageInstaller:
    """Looks after one workspace. `index_arguments` say where packages come from, as pip and uv understand them."""

    def __init__(self, workspace: Workspace, *, index_arguments: tuple[str, ...] = ()) -> None:
        self._workspace = workspace
        self._index_arguments = index_arguments
        self._tools: PackageTools | None = None
        self._plain: set[tuple[str, str, str]] = set()

    def with_index(self, arguments: tuple[str, ...]) -> "PackageInstaller":
        """The same workspace with packages from another index."""
        return (
            self if arguments == self._index_arguments else PackageInstaller(self._workspace, index_arguments=arguments)
        )

    async def get_status(self, skill: str, *, script: str | None = None) -> SetupResult | None:
        """What `install` would say when it has nothing to do, or can do nothing; None when there is something."""
        found = await self._plan_setup(skill, script)
        if found is None or not found.steps:
            return SetupResult(ready=found is None, changed=False, warnings=found.warnings if found else ())
        done = await is_setup_done(self._workspace, found)
        return SetupResult(ready=True, changed=False, warnings=found.warnings) if done else None

    async def install(self, skill: str, *, script: str | None = None, network: Sequence[str] = ()) -> SetupResult:
        """Install what a staged skill declares, or one script of it, unless that is done; `network` for this only.

        Raises `InvalidSkill` with the last lines of an installation that failed.
        """
        found = await self._plan_setup(skill, script)
        if found is None:
            return SetupResult(ready=True, changed=False)
        return await run_setup(self._workspace, found, allowed_network=network)

    async def rewrite_command(
        self, skill: str, digest: str, wanted: str | tuple[str, ...], cwd: str
    ) -> CommandRewrite | None:
        """A command whose script has a block of its own (PEP 723), run by uv; None for every other command."""
        argv, rest = _split_command(wanted)
        script = find_script(argv)
        if script is None or cwd != f"{SKILLS}/{skill}" or (skill, digest, script) in self._plain:
            return None
        files = await read_requirement_files(self._workspace, skill, script)
        changed = wrap_with_uv(argv, files, await self._find_tools())
        if changed == argv:
            # What a snapshot does not ask for it never will.
            self._plain.add((skill, digest, script))
            return None
        if isinstance(wanted, str):
            # Still given to a shell, which may have variables to fill in and pipes to connect.
            changed = ("bash", "-c", shlex.join(changed) + rest)
        return CommandRewrite(changed, build_uv_environment(self._workspace.root))

    async def _plan_setup(self, skill: str, script: str | None) -> SetupPlan | None:
        files = await read_requirement_files(self._workspace, skill, *([script] if script else []))
        return plan_setup(skill, files, script=script, tools=await self._find_tools())

    async def _find_tools(self) -> PackageTools:
        if self._tools is None:
            uv = await find_program_path(self._workspace, ("uv",), Command(("uv",), run_dir="runs/set-up"))
            self._tools = PackageTools(uv=uv, index_arguments=self._index_arguments)
        return self._tools


def _split_command(wanted: str | tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The words of a command that matter here, and of text what comes after them."""
    if not isinstance(wanted, str):
        return wanted, ""
    match = _SCRIPT_FIRST.match(wanted)
    return (tuple(match[0].split()), wanted[match.end() :]) if match else ((), "")
