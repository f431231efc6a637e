"""Settings from environment variables, as one frozen value. No other module reads the environment."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from openskills.arguments import check_arguments
from openskills.errors import InvalidArgument

T = TypeVar("T")
D = TypeVar("D")

_DAY = 24 * 60 * 60.0
_GIB = 1024**3
_LAST_UID = 2**32 - 3
DEFAULT_TIMEOUT_MS = 15_000
"""Of a hosted skill."""
NODE_EXECUTORS = ("sandbox", "container", "landlock", "local")
"""What may run commands on the nodes of a Ray cluster."""
_MAX_WAIT_MS = 24 * 60 * 60 * 1000
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 60 * 60, "d": _DAY}
_CACHE = ("OPENSKILL_CACHE_DIR", "XDG_CACHE_HOME")
_CONFIG = ("OPENSKILL_CONFIG_DIR", "XDG_CONFIG_HOME")
_STATE = ("OPENSKILL_STATE_DIR", "XDG_STATE_HOME")
_OTHER_VARIABLES = {
    "home": ("HOME",),
    "cache_dir": _CACHE,
    "skills_cache_dir": ("SKILLS_CACHE_DIR", *_CACHE),
    "config_dir": _CONFIG,
    "state_dir": _STATE,
    "skills_root": ("SKILLS_ROOT",),
    "search_path": ("PATH",),
    "allowed_commands": ("OPENSKILL_RUN_ALLOWED_COMMANDS", "TRPC_AGENT_SKILL_RUN_ALLOWED_COMMANDS"),
    "denied_commands": ("OPENSKILL_RUN_DENIED_COMMANDS", "TRPC_AGENT_SKILL_RUN_DENIED_COMMANDS"),
    "docker_host": ("DOCKER_HOST",),
    "host_keys": ("OPENSKILL_HOST_KEYS", *_CONFIG),
    "host_history": ("OPENSKILL_HOST_HISTORY", *_STATE),
    "host_api_key": ("OPENSKILL_API_KEY",),
    "host_uploads": ("OPENSKILL_HOST_UPLOADS", *_STATE),
}
"""The variables of fields that are not called `OPENSKILL_` and the name of the field."""
PUBLISH_MODES = ("keys", "open", "off")
"""Who may read published skills; the first one is the default."""
_BASE_URL = "http://127.0.0.1:8000"
_BYTES = {"": 1, "k": 1024, "m": 1024**2, "g": _GIB, "t": 1024**4}


@check_arguments
@dataclass(frozen=True, slots=True)
class Settings:
    """Directories, limits and choices of one process.

    `environment` is the environment that was read; requirements of skills are checked against it. `project` is the
    path of the project file, `off` for none, or None: the one that applies to the current directory. `python` is the
    interpreter that commands find as `python` and `python3`; None means the one that runs OpenSkill.
    `allowed_commands` is None when every command is allowed. `host_roots` are the directories for `host://` inputs.
    `package_hosts` are hosts that installing packages may reach, besides those of the configured indexes.
    `sandbox_uids` are the first and last user id for commands when OpenSkill runs as root. `sandbox_kept` is how many
    seconds an idle sandbox is kept for reuse. `trace_content` allows texts of models, skills and users in spans and
    logs. `storage` is the URL of an object store that several machines share. `lease_ttl` is how many seconds after a
    crash another process may continue a conversation, and `lease_wait` how many one waits for it. `record_requests`
    lets `openskills chat` and the conversations of a host store every request to a model.

    For the skill host: `allowed_root` is where hosted skills may read, `cli_dir` has their scripts and manifests, and
    `http_base_url` is its address for clients, without a trailing slash. `host_concurrency` 0 means twice the number
    of cores, at least 8. `host_auth` is `auto`, `on` or `off`. `host_models` are the models that
    conversations may use besides `model` and `rule`. `host_database` is the `postgresql://` address that several hosts
    share, or None for files. `host_history` is the file of the host's database, None when no history is recorded.
    `host_http_targets` are the targets that the `http` runner may call. `host_uploads` is the directory of uploaded
    skills and files, or None if uploads are off; `host_upload_size` is the limit of one upload, the quotas are those
    of each key, and do not apply to the role `admin` for conversations and workspaces. `host_publish` is who may read
    published skills: `keys` (as all other routes), `open` (everybody) or `off`. `host_public_url` is the address of
    the host in published documents, without a trailing slash; None means the one that a request was sent to.

    For MCP servers that skills and tools come from: `mcp_keys` has the key of each host, and `mcp_env` the names of
    variables that servers that are commands get, besides PATH, HOME and the like.
    """

    home: Path
    cache_dir: Path
    skills_cache_dir: Path
    config_dir: Path
    state_dir: Path
    skills_root: str | None
    project: str | None
    search_path: str
    index: bool
    debug: bool
    trace_content: bool
    model: str | None
    record_requests: bool
    executor: str
    python: Path | None
    allow_local: bool
    allowed_commands: tuple[str, ...] | None
    denied_commands: tuple[str, ...]
    host_roots: tuple[Path, ...]
    package_hosts: tuple[str, ...]
    container_image: str | None
    docker_host: str | None
    ray_executor: str
    sandbox_uids: tuple[int, int]
    sandbox_kept: float
    workspace_ttl: float
    workspace_bytes: int
    workspace_files: int
    storage: str | None
    lease_ttl: float
    lease_wait: float
    http_base_url: str
    allowed_root: Path
    cli_dir: Path
    timeout_ms: int
    host_max_body: int
    host_concurrency: int
    host_queue: int
    host_keys: Path
    host_auth: str
    host_models: tuple[str, ...]
    host_database: str | None = field(repr=False)
    host_history: Path | None
    host_history_days: int
    host_history_content: bool
    host_api_key: str | None = field(repr=False)
    host_http_targets: tuple[str, ...]
    host_uploads: Path | None
    host_upload_size: int
    host_quota_bytes: int
    host_quota_uploads: int
    host_quota_conversations: int
    host_quota_workspaces: int
    host_publish: str
    host_public_url: str | None
    mcp_keys: Mapping[str, str] = field(repr=False)
    mcp_env: tuple[str, ...]
    environment: Mapping[str, str]

    @classmethod
    @check_arguments
    def from_env(cls, environ: Mapping[str, str] | None = None) -> "Settings":
        """Read the documented variables; raises `InvalidArgument` that names a variable with a bad value."""
        env = dict(os.environ if environ is None else environ)
        home = Path(env.get("HOME") or Path.home())
        cache = _read_directory(env, "OPENSKILL_CACHE_DIR") or _read_xdg(env, "XDG_CACHE_HOME", home / ".cache")
        config = _read_directory(env, "OPENSKILL_CONFIG_DIR") or _read_xdg(env, "XDG_CONFIG_HOME", home / ".config")
        state = _read_directory(env, "OPENSKILL_STATE_DIR") or _read_xdg(env, "XDG_STATE_HOME", home / ".local/state")
        return cls(
            home=home,
            cache_dir=cache,
            skills_cache_dir=_read_directory(env, "SKILLS_CACHE_DIR") or cache / "sources",
            config_dir=config,
            state_dir=state,
            skills_root=_read_text(env, "SKILLS_ROOT"),
            project=_read_text(env, "OPENSKILL_PROJECT"),
            search_path=env.get("PATH", os.defpath),
            index=_read_flag(env, "OPENSKILL_INDEX", default=True),
            debug=_read_flag(env, "OPENSKILL_DEBUG", default=False),
            trace_content=_read_flag(env, "OPENSKILL_TRACE_CONTENT", default=False),
            model=_read_text(env, "OPENSKILL_MODEL"),
            record_requests=_read_flag(env, "OPENSKILL_RECORD_REQUESTS", default=True),
            executor=_read_executor(env, "OPENSKILL_EXECUTOR"),
            python=_program(env, "OPENSKILL_PYTHON"),
            allow_local=_read_flag(env, "OPENSKILL_ALLOW_LOCAL", default=False),
            allowed_commands=_read_words(env, *VARIABLES["allowed_commands"]) or None,
            denied_commands=_read_words(env, *VARIABLES["denied_commands"]),
            host_roots=_read_directories(env, "OPENSKILL_HOST_ROOTS"),
            package_hosts=_read_words(env, "OPENSKILL_PACKAGE_HOSTS"),
            container_image=_read_text(env, "OPENSKILL_CONTAINER_IMAGE"),
            docker_host=_read_text(env, "DOCKER_HOST"),
            ray_executor=_read_choice(env, "OPENSKILL_RAY_EXECUTOR", NODE_EXECUTORS),
            sandbox_uids=_read_uids(env, "OPENSKILL_SANDBOX_UIDS", (52000, 55999)),
            sandbox_kept=_read(env, "OPENSKILL_SANDBOX_KEPT", parse_seconds, 60.0),
            workspace_ttl=_read(env, "OPENSKILL_WORKSPACE_TTL", parse_seconds, _DAY),
            workspace_bytes=_read(env, "OPENSKILL_WORKSPACE_BYTES", parse_amount, _GIB),
            workspace_files=_read(env, "OPENSKILL_WORKSPACE_FILES", parse_amount, 50_000),
            storage=_read_text(env, "OPENSKILL_STORAGE"),
            lease_ttl=_read_lease_ttl(env, "OPENSKILL_LEASE_TTL"),
            lease_wait=_read(env, "OPENSKILL_LEASE_WAIT", parse_seconds, 12.0),
            http_base_url=_read(env, "OPENSKILL_HTTP_BASE_URL", parse_base_url, _BASE_URL),
            allowed_root=_read_directory(env, "OPENSKILL_ALLOWED_ROOT") or _resolve_here("data"),
            cli_dir=_read_directory(env, "OPENSKILL_CLI_DIR") or _resolve_here("skills_cli"),
            timeout_ms=_read_integer(env, "OPENSKILL_TIMEOUT_MS", DEFAULT_TIMEOUT_MS, 1, _MAX_WAIT_MS),
            host_max_body=_read(env, "OPENSKILL_HOST_MAX_BODY", parse_amount, 1024**2),
            host_concurrency=_read_integer(env, "OPENSKILL_HOST_CONCURRENCY", 0, 0, 10_000),
            host_queue=_read_integer(env, "OPENSKILL_HOST_QUEUE", 64, 0, 1_000_000),
            host_keys=_read_directory(env, "OPENSKILL_HOST_KEYS") or config / "keys.json",
            host_auth=_read_choice(env, "OPENSKILL_HOST_AUTH", ("auto", "on", "off")),
            host_models=_read_words(env, "OPENSKILL_HOST_MODELS"),
            host_database=parse_database(_read_text(env, "OPENSKILL_HOST_DATABASE"), "OPENSKILL_HOST_DATABASE")[0],
            host_history=_read_history(env, state / "host.db"),
            host_history_days=_read_integer(env, "OPENSKILL_HOST_HISTORY_DAYS", 30, 1, 36_500),
            host_history_content=_read_flag(env, "OPENSKILL_HOST_HISTORY_CONTENT", default=False),
            host_api_key=_read_text(env, "OPENSKILL_API_KEY"),
            host_http_targets=_read_words(env, "OPENSKILL_HOST_HTTP_TARGETS"),
            host_uploads=_read_optional_file(env, "OPENSKILL_HOST_UPLOADS", state / "uploads"),
            host_upload_size=_read(env, "OPENSKILL_HOST_UPLOAD_SIZE", parse_amount, 32 * 1024**2),
            host_quota_bytes=_read(env, "OPENSKILL_HOST_QUOTA_BYTES", parse_amount, _GIB),
            host_quota_uploads=_read_integer(env, "OPENSKILL_HOST_QUOTA_UPLOADS", 1000, 1, 1_000_000),
            host_quota_conversations=_read_integer(env, "OPENSKILL_HOST_QUOTA_CONVERSATIONS", 1000, 1, 1_000_000),
            host_quota_workspaces=_read_integer(env, "OPENSKILL_HOST_QUOTA_WORKSPACES", 50, 1, 1_000_000),
            host_publish=_read_choice(env, "OPENSKILL_HOST_PUBLISH", PUBLISH_MODES),
            host_public_url=_read(env, "OPENSKILL_HOST_PUBLIC_URL", parse_base_url, None),
            mcp_keys=_read_keys(env, "OPENSKILL_MCP_KEYS"),
            mcp_env=_read_words(env, "OPENSKILL_MCP_ENV"),
            environment=env,
        )


VARIABLES: Mapping[str, tuple[str, ...]] = {
    each.name: _OTHER_VARIABLES.get(each.name, (f"OPENSKILL_{each.name.upper()}",))
    for each in fields(Settings)
    if each.name != "environment"
}
"""The variables of each field of `Settings`; the first one that is set counts."""


def find_variable(field: str, environment: Mapping[str, str]) -> str | None:
    """The variable that set a field of `Settings`, or None for the default."""
    for name in VARIABLES[field]:
        value = environment.get(name, "").strip()
        if value and (name not in {_CACHE[1], _CONFIG[1], _STATE[1]} or Path(value).is_absolute()):
            return name
    return None


def parse_database(text: str | None, field: str) -> tuple[str | None, Path | None]:
    """The address of PostgreSQL, or the file of `sqlite:///PATH`. Raises `InvalidArgument` for `field`.

    The message does not repeat the text, because it may contain a password.
    """
    if text is None:
        return None, None
    if text.startswith(("postgresql://", "postgres://")):
        return text, None
    path = Path(unquote(text.removeprefix("sqlite:///")))
    if not text.startswith("sqlite:///") or not path.name or set("?#\0") & set(text):
        forms = "postgresql://user:password@host:port/database or sqlite:////absolute/path.db"
        raise InvalidArgument(field, f"unknown address; use {forms}")
    return None, path.absolute()


def _read_history(env: Mapping[str, str], default: Path) -> Path | None:
    file = parse_database(_read_text(env, "OPENSKILL_HOST_DATABASE"), "OPENSKILL_HOST_DATABASE")[1]
    found = _read_optional_file(env, "OPENSKILL_HOST_HISTORY", file or default)
    if file is not None and found != file:
        message = "is set, and OPENSKILL_HOST_DATABASE names another file; set only one of them"
        raise InvalidArgument("OPENSKILL_HOST_HISTORY", message)
    return found


def parse_seconds(text: str, field: str) -> float:
    """Parse a duration: `90`, `90s`, `15m`, `24h`, `7d`. Raises `InvalidArgument` for `field`."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?) ?([smhd]?)", text.strip().lower(), re.ASCII)
    if match is None:
        raise InvalidArgument(field, f"invalid duration {text!r}; use 90s, 15m, 24h or 7d")
    return float(match[1]) * _SECONDS[match[2]]


