"""The only reader of the environment: it becomes one frozen value that is passed to whoever needs it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from openskills.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Settings:
    """Where OpenSkill keeps things and where it looks, decided once per process.

    `environment` is the environment these settings were read from; requirements of skills are checked against it.
    """

    home: Path
    cache_dir: Path
    skills_cache_dir: Path
    config_dir: Path
    skills_root: str | None
    search_path: str
    index: bool
    debug: bool
    environment: Mapping[str, str]

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> "Settings":
        """Read the documented variables; raises `InvalidArgument` that names a variable with a bad value."""
        env = dict(os.environ if environ is None else environ)
        home = Path(env.get("HOME") or Path.home())
        cache = _directory(env, "OPENSKILL_CACHE_DIR") or _xdg(env, "XDG_CACHE_HOME", home / ".cache")
        return cls(
            home=home,
            cache_dir=cache,
            skills_cache_dir=_directory(env, "SKILLS_CACHE_DIR") or cache / "sources",
            config_dir=_directory(env, "OPENSKILL_CONFIG_DIR") or _xdg(env, "XDG_CONFIG_HOME", home / ".config"),
            skills_root=env.get("SKILLS_ROOT", "").strip() or None,
            search_path=env.get("PATH", os.defpath),
            index=_flag(env, "OPENSKILL_INDEX", default=True),
            debug=_flag(env, "OPENSKILL_DEBUG", default=False),
            environment=env,
        )


def _directory(env: Mapping[str, str], name: str) -> Path | None:
    value = env.get(name, "").strip()
    try:
        return Path(value).expanduser().absolute() if value else None
    except RuntimeError:
        raise InvalidArgument(name, f"{value!r} begins with the home of an unknown user; write the path out") from None
    except FileNotFoundError:
        raise InvalidArgument(name, f"{value!r}: the current directory is gone; use an absolute path") from None


def _xdg(env: Mapping[str, str], name: str, fallback: Path) -> Path:
    value = env.get(name, "").strip()
    # The XDG specification says that relative values are to be ignored.
    base = Path(value) if value and Path(value).is_absolute() else fallback
    return base / "openskills"


def _flag(env: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = env.get(name, "").strip().lower()
    if not value:
        return default
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    raise InvalidArgument(name, f"{env[name]!r} is not a switch; use 1 or 0")
