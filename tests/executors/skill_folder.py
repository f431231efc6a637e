"""A skill's folder for tests."""

import os
import time
from pathlib import Path


def skill_folder(directory: Path, name: str = "pdf", files: int = 3) -> Path:
    """A folder with a SKILL.md and some scripts, one of them executable, changed long enough ago to be trusted."""
    folder = directory / name
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: d\n---\n")
    for number in range(files):
        (folder / f"scripts/{number}.py").write_text(f"print({number})\n")
    (folder / "scripts/0.py").chmod(0o755)
    settle(folder)
    return folder


def settle(folder: Path) -> None:
    """Wait until the last change in a folder is old enough for its stamp to be trusted."""
    newest = max(path.lstat().st_ctime_ns for path in (folder, *folder.rglob("*")))
    while time.time_ns() <= newest + 21_000_000:
        os.sched_yield()