def parse_amount(text: str, field: str) -> int:
    """Parse a positive number: `50000`, `64K`, `512M`, `2G`. Raises `InvalidArgument` for `field`."""
    match = re.fullmatch(r"(\d{1,15}) ?([kmgt]?)(?:i?b)?", text.strip().lower(), re.ASCII)
    if match is None or not int(match[1]):
        raise InvalidArgument(field, f"invalid amount {text!r}; use a number such as 50000, 512M or 2G")
    return int(match[1]) * _BYTES[match[2]]


def _read_text(env: Mapping[str, str], name: str) -> str | None:
    return env.get(name, "").strip() or None


def _read_executor(env: Mapping[str, str], name: str) -> str:
    value = _read_text(env, name) or "auto"
    # A built-in name, the address of a Ray cluster, or the dotted path of a custom executor.
    if not re.fullmatch(r"ray://[\w.:\[\]-]{1,199}|[A-Za-z_][\w.:-]{0,199}", value, re.ASCII):
        raise InvalidArgument(name, f"invalid executor name {value!r}; use auto, sandbox, container, local or ray")
    return value


def _program(env: Mapping[str, str], name: str) -> Path | None:
    value = _read_text(env, name)
    if value is not None and not Path(value).is_absolute():
        raise InvalidArgument(name, f"{value!r} is not an absolute path; use one such as /usr/bin/python3")
    return Path(value) if value else None


