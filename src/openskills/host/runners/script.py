"""Calls scripts of SKILL.md folders (`cli:script`): command-line arguments, stdin and files in; output and files out.

Each call has a workspace of its own, in which the script starts in a writable copy of the skill's folder, without
network. The workspace is removed after the call. The input of a call has these fields, and one for each argument that
is known (`ScriptArgument`):

| field | value |
|---|---|
| `args` | a list of command-line arguments |
| `stdin` | text for standard input |
| `files` | input files by name: the text, or `{"base64": ...}`, or an item of `files` of an earlier result |

An argument that is the name of a file of the call is replaced by its path.
"""

import ast
import asyncio
import base64
import binascii
import json
import os
import re
import shlex
import shutil
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from openskills.artifacts.store import Scope
from openskills.errors import BadSkillOutput, ExecutorUnavailable, InvalidArgument, SkillError
from openskills.executors.commands import CommandRules, CommandRunner, open_command_runner
from openskills.executors.files.mime import is_text
from openskills.executors.open import open_executor
from openskills.executors.policy import CommandPolicy
from openskills.executors.protocol import Executor, Process
from openskills.executors.requests import PackageOptions, RunRequest, RunResult
from openskills.executors.spec import (
    INPUTS,
    SKILLS,
    EndReason,
    Isolation,
    Limits,
    OutputStream,
    PackageEnvironment,
)
from openskills.executors.staging.outputs import OutputFile, OutputSpec
from openskills.executors.zygote import WorkerTimeout
from openskills.filesystem import remove_unused, replace_file
from openskills.host.model import (
    Call,
    ManifestFault,
    Outcome,
    Registration,
    SkillOutputEvent,
    failure_outcome,
    success_outcome,
)
from openskills.host.runners.isolation import to_process_limits
from openskills.host.runners.output import (
    LiveLines,
    RawSkillOutput,
    describe_exit,
    excerpt,
    timeout_outcome,
    to_exit_code,
)
from openskills.host.runners.program import STDERR_BYTES, SkillSlots, read_arguments
from openskills.host.runners.python import find_imports
from openskills.paths import parse_relative
from openskills.settings import Settings
from openskills.sync import run

ARGS, STDIN, FILES = "args", "stdin", "files"
MAX_SOURCE_BYTES = 256 * 1024
"""What is read of a script to find out how it is started; a larger one counts as a script."""
_INTERPRETERS = {
    ".py": "python3",
    ".sh": "bash",
    ".bash": "bash",
    ".js": "node",
    ".mjs": "node",
    ".cjs": "node",
}
_MAX_FILES = 100
_MAX_MESSAGE = 300
_APP = "openskills-host"


@dataclass(frozen=True, slots=True)
class ScriptArgument:
    """An argument of a script as a field of its input.

    `flag` is the option (`--dpi`), or empty for a positional argument. `takes` is `nothing` for a switch, `value`, or
    `values` for several words after one option, or for several positional arguments.
    """

    name: str
    flag: str = ""
    takes: str = "value"


@dataclass(frozen=True, slots=True)
class ScriptProgram:
    """How a script is started, and what it says about itself without being run."""

    command: tuple[str, ...]
    about: str = ""


def inspect_script(folder: Path, path: str, search_path: str) -> ScriptProgram | str:
    """How to start the file `path` of a skill's folder, or why it is not a script. The file is read, but not run."""
    name = path.rpartition("/")[2]
    if name.startswith("_"):
        return "its name starts with an underscore" if name != "__init__.py" else "it only marks a package"
    try:
        with open(folder / path, "rb") as file:
            data = file.read(MAX_SOURCE_BYTES)
            executable = bool(os.fstat(file.fileno()).st_mode & 0o111)
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    suffix = Path(name).suffix.lower()
    shebang = _read_shebang(data)
    if suffix == ".py":
        return _inspect_python(path, data, has_shebang=bool(shebang))
    if suffix in _INTERPRETERS:
        if _INTERPRETERS[suffix] == "node" and not shebang and _is_node_module(data):
            return "it only exports names for other scripts"
        words: tuple[str, ...] = (_INTERPRETERS[suffix],)
    elif data.startswith(b"\x7fELF") and executable:
        return ScriptProgram((f"./{path}",))
    elif shebang:
        words = shebang
    else:
        return "it is not a program: it has no shebang line and no known extension"
    if words[0] != "python3" and shutil.which(words[0], path=search_path) is None:
        return f"it needs {words[0]}, which is not installed"
    return ScriptProgram((*words, path), _read_comment(data))


