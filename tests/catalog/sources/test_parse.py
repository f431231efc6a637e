"""What users write is understood, and what is not understood is said with what is."""

from pathlib import Path

import pytest

from openskills.catalog.root import Root, no_progress
from openskills.catalog.sources.git import GitSource
from openskills.catalog.sources.local import LocalSource, PackageSource, PackagesSource
from openskills.catalog.sources.parse import parse_source
from openskills.catalog.sources.web import WebSource
from openskills.errors import InvalidArgument, InvalidSkill
from openskills.settings import Settings
from tests.catalog.sources.archive_bytes import SKILL, zip_of
from tests.catalog.sources.web_server import Page, Web

PIN = "ab" * 32


@pytest.mark.parametrize(
    ("text", "kind", "label"),
    [
        ("skills", LocalSource, "skills"),
        ("./a/SKILL.md", LocalSource, "./a/SKILL.md"),
        ("~/skills", LocalSource, "~/skills"),
        ("a.zip", LocalSource, "a.zip"),
        (f"a.zip#sha256={PIN}", LocalSource, "a.zip"),
        ("C#/skills", LocalSource, "C#/skills"),
        ("odd:name", LocalSource, "odd:name"),
        ("file:///srv/my%20skills", LocalSource, "/srv/my skills"),
        ("https://h.org", WebSource, "https://h.org"),
        ("HTTPS://h.org/a", WebSource, "https://h.org/a"),
        ("http://me:pw@h.org/a.zip#sha256=" + PIN, WebSource, "http://h.org/a.zip"),
        ("https://h.org/.well-known/agent-skills/index.json", WebSource, None),
        ("https://h.org/r.git", GitSource, "git+https://h.org/r.git"),
        ("git+ssh://git@h.org/r", GitSource, "git+ssh://h.org/r"),
        ("git@h.org:a/b.git", GitSource, None),
        ("package:typer", PackageSource, "package:typer"),
        ("packages:", PackagesSource, "packages:"),
    ],
)
def test_every_form_is_understood(text: str, kind: type, label: str | None, settings: Settings) -> None:
    source = parse_source(text, settings)
    assert type(source) is kind
    assert label is None or source.label == label


@pytest.mark.parametrize("text", ["s3://bucket/x", "ftp://h.org/a.zip", "svn+ssh://h/x", "", "  ", "a\0b", "a\ud800"])
def test_what_is_not_understood_is_answered_with_what_is(text: str, settings: Settings) -> None:
    with pytest.raises(InvalidArgument, match=r"source: .*use a folder, .*git\+https://.*packages:"):
        parse_source(text, settings)


@pytest.mark.parametrize(
    "text",
    [
        "a.zip#sha256=12",
        f"https://h.org/a.zip#sha256={PIN}0",
        "https://",
        "https://[::1",
        "file://host/x",
        "file://",
        "https://h.org/a b",
        "package:",
    ],
)
def test_a_broken_source_is_refused(text: str, settings: Settings) -> None:
    with pytest.raises(InvalidArgument, match="source: "):
        parse_source(text, settings)


def test_an_error_never_shows_a_password(settings: Settings) -> None:
    for text in (
        "ftp://me:hunter2@h.org/",
        "https://me:hunter2@/",
        "git+https://me:hunter2@h.org/r.git@-x",
        "https://me:1#hunter2@h.org/",
        "https://me:hunter2 x@h.org/",
        "file://me:hunter2@h.org/x",
        "https://me:hunter2@h.org/\0",
    ):
        with pytest.raises(InvalidArgument) as caught:
            parse_source(text, settings)
        assert "hunter2" not in str(caught.value)


def test_a_path_object_is_a_path_whatever_it_looks_like(tmp_path: Path, settings: Settings) -> None:
    odd = tmp_path / "git+https:" / "x"
    odd.mkdir(parents=True)
    assert parse_source(odd, settings).fetch(no_progress).roots == (Root(odd, str(odd)),)


def test_the_home_of_the_settings_counts(settings: Settings) -> None:
    (settings.home / "skills").mkdir(parents=True)
    for text in ("~", "~/skills"):
        [root] = parse_source(text, settings).fetch(no_progress).roots
        assert root.path == settings.home / text[2:]


def test_a_relative_path_means_the_directory_of_now(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "skills").mkdir()
    monkeypatch.chdir(tmp_path)
    source = parse_source("skills", settings)
    monkeypatch.chdir("/")
    assert source.fetch(no_progress).roots == (Root(tmp_path / "skills", "skills"),)


def test_a_relative_path_in_a_directory_that_is_gone_is_refused(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InvalidArgument, match="'skills': the current directory was removed; use an absolute path"):
        parse_source("skills", settings)


def test_a_pin_on_a_file_is_checked(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "a.zip").write_bytes(zip_of({"a/SKILL.md": SKILL}))
    with pytest.raises(InvalidSkill, match=r"sha256 is .*, expected"):
        parse_source(f"file://{tmp_path}/a.zip#sha256={PIN}", settings).fetch(no_progress)


def test_everything_fetched_lies_in_the_cache_of_the_settings(tmp_path: Path, web: Web) -> None:
    web.pages["/a.zip"] = Page(zip_of({"a/SKILL.md": SKILL}))
    settings = Settings.from_env({"HOME": str(tmp_path), "SKILLS_CACHE_DIR": str(tmp_path / "mine")})
    [root] = parse_source(f"{web.url}/a.zip", settings).fetch(no_progress).roots
    assert root.path.is_relative_to(tmp_path / "mine")
    assert {path.name for path in tmp_path.iterdir()} == {"mine"}
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o700
