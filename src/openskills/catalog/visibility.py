"""Which skills a model is not shown, and why, in words that a person can act on."""

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from openskills.settings import Settings
from openskills.skillmd.manifest import SkillManifest
from openskills.skillmd.requirements import Requirements

_SYSTEMS = {"linux": "linux", "darwin": "darwin", "win32": "windows", "cygwin": "windows"}
_EVERYWHERE = ("python", "python3")


@dataclass(frozen=True, slots=True)
class Machine:
    """What requirements are checked against: the operating system, its programs, the environment."""

    system: str
    has_program: Callable[[str], bool]
    environment: Mapping[str, str]

    @classmethod
    def here(cls, settings: Settings) -> "Machine":
        """This machine, as `settings` see it. Programs are looked up once each; executors bring `python`."""

        @cache
        def has_program(name: str) -> bool:
            return name in _EVERYWHERE or shutil.which(name, path=settings.search_path) is not None

        return cls(_SYSTEMS.get(sys.platform, sys.platform), has_program, settings.environment)


def hidden_reason(manifest: SkillManifest, machine: Machine) -> str | None:
    """Why a model must not see this skill, or None when it may."""
    if manifest.disable_model_invocation:
        return "its author reserves it for people (disable-model-invocation)"
    if manifest.requirements and not manifest.requirements.always:
        return _unmet(manifest.requirements, machine)
    return None


def _unmet(needs: Requirements, machine: Machine) -> str | None:
    if needs.platforms and machine.system not in needs.platforms:
        return f"it is for {_either(needs.platforms)}, and this is {machine.system}"
    missing = [name for name in needs.bins if not machine.has_program(name)]
    if missing:
        return f"it needs the program {_all(missing)}; install it so that it is on the PATH"
    if needs.any_bins and not any(machine.has_program(name) for name in needs.any_bins):
        return f"it needs one of the programs {_either(needs.any_bins)}; install one so that it is on the PATH"
    unset = [name for name in needs.env if not machine.environment.get(name)]
    if unset:
        return f"it needs the environment variable {_all(unset)}; set it"
    return None


_MOST_NAMED = 5


def _all(names: list[str]) -> str:
    return " and ".join(_some(names))


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(_some(names))


def _some(names: Sequence[str]) -> list[str]:
    more = len(names) - _MOST_NAMED
    return [*names[:_MOST_NAMED], f"{more} more"] if more > 0 else list(names)
