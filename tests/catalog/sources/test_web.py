"""What an address holds is found out from the answer.

An index is read in all its shapes; what is wrong with one skill does not hide another.

Published skills arrive in folders of their own, verified, and one bad skill does not hide the others.
"""

import hashlib
import json
import os
from pathlib import Path

import pytest

from openskills.catalog.root import FetchResult, no_progress
from openskills.catalog.sources.http import Downloader
from openskills.catalog.sources.web import (
    DEFAULT_LIMITS,
    IndexArtifact,
    IndexLimits,
    SkillIndex,
    SkillIndexEntry,
    WebSource,
    fetch_index,
    read_index,
    skill_digest,
)
from openskills.errors import InvalidSkill, LimitExceeded, SourceUnavailable, UnsupportedMedia
from openskills.skillmd.problem import Severity
from tests.catalog.sources.archive_bytes import SKILL, tar_of, zip_of
from tests.catalog.sources.web_server import Page, Web, serving

PLACES = ["/.well-known/agent-skills/", "/.well-known/skills/"]
INDEX = json.dumps({"skills": [{"name": "hello", "files": ["SKILL.md"]}]}).encode()


def fetch(url: str, tmp_path: Path, pin: str | None = None) -> FetchResult:
    return WebSource(url, tmp_path / "cache", pin).fetch(no_progress)


def files(fetched: FetchResult) -> dict[str, bytes]:
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
    assert message.startswith(f"{web.url}/org/repo: the server responded 404")
    assert "/.well-known/agent-skills/index.json or /.well-known/skills/index.json" in message
    assert "git+https://" in message


@pytest.mark.parametrize("name", ["/a.zip", "/a/SKILL.md"])
def test_a_missing_file_is_not_looked_for_elsewhere(name: str, web: Web, tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="404"):
        fetch(web.url + name, tmp_path)
    assert web.paths == [name]


def test_a_page_in_place_of_an_archive_is_refused(web: Web, tmp_path: Path) -> None:
    web.pages["/a.zip"] = Page(b"<html>please log in</html>")
    with pytest.raises(UnsupportedMedia, match=r"/a\.zip: not a zip or tar archive"):
        fetch(f"{web.url}/a.zip", tmp_path)


def test_a_pin_is_checked(web: Web, tmp_path: Path) -> None:
    data = zip_of({"a/SKILL.md": SKILL})
    web.pages["/a.zip"] = Page(data)
    assert fetch(f"{web.url}/a.zip", tmp_path, hashlib.sha256(data).hexdigest()).roots
    with pytest.raises(InvalidSkill, match="sha256 is "):
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


HEX = "0123456789abcdef" * 4
GOOD = {"name": "good", "type": "skill-md", "description": "d", "url": "good/SKILL.md", "digest": f"sha256:{HEX}"}


def read(*skills: object, **fields: object) -> SkillIndex:
    return read_index(json.dumps({"skills": skills, **fields}).encode(), "index")


def test_the_digest_of_a_skill_is_that_of_the_draft() -> None:
    files = {
        "scripts/run.sh": "a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf",
        "SKILL.md": "90f8ec5669cd34183b9b0fdf8b94f5efb4c3672876330f4aa76088c2b4ad17be",
    }
    assert skill_digest(files) == "34f7a8c484e9991f3e71a309f31332d6335efc01f544105c4185a7c4ab12eb1e"


def test_version_0_1_lists_files_without_digests_and_that_is_noted() -> None:
    index = read({"name": "a", "description": "d", "files": ["SKILL.md", "scripts/run.py"]})
    assert index.skills == (SkillIndexEntry("a", {"SKILL.md": None, "scripts/run.py": None}),)
    [problem] = index.problems
    assert (problem.rule, problem.severity) == ("index-unverified", Severity.NOTE)


def test_the_draft_of_0_2_lists_files_with_digests_and_maybe_a_package() -> None:
    skill = {
        "name": "a",
        "digest": f"sha256:{HEX}",
        "files": [{"path": "SKILL.md", "digest": f"sha256:{HEX.upper()}"}],
        "package": {"url": "a.tar.gz", "digest": f"sha256:{HEX}"},
    }
    index = read(skill, version="0.2.0")
    assert index == SkillIndex(
        (SkillIndexEntry("a", {"SKILL.md": HEX}, HEX, IndexArtifact("a.tar.gz", HEX, is_archive=True)),), ()
    )


def test_0_2_as_it_is_used_names_one_artifact_per_skill() -> None:
    schema = {"$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json"}
    index = read(GOOD, GOOD | {"name": "packed", "type": "archive", "url": "/p.zip"}, **schema)
    assert [skill.artifact for skill in index.skills] == [
        IndexArtifact("good/SKILL.md", HEX, is_archive=False),
        IndexArtifact("/p.zip", HEX, is_archive=True),
    ]


