"""Skills that MCP servers offer (SEP-2640, `io.modelcontextprotocol/skills`).

They are listed without being downloaded. A file is downloaded when it is needed, verified against the digest and size
in the list, and cached by digest. A skill is used after the user trusted this set of digests.
"""

import base64
import binascii
import hashlib
import json
import os
import re
import shlex
import shutil
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, cast
from urllib.parse import unquote

from pydantic import BaseModel

from openskills.catalog.root import FetchResult, ListedSkill, Progress, Root
from openskills.catalog.skill import SKILL_FILE, Resource, classify_resource
from openskills.catalog.sources.archive import EntryNames, hash_content, is_plain_name
from openskills.catalog.sources.cache import cache_key, check_pin
from openskills.catalog.sources.mcp_client import McpAddress, McpConnection
from openskills.catalog.trust import TrustAnswer, TrustDecision, TrustStore
from openskills.errors import (
    DeadlineExceeded,
    InvalidArgument,
    InvalidSkill,
    LimitExceeded,
    SkillError,
    SourceUnavailable,
    shorten,
)
from openskills.filesystem import MONTH, make_private, remove_unused, replace_directory, replace_file
from openskills.settings import Settings
from openskills.skillmd.parse import parse
from openskills.skillmd.problem import Problem, Severity
from openskills.skillmd.yaml import MAX_FRONTMATTER_CHARACTERS, NULL_WORDS, Value

if TYPE_CHECKING:
    from mcp import Client

SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
MAX_SKILLS = 10_000
MAX_PAGES = 1_000
MAX_LISTING_CHARACTERS = 64 << 20
MAX_FILES = 512
"""Files of one skill, as in the specification."""
MAX_SKILL_BYTES = 16 << 20
"""Bytes of one skill, as in the specification."""
LIST_TIMEOUT = 60.0
READ_TIMEOUT = 60.0
_KEEP = 5.0
"""Seconds that an idle connection is kept for the next file."""
_MAX_TTL = 3600.0
_MAX_NAME = 80
_MAX_URI = 2048
_MAX_INTEGER = 2**53
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")


@dataclass(frozen=True, slots=True)
class McpFile:
    """One file of a skill, as it is listed."""

    uri: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class McpSkill:
    """One skill, as it is listed: the URI of its SKILL.md, its front matter, its files by path.

    `digest` covers the front matter and the URIs, digests and sizes of all files; trust is bound to it.
    `answer` is the decision of the user about this digest.
    """

    uri: str
    fields: Mapping[str, Any]
    files: Mapping[str, McpFile]
    digest: str
    answer: TrustAnswer | None = None

    @property
    def name(self) -> str:
        """Its name; another skill of the server may have the same."""
        return str(self.fields["name"])

    @property
    def front_matter(self) -> str:
        """The front matter as text; JSON is YAML."""
        return "".join(("---\n", *(f"{_to_yaml(key)}: {_to_yaml(one)}\n" for key, one in self.fields.items()), "---\n"))


def _to_yaml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


@dataclass(slots=True)
class McpListing:
    """The skills of a server, the problems of others, and until when this is current (monotonic seconds)."""

    skills: list[McpSkill] = field(default_factory=list[McpSkill])
    problems: list[Problem] = field(default_factory=list[Problem])
    current_until: float = 0.0
    characters: int = 0
    seen: set[str] = field(default_factory=set[str])

    def add(self, entry: object, where: str) -> None:
        """Add an entry of `skills/list`, or the problem with it. Raises `LimitExceeded` for too much."""
        try:
            skill = parse_entry(entry, where)
            if skill.uri in self.seen:
                raise InvalidSkill(f"{where}: {skill.uri[:200]} is listed twice; the first one is used")
        except (SkillError, ValueError) as error:
            # A ValueError: a number with thousands of digits, or a name that is not UTF-8.
            message = error.message if isinstance(error, SkillError) else f"{where}: an invalid entry: {error}"
            self.problems.append(Problem("mcp-skill", message))
        else:
            self.seen.add(skill.uri)
            self.skills.append(skill)
            self.characters += len(skill.front_matter) + sum(len(file.uri) + 100 for file in skill.files.values())
        if len(self.skills) + len(self.problems) > MAX_SKILLS or self.characters > MAX_LISTING_CHARACTERS:
            limits = f"{MAX_SKILLS:,} skills or {MAX_LISTING_CHARACTERS:,} characters"
            raise LimitExceeded(f"{where}: lists more than {limits}")


