"""A process that has a skill under way, to be killed: prints a line when the skill runs."""

import asyncio
import sys
from pathlib import Path

from openskills.host.model import SkillStartMethod
from openskills.host.runners.table import Runners
from tests.host.calls_made import called, python_skill, settings


async def main(directory: Path, executor: str, warm: str) -> None:
    """Call the skill a few times at once, and wait for an end that does not come."""
    runners = Runners(settings(directory), directory=directory)
    skill = python_skill(
        directory / "skill.py", executor=executor, warm=SkillStartMethod(warm), allowed_root=directory / "data"
    )
    runner = runners.get_runner(skill)
    await runner.prepare(skill)
    calls = [asyncio.ensure_future(runner.invoke(skill, called(seconds=600))) for _ in range(3)]
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    await asyncio.gather(*calls)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
