"""Keys, key file, gate.

The file in which the keys of callers are kept: what each may do, and of the key itself only a hash.

A key is 256 random bits, so a plain SHA-256 of it cannot be turned back, and costs nothing to check.

Who calls: bearer keys, and what the holder of each may do.

Who may come in: with a key, or, where that is allowed, without one from this machine only.
"""

import hashlib
import hmac
import json
import logging
import re
import secrets
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast

from openskills.errors import InvalidArgument, SkillError, Unauthorized
from openskills.filesystem import lock_file, replace_file_durably
from openskills.host import http
from openskills.host.http import HttpExchange, HttpRefusal

KEY_PREFIX = "osk_"
KEY_PATTERN = re.compile(rf"{KEY_PREFIX}[A-Za-z0-9_-]{{43}}", re.ASCII)
_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_SCOPE_PATTERN = re.compile(r"[a-z0-9_*?\[\]!-]{1,100}", re.ASCII)
_VERSION = 1
_HINT_LENGTH = 8
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class StoredKey:
    """One key as it is kept. `hint` is how the key begins, to recognise it; `None` is no limit, or no end."""

    name: str
    digest: str
    hint: str
    created: str
    expires: str | None = None
    scopes: tuple[str, ...] = ("*",)
    rate_per_second: float | None = None
    burst: int | None = None
    concurrency: int | None = None

    @property
    def expires_at(self) -> float | None:
        """When it expires, in seconds since 1970."""
        return None if self.expires is None else datetime.fromisoformat(self.expires).timestamp()


