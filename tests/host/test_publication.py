"""Published skills of a host: `npx skills`, indexes, archives, marketplace, keys, caches and hostile requests."""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from openskills.catalog import Catalog
from openskills.host.http import HttpRefusal
from openskills.host.parts import HostOptions
from openskills.host.publication import find_public_url
from tests.adapters.mcp.oracles import Oracles, oracles
from tests.host.exchanges import Sent
from tests.host.host_process import host_process
from tests.host.hosting import Served, eventually, key_in, served, settings_in
from tests.host.vendors.uploading import PUBLISHER, WRITER, bearer, form_of, skill_files, uploading_host
from tests.skill_writer import skill_writer

__all__ = ["oracles"]

SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
INDEX = "/.well-known/agent-skills/index.json"
PNG = b"\x89PNG\r\n\x1a\n\x00\xff\xfe" * 50


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    write = skill_writer(tmp_path, "skills")
    write("report", "Writes reports. Use when asked for one.")
    sorter = write("sorter", "Sorts lines. Use when lines are in no order.", under="skills/team-a", body="# Ü 中文")
    (sorter / "scripts").mkdir()
    (sorter / "scripts" / "sort.sh").write_text("#!/bin/sh\nsort\n")
    (sorter / "scripts" / "sort.sh").chmod(0o755)
    (sorter / "assets").mkdir()
    (sorter / "assets" / "logo 1.png").write_bytes(PNG)
    return tmp_path / "skills"


@pytest.fixture
def host(tmp_path: Path, skills: Path) -> Iterator[Served]:
    with served(tmp_path, {}, options=HostOptions(watch=False, skills=(skills,))) as one:
        yield one


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def names(answer: httpx2.Response) -> list[str]:
    return [skill["name"] for skill in answer.json()["skills"]]


