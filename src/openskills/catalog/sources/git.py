"""Git sources: skills in a repository at a branch, a tag or a commit."""

import base64
import json
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, unquote, urlunsplit

from openskills.catalog.root import FetchResult, Progress, Root
from openskills.catalog.sources.cache import cache_key, folder_name, redact, split_url
from openskills.errors import DeadlineExceeded, InvalidArgument, LimitExceeded, SourceUnavailable
from openskills.filesystem import MONTH, find_folder, make_private, remove_unused, replace_directory, replace_file
from openskills.paths import inside, parse_relative, to_printable
from openskills.settings import Settings
from openskills.skillmd.problem import Problem, Severity
from openskills.subprocesses import ProcessResult, run_program

_SCHEMES = ("https", "ssh", "file")
_SCP = re.compile(r"([\w.-]+@[\w.-]+):(?!/)(.+)")
# What git's check-ref-format allows; a leading hyphen would be an option.
_REF = re.compile(r"(?![-/.])(?!.*(?:\.\.|@\{|//|\.lock$|/$))[^\s~^:?*\[\\\x00-\x20\x7f]{1,250}")
_FULL_COMMIT = re.compile(r"[0-9a-fA-F]{40}")


@dataclass(frozen=True, slots=True)
class GitAddress:
    """A repository URL, a ref and a subdirectory. `ref` is a branch, tag or commit; empty means HEAD.

    `url` has no password; `credentials` (`user:password`) are sent separately and never shown.
    """

    url: str
    ref: str = ""
    subdirectory: str = ""
    credentials: str = field(default="", repr=False)

    @property
    def scheme(self) -> str:
        """The only protocol that git may use."""
        return split_url(self.url).scheme

    @property
    def commit(self) -> str | None:
        """The full commit id, if `ref` is one."""
        return self.ref.lower() if _FULL_COMMIT.fullmatch(self.ref) else None

    @property
    def identity(self) -> str:
        """A unique key for repository, ref, subdirectory and user; contains no password."""
        user = self.credentials.partition(":")[0]
        return f"{self.url}\0{self.ref}\0{self.subdirectory}\0{user}"

    @property
    def label(self) -> str:
        ref = f"@{self.ref}" if self.ref else ""
        return f"git+{redact(self.url)}{ref}{f'#subdirectory={self.subdirectory}' if self.subdirectory else ''}"


def is_git_address(text: str) -> bool:
    if text.startswith("git+") or _SCP.fullmatch(text):
        return True
    return bool(re.match(r"(https|ssh)://[^?#]*\.git(@[^?#]*)?/?(#.*)?$", text))


def parse_git(text: str) -> GitAddress:
    """Read `git+https://host/repo.git@ref#subdirectory=path` and the like; raises `InvalidArgument`."""
    if scp := _SCP.fullmatch(text.removeprefix("git+")):
        text = f"ssh://{scp[1]}/{scp[2]}"
    parts = split_url(text.removeprefix("git+"))
    if parts.scheme not in _SCHEMES:
        raise InvalidArgument("source", f"{redact(text)!r}: use git+https, git+ssh or git+file")
    path, ref = _split_ref(parts.path)
    _check_options(parts, path, text)
    if ref and not _REF.fullmatch(ref):
        raise InvalidArgument("source", f"{redact(text)!r}: {ref!r} is not a valid branch, tag or commit")
    user, password = parts.username or "", parts.password or ""
    netloc = parts.netloc.rpartition("@")[2]
    if parts.scheme == "ssh" and user:
        netloc = f"{user}@{netloc}"
    credentials = f"{unquote(user)}:{unquote(password)}" if parts.scheme == "https" and user else ""
    url = urlunsplit((parts.scheme, netloc, path, parts.query, ""))
    return GitAddress(url, ref, _parse_subdirectory(parts.fragment, text), credentials)


def _split_ref(path: str) -> tuple[str, str]:
    before, separator, ref = path.partition(".git@")
    if separator:
        return f"{before}.git", unquote(ref)
    # An @ at the start of a folder is part of its name, as in /@scope/repository.
    at = re.search(r"(?<=[^/])@", path)
    return (path[: at.start()], unquote(path[at.end() :])) if at else (path, "")


