"""SKILL.md as text: parse it, check it, fix it, create a new one. Pure: reads and writes no files."""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.skillmd.manifest import SkillManifest
    from openskills.skillmd.problem import Problem, Severity

__all__ = ["Problem", "Severity", "SkillManifest"]

_HOME = {"Problem": "problem", "Severity": "problem", "SkillManifest": "manifest"}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOME)