def _read_shebang(data: bytes) -> tuple[str, ...]:
    """The words of the first line after `#!`, with programs found by name: `/usr/bin/env -S uv run` is `uv run`."""
    if not data.startswith(b"#!"):
        return ()
    try:
        words = shlex.split(data[2:].partition(b"\n")[0].decode())
    except ValueError:
        return ()
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if word != "-S"]
    if not words or "=" in words[0] or words[0].startswith("-"):
        return ()
    return (os.path.basename(words[0]), *words[1:])


_MODULE_RUN = (ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Match)


def _inspect_python(path: str, data: bytes, *, has_shebang: bool) -> ScriptProgram | str:
    if len(data) >= MAX_SOURCE_BYTES:
        return ScriptProgram(("python3", path))
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"it is not valid Python: {error or 'too complex'}"
    guard = next((node for node in tree.body if isinstance(node, ast.If) and _is_guard(node.test)), None)
    if guard is not None and isinstance(guard.body[0], ast.Raise):
        return "it says that it is not to be run"
    if not (has_shebang or guard or any(map(_does_something, tree.body))):
        return "it only defines names for other scripts"
    about = (ast.get_docstring(tree) or "").strip().partition("\n\n")[0]
    module = path.removesuffix(".py").replace("/", ".")
    # `from scripts.x import y` works only if the skill's folder is on the path: `python -m scripts.z` puts it there.
    is_package_used = any(name.partition(".")[0] == path.partition("/")[0] for name in find_imports(tree))
    if is_package_used and all(part.isidentifier() for part in module.split(".")):
        return ScriptProgram(("python3", "-m", module), about)
    return ScriptProgram(("python3", path), about)