def _read_words(env: Mapping[str, str], *names: str) -> tuple[str, ...]:
    value = next((text for name in names if (text := _read_text(env, name))), "")
    return tuple(word for word in re.split(r"[,\s]+", value) if word)


def _read_keys(env: Mapping[str, str], name: str) -> dict[str, str]:
    """Keys by host: `mcp.example.org=KEY other.example:8443=KEY`."""
    pairs = [word.partition("=") for word in _read_words(env, name)]
    if not all(host and key and "/" not in host for host, _, key in pairs):
        raise InvalidArgument(name, "write HOST=KEY, or HOST:PORT=KEY, with blanks between them")
    return {host.lower(): key for host, _, key in pairs}


def _read_directories(env: Mapping[str, str], name: str) -> tuple[Path, ...]:
    found = tuple(Path(part) for part in env.get(name, "").split(":") if part.strip())
    for path in found:
        if not path.is_absolute() or ".." in path.parts:
            raise InvalidArgument(name, f"{str(path)!r} is not an absolute path; separate absolute paths with colons")
    return found


def _read_uids(env: Mapping[str, str], name: str, default: tuple[int, int]) -> tuple[int, int]:
    value = _read_text(env, name)
    if value is None:
        return default
    match = re.fullmatch(r"(\d{1,10})\s*-\s*(\d{1,10})", value, re.ASCII)
    if match is None or not 0 < int(match[1]) <= int(match[2]) <= _LAST_UID:
        raise InvalidArgument(name, f"invalid user id range {value!r}; use two numbers such as 52000-55999")
    return int(match[1]), int(match[2])