@pytest.mark.parametrize(
    ("skill", "reason"),
    [
        (3, 'has no "name"'),
        ({"files": ["SKILL.md"]}, 'has no "name"'),
        ({"name": "../up", "files": ["SKILL.md"]}, "invalid skill name '../up'"),
        ({"name": "a/b", "files": ["SKILL.md"]}, "invalid skill name"),
        ({"name": "a" * 100, "files": ["SKILL.md"]}, "invalid skill name"),
        ({"name": ".hidden", "files": ["SKILL.md"]}, "invalid skill name"),
        ({"name": "a", "files": ["../../etc/passwd", "SKILL.md"]}, "leaves its directory"),
        ({"name": "a", "files": ["SKILL.md", "/etc/passwd"]}, "is absolute"),
        ({"name": "a", "files": ["SKILL.md", "a\\..\\b"]}, "backslash"),
        ({"name": "a", "files": ["SKILL.md", "a\0b"]}, "NUL"),
        ({"name": "a", "files": ["SKILL.md", "a\udc80.md"]}, "a lone surrogate"),
        (
            {"name": "a", "files": ["SKILL.md", *("/".join([str(n)] * 32) for n in range(900))]},
            "more than 10,000 files and folders",
        ),
        ({"name": "a", "files": ["SKILL.md", "skill.md"]}, "differ only in case"),
        ({"name": "a", "files": ["SKILL.md", "SKILL.md"]}, "appears twice"),
        ({"name": "a", "files": ["SKILL.md", 7]}, "has no path"),
        ({"name": "a", "files": ["README.md"]}, "has no SKILL.md"),
        ({"name": "a", "files": []}, "has no SKILL.md"),
        ({"name": "a", "files": "SKILL.md"}, "must be a list"),
        ({"name": "a", "files": [f"{n}" for n in range(1001)]}, "at most 1,000 files"),
        ({"name": "a", "files": [{"path": "SKILL.md"}]}, "'SKILL.md': has no \"digest\""),
        ({"name": "a", "files": [{"path": "SKILL.md", "digest": f"md5:{HEX}"}]}, 'has no "digest"'),
        ({"name": "a", "files": [{"path": "SKILL.md", "digest": HEX}]}, 'has no "digest"'),
        ({"name": "a"}, 'has neither "files" nor a "type"'),
        (GOOD | {"name": "a", "type": "binary"}, 'has neither "files" nor a "type"'),
        (GOOD | {"name": "a", "url": ""}, 'has no "url"'),
        (GOOD | {"name": "a", "digest": "sha256:00"}, 'has no "digest"'),
        (GOOD, "'good' appears twice"),
    ],
)
def test_a_bad_skill_is_named_and_the_good_one_stays(skill: object, reason: str) -> None:
    index = read(GOOD, skill)
    assert [skill.name for skill in index.skills] == ["good"]
    [problem] = index.problems
    assert (problem.rule, problem.severity) == ("index-skill", Severity.ERROR)
    assert reason in problem.message
    assert problem.message.startswith("index: ")


@pytest.mark.parametrize(
    "data",
    [b"", b"<!doctype html>", b"[]", b"{}", b'{"skills": {}}', b"\xff\xfe", b"[" * 100_000, b'{"skills": 1}'],
)
def test_what_is_not_an_index_is_refused(data: bytes) -> None:
    with pytest.raises(UnsupportedMedia, match="index: not an index of skills"):
        read_index(data, "index")


@pytest.mark.parametrize("version", ["1.0.0", "latest", 2, "9" * 5000 + ".0.0", "0.1", None])
def test_an_index_of_the_future_is_refused(version: object) -> None:
    with pytest.raises(UnsupportedMedia, match=r"use 0\.1\.0 or 0\.2\.0"):
        read(GOOD, version=version)


def test_too_many_skills_are_refused() -> None:
    with pytest.raises(LimitExceeded, match="lists 1,001 skills"):
        read(*[GOOD] * 1001)


HERE = "/.well-known/agent-skills/"


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def publish_wellknown(web: Web, *skills: object) -> str:
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


def fetch_wellknown(url: str, cache: Path, limits: IndexLimits = DEFAULT_LIMITS) -> FetchResult:
    with Downloader(cache / "downloads") as downloads:
        return fetch_index(url, downloads, cache, no_progress, limits=limits)


def contents(fetched: FetchResult) -> dict[str, dict[str, bytes]]:
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
    fetched = fetch_wellknown(publish_wellknown(web, skill_md("hello")), tmp_path)
    assert contents(fetched) == {"hello": {"SKILL.md": SKILL}}
    assert fetched.problems == ()
    [root] = fetched.roots
    assert (root.label, root.confine, root.watch) == (f"{web.url}{HERE}index.json", root.path, False)