def parse_entry(entry: object, where: str) -> McpSkill:
    """Check one entry of `skills/list`. Raises a `SkillError` that names the server and the entry."""
    content = _as_fields(entry)
    uri, resources, fields = content.get("uri"), content.get("resources"), _as_fields(content.get("frontmatter"))
    name = fields.get("name")
    where = f"{where}: {uri[:200] if isinstance(uri, str) else 'a skill without a uri'}"
    if not _is_uri(uri) or not uri.endswith(f"/{SKILL_FILE}"):
        raise InvalidSkill(f"{where}: its uri must end with /{SKILL_FILE}")
    if not isinstance(name, str):
        raise InvalidSkill(f"{where}: has no frontmatter with a name")
    if resources == "dynamic":
        raise InvalidSkill(f"{where}: has dynamic resources without digests, which cannot be verified or trusted")
    if not isinstance(resources, list):
        raise InvalidSkill(f"{where}: has no list of resources")
    if not is_plain_name(name) or name != uri.removesuffix(f"/{SKILL_FILE}").rpartition("/")[2]:
        raise InvalidSkill(f"{where}: the name {name[:80]!r} is invalid or is not the last part of the uri")
    files = _parse_files(uri, cast("list[object]", resources), where)
    lines = "".join(f"{file.uri}\0{file.sha256}\0{file.size}\n" for file in files.values())
    # Models see the listed front matter before a file is read.
    listed = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    skill = McpSkill(uri, fields, files, hashlib.sha256(f"{uri}\n{lines}\n{listed}".encode()).hexdigest())
    if len(skill.front_matter) > MAX_FRONTMATTER_CHARACTERS:
        raise LimitExceeded(f"{where}: its front matter has more than {MAX_FRONTMATTER_CHARACTERS:,} characters")
    return skill