def _check_options(parts: SplitResult, path: str, text: str) -> None:
    host = parts.hostname or ""
    if parts.scheme == "file":
        if host not in ("", "localhost"):
            raise InvalidArgument("source", f"{redact(text)!r}: git+file has no host; write git+file:///path")
    elif not host:
        raise InvalidArgument("source", f"{redact(text)!r}: no host")
    if any(part.startswith("-") for part in (host, parts.username or "", unquote(path).lstrip("/"))):
        raise InvalidArgument("source", f"{redact(text)!r}: a part that starts with '-' would be an option of git")


def _parse_subdirectory(fragment: str, text: str) -> str:
    values = parse_qs(fragment)
    if unknown := values.keys() - {"subdirectory", "egg"}:
        known = "use #subdirectory=path, and pin a commit with @<40 hex digits>"
        raise InvalidArgument("source", f"{redact(text)!r}: unknown option {sorted(unknown)[0]!r}; {known}")
    path = values.get("subdirectory", [""])[0].strip("/")
    return str(parse_relative(path, field="subdirectory")) if path else ""


_RECORD = "commit.json"
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_MAX_LISTING = 8 << 20
_PASSED_ON = (
    "SSH_AUTH_SOCK",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
)
_OPTIONS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "credential.helper=",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
)


@dataclass(frozen=True, slots=True)
class GitLimits:
    """Limits of a checkout, and timeouts in seconds for asking the server and for fetching."""

    files: int = 50_000
    size: int = 256 << 20
    ask: float = 60.0
    fetch: float = 300.0


DEFAULT_LIMITS = GitLimits()


