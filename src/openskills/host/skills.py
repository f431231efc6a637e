"""Uploaded skills and files: owners, immutable versions, quotas, and contents that are stored once.

Everything is below one directory:

    skills.db                     which skills, versions and files exist
    blobs/SHA256                  archives of skills, and contents of files
    trees/SHA256/NAME/            unpacked archives
    live/shared/NAME              links to the trees of the versions that the host serves, for everybody
    live/keys/OWNER/NAME          the same for one key
    incoming/                     uploads that are arriving

A blob is complete before a row names it, and a row is complete before a link shows it. What no row names is removed
after `ORPHAN_SECONDS`.

With PostgreSQL the rows are there instead of in `skills.db`, and so are the contents, in pieces: each host gets those
that it lacks, checks their digest, and has its own blobs, trees and links.
"""

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TypeVar

from openskills.catalog.sources.archive import UnpackLimits, hash_content, unpack
from openskills.errors import Forbidden, InvalidArgument, NameTaken, StoreUnavailable, UnknownUpload
from openskills.filesystem import flush_directory, make_private, remove_unused, scratch_directory
from openskills.host.database import CHANGE_UPLOADS, UPLOAD_DATABASE, Database, read_changes, record_change
from openskills.postgres import PostgresUrl
from openskills.sql import SqlConnection, select_rows

T = TypeVar("T")

SHARED = ""
"""The owner of skills that everybody may use."""
ORPHAN_SECONDS = 3600.0
"""Unused contents are removed after this time. Running invocations may need them until then."""
_OWN_LIMITS = UnpackLimits(total=1 << 40, per_entry=1 << 40, entries=1_000_000, ratio=1 << 20)
"""Our own archives were checked when they arrived."""


@dataclass(frozen=True, slots=True)
class StagedSkill:
    """A validated skill that can be stored: its folder, and its archive as `pack_folder` makes it."""

    name: str
    description: str
    folder: Path
    archive: Path
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class StoredSkill:
    """An uploaded skill. `description` and `digest` are those of the default version.

    Versions are numbers from 1; `latest` and `default` are 0 if all versions were deleted.
    """

    id: str
    owner: str
    name: str
    display_name: str
    created: float
    updated: float
    default: int
    latest: int
    latest_id: str
    description: str
    digest: str


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """One version of a skill. It never changes; `digest` is the SHA-256 of its archive."""

    id: str
    skill_id: str
    number: int
    name: str
    description: str
    digest: str
    size: int
    created: float


@dataclass(frozen=True, slots=True)
class StoredFile:
    """An uploaded file. `expires` is None if it does not expire."""

    id: str
    owner: str
    name: str
    mime_type: str
    purpose: str
    digest: str
    size: int
    created: float
    expires: float | None


@dataclass(frozen=True, slots=True)
class UploadAccess:
    """What a caller may do: it sees shared uploads and those of `owner`.

    `writes` is the owner of what it uploads, or None if it may not upload.
    """

    owner: str
    writes: str | None

    def check_change(self, owner: str) -> None:
        """Raise `Forbidden` unless the caller may change uploads of this owner."""
        if self.writes is None:
            raise Forbidden("this key may not upload or delete; create one with --scope skills:write", scope="write")
        if owner not in {self.writes, self.owner} or (owner == SHARED and self.writes != SHARED):
            raise Forbidden("only keys with the scope skills:publish may change shared skills", scope="publish")


@dataclass(frozen=True, slots=True)
class ListPage:
    """Which part of a list: up to `limit` items after the item with the id `after`."""

    after: str | None = None
    limit: int = 20
    descending: bool = True


@dataclass(frozen=True, slots=True)
class UploadQuota:
    """What each owner may store in all versions and files together."""

    max_bytes: int
    max_uploads: int


