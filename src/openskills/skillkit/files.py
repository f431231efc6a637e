"""Files of skills: confinement to one directory, atomic writes, glob patterns, directory walks, encoding detection.

Paths are resolved by descriptors at the time of use, so that nothing can be swapped in between. No glob pattern takes
long.
"""

import codecs
import errno
import os
import re
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import translate
from typing import BinaryIO

from openskills.errors import ForbiddenPath, InvalidArgument, LimitExceeded, SkillError
from openskills.paths import open_inside, parse_relative
from openskills.skillkit.entry import SkillCallContext

_ARRIVING = ".arriving-"
_MODE = 0o600
_PRIVATE = 0o700
_FILE, _DIRECTORY = 0o644, 0o755
_NO_TEMPORARY = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)


@contextmanager
def atomic_file(directory: int, name: str) -> Generator[BinaryIO]:
    """Write a file that replaces `name` in an open directory when the block succeeds.

    A link is replaced, not followed. The file has no name until it is complete, if the system supports that. Raises
    `SkillError` when the directory is not writable.
    """
    temporary = f"{_ARRIVING}{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        nameless = _open_unnamed(directory)
        descriptor = os.open(temporary, flags, _MODE, dir_fd=directory) if nameless is None else nameless
    except OSError as error:
        raise write_error(name, error) from error
    named = nameless is None
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            inherit_permissions(directory, descriptor)
            if not named:
                # A link cannot replace an existing file, so it needs a temporary name.
                os.link(f"/proc/self/fd/{descriptor}", temporary, dst_dir_fd=directory)
                named = True
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        if named:
            os.unlink(temporary, dir_fd=directory)
        raise


def make_directory(parent: int, name: str) -> None:
    """Create a directory in an open one, unless it exists. Raises `SkillError` when that fails."""
    try:
        os.mkdir(name, _PRIVATE, dir_fd=parent)
        made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except FileExistsError:
        return
    except OSError as error:
        raise write_error(name, error) from error
    try:
        inherit_permissions(parent, made)
    finally:
        os.close(made)


def inherit_permissions(directory: int, made: int) -> None:
    """Give a new file or directory the permissions of its directory, whatever the umask."""
    mask = _DIRECTORY if stat.S_ISDIR(os.fstat(made).st_mode) else _FILE
    # Not every file system supports permissions.
    with suppress(OSError):
        os.fchmod(made, os.fstat(directory).st_mode & mask)


def write_error(name: str, error: OSError) -> SkillError:
    """The error for a file that cannot be written."""
    denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    hint = "; the manifest needs `writable: true`, and the skill's user must own the directory" if denied else ""
    return SkillError(f"cannot write {name!r}: {error.strerror}{hint}")


def _open_unnamed(directory: int) -> int | None:
    """A descriptor of a file without a name; None if the system does not support it."""
    kind = getattr(os, "O_TMPFILE", None)
    if kind is None or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.open(".", kind | os.O_WRONLY | os.O_CLOEXEC, _MODE, dir_fd=directory)
    except OSError as error:
        if error.errno in _NO_TEMPORARY:
            return None
        raise


MAX_FILE = 5 * 1024 * 1024
"""Default maximum size of a file."""
MAX_RESULTS = 20
"""Default maximum number of results of a skill."""


