"""OpenSkill: find, check, show, run and host Agent Skills.

Importing this package loads nothing else. Each public name is fetched from its module when it is first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openskills.catalog.catalog import Catalog
    from openskills.catalog.skill import Resource, Skill
    from openskills.catalog.validate import validate
    from openskills.errors import (
        ForbiddenPath,
        InvalidArgument,
        InvalidSkill,
        LimitExceeded,
        MissingExtra,
        SkillError,
        SourceUnavailable,
        UnknownSkill,
    )
    from openskills.prompt.overview import Overview, overview
    from openskills.settings import Settings
    from openskills.skillmd.manifest import SkillManifest
    from openskills.skillmd.parse import parse
    from openskills.skillmd.problem import Problem, Severity
    from openskills.version import __version__

__all__ = [
    "Catalog",
    "ForbiddenPath",
    "InvalidArgument",
    "InvalidSkill",
    "LimitExceeded",
    "MissingExtra",
    "Overview",
    "Problem",
    "Resource",
    "Settings",
    "Severity",
    "Skill",
    "SkillError",
    "SkillManifest",
    "SourceUnavailable",
    "UnknownSkill",
    "__version__",
    "overview",
    "parse",
    "validate",
]

_HOME = {
    "Catalog": "catalog.catalog",
    "ForbiddenPath": "errors",
    "InvalidArgument": "errors",
    "InvalidSkill": "errors",
    "LimitExceeded": "errors",
    "MissingExtra": "errors",
    "Overview": "prompt.overview",
    "Problem": "skillmd.problem",
    "Resource": "catalog.skill",
    "Settings": "settings",
    "Severity": "skillmd.problem",
    "Skill": "catalog.skill",
    "SkillError": "errors",
    "SkillManifest": "skillmd.manifest",
    "SourceUnavailable": "errors",
    "UnknownSkill": "errors",
    "__version__": "version",
    "overview": "prompt.overview",
    "parse": "skillmd.parse",
    "validate": "catalog.validate",
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Fetch a public name from its module and remember it."""
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """What is there already, and what would be fetched."""
        return sorted({*globals(), *__all__})