def _is_guard(test: ast.expr) -> bool:
    """Whether this is `__name__ == "__main__"`."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return False
    sides = (test.left, *test.comparators)
    names = [side.id for side in sides if isinstance(side, ast.Name)]
    return names == ["__name__"] and any(isinstance(side, ast.Constant) and side.value == "__main__" for side in sides)


def _does_something(statement: ast.stmt) -> bool:
    """Whether a statement at the top of a module runs something, and not only defines names."""
    if isinstance(statement, _MODULE_RUN):
        return True
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call | ast.Await)
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    return any(isinstance(node, ast.Attribute) and node.attr == "argv" for node in ast.walk(statement))


def _is_node_module(data: bytes) -> bool:
    exports = re.search(rb"^(?:export\s|module\.exports|exports\.)", data, re.MULTILINE)
    return exports is not None and not re.search(rb"process\.argv|require\.main", data)


def _read_comment(data: bytes) -> str:
    """The first comment after the shebang line, without its marks."""
    lines: list[str] = []
    for line in data[:4096].decode("utf-8", "replace").splitlines():
        text = line.strip()
        if text.startswith("#!"):
            continue
        if not text.startswith(("#", "//")):
            break
        if (words := text.lstrip("#/ ").rstrip()) or not lines:
            lines.append(words)
        else:
            break
    return " ".join(filter(None, lines))


def build_argv(arguments: Sequence[ScriptArgument], given: Mapping[str, Any]) -> list[str]:
    """The command-line arguments for the fields of an input; fields that are missing or null are left out."""
    several: list[str] = []
    options: list[str] = []
    positional: list[str] = []
    for argument in arguments:
        value = given.get(argument.name)
        if value is None or value is False:
            continue
        if not argument.flag:
            positional += _to_words(value)
        elif argument.takes == "nothing":
            options.append(argument.flag)
        elif argument.takes == "values":
            several += [argument.flag, *_to_words(value)]
        else:
            for word in _to_words(value):
                # Joined, because a value may start with a dash.
                joined = argument.flag.startswith("--")
                options += [f"{argument.flag}={word}"] if joined else [argument.flag, word]
    # After several values of one option, the next word would count as one more.
    if positional and (any(word.startswith("-") for word in positional) or (several and not options)):
        positional.insert(0, "--")
    return [*several, *options, *positional, *_read_strings(given, ARGS)]


def _to_words(value: object) -> list[str]:
    if isinstance(value, list):
        return [word for item in cast("list[object]", value) for word in _to_words(item)]
    if isinstance(value, bool):
        return [str(value).lower()]
    return [value if isinstance(value, str) else json.dumps(value)]


def _read_strings(given: Mapping[str, Any], name: str) -> list[str]:
    found: object = given.get(name) or []
    if not isinstance(found, list) or not all(isinstance(item, str) for item in cast("list[object]", found)):
        raise InvalidArgument(f"input.{name}", 'expected a list of strings such as ["--verbose", "report.csv"]')
    return cast("list[str]", found)


def _read_files(given: Mapping[str, Any]) -> dict[str, bytes]:
    found: object = given.get(FILES) or {}
    if not isinstance(found, Mapping):
        raise InvalidArgument("input.files", 'expected files by name such as {"report.csv": "a,b"}')
    files = cast("Mapping[str, object]", found)
    return {str(parse_relative(name, field="input.files")): _read_content(name, one) for name, one in files.items()}


def _read_content(name: str, value: object) -> bytes:
    if isinstance(value, str):
        return _encode(f"input.files.{name}", value)
    fields = cast("Mapping[str, object]", value if isinstance(value, Mapping) else {})
    text, encoded = fields.get("text"), fields.get("base64")
    if isinstance(text, str):
        return _encode(f"input.files.{name}", text)
    try:
        if isinstance(encoded, str):
            return base64.b64decode("".join(encoded.split()), validate=True)
    except (binascii.Error, ValueError):
        pass
    raise InvalidArgument(f"input.files.{name}", 'expected the text, or {"base64": "..."} for other bytes')


def _encode(field: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(field, "contains a lone surrogate") from None


def _insert_paths(words: Sequence[str], files: Mapping[str, bytes]) -> list[str]:
    """Replace names of files by their paths, also after `--option=`."""
    found: list[str] = []
    for word in words:
        flag, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        found.append(f"{flag}{equals}inputs/{value}" if value in files else word)
    return found


class ScriptRunner:
    """Implements `SkillRunner`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._executors: dict[str, Executor] = {}
        self._slots = SkillSlots(settings.host_concurrency or 2 * (os.cpu_count() or 1))

    async def prepare(self, registration: Registration) -> None:
        _find_program(registration, self._settings.search_path)
        executor = self._get_executor(registration)
        await executor.check()
        if registration.packages != PackageOptions():
            # Before the first call, which has a deadline.
            async with open_script_workspace(executor, self._settings, find_script_folder(registration)) as workspace:
                await workspace.provide_packages(_get_script_path(registration), registration.packages)

    async def invoke(self, registration: Registration, call: Call) -> Outcome:
        known = cast("Sequence[Mapping[str, str]]", registration.options.get("arguments", ()))
        argv = build_argv([ScriptArgument(**one) for one in known], call.input)
        files = _read_files(call.input)
        stdin = call.input.get(STDIN) or ""
        if not isinstance(stdin, str):
            raise InvalidArgument("input.stdin", "expected a string")
        program = _find_program(registration, self._settings.search_path)
        words = (*program.command, *read_arguments(registration), *_insert_paths(argv, files))
        data = _encode("input.stdin", stdin)
        try:
            async with self._slots.hold(registration, call.deadline):
                return await self._run(registration, call, words, files, data)
        except WorkerTimeout:
            return timeout_outcome(registration.timeout_ms, RawSkillOutput(b""))

    async def forget(self, skill_id: str) -> None:
        self._slots.forget(skill_id)

    async def close(self) -> None:
        executors, self._executors = self._executors, {}
        await asyncio.gather(*(executor.close() for executor in executors.values()))

    def _get_executor(self, registration: Registration) -> Executor:
        name = self._settings.executor if registration.executor == "auto" else registration.executor
        if name not in self._executors:
            self._executors[name] = open_executor(name, self._settings)
        return self._executors[name]

    async def _run(
        self, registration: Registration, call: Call, words: Sequence[str], files: Mapping[str, bytes], stdin: bytes
    ) -> Outcome:
        folder = find_script_folder(registration)
        executor = self._get_executor(registration)
        secrets, network = call.secrets, registration.network
        call.mark("start")
        opened = open_script_workspace(executor, self._settings, folder, secrets=secrets, network=network)
        async with opened as workspace:
            packages = await workspace.provide_packages(_get_script_path(registration), registration.packages)
            for name, data in files.items():
                await workspace.runner.workspace.write(f"{INPUTS}/{name}", data)
            request = RunRequest(
                tuple(words),
                skill=workspace.skill,
                env={"PYTHONDONTWRITEBYTECODE": "1", **registration.environment},
                secrets=tuple(call.secrets),
                stdin=stdin,
                outputs=OutputSpec(
                    ("out/**", "work/**", f"{SKILLS}/{workspace.skill}/**"),
                    max_files=_MAX_FILES,
                    max_file_bytes=registration.limits.output_bytes,
                    max_total_bytes=registration.limits.output_bytes,
                ),
                limits=_build_limits(registration, call.deadline),
                readable=call.listener is not None,
                network=registration.network,
                packages=packages,
            )
            result = await workspace.run(request, call)
        return _build_outcome(registration, call, result, workspace.skill)


