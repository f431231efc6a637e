"""Where a host has its keys: the key file, or a table that several hosts share in PostgreSQL."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from openskills.errors import InvalidArgument, SkillError
from openskills.host.auth import (
    KeyEdit,
    KeyRing,
    StoredKey,
    check_new_key,
    create_successor,
    edit_key,
    name_exists,
    parse_key,
    read_keys,
    unknown_key,
)
from openskills.host.database import CHANGE_KEYS, Database, find_database, record_change
from openskills.settings import Settings
from openskills.sql import SqlConnection, select_rows

T = TypeVar("T")
KeyChange: TypeAlias = Callable[[StoredKey], tuple[T, StoredKey | None]]
"""Changes a key: returns a result, and the key that replaces it, or None to remove it."""

_SELECT = "SELECT name, digest, hint, created, expires, scopes, role, limits FROM api_keys"
_INSERT = """
    INSERT INTO api_keys (name, digest, hint, created, expires, scopes, role, limits) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""


class KeyStore(Protocol):
    """Keys of a host. Methods raise `InvalidArgument` for unknown names, names that are taken, and invalid values."""

    async def list(self) -> Sequence[StoredKey]:
        """All keys."""
        ...

    async def edit(self, name: str, edit: KeyEdit[T]) -> T:
        """Add, replace or remove the key of this name."""
        ...

    async def add(self, key: StoredKey) -> None:
        """Add a key."""
        check_new_key(key)

        def insert(found: StoredKey | None) -> tuple[None, StoredKey]:
            if found is not None:
                raise name_exists(key.name)
            return None, key

        await self.edit(key.name, insert)

    async def change(self, name: str, change: KeyChange[T]) -> T:
        """Replace or remove a key."""

        def change_found(found: StoredKey | None) -> tuple[T, StoredKey | None]:
            if found is None:
                raise unknown_key(name)
            return change(found)

        return await self.edit(name, change_found)

    async def revoke(self, name: str) -> StoredKey:
        """Remove a key; hosts refuse it from then on."""
        return await self.change(name, lambda found: (found, None))

    async def rotate(self, name: str, *, now: datetime) -> tuple[str, StoredKey]:
        """Replace a key by a new one with the same name, role, scopes, limits and lifetime; the old one is refused."""

        def succeed(found: StoredKey) -> tuple[tuple[str, StoredKey], StoredKey]:
            key, fresh = create_successor(found, now=now)
            return (key, fresh), fresh

        return await self.change(name, succeed)

    async def change_scopes(self, name: str, scopes: Sequence[str]) -> StoredKey:
        """Replace the scopes of a key, which stays the same."""

        def use_scopes(found: StoredKey) -> tuple[StoredKey, StoredKey]:
            changed = replace(found, scopes=tuple(scopes))
            check_new_key(changed)
            return changed, changed

        return await self.change(name, use_scopes)


class KeyFile(KeyStore):
    """The keys of a file. `place` is where they are, for messages."""

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        self._path = path

    async def list(self) -> Sequence[StoredKey]:
        return await asyncio.to_thread(read_keys, self._path)

    async def edit(self, name: str, edit: KeyEdit[T]) -> T:
        return await asyncio.to_thread(edit_key, self._path, name, edit)

    async def close(self) -> None:
        """Nothing is open."""


class KeyTable(KeyStore):
    """The keys of the host's database; all hosts that use it have the same keys, within two seconds.

    Its methods also raise `StoreUnavailable`.
    """

    def __init__(self, database: Database, place: str) -> None:
        self.place = place
        self._database = database

    async def list(self) -> Sequence[StoredKey]:
        return await self._database.read(select_keys)

    async def edit(self, name: str, edit: KeyEdit[T]) -> T:
        def replace_row(at: SqlConnection) -> T:
            at.lock(CHANGE_KEYS)
            result, changed = edit(_find(at, name))
            at.execute("DELETE FROM api_keys WHERE name = ?", (name,))
            if changed is not None:
                insert_key(at, changed)
            record_change(at, CHANGE_KEYS)
            return result

        return await self._database.write(replace_row)

    async def close(self) -> None:
        await self._database.close()


def select_keys(at: SqlConnection) -> list[StoredKey]:
    """All keys of the table, oldest first. Raises `SkillError` for an invalid row."""
    return [_key_from_row(row) for row in select_rows(at, f"{_SELECT} ORDER BY created, name")]


def insert_key(at: SqlConnection, key: StoredKey) -> None:
    limits = json.dumps({name: limit for name, limit in key.limits.items() if limit is not None})
    row = (key.name, key.digest, key.hint, key.created, key.expires, json.dumps(key.scopes), key.role, limits)
    at.execute(_INSERT, row)


def _find(at: SqlConnection, name: str) -> StoredKey | None:
    return next((_key_from_row(row) for row in select_rows(at, f"{_SELECT} WHERE name = ?", (name,))), None)


def _key_from_row(row: Sequence[Any]) -> StoredKey:
    name, digest, hint, created, expires, scopes, role, limits = row
    about = {"name": name, "digest": digest, "hint": hint, "created": created, "expires": expires, "role": role}
    try:
        return parse_key({**about, "scopes": json.loads(scopes), **json.loads(limits)})
    except (ValueError, TypeError, InvalidArgument) as error:
        raise SkillError(f"invalid key {str(name)[:80]!r} in the table api_keys: {error}; revoke it") from error


def open_key_store(settings: Settings, database: Database | None = None) -> KeyFile | KeyTable:
    """The keys of a host with these settings. Close it, unless it uses the `database` of somebody else."""
    if settings.host_database is None:
        return KeyFile(settings.host_keys)
    place = find_database(settings)
    return KeyTable(database or Database(place), getattr(place, "place", ""))


class HostKeys(KeyStore):
    """The keys of a running host: where they are, and the ring that authenticates with them.

    What is changed with it counts for this host at once.
    """

    def __init__(self, store: KeyFile | KeyTable, ring: KeyRing) -> None:
        self.store = store
        self._ring = ring

    async def refresh(self) -> None:
        """Read the keys again. The ring of a file does that by itself."""
        if isinstance(self.store, KeyTable):
            self._ring.update(await self.store.list())

    async def list(self) -> Sequence[StoredKey]:
        return await self.store.list()

    async def edit(self, name: str, edit: KeyEdit[T]) -> T:
        result = await self.store.edit(name, edit)
        await self.refresh()
        return result
