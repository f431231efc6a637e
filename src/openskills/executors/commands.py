"""Command runner: one session's workspace with policy, approval, staging, outputs and records.

A command passes, in this order: the policy, the checks of its variables, the approval hook, the journal (at most once),
the audit log, staging, the executor, output collection, the artifact store, the journal again.
"""

import asyncio
import json
import posixpath
import secrets
import time
from collections.abc import Awaitable, Callable, Generator, Hashable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from openskills.arguments import check_arguments
from openskills.artifacts.store import Artifact, ArtifactStore, Scope
from openskills.catalog.trust import TrustAnswer, TrustStore
from openskills.concurrency import shield_until_done
from openskills.errors import CommandDenied, ForbiddenPath, InvalidArgument, LimitExceeded, SkillError
from openskills.executors import spans
from openskills.executors.approval import ApprovalHook, build_approval_request, check_approval
from openskills.executors.environment import build_editor_files, check_env, resolve_secrets
from openskills.executors.environments import find_packages, find_venv, install_packages, join_environments
from openskills.executors.files.globs import escape_glob
from openskills.executors.hints import suggest_remedies
from openskills.executors.package_index import PackageIndex
from openskills.executors.policy import CommandPolicy, PolicyContext, find_program
from openskills.executors.process import MaskedProcess, StartCounter
from openskills.executors.protocol import Executor, Process, RequestKeeper, Workspace
from openskills.executors.records import audit
from openskills.executors.records.audit import AuditLog, AuditSubject
from openskills.executors.records.journal import RequestDeduplicator
from openskills.executors.requests import InstallMode, PackageOptions, ProvidedPackages, RunRequest, RunResult
from openskills.executors.spec import (
    EDITOR_DIRECTORY,
    LINKS,
    NO_PACKAGES,
    RUNS,
    SKILLS,
    VENV,
    Command,
    CommandResult,
    EndReason,
    FileInfo,
    FileStamp,
    SkillSnapshot,
    resolve_cwd,
)
from openskills.executors.staging.inputs import Pins, StagedInput, stage_inputs
from openskills.executors.staging.outputs import (
    OutputCollection,
    collect_outputs,
    describe_unmatched,
    drop_empty_files,
    save_outputs,
)
from openskills.executors.staging.packages import (
    MAX_FILE,
    DeclaredPackages,
    PackageSet,
    find_command_script,
    find_declaration_files,
    find_declared_packages,
)
from openskills.settings import Settings
from openskills.telemetry.mask import get_masker
from openskills.telemetry.spans import span

_CODE = (".py", ".pyc", ".pth", ".so", ".sh", ".js", ".mjs", ".cjs", ".ts", ".node", ".rb", ".pl")
_MAX_FILES = 100_000
_RESTORE_LINKS = """
while [ $# -gt 0 ]; do
    if [ ! -L "$1" ]; then
        if [ -d "$1" ]; then cp -R "$1/." "$2/" && rm -rf "$1" || exit 1; fi
        [ -e "$1" ] || ln -s "$2" "$1" || exit 1
    fi
    shift 2
done
"""


@check_arguments
@dataclass(frozen=True, slots=True)
class CommandRules:
    """What a command runner allows.

    `approve_install` is asked about packages that skills declare. `values` holds the secrets that requests may name;
    nothing else is injected. `index` is where packages come from; None means the settings of pip, uv and npm.
    """

    policy: CommandPolicy = field(default_factory=CommandPolicy)
    approve: ApprovalHook | None = None
    approve_install: ApprovalHook | None = None
    host_roots: Sequence[Path] = ()
    values: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    network: Sequence[str] = ()
    index: PackageIndex | None = None


@dataclass(frozen=True, slots=True)
class ActiveCommand:
    """A running command, with what is needed to build its result."""

    process: Process
    run: audit.AuditRun
    mark: int
    request: RunRequest
    staged: tuple[StagedInput, ...]
    watched: spans.WatchedRun


