"""Who calls: bearer keys, and what the holder of each may do."""

import hashlib
import hmac
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from openskills.errors import SkillError, Unauthorized
from openskills.host.books.key_file import KEY, StoredKey, read_keys

_log = logging.getLogger("openskills.host")
_SEND = "send it as `Authorization: Bearer osk_...`; `openskills keys new` makes one"

LOOKED_AT_EVERY = 0.2
"""Seconds for which the keys that were read count without a look at their file."""

_Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls. `scopes` are ids of skills, or patterns of them; a limit that is `None` is none of ours."""

    name: str
    scopes: tuple[str, ...] = ("*",)
    rate_per_second: float | None = None
    burst: int | None = None
    concurrency: int | None = None

    def may(self, skill_id: str) -> bool:
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
        self._stamp: _Stamp = None
        self._known: Mapping[bytes, _Known] = {}

    @classmethod
    def open(cls, path: Path | None, *, required: bool = False, every: float = LOOKED_AT_EVERY) -> "KeyRing":
        """The keys of a file that may be missing; `None` is a ring that stays empty.

        With `required` nobody is let in without a key. Otherwise who brings none is anonymous, and only a key that is
        wrong, where there are keys, is refused. Raises `SkillError` for a file that cannot be used.
        """
        ring = cls(path, required=required, every=every)
        ring._stamp = _stamp_of(path)
        ring._load()
        return ring

    def __len__(self) -> int:
        return len(self._known)

    @property
    def required(self) -> bool:
        """Whether everybody needs a key."""
        return self._required

    def check(self, authorization: str | None) -> Principal:
        """Who sent a request with this `Authorization`; raises `Unauthorized`. Costs some microseconds."""
        self._refresh()
        if not self._required and (authorization is None or not self._known):
            return ANONYMOUS
        if authorization is None:
            raise Unauthorized(f"a key is needed: {_SEND}")
        key = _bearer(authorization)
        digest = hashlib.sha256(key.encode()).digest()
        # Found by the digest: how long that takes says nothing about a key that was not sent.
        known = self._known.get(digest)
        if known is None or not hmac.compare_digest(known.digest, digest):
            raise Unauthorized("this key is not known here: it was revoked, or belongs to another host")
        if known.ends is not None and time.time() >= known.ends:
            raise Unauthorized("this key has expired; `openskills keys new` makes another")
        return known.principal

    def _refresh(self) -> None:
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + self._every
        stamp = _stamp_of(self._path)
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
        self._known = {known.digest: known for known in map(_known, stored)}


@dataclass(frozen=True, slots=True)
class _Known:
    digest: bytes
    ends: float | None
    principal: Principal


def _known(key: StoredKey) -> _Known:
    principal = Principal(key.name, key.scopes, key.rate_per_second, key.burst, key.concurrency)
    return _Known(bytes.fromhex(key.digest), key.ends, principal)


def _bearer(authorization: str) -> str:
    scheme, _, key = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized(f"this is no bearer key: {_SEND}")
    key = key.strip()
    if KEY.fullmatch(key) is None:
        raise Unauthorized(f"this does not look like a key: {_SEND}")
    return key


def _stamp_of(path: Path | None) -> _Stamp:
    if path is None:
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