def digest_key(key: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def create_key(name: str, *, now: datetime, lifetime: float | None = None) -> tuple[str, StoredKey]:
    """A new key, and what to keep of it. `lifetime` is in seconds."""
    key = KEY_PREFIX + secrets.token_urlsafe(32)
    expires = None if lifetime is None else _format_time(now.timestamp() + lifetime)
    return key, StoredKey(name, digest_key(key), key[:_HINT_LENGTH], _format_time(now.timestamp()), expires)


def read_keys(path: Path) -> tuple[StoredKey, ...]:
    """Every key of the file; none where there is no file.

    Raises `SkillError` for a file that others may write to, and for one that is not what we wrote.
    """
    try:
        mode = path.stat().st_mode
        data = path.read_bytes()
    except FileNotFoundError:
        return ()
    if mode & _WRITABLE_BY_OTHERS:
        raise SkillError(f"others may write to the key file {path}; run: chmod 600 {path}", path=str(path))
    try:
        return _parse_keys(json.loads(data))
    except (ValueError, TypeError, KeyError, InvalidArgument) as error:
        what = f"the key file {path} is not valid: {error}; restore it, or remove it and make new keys"
        raise SkillError(what, path=str(path)) from error


def add_key(path: Path, key: StoredKey) -> None:
    """Keep one more key. Raises `InvalidArgument` for a name that is taken, and for values that cannot be meant."""
    _check_key(key)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with lock_file(_lock_path(path)):
        known = read_keys(path)
        if any(other.name == key.name for other in known):
            raise InvalidArgument("name", f"there is a key named {key.name!r}; revoke it first, or choose another name")
        _write_keys(path, (*known, key))


def revoke_key(path: Path, name: str) -> StoredKey:
    """Forget a key: a host that uses the file refuses it from now on. Raises `InvalidArgument` for an unknown name."""
    found = None
    if path.exists():
        with lock_file(_lock_path(path)):
            known = read_keys(path)
            found = next((key for key in known if key.name == name), None)
            if found is not None:
                _write_keys(path, [key for key in known if key.name != name])
    if found is None:
        raise InvalidArgument("name", f"there is no key named {name!r}; `openskills keys list` shows them")
    return found


def _write_keys(path: Path, keys: Sequence[StoredKey]) -> None:
    plain = {"version": _VERSION, "keys": [asdict(key) for key in keys]}
    replace_file_durably(path, json.dumps(plain, indent=2).encode() + b"\n")


def _format_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _parse_keys(value: Any) -> tuple[StoredKey, ...]:
    if not isinstance(value, dict) or cast("dict[str, Any]", value).get("version") != _VERSION:
        raise InvalidArgument("version", f"must be {_VERSION}")
    keys = tuple(_parse_key(one) for one in cast("list[dict[str, Any]]", value["keys"]))
    if len({key.name for key in keys}) < len(keys):
        raise InvalidArgument("keys", "two have the same name")
    return keys


def _parse_key(plain: Mapping[str, Any]) -> StoredKey:
    found = StoredKey(**plain)
    found = replace(found, scopes=tuple(found.scopes))
    _check_key(found)
    if re.fullmatch(r"[0-9a-f]{64}", found.digest, re.ASCII) is None:
        raise InvalidArgument("digest", f"that of {found.name!r} is no SHA-256")
    return found


def _check_key(key: StoredKey) -> None:
    if _NAME_PATTERN.fullmatch(key.name) is None:
        raise InvalidArgument(
            "name", f"{key.name!r} is no name of a key; use up to 64 letters, digits, dots, @, - and _"
        )
    for scope in key.scopes:
        if _SCOPE_PATTERN.fullmatch(scope) is None:
            raise InvalidArgument("scope", f"{scope!r} is no skill and no pattern of skills such as file_*")
    if not key.scopes:
        raise InvalidArgument("scope", "a key without any could do nothing; use * for every skill")
    for field, limit in (("rate", key.rate_per_second), ("burst", key.burst), ("concurrency", key.concurrency)):
        if limit is not None and not 0 < limit <= 1_000_000:
            raise InvalidArgument(field, f"{limit} is out of range; use more than 0 and at most 1,000,000")
    _ = key.expires_at


_log = logging.getLogger("openskills.host")
_KEY_HINT = "send it as `Authorization: Bearer osk_...`; `openskills keys new` makes one"

KEY_RELOAD_INTERVAL = 0.2
"""Seconds for which the keys that were read count without a look at their file."""

_FileStamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls. `scopes` are ids of skills, or patterns of them; a limit that is `None` is none of ours."""

    name: str
    scopes: tuple[str, ...] = ("*",)
    rate_per_second: float | None = None
    burst: int | None = None
    concurrency: int | None = None

    def can_invoke(self, skill_id: str) -> bool:
        """Whether it may call this skill. The id is the canonical one, that of the registration."""
        return "*" in self.scopes or any(fnmatchcase(skill_id, scope) for scope in self.scopes)


ANONYMOUS = Principal("anonymous")
"""Who calls without a key where none is needed."""


class KeyRing:
    """The keys of a file. Changes of the file count after `every` seconds at the latest; make one with `open`."""

    def __init__(self, path: Path | None, *, required: bool, every: float) -> None:
        self._path = path
        self._every = every
        self._look_at = 0.0
        self._required = required
        self._stamp: _FileStamp = None
        self._known: Mapping[bytes, _ActiveKey] = {}

    @classmethod
    def open(cls, path: Path | None, *, required: bool = False, every: float = KEY_RELOAD_INTERVAL) -> "KeyRing":
        """The keys of a file that may be missing; `None` is a ring that stays empty.

        With `required` nobody is let in without a key. Otherwise who brings none is anonymous, and only a key that is
        wrong, where there are keys, is refused. Raises `SkillError` for a file that cannot be used.
        """
        ring = cls(path, required=required, every=every)
        ring._stamp = _read_stamp(path)
        ring._load()
        return ring

    def __len__(self) -> int:
        return len(self._known)

    @property
    def is_required(self) -> bool:
        """Whether everybody needs a key."""
        return self._required

    def authenticate(self, authorization: str | None) -> Principal:
        """Who sent a request with this `Authorization`; raises `Unauthorized`. Costs some microseconds."""
        self._refresh()
        if not self._required and (authorization is None or not self._known):
            return ANONYMOUS
        if authorization is None:
            raise Unauthorized(f"a key is needed: {_KEY_HINT}")
        key = _parse_bearer(authorization)
        digest = hashlib.sha256(key.encode()).digest()
        # Found by the digest: how long that takes says nothing about a key that was not sent.
        known = self._known.get(digest)
        if known is None or not hmac.compare_digest(known.digest, digest):
            raise Unauthorized("this key is not known here: it was revoked, or belongs to another host")
        if known.expires_at is not None and time.time() >= known.expires_at:
            raise Unauthorized("this key has expired; `openskills keys new` makes another")
        return known.principal

    def _refresh(self) -> None:
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + self._every
        stamp = _read_stamp(self._path)
        if stamp == self._stamp:
            return
        # Before it is read: a change meanwhile is seen the next time. A file that is broken is read only once.
        self._stamp = stamp
        try:
            self._load()
        except (SkillError, OSError) as error:
            _log.warning("the keys that were known stay in force: %s", error)

    def _load(self) -> None:
        stored = () if self._path is None else read_keys(self._path)
        self._known = {known.digest: known for known in map(_activate_key, stored)}


@dataclass(frozen=True, slots=True)
class _ActiveKey:
    digest: bytes
    expires_at: float | None
    principal: Principal


def _activate_key(key: StoredKey) -> _ActiveKey:
    principal = Principal(key.name, key.scopes, key.rate_per_second, key.burst, key.concurrency)
    return _ActiveKey(bytes.fromhex(key.digest), key.expires_at, principal)


def _parse_bearer(authorization: str) -> str:
    scheme, _, key = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized(f"this is no bearer key: {_KEY_HINT}")
    key = key.strip()
    if KEY_PATTERN.fullmatch(key) is None:
        raise Unauthorized(f"this does not look like a key: {_KEY_HINT}")
    return key


def _read_stamp(path: Path | None) -> _FileStamp:
    if path is None:
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class Authenticator:
    """The keys, and whether one is needed. `mode` is `on`, `off`, or `auto`: needed unless we are called on loopback.

    Without keys a web page could have its own name point to this machine and call us through somebody's browser. So
    what comes in on loopback without a key must be meant for loopback.
    """

    def __init__(self, required: KeyRing, optional: KeyRing, mode: str) -> None:
        self._required = required
        self._optional = optional
        self._mode = mode
        self._known: dict[str, bool] = {}

    def authenticate(self, exchange: HttpExchange) -> Principal:
        """Who sends a request. Raises `Unauthorized`, or `Refused` for one that is not meant for us."""
        if self.is_key_required(exchange):
            return self._required.authenticate(exchange.header(b"authorization"))
        if self._is_local(exchange) and not self._is_loopback(exchange.header(b"host") or ""):
            raise HttpRefusal(http.wrong_host(exchange.header(b"host") or ""))
        if b"authorization" not in exchange.headers:
            return ANONYMOUS
        return self._optional.authenticate(exchange.header(b"authorization"))

    def is_key_required(self, exchange: HttpExchange) -> bool:
        """Whether a request is let in with a key only."""
        return self._mode == "on" or (self._mode == "auto" and not self._is_local(exchange))

    def _is_local(self, exchange: HttpExchange) -> bool:
        server = exchange.scope.get("server")
        return server is not None and self._is_loopback(server[0])

    def _is_loopback(self, name: str) -> bool:
        known = self._known.get(name)
        if known is None:
            known = is_loopback(_parse_host_name(name))
            # The same few names come all the time; what is invented is not kept.
            if len(self._known) < 100:
                self._known[name] = known
        return known


def is_loopback(name: str) -> bool:
    """Whether a name or an address is that of this machine and of no other."""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name.lower().rstrip(".") == "localhost" or name.lower().rstrip(".").endswith(".localhost")


def _parse_host_name(host: str) -> str:
    """The name in a `Host` header, without the port and the brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host