def find_script_folder(registration: Registration) -> Path:
    """The folder with the SKILL.md above a script, or else the directory of the script."""
    above = Path(registration.entry).parents
    return next((folder for folder in above if (folder / "SKILL.md").is_file()), above[0])


def _get_script_path(registration: Registration) -> str:
    return Path(registration.entry).relative_to(find_script_folder(registration)).as_posix()


def _find_program(registration: Registration, search_path: str) -> ScriptProgram:
    if (known := registration.options.get("command")) is not None:
        return ScriptProgram(tuple(known))
    found = inspect_script(find_script_folder(registration), _get_script_path(registration), search_path)
    if isinstance(found, str):
        raise ManifestFault("entry", f"{registration.entry} cannot be run: {found}")
    return found


def _build_limits(registration: Registration, deadline: float) -> Limits:
    timeout = max(deadline - asyncio.get_running_loop().time(), 0.001)
    limits = to_process_limits(registration.limits)
    return replace(limits, timeout=timeout, output_bytes=registration.limits.output_bytes)


@dataclass(frozen=True, slots=True)
class ScriptWorkspace:
    """A workspace for one call of a script, with a copy of `skill`.

    Commands of scripts get their environment here and nowhere else: from the `CommandRunner`, which also uses the
    packages of a skill.
    """

    skill: str
    runner: CommandRunner

    async def provide_packages(self, script: str, wanted: PackageOptions) -> PackageEnvironment:
        """Find or install the packages of a script."""
        return (await self.runner.provide_packages(self.skill, ("python3", script), wanted)).environment

    async def run(self, request: RunRequest, call: Call | None = None) -> RunResult:
        """Run a command to its end; its lines go to the listener of the call."""
        if call is None:
            return await self.runner.run(request)
        call.mark("sandbox")
        started = await self.runner.start(request)
        call.mark("script")
        lines = None if call.listener is None else LiveLines(call.listener, call.secrets)
        try:
            if lines is not None:
                await asyncio.gather(*(_follow(started.process, stream, lines) for stream in ("stdout", "stderr")))
            await started.process.wait()
            call.mark("collect")
            return await self.runner.finish(started)
        except asyncio.CancelledError:
            await asyncio.shield(self.runner.kill(started))
            raise
        finally:
            if lines is not None:
                lines.flush()


