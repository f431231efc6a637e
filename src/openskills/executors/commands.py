"""One session's workspace with everything around it that a skill's command needs.

A command passes, in this order: the policy, the checks of its variables, the approval hook, the journal (at most once),
the audit log, staging, the executor, collecting, the artifact store, the journal again.
"""

import asyncio
import json
import secrets
import time
from collections.abc import Generator, Hashable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path

from openskills.artifacts.store import Artifact, ArtifactStore, Scope
from openskills.concurrency import shield_until_done
from openskills.errors import InvalidArgument, SkillError
from openskills.executors import spans
from openskills.executors.approval import ApprovalHook, build_approval_request, check_approval
from openskills.executors.environment import EDITOR_DIRECTORY as EDITOR_DIR
from openskills.executors.environment import build_editor_files, check_env, resolve_secrets
from openskills.executors.policy import CommandPolicy, PolicyContext, find_program
from openskills.executors.process import StartCounter
from openskills.executors.protocol import Executor, Process, Workspace
from openskills.executors.records import audit
from openskills.executors.records.audit import AuditLog, AuditSubject
from openskills.executors.records.journal import RequestDeduplicator
from openskills.executors.requests import RunRequest, RunResult
from openskills.executors.spec import RUNS, Command, CommandResult, EndReason, SkillSnapshot, resolve_cwd
from openskills.executors.staging.inputs import Pins, StagedInput, stage_inputs
from openskills.executors.staging.outputs import OutputCollection, collect_outputs, drop_empty_files, save_outputs
from openskills.executors.staging.packages import PackageInstaller, SetupResult
from openskills.settings import Settings
from openskills.telemetry.spans import span


@dataclass(frozen=True, slots=True)
class CommandRules:
    """What a workbench allows.

    `values` has the secrets that requests may name; nothing else is ever injected. `index_arguments` say where packages
    come from, as pip and uv understand them.
    """

    policy: CommandPolicy = field(default_factory=CommandPolicy)
    approve: ApprovalHook | None = None
    host_roots: Sequence[Path] = ()
    values: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    network: Sequence[str] = ()
    index_arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ActiveCommand:
    """A command that runs, and what has to be known about it to make a result of its end."""

    process: Process
    run: audit.AuditRun
    mark: int
    request: RunRequest
    staged: tuple[StagedInput, ...]
    watched: spans.WatchedRun


@dataclass(slots=True)
class _RunDraft:
    """The latest that is known about a run that has not begun."""

    run: audit.AuditRun