@check_arguments
class CommandRunner:
    """Runs the commands of one session. Commands may run concurrently; staging is serialized."""

    def __init__(self, workspace: Workspace, executor: Executor, scope: Scope, settings: Settings, *, key: str) -> None:
        self.key = key
        self._workspace = workspace
        self._executor = executor
        self._scope = scope
        self._who = AuditSubject(scope.app, scope.user, scope.session)
        self._artifacts: ArtifactStore | None = None
        self._rules = CommandRules()
        self._log = AuditLog(settings.state_dir / "audit.jsonl")
        keeper = workspace if isinstance(workspace, RequestKeeper) else None
        journal = keeper.journal if keeper else settings.state_dir / "workspaces" / workspace.id / "journal"
        self._replay = RequestDeduplicator(journal, workspace.isolation, keeper=keeper)
        self._warm: dict[str, tuple[str, ...] | None] = {}
        self._pins: Pins = {}
        self._settings = settings
        self._declared: dict[tuple[str, str, str | None], DeclaredPackages] = {}
        self._directories: dict[str, Path] = {}
        self._snapshots: dict[str, SkillSnapshot] = {}
        self._staged_as_of: dict[str, Hashable] = {}
        self._staged_at: dict[str, int] = {}
        self._staging = asyncio.Lock()
        self._starts = StartCounter()
        self._users: _RunnerUsers | None = None
        self._token: object = None
        self.notes: list[str] = []
        self._guard: Callable[[], Awaitable[None]] | None = None

    @property
    def workspace(self) -> Workspace:
        """The workspace in which commands run."""
        return self._workspace

    @property
    def has_journal(self) -> bool:
        """Whether requests with an id can run at most once: this machine has a directory for the journal."""
        return self._replay.is_available

    def for_agent(
        self, agent: str, rules: CommandRules, *, guard: Callable[[], Awaitable[None]] | None = None
    ) -> "CommandRunner":
        """A copy of this runner for another agent of the session, with that agent's rules.

        `guard` is awaited just before each command is started, and raises if it must not be.
        """
        other = copy(self)
        other._guard = guard  # noqa: SLF001
        other._who = replace(self._who, agent=agent)  # noqa: SLF001 - a copy of ourselves
        other._rules = rules  # noqa: SLF001
        return other

    def with_secrets(self, values: Mapping[str, str]) -> "CommandRunner":
        """A copy of this runner whose requests may also name these secrets."""
        other = copy(self)
        other._rules = replace(self._rules, values={**self._rules.values, **values})  # noqa: SLF001
        return other

    def for_user(
        self, users: "_RunnerUsers", token: object, agent: str, rules: CommandRules, artifacts: ArtifactStore | None
    ) -> "CommandRunner":
        """A copy of this runner for one of several users of the workspace."""
        other = self.for_agent(agent, rules)
        other._users, other._token, other._artifacts = users, token, artifacts  # noqa: SLF001 - a copy of ourselves
        return other

    async def stage(
        self,
        name: str,
        directory: Path,
        *,
        warm: tuple[str, ...] | None = None,
        as_of: Hashable = None,
        snapshot: SkillSnapshot | None = None,
        check: Callable[[], None] | None = None,
    ) -> SkillSnapshot:
        """Take a snapshot of a skill. Commands use the last staged snapshot, even if the folder changes later.

        `warm` names modules to preload for its Python commands, unless a request overrides it. If `as_of` equals the
        value of the previous call, the existing snapshot is returned without looking at the folder. A `snapshot` that
        was taken earlier is staged as it is. Otherwise `check` is called in a thread after the folder was read, and
        raises if the snapshot must not be used.
        """
        if as_of is not None and self._staged_as_of.get(name) == as_of:
            return self._snapshots[name]
        with span("workspace.stage.skill", {"gen_ai.skill.name": name}) as watched:
            async with self._staging:
                self._warm[name] = warm
                self._directories[name] = directory
                if snapshot is None:
                    snapshot = await self._executor.snapshot(name, directory)
                    if check is not None:
                        await asyncio.to_thread(check)
                # A command that is being started must get the snapshot that was approved.
                await self._starts.wait_idle()

                async def replace_snapshot() -> None:
                    self._staged_at[name] = await self._workspace.stage(snapshot)
                    self._snapshots[name] = snapshot
                    self._staged_as_of[name] = as_of

                await shield_until_done(replace_snapshot())
            watched.set({"workspace.skill.digest": snapshot.digest})
            return snapshot

    async def provide_packages(
        self,
        skill: str,
        command: str | Sequence[str],
        options: PackageOptions,
        *,
        progress: Callable[[str], None] | None = None,
    ) -> ProvidedPackages:
        """Find or install the packages for a command of a staged skill: those of the options, and declared ones.

        What is installed already costs nothing. Declared packages that may not be installed are a warning; the command
        can run without them. Raises `InvalidSkill` with a remedy if an installation fails.
        """
        snapshot = self._snapshots[skill]
        declared = await self._find_declared(skill, snapshot.digest, find_command_script(command))
        own = self._directories[skill] / VENV
        if not (declared.packages or options.packages or options.venv or own.is_dir()):
            return ProvidedPackages(warnings=declared.warnings)
        venv, warnings = find_venv(options.venv, own, self._workspace, self._settings)
        # A virtual environment has what the skill declares.
        wanted = options.packages if venv else options.packages | declared.packages
        where = (self._workspace, self._settings, self._rules.index)
        found = await find_packages(wanted, *where)
        if found is None and not venv and declared.packages:
            reason = await self._check_install(snapshot, declared, options.install)
            if reason:
                what = f"{' and '.join(declared.sources)} declares {declared.packages}"
                warnings = (*warnings, f"{what}; not installed: {reason}")
                wanted = options.packages
                found = await find_packages(wanted, *where)
        if found is None and wanted:
            run = self._audit_install(snapshot, wanted)
            with self._audit_failures(run), span("workspace.stage.packages", {"gen_ai.skill.name": skill}):
                self._log_begin(run, "")
                found = await install_packages(wanted, *where, progress=progress)
                self._log.write({**audit.build_start_record(run), "event": "end", "detail": "installed"})
        return ProvidedPackages(join_environments(found or NO_PACKAGES, venv), (*declared.warnings, *warnings))

    async def _check_install(self, snapshot: SkillSnapshot, declared: DeclaredPackages, install: InstallMode) -> str:
        """Why the declared packages may not be installed; empty if they may. Asks once for each set of packages."""
        if install is InstallMode.ALWAYS:
            return ""
        if install is InstallMode.NEVER or self._rules.approve_install is None:
            return "allow it with --install always (in Python: install='always')"
        store = TrustStore(self._settings.state_dir / "grants", "packages")
        directory = self._directories[snapshot.name]
        subject = f"{directory}#packages:{declared.packages.digest}"
        known = store.read_decisions().get(subject)
        if known is not None and known.answer_for(snapshot.digest) is TrustAnswer.YES:
            return ""
        run = self._audit_install(snapshot, declared.packages)
        request = build_approval_request(run, run.command.argv, installs=True)
        try:
            how = await check_approval(self._rules.approve_install, request)
        except CommandDenied as error:
            self._log.write(audit.build_failure_record(run, error.message))
            return "the user declined"
        self._log.write({**audit.build_start_record(run), "event": "consent", "approval": how})
        store.remember(directory, {subject: snapshot.digest}, TrustAnswer.YES)
        return ""

    def _audit_install(self, snapshot: SkillSnapshot, packages: PackageSet) -> audit.AuditRun:
        command = Command(("install", *str(packages).split(", ")), skill=snapshot.name)
        isolation = self._workspace.isolation
        return audit.AuditRun(secrets.token_hex(8), self._who, command, isolation, digest=snapshot.digest)

    async def _find_declared(self, skill: str, digest: str, script: str | None) -> DeclaredPackages:
        """What a staged skill declares for a script; a snapshot is read once."""
        key = (skill, digest, script)
        if key not in self._declared:
            files: dict[str, bytes] = {}
            for name in chain([script] if script else [], find_declaration_files(files)):
                data = await self._read_skill_file(skill, name)
                if data is not None:
                    files[posixpath.normpath(name)] = data
            self._declared[key] = find_declared_packages(files, script=script)
        return self._declared[key]

    async def _read_skill_file(self, skill: str, name: str) -> bytes | None:
        try:
            async with self._workspace.open(f"{SKILLS}/{skill}/{name}") as reading:
                size = reading.info.size
                if size <= MAX_FILE:
                    return b"".join([chunk async for chunk in reading.chunks])
        except (InvalidArgument, ForbiddenPath):
            return None
        raise InvalidArgument(
            name, f"has {size:,} bytes; the maximum for a file that declares packages is {MAX_FILE:,}"
        )

    async def run(self, request: RunRequest) -> RunResult:
        """Run a command to its end. Cancelling the call kills the command and everything it started.

        Raises `CommandDenied`, `InvalidArgument`, `ForbiddenPath`, `LimitExceeded` or `ExecutorUnavailable` if the
        command cannot be run.
        """
        if request.request_id is None:
            return await self._run(request)
        return await self._replay.run_once(request, lambda: self._run(request))

    async def start(self, request: RunRequest, *, ask: bool = True) -> ActiveCommand:
        """Start an interactive command; `finish` returns its result.

        Without `ask`, the approval hook is not called: for a shell whose commands are passed to `check`. Raises
        `InvalidArgument` for a `request_id`, which only `run` supports.
        """
        if request.request_id is not None:
            raise InvalidArgument("request_id", "only supported by run(), not for interactive commands")
        return await self._start(request, ask=ask)

    @property
    def allows_shell(self) -> bool:
        """Whether commands are passed to a shell: there are no lists of allowed or denied commands."""
        return not self._rules.policy.has_lists

    async def check(self, request: RunRequest) -> None:
        """Check and log a command that a running shell is going to execute.

        Raises `CommandDenied` and `InvalidArgument` like `run`.
        """
        draft = self._draft_run(request)
        with self._audit_failures(draft):
            command, _ = await self._prepare_command(request)
            run = replace(draft, command=command)
            self._log_begin(run, await self._ask_for_approval(request, run))

    async def finish(self, started: ActiveCommand) -> RunResult:
        """Wait for a command, collect its outputs, and save the requested artifacts."""
        ended = await started.process.wait()
        started.watched.record_end(ended)
        kept: Sequence[Artifact] = ()
        try:
            collected, kept = await self._collect_outputs(started, ended)
        finally:
            self._log.write(audit.build_end_record(started.run, ended, [artifact.ref for artifact in kept]))
        if started.request.editor_text is not None:
            await self._workspace.remove(f"{EDITOR_DIRECTORY}/{started.run.id}")
        snapshot = self._snapshots.get(started.request.skill or "")
        command = started.run.command
        # Copies for other agents share the notes.
        notes = tuple(self.notes)
        self.notes.clear()
        return RunResult(
            ended,
            self._workspace.isolation,
            started.run.id,
            digest=started.run.digest,
            output_files=tuple(collected.files),
            artifact_files=tuple(kept),
            staged_inputs=started.staged,
            warnings=(
                *(snapshot.warnings if snapshot else ()),
                *(warning for staged in started.staged for warning in staged.warnings),
                *collected.warnings,
                *ended.notes,
                *(suggest_remedies(ended, command) if ended.exit_code else ()),
                *notes,
            ),
        )

    async def close(self) -> None:
        """Kill what runs in the workspace and release it, after its last user. Its files are kept."""
        if self._users is not None and not self._users.remove(self._token):
            return
        with span("workspace.cleanup", {"workspace.id": self._workspace.id}):
            await self._workspace.close()
        self._replay.close()

    async def _run(self, request: RunRequest) -> RunResult:
        started = await self._start(request)
        try:
            return await self.finish(started)
        except asyncio.CancelledError:
            await asyncio.shield(self.kill(started))
            raise

    async def kill(self, started: ActiveCommand) -> None:
        """Kill a command that `start` has started, instead of `finish`."""
        await started.process.kill()
        ended = await started.process.wait()
        started.watched.record_end(ended)
        self._log.write(audit.build_end_record(started.run, ended))

    async def _start(self, request: RunRequest, *, ask: bool = True) -> ActiveCommand:
        draft = self._draft_run(request)
        with self._audit_failures(draft) as latest:
            while True:
                command, snapshot = await self._prepare_command(request)
                run = latest[0] = replace(draft, command=command, digest=snapshot.digest if snapshot else "")
                how = await self._ask_for_approval(request, run) if ask else ""
                started = await self._launch(request, run, how)
                if started is not None:
                    return started

    async def _ask_for_approval(self, request: RunRequest, run: audit.AuditRun) -> str:
        if self._rules.approve is None:
            return ""
        asked = build_approval_request(
            run,
            request.command,
            env=tuple(request.env),
            editor_text=request.editor_text,
            changed=await self._find_changed_scripts(request.skill),
        )
        return await check_approval(self._rules.approve, asked)

    def _draft_run(self, request: RunRequest) -> audit.AuditRun:
        argv = (request.command,) if isinstance(request.command, str) else tuple(map(str, request.command))
        secret = {name: value for name, value in self._rules.values.items() if name in request.secrets}
        env = dict.fromkeys(map(str, request.env), "")
        command = Command(argv, skill=request.skill, cwd=request.cwd, env=env, secrets=secret, network=request.network)
        isolation, id_ = self._workspace.isolation, request.request_id or ""
        return audit.AuditRun(secrets.token_hex(8), self._who, command, isolation, request_id=id_)

    @contextmanager
    def _audit_failures(self, run: audit.AuditRun) -> Generator[list[audit.AuditRun]]:
        """Log and count a run that could not be started. The block may replace the run in the list that it gets."""
        latest = [run]
        try:
            yield latest
        except BaseException as error:
            spans.count_refusal(error)
            message = error.message if isinstance(error, SkillError) else f"{type(error).__name__}: {error}"
            self._log.write(audit.build_failure_record(latest[0], message))
            raise

    async def _launch(self, request: RunRequest, run: audit.AuditRun, how: str) -> ActiveCommand | None:
        """Start the command; None if the skill was staged again after the approval."""
        command = run.command
        with ExitStack() as starting:
            async with self._staging:
                snapshot = self._snapshots.get(request.skill or "")
                if snapshot is not None and snapshot.digest != run.digest:
                    return None
                staged: list[StagedInput] = []
                if request.inputs:
                    staged = await stage_inputs(
                        self._workspace,
                        request.inputs,
                        scope=self._scope,
                        artifacts=self._artifacts,
                        host_roots=self._rules.host_roots,
                        pins=self._pins,
                        run_dir=command.run_dir,
                    )
                if request.editor_text is not None:
                    root, text = self._workspace.root, request.editor_text
                    files = build_editor_files(text, root=root, run=run.id, env=command.env)
                    await self._workspace.write(files.text_path, files.text)
                    await self._workspace.write(files.script_path, files.script, executable=True)
                    command = replace(command, env={**command.env, **files.env})
                starting.enter_context(self._starts)
            self._log_begin(run, how)
            mark = await self._workspace.mark() if request.outputs is not None else 0
            with spans.watch_run(run, request.command) as watched:
                if self._guard is not None:
                    await self._guard()
                process = await self._workspace.start(command)
        if masker := get_masker(command.secrets):
            process = MaskedProcess(process, masker)
        return ActiveCommand(process, run, mark, request, tuple(staged), watched)

    async def _prepare_command(self, request: RunRequest) -> tuple[Command, SkillSnapshot | None]:
        snapshot = self._snapshots.get(request.skill or "")
        if snapshot is None and request.skill is not None:
            raise InvalidArgument("skill", f"skill {request.skill!r} is not staged; stage it first")
        for host in request.network:
            if host not in self._rules.network:
                raise InvalidArgument("network", f"host {host!r} is not allowed here")
        run_dir = f"{RUNS}/run_{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}_{secrets.token_hex(4)}"
        policy, where = self._rules.policy, PolicyContext(self._workspace.root, skill=request.skill)
        command = Command(
            ("true",) if policy.has_lists else policy.resolve_argv(request.command, where),
            skill=request.skill,
            cwd=resolve_cwd(request.cwd, skill=request.skill, run_dir=run_dir),
            run_dir=run_dir,
            env=check_env(request.env),
            secrets=resolve_secrets(request.secrets, self._rules.values),
            stdin=request.stdin,
            input_open=request.input_open,
            readable=request.readable,
            terminal=request.terminal,
            limits=request.limits,
            network=request.network,
            warm=request.warm if request.warm is not None else self._warm.get(request.skill or ""),
            packages=request.packages,
        )
        if policy.has_lists:
            found = await find_program(self._workspace, request.command, command, policy.resolve_denied(where))
            where = PolicyContext(where.root, lambda _: found, where.skill, command.cwd, await self._find_skill_files())
            command = replace(command, argv=policy.resolve_argv(request.command, where))
        return command, snapshot

    async def _find_skill_files(self) -> set[str]:
        """The files of all staged skills that no command has changed or added."""
        found: set[str] = set()
        for name in self._staged_at:
            everything = await self._list_skill_files(name, None)
            found |= {info.path for info in everything}
            found -= {info.path for info in await self._list_skill_files(name, self._staged_at[name])}
        return found

    async def _find_changed_scripts(self, name: str | None) -> dict[str, FileStamp]:
        """The programs of a staged skill that commands have changed or added."""
        since = self._staged_at.get(name or "")
        changed = await self._list_skill_files(name, since) if name is not None and since is not None else ()
        return {info.path: info.stamp for info in changed if info.executable or info.path.endswith(_CODE)}

    async def _list_skill_files(self, name: str, since: int | None) -> Sequence[FileInfo]:
        """The files of a staged skill, without its environment."""
        listing = await self._workspace.list([f"{SKILLS}/{escape_glob(name)}/**"], since=since, limit=_MAX_FILES)
        if not listing.complete:
            raise LimitExceeded(f"{SKILLS}/{name} has more than {_MAX_FILES:,} files; remove some")
        return [info for info in listing.files if not info.path.startswith(f"{SKILLS}/{name}/{VENV}/")]

    async def _collect_outputs(
        self, started: ActiveCommand, ended: CommandResult
    ) -> tuple[OutputCollection, Sequence[Artifact]]:
        spec = started.request.outputs
        if spec is None:
            return OutputCollection((), ()), ()
        run_dir = started.run.command.run_dir
        collected = await collect_outputs(self._workspace, spec, since=started.mark, run_dir=run_dir)
        if describe_unmatched(spec.globs, collected.files) and await self._restore_links(started):
            collected = await collect_outputs(self._workspace, spec, since=started.mark, run_dir=run_dir)
        if ended.exit_code != 0 or ended.ending is not EndReason.EXITED:
            collected = drop_empty_files(collected)
        if not spec.save or not collected.files:
            return collected, ()
        if self._artifacts is None:
            note = "artifacts were not saved: no artifact store is configured"
            return replace(collected, warnings=(*collected.warnings, note)), ()
        kept = await save_outputs(
            self._workspace, collected.files, self._artifacts, self._scope, prefix=spec.name_template
        )
        return replace(collected, warnings=(*collected.warnings, *kept.warnings)), kept.artifacts

    async def _restore_links(self, started: ActiveCommand) -> bool:
        """Move files of a skill that has replaced its link `out` by a directory (`rm -r out; mkdir out`) to where the
        link led, and restore the link. Returns whether there were any.
        """
        skill = started.request.skill
        if skill is None:
            return False
        # The backslash keeps the pattern from being read as `out/`, to which the link leads.
        globs = [f"{SKILLS}/{escape_glob(skill)}/\\{name}/**" for name in LINKS]
        if not (await self._workspace.list(globs, since=started.mark, limit=1)).files:
            return False
        argv = ("sh", "-c", _RESTORE_LINKS, "restore-links", *chain.from_iterable(LINKS.items()))
        command = Command(argv, skill=skill, cwd=f"{SKILLS}/{skill}", run_dir=started.run.command.run_dir)
        process = await self._workspace.start(command)
        return (await process.wait()).exit_code == 0

    def _log_begin(self, run: audit.AuditRun, how: str) -> None:
        self._log.write({**audit.build_start_record(run), **({"approval": how} if how else {})})