@asynccontextmanager
async def open_script_workspace(
    executor: Executor,
    settings: Settings,
    folder: Path,
    *,
    secrets: Mapping[str, str] | None = None,
    network: Sequence[str] = (),
) -> AsyncGenerator[ScriptWorkspace]:
    """A new workspace with the skill in a folder; removed at the end of the block."""
    skill = re.sub(r"[^a-z0-9-]+", "-", folder.name.lower()).strip("-")[:64] or "skill"
    policy = CommandPolicy.of(settings.allowed_commands, settings.denied_commands)
    rules = CommandRules(policy=policy, values=secrets or {}, network=network)
    runner = await open_command_runner(executor, settings, Scope(_APP, skill, uuid4().hex), rules=rules)
    try:
        await runner.stage(skill, folder)
        yield ScriptWorkspace(skill, runner)
    finally:
        await asyncio.shield(_remove_workspace(executor, runner))


async def _remove_workspace(executor: Executor, runner: CommandRunner) -> None:
    await runner.close()
    await executor.remove(runner.key)


async def _follow(process: Process, stream: str, lines: LiveLines) -> None:
    offset = 0
    while True:
        output = await process.read(offset, wait=60.0, stream=OutputStream(stream))
        offset = output.next_offset
        if output.data:
            lines.write(stream, output.data)
        if output.ended:
            return


def _build_outcome(registration: Registration, call: Call, result: RunResult, skill: str) -> Outcome:
    notes: dict[str, Any] = {"isolation": str(result.isolation), "memory_bytes": result.ended.memory_bytes}
    if result.warnings:
        notes["warnings"] = list(result.warnings)
    ended = result.ended
    stdout, stderr = ended.stdout.bytes(), ended.stderr.bytes()
    if result.timed_out:
        written = RawSkillOutput(stdout, stderr, secrets=call.secrets, notes=notes)
        return timeout_outcome(registration.timeout_ms, written)
    if ended.exit_code or ended.ending is not EndReason.EXITED:
        return failure_outcome(_build_failure(result, call), notes=notes)
    files = {_to_name(file.path, skill): _describe_file(file) for file in result.output_files}
    if call.listener is not None:
        for name, described in files.items():
            about = {key: described[key] for key in ("mime_type", "size")}
            call.listener(SkillOutputEvent("artifact", {"path": name, **about}))
    data = {"exit_code": 0, "stdout": ended.stdout.text(), "stderr": excerpt(stderr, call.secrets, STDERR_BYTES)}
    cut = bool(ended.stdout.cut) or any("truncated" in described for described in files.values())
    return success_outcome({**data, "files": files}, truncated=cut, notes=notes)


def _build_failure(result: RunResult, call: Call) -> SkillError:
    ended = result.ended
    if ended.ending is not EndReason.EXITED:
        message = f"the script was stopped: {ended.detail or ended.ending}"
    else:
        lines = excerpt(ended.stderr.bytes() or ended.stdout.bytes(), call.secrets).splitlines()
        last = f": {lines[-1].strip()[:_MAX_MESSAGE]}" if lines else ""
        message = f"the script {describe_exit(to_exit_code(ended.exit_code))}{last}"
    details: dict[str, Any] = {"exit_code": ended.exit_code}
    for name, data in (("stdout", ended.stdout.bytes()), ("stderr", ended.stderr.bytes())):
        if data.strip():
            details[name] = excerpt(data, call.secrets)
    return BadSkillOutput(message, **details)


def _to_name(path: str, skill: str) -> str:
    """The path of a file as the script sees it: relative to the folder of its skill."""
    return path.removeprefix("work/" if path.startswith(f"{INPUTS}/") else f"{SKILLS}/{skill}/")


def _describe_file(file: OutputFile) -> dict[str, Any]:
    found: dict[str, Any] = {"mime_type": file.mime_type, "size": file.size}
    if file.truncated:
        return {**found, "truncated": True}
    if is_text(file.data):
        return {**found, "text": file.data.decode()}
    return {**found, "base64": base64.b64encode(file.data).decode()}


