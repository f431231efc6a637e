"""Where a git repository lies, and which part of it is meant. Pure."""

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qs, unquote, urlunsplit

from openskills.catalog.fetch.urls import shown, split
from openskills.errors import InvalidArgument
from openskills.paths import relative

_SCHEMES = ("https", "ssh", "file")
_SCP = re.compile(r"([\w.-]+@[\w.-]+):(?!/)(.+)")
# What git's check-ref-format allows; a leading hyphen would be an option.
_REF = re.compile(r"(?![-/.])(?!.*(?:\.\.|@\{|//|\.lock$|/$))[^\s~^:?*\[\\\x00-\x20\x7f]{1,250}")
_COMMIT = re.compile(r"[0-9a-fA-F]{40}")


@dataclass(frozen=True, slots=True)
class GitAddress:
    """`url` has no password in it; `credentials` (`user:password`) is sent apart and never shown.

    `ref` is a branch, a tag or a commit; empty for what the repository calls its head.
    """

    url: str
    ref: str = ""
    subdirectory: str = ""
    credentials: str = field(default="", repr=False)

    @property
    def scheme(self) -> str:
        """The only protocol that git may speak."""
        return split(self.url).scheme

    @property
    def commit(self) -> str | None:
        """The full commit id, when the address names one; what it stands for can never change."""
        return self.ref.lower() if _COMMIT.fullmatch(self.ref) else None

    @property
    def identity(self) -> str:
        """What tells this repository, version and part from every other; no password is in it."""
        user = self.credentials.partition(":")[0]
        return f"{self.url}\0{self.ref}\0{self.subdirectory}\0{user}"

    @property
    def label(self) -> str:
        """The address for people."""
        ref = f"@{self.ref}" if self.ref else ""
        return f"git+{shown(self.url)}{ref}{f'#subdirectory={self.subdirectory}' if self.subdirectory else ''}"


def is_git(text: str) -> bool:
    """Whether a source is written like a git repository."""
    if text.startswith("git+") or _SCP.fullmatch(text):
        return True
    return bool(re.match(r"(https|ssh)://[^?#]*\.git(@[^?#]*)?/?(#.*)?$", text))


def parse_git(text: str) -> GitAddress:
    """Read `git+https://host/repo.git@ref#subdirectory=path` and the like; raises `InvalidArgument`."""
    if scp := _SCP.fullmatch(text.removeprefix("git+")):
        text = f"ssh://{scp[1]}/{scp[2]}"
    parts = split(text.removeprefix("git+"))
    if parts.scheme not in _SCHEMES:
        raise InvalidArgument("source", f"{shown(text)!r}: git sources are git+https, git+ssh and git+file addresses")
    path, ref = _ref(parts.path)
    _refuse_options(parts, path, text)
    if ref and not _REF.fullmatch(ref):
        raise InvalidArgument("source", f"{shown(text)!r}: {ref!r} is not the name of a branch, tag or commit")
    user, password = parts.username or "", parts.password or ""
    netloc = parts.netloc.rpartition("@")[2]
    if parts.scheme == "ssh" and user:
        netloc = f"{user}@{netloc}"
    credentials = f"{unquote(user)}:{unquote(password)}" if parts.scheme == "https" and user else ""
    url = urlunsplit((parts.scheme, netloc, path, parts.query, ""))
    return GitAddress(url, ref, _subdirectory(parts.fragment, text), credentials)


def _ref(path: str) -> tuple[str, str]:
    before, separator, ref = path.partition(".git@")
    if separator:
        return f"{before}.git", unquote(ref)
    # An @ that begins a folder is part of its name, as in /@scope/repository.
    at = re.search(r"(?<=[^/])@", path)
    return (path[: at.start()], unquote(path[at.end() :])) if at else (path, "")


def _refuse_options(parts: SplitResult, path: str, text: str) -> None:
    host = parts.hostname or ""
    if parts.scheme == "file":
        if host not in ("", "localhost"):
            raise InvalidArgument("source", f"{shown(text)!r}: a git+file address has no host; write git+file:///path")
    elif not host:
        raise InvalidArgument("source", f"{shown(text)!r}: has no host")
    if any(part.startswith("-") for part in (host, parts.username or "", unquote(path).lstrip("/"))):
        raise InvalidArgument("source", f"{shown(text)!r}: a part that begins with '-' would be an option of git")


def _subdirectory(fragment: str, text: str) -> str:
    values = parse_qs(fragment)
    if unknown := values.keys() - {"subdirectory", "egg"}:
        known = "a git address may end in #subdirectory=path; pin a commit with @<40 hex digits>"
        raise InvalidArgument("source", f"{shown(text)!r}: {sorted(unknown)[0]!r} is not known here; {known}")
    path = values.get("subdirectory", [""])[0].strip("/")
    return str(relative(path, field="subdirectory")) if path else ""