class AllowedRoot:
    """A directory that confines the paths of callers.

    Paths are relative to the directory (`logs/app.log`) or to its parent (`./data/logs/app.log`, if it is called
    `data`). Absolute paths, `..`, and links that lead out raise `ForbiddenPath`; this is checked while opening, so that
    links cannot be swapped in between. FIFOs, devices and sockets are refused.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.name = os.path.basename(self.path) or "root"
        if not os.path.isdir(self.path):
            raise SkillError(
                f"directory {self.name!r} does not exist; create it, or set OPENSKILL_ALLOWED_ROOT to another"
            )

    def inner(self, name: str, *, field: str = "path") -> str:
        """A path of the caller relative to this directory; empty for the directory itself. Accesses no files."""
        if name.startswith("/"):
            raise ForbiddenPath(f"{field}: {name[:200]!r} is absolute; use a path such as ./{self.name}/notes.txt")
        if all(part in ("", ".") for part in name.split("/")):
            return ""
        parts = parse_relative(name, field=field).parts
        return "/".join(parts[1:] if parts[0] == self.name else parts)

    def outer(self, inner: str) -> str:
        """The inverse of `inner`: a path below this directory for the caller."""
        return f"{self.name}/{inner}" if inner else self.name

    def open(self, name: str, *, field: str = "path") -> BinaryIO:
        """Open a file for reading."""
        inner = self.inner(name, field=field)
        if not inner:
            raise InvalidArgument(field, f"{name!r} is a directory; name a file in it")
        descriptor = self._open_descriptor(inner, field)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise InvalidArgument(field, f"{self.outer(inner)!r} is not a regular file")
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb")

    def read(self, name: str, *, limit: int = MAX_FILE, field: str = "path") -> bytes:
        """The content of a file; `LimitExceeded` when it is larger than `limit` bytes."""
        with self.open(name, field=field) as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise LimitExceeded(f"{field}: {name!r} is larger than {limit} bytes", field=field, limit=limit)
        return data

    def open_directory(self, name: str, *, field: str = "path") -> int:
        """Open a directory and return its descriptor."""
        inner = self.inner(name, field=field)
        descriptor = self._open_descriptor(inner, field) if inner else os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise InvalidArgument(field, f"{self.outer(inner)!r} is not a directory")
        return descriptor

    @contextmanager
    def open_writer(self, name: str, *, field: str = "path") -> Generator[BinaryIO]:
        """Write a file atomically, replacing an existing one; a link is replaced, not followed.

        Missing parent directories are created.
        """
        inner = self.inner(name, field=field)
        folder, _, last = inner.rpartition("/")
        if not last:
            raise InvalidArgument(field, f"{name!r} is not the name of a file")
        directory = self._make_directories(folder, field)
        try:
            if self._is_directory(last, directory):
                raise InvalidArgument(field, f"{self.outer(inner)!r} is a directory")
            with atomic_file(directory, last) as file:
                yield file
        finally:
            os.close(directory)

    @staticmethod
    def _is_directory(name: str, directory: int) -> bool:
        try:
            return stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False

    def _open_descriptor(self, inner: str, field: str) -> int:
        with _translate_errors(field, self.outer(inner)):
            return open_inside(self.path, inner, field=field)

    def _make_directories(self, folder: str, field: str) -> int:
        """Open a directory below this one, creating missing parts."""
        made = ""
        for part in folder.split("/") if folder else ():
            parent = self.open_directory(self.outer(made), field=field)
            try:
                make_directory(parent, part)
            finally:
                os.close(parent)
            made = f"{made}/{part}" if made else part
        return self.open_directory(self.outer(folder), field=field)


@contextmanager
def _translate_errors(field: str, name: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
            raise InvalidArgument(field, f"{name!r} does not exist") from None
        if error.errno == errno.ELOOP:
            raise ForbiddenPath(f"{field}: {name!r} is a circular link") from None
        if error.errno == errno.EINVAL:
            # A link was replaced before it was read.
            raise ForbiddenPath(f"{field}: {name!r} changed while it was opened") from None
        if error.errno == errno.EISDIR:
            raise InvalidArgument(field, f"{name!r} is a directory") from None
        raise SkillError(f"{field}: cannot open {name!r}: {error.strerror}") from error


def root(path: str | None = None) -> AllowedRoot:
    """The directory that this skill may use: `OPENSKILL_ALLOWED_ROOT`, or `./data`."""
    return AllowedRoot(path if path is not None else SkillCallContext().allowed_root)


MAX_PATTERN_CHARACTERS = 1000
MAX_ALTERNATIVES = 64
_NEGATED = re.compile(r"\[\^(\]?[^\]]*\])")
"""A class of characters that begins with `^`; for `fnmatch`, that is `!`."""


class Glob:
    """A pattern over relative paths: `*`, `?`, `[a-z]`, `[!a-z]`, `{md,txt}`, and `**` for any number of folders.

    A pattern without `/` matches names in every folder, as with `grep --include`. Raises `InvalidArgument` for an
    invalid pattern, and `ForbiddenPath` for one that is absolute or contains `..`.
    """

    def __init__(self, pattern: str, *, field: str = "glob") -> None:
        if not pattern.strip() or "\0" in pattern:
            raise InvalidArgument(field, "must not be empty; omit it to match every file")
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            raise InvalidArgument(field, f"has {len(pattern)} characters; the maximum is {MAX_PATTERN_CHARACTERS}")
        self._alternatives = [_compile_parts(one, field) for one in _expand_alternatives(pattern, field)]

    def matches(self, path: str) -> bool:
        """Whether the pattern matches this path."""
        names = path.split("/")
        return any(_is_match(names, wanted) for wanted in self._alternatives)


def _compile_parts(pattern: str, field: str) -> list[re.Pattern[str] | None]:
    """An expression for the name of each folder and file; None for `**`."""
    if pattern.startswith("/"):
        raise ForbiddenPath(f"{field}: {pattern!r} is absolute; use a pattern relative to the searched folder")
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ForbiddenPath(f"{field}: {pattern!r} must not contain '..'")
    parts = ["**", *parts] if len(parts) == 1 else parts
    return [None if part == "**" else re.compile(translate(_NEGATED.sub(r"[!\1", part))) for part in parts]


def _expand_alternatives(pattern: str, field: str) -> Iterator[str]:
    """Expand `{a,b}` to one pattern for each choice."""
    waiting, given = [pattern], 0
    while waiting:
        one = waiting.pop()
        opening = one.rfind("{")
        closing = one.find("}", opening)
        if opening < 0 or closing < 0:
            yield one
        else:
            # The last opening brace contains no other, so this works from the inside out.
            middle = reversed(one[opening + 1 : closing].split(","))
            waiting += [one[:opening] + choice + one[closing + 1 :] for choice in middle]
        given += 1
        if given > 2 * MAX_ALTERNATIVES or len(waiting) > MAX_ALTERNATIVES:
            raise InvalidArgument(field, f"has more than {MAX_ALTERNATIVES} alternatives in braces")


def _is_match(names: Sequence[str], wanted: Sequence[re.Pattern[str] | None]) -> bool:
    """Whether the names of a path match. Only the last `**` is retried, which takes at most the product of the lengths.

    The expressions of `fnmatch` never backtrack.
    """
    at = want = 0
    star = -1
    resumed = 0
    while at < len(names):
        part = wanted[want] if want < len(wanted) else None
        if want < len(wanted) and part is None:
            star, resumed = want, at
            want += 1
        elif part is not None and part.match(names[at]):
            at += 1
            want += 1
        elif star >= 0:
            resumed += 1
            at, want = resumed, star + 1
        else:
            return False
    return not any(wanted[want:])


MAX_DEPTH = 64
"""Maximum depth of directories; each level keeps a descriptor open."""


class Walk:
    """The regular files below a directory, sorted by name, with counts of skipped entries.

    Links are not followed and hidden names are ignored.
    """

    def __init__(self, root: AllowedRoot, name: str = "", *, glob: Glob | None = None, field: str = "path") -> None:
        """Raises `ForbiddenPath` or `InvalidArgument` when `name` is not a directory below the root."""
        self._start = root.open_directory(name, field=field)
        self._inner = root.inner(name, field=field)
        self._glob = glob
        self.links = 0
        self.special = 0
        self.unreadable = 0
        self.too_deep = 0

    def files(self) -> Generator[tuple[str, BinaryIO]]:
        """Yield the path of each file below the root, and the file, open for reading until the next one.

        Memory is needed only for the names of one directory per level. Call it once.
        """
        # Names are in reverse order, so that the next one is at the end.
        levels = [(self._start, "", self._list_names(self._start))]
        try:
            while levels:
                directory, prefix, names = levels[-1]
                if not names:
                    os.close(directory)
                    levels.pop()
                    continue
                name = names.pop()
                path = f"{prefix}{name}"
                descriptor = self._open_entry(name, directory)
                if descriptor is None:
                    continue
                if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                    yield from self._open_file(descriptor, path)
                elif len(levels) < MAX_DEPTH:
                    levels.append((descriptor, f"{path}/", self._list_names(descriptor)))
                else:
                    self.too_deep += 1
                    os.close(descriptor)
        finally:
            for directory, _, _ in levels:
                os.close(directory)

    def _open_file(self, descriptor: int, path: str) -> Iterator[tuple[str, BinaryIO]]:
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                self.special += 1
            elif self._glob is None or self._glob.matches(path):
                os.set_blocking(descriptor, True)
                yield (f"{self._inner}/{path}" if self._inner else path), file

    def _list_names(self, directory: int) -> list[str]:
        names: list[str] = []
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if entry.is_symlink():
                        self.links += 1
                    elif entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False):
                        names.append(entry.name)
                    else:
                        # Opening it could have side effects.
                        self.special += 1
        except OSError:
            self.unreadable += 1
        names.sort(reverse=True)
        return names

    def _open_entry(self, name: str, directory: int) -> int | None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            return os.open(name, flags, dir_fd=directory)
        except OSError:
            # Removed or replaced by a link since the directory was read, or not permitted.
            self.unreadable += 1
            return None


SAMPLE_BYTES = 65_536
"""Maximum number of bytes used for detection."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BINARY_MAGIC = (b"%PDF-", b"\x1f\x8b", b"PK\x03\x04", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\x7fELF", b"BZh")
_FEW_CONTROLS = 0.02
_OF_TEXTS = bytes(byte for byte in range(256) if byte >= 32 or byte in b"\t\n\v\f\r\x1b\b")