HELP_SECONDS = 5.0
_HELP_AT_ONCE = 4
_FAILURE_SECONDS = 600.0
_KEPT_SECONDS = 30 * 24 * 3600.0
_HELP_LIMITS = Limits(timeout=HELP_SECONDS, processes=32, output_bytes=64 * 1024)
_HELP_ENVIRONMENT = {
    "PYTHONDONTWRITEBYTECODE": "1",
    # Wide, plain lines are easier to parse.
    "COLUMNS": "200",
    "NO_COLOR": "1",
    "TERM": "dumb",
}


@dataclass(frozen=True, slots=True)
class HelpText:
    """What a script printed for `--help`, or why it was not run."""

    text: str = ""
    failure: str = ""


class HelpReader:
    """Runs scripts with `--help` in a sandbox: without network, files or secrets, for at most `HELP_SECONDS`.

    Answers are stored by the content of the skill and its packages, so that a script runs once and not in each worker.
    Failures are tried again after ten minutes, because a package may have been installed.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._directory = settings.state_dir / "help"

    def read(
        self, folder: Path, programs: Mapping[str, ScriptProgram], packages: PackageOptions | None = None
    ) -> dict[str, HelpText]:
        """The help of the scripts of a skill, by path. Blocks; errors are in the values."""
        try:
            return run(self._read(folder, programs, packages or PackageOptions()))
        except SkillError as error:
            return dict.fromkeys(programs, HelpText(failure=error.message))

    async def _read(
        self, folder: Path, programs: Mapping[str, ScriptProgram], packages: PackageOptions
    ) -> dict[str, HelpText]:
        executor = open_executor(self._settings.executor, self._settings)
        try:
            if await executor.check() is Isolation.NONE:
                raise ExecutorUnavailable("there is no sandbox, so it was not run")
            snapshot = await executor.snapshot("help", folder)
            key = f"{snapshot.digest} {packages}"
            stored = {path: self._load(key, path) for path in programs}
            found = {path: text for path, text in stored.items() if text is not None}
            missing = {path: program for path, program in programs.items() if path not in found}
            slots = asyncio.Semaphore(_HELP_AT_ONCE)

            async def ask(path: str, program: ScriptProgram) -> None:
                async with slots, open_script_workspace(executor, self._settings, folder) as workspace:
                    command = (*program.command, "--help")
                    request = RunRequest(command, skill=workspace.skill, env=_HELP_ENVIRONMENT, limits=_HELP_LIMITS)
                    if packages != PackageOptions():
                        request = replace(request, packages=await workspace.provide_packages(path, packages))
                    found[path] = _to_help(await workspace.run(request))
                self._store(key, path, found[path])

            await asyncio.gather(*(ask(path, program) for path, program in missing.items()))
            return found
        finally:
            await executor.close()

    def _find_file(self, key: str, path: str) -> Path:
        return self._directory / f"{sha256(f'{key} {path}'.encode(errors='surrogateescape')).hexdigest()}.json"

    def _load(self, key: str, path: str) -> HelpText | None:
        file = self._find_file(key, path)
        try:
            found = HelpText(**json.loads(file.read_bytes()))
            is_old = time.time() - file.stat().st_mtime > _FAILURE_SECONDS
        except (OSError, ValueError, TypeError):
            return None
        return None if found.failure and is_old else found

    def _store(self, key: str, path: str, found: HelpText) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_unused(self._directory, after=_KEPT_SECONDS)
        replace_file(self._find_file(key, path), json.dumps(asdict(found)).encode())


def _to_help(result: RunResult) -> HelpText:
    ended = result.ended
    if ended.ending is not EndReason.EXITED:
        return HelpText(failure=f"--help did not end within {HELP_SECONDS:g} s" if result.timed_out else ended.detail)
    # Scripts without an argument parser often print their usage on stderr and fail.
    for text in (ended.stdout.text(), ended.stderr.text()):
        if re.match(r"\s*usage:", text, re.IGNORECASE):
            return HelpText(text)
    lines = (ended.stderr.text() or ended.stdout.text()).strip().splitlines()
    last = f": {lines[-1].strip()[:_MAX_MESSAGE]}" if lines else ""
    return HelpText(failure=f"--help printed no usage{last}")
