"""Skills in a git repository, at a branch, a tag or a commit."""

import base64
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from openskills.catalog.fetch.arriving import MONTH, arriving, forget, found, private
from openskills.catalog.fetch.git_address import GitAddress
from openskills.catalog.fetch.placing import folder_name
from openskills.catalog.fetch.urls import key, shown
from openskills.catalog.progress import Progress
from openskills.catalog.root import Fetched, Root
from openskills.child import Finished, finish
from openskills.errors import DeadlineExceeded, InvalidArgument, LimitExceeded, SourceUnavailable
from openskills.files import replace_file
from openskills.paths import inside, printable
from openskills.settings import Settings
from openskills.skillmd.problem import Problem, Severity

_RECORD = "commit.json"
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_MAX_LISTING = 8 << 20
_PASSED_ON = (
    "SSH_AUTH_SOCK", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
)  # fmt: skip
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
    """What a checkout may hold, and the seconds for asking the server and for fetching."""

    files: int = 50_000
    size: int = 256 << 20
    ask: float = 60.0
    fetch: float = 300.0


DEFAULT_LIMITS = GitLimits()


class GitSource:
    """A repository, fetched without its history and laid out without `.git`.

    git runs with no configuration of the user or the system, no hooks, no submodules, no prompts and no filters, and
    speaks the protocol of the address only. A server may lead the first request elsewhere, but not one that carries
    credentials: git would send them there too. A checkout is kept per commit; an unchanged branch is asked for but not
    fetched again, and an address with a full commit id is not even asked for.
    """

    def __init__(self, address: GitAddress, settings: Settings, limits: GitLimits = DEFAULT_LIMITS) -> None:
        self.label = address.label
        self._address = address
        self._settings = settings
        self._limits = limits
        self._place = settings.skills_cache_dir / "git" / key(address.identity)

    def fetch(self, progress: Progress) -> Fetched:
        """The checkout of the commit that the address means now; the last one when the server cannot be asked."""
        kept = self._kept()
        tree = found(self._place / kept) if kept else None
        if kept and tree and kept == self._address.commit:
            return self._fetched(kept, tree)
        progress(f"fetching {self.label}", 0, None)
        try:
            commit, ref = self._ask()
        except (SourceUnavailable, DeadlineExceeded) as error:
            if not kept or not tree:
                raise
            message = f"{error}; commit {kept[:12]} from before is used"
            return self._fetched(kept, tree, Problem("source-stale", message, Severity.WARNING))
        if commit != kept or not tree:
            tree = self._arrived(commit, ref)
            replace_file(self._place / _RECORD, json.dumps({"commit": commit}).encode())
            forget(self._place, after=MONTH, keep=frozenset((_RECORD, commit)))
        return self._fetched(commit, tree)

    def _kept(self) -> str | None:
        try:
            commit = str(json.loads((self._place / _RECORD).read_bytes())["commit"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return commit if _COMMIT.fullmatch(commit) else None

    def _arrived(self, commit: str, ref: str) -> Path:
        place = self._place / commit
        tree = found(place)
        if not tree:
            self._check_out(commit, ref)
            tree = found(place)
        if not tree:
            raise SourceUnavailable(f"{self.label}: holds no files at commit {commit[:12]}")
        return tree

    def _fetched(self, commit: str, tree: Path, *problems: Problem) -> Fetched:
        path = inside(tree, self._address.subdirectory) if self._address.subdirectory else tree
        if not path.is_dir():
            raise InvalidArgument("subdirectory", f"{self.label}: is not a folder at commit {commit[:12]}")
        return Fetched((Root(path, self.label, confine=tree, watch=False),), problems)

    def _ask(self) -> tuple[str, str]:
        """The commit that the address means, and what to ask the server for to get it."""
        if self._address.commit:
            return self._address.commit, self._address.commit
        ref = self._address.ref
        names = [f"refs/heads/{ref}", f"refs/tags/{ref}", ref] if ref else ["HEAD"]
        wanted = [*names, *(f"{name}^{{}}" for name in names)]
        answer = self._git("ls-remote", "--quiet", "--", self._address.url, *wanted, seconds=self._limits.ask)
        lines = (line.partition("\t") for line in answer.stdout.decode("utf-8", "replace").splitlines())
        found = {name: commit for commit, _, name in lines}
        for name in names:
            if name in found:
                # A tag with a message is an object of its own; ^{} is the commit it points to.
                return found.get(f"{name}^{{}}", found[name]), name
        what = f"no branch or tag called {ref!r}; a commit needs all its 40 digits" if ref else "no commit yet"
        raise SourceUnavailable(f"{self.label}: the repository has {what}")

    def _check_out(self, commit: str, ref: str) -> None:
        with arriving(self._place / commit) as temporary:
            tree = temporary / "content"
            tree.mkdir(mode=0o755)
            self._git("init", "--quiet", "--template=", cwd=tree)
            options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules")
            self._git("fetch", *options, "--", self._address.url, ref, cwd=tree, seconds=self._limits.fetch)
            got = self._git("rev-parse", "--verify", "FETCH_HEAD^{commit}", cwd=tree).stdout.decode().strip()
            if got != commit:
                raise SourceUnavailable(f"{self.label}: changed while it was fetched; try again")
            self._check_tree(tree)
            paths = ("--", self._address.subdirectory) if self._address.subdirectory else ()
            self._git("checkout", "--quiet", "--force", "FETCH_HEAD", *paths, cwd=tree, seconds=self._limits.fetch)
            shutil.rmtree(tree / ".git")
            tree.rename(temporary / folder_name(tree, self._repository_name()))

    def _check_tree(self, tree: Path) -> None:
        """Look at the list of files before any is written: a small repository can stand for a huge tree."""
        paths = ("--", self._address.subdirectory) if self._address.subdirectory else ()
        listing = self._git("ls-tree", "-r", "-t", "-l", "-z", "--full-tree", "FETCH_HEAD", *paths, cwd=tree).stdout
        lines = listing.split(b"\0")[:-1]
        if self._address.subdirectory and not lines:
            raise InvalidArgument("subdirectory", f"{self.label}: there is no such folder in the repository")
        if len(lines) > self._limits.files:
            raise LimitExceeded(f"{self.label}: holds more than {self._limits.files:,} files and folders")
        sizes = (line.partition(b"\t")[0].split()[3] for line in lines)
        if sum(int(size) for size in sizes if size.isdigit()) > self._limits.size:
            raise LimitExceeded(f"{self.label}: holds more than {self._limits.size:,} bytes")

    def _repository_name(self) -> str:
        return self._address.url.rstrip("/").rpartition("/")[2].removesuffix(".git")

    def _git(self, *arguments: str, cwd: Path | None = None, seconds: float = 60.0) -> Finished:
        program = shutil.which("git", path=self._settings.search_path)
        if not program:
            raise SourceUnavailable(f"{self.label}: needs git, which is not installed; on Debian: apt-get install git")
        redirects = f"http.followRedirects={'false' if self._address.credentials else 'initial'}"
        argv = [program, *(word for option in (*_OPTIONS, redirects) for word in ("-c", option)), *arguments]
        directory = cwd or private(self._place)
        try:
            done = finish(
                argv, environment=self._environment(), cwd=directory, timeout=seconds, max_output=_MAX_LISTING
            )
        except DeadlineExceeded:
            raise DeadlineExceeded(f"{self.label}: git {arguments[0]} took longer than {seconds:g} seconds") from None
        except LimitExceeded:
            raise LimitExceeded(f"{self.label}: has too many files") from None
        if done.returncode:
            reason = _complaint(done.stderr)
            if self._address.credentials and "returned error: 30" in reason:
                reason += "; with credentials no redirect is followed: use the address that it leads to"
            raise SourceUnavailable(f"{self.label}: git {arguments[0]} failed: {reason}")
        return done

    def _environment(self) -> dict[str, str]:
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
            # In the environment and not in the address: what stands in an address can be seen in the process list.
            token = base64.b64encode(self._address.credentials.encode()).decode()
            environment |= {
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": f"http.{self._address.url}.extraHeader",
                "GIT_CONFIG_VALUE_0": f"Authorization: Basic {token}",
            }
        return environment


def _complaint(stderr: bytes) -> str:
    lines = [line for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR:"))] or lines
    return printable(shown(told[0]))[:300] if told else "it gave no reason"