def test_npx_skills_adds_finds_and_updates_skills_byte_for_byte(host: Served, skills: Path, oracles: Oracles) -> None:
    done = oracles.skills("add", host.url, "--skill", "*", "--agent", "claude-code", "--yes", "--copy")
    assert done.returncode == 0, done.stdout + done.stderr
    installed = oracles.directory / ".claude" / "skills"
    assert files_in(installed / "report") == files_in(skills / "report")
    assert files_in(installed / "sorter") == files_in(skills / "team-a" / "sorter")

    found = oracles.skills("find", "sort some lines", SKILLS_API_URL=host.url)
    address = f"{host.url}/team-a@sorter"
    assert address in found.stdout

    (skills / "report" / "SKILL.md").write_text((skills / "report" / "SKILL.md").read_text() + "\nMore.\n")
    (skills / "report" / "notes.md").write_text("New file.\n")
    done = oracles.skills("update", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert files_in(installed / "report") == files_in(skills / "report"), done.stdout
    assert "Updated 1" in done.stdout
    again = oracles.skills("update", "--yes").stdout
    assert host.url in again
    assert "Updated" not in again


def test_npx_skills_installs_from_the_address_that_find_shows(host: Served, skills: Path, oracles: Oracles) -> None:
    for address, name, folder in (("team-a@sorter", "sorter", "team-a/sorter"), ("@report", "report", "report")):
        done = oracles.skills("add", f"{host.url}/{address}", "--agent", "codex", "--yes", "--copy")
        assert done.returncode == 0, done.stdout + done.stderr
        assert files_in(oracles.directory / ".agents" / "skills" / name) == files_in(skills / folder)


def test_npx_skills_of_a_team_gets_the_skills_of_this_team_only(host: Served, oracles: Oracles) -> None:
    listed = oracles.skills("add", f"{host.url}/team-a", "--list").stdout
    assert "sorter" in listed
    assert "report" not in listed
    unknown = oracles.skills("add", f"{host.url}/team-b", "--list", "--yes")
    assert "report" not in unknown.stdout


def test_the_index_has_digests_of_exactly_what_it_offers(host: Served) -> None:
    index = host.client.get(INDEX).json()
    assert index["$schema"] == SCHEMA
    assert [(one["name"], one["type"]) for one in index["skills"]] == [("report", "skill-md"), ("sorter", "archive")]
    for one in index["skills"]:
        data = host.client.get(f"/.well-known/agent-skills/{one['url']}").content
        assert one["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_the_old_index_lists_files_that_can_be_fetched(host: Served, skills: Path) -> None:
    listed = {one["name"]: one["files"] for one in host.client.get("/.well-known/skills/index.json").json()["skills"]}
    assert listed["sorter"] == ["SKILL.md", "assets/logo 1.png", "scripts/sort.sh"]
    for path in listed["sorter"]:
        data = host.client.get(f"/.well-known/skills/sorter/{path}").content
        assert data == (skills / "team-a" / "sorter" / path).read_bytes()


def test_our_own_catalog_reads_what_a_host_publishes(host: Served, skills: Path, tmp_path: Path) -> None:
    catalog = Catalog.from_paths(host.url, settings=settings_in(tmp_path / "other"))
    assert [skill.name for skill in catalog] == ["report", "sorter"]
    assert files_in(catalog.get("sorter").path) == files_in(skills / "team-a" / "sorter")
    assert not catalog.problems


def test_our_own_catalog_reads_the_marketplace_of_a_host(host: Served, skills: Path, tmp_path: Path) -> None:
    catalog = Catalog.from_paths(f"{host.url}/marketplace.json", settings=settings_in(tmp_path / "other"))
    assert [skill.name for skill in catalog] == ["report", "sorter"]
    assert files_in(catalog.get("sorter").path) == files_in(skills / "team-a" / "sorter")
    # The plugin with all skills has them, too.
    assert {problem.rule for problem in catalog.problems} == {"name-shadowed", "plugin-server"}


def test_skills_that_do_not_qualify_are_left_out_with_a_reason(host: Served, skills: Path, tmp_path: Path) -> None:
    write = skill_writer(tmp_path, "skills")
    write("Bad_Name")
    write("secret", front="metadata:\n  internal: true\n")
    write("leaky", folder="leaky").joinpath("passwd").symlink_to("/etc/passwd")
    write("private").joinpath(".env").write_text("TOKEN=1")
    write("dots").joinpath("a..b.md").write_text("x")
    write("broken", front="allowed-tools: [\n")
    many = write("many")
    for number in range(1000):
        (many / f"{number}.md").touch()
    eventually(lambda: len(host.client.get("/published").json()["data"]["left_out"]) >= 7)
    assert names(host.client.get(INDEX)) == ["report", "sorter"]
    left = {one["name"]: one["reason"] for one in host.client.get("/published").json()["data"]["left_out"]}
    assert "internal" in left["secret"]
    assert "leads out" in left["leaky"]
    assert "secrets" in left["private"]
    assert "refuse" in left["dots"]
    assert "1,000 files" in left["many"]
    assert {"Bad_Name", "broken"} <= left.keys()
    assert host.client.get("/.well-known/agent-skills/leaky.zip").status_code == 404
    assert host.client.get("/.well-known/skills/leaky/passwd").status_code == 404


def test_a_document_that_the_caller_has_is_not_sent_again(host: Served, skills: Path) -> None:
    for path in (INDEX, "/.well-known/agent-skills/sorter.zip", "/marketplace.json"):
        first = host.client.get(path)
        assert first.headers["cache-control"] == "private, no-cache"
        for known in (first.headers["etag"], f"W/{first.headers['etag']}", f'"x", {first.headers["etag"]}', "*"):
            again = host.client.get(path, headers={"If-None-Match": known, "X-Skills-Update-Check": "1"})
            assert (again.status_code, again.content) == (304, b"")
        head = host.client.head(path)
        assert (head.content, head.headers["etag"]) == (b"", first.headers["etag"])
        assert head.headers["content-length"] == str(len(first.content))
        assert host.client.post(path).status_code == 405
    tag = host.client.get(INDEX).headers["etag"]
    (skills / "report" / "SKILL.md").write_text("---\nname: report\ndescription: New. Use when new.\n---\n")
    eventually(lambda: host.client.get(INDEX, headers={"If-None-Match": tag}).status_code == 200)


def test_the_marketplace_offers_plugins_with_their_digests(host: Served) -> None:
    market = host.client.get("/marketplace.json").json()
    assert market["name"] == "openskills"
    assert [one["name"] for one in market["plugins"]] == ["openskills", "report", "sorter"]
    for one in market["plugins"]:
        assert one["strict"] is False
        assert one["source"]["source"] == "archive"
        data = host.client.get(one["source"]["url"]).content
        assert hashlib.sha256(data).hexdigest() == one["source"]["sha256"]
        files = zipfile.ZipFile(io.BytesIO(data))
        assert json.loads(files.read("plugin.json"))["name"] == one["name"]
    whole = zipfile.ZipFile(io.BytesIO(host.client.get("/plugins/openskills.zip").content))
    assert {"skills/report/SKILL.md", "skills/sorter/scripts/sort.sh", "mcp.json"} <= set(whole.namelist())
    assert json.loads(whole.read("mcp.json"))["mcpServers"]["openskills"]["url"] == f"{host.url}/mcp"
    assert whole.getinfo("skills/sorter/scripts/sort.sh").external_attr >> 16 == 0o100755


def test_addresses_in_documents_come_from_the_setting_or_a_checked_host(host: Served, tmp_path: Path) -> None:
    wrong = ("evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "localhost/evil", 'localhost"<')
    for name in (*wrong, "anything.localhost", "127.0.0.2"):
        for path in ("/marketplace.json", "/api/search?q=report"):
            answer = host.client.get(path, headers={"Host": name})
            assert answer.status_code in (400, 421), (name, path)
            assert "archive" not in answer.text
    options = HostOptions(watch=False, skills=(tmp_path / "skills",))
    settings: dict[str, Any] = {"host_publish": "open", "host_public_url": "https://skills.example.com/base"}
    with served(tmp_path, {}, options=options, **settings) as public:
        market = public.client.get("/marketplace.json", headers={"Host": "evil.example"}).json()
        assert market["name"] == "skills-example-com"
        assert market["plugins"][0]["source"]["url"] == (
            "https://skills.example.com/base/plugins/skills-example-com.zip"
        )
        assert "evil" not in json.dumps(market)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1:80", "[::1]", "a.localhost", "192.0.2.1"])
def test_names_of_this_machine_count_only_on_its_own_addresses(host: Served, name: str) -> None:
    def find(server: str) -> str:
        return find_public_url(Sent(headers={"Host": name}, server=server).exchange, host.parts)

    places = {"192.0.2.1"} if name == "192.0.2.1" else {"127.0.0.1", "::1"} if name != "a.localhost" else set[str]()
    for server in ("127.0.0.1", "::1", "192.0.2.1"):
        if server in places:
            assert find(server) == f"http://{name}"
        else:
            with pytest.raises(HttpRefusal):
                find(server)


def test_keys_decide_who_reads_what(tmp_path: Path, skills: Path) -> None:
    key = key_in(tmp_path, "all")
    narrow = key_in(tmp_path, "narrow", scopes=("report",))
    options = HostOptions(watch=False, skills=(skills,))
    paths = (INDEX, "/.well-known/skills/index.json", "/marketplace.json", "/published", "/api/search?q=report")
    with served(tmp_path, {}, options=options) as host:
        for path in (*paths, "/plugins/report.zip", "/.well-known/agent-skills/sorter.zip"):
            assert host.client.get(path).status_code == 401, path
            assert host.client.get(path, headers={"Authorization": f"Bearer {key}"}).status_code == 200, path
        limited = {"Authorization": f"Bearer {narrow}"}
        assert names(host.client.get(INDEX, headers=limited)) == ["report"]
        assert host.client.get("/.well-known/agent-skills/sorter.zip", headers=limited).status_code == 404
        assert host.client.get("/team-a/.well-known/agent-skills/index.json", headers=limited).status_code == 404
        assert host.client.get("/published", headers=limited).json()["data"]["left_out"] == []
    with served(tmp_path, {}, options=options, host_publish="open") as host:
        answer = host.client.get(INDEX)
        assert names(answer) == ["report", "sorter"]
        assert answer.headers["cache-control"] == "public, no-cache"
        assert answer.headers["access-control-allow-origin"] == "*"
        assert host.client.get("/skills").status_code == 401
        (skills / "leaky").mkdir()
        (skills / "leaky" / "SKILL.md").symlink_to("/etc/passwd")
        own = {"Authorization": f"Bearer {key}"}
        eventually(lambda: bool(host.client.get("/published", headers=own).json()["data"]["left_out"]))
        assert host.client.get("/published").json()["data"]["left_out"] == []
        assert host.client.get(INDEX, headers={"Authorization": "Bearer osk_wrong"}).status_code == 401
    with served(tmp_path, {}, options=options, host_publish="off") as host:
        for path in paths:
            assert host.client.get(path, headers={"Authorization": f"Bearer {key}"}).status_code == 404


def test_the_registry_searches_and_downloads(host: Served, skills: Path) -> None:
    found = host.client.get("/api/search", params={"q": "sort lines", "limit": "20"}).json()["skills"]
    assert found[0] == {
        "id": "team-a/skills/sorter",
        "name": "sorter",
        "source": f"{host.url}/team-a",
        "installs": 0,
    }
    assert names(host.client.get("/api/search", params={"q": "report", "owner": "team-a"})) == []
    assert names(host.client.get("/api/search", params={"q": ""})) == []
    assert host.client.get("/api/search", params={"q": "x" * 5000}).status_code == 200
    for limit in ("0", "-1", "x", "9" * 50):
        answer = host.client.get("/api/search", params={"q": "report", "limit": limit})
        assert answer.status_code == 400
        assert "limit" in answer.json()["error"]["message"]
    snapshot = host.client.get("/api/download/openskills/skills/report").json()
    assert snapshot["files"] == [{"path": "SKILL.md", "contents": (skills / "report" / "SKILL.md").read_text()}]
    binary = host.client.get("/api/download/team-a/skills/sorter")
    assert binary.status_code == 415
    assert f"{host.url}/team-a/.well-known/agent-skills/sorter.zip" in binary.json()["error"]["message"]


NOTHING = (
    "/api/download/../../etc/passwd",
    "/api/download/a/b/%2e%2e",
    "/api/download/openskills/skills/..%2f..%2fetc",
    "/api/download/team-a/skills/report",
    "/.well-known/agent-skills/..%2f..%2fetc%2fpasswd",
    "/.well-known/agent-skills/report/../../../../etc/passwd",
    "/.well-known/agent-skills/report/%2e%2e/sorter/SKILL.md",
    "/.well-known/agent-skills/report.zip.zip",
    "/.well-known/agent-skills/report",
    "/.well-known/agent-skills/",
    "/..%2f/.well-known/agent-skills/index.json",
    "/team-a@report/.well-known/agent-skills/index.json",
    "/@/.well-known/agent-skills/index.json",
    "/plugins/..%2freport.zip",
    "/plugins/unknown.zip",
)


def test_addresses_of_nothing_are_not_found(host: Served) -> None:
    for path in NOTHING:
        answer = host.client.get(path)
        assert answer.status_code == 404, path
        assert answer.json()["error"]["details"]["reason"] == "UNKNOWN_ADDRESS", path


def test_a_host_without_skills_publishes_an_empty_index(tmp_path: Path) -> None:
    with served(tmp_path, {}, options=HostOptions(watch=False)) as host:
        assert host.client.get(INDEX).json() == {"$schema": SCHEMA, "skills": []}
        assert host.client.get("/marketplace.json").json()["plugins"] == []


def test_the_same_files_give_the_same_archive_on_every_host(tmp_path: Path, host: Served, skills: Path) -> None:
    copy: dict[str, Any] = {}
    data = host.client.get("/.well-known/agent-skills/sorter.zip").content
    write = skill_writer(tmp_path, "again")
    other = write("sorter", "Sorts lines. Use when lines are in no order.", body="# Ü 中文")
    for path, content in reversed(files_in(skills / "team-a" / "sorter").items()):
        (other / path).parent.mkdir(exist_ok=True)
        (other / path).write_bytes(content)
    (other / "scripts" / "sort.sh").chmod(0o700)
    with served(tmp_path, copy, options=HostOptions(watch=False, skills=(tmp_path / "again",))) as second:
        assert second.client.get("/.well-known/agent-skills/sorter.zip").content == data


def test_serve_publishes_openly_when_told(tmp_path: Path, skills: Path) -> None:
    key_in(tmp_path)
    address = "https://skills.example.com"
    with host_process(tmp_path, str(skills), "--publish", "open", "--public-url", address) as host:
        assert "publishing: open" in host.errors.read_text()
        assert names(host.client.get(INDEX)) == ["report", "sorter"]
        assert host.client.get("/marketplace.json").json()["name"] == "skills-example-com"
        assert host.client.get("/skills").status_code == 401


def test_uploads_are_published_to_those_who_may_see_them(tmp_path: Path) -> None:
    writer, publisher = key_in(tmp_path, "writer", scopes=WRITER), key_in(tmp_path, "publisher", scopes=PUBLISHER)
    other = key_in(tmp_path, "other")
    with uploading_host(tmp_path) as host:
        for key, name in ((writer, "greeter"), (publisher, "waver")):
            made = host.client.post("/v1/skills", files=form_of(skill_files(name), name), headers=bearer(key))
            assert made.status_code == 200, made.text

        def list_names(key: str) -> list[str]:
            return [one["name"] for one in host.client.get(INDEX, headers=bearer(key)).json()["skills"]]

        assert list_names(writer) == ["greeter", "waver"]
        assert list_names(other) == ["waver"]
        archive = "/.well-known/agent-skills/greeter.zip"
        assert host.client.get(archive, headers={"X-Api-Key": writer}).status_code == 200
        assert host.client.get(archive, headers=bearer(other)).status_code == 404
        assert host.client.get("/api/search?q=greeted", headers=bearer(other)).json()["count"] == 1
