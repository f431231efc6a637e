"""API keys of callers: the key file, and authentication of requests.

The file contains a SHA-256 of each key. A key has 256 random bits, so a plain hash cannot be reversed and is cheap.
"""

import hashlib
import json
import logging
import re
import secrets
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

from openskills.errors import Forbidden, InvalidArgument, SkillError, Unauthorized
from openskills.filesystem import lock_file, replace_file
from openskills.host import http
from openskills.host.admission import LimitedKey
from openskills.host.http import HttpExchange, HttpRefusal

T = TypeVar("T")

KEY_PREFIX = "osk_"
KEY_PATTERN = re.compile(rf"{KEY_PREFIX}[A-Za-z0-9_-]{{43}}", re.ASCII)
_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
WRITE_SCOPE, PUBLISH_SCOPE = "skills:write", "skills:publish"
"""Scopes of keys that may upload skills: for themselves, and for everybody. `*` does not include them."""
_SCOPE_PATTERN = re.compile(rf"[a-z0-9_.*?\[\]!-]{{1,100}}|{WRITE_SCOPE}|{PUBLISH_SCOPE}", re.ASCII)
OWNER_MARK = "~"
"""In the id of an uploaded skill, this comes before the name of the key that owns it."""
ROLES = ("read", "run", "admin")
"""What a key may do, weakest first: see skills and their runs; also run skills; also manage the host."""
CONSOLE = "console"
"""The caller of a console session that was opened with a link. No key may have this name."""
_VERSION = 1
_HINT_LENGTH = 8
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class StoredKey(LimitedKey):
    """A key as it is stored. `hint` is the beginning of the key; `expires` is None if it does not expire."""

    digest: str
    hint: str
    created: str
    expires: str | None = None
    scopes: tuple[str, ...] = ("*",)
    role: str = "run"

    @property
    def expires_at(self) -> float | None:
        """Expiry in seconds since 1970."""
        return None if self.expires is None else datetime.fromisoformat(self.expires).timestamp()

    def to_dict(self) -> dict[str, Any]:
        """The key as JSON, without its digest."""
        return {
            "name": self.name,
            "begins": self.hint,
            "scopes": list(self.scopes),
            "role": self.role,
            **self.limits,
            "created": self.created,
            "expires": self.expires,
        }


