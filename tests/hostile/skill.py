"""The battery as a skill, so that it gets to where it runs in the way that every skill does."""

import shutil
from pathlib import Path

PROBES = Path(__file__).resolve().parent / "probes"
COMMAND = ("python3", "skills/battery/run.py", "work/world.json")

_SKILL = "---\nname: battery\ndescription: Tries to get out. Use when checking that nothing can.\n---\n\n# Battery\n"
_RUN = "import runpy\n\nrunpy.run_module('tests.hostile.probes', run_name='__main__', alter_sys=True)\n"


def write_battery(directory: Path) -> Path:
    """The folder of the skill, below `directory`."""
    skill = directory / "battery"
    shutil.copytree(PROBES, skill / "tests" / "hostile" / "probes", ignore=shutil.ignore_patterns("__pycache__"))
    (skill / "SKILL.md").write_text(_SKILL, "utf-8")
    (skill / "run.py").write_text(_RUN, "utf-8")
    for name in ("data.txt", "remove-me.txt", "writable.txt"):
        (skill / name).write_text("data\n", "utf-8")
    return skill
