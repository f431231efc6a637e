"""An index is read in all its shapes; what is wrong with one skill does not hide another."""

import json

import pytest

from openskills.catalog.fetch.published import Artifact, Index, Published, read_index, skill_digest
from openskills.errors import LimitExceeded, UnsupportedMedia
from openskills.skillmd.problem import Severity

HEX = "0123456789abcdef" * 4
GOOD = {"name": "good", "type": "skill-md", "description": "d", "url": "good/SKILL.md", "digest": f"sha256:{HEX}"}


def read(*skills: object, **fields: object) -> Index:
    return read_index(json.dumps({"skills": skills, **fields}).encode(), "index")


def test_the_digest_of_a_skill_is_that_of_the_draft() -> None:
    files = {
        "scripts/run.sh": "a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf",
        "SKILL.md": "90f8ec5669cd34183b9b0fdf8b94f5efb4c3672876330f4aa76088c2b4ad17be",
    }
    assert skill_digest(files) == "34f7a8c484e9991f3e71a309f31332d6335efc01f544105c4185a7c4ab12eb1e"


def test_version_0_1_lists_files_without_digests_and_that_is_noted() -> None:
    index = read({"name": "a", "description": "d", "files": ["SKILL.md", "scripts/run.py"]})
    assert index.skills == (Published("a", {"SKILL.md": None, "scripts/run.py": None}),)
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
    assert index == Index((Published("a", {"SKILL.md": HEX}, HEX, Artifact("a.tar.gz", HEX, is_archive=True)),), ())


def test_0_2_as_it_is_used_names_one_artifact_per_skill() -> None:
    schema = {"$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json"}
    index = read(GOOD, GOOD | {"name": "packed", "type": "archive", "url": "/p.zip"}, **schema)
    assert [skill.artifact for skill in index.skills] == [
        Artifact("good/SKILL.md", HEX, is_archive=False),
        Artifact("/p.zip", HEX, is_archive=True),
    ]


@pytest.mark.parametrize(
    ("skill", "reason"),
    [
        (3, 'has no "name"'),
        ({"files": ["SKILL.md"]}, 'has no "name"'),
        ({"name": "../up", "files": ["SKILL.md"]}, "'../up' is not the name of a skill"),
        ({"name": "a/b", "files": ["SKILL.md"]}, "is not the name of a skill"),
        ({"name": "a" * 100, "files": ["SKILL.md"]}, "is not the name of a skill"),
        ({"name": ".hidden", "files": ["SKILL.md"]}, "is not the name of a skill"),
        ({"name": "a", "files": ["../../etc/passwd", "SKILL.md"]}, "climbs out"),
        ({"name": "a", "files": ["SKILL.md", "/etc/passwd"]}, "is absolute"),
        ({"name": "a", "files": ["SKILL.md", "a\\..\\b"]}, "backslash"),
        ({"name": "a", "files": ["SKILL.md", "a\0b"]}, "NUL"),
        ({"name": "a", "files": ["SKILL.md", "a\udc80.md"]}, "half a character"),
        ({"name": "a", "files": ["SKILL.md", *("/".join([str(n)] * 32) for n in range(900))]}, "one too many"),
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
def test_what_is_no_index_is_refused(data: bytes) -> None:
    with pytest.raises(UnsupportedMedia, match="index: is not an index of skills"):
        read_index(data, "index")


@pytest.mark.parametrize("version", ["1.0.0", "latest", 2, "9" * 5000 + ".0.0", "0.1", None])
def test_an_index_of_the_future_is_refused(version: object) -> None:
    with pytest.raises(UnsupportedMedia, match=r"0\.1\.0 and 0\.2\.0 are understood"):
        read(GOOD, version=version)


def test_too_many_skills_are_refused() -> None:
    with pytest.raises(LimitExceeded, match="lists 1,001 skills"):
        read(*[GOOD] * 1001)
