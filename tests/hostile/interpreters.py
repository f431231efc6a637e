"""A Python and a copy of this project that a user without any rights can run."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

UID = 65010
"""No user of any machine; not in the range from which workspaces get theirs."""

ROOT = Path(__file__).resolve().parents[2]
_LEAST = (3, 11)
_UNNEEDED = ("test", "idlelib", "tkinter", "ensurepip", "turtledemo", "site-packages", "*.a")


def open_copy(directory: Path, python: str) -> Path:
    """A copy of the package and of these tests that everybody can read, compiled for an interpreter."""
    copy = directory / "project"
    shutil.copytree(ROOT / "src" / "openskills", copy / "src" / "openskills")
    shutil.copytree(ROOT / "tests" / "hostile", copy / "tests" / "hostile")
    shutil.copy(ROOT / "pyproject.toml", copy)
    # What was compiled before is copied and stays as it is. Nobody else may write beside the code.
    subprocess.run([python, "-m", "compileall", "-q", str(copy)], check=True)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return copy


def open_interpreter(directory: Path) -> str:
    """A Python that everybody can run: this one, the system's, or else a copy of this one."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        if _is_open(Path(candidate)) and _is_open(Path(os.path.realpath(candidate))) and _is_new_enough(candidate):
            return candidate
    copy = directory / "python"
    base = Path(sys.base_prefix)
    shutil.copytree(base, copy, symlinks=True, ignore=shutil.ignore_patterns(*_UNNEEDED))
    for path in (copy, *copy.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
    return str(copy / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}")


def _is_open(path: Path) -> bool:
    """Whether everybody gets there."""
    return path.exists() and all(parent.stat().st_mode & stat.S_IXOTH for parent in (path, *path.parents))


def _is_new_enough(python: str) -> bool:
    asked = [python, "-I", "-S", "-c", "import sys; print(*sys.version_info[:2])"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    return len(answer) == 2 and tuple(map(int, answer)) >= _LEAST
