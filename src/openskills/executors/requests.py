"""What is asked of a workbench, and what it answers. Plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from openskills.artifacts.store import Artifact
from openskills.executors.spec import CapturedOutput, CommandResult, EndReason, Isolation, Limits, TerminalSize
from openskills.executors.staging.inputs import InputSpec, StagedInput
from openskills.executors.staging.outputs import OutputFile, OutputSpec


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One command of a skill. Text is given to bash, a sequence of words is executed as it is.

    `cwd` follows the rules of `layout.resolve_cwd`. `secrets` are names; their values are the workbench's.
    `outputs` of None collects nothing. `warm` names modules that a Python command may find loaded
    already. A `request_id` makes the run happen at most once, and its result durable.
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


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run went. A command that failed is a result, too; only what kept it from being run is an exception.

    `digest` names the snapshot of the skill that was run. `replayed`: this is the answer to an earlier request of the
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
        """As a shell would say it."""
        return self.ended.exit_code

    @property
    def timed_out(self) -> bool:
        """Whether its time ran out."""
        return self.ended.ending is EndReason.TIMED_OUT

    @property
    def stdout(self) -> str:
        """What was kept of its output, as text."""
        return self.ended.stdout.text()

    @property
    def stderr(self) -> str:
        """What was kept of its errors, as text."""
        return self.ended.stderr.text()


def read_warm_modules(metadata: Mapping[str, object]) -> tuple[str, ...] | None:
    """The modules that a skill's author wants to have loaded ahead: `openskills-warm` in `metadata`, or None."""
    wanted = metadata.get("openskills-warm")
    return tuple(wanted.replace(",", " ").split()) if isinstance(wanted, str) else None


def build_interrupted_result(isolation: Isolation, run_id: str, detail: str) -> RunResult:
    """The answer for a run of which only the beginning is known."""
    return RunResult(
        CommandResult(-1, EndReason.INTERRUPTED, 0, CapturedOutput(), CapturedOutput(), detail=detail),
        isolation,
        run_id,
    )
