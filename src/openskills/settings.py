"""The only reader of the environment: it becomes one frozen value that is passed to whoever needs it."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from openskills.errors import InvalidArgument

_DAY = 24 * 60 * 60.0
_GIB = 1024**3
_LAST_UID = 2**32 - 3
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 60 * 60, "d": _DAY}
_BYTES = {"": 1, "k": 1024, "m": 1024**2, "g": _GIB, "t": 1024**4}


@dataclass(frozen=True, slots=True)
class Settings:
    """Where OpenSkill keeps things, where it looks, and how commands of skills are run, decided once per process.

    `environment` is the environment these settings were read from; requirements of skills are checked against it.
    `allowed_commands` is None when there is no such list. `host_roots` are the directories that `host://` inputs may
    come from. `sandbox_uids` are the first and the last user id that commands run as when we are root. `trace_content`
    allows what models, skills and users wrote in spans and lines of the log.
    """

    home: Path
    cache_dir: Path
    skills_cache_dir: Path
    config_dir: Path
    state_dir: Path
    skills_root: str | None
    search_path: str
    index: bool
    debug: bool
    trace_content: bool
    model: str | None
    executor: str
    allow_local: bool
    allowed_commands: tuple[str, ...] | None
    denied_commands: tuple[str, ...]
    host_roots: tuple[Path, ...]
    container_image: str | None
    docker_host: str | None
    sandbox_uids: tuple[int, int]
    workspace_ttl: float
    workspace_bytes: int
    workspace_files: int
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
            state_dir=_directory(env, "OPENSKILL_STATE_DIR") or _xdg(env, "XDG_STATE_HOME", home / ".local/state"),
            skills_root=_text(env, "SKILLS_ROOT"),
            search_path=env.get("PATH", os.defpath),
            index=_flag(env, "OPENSKILL_INDEX", default=True),
            debug=_flag(env, "OPENSKILL_DEBUG", default=False),
            trace_content=_flag(env, "OPENSKILL_TRACE_CONTENT", default=False),
            model=_text(env, "OPENSKILL_MODEL"),
            executor=_executor(env, "OPENSKILL_EXECUTOR"),
            allow_local=_flag(env, "OPENSKILL_ALLOW_LOCAL", default=False),
            allowed_commands=_commands(env, "OPENSKILL_RUN_ALLOWED_COMMANDS", "TRPC_AGENT_SKILL_RUN_ALLOWED_COMMANDS"),
            denied_commands=_commands(env, "OPENSKILL_RUN_DENIED_COMMANDS", "TRPC_AGENT_SKILL_RUN_DENIED_COMMANDS")
            or (),
            host_roots=_directories(env, "OPENSKILL_HOST_ROOTS"),
            container_image=_text(env, "OPENSKILL_CONTAINER_IMAGE"),
            docker_host=_text(env, "DOCKER_HOST"),
            sandbox_uids=_uids(env, "OPENSKILL_SANDBOX_UIDS", (52000, 55999)),
            workspace_ttl=_seconds(env, "OPENSKILL_WORKSPACE_TTL", _DAY),
            workspace_bytes=_amount(env, "OPENSKILL_WORKSPACE_BYTES", _GIB),
            workspace_files=_amount(env, "OPENSKILL_WORKSPACE_FILES", 50_000),
            environment=env,
        )


def seconds(text: str, field: str) -> float:
    """A length of time as people write it: `90`, `90s`, `15m`, `24h`, `7d`. Raises `InvalidArgument` for `field`."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?) ?([smhd]?)", text.strip().lower(), re.ASCII)
    if match is None:
        raise InvalidArgument(field, f"{text!r} is no length of time; use 90s, 15m, 24h or 7d")
    return float(match[1]) * _SECONDS[match[2]]


def _text(env: Mapping[str, str], name: str) -> str | None:
    return env.get(name, "").strip() or None


def _executor(env: Mapping[str, str], name: str) -> str:
    value = _text(env, name) or "auto"
    # A name from the table of executors, or the dotted path of somebody's own.
    if not re.fullmatch(r"[A-Za-z_][\w.:-]{0,199}", value, re.ASCII):
        raise InvalidArgument(name, f"{value!r} is no name of an executor; use auto, sandbox, container or local")
    return value


def _commands(env: Mapping[str, str], name: str, fallback: str) -> tuple[str, ...] | None:
    value = _text(env, name) or _text(env, fallback) or ""
    found = tuple(word for word in re.split(r"[,\s]+", value) if word)
    return found or None


def _directories(env: Mapping[str, str], name: str) -> tuple[Path, ...]:
    found = tuple(Path(part) for part in env.get(name, "").split(":") if part.strip())
    for path in found:
        if not path.is_absolute() or ".." in path.parts:
            raise InvalidArgument(name, f"{str(path)!r} is no absolute path; separate absolute paths with colons")
    return found


def _uids(env: Mapping[str, str], name: str, default: tuple[int, int]) -> tuple[int, int]:
    value = _text(env, name)
    if value is None:
        return default
    match = re.fullmatch(r"(\d{1,10})\s*-\s*(\d{1,10})", value, re.ASCII)
    if match is None or not 0 < int(match[1]) <= int(match[2]) <= _LAST_UID:
        raise InvalidArgument(name, f"{value!r} is no range of user ids; use two numbers such as 52000-55999")
    return int(match[1]), int(match[2])


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    value = _text(env, name)
    return default if value is None else seconds(value, name)


def _amount(env: Mapping[str, str], name: str, default: int) -> int:
    value = _text(env, name)
    if value is None:
        return default
    match = re.fullmatch(r"(\d{1,15}) ?([kmgt]?)(?:i?b)?", value.lower(), re.ASCII)
    if match is None or not int(match[1]):
        raise InvalidArgument(name, f"{value!r} is no amount; use a number such as 50000, or 512M, 2G")
    return int(match[1]) * _BYTES[match[2]]


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