def detect_encoding(sample: bytes) -> str | None:
    """The encoding of a text from its first bytes; None for binary data.

    Trusts byte-order marks; then tries UTF-8, UTF-16, GB18030 if it looks like Chinese, and Windows-1252. Decode with
    `errors="replace"`, because the text after the sample may differ.
    """
    sample = sample[:SAMPLE_BYTES]
    for mark, name in _MARKS:
        if sample.startswith(mark):
            return name
    if sample.startswith(_BINARY_MAGIC):
        return None
    if b"\0" in sample:
        return _detect_utf16(sample)
    if _is_valid(sample, "utf-8"):
        return "utf-8" if _has_few_controls(sample) else None
    if not _has_few_controls(sample):
        return None
    if _is_valid(sample, "gb18030") and _is_likely_chinese(sample):
        return "gb18030"
    return "cp1252"


def _detect_utf16(sample: bytes) -> str | None:
    """Western text in UTF-16 has a zero in every other byte."""
    pairs = len(sample) // 2
    low, high = sample[0 : 2 * pairs : 2].count(0), sample[1 : 2 * pairs : 2].count(0)
    name = "utf-16-le" if high > low else "utf-16-be"
    if max(low, high) <= pairs // 3 or min(low, high) > pairs // 50:
        return None
    decoded = sample[: 2 * pairs].decode(name, "replace")
    return name if _has_few_controls(decoded.encode("utf-8", "replace")) else None


def _is_valid(sample: bytes, encoding: str) -> bool:
    try:
        # The last character of a sample may be cut.
        codecs.getincrementaldecoder(encoding)("strict").decode(sample, final=len(sample) < SAMPLE_BYTES)
    except UnicodeDecodeError:
        return False
    return True


def _has_few_controls(sample: bytes) -> bool:
    return len(sample.translate(None, _OF_TEXTS)) <= len(sample) * _FEW_CONTROLS


def _is_likely_chinese(sample: bytes) -> bool:
    """Whether most bytes beyond ASCII come in pairs in which both are high, as in common Chinese characters."""
    beyond = paired = place = 0
    while place < len(sample):
        if sample[place] < 0x80:
            place += 1
            continue
        pair = place + 1 < len(sample) and sample[place] >= 0xA1 and sample[place + 1] >= 0xA1
        beyond += 1
        paired += pair
        place += 2
    return paired * 2 > beyond