def _read(env: Mapping[str, str], name: str, parse: Callable[[str, str], T], default: D) -> T | D:
    value = _read_text(env, name)
    return default if value is None else parse(value, name)


def _read_lease_ttl(env: Mapping[str, str], name: str) -> float:
    value = _read(env, name, parse_seconds, 10.0)
    if not 1 <= value <= 60 * 60:
        raise InvalidArgument(name, f"{value:g} seconds; use 1s to 1h")
    return value


def _read_integer(env: Mapping[str, str], name: str, default: int, minimum: int, maximum: int) -> int:
    value = _read_text(env, name)
    if value is None:
        return default
    if not re.fullmatch(r"\d{1,12}", value, re.ASCII) or not minimum <= int(value) <= maximum:
        raise InvalidArgument(name, f"{value!r} is not an integer from {minimum} to {maximum}")
    return int(value)


def _read_choice(env: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    value = (_read_text(env, name) or words[0]).lower()
    if value not in words:
        raise InvalidArgument(name, f"{value!r} is not one of {', '.join(words)}")
    return value


def parse_base_url(text: str, field: str) -> str:
    """Parse an http or https URL without user, query and fragment. Raises `InvalidArgument` for `field`."""
    try:
        parts = urlsplit(text)
        known = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, known = None, False
    if parts is None or not known or parts.query or parts.fragment or not text.isprintable() or " " in text:
        raise InvalidArgument(field, f"invalid base URL {text!r}; use one such as {_BASE_URL}")
    if parts.username is not None:
        raise InvalidArgument(field, "contains a user name; put the key into OPENSKILL_API_KEY instead")
    return text.rstrip("/")


def _read_optional_file(env: Mapping[str, str], name: str, default: Path) -> Path | None:
    value = _read_text(env, name)
    return None if value is not None and value.lower() == "off" else _read_directory(env, name) or default


def _resolve_here(name: str) -> Path:
    """`name` in the current directory; unchanged if the current directory was removed."""
    try:
        return Path(name).absolute()
    except FileNotFoundError:
        return Path(name)


def _read_directory(env: Mapping[str, str], name: str) -> Path | None:
    value = env.get(name, "").strip()
    try:
        return Path(value).expanduser().absolute() if value else None
    except RuntimeError:
        raise InvalidArgument(name, f"{value!r} starts with the home of an unknown user; use a full path") from None
    except FileNotFoundError:
        raise InvalidArgument(name, f"{value!r}: the current directory was removed; use an absolute path") from None


def _read_xdg(env: Mapping[str, str], name: str, fallback: Path) -> Path:
    value = env.get(name, "").strip()
    # The XDG specification says to ignore relative values.
    base = Path(value) if value and Path(value).is_absolute() else fallback
    return base / "openskills"


def _read_flag(env: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = env.get(name, "").strip().lower()
    if not value:
        return default
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    raise InvalidArgument(name, f"invalid boolean {env[name]!r}; use 1 or 0")
