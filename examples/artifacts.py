"""What a command makes can be kept: artifacts have a name and a version, and their bytes never change.

    python examples/artifacts.py

A report is made and saved twice, and both versions can still be read. A picture goes from the user through a command
into the store, and is the same to the last byte. With `force_save` nobody has to ask for saving.
"""

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

from openskills.artifacts import read_artifact
from openskills.catalog import Catalog
from openskills.runtime import SessionOptions, SkillRuntime, SkillSession
from openskills.settings import Settings

SKILLS = Path(__file__).parent.parent / "skills"
SKILL = "csv-report"
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
REPORT = {
    "skill": SKILL,
    "command": "python3 scripts/report.py inputs/sales.csv --output $OUTPUT_DIR/sales.md",
    "outputs": {"globs": ["out/*.md"], "save": True},
}


async def main(directory: Path) -> None:
    """Keep texts, keep a picture, keep everything."""
    settings = replace(Settings.from_env(), state_dir=directory)
    async with SkillRuntime(Catalog.from_paths(SKILLS), executor="auto", settings=settings) as runtime:
        async with runtime.session("kept") as session:
            await session.call("skill_load", {"skill": SKILL})
            await two_versions(session)

            session.add_file("logo.png", PICTURE)
            copy = {"skill": SKILL, "command": "cp inputs/logo.png out/logo.png", "output_files": ["out/*.png"]}
            saved = await session.call("skill_run", {**copy, "save_as_artifacts": True})
            picture = saved.data["artifact_files"][0]
            described = await session.call("read_file", {"file_name": picture["ref"]})
            is_same = await read_artifact(runtime.artifacts, session.scope, picture["name"]) == PICTURE
            print(f"\nThe picture is kept as {picture['ref']}; its bytes are {'the same' if is_same else 'DIFFERENT'}.")
            print(f"A model that reads it is told: {described.data['message']}")

        async with runtime.session("all-kept", options=SessionOptions(force_save=True)) as session:
            await session.call("skill_load", {"skill": SKILL})
            command = {"skill": SKILL, "command": "echo done > $OUTPUT_DIR/note.txt"}
            result = await session.call("skill_run", command)
            print(f"\nWith force_save a plain command keeps its file, too: {result.data['artifact_files'][0]['ref']}")


async def two_versions(session: SkillSession) -> None:
    """The same report on two tables: the second is a new version, and the first is still there."""
    for table in ("month,amount\nJan,12\n", "month,amount\nJan,12\nFeb,19\n"):
        await session.call("write_file", {"file_name": "work/inputs/sales.csv", "contents": table})
        result = await session.call("skill_run", REPORT)
        if result.error:
            raise SystemExit(result.text)
        print(f"The command made {result.data['output_files'][0]['ref']}", end=", ")
        print(f"which is kept as {result.data['artifact_files'][0]['ref']}")

    for ref in ("artifact://out/sales.md@0", "artifact://out/sales.md", "workspace://out/sales.md"):
        shown = await session.call("read_file", {"file_name": ref, "start_line": 3, "num_lines": 1})
        print(f"  {ref} says: {shown.data['contents'].strip()}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))
