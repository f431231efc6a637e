"""The file in which the keys of callers are kept: what each may do, and of the key itself only a hash.

A key is 256 random bits, so a plain SHA-256 of it cannot be turned back, and costs nothing to check.
"""

import hashlib
import json
import re
import secrets
import stat
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from openskills.errors import InvalidArgument, SkillError
from openskills.files import locked, replace_file_durably

PREFIX = "osk_"
KEY = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_SCOPE = re.compile(r"[a-z0-9_*?\[\]!-]{1,100}", re.ASCII)
_VERSION = 1
_HINT = 8
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


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
    def ends(self) -> float | None:
        """When it expires, in seconds since 1970."""
        return None if self.expires is None else datetime.fromisoformat(self.expires).timestamp()


def digest_of(key: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def minted(name: str, *, now: datetime, lifetime: float | None = None) -> tuple[str, StoredKey]:
    """A new key, and what to keep of it. `lifetime` is in seconds."""
    key = PREFIX + secrets.token_urlsafe(32)
    expires = None if lifetime is None else _time(now.timestamp() + lifetime)
    return key, StoredKey(name, digest_of(key), key[:_HINT], _time(now.timestamp()), expires)


def read_keys(path: Path) -> tuple[StoredKey, ...]:
    """Every key of the file; none where there is no file.

    Raises `SkillError` for a file that others may write to, and for one that is not what we wrote.
    """
    try:
        mode = path.stat().st_mode
        data = path.read_bytes()
    except FileNotFoundError:
        return ()
    if mode & _OTHERS_WRITE:
        raise SkillError(f"others may write to the key file {path}; run: chmod 600 {path}", path=str(path))
    try:
        return _parsed(json.loads(data))
    except (ValueError, TypeError, KeyError, InvalidArgument) as error:
        what = f"the key file {path} is not valid: {error}; restore it, or remove it and make new keys"
        raise SkillError(what, path=str(path)) from error


def add_key(path: Path, key: StoredKey) -> None:
    """Keep one more key. Raises `InvalidArgument` for a name that is taken, and for values that cannot be meant."""
    _check(key)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(_lock_of(path)):
        known = read_keys(path)
        if any(other.name == key.name for other in known):
            raise InvalidArgument("name", f"there is a key named {key.name!r}; revoke it first, or choose another name")
        _write(path, (*known, key))


def revoke_key(path: Path, name: str) -> StoredKey:
    """Forget a key: a host that uses the file refuses it from now on. Raises `InvalidArgument` for an unknown name."""
    found = None
    if path.exists():
        with locked(_lock_of(path)):
            known = read_keys(path)
            found = next((key for key in known if key.name == name), None)
            if found is not None:
                _write(path, [key for key in known if key.name != name])
    if found is None:
        raise InvalidArgument("name", f"there is no key named {name!r}; `openskills keys list` shows them")
    return found


def _write(path: Path, keys: Sequence[StoredKey]) -> None:
    plain = {"version": _VERSION, "keys": [asdict(key) for key in keys]}
    replace_file_durably(path, json.dumps(plain, indent=2).encode() + b"\n")


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _parsed(value: Any) -> tuple[StoredKey, ...]:
    if not isinstance(value, dict) or cast("dict[str, Any]", value).get("version") != _VERSION:
        raise InvalidArgument("version", f"must be {_VERSION}")
    keys = tuple(_key(one) for one in cast("list[dict[str, Any]]", value["keys"]))
    if len({key.name for key in keys}) < len(keys):
        raise InvalidArgument("keys", "two have the same name")
    return keys


def _key(plain: Mapping[str, Any]) -> StoredKey:
    found = StoredKey(**plain)
    found = replace(found, scopes=tuple(found.scopes))
    _check(found)
    if re.fullmatch(r"[0-9a-f]{64}", found.digest, re.ASCII) is None:
        raise InvalidArgument("digest", f"that of {found.name!r} is no SHA-256")
    return found


def _check(key: StoredKey) -> None:
    if _NAME.fullmatch(key.name) is None:
        raise InvalidArgument(
            "name", f"{key.name!r} is no name of a key; use up to 64 letters, digits, dots, @, - and _"
        )
    for scope in key.scopes:
        if _SCOPE.fullmatch(scope) is None:
            raise InvalidArgument("scope", f"{scope!r} is no skill and no pattern of skills such as file_*")
    if not key.scopes:
        raise InvalidArgument("scope", "a key without any could do nothing; use * for every skill")
    for field, limit in (("rate", key.rate_per_second), ("burst", key.burst), ("concurrency", key.concurrency)):
        if limit is not None and not 0 < limit <= 1_000_000:
            raise InvalidArgument(field, f"{limit} is out of range; use more than 0 and at most 1,000,000")
    _ = key.ends
