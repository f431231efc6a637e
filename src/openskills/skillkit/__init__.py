"""A library for authors of skills that are programs: stdin to stdout, one Normalized Skill Result, confined files.

    from openskills.skillkit import main

    def greet(name: str, times: int = 1) -> dict[str, object]:
        return {"greeting": " ".join([f"hello {name}"] * times)}

    if __name__ == "__main__":
        main(greet, version="1.0.0")

A process may be started for every call, so importing this loads little: what deals with files comes when it is used.
"""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports
from openskills.skillkit.entry import Answer, SkillRefusal, artifact, log, main, progress, seconds_left, skill

if TYPE_CHECKING:
    from openskills.skillkit.files import AllowedRoot, Glob, Walk, detect_encoding, root


__all__ = [
    "AllowedRoot",
    "Answer",
    "Glob",
    "SkillRefusal",
    "Walk",
    "artifact",
    "detect_encoding",
    "log",
    "main",
    "progress",
    "root",
    "seconds_left",
    "skill",
]

_MODULES = {"files": ("AllowedRoot", "Glob", "Walk", "detect_encoding", "root")}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    _, __getattr__, __dir__ = lazy_exports(__name__, _MODULES)