@pytest.mark.parametrize("data", [zip_of(FILES), tar_of(FILES)], ids=["zip", "tar.gz"])
def test_a_skill_in_an_archive_arrives(data: bytes, web: Web, tmp_path: Path) -> None:
    web.put({"hello.bin": data}, HERE)
    assert contents(fetch_wellknown(publish_wellknown(web, archive("hello", data)), tmp_path)) == {"hello": FILES}


def test_a_skill_listed_without_digests_arrives(web: Web, tmp_path: Path) -> None:
    web.put({"hello/SKILL.md": SKILL, "hello/scripts/run%20me.py": FILES["scripts/run me.py"]}, HERE)
    fetched = fetch_wellknown(
        publish_wellknown(web, {"name": "hello", "files": ["SKILL.md", "scripts/run me.py"]}), tmp_path
    )
    assert contents(fetched) == {"hello": {path: FILES[path] for path in ("SKILL.md", "scripts/run me.py")}}
    assert [problem.rule for problem in fetched.problems] == ["index-unverified"]


def test_a_skill_listed_with_digests_arrives(web: Web, tmp_path: Path) -> None:
    files = {"SKILL.md": b"# Hello\n", "scripts/run.sh": b"#!/bin/sh\n"}
    web.put(files, f"{HERE}hello/")
    skill = listed("hello", files)
    assert skill["digest"] == "sha256:34f7a8c484e9991f3e71a309f31332d6335efc01f544105c4185a7c4ab12eb1e"
    assert contents(fetch_wellknown(publish_wellknown(web, skill), tmp_path)) == {"hello": files}


def test_a_package_arrives_in_place_of_its_files(web: Web, tmp_path: Path) -> None:
    data = tar_of(FILES)
    web.put({"hello.tgz": data}, HERE)
    skill = listed("hello", FILES, package={"url": "hello.tgz", "digest": sha256(data)})
    assert contents(fetch_wellknown(publish_wellknown(web, skill), tmp_path)) == {"hello": FILES}
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
    fetched = fetch_wellknown(publish_wellknown(web, skill), tmp_path)
    assert fetched.roots == ()
    assert "in the package does not match the index" in fetched.problems[0].message


CLIMBING = zip_of({"../SKILL.md": SKILL})
WRAPPED = zip_of({"wrapped/SKILL.md": SKILL})
BOMB = tar_of({"SKILL.md": SKILL, "big": os.urandom(5000)})


