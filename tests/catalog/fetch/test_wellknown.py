"""Published skills arrive in folders of their own, verified, and one bad skill does not hide the others."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from openskills.catalog.fetch.download import Downloads
from openskills.catalog.fetch.published import skill_digest
from openskills.catalog.fetch.wellknown import DEFAULT_LIMITS, IndexLimits, fetch_index
from openskills.catalog.progress import silent
from openskills.catalog.root import Fetched
from openskills.errors import LimitExceeded, SourceUnavailable, UnsupportedMedia
from tests.catalog.fetch.archive_bytes import SKILL, tar_of, zip_of
from tests.catalog.fetch.web_server import Page, Web, serving

HERE = "/.well-known/agent-skills/"


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def publish(web: Web, *skills: object) -> str:
    web.pages[f"{HERE}index.json"] = Page(json.dumps({"skills": skills}).encode())
    return f"{web.url}{HERE}index.json"


def skill_md(name: str, data: bytes = SKILL, **changed: str) -> dict[str, str]:
    return {"name": name, "type": "skill-md", "url": f"{name}/SKILL.md", "digest": sha256(data), **changed}


def archive(name: str, data: bytes, **changed: str) -> dict[str, str]:
    return {"name": name, "type": "archive", "url": f"{HERE}{name}.bin", "digest": sha256(data), **changed}


def listed(name: str, files: dict[str, bytes], **more: object) -> dict[str, object]:
    digests = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
    entries = [{"path": path, "digest": f"sha256:{digest}"} for path, digest in digests.items()]
    return {"name": name, "files": entries, "digest": f"sha256:{skill_digest(digests)}", **more}


def fetch(url: str, cache: Path, limits: IndexLimits = DEFAULT_LIMITS) -> Fetched:
    with Downloads(cache / "downloads") as downloads:
        return fetch_index(url, downloads, cache, silent, limits=limits)


def contents(fetched: Fetched) -> dict[str, dict[str, bytes]]:
    """The files of every skill, by name of its folder."""
    return {
        root.path.name: {
            str(path.relative_to(root.path)): path.read_bytes() for path in root.path.rglob("*") if path.is_file()
        }
        for root in fetched.roots
    }


FILES = {"SKILL.md": SKILL, "scripts/run me.py": b"print()\n", "references/指南.md": b"# guide\n"}


def test_a_skill_of_one_file_arrives(web: Web, tmp_path: Path) -> None:
    web.put({"hello/SKILL.md": SKILL}, HERE)
    fetched = fetch(publish(web, skill_md("hello")), tmp_path)
    assert contents(fetched) == {"hello": {"SKILL.md": SKILL}}
    assert fetched.problems == ()
    [root] = fetched.roots
    assert (root.label, root.confine, root.watch) == (f"{web.url}{HERE}index.json", root.path, False)


@pytest.mark.parametrize("data", [zip_of(FILES), tar_of(FILES)], ids=["zip", "tar.gz"])
def test_a_skill_in_an_archive_arrives(data: bytes, web: Web, tmp_path: Path) -> None:
    web.put({"hello.bin": data}, HERE)
    assert contents(fetch(publish(web, archive("hello", data)), tmp_path)) == {"hello": FILES}


def test_a_skill_listed_without_digests_arrives(web: Web, tmp_path: Path) -> None:
    web.put({"hello/SKILL.md": SKILL, "hello/scripts/run%20me.py": FILES["scripts/run me.py"]}, HERE)
    fetched = fetch(publish(web, {"name": "hello", "files": ["SKILL.md", "scripts/run me.py"]}), tmp_path)
    assert contents(fetched) == {"hello": {path: FILES[path] for path in ("SKILL.md", "scripts/run me.py")}}
    assert [problem.rule for problem in fetched.problems] == ["index-unverified"]


def test_a_skill_listed_with_digests_arrives(web: Web, tmp_path: Path) -> None:
    files = {"SKILL.md": b"# Hello\n", "scripts/run.sh": b"#!/bin/sh\n"}
    web.put(files, f"{HERE}hello/")
    skill = listed("hello", files)
    assert skill["digest"] == "sha256:34f7a8c484e9991f3e71a309f31332d6335efc01f544105c4185a7c4ab12eb1e"
    assert contents(fetch(publish(web, skill), tmp_path)) == {"hello": files}


def test_a_package_arrives_in_place_of_its_files(web: Web, tmp_path: Path) -> None:
    data = tar_of(FILES)
    web.put({"hello.tgz": data}, HERE)
    skill = listed("hello", FILES, package={"url": "hello.tgz", "digest": sha256(data)})
    assert contents(fetch(publish(web, skill), tmp_path)) == {"hello": FILES}
    assert web.paths == [f"{HERE}index.json", f"{HERE}hello.tgz"]


@pytest.mark.parametrize(
    "packed",
    [{**FILES, "SKILL.md": b"other"}, {**FILES, "extra": b"x"}, {"SKILL.md": SKILL}],
    ids=["changed", "more", "fewer"],
)
def test_a_package_that_is_not_what_the_index_lists_is_refused(
    packed: dict[str, bytes], web: Web, tmp_path: Path
) -> None:
    data = tar_of(packed)
    web.put({"hello.tgz": data}, HERE)
    skill = listed("hello", FILES, package={"url": "hello.tgz", "digest": sha256(data)})
    fetched = fetch(publish(web, skill), tmp_path)
    assert fetched.roots == ()
    assert "in the package is not what the index lists" in fetched.problems[0].message


CLIMBING = zip_of({"../SKILL.md": SKILL})
WRAPPED = zip_of({"wrapped/SKILL.md": SKILL})
BOMB = tar_of({"SKILL.md": SKILL, "big": os.urandom(5000)})


@pytest.mark.parametrize(
    ("skill", "reason"),
    [
        (skill_md("bad", digest=sha256(b"other")), "was expected"),
        (skill_md("bad", url="nowhere/SKILL.md"), "404"),
        (skill_md("bad", url="file:///etc/passwd"), "is not an http or https address"),
        (skill_md("bad", url="ftp://example.org/SKILL.md"), "is not an http or https address"),
        (archive("bad", CLIMBING), "climbs out"),
        (archive("bad", WRAPPED), "has no SKILL.md at its root"),
        (archive("bad", b"no archive"), "is not a zip or tar archive"),
        (archive("bad", BOMB), "more than 4,000 bytes"),
        (listed("bad", FILES) | {"digest": sha256(b"")}, "but the index says"),
        ({"name": "bad", "files": ["SKILL.md", "big"]}, "is larger than 4,000 bytes"),
        ({"name": "bad", "files": ["../x", "SKILL.md"]}, "climbs out"),
    ],
)
def test_a_bad_skill_is_named_with_its_reason_and_the_good_one_arrives(
    skill: dict[str, str], reason: str, web: Web, tmp_path: Path
) -> None:
    for body in (CLIMBING, WRAPPED, b"no archive", BOMB):
        if skill.get("digest") == sha256(body):
            web.pages[f"{HERE}bad.bin"] = Page(body)
    web.put({"hello/SKILL.md": SKILL, "bad/big": os.urandom(5000)}, HERE)
    web.put({"SKILL.md": SKILL, "scripts/run%20me.py": b"print()\n"}, f"{HERE}bad/")
    web.pages[f"{HERE}bad/references/%E6%8C%87%E5%8D%97.md"] = Page(b"# guide\n")
    url = publish(web, skill, skill_md("hello"))
    fetched = fetch(url, tmp_path, IndexLimits(skill=4000))
    assert list(contents(fetched)) == ["hello"]
    [problem] = [problem for problem in fetched.problems if problem.rule == "index-skill"]
    assert reason in problem.message
    assert "bad" in problem.message


def test_what_has_not_changed_is_not_downloaded_again(web: Web, tmp_path: Path) -> None:
    data = zip_of(FILES)
    web.put({"hello/SKILL.md": SKILL, "packed.bin": data}, HERE)
    web.put(FILES | {"scripts/run%20me.py": FILES["scripts/run me.py"]}, f"{HERE}files/")
    web.pages[f"{HERE}files/references/%E6%8C%87%E5%8D%97.md"] = Page(FILES["references/指南.md"])
    url = publish(web, skill_md("hello"), archive("packed", data), listed("files", FILES))
    first = fetch(url, tmp_path)
    assert sorted(contents(first)) == ["files", "hello", "packed"]
    web.requests.clear()
    assert fetch(url, tmp_path) == first
    assert web.paths == [f"{HERE}index.json"]


def test_a_skill_whose_folder_was_emptied_arrives_again(web: Web, tmp_path: Path) -> None:
    web.put({"hello/SKILL.md": SKILL, "plain/SKILL.md": SKILL}, HERE)
    url = publish(web, skill_md("hello"), {"name": "plain", "files": ["SKILL.md"]})
    for _ in range(2):
        fetched = fetch(url, tmp_path)
        assert contents(fetched) == {"hello": {"SKILL.md": SKILL}, "plain": {"SKILL.md": SKILL}}
        for root in fetched.roots:
            (root.path / "SKILL.md").unlink()


def test_a_new_version_gets_a_new_folder_and_the_old_one_stays_readable(web: Web, tmp_path: Path) -> None:
    web.put({"hello/SKILL.md": SKILL}, HERE)
    old = fetch(publish(web, skill_md("hello")), tmp_path)
    web.put({"hello/SKILL.md": SKILL + b"more"}, HERE)
    new = fetch(publish(web, skill_md("hello", SKILL + b"more")), tmp_path)
    assert contents(new) == {"hello": {"SKILL.md": SKILL + b"more"}}
    assert contents(old) == {"hello": {"SKILL.md": SKILL}}


def test_without_a_network_the_skills_from_before_are_used_with_one_warning(tmp_path: Path) -> None:
    with serving() as web:
        web.put({"hello/SKILL.md": SKILL, "old/SKILL.md": SKILL, "old/more.md": b"x"}, HERE)
        url = publish(web, skill_md("hello"), {"name": "old", "files": ["SKILL.md", "more.md"]})
        first = fetch(url, tmp_path)
    again = fetch(url, tmp_path)
    assert contents(again) == contents(first)
    assert [problem.rule for problem in again.problems] == ["source-stale", "index-unverified"]


def test_a_server_that_goes_away_in_the_middle_is_asked_once(web: Web, tmp_path: Path) -> None:
    web.put({"old/SKILL.md": SKILL, "old/more.md": b"x"}, HERE)
    url = publish(web, {"name": "old", "files": ["SKILL.md", "more.md"]})
    first = fetch(url, tmp_path)
    for name in ("SKILL.md", "more.md"):
        web.pages[f"{HERE}old/{name}"] = Page(b"", 503)
    web.requests.clear()
    again = fetch(url, tmp_path)
    assert contents(again) == contents(first)
    assert web.paths == [f"{HERE}index.json", f"{HERE}old/SKILL.md"]
    assert [problem.rule for problem in again.problems] == ["index-unverified", "source-stale"]


def test_when_time_is_over_the_skills_that_are_left_are_named(web: Web, tmp_path: Path) -> None:
    web.put({"hello/SKILL.md": SKILL}, HERE)
    fetched = fetch(publish(web, skill_md("hello")), tmp_path, IndexLimits(seconds=-1))
    assert fetched.roots == ()
    assert "skill 'hello': there was no time left" in fetched.problems[0].message


def test_addresses_are_relative_to_where_the_index_was_found_in_the_end(web: Web, tmp_path: Path) -> None:
    publish(web, skill_md("hello"))
    web.put({"hello/SKILL.md": SKILL}, HERE)
    web.pages["/skills"] = Page(status=302, headers={"Location": f"{HERE}index.json"})
    assert contents(fetch(f"{web.url}/skills", tmp_path)) == {"hello": {"SKILL.md": SKILL}}


def test_credentials_reach_the_skills_of_the_same_server_and_no_message(web: Web, tmp_path: Path) -> None:
    web.put({"hello/SKILL.md": SKILL}, HERE)
    url = publish(web, skill_md("hello"), skill_md("gone")).replace("http://", "http://me:hunter2@")
    fetched = fetch(url, tmp_path)
    assert all("Authorization" in headers for _, headers in web.requests)
    assert "hunter2" not in repr(fetched)


def test_a_missing_index_and_a_page_that_is_none_are_errors(web: Web, tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="404"):
        fetch(f"{web.url}{HERE}index.json", tmp_path)
    web.pages[f"{HERE}index.json"] = Page(b"<html>")
    with pytest.raises(UnsupportedMedia, match="it is not JSON"):
        fetch(f"{web.url}{HERE}index.json", tmp_path)


def test_an_index_that_is_too_large_is_refused(web: Web, tmp_path: Path) -> None:
    with pytest.raises(LimitExceeded, match="too much for an index"):
        fetch(publish(web, skill_md("hello")), tmp_path, IndexLimits(index=10))
