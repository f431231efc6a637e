"""Requests to a command runner, and results. Plain values."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from openskills.arguments import check_arguments
from openskills.artifacts.store import Artifact, Scope
from openskills.catalog.skill import Skill
from openskills.executors.environment import can_grant
from openskills.executors.spec import (
    NO_PACKAGES,
    CapturedOutput,
    CommandResult,
    EndReason,
    Isolation,
    Limits,
    PackageEnvironment,
    TerminalSize,
)
from openskills.executors.staging.inputs import InputSpec, StagedInput
from openskills.executors.staging.outputs import OutputFile, OutputSpec
from openskills.executors.staging.packages import PackageSet
from openskills.project import SkillGrants


class InstallMode(StrEnum):
    """What happens with packages that a skill declares and that are not installed yet."""

    ASK = "ask"
    NEVER = "never"
    ALWAYS = "always"


@check_arguments
@dataclass(frozen=True, slots=True)
class PackageOptions:
    """The packages of a skill's commands.

    `packages` are named by the user, which is permission to install them. `venv` is an existing virtual environment,
    which is used instead of a skill's own. `install` decides about what the skill declares: `ask` uses the approval
    hook once for each version of the skill and set of packages.
    """

    packages: PackageSet = field(default_factory=PackageSet)
    venv: Path | None = None
    install: InstallMode = InstallMode.NEVER


@dataclass(frozen=True, slots=True)
class ProvidedPackages:
    """The environment for a command; `warnings` name what is missing, and how to get it."""

    environment: PackageEnvironment = NO_PACKAGES
    warnings: tuple[str, ...] = ()


@check_arguments
@dataclass(frozen=True, slots=True)
class RunRequest:
    """One command of a skill. Text is passed to bash; a tuple of words is executed directly.

    `cwd` follows the rules of `resolve_cwd`. `secrets` are names; the runner has their values. Without `outputs`,
    nothing is collected. `warm` names modules that a Python command may find preloaded. With a `request_id` the command
    runs at most once, also across restarts of the host and, with `durable`, across a power failure.
    """

    command: str | tuple[str, ...]
    skill: str | None = None
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets: tuple[str, ...] = ()
    stdin: bytes = field(default=b"", repr=False)
    editor_text: str | None = None
    inputs: tuple[InputSpec, ...] = ()
    outputs: OutputSpec | None = None
    limits: Limits = field(default_factory=Limits)
    network: tuple[str, ...] = ()
    input_open: bool = False
    readable: bool = False
    warm: tuple[str, ...] | None = None
    terminal: TerminalSize | None = None
    request_id: str | None = None
    durable: bool = True
    packages: PackageEnvironment = NO_PACKAGES


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run. A failed command is a result, too; an exception means that it could not be run.

    `digest` identifies the snapshot of the skill. `replayed`: this is the stored result of an earlier request with the
    same id, and nothing was run.
    """

    ended: CommandResult
    isolation: Isolation
    run_id: str
    digest: str = ""
    output_files: tuple[OutputFile, ...] = ()
    artifact_files: tuple[Artifact, ...] = ()
    staged_inputs: tuple[StagedInput, ...] = ()
    warnings: tuple[str, ...] = ()
    replayed: bool = False

    @property
    def exit_code(self) -> int:
        """The exit code as a shell reports it."""
        return self.ended.exit_code

    @property
    def timed_out(self) -> bool:
        """Whether the command timed out."""
        return self.ended.ending is EndReason.TIMED_OUT

    @property
    def stdout(self) -> str:
        """The captured stdout as text."""
        return self.ended.stdout.text()

    @property
    def stderr(self) -> str:
        """The captured stderr as text."""
        return self.ended.stderr.text()


@check_arguments
@dataclass(frozen=True, slots=True)
class SecretRequest:
    """A skill declares the variables `names`, which it was not granted.

    `digest` identifies the content of its folder, `directory`.
    """

    skill: str
    directory: str
    digest: str
    names: tuple[str, ...]
    scope: Scope
    agent: str = ""


SecretCallback: TypeAlias = Callable[[SecretRequest], Awaitable[Mapping[str, str]]]
"""Returns the values of the variables that the user grants. Called whenever a skill is used, so it has to remember."""


def build_secret_request(
    skill: Skill, digest: str, grants: SkillGrants, scope: Scope, agent: str = ""
) -> SecretRequest | None:
    """The request for the variables that a skill declares and was not granted; None if there are none."""
    needs = skill.manifest.requirements
    known = {*grants.secrets, *grants.environment}
    names = tuple(name for name in (*needs.env, *needs.optional_env) if name not in known and can_grant(name))
    return SecretRequest(skill.name, skill.directory, digest, names, scope, agent) if names else None


def read_warm_modules(metadata: Mapping[str, object]) -> tuple[str, ...] | None:
    """The modules to preload, from `openskills-warm` in a skill's metadata; None if it is not set."""
    wanted = metadata.get("openskills-warm")
    return tuple(wanted.replace(",", " ").split()) if isinstance(wanted, str) else None


def build_interrupted_result(isolation: Isolation, run_id: str, detail: str) -> RunResult:
    """The result of a run of which only the start was recorded."""
    ended = CommandResult(-1, EndReason.INTERRUPTED, 0, CapturedOutput(), CapturedOutput(), detail=detail)
    return RunResult(ended, isolation, run_id)
