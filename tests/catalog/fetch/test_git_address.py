"""A git address is taken apart, and nothing in it can become an option or a message."""

import pytest

from openskills.catalog.fetch.git_address import GitAddress, is_git, parse_git
from openskills.errors import ForbiddenPath, InvalidArgument

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
    assert is_git(text)
    assert parse_git(text) == address


@pytest.mark.parametrize("text", ["https://h.org/a.zip", "https://h.org/x.github.io", "skills", "./a@b", "a/b:c.git"])
def test_other_sources_are_not_taken_for_git(text: str) -> None:
    assert not is_git(text)


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
    with pytest.raises(ForbiddenPath, match="climbs out"):
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
