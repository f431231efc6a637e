"""Commands of hooks in a workspace of an executor."""

import hashlib
from dataclasses import dataclass

from openskills.adapters.langchain.hook_runs import HookEnd, HookRun
from openskills.executors.protocol import Executor
from openskills.executors.spec import Command, Limits

_LIMITS = Limits(timeout=60.0, output_bytes=64 * 1024)


@dataclass(frozen=True, slots=True)
class ExecutorHooks:
    """Runs each command by `bash`, in a folder with the files of its skill; implements `HookRunner`.

    Each thread has a workspace of its own. Close the executor when the agent is no longer used.
    """

    executor: Executor
    limits: Limits = _LIMITS

    async def run(self, run: HookRun) -> HookEnd:
        """See `HookRunner.run`."""
        key = hashlib.blake2b(run.thread.encode(), digest_size=12).hexdigest()
        workspace = await self.executor.open(f"hooks-{key}")
        folder = f"work/{run.skill}"
        await workspace.make_directory(folder)
        for path, data in run.files.items():
            await workspace.write(f"{folder}/{path}", data, executable=path.startswith("scripts/"))
        argv = ("bash", "-c", run.command)
        process = await workspace.start(
            Command(argv, cwd=folder, stdin=run.payload.encode(), limits=self.limits, run_dir="runs/hooks")
        )
        ended = await process.wait()
        return HookEnd(ended.exit_code, ended.stdout.text(), ended.stderr.text())
