"""`skill_run`: one command of a loaded skill, from its beginning to its end."""

from openskills.tools.result import ToolResult
from openskills.tools.run_arguments import RunArguments
from openskills.tools.run_outcome import outcome, told
from openskills.tools.run_request import prepared
from openskills.tools.tool import Tool, ToolContext


async def run(context: ToolContext, arguments: RunArguments) -> ToolResult:
    """Run a command and say how it went. Calls at the same time share the workspace, and what is new in it.

    A failed command is a result. Raises what keeps it from being run: `UnknownSkill`, `NotLoaded`, `InvalidArgument`,
    `ForbiddenPath`, `CommandDenied`, `LimitExceeded`, `ExecutorUnavailable`.
    """
    ready = await prepared(context, arguments)
    result = await ready.bench.run(ready.request)
    data = outcome(result, ready.shape, ready.arrivals.files.values(), ready.arrivals.warnings)
    ready.staging.told(ready.arrivals)
    return ToolResult(told(data), data)


SKILL_RUN = Tool(
    "skill_run",
    "Run a command that a loaded skill's instructions call for; not for looking around. It starts in the skill's "
    "folder, which is read-only: write results to out/. The user's files are in work/inputs/. Returns exit_code, "
    "stdout and stderr (long ones cut) and the files that this run made or changed, with refs for other tools.",
    RunArguments,
    run,
)
