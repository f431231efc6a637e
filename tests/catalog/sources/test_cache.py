"""What was downloaded is found again, complete.

Content is placed once, in a folder with a name that fits.

Addresses are compared by what they mean, and shown without secrets.
"""

import os
import shutil
from pathlib import Path

import pytest

from openskills.catalog.sources.archive import hash_content
from openskills.catalog.sources.cache import (
    CachedResponse,
    DownloadCache,
    cache_key,
    check_redirect,
    has_archive_suffix,
    join_url,
    normalize_url,
    place_archive,
    place_skill_file,
    redact,
    split_url,
    strip_archive_suffix,
)
from openskills.errors import ForbiddenPath, InvalidArgument, SourceUnavailable, UnsupportedMedia
from tests.catalog.sources.archive_bytes import SKILL, zip_of

URL = "https://example.org/a.zip"
KEPT = CachedResponse("a" * 64, 3, URL, '"1"', "yesterday", "application/zip")


def keep(shelf: DownloadCache, kept: CachedResponse, data: bytes) -> None:
    with shelf.temporary_file(URL) as path:
        path.write_bytes(data)
        shelf.store(URL, path, kept)


def test_an_answer_is_found_again_under_every_spelling_of_its_address(tmp_path: Path) -> None:
    shelf = DownloadCache(tmp_path)
    keep(shelf, KEPT, b"one")
    assert DownloadCache(tmp_path).find("https://me:pw@EXAMPLE.org:443/a.zip#x") == KEPT
    assert shelf.body_path(URL, KEPT).read_bytes() == b"one"
    assert shelf.find("https://example.org/b.zip") is None


def test_what_never_became_complete_is_gone(tmp_path: Path) -> None:
    shelf = DownloadCache(tmp_path)
    with shelf.temporary_file(URL) as path:
        path.write_bytes(b"ha")
    assert shelf.find(URL) is None
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} <= {".lock"}


def test_a_body_of_another_length_than_recorded_is_not_trusted(tmp_path: Path) -> None:
    shelf = DownloadCache(tmp_path)
    keep(shelf, KEPT, b"four")
    assert shelf.find(URL) is None


def test_what_was_superseded_stays_for_an_hour_after_its_last_use(tmp_path: Path) -> None:
    shelf = DownloadCache(tmp_path)
    generations = [CachedResponse(letter * 64, 1, URL) for letter in "abcd"]
    for kept in generations[:3]:
        keep(shelf, kept, b"x")
    for kept in generations[:3]:
        os.utime(shelf.body_path(URL, kept), (0, 0))
    # Another process is told about the third and is about to read it.
    assert DownloadCache(tmp_path).find(URL) == generations[2]
    keep(shelf, generations[3], b"x")
    assert [shelf.body_path(URL, kept).exists() for kept in generations] == [False, False, True, True]


def archive(tmp_path: Path, files: dict[str, bytes]) -> Path:
    path = tmp_path / "body"
    path.write_bytes(zip_of(files))
    return path


@pytest.mark.parametrize(
    ("files", "name", "place"),
    [
        ({"SKILL.md": SKILL}, "greeter-1.2.zip", "/hello"),
        ({"SKILL.md": SKILL.replace(b"hello", b"../x")}, "greeter.zip", "-greeter/greeter"),
        ({"SKILL.md": b"\xff no front matter"}, "greeter.tar.gz", "-greeter/greeter"),
        ({"SKILL.md": b""}, "we ird.zip", "-skills/skills"),
        ({"a/SKILL.md": SKILL, "b/SKILL.md": SKILL}, "office.tgz", "-office/office"),
    ],
)
def test_the_folder_is_named_after_the_skill_or_the_archive(
    files: dict[str, bytes], name: str, place: str, tmp_path: Path
) -> None:
    placed = place_archive(archive(tmp_path, files), "0" * 64, tmp_path / "cache", name=name)
    assert placed == tmp_path / "cache/archives" / f"{'0' * 64}{place}"
    assert {str(path.relative_to(placed)) for path in placed.rglob("*") if path.is_file()} == files.keys()


def test_the_same_content_is_unpacked_once(tmp_path: Path) -> None:
    path = archive(tmp_path, {"SKILL.md": SKILL})
    first = place_archive(path, "0" * 64, tmp_path / "cache", name="a.zip")
    path.unlink()
    assert place_archive(path, "0" * 64, tmp_path / "cache", name="other.zip") == first


def test_the_same_content_without_a_name_of_its_own_is_called_as_each_archive(tmp_path: Path) -> None:
    path = archive(tmp_path, {"SKILL.md": b"---\ndescription: x\n---\n"})
    for name in ("first", "second", "first"):
        assert place_archive(path, "0" * 64, tmp_path / "cache", name=f"{name}.zip").name == name
    file = tmp_path / "file"
    file.write_bytes(b"no front matter")
    for name in ("first", "second", "first"):
        assert place_skill_file(file, "0" * 64, tmp_path / "cache", name=name).name == name


