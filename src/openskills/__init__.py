"""OpenSkill: find, check, show, run and host Agent Skills.

Importing this package loads nothing else. Each public name is fetched from its module when it is first used.
"""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.agent.agent import Agent
    from openskills.agent.runner import Runner
    from openskills.catalog.catalog import Catalog
    from openskills.catalog.skill import Resource, Skill
    from openskills.catalog.validate import validate
    from openskills.errors import (
        CommandDenied,
        ExecutorUnavailable,
        ForbiddenPath,
        InvalidArgument,
        InvalidSkill,
        LimitExceeded,
        MissingExtra,
        NotLoaded,
        SkillError,
        SourceUnavailable,
        UnknownSkill,
    )
    from openskills.project import SkillGrants
    from openskills.prompt.overview import Overview, overview
    from openskills.runtime.options import SessionOptions
    from openskills.runtime.runtime import SkillRuntime
    from openskills.runtime.session import SkillSession
    from openskills.settings import Settings
    from openskills.skillmd.manifest import SkillManifest
    from openskills.skillmd.parse import parse
    from openskills.skillmd.problem import Problem, Severity
    from openskills.tools.tool import ToolResult
    from openskills.version import __version__


__all__ = [
    "Agent",
    "Catalog",
    "CommandDenied",
    "ExecutorUnavailable",
    "ForbiddenPath",
    "InvalidArgument",
    "InvalidSkill",
    "LimitExceeded",
    "MissingExtra",
    "NotLoaded",
    "Overview",
    "Problem",
    "Resource",
    "Runner",
    "SessionOptions",
    "Settings",
    "Severity",
    "Skill",
    "SkillError",
    "SkillGrants",
    "SkillManifest",
    "SkillRuntime",
    "SkillSession",
    "SourceUnavailable",
    "ToolResult",
    "UnknownSkill",
    "__version__",
    "overview",
    "parse",
    "validate",
]

_HOME = {
    "Agent": "agent.agent",
    "Catalog": "catalog.catalog",
    "CommandDenied": "errors",
    "ExecutorUnavailable": "errors",
    "ForbiddenPath": "errors",
    "InvalidArgument": "errors",
    "InvalidSkill": "errors",
    "LimitExceeded": "errors",
    "MissingExtra": "errors",
    "NotLoaded": "errors",
    "Overview": "prompt.overview",
    "Problem": "skillmd.problem",
    "Resource": "catalog.skill",
    "Runner": "agent.runner",
    "SessionOptions": "runtime.options",
    "Settings": "settings",
    "Severity": "skillmd.problem",
    "Skill": "catalog.skill",
    "SkillError": "errors",
    "SkillGrants": "project",
    "SkillManifest": "skillmd.manifest",
    "SkillRuntime": "runtime.runtime",
    "SkillSession": "runtime.session",
    "SourceUnavailable": "errors",
    "ToolResult": "tools.tool",
    "UnknownSkill": "errors",
    "__version__": "version",
    "overview": "prompt.overview",
    "parse": "skillmd.parse",
    "validate": "catalog.validate",
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, _HOME)