def digest_key(key: str) -> str:
    """The stored digest of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def create_key(name: str, *, now: datetime, lifetime: float | None = None) -> tuple[str, StoredKey]:
    """A new key, and its entry for the file. `lifetime` is in seconds."""
    key = KEY_PREFIX + secrets.token_urlsafe(32)
    expires = None if lifetime is None else _format_time(now.timestamp() + lifetime)
    return key, StoredKey(name, digest_key(key), key[:_HINT_LENGTH], _format_time(now.timestamp()), expires)


def read_keys(path: Path) -> tuple[StoredKey, ...]:
    """All keys of the file; none if it does not exist.

    Raises `SkillError` for a file that is invalid or writable by other users.
    """
    try:
        mode = path.stat().st_mode
        data = path.read_bytes()
    except FileNotFoundError:
        return ()
    if mode & _WRITABLE_BY_OTHERS:
        raise SkillError(f"the key file {path} is writable by other users; run: chmod 600 {path}", path=str(path))
    try:
        return _parse_keys(json.loads(data))
    except (ValueError, TypeError, KeyError, InvalidArgument) as error:
        message = f"invalid key file {path}: {error}; restore it, or remove it and create new keys"
        raise SkillError(message, path=str(path)) from error


def check_new_key(key: StoredKey) -> None:
    """Raise `InvalidArgument` for invalid values, and names that keys may not have."""
    _check_key(key)
    if key.name == CONSOLE:
        raise InvalidArgument("name", f"{CONSOLE!r} is reserved for sessions of the console; choose another name")


def name_exists(name: str) -> InvalidArgument:
    return InvalidArgument("name", f"a key named {name!r} exists; revoke it first, or choose another name")


def unknown_key(name: str) -> InvalidArgument:
    return InvalidArgument("name", f"unknown key {name!r}; `openskills keys list` shows all keys")


KeyEdit: TypeAlias = Callable[[StoredKey | None], tuple[T, StoredKey | None]]
"""Gets the key of a name, if there is one; returns a result, and the key of this name from now on, if there is one."""


def edit_key(path: Path, name: str, edit: KeyEdit[T]) -> T:
    """Add, change or remove a key of the file; running hosts notice it."""
    if not path.exists():
        # Where there is nothing to change, nothing is created.
        edit(None)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with lock_file(_lock_path(path)):
        known = read_keys(path)
        found = next((key for key in known if key.name == name), None)
        result, changed = edit(found)
        kept = [changed if one is found else one for one in known]
        _write_keys(path, [one for one in (*kept, changed if found is None else None) if one is not None])
    return result


def create_successor(found: StoredKey, *, now: datetime) -> tuple[str, StoredKey]:
    """A new key with the name, role, scopes, limits and lifetime of another one."""
    expires = found.expires_at
    lifetime = None if expires is None else expires - datetime.fromisoformat(found.created).timestamp()
    key, fresh = create_key(found.name, now=now, lifetime=lifetime)
    return key, replace(fresh, scopes=found.scopes, role=found.role, **found.limits)


def _write_keys(path: Path, keys: Sequence[StoredKey]) -> None:
    plain = {"version": _VERSION, "keys": [asdict(key) for key in keys]}
    replace_file(path, json.dumps(plain, indent=2).encode() + b"\n", durable=True)


def _format_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _parse_keys(value: Any) -> tuple[StoredKey, ...]:
    if not isinstance(value, dict) or cast("dict[str, Any]", value).get("version") != _VERSION:
        raise InvalidArgument("version", f"must be {_VERSION}")
    keys = tuple(parse_key(one) for one in cast("list[dict[str, Any]]", value["keys"]))
    if len({key.name for key in keys}) < len(keys):
        raise InvalidArgument("keys", "two keys have the same name")
    return keys


def parse_key(plain: Mapping[str, Any]) -> StoredKey:
    """A key from its fields. Raises `InvalidArgument`, and `TypeError` for unknown fields."""
    found = StoredKey(**plain)
    found = replace(found, scopes=tuple(found.scopes))
    _check_key(found)
    if re.fullmatch(r"[0-9a-f]{64}", found.digest, re.ASCII) is None:
        raise InvalidArgument("digest", f"expected the SHA-256 of {found.name!r} as 64 hex digits")
    return found


def _check_key(key: StoredKey) -> None:
    if key.name == ANONYMOUS.name:
        raise InvalidArgument("name", f"{key.name!r} is the name of callers without a key; choose another")
    if _NAME_PATTERN.fullmatch(key.name) is None:
        raise InvalidArgument("name", f"invalid key name {key.name!r}: use up to 64 letters, digits, dots, @, - and _")
    for scope in key.scopes:
        if _SCOPE_PATTERN.fullmatch(scope) is None:
            message = f"use a skill id, a pattern such as file_*, {WRITE_SCOPE} or {PUBLISH_SCOPE}"
            raise InvalidArgument("scope", f"invalid scope {scope!r}: {message}")
    if key.role not in ROLES:
        raise InvalidArgument("role", f"{str(key.role)[:50]!r} is not one of {', '.join(ROLES)}")
    if not key.scopes:
        raise InvalidArgument("scope", "a key needs at least one; use * for all skills")
    key.check_limits()
    _ = key.expires_at


_log = logging.getLogger("openskills.host")
_KEY_HINT = "send `Authorization: Bearer osk_...` or `X-Api-Key`; create a key with `openskills keys new`"
KEY_RELOAD_INTERVAL = 0.2
"""Seconds between two checks whether the key file has changed."""
_FileStamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Principal(LimitedKey):
    """The caller. `scopes` are skill ids or patterns; `digest` is that of its key; `role` is one of `ROLES`."""

    scopes: tuple[str, ...] = ("*",)
    digest: str = field(default="", repr=False)
    role: str = "run"

    def has_role(self, role: str) -> bool:
        """Whether its role is this one or a stronger one."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def require_role(self, role: str) -> None:
        """Raise `Forbidden` without this role."""
        if not self.has_role(role):
            caller = "callers without a key" if self.name == ANONYMOUS.name else f"the key {self.name!r}"
            fix = f"use a key that was created with --role {role}"
            raise Forbidden(f"{caller} may not do this: the role is {self.role}, and {role} is needed; {fix}")

    @property
    def owner(self) -> str:
        """The owner of its private uploads; empty for callers without a key, who have none."""
        return self.name if self.digest else ""

    def can_see(self, skill_id: str) -> bool:
        """Whether a skill is not the private upload of another key."""
        _, mark, owner = skill_id.partition(OWNER_MARK)
        return not mark or owner == self.owner

    def can_invoke(self, skill_id: str) -> bool:
        """Whether it may call this skill, given by the id of its registration."""
        if OWNER_MARK in skill_id:
            if not self.can_see(skill_id):
                return False
            skill_id = skill_id.partition(OWNER_MARK)[0]
        return "*" in self.scopes or any(fnmatchcase(skill_id, scope) for scope in self.scopes)