def build_workspace_key(scope: Scope) -> str:
    """The key of the workspace of a session."""
    return json.dumps([scope.app, scope.user, scope.session])


@check_arguments
async def open_command_runner(
    executor: Executor,
    settings: Settings,
    scope: Scope,
    *,
    agent: str = "",
    artifacts: ArtifactStore | None = None,
    rules: CommandRules | None = None,
) -> CommandRunner:
    """Open the command runner of a session: its workspace, its journal, and this machine's audit log.

    Runtimes that share an executor share the workspace of a session, which is closed after its last user.
    """
    key = build_workspace_key(scope)
    users = _RunnerUsers.find(executor, key)
    token = object()
    users.tokens.add(token)
    try:
        async with users.lock:
            if users.runner is None:
                users.runner = await _open_runner(executor, settings, scope, key)
    except BaseException:
        users.remove(token)
        raise
    return users.runner.for_user(users, token, agent, rules or CommandRules(), artifacts)


@dataclass(slots=True)
class _RunnerUsers:
    """The users of an open workspace in one event loop."""

    place: tuple[int, int, str]
    executor: Executor
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    tokens: set[object] = field(default_factory=set[object])
    runner: CommandRunner | None = None

    @staticmethod
    def find(executor: Executor, key: str) -> "_RunnerUsers":
        place = (id(executor), id(asyncio.get_running_loop()), key)
        return _OPEN_RUNNERS.setdefault(place, _RunnerUsers(place, executor))

    def remove(self, token: object) -> bool:
        """Remove a user; return whether it was the last one."""
        if token not in self.tokens:
            return False
        self.tokens.remove(token)
        if self.tokens:
            return False
        _OPEN_RUNNERS.pop(self.place, None)
        return True


_OPEN_RUNNERS: dict[tuple[int, int, str], _RunnerUsers] = {}


async def _open_runner(executor: Executor, settings: Settings, scope: Scope, key: str) -> CommandRunner:
    with span("workspace.create", {"workspace.executor": executor.name}) as watched:
        workspace = await executor.open(key)
        watched.set({"workspace.id": workspace.id, "workspace.isolation": str(workspace.isolation)})
    return CommandRunner(workspace, executor, scope, settings, key=key)