def _is_uri(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and "://" in value and value.isprintable() and len(value) <= _MAX_URI


def _as_fields(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _parse_files(uri: str, resources: list[object], where: str) -> dict[str, McpFile]:
    if len(resources) > MAX_FILES:
        raise LimitExceeded(f"{where}: lists {len(resources):,} files; the limit is {MAX_FILES}")
    base, names = uri.removesuffix(SKILL_FILE), EntryNames(where)
    files: dict[str, McpFile] = {}
    for resource in resources:
        given = _as_fields(resource)
        address, size, digest = given.get("uri"), given.get("size"), _DIGEST.fullmatch(str(given.get("digest")))
        if not _is_uri(address) or not address.startswith(base):
            raise InvalidSkill(f"{where}: a file is not inside the skill: {str(address)[:200]!r}")
        if digest is None:
            raise InvalidSkill(f"{where}: {address[:200]} has no digest of the form sha256:<64 hex digits>")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _MAX_INTEGER:
            raise InvalidSkill(f"{where}: {address[:200]} has no size")
        path = unquote(address.removeprefix(base), errors="strict")
        if not path.isprintable():
            raise InvalidSkill(f"{where}: the file name {path[:80]!r} has control characters")
        files[str(names.add_file(path))] = McpFile(address, digest[1], size)
    if files.get(SKILL_FILE) is None or files[SKILL_FILE].uri != uri:
        raise InvalidSkill(f"{where}: its resources do not contain its {SKILL_FILE}")
    total = sum(file.size for file in files.values())
    if total > MAX_SKILL_BYTES:
        raise LimitExceeded(f"{where}: has {total:,} bytes; the limit is {MAX_SKILL_BYTES:,}")
    return dict(sorted(files.items()))


class McpSource:
    """The skills of one MCP server, or the one with this `uri`. With `trusted`, they are used without asking.

    `pin` is the digest of all skills together; if it is given, no other content is used, and it needs no other trust.
    """

    def __init__(
        self,
        address: McpAddress,
        settings: Settings,
        *,
        uri: str = "",
        pin: str | None = None,
        trusted: bool = False,
    ) -> None:
        self.label = address.label
        self._uri = uri
        self._address = address
        self._pin = pin
        self._trusted = trusted
        self._store = TrustStore(settings.config_dir)
        # The server is part of the path: equal URIs of two servers are different skills.
        kind = re.sub(r"[^A-Za-z0-9]+", "-", self.label.partition(":")[2]).strip("-")[:40]
        self._place = settings.skills_cache_dir / "mcp" / f"{kind}-{cache_key(self.label)[:16]}"
        self._listing_name = f"skill-{cache_key(uri)}.json" if uri else "listing.json"
        self._listing = McpListing()
        self._rejected: dict[str, Problem] = {}
        self._connection: McpConnection | None = None
        self._connecting = threading.RLock()
        self._idle: threading.Timer | None = None

    def fetch(self, progress: Progress) -> FetchResult:
        """Ask the server for its skills, and return those that are trusted. Their files are not downloaded.

        If the server cannot be reached, the last list is used, with a `source-stale` warning.
        """
        progress(f"asking {self.label}", 0, None)
        skills, problems = self.list_skills()
        names = Counter(skill.name for skill in skills)
        taken = set(names)
        trusted = [skill for skill in skills if skill.answer is TrustAnswer.YES]
        untrusted = [skill for skill in skills if skill.answer is not TrustAnswer.YES]
        listed: dict[str, ListedSkill] = {}
        for skill in trusted:
            if skill.digest in self._rejected:
                problems.append(self._rejected[skill.digest])
                continue
            name = _build_unique_name(skill, taken) if names[skill.name] > 1 else ""
            taken.add(name)
            folder = self._place / "skills" / cache_key(f"{skill.digest}{name}") / skill.name
            files = McpFiles(self, skill, folder)
            listed[str(folder)] = ListedSkill(skill.front_matter, files, self._place_of(skill), name)
            if name:
                message = f"{self.label}: {skill.uri} is used as {name!r}, because two of its skills have its name"
                problems.append(Problem("mcp-name", message, Severity.NOTE))
        if untrusted:
            problems.append(self._untrusted_problem(untrusted))
        return FetchResult((Root(self._place, self.label, watch=False, listed=listed),), tuple(problems))

    def list_skills(self) -> tuple[list[McpSkill], list[Problem]]:
        """All skills with the user's decisions about them, trusted or not, and problems."""
        listing, problems = self._listing, list[Problem]()
        if time.monotonic() >= listing.current_until:
            try:
                with self.connect() as connection:
                    listing = connection.call(self._read_listing, LIST_TIMEOUT)
            except (SourceUnavailable, DeadlineExceeded) as error:
                listing = self._load_listing(error)
                problems.append(Problem("source-stale", f"{error}; using the cached list", Severity.WARNING))
            else:
                self._save_listing(listing)
            self._listing = listing
        return self._decide(listing.skills), [*problems, *listing.problems]

    def remember(self, skills: Iterable[McpSkill], answer: TrustAnswer) -> None:
        """Store the user's answer about these skills; it is valid until their files change."""
        self._store.remember(self.label, {self._place_of(skill): skill.digest for skill in skills}, answer)

    def forget(self) -> dict[str, TrustDecision]:
        """Remove and return every decision about the skills of this server, and what is cached of them."""
        known = self._store.read_decisions().items()
        ours = {place: decision for place, decision in known if decision.project == self.label}
        self._store.forget(ours.keys())
        shutil.rmtree(self._place, ignore_errors=True)
        return ours

    @contextmanager
    def connect(self) -> Generator[McpConnection]:
        """The connection, opened if necessary. It is kept for some seconds, because files are often read in a row."""
        with self._connecting:
            if self._idle is not None:
                self._idle.cancel()
            if self._connection is None or not self._connection.is_open:
                self.close()
                connection = McpConnection(self._address, extensions=(SKILLS_EXTENSION,))
                connection.open()
                self._connection = connection
            try:
                yield self._connection
            finally:
                self._idle = threading.Timer(_KEEP, self._close_idle, (self._connection,))
                self._idle.daemon = True
                self._idle.start()

    def close(self) -> None:
        """Close the connection now; the next call opens a new one."""
        with self._connecting:
            if self._idle is not None:
                self._idle.cancel()
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _close_idle(self, connection: McpConnection) -> None:
        with self._connecting:
            if self._connection is connection and self._idle is threading.current_thread():
                self.close()

    def find_cached(self, file: McpFile) -> bytes | None:
        """The content of a file from the cache, verified again."""
        path = self._place / "files" / file.sha256
        try:
            data = path.read_bytes()
        except OSError:
            return None
        if len(data) != file.size or hashlib.sha256(data).hexdigest() != file.sha256:
            return None
        with suppress(OSError):
            os.utime(path)
        return data

    def store(self, file: McpFile, data: bytes) -> None:
        """Put a verified file into the cache."""
        try:
            replace_file(make_private(self._place / "files") / file.sha256, data)
        except OSError as error:
            raise SourceUnavailable(f"cannot write to {self._place}: {error.strerror or error}") from None

    def clean(self) -> None:
        """Remove what was not used for a month."""
        for name in ("files", "skills"):
            if (self._place / name).is_dir():
                remove_unused(self._place / name, after=MONTH)

    def reject(self, skill: McpSkill, why: str) -> InvalidSkill:
        """Do not use a skill any more, because a file is not what the server lists."""
        message = f"{self.label}: {why}; the skill {skill.name!r} is not used: the server changed it or is not honest"
        self._rejected[skill.digest] = Problem("mcp-mismatch", message, path=self._place_of(skill))
        return InvalidSkill(message, (self._rejected[skill.digest],))

    def is_rejected(self, skill: McpSkill) -> Problem | None:
        """The problem of a skill that was rejected."""
        return self._rejected.get(skill.digest)

    async def _read_listing(self, client: "Client") -> McpListing:
        if SKILLS_EXTENSION not in (client.server_capabilities.extensions or {}):
            raise SourceUnavailable(f"{self.label}: the server offers no skills ({SKILLS_EXTENSION})", final=True)
        listing, cursor = McpListing(), None
        if self._uri:
            # A list need not be complete.
            listing.add((await send_request(client, "skills/get", {"uri": self._uri})).get("skill"), self.label)
            listing.skills = [skill for skill in listing.skills if skill.uri == self._uri]
            return listing
        ttl = _MAX_TTL
        for _ in range(MAX_PAGES):
            page = await send_request(client, "skills/list", {"cursor": cursor} if cursor is not None else {})
            entries = page.get("skills")
            if not isinstance(entries, list):
                raise InvalidSkill(f"{self.label}: the answer to skills/list has no list of skills")
            for entry in cast("list[object]", entries):
                listing.add(entry, self.label)
            hint = page.get("ttlMs")
            ttl = min(ttl, hint / 1000) if isinstance(hint, int | float) and hint > 0 else 0.0
            before, cursor = cursor, page.get("nextCursor")
            if cursor is None:
                listing.current_until = time.monotonic() + ttl
                return listing
            if not isinstance(cursor, str) or cursor == before:
                raise InvalidSkill(f"{self.label}: skills/list does not end: it returns the same cursor again")
        raise LimitExceeded(f"{self.label}: skills/list has more than {MAX_PAGES:,} pages")

    def _save_listing(self, listing: McpListing) -> None:
        rows = [
            {
                "uri": skill.uri,
                "frontmatter": skill.fields,
                "resources": [
                    {"uri": file.uri, "digest": f"sha256:{file.sha256}", "size": file.size}
                    for file in skill.files.values()
                ],
            }
            for skill in listing.skills
        ]
        content = json.dumps({"server": self.label, "skills": rows}, separators=(",", ":")).encode()
        # Without a cache everything works, but not offline.
        with suppress(OSError):
            replace_file(make_private(self._place) / self._listing_name, content)

    def _load_listing(self, error: SkillError) -> McpListing:
        listing = McpListing()
        try:
            if error.details.get("final"):
                raise error
            content: Any = json.loads((self._place / self._listing_name).read_bytes())
            entries = content["skills"]
        except (OSError, ValueError, LookupError, TypeError):
            raise error from None
        if not isinstance(entries, list):
            raise error
        for entry in cast("list[object]", entries):
            listing.add(entry, self.label)
        return listing

    def _decide(self, skills: Sequence[McpSkill]) -> list[McpSkill]:
        check_pin(self.label, digest_skills(skills), self._pin)
        if self._trusted or self._pin is not None:
            return [replace(skill, answer=TrustAnswer.YES) for skill in skills]
        known = self._store.read_decisions() if skills else {}
        decisions = [(skill, known.get(self._place_of(skill))) for skill in skills]
        return [replace(skill, answer=found.answer_for(skill.digest) if found else None) for skill, found in decisions]

    def _place_of(self, skill: McpSkill) -> str:
        return f"{self.label} {skill.uri}"

    def _untrusted_problem(self, skills: Sequence[McpSkill]) -> Problem:
        names = ", ".join(skill.name for skill in skills[:5]) + (f" and {len(skills) - 5} more" if skills[5:] else "")
        message = f"skills of {self.label} are ignored: not trusted yet, or changed since: {names}"
        hint = f"review them with: openskills trust {shlex.quote(self.label)}"
        return Problem("mcp-untrusted", f"{message}; {hint}", Severity.WARNING)


def digest_skills(skills: Iterable[McpSkill]) -> str:
    """One digest over all skills, for a pin."""
    return hashlib.sha256("\n".join(sorted(skill.digest for skill in skills)).encode()).hexdigest()


def _build_unique_name(skill: McpSkill, taken: Set[str]) -> str:
    """A name from the whole path of a skill, for one that has the same name as another: `acme-billing-refunds`."""
    path = unquote(skill.uri.partition("://")[2].removesuffix(f"/{SKILL_FILE}")).lower()
    name = re.sub(r"[^a-z0-9]+", "-", path).strip("-")
    return name if name not in taken and len(name) <= 64 else f"{skill.name[:55]}-{cache_key(skill.uri)[:8]}"


class McpFiles:
    """The files of one listed skill; `RemoteFiles` of a `Skill`."""

    def __init__(self, source: McpSource, skill: McpSkill, folder: Path) -> None:
        self.server = shorten(source.label, _MAX_NAME)
        self._source = source
        self._skill = skill
        self._folder = folder
        self._is_checked = False
        self._lock = threading.Lock()

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The listed files except SKILL.md, sorted by path."""
        files = self._skill.files.items()
        return tuple(Resource(path, classify_resource(path), file.size) for path, file in files if path != SKILL_FILE)

    def read(self, path: str) -> bytes:
        """The verified content of one file, from the cache if possible."""
        if path not in self._skill.files:
            raise InvalidArgument("path", f"{path[:200]!r} is not a file of the skill {self._skill.name!r}")
        with self._lock:
            return self._read_checked(path)

    def download(self) -> None:
        """Make the folder with all files, verified. A complete folder is only verified."""
        with self._lock:
            if self._is_complete():
                self._check_front_matter((self._folder / SKILL_FILE).read_bytes())
                return
            shutil.rmtree(self._folder.parent, ignore_errors=True)
            contents = {path: self._read_checked(path) for path in self._skill.files}
            with replace_directory(self._folder.parent) as temporary:
                for path, data in contents.items():
                    target = temporary / self._skill.name / path
                    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                    target.write_bytes(data)
                    # Servers list no permissions.
                    target.chmod(0o755 if data.startswith(b"#!") else 0o644)
            self._source.clean()

    def _is_complete(self) -> bool:
        """Whether the folder has exactly the listed files, with the listed content."""
        files = self._skill.files
        found = {path.relative_to(self._folder).as_posix() for path in self._folder.rglob("*") if not path.is_dir()}
        try:
            return found == set(files) and all(
                hash_content(self._folder / path) == (file.sha256, file.size) for path, file in files.items()
            )
        except OSError:
            return False

    def _read_checked(self, path: str) -> bytes:
        if not self._is_checked:
            self._check_front_matter(self._read_file(self._skill.files[SKILL_FILE]))
        return self._read_file(self._skill.files[path])

    def _check_front_matter(self, data: bytes) -> None:
        """Check that the front matter is what the server lists: the user decided by that."""
        if not self._is_checked:
            found = parse(data.decode("utf-8-sig", "replace")).front.fields
            different = find_difference(found, self._skill.fields)
            if different is not None:
                raise self._source.reject(self._skill, f"the front matter of {self._skill.uri} differs in {different}")
            self._is_checked = True

    def _read_file(self, file: McpFile) -> bytes:
        if (problem := self._source.is_rejected(self._skill)) is not None:
            raise InvalidSkill(problem.message, (problem,))
        data = self._source.find_cached(file)
        if data is not None:
            return data
        with self._source.connect() as connection:
            data = connection.call(lambda client: read_resource(client, file.uri), READ_TIMEOUT)
        digest, why = hashlib.sha256(data).hexdigest(), ""
        if len(data) != file.size:
            why = f"{file.uri} has {len(data):,} bytes, but {file.size:,} are listed"
        elif digest != file.sha256:
            why = f"the digest of {file.uri} is {digest}, but {file.sha256} is listed"
        if why:
            raise self._source.reject(self._skill, why)
        self._source.store(file, data)
        return data


def find_difference(found: Mapping[str, Value], listed: Mapping[str, Any]) -> str | None:
    """The first field in which front matter differs from what is listed, or None. Scalars in `found` are text."""
    for name in (*found, *listed):
        if name not in found or name not in listed or not _is_same(found[name], listed[name]):
            return repr(name[:80])
    return None


def _is_same(found: Value, listed: Any) -> bool:
    if isinstance(found, Mapping):
        return isinstance(listed, dict) and find_difference(found, cast("dict[str, Any]", listed)) is None
    if isinstance(found, str | None):
        return _is_same_scalar(found or "", listed)
    others = cast("list[Any]", listed) if isinstance(listed, list) else None
    return others is not None and len(found) == len(others) and all(map(_is_same, found, others))


def _is_same_scalar(found: str, listed: Any) -> bool:
    """Whether a scalar can mean the listed value: servers read YAML 1.1 or 1.2."""
    if isinstance(listed, str):
        return found == listed
    if listed is None:
        return found in NULL_WORDS
    if isinstance(listed, bool):
        return found.lower() in (_TRUE if listed else _FALSE)
    if not isinstance(listed, int | float):
        return False
    text = found.replace("_", "")
    for read in (float, partial(int, base=0), partial(int, base=8)):
        with suppress(ValueError):
            if read(text) == listed:
                return True
    return False


class _AnyResult(BaseModel, extra="allow"):
    """A result that is checked by the caller."""


async def send_request(client: "Client", method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send a request of an extension and return the result as it is."""
    from mcp_types import Request

    request = Request[dict[str, Any], str](method=method, params=params)
    return (await client.session.send_request(request, _AnyResult)).model_extra or {}


async def read_resource(client: "Client", uri: str) -> bytes:
    """The bytes of a resource. Raises `InvalidSkill` if it is not one text or one blob."""
    from mcp_types import BlobResourceContents, TextResourceContents

    contents = (await client.read_resource(uri)).contents
    try:
        match contents:
            case [TextResourceContents(text=text)]:
                return text.encode()
            case [BlobResourceContents(blob=blob)]:
                return base64.b64decode(blob, validate=True)
            case _:
                raise InvalidSkill(f"{uri} has {len(contents)} contents; expected one")
    except (UnicodeEncodeError, binascii.Error) as error:
        raise InvalidSkill(f"{uri} cannot be decoded: {error}") from None