ANONYMOUS = Principal("anonymous")
"""A caller without a key, where none is needed."""


class KeyRing:
    """The keys of a file that may be missing, reloaded at most `every` seconds after a change; or of a database.

    Those of a database, with `path=None`, are the keys of the last `update`. Raises `SkillError` for an unusable file.
    """

    def __init__(self, path: Path | None, *, every: float = KEY_RELOAD_INTERVAL) -> None:
        self._path = path
        self._every = every
        self._look_at = 0.0
        self._stamp = _read_stamp(path)
        self._known: Mapping[str, tuple[Principal, float | None]] = {}
        """Callers by the digests of their keys, and when these expire."""
        self._load()

    def __len__(self) -> int:
        return len(self._known)

    def has_keys(self) -> bool:
        """Whether the file has keys now."""
        self._refresh()
        return bool(self._known)

    def authenticate(self, authorization: str | None, *, required: bool = True) -> Principal:
        """The caller with this `Authorization` header; raises `Unauthorized`. Takes microseconds.

        Unless a key is `required`, callers without one are anonymous; wrong keys are refused if any keys exist.
        """
        self._refresh()
        if not required and (authorization is None or not self._known):
            return ANONYMOUS
        if authorization is None:
            raise Unauthorized(f"an API key is required: {_KEY_HINT}")
        key = _parse_bearer(authorization)
        # Looked up by digest, so that timing reveals nothing about other keys.
        known = self._known.get(digest_key(key))
        if known is None:
            raise Unauthorized("unknown API key: it was revoked, or belongs to another host")
        if _is_expired(known[1]):
            raise Unauthorized("this API key has expired; create a new one with `openskills keys new`")
        return known[0]

    def find(self, digest: str) -> Principal | None:
        """The caller whose key has this digest, if it is still valid."""
        self._refresh()
        principal, expires_at = self._known.get(digest, (None, None))
        return None if _is_expired(expires_at) else principal

    def _refresh(self) -> None:
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + self._every
        stamp = _read_stamp(self._path)
        if stamp == self._stamp:
            return
        # Taken before reading, so that a change meanwhile is noticed. A broken file is read only once.
        self._stamp = stamp
        try:
            self._load()
        except (SkillError, OSError) as error:
            _log.warning("cannot reload the keys, the previous ones stay valid: %s", error)

    def _load(self) -> None:
        self.update(() if self._path is None else read_keys(self._path))

    def update(self, stored: Sequence[StoredKey]) -> None:
        """Replace the keys."""
        self._known = {
            key.digest: (Principal(key.name, key.scopes, key.digest, key.role, **key.limits), key.expires_at)
            for key in stored
        }


def _is_expired(at: float | None) -> bool:
    return at is not None and time.time() >= at


def _parse_bearer(authorization: str) -> str:
    scheme, _, key = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized(f"not a bearer token: {_KEY_HINT}")
    key = key.strip()
    if KEY_PATTERN.fullmatch(key) is None:
        raise Unauthorized(f"not an API key: {_KEY_HINT}")
    return key


def _read_stamp(path: Path | None) -> _FileStamp:
    if path is None:
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


_FORWARDING_HEADERS = re.compile(
    rb"forwarded|via|cdn-loop|x-forwarded.*|x-original-forwarded-for|x-real-ip|x-remote-(?:addr|ip)"
    rb"|.*-client-?ip|.*-connecting-ip|.*-user-?ip|x-envoy-external-address"
)
"""The names of headers that proxies add, in lower case."""


class SessionLookup(Protocol):
    """Finds the console session of a request."""

    def authenticate(self, exchange: HttpExchange) -> Principal | None:
        """The caller, or None without a valid session. Raises `HttpRefusal` for a request of another site."""
        ...


