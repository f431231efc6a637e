"""SKILL.md as text: parse it, check it, fix it, create a new one. Pure: reads and writes no files."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.skillmd.manifest import SkillManifest as SkillManifest
    from openskills.skillmd.problem import Problem as Problem
    from openskills.skillmd.problem import Severity as Severity

_MODULES = {"manifest": ("SkillManifest",), "problem": ("Problem", "Severity")}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_exports(__name__, _MODULES)
