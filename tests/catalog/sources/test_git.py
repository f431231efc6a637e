"""Repositories become folders: at the right commit, without .git, without running anything of theirs.

A git address is taken apart, and nothing in it can become an option or a message.
"""

import base64
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from openskills.catalog.root import FetchResult, no_progress
from openskills.catalog.sources.git import GitAddress, GitLimits, GitSource, is_git_address, parse_git
from openskills.errors import DeadlineExceeded, ForbiddenPath, InvalidArgument, LimitExceeded, SourceUnavailable
from openskills.settings import Settings
from openskills.subprocesses import run_program
from tests.catalog.sources.archive_bytes import SKILL
from tests.catalog.sources.web_server import Web


class Repository:
    """A real repository that a test can change."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    @property
    def url(self) -> str:
        return f"git+file://{self.path}"

    def git(self, *arguments: str) -> str:
        who = {f"GIT_{role}_{what}": "x@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environment = {"PATH": os.defpath, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", **who}
        argv = ["git", "-c", "protocol.file.allow=always", *arguments]
        done = run_program(argv, environment=environment, cwd=self.path, timeout=60, max_output=1 << 20)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def commit(self, files: dict[str, bytes]) -> str:
        for name, data in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message=x")
        return self.git("rev-parse", "HEAD")

    def hide(self) -> None:
        """Make the repository unreachable."""
        self.path.rename(self.path.with_name("hidden"))


@pytest.fixture
def repository(tmp_path: Path, require_program: Callable[[str], str]) -> Repository:
    require_program("git")
    return Repository(tmp_path / "remote" / "office-skills")


def source(text: str, settings: Settings, limits: GitLimits | None = None) -> GitSource:
    return GitSource(parse_git(text), settings, limits or GitLimits())


def files(fetched: FetchResult) -> dict[str, bytes]:
    [root] = fetched.roots
    return {str(path.relative_to(root.path)): path.read_bytes() for path in root.path.rglob("*") if path.is_file()}


def test_the_head_arrives_without_git(repository: Repository, settings: Settings) -> None:
    repository.commit({"hello/SKILL.md": SKILL, "README.md": b"x"})
    (repository.path / "README.md").chmod(0o755)
    repository.commit({})
    fetched = source(repository.url, settings).fetch(no_progress)
    assert files(fetched) == {"hello/SKILL.md": SKILL, "README.md": b"x"}
    [root] = fetched.roots
    assert (root.path.name, root.label, root.confine, root.watch) == (
        "office-skills",
        repository.url,
        root.path,
        False,
    )
    assert os.access(root.path / "README.md", os.X_OK)
    assert fetched.problems == ()


def test_a_repository_that_is_one_skill_gets_the_folder_name_of_the_skill(
    repository: Repository, settings: Settings
) -> None:
    repository.commit({"SKILL.md": SKILL})
    [root] = source(repository.url, settings).fetch(no_progress).roots
    assert root.path.name == "hello"


@pytest.mark.parametrize("ref", ["main", "v1", "v2", "feature/x"])
def test_a_branch_or_a_tag_arrives(ref: str, repository: Repository, settings: Settings) -> None:
    repository.commit({"a": b"v1"})
    repository.git("tag", "v1")
    repository.git("checkout", "--quiet", "-b", "feature/x")
    repository.commit({"a": b"feature/x"})
    repository.git("checkout", "--quiet", "main")
    repository.commit({"a": b"v2"})
    repository.git("tag", "--annotate", "--message=x", "v2")
    repository.commit({"a": b"main"})
    assert files(source(f"{repository.url}@{ref}", settings).fetch(no_progress)) == {"a": ref.encode()}


def test_a_commit_arrives_and_is_never_asked_for_again(repository: Repository, settings: Settings) -> None:
    commit = repository.commit({"a": b"1"})
    repository.commit({"a": b"2"})
    pinned = source(f"{repository.url}@{commit}", settings)
    assert files(pinned.fetch(no_progress)) == {"a": b"1"}
    repository.hide()
    again = source(f"{repository.url}@{commit}", settings).fetch(no_progress)
    assert (files(again), again.problems) == ({"a": b"1"}, ())


def test_a_refresh_brings_a_new_commit_and_keeps_those_that_were_used_this_month(
    repository: Repository, settings: Settings
) -> None:
    fetches: list[FetchResult] = []
    branch = source(f"{repository.url}@main", settings)
    for number in range(4):
        repository.commit({"a": b"%d" % number})
        fetches.append(branch.fetch(no_progress))
        if number == 1:
            os.utime(fetches[0].roots[0].path.parent, (0, 0))
    assert files(fetches[3]) == {"a": b"3"}
    assert [fetched.roots[0].path.exists() for fetched in fetches] == [False, True, True, True]


def test_a_checkout_that_was_emptied_is_fetched_again(repository: Repository, settings: Settings) -> None:
    commit = repository.commit({"a": b"1"})
    for url in (repository.url, f"{repository.url}@{commit}"):
        for _ in range(2):
            fetched = source(url, settings).fetch(no_progress)
            assert files(fetched) == {"a": b"1"}
            shutil.rmtree(fetched.roots[0].path)


def test_folders_count_before_they_are_made(repository: Repository, settings: Settings) -> None:
    repository.commit({"a/b/c/d/e": b"1"})
    with pytest.raises(LimitExceeded, match="more than 3 files and folders"):
        source(repository.url, settings, GitLimits(files=3)).fetch(no_progress)


def test_an_unchanged_branch_is_not_fetched_again(repository: Repository, settings: Settings) -> None:
    repository.commit({"a": b"1"})
    branch = source(repository.url, settings)
    [root] = branch.fetch(no_progress).roots
    inode = root.path.stat().st_ino
    (root.path / "mark").write_text("still the same folder")
    assert branch.fetch(no_progress).roots[0].path.stat().st_ino == inode
    assert (root.path / "mark").exists()


def test_without_a_server_the_commit_from_before_is_used_and_said_so(
    repository: Repository, settings: Settings
) -> None:
    commit = repository.commit({"a": b"1"})
    source(repository.url, settings).fetch(no_progress)
    repository.hide()
    fetched = source(repository.url, settings).fetch(no_progress)
    assert files(fetched) == {"a": b"1"}
    [problem] = fetched.problems
    assert problem.rule == "source-stale"
    assert f"using the cached commit {commit[:12]}" in problem.message


def test_a_subdirectory_is_all_that_arrives(repository: Repository, settings: Settings) -> None:
    repository.commit({"a b/skills/x/SKILL.md": SKILL, "big": bytes(5000)})
    limits = GitLimits(size=4000)
    fetched = source(f"{repository.url}#subdirectory=a%20b/skills", settings, limits).fetch(no_progress)
    assert files(fetched) == {"x/SKILL.md": SKILL}
    tree = fetched.roots[0].confine
    assert tree
    assert [path.name for path in tree.iterdir()] == ["a b"]


@pytest.mark.parametrize(("path", "error"), [("nowhere", InvalidArgument), ("file", InvalidArgument)])
def test_a_subdirectory_that_is_none_is_refused(
    path: str, error: type[Exception], repository: Repository, settings: Settings
) -> None:
    repository.commit({"file": b"x"})
    with pytest.raises(error, match=f"subdirectory: .*#subdirectory={path}"):
        source(f"{repository.url}#subdirectory={path}", settings).fetch(no_progress)


def test_a_subdirectory_that_is_a_link_out_is_refused(repository: Repository, settings: Settings) -> None:
    (repository.path / "link").symlink_to("/etc")
    repository.commit({})
    with pytest.raises(ForbiddenPath, match="leads out"):
        source(f"{repository.url}#subdirectory=link", settings).fetch(no_progress)


def test_links_arrive_as_links_and_the_root_confines_them(repository: Repository, settings: Settings) -> None:
    (repository.path / "out").symlink_to("/etc")
    (repository.path / "in").symlink_to("skills")
    repository.commit({"skills/a/SKILL.md": SKILL})
    [root] = source(repository.url, settings).fetch(no_progress).roots
    assert not root.can_follow(os.path.realpath(root.path / "out"))
    assert root.can_follow(os.path.realpath(root.path / "in"))


def test_neither_hooks_nor_filters_nor_submodules_run(
    repository: Repository, settings: Settings, tmp_path: Path
) -> None:
    settings.home.mkdir()
    mark = tmp_path / "ran"
    config = f'[filter "evil"]\n\tsmudge = touch {mark}\n[core]\n\thooksPath = {tmp_path / "hooks"}\n'
    (settings.home / ".gitconfig").write_text(config)
    (tmp_path / "hooks").mkdir()
    for name in ("post-checkout", "reference-transaction"):
        hook = tmp_path / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
        hook.chmod(0o755)
    other = Repository(tmp_path / "remote" / "other")
    other.commit({"SKILL.md": SKILL})
    repository.git("submodule", "--quiet", "add", f"file://{other.path}", "sub")
    repository.commit({"a": b"1", ".gitattributes": b"a filter=evil\n"})
    fetched = files(source(repository.url, settings).fetch(no_progress))
    assert fetched["a"] == b"1"
    assert "sub/SKILL.md" not in fetched
    assert not mark.exists()


def test_too_many_files_or_bytes_are_refused_before_they_are_written(
    repository: Repository, settings: Settings
) -> None:
    repository.commit({"a": bytes(3000), "b": bytes(3000)})
    with pytest.raises(LimitExceeded, match="more than 5,000 bytes"):
        source(repository.url, settings, GitLimits(size=5000)).fetch(no_progress)
    with pytest.raises(LimitExceeded, match="more than 1 files and folders"):
        source(repository.url, settings, GitLimits(files=1)).fetch(no_progress)
    assert not list(settings.skills_cache_dir.rglob("a"))


def test_a_tree_that_repeats_itself_does_not_explode(repository: Repository, settings: Settings) -> None:
    repository.commit({"leaf": b"x"})
    tree = repository.git("rev-parse", "HEAD^{tree}")
    for _ in range(7):
        listing = "".join(f"040000 tree {tree}\td{number}\n" for number in range(10))
        (repository.path / "listing").write_text(listing)
        # mktree reads standard input, which is closed: let the shell open the file.
        tree = repository.git("-c", "alias.make=!git mktree < listing", "make")
    commit = repository.git("commit-tree", tree, "-m", "bomb")
    repository.git("update-ref", "refs/heads/bomb", commit)
    with pytest.raises(LimitExceeded, match="too many files"):
        source(f"{repository.url}@bomb", settings).fetch(no_progress)


def test_an_unknown_ref_is_named(repository: Repository, settings: Settings) -> None:
    commit = repository.commit({"a": b"1"})
    for ref in ("nope", commit[:10]):
        with pytest.raises(SourceUnavailable, match=f"no branch or tag '{ref}'; for a commit use all 40"):
            source(f"{repository.url}@{ref}", settings).fetch(no_progress)


def test_a_missing_commit_and_an_empty_repository_are_named(repository: Repository, settings: Settings) -> None:
    with pytest.raises(SourceUnavailable, match="the repository has no commit yet"):
        source(repository.url, settings).fetch(no_progress)
    repository.commit({"a": b"1"})
    with pytest.raises(SourceUnavailable, match="git fetch failed: "):
        source(f"{repository.url}@{'0' * 40}", settings).fetch(no_progress)


def test_a_missing_repository_is_named_and_nothing_is_left(settings: Settings, tmp_path: Path) -> None:
    url = f"git+file://{tmp_path}/nowhere"
    with pytest.raises(SourceUnavailable, match=r"nowhere: git ls-remote failed: fatal: .*nowhere"):
        source(url, settings).fetch(no_progress)


def test_missing_git_says_what_to_install(tmp_path: Path) -> None:
    settings = Settings.from_env({"HOME": str(tmp_path), "PATH": str(tmp_path)})
    with pytest.raises(SourceUnavailable, match="git is not installed; on Debian: apt-get install git"):
        source("git+https://example.org/a.git", settings).fetch(no_progress)


def test_git_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "git").chmod(0o755)
    settings = Settings.from_env({"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.defpath}"})
    with pytest.raises(DeadlineExceeded, match=r"git ls-remote timed out after 0\.2 s"):
        source("git+https://example.org/a.git", settings, GitLimits(ask=0.2)).fetch(no_progress)


def test_git_sees_only_what_it_needs_and_no_password_among_its_arguments(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    (tmp_path / "git").write_text(f'#!/bin/sh\n{{ env; echo "ARGS $*"; }} > {seen}\nexit 1\n')
    (tmp_path / "git").chmod(0o755)
    environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.defpath}", "SECRET": "x", "https_proxy": "http://p"}
    git = source("git+https://me:hunter2@example.org/a.git", Settings.from_env(environment))
    with pytest.raises(SourceUnavailable, match="no error message") as caught:
        git.fetch(no_progress)
    text = seen.read_text()
    assert "SECRET" not in text
    assert "https_proxy=http://p" in text
    assert "hunter2" not in text
    assert base64.b64encode(b"me:hunter2").decode() in text.partition("ARGS")[0]
    assert "hunter2" not in str(caught.value) + git.label


@pytest.mark.parametrize(("user", "follows"), [("me:hunter2@", "false"), ("", "initial")])
def test_credentials_do_not_follow_a_redirect(user: str, follows: str, tmp_path: Path) -> None:
    complaint = "fatal: unable to access: The requested URL returned error: 302"
    (tmp_path / "git").write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/seen\necho "{complaint}" >&2\nexit 128\n')
    (tmp_path / "git").chmod(0o755)
    settings = Settings.from_env({"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.defpath}"})
    with pytest.raises(SourceUnavailable) as caught:
        source(f"git+https://{user}example.org/a.git", settings).fetch(no_progress)
    assert f"-c http.followRedirects={follows} " in (tmp_path / "seen").read_text()
    assert ("use the final address" in str(caught.value)) == bool(user)


def test_a_server_without_git_is_an_error_and_never_a_prompt(
    web: Web, settings: Settings, require_program: Callable[[str], str]
) -> None:
    require_program("git")
    port = web.url.rpartition(":")[2]
    with pytest.raises(SourceUnavailable, match="git ls-remote failed"):
        source(f"git+https://127.0.0.1:{port}/a.git", settings).fetch(no_progress)


COMMIT = "2edf1a1909ba7074521024fd490add9d48e844f4"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("git+https://h.org/a/b.git", GitAddress("https://h.org/a/b.git")),
        ("https://h.org/a/b.git", GitAddress("https://h.org/a/b.git")),
        ("git+https://h.org/a/b", GitAddress("https://h.org/a/b")),
        ("git+https://h.org/a/b.git@v1.2", GitAddress("https://h.org/a/b.git", "v1.2")),
        ("https://h.org/a/b.git@v1", GitAddress("https://h.org/a/b.git", "v1")),
        ("git+https://h.org/a/b.git@feature/x", GitAddress("https://h.org/a/b.git", "feature/x")),
        ("git+https://h.org/a/b@v1", GitAddress("https://h.org/a/b", "v1")),
        ("git+https://h.org/a/b@feature/x", GitAddress("https://h.org/a/b", "feature/x")),
        ("git+https://h.org/b.git@pkg@1.0", GitAddress("https://h.org/b.git", "pkg@1.0")),
        ("git+https://h.org/@scope/b", GitAddress("https://h.org/@scope/b")),
        ("git+https://h.org/b.git#subdirectory=x/y", GitAddress("https://h.org/b.git", "", "x/y")),
        ("git+https://h.org/b.git@v1#egg=b&subdirectory=/x/", GitAddress("https://h.org/b.git", "v1", "x")),
        ("git+ssh://git@h.org/a/b.git@main", GitAddress("ssh://git@h.org/a/b.git", "main")),
        ("git@h.org:a/b.git", GitAddress("ssh://git@h.org/a/b.git")),
        ("git+file:///srv/b@v1", GitAddress("file:///srv/b", "v1")),
        ("git+https://me:p%40ss@h.org/b.git", GitAddress("https://h.org/b.git", "", "", "me:p@ss")),
        ("git+https://token@h.org:8443/b.git", GitAddress("https://h.org:8443/b.git", "", "", "token:")),
    ],
)
def test_every_way_to_write_a_repository(text: str, address: GitAddress) -> None:
    assert is_git_address(text)
    assert parse_git(text) == address


@pytest.mark.parametrize("text", ["https://h.org/a.zip", "https://h.org/x.github.io", "skills", "./a@b", "a/b:c.git"])
def test_other_sources_are_not_taken_for_git(text: str) -> None:
    assert not is_git_address(text)


def test_only_a_full_commit_id_is_a_pin() -> None:
    assert parse_git(f"git+file:///r@{COMMIT.upper()}").commit == COMMIT
    assert parse_git(f"git+file:///r@{COMMIT[:12]}").commit is None


@pytest.mark.parametrize(
    "text",
    [
        "git+https://h.org/b.git@-x",
        "git+https://h.org/b.git@--upload-pack=touch%20x",
        "git+https://h.org/b.git@a..b",
        "git+https://h.org/b.git@a%20b",
        "git+https://h.org/b.git@a:b",
        "git+https://h.org/b.git@*",
        "git+https://h.org/b.git@a%00b",
        "git+ssh://-oProxyCommand=touch/x",
        "git+ssh://-o@h.org/x",
        "git+https://h.org/-x",
        "git+https:///b.git",
        "git+file://h.org/b.git",
        "git+http://h.org/b.git",
        "git+ext::sh -c touch",
        "git+ftp://h.org/b.git",
        "git+-x",
        "git+https://h.org/b.git#sha256=00",
    ],
)
def test_options_and_other_protocols_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="source: "):
        parse_git(text)


@pytest.mark.parametrize("path", ["../x", "a/../../x"])
def test_a_subdirectory_cannot_climb(path: str) -> None:
    with pytest.raises(ForbiddenPath, match="leaves its directory"):
        parse_git(f"git+https://h.org/b.git#subdirectory={path}")


def test_credentials_are_neither_in_the_label_nor_in_the_repr_nor_in_an_error() -> None:
    address = parse_git("git+https://me:hunter2@h.org/b.git@v1#subdirectory=x")
    assert address.label == "git+https://h.org/b.git@v1#subdirectory=x"
    assert "hunter2" not in repr(address)
    with pytest.raises(InvalidArgument) as caught:
        parse_git("git+https://me:hunter2@h.org/b.git@-x")
    assert "hunter2" not in str(caught.value)


def test_repositories_that_look_alike_are_told_apart() -> None:
    alike = [
        "git+https://h.org/r.git?a=1",
        "git+https://h.org/r.git?a=2",
        "git+https://alice:x@h.org/r.git?a=1",
        "git+ssh://alice@h.org/r.git",
        "git+ssh://bob@h.org/r.git",
        "git+https://h.org/r.git@x",
        "git+https://h.org/r.git#subdirectory=x",
    ]
    assert len({parse_git(text).identity for text in alike}) == len(alike)
    assert parse_git("git+https://me:one@h.org/r").identity == parse_git("git+https://me:two@h.org/r").identity