@pytest.mark.parametrize(
    ("skill", "reason"),
    [
        (skill_md("bad", digest=sha256(b"other")), "sha256 is "),
        (skill_md("bad", url="nowhere/SKILL.md"), "404"),
        (skill_md("bad", url="file:///etc/passwd"), "is not an http or https URL"),
        (skill_md("bad", url="ftp://example.org/SKILL.md"), "is not an http or https URL"),
        (archive("bad", CLIMBING), "leaves its directory"),
        (archive("bad", WRAPPED), "no SKILL.md at its root"),
        (archive("bad", b"no archive"), "not a zip or tar archive"),
        (archive("bad", BOMB), "more than 4,000 bytes"),
        (listed("bad", FILES) | {"digest": sha256(b"")}, "but the index says"),
        ({"name": "bad", "files": ["SKILL.md", "big"]}, "larger than 4,000 bytes"),
        ({"name": "bad", "files": ["../x", "SKILL.md"]}, "leaves its directory"),
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
    url = publish_wellknown(web, skill, skill_md("hello"))
    fetched = fetch_wellknown(url, tmp_path, IndexLimits(skill=4000))
    assert list(contents(fetched)) == ["hello"]
    [problem] = [problem for problem in fetched.problems if problem.rule == "index-skill"]
    assert reason in problem.message
    assert "bad" in problem.message


def test_what_has_not_changed_is_not_downloaded_again(web: Web, tmp_path: Path) -> None:
    data = zip_of(FILES)
    web.put({"hello/SKILL.md": SKILL, "packed.bin": data}, HERE)
    web.put(FILES | {"scripts/run%20me.py": FILES["scripts/run me.py"]}, f"{HERE}files/")
    web.pages[f"{HERE}files/references/%E6%8C%87%E5%8D%97.md"] = Page(FILES["references/指南.md"])
    url = publish_wellknown(web, skill_md("hello"), archive("packed", data), listed("files", FILES))
    first = fetch_wellknown(url, tmp_path)
    assert sorted(contents(first)) == ["files", "hello", "packed"]
    web.requests.clear()
    assert fetch_wellknown(url, tmp_path) == first
    assert web.paths == [f"{HERE}index.json"]


def test_a_skill_whose_folder_was_emptied_arrives_again(web: Web, tmp_path: Path) -> None:
    web.put({"hello/SKILL.md": SKILL, "plain/SKILL.md": SKILL}, HERE)
    url = publish_wellknown(web, skill_md("hello"), {"name": "plain", "files": ["SKILL.md"]})
    for _ in range(2):
        fetched = fetch_wellknown(url, tmp_path)
        assert contents(fetched) == {"hello": {"SKILL.md": SKILL}, "plain": {"SKILL.md": SKILL}}
        for root in fetched.roots:
            (root.path / "SKILL.md").unlink()


def test_a_new_version_gets_a_new_folder_and_the_old_one_stays_readable(web: Web, tmp_path: Path) -> None:
    web.put({"hello/SKILL.md": SKILL}, HERE)
    old = fetch_wellknown(publish_wellknown(web, skill_md("hello")), tmp_path)
    web.put({"hello/SKILL.md": SKILL + b"more"}, HERE)
    new = fetch_wellknown(publish_wellknown(web, skill_md("hello", SKILL + b"more")), tmp_path)
    assert contents(new) == {"hello": {"SKILL.md": SKILL + b"more"}}
    assert contents(old) == {"hello": {"SKILL.md": SKILL}}


def test_without_a_network_the_skills_from_before_are_used_with_one_warning(tmp_path: Path) -> None:
    with serving() as web:
        web.put({"hello/SKILL.md": SKILL, "old/SKILL.md": SKILL, "old/more.md": b"x"}, HERE)
        url = publish_wellknown(web, skill_md("hello"), {"name": "old", "files": ["SKILL.md", "more.md"]})
        first = fetch_wellknown(url, tmp_path)
    again = fetch_wellknown(url, tmp_path)
    assert contents(again) == contents(first)
    assert [problem.rule for problem in again.problems] == ["source-stale", "index-unverified"]


def test_a_server_that_goes_away_in_the_middle_is_asked_once(web: Web, tmp_path: Path) -> None:
    web.put({"old/SKILL.md": SKILL, "old/more.md": b"x"}, HERE)
    url = publish_wellknown(web, {"name": "old", "files": ["SKILL.md", "more.md"]})
    first = fetch_wellknown(url, tmp_path)
    for name in ("SKILL.md", "more.md"):
        web.pages[f"{HERE}old/{name}"] = Page(b"", 503)
    web.requests.clear()
    again = fetch_wellknown(url, tmp_path)
    assert contents(again) == contents(first)
    assert web.paths == [f"{HERE}index.json", f"{HERE}old/SKILL.md"]
    assert [problem.rule for problem in again.problems] == ["index-unverified", "source-stale"]


def test_when_time_is_over_the_skills_that_are_left_are_named(web: Web, tmp_path: Path) -> None:
    web.put({"hello/SKILL.md": SKILL}, HERE)
    fetched = fetch_wellknown(publish_wellknown(web, skill_md("hello")), tmp_path, IndexLimits(seconds=-1))
    assert fetched.roots == ()
    assert "skill 'hello': timed out after" in fetched.problems[0].message


def test_addresses_are_relative_to_where_the_index_was_found_in_the_end(web: Web, tmp_path: Path) -> None:
    publish_wellknown(web, skill_md("hello"))
    web.put({"hello/SKILL.md": SKILL}, HERE)
    web.pages["/skills"] = Page(status=302, headers={"Location": f"{HERE}index.json"})
    assert contents(fetch_wellknown(f"{web.url}/skills", tmp_path)) == {"hello": {"SKILL.md": SKILL}}


def test_credentials_reach_the_skills_of_the_same_server_and_no_message(web: Web, tmp_path: Path) -> None:
    web.put({"hello/SKILL.md": SKILL}, HERE)
    url = publish_wellknown(web, skill_md("hello"), skill_md("gone")).replace("http://", "http://me:hunter2@")
    fetched = fetch_wellknown(url, tmp_path)
    assert all("Authorization" in headers for _, headers in web.requests)
    assert "hunter2" not in repr(fetched)


def test_a_missing_index_and_a_page_that_is_none_are_errors(web: Web, tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="404"):
        fetch_wellknown(f"{web.url}{HERE}index.json", tmp_path)
    web.pages[f"{HERE}index.json"] = Page(b"<html>")
    with pytest.raises(UnsupportedMedia, match="not valid JSON"):
        fetch_wellknown(f"{web.url}{HERE}index.json", tmp_path)


def test_an_index_that_is_too_large_is_refused(web: Web, tmp_path: Path) -> None:
    with pytest.raises(LimitExceeded, match="the limit for an index"):
        fetch_wellknown(publish_wellknown(web, skill_md("hello")), tmp_path, IndexLimits(index=10))