class GitSource:
    """A repository, checked out without its history and without `.git`.

    git runs without user or system configuration, hooks, submodules, prompts and filters, and uses the protocol of the
    address only. Redirects are followed for the first request only, and never with credentials, which git would send
    on. Checkouts are cached per commit: an unchanged branch is not fetched again, and for a full commit id the server
    is not even asked.
    """

    def __init__(self, address: GitAddress, settings: Settings, limits: GitLimits = DEFAULT_LIMITS) -> None:
        self.label = address.label
        self._address = address
        self._settings = settings
        self._limits = limits
        self._place = settings.skills_cache_dir / "git" / cache_key(address.identity)

    def fetch(self, progress: Progress) -> FetchResult:
        """The checkout of the current commit, or the last one if the server cannot be reached."""
        cached = self._read_commit()
        tree = find_folder(self._place / cached) if cached else None
        if cached and tree and cached == self._address.commit:
            return self._build_result(cached, tree)
        progress(f"fetching {self.label}", 0, None)
        try:
            commit, ref = self._resolve_commit()
        except (SourceUnavailable, DeadlineExceeded) as error:
            if not cached or not tree:
                raise
            message = f"{error}; using the cached commit {cached[:12]}"
            return self._build_result(cached, tree, Problem("source-stale", message, Severity.WARNING))
        if commit != cached or not tree:
            tree = find_folder(self._place / commit) or self._check_out(commit, ref)
            replace_file(self._place / _RECORD, json.dumps({"commit": commit}).encode())
            remove_unused(self._place, after=MONTH, keep=frozenset((_RECORD, commit)))
        return self._build_result(commit, tree)

    def _read_commit(self) -> str | None:
        try:
            commit = str(json.loads((self._place / _RECORD).read_bytes())["commit"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return commit if _COMMIT.fullmatch(commit) else None

    def _build_result(self, commit: str, tree: Path, *problems: Problem) -> FetchResult:
        path = inside(tree, self._address.subdirectory) if self._address.subdirectory else tree
        if not path.is_dir():
            raise InvalidArgument("subdirectory", f"{self.label}: not a folder at commit {commit[:12]}")
        return FetchResult((Root(path, self.label, confine=tree, watch=False),), problems)

    def _resolve_commit(self) -> tuple[str, str]:
        """The commit that the address means, and the ref to fetch."""
        if self._address.commit:
            return self._address.commit, self._address.commit
        ref = self._address.ref
        names = [f"refs/heads/{ref}", f"refs/tags/{ref}", ref] if ref else ["HEAD"]
        wanted = [*names, *(f"{name}^{{}}" for name in names)]
        answer = self._run_git("ls-remote", "--quiet", "--", self._address.url, *wanted, seconds=self._limits.ask)
        lines = (line.partition("\t") for line in answer.stdout.decode("utf-8", "replace").splitlines())
        found = {name: commit for commit, _, name in lines}
        for name in names:
            if name in found:
                # An annotated tag is an object of its own; ^{} is the commit it points to.
                return found.get(f"{name}^{{}}", found[name]), name
        what = f"no branch or tag {ref!r}; for a commit use all 40 digits" if ref else "no commit yet"
        raise SourceUnavailable(f"{self.label}: the repository has {what}")

    def _check_out(self, commit: str, ref: str) -> Path:
        with replace_directory(self._place / commit) as temporary:
            tree = temporary / "content"
            tree.mkdir(mode=0o755)
            self._run_git("init", "--quiet", "--template=", cwd=tree)
            options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules")
            self._run_git("fetch", *options, "--", self._address.url, ref, cwd=tree, seconds=self._limits.fetch)
            got = self._run_git("rev-parse", "--verify", "FETCH_HEAD^{commit}", cwd=tree).stdout.decode().strip()
            if got != commit:
                raise SourceUnavailable(f"{self.label}: changed while it was fetched; try again")
            self._check_tree(tree)
            paths = ("--", self._address.subdirectory) if self._address.subdirectory else ()
            self._run_git("checkout", "--quiet", "--force", "FETCH_HEAD", *paths, cwd=tree, seconds=self._limits.fetch)
            shutil.rmtree(tree / ".git")
            repository = self._address.url.rstrip("/").rpartition("/")[2].removesuffix(".git")
            tree.rename(temporary / folder_name(tree, repository))
        folder = find_folder(self._place / commit)
        if not folder:
            raise SourceUnavailable(f"{self.label}: no files at commit {commit[:12]}")
        return folder

    def _check_tree(self, tree: Path) -> None:
        """Check the list of files before any is written: a small repository can contain a huge tree."""
        paths = ("--", self._address.subdirectory) if self._address.subdirectory else ()
        listing = self._run_git("ls-tree", "-r", "-t", "-l", "-z", "--full-tree", "FETCH_HEAD", *paths, cwd=tree).stdout
        lines = listing.split(b"\0")[:-1]
        if self._address.subdirectory and not lines:
            raise InvalidArgument("subdirectory", f"{self.label}: no such folder in the repository")
        if len(lines) > self._limits.files:
            raise LimitExceeded(f"{self.label}: more than {self._limits.files:,} files and folders")
        sizes = (line.partition(b"\t")[0].split()[3] for line in lines)
        if sum(int(size) for size in sizes if size.isdigit()) > self._limits.size:
            raise LimitExceeded(f"{self.label}: more than {self._limits.size:,} bytes")

    def _run_git(self, *arguments: str, cwd: Path | None = None, seconds: float = 60.0) -> ProcessResult:
        program = shutil.which("git", path=self._settings.search_path)
        if not program:
            raise SourceUnavailable(f"{self.label}: git is not installed; on Debian: apt-get install git")
        redirects = f"http.followRedirects={'false' if self._address.credentials else 'initial'}"
        argv = [program, *(word for option in (*_OPTIONS, redirects) for word in ("-c", option)), *arguments]
        directory = cwd or make_private(self._place)
        try:
            done = run_program(
                argv, environment=self._build_environment(), cwd=directory, timeout=seconds, max_output=_MAX_LISTING
            )
        except DeadlineExceeded:
            raise DeadlineExceeded(f"{self.label}: git {arguments[0]} timed out after {seconds:g} s") from None
        except LimitExceeded:
            raise LimitExceeded(f"{self.label}: too many files") from None
        if done.returncode:
            reason = _describe_failure(done.stderr)
            if self._address.credentials and "returned error: 30" in reason:
                reason += "; redirects are not followed with credentials: use the final address"
            raise SourceUnavailable(f"{self.label}: git {arguments[0]} failed: {reason}")
        return done

    def _build_environment(self) -> dict[str, str]:
        given = self._settings.environment
        environment = {name: given[name] for name in _PASSED_ON if name in given}
        environment |= {
            "PATH": self._settings.search_path,
            "HOME": str(self._settings.home),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=15",
            "GIT_ALLOW_PROTOCOL": self._address.scheme,
            "GIT_LFS_SKIP_SMUDGE": "1",
            "GIT_LITERAL_PATHSPECS": "1",
        }
        if self._address.credentials:
            # In the environment, because the address is visible in the process list.
            token = base64.b64encode(self._address.credentials.encode()).decode()
            environment |= {
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": f"http.{self._address.url}.extraHeader",
                "GIT_CONFIG_VALUE_0": f"Authorization: Basic {token}",
            }
        return environment


def _describe_failure(stderr: bytes) -> str:
    lines = [line for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR:"))] or lines
    return to_printable(redact(errors[0]))[:300] if errors else "no error message"
