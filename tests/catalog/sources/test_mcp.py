"""Skills of MCP servers: listed without being downloaded, verified when they are read, trusted by their digests."""

import json
import os
import shlex
import stat
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from openskills.catalog.catalog import Catalog
from openskills.catalog.sources.mcp import McpSource, digest_skills, find_difference
from openskills.catalog.sources.mcp_client import McpConnection, command_address, parse_mcp_address
from openskills.catalog.sources.parse import parse_source
from openskills.catalog.trust import TrustAnswer
from openskills.errors import (
    DeadlineExceeded,
    InvalidArgument,
    InvalidSkill,
    LimitExceeded,
    SkillError,
    SourceUnavailable,
    Unauthorized,
    UnsupportedMedia,
)
from openskills.runtime.options import SessionOptions
from openskills.runtime.runtime import SkillRuntime
from openskills.session.memory import MemorySessionStore
from openskills.settings import Settings
from openskills.skillmd.parse import parse
from tests.servers.mcp import (
    FASTMCP_SERVER,
    SDK_SKILLS_SERVER,
    McpScenario,
    digest,
    printing_port,
    python_server,
    serving_http,
    skill_text,
    wait_until_gone,
)
from tests.skill_writer import WriteSkill

SCRIPT = b"#!/usr/bin/env python3\nimport sys\nprint('said', *sys.argv[1:])\n"
PICTURE = b"\x89PNG\r\n\x1a\n\xff\x00"


@pytest.fixture
def scenario(tmp_path: Path) -> McpScenario:
    """A server with one skill that has a document, a script and a picture."""
    made = McpScenario(tmp_path)
    made.add("echo", {"references/guide.md": b"A guide.\n", "scripts/say.py": SCRIPT, "assets/p.png": PICTURE})
    return made


@pytest.fixture
def opened(settings: Settings) -> "Any":
    """Opens sources, and closes them at the end."""
    sources: list[McpSource] = []

    def open_source(text: str, *, trusted: bool = True) -> McpSource:
        sources.append(cast("McpSource", parse_source(text, settings, trusted=trusted)))
        return sources[-1]

    yield open_source
    for source in sources:
        source.close()


OpenSource = Callable[..., McpSource]


def cached_files(settings: Settings) -> list[str]:
    return sorted(path.name for path in settings.skills_cache_dir.glob("mcp/*/files/*"))


