"""Settings from environment variables, as one frozen value. No other module reads the environment."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from openskills.arguments import check_arguments
from openskills.errors import InvalidArgument

_DAY = 24 * 60 * 60.0
_LAST_UID = 2**32 - 3
DEFAULT_TIMEOUT_MS = 15_000
"""Of a hosted skill."""
NODE_EXECUTORS = ("sandbox", "container", "landlock", "local")
"""What may run commands on the nodes of a Ray cluster."""
_MAX_WAIT_MS = 24 * 60 * 60 * 1000
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 60 * 60, "d": _DAY}
PUBLISH_MODES = ("keys", "open", "off")
"""Who may read published skills; the first one is the default."""
_BASE_URL = "http://127.0.0.1:8000"
_BYTES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_ALLOWED = ("OPENSKILL_RUN_ALLOWED_COMMANDS", "TRPC_AGENT_SKILL_RUN_ALLOWED_COMMANDS")
_DENIED = ("OPENSKILL_RUN_DENIED_COMMANDS", "TRPC_AGENT_SKILL_RUN_DENIED_COMMANDS")
_DATABASE, _HISTORY = "OPENSKILL_HOST_DATABASE", "OPENSKILL_HOST_HISTORY"


def _variable(
    parse: Callable[[str, str], object], default: str | None = None, *names: str, below: tuple[str, str] | None = None
) -> Mapping[str, Any]:
    """How a field is read: the metadata of the field.

    `parse` gets the text and the name of the variable, or the default and an empty name. `names` are the variables, the
    first one that is set counts; by default `OPENSKILL_` and the name of the field. If none is set and there is no
    default, the value is None, or a path `below` another field.
    """
    return {"parse": parse, "default": default, "names": names, "below": below}


def _integer(default: int, minimum: int, maximum: int) -> Mapping[str, Any]:
    def parse(text: str, name: str) -> int:
        if not re.fullmatch(r"\d{1,12}", text, re.ASCII) or not minimum <= int(text) <= maximum:
            raise InvalidArgument(name, f"{text!r} is not an integer from {minimum} to {maximum}")
        return int(text)

    return _variable(parse, str(default))


def _choice(*words: str) -> Mapping[str, Any]:
    def parse(text: str, name: str) -> str:
        if text.lower() not in words:
            raise InvalidArgument(name, f"{text.lower()!r} is not one of {', '.join(words)}")
        return text.lower()

    return _variable(parse, words[0])


def _parse_text(text: str, _name: str) -> str:
    return text


def _parse_flag(text: str, name: str) -> bool:
    if text.lower() in {"1", "true", "yes", "on"}:
        return True
    if text.lower() in {"0", "false", "no", "off"}:
        return False
    raise InvalidArgument(name, f"invalid boolean {text!r}; use 1 or 0")


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


def _parse_lease_ttl(text: str, name: str) -> float:
    value = parse_seconds(text, name)
    if not 1 <= value <= 60 * 60:
        raise InvalidArgument(name, f"{value:g} seconds; use 1s to 1h")
    return value


def _parse_executor(text: str, name: str) -> str:
    # A built-in name, the address of a Ray cluster, or the dotted path of a custom executor.
    if not re.fullmatch(r"ray://[\w.:\[\]-]{1,199}|[A-Za-z_][\w.:-]{0,199}", text, re.ASCII):
        raise InvalidArgument(name, f"invalid executor name {text!r}; use auto, sandbox, container, local or ray")
    return text


def _parse_program(text: str, name: str) -> Path:
    if not Path(text).is_absolute():
        raise InvalidArgument(name, f"{text!r} is not an absolute path; use one such as /usr/bin/python3")
    return Path(text)


def _parse_words(text: str, _name: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[,\s]+", text) if word)


def _parse_keys(text: str, name: str) -> dict[str, str]:
    """Keys by host: `mcp.example.org=KEY other.example:8443=KEY`."""
    pairs = [word.partition("=") for word in _parse_words(text, name)]
    if not all(host and key and "/" not in host for host, _, key in pairs):
        raise InvalidArgument(name, "write HOST=KEY, or HOST:PORT=KEY, with blanks between them")
    return {host.lower(): key for host, _, key in pairs}


def _parse_directory(text: str, name: str) -> Path:
    if name.startswith("XDG_"):
        return Path(text) / "openskills"
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise InvalidArgument(name, f"{text!r} starts with the home of an unknown user; use a full path") from None
    except FileNotFoundError:
        if not name:
            return Path(text)
        raise InvalidArgument(name, f"{text!r}: the current directory was removed; use an absolute path") from None


def _path(*names: str, below: tuple[str, str]) -> Mapping[str, Any]:
    return _variable(_parse_directory, None, *names, below=below)


def _parse_optional_file(text: str, name: str) -> Path | None:
    return None if text.lower() == "off" else _parse_directory(text, name)


def _parse_directories(text: str, name: str) -> tuple[Path, ...]:
    found = tuple(Path(part) for part in text.split(":") if part.strip())
    for path in found:
        if not path.is_absolute() or ".." in path.parts:
            raise InvalidArgument(name, f"{str(path)!r} is not an absolute path; separate absolute paths with colons")
    return found


def _parse_uids(text: str, name: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,10})\s*-\s*(\d{1,10})", text, re.ASCII)
    if match is None or not 0 < int(match[1]) <= int(match[2]) <= _LAST_UID:
        raise InvalidArgument(name, f"invalid user id range {text!r}; use two numbers such as 52000-55999")
    return int(match[1]), int(match[2])


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

    home: Path = field(metadata=_variable(lambda text, name: Path(text) if name else Path.home(), "~", "HOME"))
    cache_dir: Path = field(
        metadata=_path("OPENSKILL_CACHE_DIR", "XDG_CACHE_HOME", below=("home", ".cache/openskills"))
    )
    skills_cache_dir: Path = field(metadata=_path("SKILLS_CACHE_DIR", below=("cache_dir", "sources")))
    config_dir: Path = field(
        metadata=_path("OPENSKILL_CONFIG_DIR", "XDG_CONFIG_HOME", below=("home", ".config/openskills"))
    )
    state_dir: Path = field(
        metadata=_path("OPENSKILL_STATE_DIR", "XDG_STATE_HOME", below=("home", ".local/state/openskills"))
    )
    skills_root: str | None = field(metadata=_variable(_parse_text, None, "SKILLS_ROOT"))
    project: str | None = field(metadata=_variable(_parse_text))
    search_path: str = field(metadata=_variable(_parse_text, os.defpath, "PATH"))
    index: bool = field(metadata=_variable(_parse_flag, "1"))
    debug: bool = field(metadata=_variable(_parse_flag, "0"))
    trace_content: bool = field(metadata=_variable(_parse_flag, "0"))
    model: str | None = field(metadata=_variable(_parse_text))
    record_requests: bool = field(metadata=_variable(_parse_flag, "1"))
    executor: str = field(metadata=_variable(_parse_executor, "auto"))
    python: Path | None = field(metadata=_variable(_parse_program))
    allow_local: bool = field(metadata=_variable(_parse_flag, "0"))
    allowed_commands: tuple[str, ...] | None = field(
        metadata=_variable(lambda text, name: _parse_words(text, name) or None, None, *_ALLOWED)
    )
    denied_commands: tuple[str, ...] = field(metadata=_variable(_parse_words, "", *_DENIED))
    host_roots: tuple[Path, ...] = field(metadata=_variable(_parse_directories, ""))
    package_hosts: tuple[str, ...] = field(metadata=_variable(_parse_words, ""))
    container_image: str | None = field(metadata=_variable(_parse_text))
    docker_host: str | None = field(metadata=_variable(_parse_text, None, "DOCKER_HOST"))
    ray_executor: str = field(metadata=_choice(*NODE_EXECUTORS))
    sandbox_uids: tuple[int, int] = field(metadata=_variable(_parse_uids, "52000-55999"))
    sandbox_kept: float = field(metadata=_variable(parse_seconds, "60s"))
    workspace_ttl: float = field(metadata=_variable(parse_seconds, "1d"))
    workspace_bytes: int = field(metadata=_variable(parse_amount, "1G"))
    workspace_files: int = field(metadata=_variable(parse_amount, "50000"))
    storage: str | None = field(metadata=_variable(_parse_text))
    lease_ttl: float = field(metadata=_variable(_parse_lease_ttl, "10s"))
    lease_wait: float = field(metadata=_variable(parse_seconds, "12s"))
    http_base_url: str = field(metadata=_variable(parse_base_url, _BASE_URL))
    allowed_root: Path = field(metadata=_variable(_parse_directory, "data"))
    cli_dir: Path = field(metadata=_variable(_parse_directory, "skills_cli"))
    timeout_ms: int = field(metadata=_integer(DEFAULT_TIMEOUT_MS, 1, _MAX_WAIT_MS))
    host_max_body: int = field(metadata=_variable(parse_amount, "1M"))
    host_concurrency: int = field(metadata=_integer(0, 0, 10_000))
    host_queue: int = field(metadata=_integer(64, 0, 1_000_000))
    host_keys: Path = field(metadata=_path(below=("config_dir", "keys.json")))
    host_auth: str = field(metadata=_choice("auto", "on", "off"))
    host_models: tuple[str, ...] = field(metadata=_variable(_parse_words, ""))
    host_database: str | None = field(repr=False, metadata=_variable(lambda text, name: parse_database(text, name)[0]))
    host_history: Path | None = field(metadata=_variable(_parse_optional_file, below=("state_dir", "host.db")))
    host_history_days: int = field(metadata=_integer(30, 1, 36_500))
    host_history_content: bool = field(metadata=_variable(_parse_flag, "0"))
    host_api_key: str | None = field(repr=False, metadata=_variable(_parse_text, None, "OPENSKILL_API_KEY"))
    host_http_targets: tuple[str, ...] = field(metadata=_variable(_parse_words, ""))
    host_uploads: Path | None = field(metadata=_variable(_parse_optional_file, below=("state_dir", "uploads")))
    host_upload_size: int = field(metadata=_variable(parse_amount, "32M"))
    host_quota_bytes: int = field(metadata=_variable(parse_amount, "1G"))
    host_quota_uploads: int = field(metadata=_integer(1000, 1, 1_000_000))
    host_quota_conversations: int = field(metadata=_integer(1000, 1, 1_000_000))
    host_quota_workspaces: int = field(metadata=_integer(50, 1, 1_000_000))
    host_publish: str = field(metadata=_choice(*PUBLISH_MODES))
    host_public_url: str | None = field(metadata=_variable(parse_base_url))
    mcp_keys: Mapping[str, str] = field(repr=False, metadata=_variable(_parse_keys, ""))
    mcp_env: tuple[str, ...] = field(metadata=_variable(_parse_words, ""))
    environment: Mapping[str, str]

    @classmethod
    @check_arguments
    def from_env(cls, environ: Mapping[str, str] | None = None) -> "Settings":
        """Read the documented variables; raises `InvalidArgument` that names a variable with a bad value."""
        env = dict(os.environ if environ is None else environ)
        found: dict[str, Any] = {"environment": env}
        for each in fields(cls):
            if each.metadata:
                found[each.name] = _read_field(each, env, found)
        # An empty PATH is not the default one.
        found["search_path"] = env.get("PATH", os.defpath)
        file = parse_database(env.get(_DATABASE, "").strip() or None, _DATABASE)[1]
        if file is not None:
            if find_variable("host_history", env) == _HISTORY and found["host_history"] != file:
                raise InvalidArgument(_HISTORY, f"is set, and {_DATABASE} names another file; set only one of them")
            found["host_history"] = file
        return cls(**found)


def _read_field(each: Field[Any], env: Mapping[str, str], found: Mapping[str, Any]) -> object:
    """The value of a field; `found` are those of the fields before it."""
    read = each.metadata
    name = find_variable(each.name, env)
    if name is not None and name in (read["names"] or VARIABLES[each.name][:1]):
        return read["parse"](env[name].strip(), name)
    if read["below"] is not None:
        base, suffix = read["below"]
        return found[base] / suffix
    return None if read["default"] is None else read["parse"](read["default"], "")


def _list_variables() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for each in fields(Settings):
        if each.metadata:
            base = each.metadata["below"][0] if each.metadata["below"] else "home"
            others = found[base] if base != "home" else ()
            found[each.name] = (*(each.metadata["names"] or (f"OPENSKILL_{each.name.upper()}",)), *others)
    return found


VARIABLES: Mapping[str, tuple[str, ...]] = _list_variables()
"""The variables of each field of `Settings`; the first one that is set counts."""


def find_variable(field: str, environment: Mapping[str, str]) -> str | None:
    """The variable that set a field of `Settings`, or None for the default."""
    for name in VARIABLES[field]:
        value = environment.get(name, "").strip()
        # The XDG specification says to ignore relative values.
        if value and (not name.startswith("XDG_") or Path(value).is_absolute()):
            return name
    return None
