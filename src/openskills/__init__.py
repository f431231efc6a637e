"""OpenSkill: find, check, show, run and host Agent Skills.

Importing this package loads nothing else. Each public name is fetched from its module when it is first used.
"""

from typing import TYPE_CHECKING

from openskills.lazy import lazy_exports

if TYPE_CHECKING:
    from openskills.agent.agent import Agent as Agent
    from openskills.agent.runner import Runner as Runner
    from openskills.catalog.catalog import Catalog as Catalog
    from openskills.catalog.skill import Resource as Resource
    from openskills.catalog.skill import Skill as Skill
    from openskills.catalog.validate import validate as validate
    from openskills.errors import CommandDenied as CommandDenied
    from openskills.errors import ExecutorUnavailable as ExecutorUnavailable
    from openskills.errors import ForbiddenPath as ForbiddenPath
    from openskills.errors import InvalidArgument as InvalidArgument
    from openskills.errors import InvalidSkill as InvalidSkill
    from openskills.errors import LimitExceeded as LimitExceeded
    from openskills.errors import MissingExtra as MissingExtra
    from openskills.errors import NotLoaded as NotLoaded
    from openskills.errors import SkillError as SkillError
    from openskills.errors import SourceUnavailable as SourceUnavailable
    from openskills.errors import UnknownSkill as UnknownSkill
    from openskills.project import SkillGrants as SkillGrants
    from openskills.prompt.overview import Overview as Overview
    from openskills.prompt.overview import overview as overview
    from openskills.runtime.options import SessionOptions as SessionOptions
    from openskills.runtime.runtime import SkillRuntime as SkillRuntime
    from openskills.runtime.session import SkillSession as SkillSession
    from openskills.settings import Settings as Settings
    from openskills.skillmd.manifest import SkillManifest as SkillManifest
    from openskills.skillmd.parse import parse as parse
    from openskills.skillmd.problem import Problem as Problem
    from openskills.skillmd.problem import Severity as Severity
    from openskills.tools.tool import ToolResult as ToolResult
    from openskills.version import __version__ as __version__

    __all__: list[str]

_MODULES = {
    "agent.agent": ("Agent",),
    "agent.runner": ("Runner",),
    "catalog.catalog": ("Catalog",),
    "catalog.skill": ("Resource", "Skill"),
    "catalog.validate": ("validate",),
    "errors": (
        "CommandDenied",
        "ExecutorUnavailable",
        "ForbiddenPath",
        "InvalidArgument",
        "InvalidSkill",
        "LimitExceeded",
        "MissingExtra",
        "NotLoaded",
        "SkillError",
        "SourceUnavailable",
        "UnknownSkill",
    ),
    "project": ("SkillGrants",),
    "prompt.overview": ("Overview", "overview"),
    "runtime.options": ("SessionOptions",),
    "runtime.runtime": ("SkillRuntime",),
    "runtime.session": ("SkillSession",),
    "settings": ("Settings",),
    "skillmd.manifest": ("SkillManifest",),
    "skillmd.parse": ("parse",),
    "skillmd.problem": ("Problem", "Severity"),
    "tools.tool": ("ToolResult",),
    "version": ("__version__",),
}

# Hidden from type checkers: a module with __getattr__ would accept every misspelt name.
if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_exports(__name__, _MODULES)