class Authenticator:
    """Authenticates requests. `mode` is `on`, `off`, or `auto`. `sessions` are those of the console, if there is one.

    With `auto` a key is required unless the request came to a loopback address, not through a proxy, and the host has
    had no keys since it started. Against DNS rebinding, requests without a key on a loopback address must have a
    loopback name in `Host`.
    """

    def __init__(self, keys: KeyRing, mode: str) -> None:
        self._keys = keys
        self._mode = mode
        self._had_keys = False
        self._known: dict[str, bool] = {}
        self.sessions: SessionLookup | None = None

    def authenticate(self, exchange: HttpExchange) -> Principal:
        """The caller of a request. Raises `Unauthorized`, or `HttpRefusal` for a foreign `Host` or web page."""
        headers = exchange.headers
        if b"origin" in headers and exchange.method not in http.SAFE_METHODS:
            check_origin(exchange)
        if b"cookie" in headers and self.sessions is not None and {b"authorization", b"x-api-key"}.isdisjoint(headers):
            found = self.sessions.authenticate(exchange)
            if found is not None:
                return found
        given = exchange.header(b"authorization")
        if given is None and (key := exchange.header(b"x-api-key")) is not None:
            given = f"Bearer {key}"
        if self.is_key_required(exchange):
            return self._keys.authenticate(given)
        if self._is_local(exchange) and not self._is_loopback(exchange.header(b"host") or ""):
            raise HttpRefusal(http.wrong_host(exchange.header(b"host") or ""))
        return self._keys.authenticate(given, required=False)

    def is_valid(self, principal: Principal) -> bool:
        """Whether a caller that was authenticated would still be, with the same scopes and limits."""
        if not principal.digest:
            is_open = self._mode == "off" or not self._have_keys_existed()
            return is_open or principal.name == CONSOLE
        return self._keys.find(principal.digest) == principal

    def is_key_required(self, exchange: HttpExchange) -> bool:
        if self._mode != "auto":
            return self._mode == "on"
        return self._have_keys_existed() or not self.is_from_here(exchange)

    def _have_keys_existed(self) -> bool:
        # Revoking the last key does not open the host to everybody.
        self._had_keys = self._had_keys or self._keys.has_keys()
        return self._had_keys

    def is_from_here(self, exchange: HttpExchange) -> bool:
        """Whether the request came to a loopback address, not through a proxy."""
        return self._is_local(exchange) and not any(map(_FORWARDING_HEADERS.fullmatch, exchange.headers))

    def is_local(self, exchange: HttpExchange) -> bool:
        """Whether a request came from this machine, for a loopback name, and not through a proxy."""
        return self.is_from_here(exchange) and self._is_loopback(exchange.header(b"host") or "")

    def _is_local(self, exchange: HttpExchange) -> bool:
        server = exchange.scope.get("server")
        return server is not None and self._is_loopback(server[0])

    def _is_loopback(self, name: str) -> bool:
        known = self._known.get(name)
        if known is None:
            # Without brackets and port.
            bare = name[1:].partition("]")[0] if name.startswith("[") else name
            known = is_loopback(bare.rpartition(":")[0] if bare is name and name.count(":") == 1 else bare)
            # Bounded, because callers can send any name.
            if len(self._known) < 100:
                self._known[name] = known
        return known


def is_loopback(name: str) -> bool:
    """Whether a host name or address is a loopback one."""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name.lower().rstrip(".") == "localhost" or name.lower().rstrip(".").endswith(".localhost")


def check_origin(exchange: HttpExchange) -> None:
    """Refuse requests of web pages from elsewhere (DNS rebinding), even with a key.

    Raises `HttpRefusal` unless the page came from this host or, on a loopback address, from this machine.
    """
    origin = exchange.header(b"origin")
    if origin is None:
        return
    host = exchange.header(b"host") or ""
    try:
        found = urlsplit(origin)
    except ValueError:  # such as an address in brackets without an end
        raise HttpRefusal(http.wrong_origin(origin)) from None
    server = exchange.scope.get("server")
    is_local = server is not None and is_loopback(server[0]) and is_loopback(found.hostname or "")
    if found.scheme not in ("http", "https") or not (is_local or found.netloc.lower() == host.lower()):
        raise HttpRefusal(http.wrong_origin(origin))