_SKILLS = """
SELECT s.id, s.owner, s.name, s.display_name, s.created, s.updated, s.default_version,
       coalesce(l.number, 0), coalesce(l.id, ''), coalesce(d.description, ''), coalesce(d.digest, '')
FROM skills s
LEFT JOIN versions l ON l.skill = s.id AND l.number = (SELECT max(number) FROM versions WHERE skill = s.id)
LEFT JOIN versions d ON d.skill = s.id AND d.number = s.default_version
"""
_VERSIONS = """
SELECT v.id, v.skill, v.number, s.name, v.description, v.digest, v.size, v.created
FROM versions v JOIN skills s ON s.id = v.skill
"""
_INSERT_PART = "INSERT INTO blob_parts (digest, number, data) VALUES (?, ?, ?)"
_SELECT_PART = "SELECT data FROM blob_parts WHERE digest = ? AND number = ?"
_DELETE_UNUSED_PARTS = """
    DELETE FROM blob_parts WHERE digest NOT IN (SELECT digest FROM versions UNION SELECT digest FROM files)
"""
_PART_BYTES = 1024 * 1024
_FILES = "SELECT id, owner, name, mime_type, purpose, digest, size, created, expires FROM files"


class SkillStore:
    """The uploads of a host. `close` it. Several processes can use the same directory.

    With an `address`, hosts with other directories have the same uploads.
    """

    def __init__(self, root: Path, quota: UploadQuota, address: PostgresUrl | None = None) -> None:
        self._root = root
        self._quota = quota
        self._database = Database(address or root / "skills.db", profile=UPLOAD_DATABASE)
        self._seen = 0

    @property
    def live(self) -> Path:
        """The directory with links to the skills that the host serves."""
        return self._root / "live"

    async def open(self) -> None:
        """Create the directories, and finish what a killed process has left unfinished."""
        for name in ("incoming", "blobs", "trees", "live/shared", "live/keys"):
            await asyncio.to_thread(make_private, self._root / name)
        await self.refresh()
        await self._database.write(self._link_all)
        await self.sweep()

    async def refresh(self) -> bool:
        """With PostgreSQL: get what other hosts have changed. Returns whether there was something."""
        if not self._database.is_shared:
            return False
        changes = (await self._database.read(read_changes)).get(CHANGE_UPLOADS, 0)
        if changes == self._seen:
            return False
        # Before the links, because those are made in a transaction for which others wait.
        for digest in await self._database.read(_select_served_digests):
            await self.fetch_blob(digest)
        await self._database.write(self._link_all)
        self._seen = changes
        return True

    async def close(self) -> None:
        await self._database.close()

    @contextmanager
    def receive(self) -> Generator[Path]:
        """An empty directory for an upload, removed at the end."""
        with scratch_directory(self._root / "incoming") as directory:
            yield directory

    async def fetch_blob(self, digest: str) -> Path:
        """The file with the content of this digest; if it is missing, it is read from PostgreSQL."""
        path = self._get_blob(digest)
        if self._database.is_shared and not path.exists():
            await self._database.read(lambda at: self._download(at, digest))
        return path

    def _get_blob(self, digest: str) -> Path:
        return self._root / "blobs" / digest

    async def create(self, access: UploadAccess, staged: StagedSkill, display_name: str) -> StoredSkill:
        """Store a new skill. Raises `NameTaken` if its owner has one of this name, and `Forbidden` over the quota."""
        access.check_change(access.writes or "")
        owner = access.writes or SHARED
        # Also before, so that refused contents are not stored until the next sweep.
        await self._database.read(lambda connection: self._check_quota(connection, owner, staged.size))
        await asyncio.to_thread(self._place_skill, staged)

        def insert(connection: SqlConnection) -> StoredSkill:
            self._begin_change(connection, staged.digest)
            known = select_rows(connection, "SELECT id FROM skills WHERE owner = ? AND name = ?", (owner, staged.name))
            if known:
                raise NameTaken(staged.name, known[0][0])
            self._check_quota(connection, owner, staged.size)
            now, skill_id = time.time(), _new_id("skill")
            row = (skill_id, owner, staged.name, display_name or staged.name, now, now, 1, 1)
            connection.execute("INSERT INTO skills VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            _insert_version(connection, skill_id, 1, staged, now)
            return _get_skill(connection, access, skill_id)

        made = await self._database.write(insert)
        await self._update_links(owner)
        return made

    async def add_version(
        self, access: UploadAccess, skill_id: str, staged: StagedSkill, *, default: bool
    ) -> StoredVersion:
        """Store another version; with `default` the host serves it from now on."""

        def insert(connection: SqlConnection, skill: StoredSkill) -> StoredVersion:
            if skill.name != staged.name:
                message = f"the upload is the skill {staged.name!r}; all versions of {skill_id} must be {skill.name!r}"
                raise InvalidArgument("files", message)
            self._check_quota(connection, skill.owner, staged.size)
            ((last,),) = select_rows(connection, "SELECT last_version FROM skills WHERE id = ?", (skill_id,))
            number, now = last + 1, time.time()
            version_id = _insert_version(connection, skill_id, number, staged, now)
            chosen = number if default or not skill.default else skill.default
            change = "UPDATE skills SET last_version = ?, default_version = ?, updated = ? WHERE id = ?"
            connection.execute(change, (number, chosen, now, skill_id))
            return _get_version(connection, skill, version_id)

        def check(connection: SqlConnection) -> None:
            self._check_quota(connection, _get_skill(connection, access, skill_id).owner, staged.size)

        await self._database.read(check)
        await asyncio.to_thread(self._place_skill, staged)
        return await self._change(access, skill_id, insert, staged.digest)

    async def list_skills(self, access: UploadAccess, page: ListPage) -> tuple[list[StoredSkill], bool]:
        """The skills that the caller may see, by age, and whether there are more."""
        where, arguments = "s.owner IN (?, '')", (access.owner,)
        return await self._list(_SKILLS, "s.id", where, arguments, page, StoredSkill)

    async def list_private(self) -> Sequence[StoredSkill]:
        """The skills of all keys that the host serves to their owners only, by name."""
        where = "WHERE s.owner != '' AND s.default_version > 0 ORDER BY s.name, s.owner"
        rows = await self._database.read(lambda connection: select_rows(connection, f"{_SKILLS} {where}"))
        return [StoredSkill(*row) for row in rows]

    async def get_skill(self, access: UploadAccess, skill_id: str) -> StoredSkill:
        """A skill that the caller may see. Raises `UnknownUpload`, also for skills of others."""
        return await self._database.read(lambda connection: _get_skill(connection, access, skill_id))

    async def list_versions(
        self, access: UploadAccess, skill_id: str, page: ListPage
    ) -> tuple[list[StoredVersion], bool]:
        """The versions of a skill by age, and whether there are more."""
        await self.get_skill(access, skill_id)
        return await self._list(_VERSIONS, "v.id", "v.skill = ?", (skill_id,), page, StoredVersion)

    async def get_version(self, access: UploadAccess, skill_id: str, version: str) -> StoredVersion:
        """A version by number or id, or the one that is `latest` or `default`."""

        def find(connection: SqlConnection) -> StoredVersion:
            return _get_version(connection, _get_skill(connection, access, skill_id), version)

        return await self._database.read(find)

    async def set_default(self, access: UploadAccess, skill_id: str, version: str) -> StoredSkill:
        """Let the host serve this version."""

        def update(connection: SqlConnection, skill: StoredSkill) -> StoredSkill:
            number = _get_version(connection, skill, version).number
            change = "UPDATE skills SET default_version = ?, updated = ? WHERE id = ?"
            connection.execute(change, (number, time.time(), skill_id))
            return _get_skill(connection, access, skill_id)

        return await self._change(access, skill_id, update)

    async def remove_skill(self, access: UploadAccess, skill_id: str, *, with_versions: bool) -> StoredSkill:
        """Remove a skill. Raises `InvalidArgument` if it has versions, unless they are removed with it."""

        def remove(connection: SqlConnection, skill: StoredSkill) -> StoredSkill:
            if skill.latest and not with_versions:
                raise InvalidArgument("skill_id", f"{skill_id} has versions; delete all of them first")
            connection.execute("DELETE FROM versions WHERE skill = ?", (skill_id,))
            connection.execute("DELETE FROM skills WHERE id = ?", (skill_id,))
            return skill

        return await self._change(access, skill_id, remove)

    async def remove_version(
        self, access: UploadAccess, skill_id: str, version: str, *, may_be_last: bool
    ) -> StoredVersion:
        """Remove a version. If it was the default, the latest one that is left becomes the default."""

        def remove(connection: SqlConnection, skill: StoredSkill) -> StoredVersion:
            found = _get_version(connection, skill, version)
            connection.execute("DELETE FROM versions WHERE id = ?", (found.id,))
            ((left,),) = select_rows(
                connection, "SELECT coalesce(max(number), 0) FROM versions WHERE skill = ?", (skill_id,)
            )
            if not left and not may_be_last:
                raise InvalidArgument("version", f"{found.number} is the only version; delete the skill instead")
            chosen = left if skill.default == found.number else skill.default
            change = "UPDATE skills SET default_version = ?, updated = ? WHERE id = ?"
            connection.execute(change, (chosen, time.time(), skill_id))
            return found

        return await self._change(access, skill_id, remove)

    async def add_file(
        self, access: UploadAccess, content: Path, name: str, mime_type: str, purpose: str, expires: float | None
    ) -> StoredFile:
        """Store a file; `expires` is in seconds since 1970. Files are never shared between keys."""
        access.check_change(access.writes or "")
        owner = access.owner
        digest, size = await asyncio.to_thread(hash_content, content)
        await self._database.read(lambda connection: self._check_quota(connection, owner, size))
        await asyncio.to_thread(self._place_blob, content, digest)

        def insert(connection: SqlConnection) -> StoredFile:
            self._begin_change(connection, digest)
            self._check_quota(connection, owner, size)
            file = StoredFile(_new_id("file"), owner, name, mime_type, purpose, digest, size, time.time(), expires)
            connection.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", astuple(file))
            return file

        return await self._database.write(insert)

    async def list_files(
        self, access: UploadAccess, page: ListPage, purpose: str | None = None
    ) -> tuple[list[StoredFile], bool]:
        """The files that the caller may see, by age, and whether there are more."""
        where, arguments = "owner = ? AND coalesce(expires, ?) >= ?", (access.owner, now := time.time(), now)
        if purpose is not None:
            where, arguments = f"{where} AND purpose = ?", (*arguments, purpose)
        return await self._list(_FILES, "id", where, arguments, page, StoredFile)

    async def get_file(self, access: UploadAccess, file_id: str) -> StoredFile:
        """A file that the caller may see. Raises `UnknownUpload`."""
        return await self._database.read(lambda connection: _get_file(connection, access, file_id))

    async def remove_file(self, access: UploadAccess, file_id: str) -> StoredFile:
        """Remove a file."""

        def remove(connection: SqlConnection) -> StoredFile:
            file = _get_file(connection, access, file_id)
            access.check_change(access.writes or "")
            connection.execute("DELETE FROM files WHERE id = ?", (file_id,))
            return file

        return await self._database.write(remove)

    async def sweep(self, after: float = ORPHAN_SECONDS) -> None:
        """Remove expired files, and contents that nothing has needed for `after` seconds."""

        def remove(connection: SqlConnection) -> None:
            connection.lock(CHANGE_UPLOADS)
            connection.execute("DELETE FROM files WHERE expires < ?", (time.time(),))
            connection.execute(_DELETE_UNUSED_PARTS)
            used = select_used_digests(connection)
            # In the transaction, so that no version is added between the two.
            for name in ("blobs", "trees"):
                remove_unused(self._root / name, after=after, keep=frozenset(used))

        await self._database.write(remove)

    async def _list(
        self,
        select: str,
        key: str,
        where: str,
        arguments: Sequence[object],
        page: ListPage,
        build: Callable[..., T],
    ) -> tuple[list[T], bool]:
        order, sign = ("DESC", "<") if page.descending else ("ASC", ">")
        after = f" AND {key} {sign} ?" if page.after is not None else ""
        sql = f"{select} WHERE {where}{after} ORDER BY {key} {order} LIMIT ?"
        given = (*arguments, *(() if page.after is None else (page.after,)), page.limit + 1)
        rows = await self._database.read(lambda connection: select_rows(connection, sql, given))
        return [build(*row) for row in rows[: page.limit]], len(rows) > page.limit

    def _check_quota(self, connection: SqlConnection, owner: str, size: int) -> None:
        ((uploads, total),) = select_rows(
            connection,
            """
            SELECT count(*), CAST(coalesce(sum(size), 0) AS BIGINT) FROM (
                SELECT v.size FROM versions v JOIN skills s ON s.id = v.skill WHERE s.owner = ?
                UNION ALL SELECT size FROM files WHERE owner = ?
            ) AS uploads
            """,
            (owner, owner),
        )
        quota = self._quota
        if uploads >= quota.max_uploads:
            used = f"{uploads:,} of {quota.max_uploads:,} versions and files are stored"
            raise Forbidden(f"quota exceeded: {used}; delete some of them", quota="uploads")
        if total + size > quota.max_bytes:
            used = f"{total:,} of {quota.max_bytes:,} bytes are used, and this upload has {size:,}"
            raise Forbidden(f"quota exceeded: {used}; delete versions or files", quota="bytes")

    def _place_skill(self, staged: StagedSkill) -> None:
        self._place_blob(staged.archive, staged.digest)
        self._place_tree(staged.digest)

    def _place_tree(self, digest: str) -> None:
        tree = self._root / "trees" / digest
        if not tree.is_dir():
            unpack(self._get_blob(digest), tree, limits=_OWN_LIMITS)
        os.utime(tree)

    def _place_blob(self, content: Path, digest: str) -> None:
        blob = self._get_blob(digest)
        if not blob.exists():
            with content.open("rb") as file:
                os.fsync(file.fileno())
            content.chmod(0o600)
            # The same content has the same name, so that it does not matter who is first.
            content.rename(blob)
            flush_directory(blob.parent)
        os.utime(blob)

    def _begin_change(self, connection: SqlConnection, digest: str | None = None) -> None:
        """Wait for other changes, and let other hosts know of this one; with a digest, give them the content."""
        connection.lock(CHANGE_UPLOADS)
        if not self._database.is_shared:
            return
        record_change(connection, CHANGE_UPLOADS)
        if digest is not None:
            insert_blob(connection, self._get_blob(digest), digest)

    async def _change(
        self,
        access: UploadAccess,
        skill_id: str,
        change: Callable[[SqlConnection, StoredSkill], T],
        digest: str | None = None,
    ) -> T:
        """Change a skill, and then the links. Raises `UnknownUpload`, and `Forbidden` if the caller may not do that."""

        def change_rows(connection: SqlConnection) -> tuple[str, T]:
            self._begin_change(connection, digest)
            skill = _get_skill(connection, access, skill_id)
            access.check_change(skill.owner)
            return skill.owner, change(connection, skill)

        owner, result = await self._database.write(change_rows)
        await self._update_links(owner)
        return result

    def _download(self, connection: SqlConnection, digest: str) -> None:
        """Write the blob of this digest from its pieces. Raises `StoreUnavailable` if they are missing or damaged."""
        with self.receive() as directory:
            content = directory / digest
            is_stored = False
            with content.open("wb") as file:
                for part in select_parts(connection, digest):
                    file.write(part)
                    is_stored = True
            if not is_stored or hash_content(content)[0] != digest:
                what = "is damaged" if is_stored else "is missing"
                raise StoreUnavailable(f"the content {digest} of an upload {what} in the database of uploads")
            self._place_blob(content, digest)

    async def _update_links(self, owner: str) -> None:
        await self._database.write(lambda connection: self._link_owner(connection, owner))

    def _link_all(self, connection: SqlConnection) -> None:
        connection.lock(CHANGE_UPLOADS)
        owners = {owner for (owner,) in select_rows(connection, "SELECT DISTINCT owner FROM skills")}
        with suppress(FileNotFoundError):
            owners |= set(os.listdir(self.live / "keys"))
        for owner in owners | {SHARED}:
            self._link_owner(connection, owner)

    def _link_owner(self, connection: SqlConnection, owner: str) -> None:
        """Make the links of an owner agree with the rows. In a transaction, so that processes take turns."""
        connection.lock(CHANGE_UPLOADS)
        wanted = dict(
            select_rows(
                connection,
                """
                SELECT s.name, v.digest FROM skills s
                JOIN versions v ON v.skill = s.id AND v.number = s.default_version WHERE s.owner = ?
                """,
                (owner,),
            )
        )
        directory = make_private(self.get_live(owner))
        depth = "../.." if owner == SHARED else "../../.."
        for name in os.listdir(directory):
            if name not in wanted:
                (directory / name).unlink()
        for name, digest in wanted.items():
            if self._database.is_shared and not self._get_blob(digest).exists():
                self._download(connection, digest)
            self._place_tree(digest)
            link, target = directory / name, f"{depth}/trees/{digest}/{name}"
            if not link.is_symlink() or os.readlink(link) != target:
                fresh = directory / f".{secrets.token_hex(8)}"
                fresh.symlink_to(target)
                fresh.rename(link)

    def get_live(self, owner: str) -> Path:
        """The directory with the skills of an owner that the host serves; it may be missing."""
        return self.live / "shared" if owner == SHARED else self.live / "keys" / owner


def insert_blob(connection: SqlConnection, path: Path, digest: str) -> bool:
    """Store the content of a file in pieces; returns False if it was stored before."""
    if select_rows(connection, _SELECT_PART, (digest, 0)):
        return False
    with path.open("rb") as file:
        number = 0
        # At least one piece, also of an empty file.
        while (data := file.read(_PART_BYTES)) or not number:
            connection.execute(_INSERT_PART, (digest, number, data))
            number += 1
    return True


def select_parts(connection: SqlConnection, digest: str) -> Generator[bytes]:
    """The pieces of a stored content; none if it is not stored."""
    number = 0
    while rows := select_rows(connection, _SELECT_PART, (digest, number)):
        yield rows[0][0]
        number += 1


def select_used_digests(connection: SqlConnection) -> list[str]:
    """The digests of the contents of all versions and files."""
    used = select_rows(connection, "SELECT digest FROM versions UNION SELECT digest FROM files")
    return [digest for (digest,) in used]


def _select_served_digests(connection: SqlConnection) -> list[str]:
    """The digests of the versions that hosts serve."""
    sql = "SELECT DISTINCT v.digest FROM skills s JOIN versions v ON v.skill = s.id AND v.number = s.default_version"
    return [digest for (digest,) in select_rows(connection, sql)]


def _new_id(kind: str) -> str:
    # Sorted by time.
    return f"{kind}_{time.time_ns() // 1000:014x}{secrets.token_hex(8)}"


def _insert_version(connection: SqlConnection, skill_id: str, number: int, staged: StagedSkill, now: float) -> str:
    version_id = _new_id("skillver")
    row = (version_id, skill_id, number, staged.description, staged.digest, staged.size, now)
    connection.execute("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    return version_id


def _get_skill(connection: SqlConnection, access: UploadAccess, skill_id: str) -> StoredSkill:
    rows = select_rows(connection, f"{_SKILLS} WHERE s.id = ? AND s.owner IN (?, '')", (skill_id, access.owner))
    if not rows:
        raise UnknownUpload("skill", skill_id)
    return StoredSkill(*rows[0])


def _get_version(connection: SqlConnection, skill: StoredSkill, version: str) -> StoredVersion:
    named = {"latest": skill.latest, "default": skill.default}.get(version)
    if named is None and version.isascii() and version.isdigit() and len(version) < 16:
        named = int(version)
    where, wanted = ("v.id = ?", version) if named is None else ("v.number = ?", named)
    rows = select_rows(connection, f"{_VERSIONS} WHERE v.skill = ? AND {where}", (skill.id, wanted))
    if not rows:
        raise UnknownUpload("version", version)
    return StoredVersion(*rows[0])


def _get_file(connection: SqlConnection, access: UploadAccess, file_id: str) -> StoredFile:
    now = time.time()
    where = "id = ? AND owner = ? AND coalesce(expires, ?) >= ?"
    rows = select_rows(connection, f"{_FILES} WHERE {where}", (file_id, access.owner, now, now))
    if not rows:
        raise UnknownUpload("file", file_id)
    return StoredFile(*rows[0])