class CommandRunner:
    """Runs the commands of one session. Commands may run at the same time; staging never does."""

    def __init__(
        self,
        workspace: Workspace,
        executor: Executor,
        scope: Scope,
        *,
        key: str,
        agent: str = "",
        artifacts: ArtifactStore | None = None,
        rules: CommandRules | None = None,
        log: AuditLog | None = None,
        replay: RequestDeduplicator | None = None,
    ) -> None:
        self.key = key
        self._workspace = workspace
        self._executor = executor
        self._scope = scope
        self._who = AuditSubject(scope.app, scope.user, scope.session, agent)
        self._artifacts = artifacts
        self._rules = rules or CommandRules()
        self._log = log
        self._replay = replay
        self._warm: dict[str, tuple[str, ...] | None] = {}
        self._pins: Pins = {}
        self._packages = PackageInstaller(workspace, index_arguments=self._rules.index_arguments)
        self._snapshots: dict[str, SkillSnapshot] = {}
        self._staged_as_of: dict[str, Hashable] = {}
        self._staging = asyncio.Lock()
        self._starts = StartCounter()

    @property
    def workspace(self) -> Workspace:
        """Where the commands run."""
        return self._workspace

    def for_agent(self, agent: str, rules: CommandRules) -> "CommandRunner":
        """The same workbench for another agent of the session: its runs are noted under that name, by these rules."""
        other = copy(self)
        other._who = replace(self._who, agent=agent)  # noqa: SLF001 - a copy of ourselves
        other._rules = rules  # noqa: SLF001
        other._packages = self._packages.with_index(rules.index_arguments)  # noqa: SLF001
        return other

    async def stage(
        self, name: str, directory: Path, *, warm: tuple[str, ...] | None = None, as_of: Hashable = None
    ) -> SkillSnapshot:
        """Take a skill as it is now. Commands use what was staged last, whatever happens to the folder.

        `warm` are the modules that its Python commands may find loaded, unless a request says otherwise. With `as_of`
        nothing is looked at when the skill was staged with an equal one before.
        """
        if as_of is not None and self._staged_as_of.get(name) == as_of:
            return self._snapshots[name]
        with span("workspace.stage.skill", {"gen_ai.skill.name": name}) as watched:
            async with self._staging:
                self._warm[name] = warm
                snapshot = await self._executor.snapshot(name, directory)
                # What was approved is what starts.
                await self._starts.wait_idle()
                await shield_until_done(self._stage_snapshot(snapshot, as_of))
            watched.set({"workspace.skill.digest": snapshot.digest})
            return snapshot

    async def _stage_snapshot(self, snapshot: SkillSnapshot, as_of: Hashable) -> None:
        await self._workspace.stage(snapshot)
        self._snapshots[snapshot.name] = snapshot
        self._staged_as_of[snapshot.name] = as_of

    async def install(self, skill: str, *, script: str | None = None, network: Sequence[str] = ()) -> SetupResult:
        """Install what a staged skill declares (`requirements.txt`, `[project]`), or a script's own block (PEP 723).

        Packages come from the hosts of `network`, which nothing but this installation gets. Instant when it is done,
        and nobody is asked then. Raises `InvalidSkill` with the last lines when an installation fails.
        """
        if (ready := await self._packages.get_status(skill, script=script)) is not None:
            return ready
        command = Command(("install", skill, *([script] if script else [])), skill=skill, network=tuple(network))
        run = audit.AuditRun(secrets.token_hex(8), self._who, command, self._workspace.isolation)
        with self._audit_failures(run), span("workspace.stage.packages", {"gen_ai.skill.name": skill}) as watched:
            request = build_approval_request(run, command.argv, installs=True)
            self._log_begin(run, await check_approval(self._rules.approve, request))
            result = await self._packages.install(skill, script=script, network=network)
            watched.set({"workspace.packages.changed": result.changed})
            self._log_record(
                {
                    **audit.build_start_record(run),
                    "event": "end",
                    "detail": "installed" if result.changed else "nothing to do",
                }
            )
            return result

    async def run(self, request: RunRequest) -> RunResult:
        """Run a command to its end. A cancelled run is ended with everything that it started.

        Raises what keeps it from being run: `CommandDenied`, `InvalidArgument`, `ForbiddenPath`, `LimitExceeded`,
        `ExecutorUnavailable`.
        """
        if self._replay is None or request.request_id is None:
            return await self._run(request)
        return await self._replay.run_once(request, lambda: self._run(request))

    async def start(self, request: RunRequest) -> ActiveCommand:
        """Start a command that is to be talked to; `finish` makes a result of it.

        Raises `InvalidArgument` for a request id: only `run` can see to it that something happens once.
        """
        if request.request_id is not None:
            raise InvalidArgument("request_id", "is for run(); a command that is talked to is never started again")
        return await self._start(request)

    async def finish(self, started: ActiveCommand) -> RunResult:
        """Wait for the end of a command, collect what it made, and keep what was asked for."""
        ended = await started.process.wait()
        started.watched.ended(ended)
        kept: Sequence[Artifact] = ()
        try:
            collected, kept = await self._collect_outputs(started, ended)
        finally:
            self._log_record(audit.build_end_record(started.run, ended, [artifact.ref for artifact in kept]))
        if started.request.editor_text is not None:
            await self._workspace.remove(f"{started.run.command.run_dir}/{EDITOR_DIR}")
        snapshot = self._snapshots.get(started.request.skill or "")
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
            ),
        )

    async def close(self) -> None:
        """End what runs in the workspace and let others have it; its files stay."""
        with span("workspace.cleanup", {"workspace.id": self._workspace.id}):
            await self._workspace.close()
        if self._replay is not None:
            self._replay.close()

    async def _run(self, request: RunRequest) -> RunResult:
        started = await self._start(request)
        try:
            return await self.finish(started)
        except asyncio.CancelledError:
            await asyncio.shield(self._abandon(started))
            raise

    async def _abandon(self, started: ActiveCommand) -> None:
        await started.process.kill()
        ended = await started.process.wait()
        started.watched.ended(ended)
        self._log_record(audit.build_end_record(started.run, ended))

    async def _start(self, request: RunRequest) -> ActiveCommand:
        run = self._draft_run(request)
        with self._audit_failures(run) as noted:
            while True:
                command, snapshot = await self._prepare_command(request)
                run = noted.run = replace(run, command=command, digest=snapshot.digest if snapshot else "")
                started = await self._launch(request, run, await self._check_approval(run, request))
                if started is not None:
                    return started

    async def _check_approval(self, run: audit.AuditRun, request: RunRequest) -> str:
        if self._rules.approve is None:
            return ""
        asked = build_approval_request(run, request.command, env=tuple(request.env), editor_text=request.editor_text)
        return await check_approval(self._rules.approve, asked)

    def _draft_run(self, request: RunRequest) -> audit.AuditRun:
        """What is known about a run before anybody has looked at it."""
        argv = (request.command,) if isinstance(request.command, str) else tuple(map(str, request.command))
        secret = {name: value for name, value in self._rules.values.items() if name in request.secrets}
        env = dict.fromkeys(map(str, request.env), "")
        command = Command(argv, skill=request.skill, cwd=request.cwd, env=env, secrets=secret, network=request.network)
        isolation, id_ = self._workspace.isolation, request.request_id or ""
        return audit.AuditRun(secrets.token_hex(8), self._who, command, isolation, request_id=id_)

    @contextmanager
    def _audit_failures(self, run: audit.AuditRun) -> Generator["_RunDraft"]:
        noted = _RunDraft(run)
        try:
            yield noted
        except SkillError as error:
            spans.refused(error)
            self._log_record(audit.build_failure_record(noted.run, error.message))
            raise
        except BaseException as error:
            spans.refused(error)
            self._log_record(audit.build_failure_record(noted.run, f"{type(error).__name__}: {error}"))
            raise

    async def _launch(self, request: RunRequest, run: audit.AuditRun, how: str) -> ActiveCommand | None:
        """Start it; None when the yes was for another skill than would be run, because it was staged again since."""
        command = run.command
        with ExitStack() as starting:
            async with self._staging:
                snapshot = self._snapshots.get(request.skill or "")
                if snapshot is not None and snapshot.digest != run.digest:
                    return None
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
                    command = await self._add_editor(command, request.editor_text)
                starting.enter_context(self._starts)
            self._log_begin(run, how)
            mark = await self._workspace.mark() if request.outputs is not None else 0
            with spans.starting(run, request.command) as watched:
                process = await self._workspace.start(command)
        return ActiveCommand(process, run, mark, request, tuple(staged), watched)

    async def _prepare_command(self, request: RunRequest) -> tuple[Command, SkillSnapshot | None]:
        snapshot = self._snapshots.get(request.skill or "")
        if snapshot is None and request.skill is not None:
            raise InvalidArgument("skill", f"{request.skill!r} is not staged; stage it first")
        run_dir = f"{RUNS}/run_{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}_{secrets.token_hex(4)}"
        values = {name: value for name, value in self._rules.values.items() if name in request.secrets}
        command = Command(
            ("true",),
            skill=request.skill,
            cwd=resolve_cwd(request.cwd, skill=request.skill, run_dir=run_dir),
            run_dir=run_dir,
            env=check_env(request.env),
            secrets=resolve_secrets(request.secrets, values),
            stdin=request.stdin,
            input_open=request.input_open,
            readable=request.readable,
            terminal=request.terminal,
            limits=request.limits,
            network=self._check_network(request.network),
            warm=request.warm if request.warm is not None else self._warm.get(request.skill or ""),
        )
        argv = await self._apply_policy(request.command, command)
        if snapshot is None or self._rules.policy.has_lists:
            return replace(command, argv=argv), snapshot
        own = await self._packages.rewrite_command(snapshot.name, snapshot.digest, request.command, command.cwd)
        if own is None:
            return replace(command, argv=argv), snapshot
        return replace(command, argv=own.argv, env={**own.env, **command.env}), snapshot

    async def _apply_policy(self, wanted: str | tuple[str, ...], command: Command) -> tuple[str, ...]:
        policy = self._rules.policy
        where = PolicyContext(self._workspace.root, skill=command.skill)
        if policy.has_lists:
            found = await find_program(self._workspace, wanted, command, policy.resolve_denied(where))
            where = PolicyContext(where.root, lambda _: found, where.skill, command.cwd)
        return policy.resolve_argv(wanted, where)

    def _check_network(self, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            if host not in self._rules.network:
                raise InvalidArgument("network", f"{host!r} is not among the hosts that may be reached here")
        return hosts

    async def _add_editor(self, command: Command, text: str) -> Command:
        files = build_editor_files(text, root=self._workspace.root, run_dir=command.run_dir, env=command.env)
        await self._workspace.write(files.text_path, files.text)
        await self._workspace.write(files.script_path, files.script, executable=True)
        return replace(command, env={**command.env, **files.env})

    async def _collect_outputs(
        self, started: ActiveCommand, ended: CommandResult
    ) -> tuple[OutputCollection, Sequence[Artifact]]:
        spec = started.request.outputs
        if spec is None:
            return OutputCollection((), ()), ()
        run_dir = started.run.command.run_dir
        collected = await collect_outputs(self._workspace, spec, since=started.mark, run_dir=run_dir)
        if ended.exit_code != 0 or ended.ending is not EndReason.EXITED:
            collected = drop_empty_files(collected)
        if not spec.save or not collected.files:
            return collected, ()
        if self._artifacts is None:
            note = "artifacts were not saved: there is no artifact store"
            return replace(collected, warnings=(*collected.warnings, note)), ()
        kept = await save_outputs(
            self._workspace, collected.files, self._artifacts, self._scope, prefix=spec.name_template
        )
        return replace(collected, warnings=(*collected.warnings, *kept.warnings)), kept.artifacts

    def _log_begin(self, run: audit.AuditRun, how: str) -> None:
        self._log_record({**audit.build_start_record(run), **({"approval": how} if how else {})})

    def _log_record(self, record: Mapping[str, object]) -> None:
        if self._log is not None:
            self._log.write(record)


async def open_command_runner(
    executor: Executor,
    settings: Settings,
    scope: Scope,
    *,
    agent: str = "",
    artifacts: ArtifactStore | None = None,
    rules: CommandRules | None = None,
) -> CommandRunner:
    """The workbench of a session: its workspace, its journal, and the audit log of this machine."""
    key = json.dumps([scope.app, scope.user, scope.session])
    with span("workspace.create", {"workspace.executor": executor.name}) as watched:
        workspace = await executor.open(key)
        watched.set({"workspace.id": workspace.id, "workspace.isolation": str(workspace.isolation)})
    return CommandRunner(
        workspace,
        executor,
        scope,
        key=key,
        agent=agent,
        artifacts=artifacts,
        rules=rules,
        log=AuditLog(settings.state_dir / "audit.jsonl"),
        replay=RequestDeduplicator(settings.state_dir / "workspaces" / workspace.id / "journal", workspace.isolation),
    )