def test_an_emptied_place_is_filled_again(tmp_path: Path) -> None:
    path = archive(tmp_path, {"SKILL.md": SKILL})
    for place in (place_archive, place_skill_file):
        placed = place(path, "0" * 64, tmp_path / "cache", name="a.zip")
        shutil.rmtree(placed)
        again = place(path, "0" * 64, tmp_path / "cache", name="a.zip")
        assert (again / "SKILL.md").is_file()


def test_an_archive_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match=r"a\.zip: contains no files"):
        place_archive(archive(tmp_path, {}), "0" * 64, tmp_path / "cache", name="a.zip")


def test_a_refused_archive_leaves_nothing_and_is_called_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "body"
    path.write_bytes(b"text")
    with pytest.raises(UnsupportedMedia, match=r"^a\.zip: not a zip or tar archive"):
        place_archive(path, "0" * 64, tmp_path / "cache", name="a.zip")
    assert list((tmp_path / "cache/archives").iterdir()) == []


def test_a_single_file_gets_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(SKILL)
    placed = place_skill_file(file, hash_content(file)[0], tmp_path / "cache", name="whatever")
    assert (placed.name, (placed / "SKILL.md").read_bytes()) == ("hello", SKILL)


def test_suffixes_are_known_in_any_case() -> None:
    assert has_archive_suffix("A.TAR.GZ")
    assert not has_archive_suffix("index.json")
    assert [strip_archive_suffix(name) for name in ("a.tar.gz", "a.b.ZIP", "plain")] == ["a", "a.b", "plain"]


@pytest.mark.parametrize(
    "text",
    [
        "https://me:s3cret@example.org/a.zip",
        "https://s3cret@example.org/a.zip",
        "https://example.org/a.zip?token=s3cret",
        "https://example.org/a.zip#s3cret",
        "cannot clone https://me:s3cret@example.org/x.git now",
        "https://a@b:s3cret@example.org/",
    ],
)
def test_what_is_shown_holds_no_secret(text: str) -> None:
    assert "s3cret" not in redact(text)
    assert "example.org" in redact(text)


@pytest.mark.parametrize(
    "address",
    [
        "http://alice:s3cr#t@example.org/x",
        "http://alice:s3/cret@example.org/x",
        "http://alice:s3?cret@example.org/x",
        "http://alice:123/s3cret@example.org/x",
        "http://s3/cret@example.org/x",
        "https://me@corp.org:s3/cret@example.org/x",
    ],
)
def test_a_mistyped_password_is_not_shown_in_part(address: str) -> None:
    assert redact(address).partition("://")[2] == "...@example.org/x"


def test_an_at_sign_in_the_path_of_a_plain_address_is_shown() -> None:
    for address in ("https://cdn.example.org/gh/me/repo@1.0/SKILL.md", "https://example.org/@scope/a.zip"):
        assert redact(address) == address


@pytest.mark.parametrize("address", ["http://a:s3cr#t@h.org/", "http://a:s3/cr@h.org/", "http://a:s3 cr@h.org/"])
def test_a_mistyped_password_is_answered_with_how_to_write_it(address: str) -> None:
    with pytest.raises(InvalidArgument, match=r"write / .* as %2F %3F %23 %40") as caught:
        split_url(address)
    assert "s3" not in str(caught.value)


@pytest.mark.parametrize("host", ["a" * 64, "a..b", ".", "a" * 64 + ".org"])
def test_a_host_that_cannot_be_is_refused(host: str) -> None:
    with pytest.raises(InvalidArgument, match="1 to 63 characters"):
        split_url(f"http://{host}/x.zip")
    assert split_url("http://example.org./x").hostname == "example.org."


def test_spellings_of_one_address_share_a_key() -> None:
    spellings = ["https://Example.org/a", "https://example.org:443/a#x", "https://u:p@example.org/a"]
    assert {normalize_url(spelling) for spelling in spellings} == {"https://example.org/a"}
    assert len(cache_key(normalize_url(spellings[0]))) == 64
    assert normalize_url("http://[::1]:8080") == "http://[::1]:8080/"


@pytest.mark.parametrize("url", ["https://[::1", "https://h:99999/", "https://h/a b", "https://h/\x00", "https://h/\n"])
def test_what_is_not_an_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument):
        split_url(url)


def test_joining_keeps_credentials_on_the_same_server_only() -> None:
    base = "https://u:p@example.org/.well-known/agent-skills/index.json"
    assert join_url(base, "a/SKILL.md", field="url") == "https://u:p@example.org/.well-known/agent-skills/a/SKILL.md"
    assert join_url(base, "https://example.org/x", field="url") == "https://u:p@example.org/x"
    assert join_url(base, "https://other.org/x", field="url") == "https://other.org/x"


@pytest.mark.parametrize("reference", ["file:///etc/passwd", "javascript:1", "data:,x", "ftp://h/x"])
def test_an_address_of_another_scheme_is_refused(reference: str) -> None:
    with pytest.raises(ForbiddenPath, match="is not an http or https URL"):
        join_url("https://example.org/", reference, field="url")


def test_a_step_down_from_https_is_refused() -> None:
    with pytest.raises(ForbiddenPath, match="from https to http"):
        check_redirect("https://example.org/", "http://example.org/a", field="url")
    check_redirect("http://example.org/", "https://example.org/a", field="url")
