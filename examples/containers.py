"""Commands of skills in containers, one for each session.

    pip install "openskill-runtime[docker]"
    docker pull python:3.13-slim
    python examples/containers.py

Any engine that speaks Docker's API will do; `DOCKER_HOST` names another, `OPENSKILL_CONTAINER_IMAGE` another image.
Where there is none, the program says so and runs nothing: no executor is ever replaced by a weaker one.
"""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

from openskills.agent import Agent, Attachment, Runner
from openskills.catalog import Catalog
from openskills.errors import ExecutorUnavailable, MissingExtra
from openskills.executors import open_executor
from openskills.runtime import SkillRuntime, SkillSession
from openskills.settings import Settings

SKILLS = Path(__file__).parent.parent / "skills"
SALES = Attachment("sales.csv", b"month,amount\n2026-01,12\n2026-02,19\n")

CLAIMS = {
    "Nobody is root": "test $(id -u) -ne 0",
    "The system cannot be written to": "! touch /usr/here",
    "The directory for output can": "touch $OUTPUT_DIR/here",
    "The network is off": "test $(ls /sys/class/net) = lo",
}


async def main(directory: Path) -> None:
    """Let an agent work in a container, then look around in it; `directory` holds everything."""
    settings = replace(Settings.from_env(), state_dir=directory)
    try:
        place = open_executor("container", settings)
        isolation = await place.check()
    except (ExecutorUnavailable, MissingExtra) as error:
        print(f"No command was run: {error}")
        return
    print(f"A container engine answers, and gives the isolation {isolation}.")
    async with SkillRuntime(Catalog.from_paths(SKILLS), place, settings=settings) as runtime:
        runner = Runner("office", Agent("assistant", "rule", runtime))
        reply = await runner.reply(user="ada", session="sales", message="A report of sales.csv", files=[SALES])
        made = [event.payload["ref"] for event in reply.events if event.kind == "artifact"]
        print(f"An agent made {', '.join(made)} in a container.")

        print("\nA look around in it:")
        async with runtime.session("sales", user="ada", app="office") as session:
            await session.call("skill_load", {"skill": "csv-report"})
            for claim, command in CLAIMS.items():
                print(f"  {claim}: {await verdict(session, command)}.")
    # Who makes an executor closes it.
    await place.close()


async def verdict(session: SkillSession, command: str) -> str:
    """Whether a claim is true: a command finds out."""
    result = await session.call("skill_run", {"skill": "csv-report", "command": command})
    if result.error is not None:
        return result.text
    return "true" if result.data["exit_code"] == 0 else f"not true ({result.data['stderr'].strip()})"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))