def test_skills_are_listed_without_being_downloaded(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    catalog = Catalog([opened(scenario.write())], settings)
    (skill,) = catalog.skills
    assert skill.name == "echo"
    assert skill.description.startswith("Does it. (from mcp:")
    assert [resource.path for resource in skill.resources()] == [
        "assets/p.png",
        "references/guide.md",
        "scripts/say.py",
    ]
    assert catalog.search("does")[0].skill is skill
    assert catalog.problems == ()
    assert scenario.calls == ["skills/list"]


def test_a_file_is_read_when_it_is_needed_and_then_comes_from_the_cache(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    text = scenario.write()
    (skill,) = Catalog([opened(text)], settings).skills
    assert skill.body().endswith("Do it.")
    assert skill.read("assets/p.png") == PICTURE
    assert skill.read("assets/p.png") == PICTURE
    expected = ["skills/list", "resources/read skill://echo/SKILL.md", "resources/read skill://echo/assets/p.png"]
    assert scenario.calls == expected
    (again,) = Catalog([opened(text)], settings).skills
    assert again.body() == skill.body()
    assert again.read("assets/p.png") == PICTURE
    assert scenario.calls == [*expected, "skills/list"]


def test_the_model_learns_which_server_a_skill_comes_from(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    source = opened(scenario.write())
    (skill,) = Catalog([source], settings).skills
    first = skill.body().splitlines()[0]
    assert first.startswith("> This skill comes from the server mcp:")
    assert len(first) < 130


def test_skills_are_ignored_until_they_are_trusted_and_again_after_a_change(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    text = scenario.write()
    source = opened(text, trusted=False)
    catalog = Catalog([source], settings)
    assert catalog.skills == ()
    assert [problem.rule for problem in catalog.problems] == ["mcp-untrusted"]
    assert f"openskills trust {shlex.quote(source.label)}" in catalog.problems[0].message
    source.remember(source.list_skills()[0], TrustAnswer.YES)
    assert catalog.refresh().added == ("echo",)
    scenario.content["pages"] = [[]]
    scenario.add("echo", {"scripts/say.py": b"evil"})
    scenario.write()
    source.close()
    assert catalog.refresh().removed == ("echo",)
    assert "not trusted yet, or changed since: echo" in catalog.problems[0].message
    assert not any(call.startswith("resources/read") for call in scenario.calls)


def test_trust_in_one_skill_says_nothing_about_another_or_another_server(
    scenario: McpScenario, settings: Settings, opened: OpenSource, tmp_path: Path
) -> None:
    scenario.add("other")
    source = opened(scenario.write(), trusted=False)
    skills, _ = source.list_skills()
    source.remember([skill for skill in skills if skill.name == "echo"], TrustAnswer.YES)
    assert [skill.name for skill in Catalog([source], settings).skills] == ["echo"]
    (tmp_path / "second").mkdir()
    second = McpScenario(tmp_path / "second")
    second.content.update(pages=scenario.content["pages"], files=scenario.content["files"])
    assert Catalog([opened(second.write(), trusted=False)], settings).skills == ()


def test_a_pin_trusts_exactly_one_content(scenario: McpScenario, settings: Settings, opened: OpenSource) -> None:
    text = scenario.write()
    pin = digest_skills(opened(text).list_skills()[0])
    assert len(Catalog([opened(f"{text}#sha256={pin}", trusted=False)], settings)) == 1
    scenario.add("another")
    scenario.write()
    refused = Catalog([opened(f"{text}#sha256={pin}", trusted=False)], settings)
    assert refused.skills == ()
    assert f"expected {pin}; it was not used" in refused.problems[0].message


def test_a_changed_description_in_the_list_ends_trust_and_pin(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    text = scenario.write()
    source = opened(text, trusted=False)
    pin = digest_skills(source.list_skills()[0])
    source.remember(source.list_skills()[0], TrustAnswer.YES)
    catalog = Catalog([source], settings)
    catalog.skills[0].download()
    scenario.content["pages"][0][0]["frontmatter"]["description"] = "Use it always."
    scenario.write()
    source.close()
    assert catalog.refresh().removed == ("echo",)
    assert Catalog([opened(f"{text}#sha256={pin}", trusted=False)], settings).skills == ()
    (skill,) = Catalog([opened(text)], settings).skills
    with pytest.raises(InvalidSkill, match="differs in 'description'"):
        skill.download()


def test_a_skill_that_is_not_listed_is_found_by_its_uri(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    entry = scenario.add("hidden", under="acme/")
    scenario.content["unlisted"] = [scenario.content["pages"][0].pop()]
    text = scenario.write()
    (skill,) = Catalog([opened(f"{text}#{entry['uri']}")], settings).skills
    assert (skill.name, skill.body().endswith("Do it.")) == ("hidden", True)
    assert scenario.calls == ["skills/get skill://acme/hidden/SKILL.md", "resources/read skill://acme/hidden/SKILL.md"]
    unknown = Catalog([opened(f"{text}#skill://nothing/SKILL.md")], settings)
    assert unknown.skills == ()
    assert "no skills/get skill://nothing/SKILL.md" in unknown.problems[0].message


def test_forgetting_a_server_removes_its_decisions_and_its_files(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    source = opened(scenario.write(), trusted=False)
    source.remember(source.list_skills()[0], TrustAnswer.YES)
    (skill,) = Catalog([source], settings).skills
    skill.body()
    assert cached_files(settings)
    assert len(source.forget()) == 1
    assert cached_files(settings) == []
    assert Catalog([source], settings).skills == ()


def test_cached_skills_work_when_the_server_does_not(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    text = scenario.write()
    (skill,) = Catalog([opened(text)], settings).skills
    body = skill.body()
    scenario.file.write_text("not json", "utf-8")
    offline = Catalog([opened(text)], settings)
    (skill,) = offline.skills
    assert [problem.rule for problem in offline.problems] == ["source-stale"]
    assert skill.body() == body
    with pytest.raises(SourceUnavailable, match=r"exit status 1: json\.decoder\.JSONDecodeError"):
        skill.read("references/guide.md")


def test_a_list_is_not_asked_for_again_while_it_is_current(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    scenario.content["ttl"] = 600_000
    catalog = Catalog([opened(scenario.write())], settings)
    assert not catalog.refresh()
    assert not catalog.refresh()
    assert scenario.calls == ["skills/list"]


def test_a_download_makes_the_whole_folder_and_repairs_it(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    (skill,) = Catalog([opened(scenario.write())], settings).skills
    assert not skill.path.exists()
    skill.download()
    found = {str(path.relative_to(skill.path)): path.read_bytes() for path in skill.path.rglob("*") if path.is_file()}
    assert found.keys() == {"SKILL.md", "assets/p.png", "references/guide.md", "scripts/say.py"}
    assert found["assets/p.png"] == PICTURE
    assert skill.path.joinpath("scripts/say.py").stat().st_mode & stat.S_IXUSR
    asked = list(scenario.calls)
    (skill.path / "scripts/say.py").write_bytes(b"changed")
    (skill.path / "extra").write_bytes(b"added")
    skill.download()
    assert (skill.path / "scripts/say.py").read_bytes() == SCRIPT
    assert not (skill.path / "extra").exists()
    assert scenario.calls == asked


def test_a_damaged_file_in_the_cache_is_downloaded_again(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    (skill,) = Catalog([opened(scenario.write())], settings).skills
    skill.read("assets/p.png")
    for path in settings.skills_cache_dir.glob("mcp/*/files/*"):
        path.write_bytes(b"damaged")
    assert skill.read("assets/p.png") == PICTURE
    assert scenario.calls.count("resources/read skill://echo/assets/p.png") == 2


def break_digest(scenario: McpScenario) -> str:
    scenario.content["files"]["skill://echo/references/guide.md"] = "A GUIDE.\n"
    return "digest of skill://echo/references/guide.md"


def break_size(scenario: McpScenario) -> str:
    scenario.content["files"]["skill://echo/references/guide.md"] = "A longer guide.\n"
    return "has 16 bytes, but 9 are listed"


def break_front_matter(scenario: McpScenario) -> str:
    scenario.content["pages"][0][0]["frontmatter"]["description"] = "Something harmless."
    return "front matter of skill://echo/SKILL.md differs in 'description'"


def add_front_matter(scenario: McpScenario) -> str:
    text = skill_text("echo", more="hooks: {}\n").encode()
    entry = scenario.content["pages"][0][0]
    entry["resources"][0] |= {"digest": digest(text), "size": len(text)}
    scenario.content["files"]["skill://echo/SKILL.md"] = text.decode()
    return "differs in 'hooks'"


@pytest.mark.parametrize("spoil", [break_digest, break_size, break_front_matter, add_front_matter])
def test_a_skill_that_is_not_what_is_listed_is_rejected_and_the_server_is_named(
    spoil: Callable[[McpScenario], str], scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    message = spoil(scenario)
    source = opened(scenario.write())
    catalog = Catalog([source], settings)
    (skill,) = catalog.skills
    with pytest.raises(InvalidSkill) as caught:
        skill.download()
    assert message in caught.value.message
    assert caught.value.message.startswith(source.label)
    with pytest.raises(InvalidSkill):
        skill.read("assets/p.png")
    with pytest.raises(InvalidSkill):
        skill.body()
    assert not skill.path.exists()
    assert catalog.refresh().removed == ("echo",)
    assert catalog.problems[0].rule == "mcp-mismatch"
    assert source.label in catalog.problems[0].message


def test_after_a_wrong_skill_file_nothing_else_is_read_and_nothing_is_cached(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    scenario.content["files"]["skill://echo/SKILL.md"] = "changed"
    (skill,) = Catalog([opened(scenario.write())], settings).skills
    with pytest.raises(InvalidSkill):
        skill.read("references/guide.md")
    assert scenario.calls == ["skills/list", "resources/read skill://echo/SKILL.md"]
    assert cached_files(settings) == []


def test_a_file_that_is_not_listed_is_never_asked_for(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    scenario.content["files"]["skill://echo/secret.md"] = "secret"
    (skill,) = Catalog([opened(scenario.write())], settings).skills
    for path in ("secret.md", "../echo/SKILL.md", "/etc/passwd", ""):
        with pytest.raises(InvalidArgument, match="is not a file of the skill"):
            skill.read(path)
    assert scenario.calls == ["skills/list"]


def test_a_resource_with_two_contents_is_refused(scenario: McpScenario, settings: Settings, opened: OpenSource) -> None:
    scenario.content["copies"] = 2
    (skill,) = Catalog([opened(scenario.write())], settings).skills
    with pytest.raises(InvalidSkill, match="has 2 contents"):
        skill.body()


def resource(uri: str, data: bytes = b"x", **more: Any) -> dict[str, Any]:
    return {"uri": uri, "digest": digest(data), "size": len(data), **more}


BASE = "skill://bad/"
BAD_FILES = {
    "parent": ([resource("skill://bad/../../etc/passwd")], "passwd"),
    "encoded parent": ([resource("skill://bad/%2e%2e/other/SKILL.md")], "other/SKILL.md"),
    "another skill": ([resource("skill://echo/SKILL.md")], "not inside the skill"),
    "absolute": ([resource("skill://bad//etc/passwd")], "/etc/passwd"),
    "file scheme": ([resource("file:///etc/passwd")], "not inside the skill"),
    "NUL": ([resource("skill://bad/a%00b")], "control characters"),
    "newline": ([resource("skill://bad/a\nb")], "not inside the skill"),
    "backslash": ([resource("skill://bad/a%5Cb")], "backslash"),
    "a directory": ([resource("skill://bad/")], "bad"),
    "itself twice": ([resource("skill://bad/SKILL.md")], "appears twice"),
    "case": ([resource("skill://bad/Read.md"), resource("skill://bad/read.md")], "differ only in case"),
    "file and folder": ([resource("skill://bad/a"), resource("skill://bad/a/b")], "both a file and a folder"),
    "no digest": ([{"uri": "skill://bad/a", "size": 1}], "no digest"),
    "upper case digest": ([resource("skill://bad/a", digest=digest(b"x").upper())], "no digest"),
    "other digest": ([resource("skill://bad/a", digest="md5:abc")], "no digest"),
    "no size": ([{"uri": "skill://bad/a", "digest": digest(b"x")}], "no size"),
    "negative size": ([resource("skill://bad/a", size=-1)], "no size"),
    "true size": ([resource("skill://bad/a", size=True)], "no size"),
    "a number of 5,000 digits": ([resource("skill://bad/a", size=10**4000)], "no size"),
    "a long name": ([resource("skill://bad/" + "x" * 3000)], "not inside the skill"),
    "not UTF-8": ([resource("skill://bad/%ff")], "an invalid entry"),
    "huge file": ([resource("skill://bad/a", size=1 << 40)], "the limit is 16,777,216"),
    "too many": ([resource(f"skill://bad/{n}") for n in range(100_000)], "lists 100,001 files; the limit is 512"),
    "not an object": (["skill://bad/a"], "not inside the skill"),
}


@pytest.mark.parametrize(("more", "message"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_bad_list_of_files_costs_only_its_skill(
    more: list[Any], message: str, scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    scenario.add("bad")["resources"] += more
    source = opened(scenario.write())
    catalog = Catalog([source], settings)
    assert [skill.name for skill in catalog.skills] == ["echo"]
    (problem,) = catalog.problems
    assert problem.rule == "mcp-skill"
    assert message in problem.message
    assert problem.message.startswith(f"{source.label}: ")
    assert len(problem.message) < 1000


BAD_ENTRIES: dict[str, tuple[Any, str]] = {
    "not an object": ("echo", "without a uri"),
    "no uri": ({"frontmatter": {"name": "bad"}, "resources": []}, "without a uri"),
    "only dots": ({"uri": "skill://../../SKILL.md", "frontmatter": {"name": ".."}, "resources": []}, "is invalid"),
    "a directory that lists itself": ({"uri": "skill://bad", "frontmatter": {"name": "bad"}}, "must end with"),
    "another name": ({"uri": "skill://good/SKILL.md", "frontmatter": {"name": "bad"}, "resources": []}, "'bad' is inv"),
    "no front matter": ({"uri": "skill://bad/SKILL.md", "resources": []}, "has no frontmatter"),
    "dynamic": ({"uri": "skill://bad/SKILL.md", "frontmatter": {"name": "bad"}, "resources": "dynamic"}, "dynamic"),
    "no resources": ({"uri": "skill://bad/SKILL.md", "frontmatter": {"name": "bad"}}, "no list of resources"),
    "no SKILL.md": ({"uri": "skill://bad/SKILL.md", "frontmatter": {"name": "bad"}, "resources": []}, "do not contain"),
    "a long front matter": (
        {
            "uri": "skill://bad/SKILL.md",
            "frontmatter": {"name": "bad", "description": "x" * 300_000},
            "resources": [resource("skill://bad/SKILL.md")],
        },
        "front matter has more than",
    ),
}


@pytest.mark.parametrize(("entry", "message"), BAD_ENTRIES.values(), ids=BAD_ENTRIES.keys())
def test_a_bad_entry_costs_no_other_skill(
    entry: Any, message: str, scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    scenario.content["pages"][0].append(entry)
    catalog = Catalog([opened(scenario.write())], settings)
    assert [skill.name for skill in catalog.skills] == ["echo"]
    assert message in catalog.problems[0].message


def test_front_matter_that_breaks_the_specification_keeps_the_skill_out(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    entry = scenario.add("bad")
    del entry["frontmatter"]["description"]
    source = opened(scenario.write())
    catalog = Catalog([source], settings)
    assert [skill.name for skill in catalog.skills] == ["echo"]
    assert catalog.problems[0].path == f"{source.label} skill://bad/SKILL.md"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cursors": "endless"}, "more than 1,000 pages"),
        ({"cursors": "same"}, "does not end"),
        ({"on": {"skills/list": "huge"}}, "a message of more than 33,554,432 bytes"),
        ({"on": {"skills/list": "stray"}}, "lines to stdout that are not messages"),
        ({"on": {"skills/list": "die"}}, "exit status 3: the disk is on fire"),
        ({"on": {"skills/list": "truncate"}}, "the server has ended with exit status 0"),
        ({"on": {"server/discover": "die"}}, "exit status 3: the disk is on fire"),
        ({"pages": "none"}, "has no list of skills"),
        ({"plain": True}, "the server offers no skills"),
    ],
)
def test_a_server_that_misbehaves_is_a_problem_that_names_it_and_ends(
    options: dict[str, Any], message: str, tmp_path: Path, settings: Settings, opened: OpenSource
) -> None:
    pids = tmp_path / "pids"
    scenario = McpScenario(tmp_path, child=str(pids), **options)
    source = opened(scenario.write())
    catalog = Catalog([source], settings)
    assert catalog.skills == ()
    (problem,) = catalog.problems
    assert problem.rule == "source-unavailable"
    assert problem.message.startswith(source.label)
    assert message in problem.message
    source.close()
    wait_until_gone(*map(int, pids.read_text("utf-8").split()))


def test_100_000_skills_are_too_many(scenario: McpScenario, opened: OpenSource) -> None:
    entry = scenario.content["pages"][0][0]
    scenario.content["pages"] = [[{**entry, "uri": f"skill://{n}/echo/SKILL.md"} for n in range(1_000)]] * 100
    with pytest.raises(LimitExceeded, match="lists more than 10,000 skills"):
        opened(scenario.write()).list_skills()


def test_a_flood_of_notifications_does_not_matter(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    scenario.content["on"] = {"skills/list": "flood", "resources/read": "flood"}
    (skill,) = Catalog([opened(scenario.write())], settings).skills
    assert skill.body().endswith("Do it.")


def test_a_server_that_dies_while_a_skill_is_downloaded_leaves_no_folder(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    text = scenario.write()
    (skill,) = Catalog([opened(text)], settings).skills
    skill.body()
    scenario.content["on"] = {"resources/read": "die"}
    scenario.write()
    (skill,) = Catalog([opened(text)], settings).skills
    with pytest.raises(SourceUnavailable, match="exit status 3"):
        skill.download()
    assert not skill.path.exists()
    assert len(cached_files(settings)) == 1
    del scenario.content["on"]
    scenario.write()
    skill.download()
    assert (skill.path / "scripts/say.py").read_bytes() == SCRIPT


def connection_to(scenario: McpScenario, settings: Settings) -> McpConnection:
    return McpConnection(parse_mcp_address(scenario.write(), settings))


async def list_tools(client: Any) -> Any:
    return await client.list_tools()


@pytest.mark.parametrize("behaviour", ["silent", "stuck"])
def test_a_server_that_never_answers_is_given_up_and_ended(behaviour: str, tmp_path: Path, settings: Settings) -> None:
    pids = tmp_path / "pids"
    scenario = McpScenario(tmp_path, child=str(pids), on={"tools/list": behaviour})
    with connection_to(scenario, settings) as connection, pytest.raises(DeadlineExceeded, match="no answer within"):
        connection.call(list_tools, 0.2)
    wait_until_gone(*map(int, pids.read_text("utf-8").split()))


def test_a_server_that_does_not_even_greet_is_given_up_and_ended(tmp_path: Path, settings: Settings) -> None:
    pids = tmp_path / "pids"
    scenario = McpScenario(tmp_path, child=str(pids), on={"server/discover": "stuck"})
    connection = connection_to(scenario, settings)
    with pytest.raises(DeadlineExceeded, match="did not connect within 2 s"):
        connection.open(timeout=2.0)
    wait_until_gone(*map(int, pids.read_text("utf-8").split()))


def test_closing_a_connection_ends_the_server_with_its_descendants(tmp_path: Path, settings: Settings) -> None:
    pids = tmp_path / "pids"
    connection = connection_to(McpScenario(tmp_path, child=str(pids)), settings)
    connection.open()
    connection.close()
    wait_until_gone(*map(int, pids.read_text("utf-8").split()))
    connection.close()
    with pytest.raises(SourceUnavailable, match="has ended"):
        connection.call(list_tools, 1.0)


def test_a_command_that_does_not_exist_is_a_clear_error(settings: Settings) -> None:
    with pytest.raises(SkillError, match="the program 'no-such-server' does not exist"):
        McpConnection(command_address(["no-such-server"], settings)).open()


def test_a_server_of_the_older_protocol_works_the_same(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    scenario.content["era"] = "legacy"
    (skill,) = Catalog([opened(scenario.write())], settings).skills
    assert skill.read("assets/p.png") == PICTURE


def test_skills_of_equal_name_are_told_apart_by_their_paths(
    tmp_path: Path, settings: Settings, opened: OpenSource
) -> None:
    scenario = McpScenario(tmp_path)
    scenario.add("refunds", under="acme/billing/")
    scenario.add("refunds", under="acme/support/")
    scenario.add("other")
    scenario.add("refunds", under="acme-billing/")
    names = ["acme-billing-refunds", "acme-support-refunds", "other", "refunds-"]
    catalog = Catalog([opened(scenario.write())], settings)
    assert [skill.name.rstrip("0123456789abcdef") for skill in catalog.skills] == names
    assert {problem.rule for problem in catalog.problems} == {"mcp-name"}
    for skill in catalog.skills:
        skill.download()
        assert skill.body().endswith("Do it.")


def test_a_local_skill_of_the_same_name_is_not_replaced_silently(
    scenario: McpScenario, settings: Settings, opened: OpenSource, write_skill: WriteSkill
) -> None:
    local = parse_source(write_skill("echo").parent, settings)
    catalog = Catalog([local, opened(scenario.write())], settings)
    assert catalog.skills[0].remote is not None
    assert [problem.rule for problem in catalog.problems] == ["name-shadowed"]


def test_a_server_cannot_approve_commands_of_its_own_skills(
    tmp_path: Path, settings: Settings, opened: OpenSource
) -> None:
    scenario = McpScenario(tmp_path)
    scenario.add("echo", front={"allowed-tools": "Bash"})
    (skill,) = Catalog([opened(scenario.write())], settings).skills
    assert skill.manifest.allowed_tools == ()
    skill.download()


def test_the_key_of_the_host_is_sent_and_never_shown(scenario: McpScenario, tmp_path: Path) -> None:
    scenario.content["key"] = "s3cret-key"
    with serving_http(scenario) as url:
        host = url.split("/")[2]
        without = Settings.from_env({"HOME": str(tmp_path / "home")})
        source = cast("McpSource", parse_source(f"mcp+{url}", without, trusted=True))
        with pytest.raises(Unauthorized, match="responded 401; set the key of this host in OPENSKILL_MCP_KEYS"):
            source.list_skills()
        keys = f"other.example=wrong, {host}=s3cret-key"
        known = Settings.from_env({"HOME": str(tmp_path / "home"), "OPENSKILL_MCP_KEYS": keys})
        source = cast("McpSource", parse_source(f"mcp+{url}", known, trusted=True))
        (skill,) = Catalog([source], known).skills
        assert skill.read("assets/p.png") == PICTURE
        assert "s3cret" not in f"{source.label} {parse_mcp_address(f'mcp+{url}', known)!r} {skill!r}"
        source.close()
    with pytest.raises(InvalidArgument, match=r"OPENSKILL_MCP_KEYS.*HOST=KEY"):
        Settings.from_env({"HOME": "/", "OPENSKILL_MCP_KEYS": "justakey"})


def test_a_huge_answer_over_http_is_refused(scenario: McpScenario, settings: Settings) -> None:
    scenario.content["on"] = {"skills/list": "huge"}
    with serving_http(scenario) as url:
        source = cast("McpSource", parse_source(f"mcp+{url}", settings, trusted=True))
        with pytest.raises(LimitExceeded, match="a message of more than 33,554,432 bytes"):
            source.list_skills()
        source.close()


def test_a_compressed_answer_that_nobody_asked_for_is_refused(scenario: McpScenario, settings: Settings) -> None:
    scenario.content["on"] = {"skills/list": "gzip"}
    with serving_http(scenario) as url:
        source = cast("McpSource", parse_source(f"mcp+{url}", settings, trusted=True))
        with pytest.raises(UnsupportedMedia, match="unexpected Content-Encoding 'gzip'"):
            source.list_skills()
        source.close()


def test_a_forked_process_ends_although_a_connection_is_open(tmp_path: Path, settings: Settings) -> None:
    connection = connection_to(McpScenario(tmp_path, tools=[]), settings)
    with connection:
        child = os.fork()
        if not child:
            connection.close()
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert connection.call(list_tools, 10.0).tools == []


def test_an_http_server_that_is_gone_is_unavailable(settings: Settings) -> None:
    source = cast("McpSource", parse_source("mcp+http://127.0.0.1:1/mcp", settings))
    with pytest.raises(SourceUnavailable, match=r"^mcp\+http://127.0.0.1:1/mcp: "):
        source.list_skills()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mcp:", "names no command"),
        ("mcp:'unfinished", "No closing quotation"),
        ("mcp+http://example.org/mcp", "http is for this machine only"),
        ("mcp+https://user:pass@example.org/mcp", "put the key into OPENSKILL_MCP_KEYS"),
        ("mcp+https:///mcp", r"write mcp\+https://HOST/PATH"),
        ("mcp+ftp://example.org", r"unknown scheme mcp\+ftp://"),
        ("mcp:server#sha256=12", "invalid pin"),
    ],
)
def test_an_invalid_address_is_refused_with_what_to_write(text: str, message: str, settings: Settings) -> None:
    with pytest.raises(InvalidArgument, match=message) as caught:
        parse_source(text, settings)
    assert "pass@" not in caught.value.message


def test_secrets_in_a_command_are_not_shown(settings: Settings) -> None:
    command = "mcp:env TOKEN=abc server --api-key def --token=ghi --port=80 https://u:p@host/x"
    address = parse_mcp_address(command, settings)
    assert address.label == "mcp:env TOKEN=... server --api-key ... --token=... --port=80 https://host/x"
    assert address.command[1] == "TOKEN=abc"
    assert "abc" not in parse_source(command, settings).label


def test_a_command_gets_only_harmless_variables_and_those_that_are_named(tmp_path: Path) -> None:
    settings = Settings.from_env(
        {"HOME": str(tmp_path), "PATH": os.defpath, "SECRET": "x", "WANTED": "y", "OPENSKILL_MCP_ENV": "WANTED"}
    )
    environment = parse_mcp_address("mcp:server", settings).environment
    assert environment == {"HOME": str(tmp_path), "PATH": os.defpath, "WANTED": "y"}


@pytest.mark.parametrize(
    ("written", "listed", "different"),
    [
        ("a: 1.0\nb: yes\nc: 012\nd: 0x10\ne:\nf: 2024-01-01", None, None),
        ("a: [1, x]\nb: {c: 'no'}", {"a": [1, "x"], "b": {"c": "no"}}, None),
        ("a: 1", {"a": 2}, "'a'"),
        ("a: 1", {"a": True}, "'a'"),
        ("a: text", {"a": None}, "'a'"),
        ("a: [1]", {"a": [1, 2]}, "'a'"),
        ("a: [1]", {"a": "1"}, "'a'"),
        ("a: {b: 1}", {"a": {"b": 1, "c": 2}}, "'a'"),
        ("a: 1\nb: 2", {"a": 1}, "'b'"),
        ("a: 1", {"a": 1, "b": 2}, "'b'"),
        ("a: nan", {"a": float("nan")}, "'a'"),
    ],
)
def test_front_matter_is_compared_field_by_field(written: str, listed: Any, different: str | None) -> None:
    found = parse(f"---\n{written}\n---\n").front.fields
    if listed is None:
        listed = {"a": 1.0, "b": True, "c": 10, "d": 16, "e": None, "f": "2024-01-01"}
    assert find_difference(found, listed) == different


def test_skills_of_fastmcp_are_listed_verified_and_downloaded(
    tmp_path: Path, settings: Settings, opened: OpenSource, write_skill: WriteSkill
) -> None:
    folder = write_skill("alpha", front="metadata:\n  version: '1.0'\n")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "run me.py").write_bytes(SCRIPT)
    (folder / "p.png").write_bytes(PICTURE)
    argv = python_server(tmp_path, FASTMCP_SERVER, str(folder.parent))
    catalog = Catalog([opened(f"mcp:{shlex.join(argv)}")], settings)
    assert catalog.problems == ()
    (skill,) = catalog.skills
    skill.download()
    for path in ("SKILL.md", "scripts/run me.py", "p.png"):
        assert (skill.path / path).read_bytes() == (folder / path).read_bytes()


def test_skills_of_our_own_server_are_listed_verified_and_downloaded(
    settings: Settings, opened: OpenSource, write_skill: WriteSkill
) -> None:
    folder = write_skill("alpha", front="metadata:\n  version: 1.0\n")
    (folder / "p.png").write_bytes(PICTURE)
    catalog = Catalog([opened(f"mcp:{sys.executable} -m openskills mcp {folder.parent}")], settings)
    assert catalog.problems == ()
    (skill,) = catalog.skills
    skill.download()
    for path in ("SKILL.md", "p.png"):
        assert (skill.path / path).read_bytes() == (folder / path).read_bytes()


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_skills_of_a_server_on_the_plain_sdk_are_verified_and_downloaded(
    transport: str, tmp_path: Path, settings: Settings, opened: OpenSource, write_skill: WriteSkill
) -> None:
    folder = write_skill("alpha")
    (folder / "guide.md").write_text("A guide.", "utf-8")
    argv = python_server(tmp_path, SDK_SKILLS_SERVER, str(folder.parent))
    with ExitStack() as stack:
        url = stack.enter_context(printing_port([*argv, "http"])) if transport == "http" else ""
        (skill,) = Catalog([opened(f"mcp+{url}" if url else f"mcp:{shlex.join(argv)}")], settings).skills
        skill.download()
        assert (skill.path / "guide.md").read_bytes() == b"A guide."
        assert skill.body().endswith("# Body")


async def test_a_session_loads_reads_and_runs_a_skill_of_a_server(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    scenario.add("knowledge", {"guide.md": b"Run `ls`."})
    catalog = Catalog([opened(scenario.write())], settings)
    async with SkillRuntime(catalog, executor="auto", settings=settings) as runtime, runtime.session("s") as session:
        assert any("skill_run" in str(one) for one in session.tools("openai"))
        assert scenario.calls == ["skills/list"]
        loaded = await session.call("skill_load", {"skill": "echo", "docs": ["references/guide.md"]})
        assert loaded.error is None, loaded.text
        assert "resources/read skill://echo/scripts/say.py" not in scenario.calls
        read = await session.call("read_file", {"file_name": "skill://echo/references/guide.md"})
        assert "A guide." in read.text
        missing = await session.call("read_file", {"file_name": "skill://echo/guide.md"})
        assert "did you mean 'skill://echo/references/guide.md'" in missing.text
        listed = await session.call("list_files", {"pattern": "skill://echo/"})
        assert "scripts/say.py" in listed.text
        ran = await session.call("skill_run", {"skill": "echo", "command": "python scripts/say.py hello"})
        assert "said hello" in ran.text, ran.text
        assert "resources/read skill://echo/scripts/say.py" in scenario.calls


async def test_a_session_goes_on_without_a_server_that_is_gone(
    scenario: McpScenario, settings: Settings, opened: OpenSource
) -> None:
    text = scenario.write()
    store, options = MemorySessionStore(), SessionOptions(load_mode="session")
    catalog = Catalog([opened(text)], settings)
    async with (
        SkillRuntime(catalog, store=store, settings=settings) as runtime,
        runtime.session("s", options=options) as session,
    ):
        loaded = await session.call("skill_load", {"skill": "echo", "docs": ["references/guide.md"]})
        assert loaded.error is None
    for path in settings.skills_cache_dir.glob("mcp/*/files/*"):
        if path.read_bytes() == b"A guide.\n":
            path.unlink()
    scenario.file.write_text("not json", "utf-8")
    catalog = Catalog([opened(text)], settings)
    async with (
        SkillRuntime(catalog, store=store, settings=settings) as runtime,
        runtime.session("s", options=options) as session,
    ):
        messages = session.context([{"role": "user", "content": "go on"}])
        assert "Do it." in str(messages)
        assert "A guide." not in str(messages)
        chosen = await session.call("skill_select_docs", {"skill": "echo", "docs": ["references/guide.md"]})
        assert isinstance(chosen.error, SourceUnavailable)


def test_a_damaged_saved_list_is_ignored(scenario: McpScenario, settings: Settings, opened: OpenSource) -> None:
    text = scenario.write()
    opened(text).list_skills()
    (saved,) = settings.skills_cache_dir.glob("mcp/*/listing.json")
    saved.write_text(json.dumps({"skills": "damaged"}), "utf-8")
    scenario.file.write_text("not json", "utf-8")
    with pytest.raises(SourceUnavailable, match="exit status 1"):
        opened(text).list_skills()
