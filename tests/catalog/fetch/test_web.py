"""What an address holds is found out from the answer."""

import hashlib
import json
from pathlib import Path

import pytest

from openskills.catalog.fetch.web import WebSource
from openskills.catalog.progress import silent
from openskills.catalog.root import Fetched
from openskills.errors import InvalidSkill, SourceUnavailable, UnsupportedMedia
from tests.catalog.fetch.archive_bytes import SKILL, tar_of, zip_of
from tests.catalog.fetch.web_server import Page, Web, serving

PLACES = ["/.well-known/agent-skills/", "/.well-known/skills/"]
INDEX = json.dumps({"skills": [{"name": "hello", "files": ["SKILL.md"]}]}).encode()


def fetch(url: str, tmp_path: Path, pin: str | None = None) -> Fetched:
    return WebSource(url, tmp_path / "cache", pin).fetch(silent)


def files(fetched: Fetched) -> dict[str, bytes]:
    [root] = fetched.roots
    base = root.path.parent
    return {str(path.relative_to(base)): path.read_bytes() for path in root.path.rglob("*") if path.is_file()}


def publish(web: Web, place: str) -> None:
    web.put({"index.json": INDEX, "hello/SKILL.md": SKILL}, place)


@pytest.mark.parametrize("name", ["/skills.zip", "/v1/download?id=7", "/skills.tar.gz"])
@pytest.mark.parametrize(
    "data", [zip_of({"a/SKILL.md": SKILL}), tar_of({"a/SKILL.md": SKILL}), tar_of({"a/SKILL.md": SKILL}, "w:")]
)
def test_an_archive_is_recognised_by_its_content(name: str, data: bytes, web: Web, tmp_path: Path) -> None:
    web.pages[name] = Page(data)
    fetched = fetch(web.url + name, tmp_path)
    assert [path.partition("/")[2] for path in files(fetched)] == ["a/SKILL.md"]
    [root] = fetched.roots
    assert (root.confine, root.watch) == (root.path, False)


def test_an_archive_that_is_one_skill_has_a_folder_of_that_name(web: Web, tmp_path: Path) -> None:
    web.pages["/greeter-1.0.zip"] = Page(zip_of({"SKILL.md": SKILL}))
    assert files(fetch(f"{web.url}/greeter-1.0.zip", tmp_path)) == {"hello/SKILL.md": SKILL}


def test_a_manifest_is_a_skill_of_its_own(web: Web, tmp_path: Path) -> None:
    for path in ("/skills/hello/SKILL.md", "/raw?file=1"):
        web.pages[path] = Page(SKILL)
        assert files(fetch(web.url + path, tmp_path)) == {"hello/SKILL.md": SKILL}
    web.pages["/skills/broken/SKILL.md"] = Page(b"no front matter")
    assert files(fetch(f"{web.url}/skills/broken/SKILL.md", tmp_path)) == {"broken/SKILL.md": b"no front matter"}


@pytest.mark.parametrize("path", ["/my/index.json", "/list"])
def test_an_index_may_lie_anywhere(path: str, web: Web, tmp_path: Path) -> None:
    web.pages[path] = Page(INDEX)
    web.pages[f"{path.rpartition('/')[0]}/hello/SKILL.md"] = Page(SKILL)
    assert files(fetch(web.url + path, tmp_path)) == {"hello/SKILL.md": SKILL}


@pytest.mark.parametrize("front", [None, Page(b"<!doctype html><p>Welcome"), Page(b"", 403), Page(b"plain text")])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("path", ["", "/", "/docs", "/docs/"])
def test_a_host_leads_to_its_index(path: str, place: str, front: Page | None, web: Web, tmp_path: Path) -> None:
    if front:
        web.pages[path or "/"] = front
    publish(web, path.rstrip("/") + place)
    assert files(fetch(web.url + path, tmp_path)) == {"hello/SKILL.md": SKILL}


def test_the_current_place_of_an_index_comes_before_the_old_one(web: Web, tmp_path: Path) -> None:
    for place in PLACES:
        publish(web, place)
    fetch(web.url, tmp_path)
    assert not [path for path in web.paths if path.startswith(PLACES[1])]


def test_a_page_that_answers_everything_does_not_pass_as_an_index(web: Web, tmp_path: Path) -> None:
    page = Page(b"<html>app</html>")
    web.pages.update({"/": page, f"{PLACES[0]}index.json": page})
    publish(web, PLACES[1])
    assert files(fetch(web.url, tmp_path)) == {"hello/SKILL.md": SKILL}


def test_a_host_with_nothing_says_what_was_tried_and_what_to_write(web: Web, tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable) as caught:
        fetch(f"{web.url}/org/repo", tmp_path)
    message = str(caught.value)
    assert message.startswith(f"{web.url}/org/repo: the server answered 404")
    assert "/.well-known/agent-skills/index.json or /.well-known/skills/index.json" in message
    assert "git+https://" in message


@pytest.mark.parametrize("name", ["/a.zip", "/a/SKILL.md"])
def test_a_missing_file_is_not_looked_for_elsewhere(name: str, web: Web, tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="404"):
        fetch(web.url + name, tmp_path)
    assert web.paths == [name]


def test_a_page_in_place_of_an_archive_is_refused(web: Web, tmp_path: Path) -> None:
    web.pages["/a.zip"] = Page(b"<html>please log in</html>")
    with pytest.raises(UnsupportedMedia, match=r"/a\.zip: is not a zip or tar archive"):
        fetch(f"{web.url}/a.zip", tmp_path)


def test_a_pin_is_checked(web: Web, tmp_path: Path) -> None:
    data = zip_of({"a/SKILL.md": SKILL})
    web.pages["/a.zip"] = Page(data)
    assert fetch(f"{web.url}/a.zip", tmp_path, hashlib.sha256(data).hexdigest()).roots
    with pytest.raises(InvalidSkill, match="was expected"):
        fetch(f"{web.url}/a.zip", tmp_path, "0" * 64)


def test_an_unchanged_archive_is_neither_sent_nor_unpacked_again(web: Web, tmp_path: Path) -> None:
    web.pages["/a.zip"] = Page(zip_of({"a/SKILL.md": SKILL}), headers={"ETag": '"1"'})
    first = fetch(f"{web.url}/a.zip", tmp_path)
    inode = first.roots[0].path.stat().st_ino
    web.pages["/a.zip"] = Page(b"never seen", headers={"ETag": '"1"'})
    assert fetch(f"{web.url}/a.zip", tmp_path) == first
    assert first.roots[0].path.stat().st_ino == inode


def test_without_a_network_what_was_here_before_is_used(tmp_path: Path) -> None:
    with serving() as web:
        web.pages["/a.zip"] = Page(zip_of({"a/SKILL.md": SKILL}))
        publish(web, PLACES[0])
        url = web.url
        archive, index = fetch(f"{url}/a.zip", tmp_path), fetch(url, tmp_path)
    again = fetch(f"{url}/a.zip", tmp_path)
    assert (again.roots, [problem.rule for problem in again.problems]) == (archive.roots, ["source-stale"])
    assert fetch(url, tmp_path).roots == index.roots


def test_the_label_has_no_secret() -> None:
    assert WebSource("https://me:pw@h.org/a.zip?key=pw", Path("cache")).label == "https://h.org/a.zip?..."
