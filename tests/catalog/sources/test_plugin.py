"""Agent Plugins and marketplaces as sources: the rules of their specification, and hostile ones."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from openskills.catalog import Catalog, Root
from openskills.catalog.publish import build_archive
from openskills.catalog.root import no_progress
from openskills.catalog.sources.archive import FileContent
from openskills.catalog.sources.plugin import MAX_PLUGINS, MCP_SCHEMA, PLUGIN_SCHEMA, MarketplaceSource, open_plugin
from openskills.catalog.validate import find_skill_folders
from openskills.errors import LimitExceeded, SkillError
from openskills.settings import Settings
from tests.catalog.sources.web_server import Page, serving
from tests.conftest import RequireProgram
from tests.skill_writer import skill_writer

FULL: dict[str, Any] = {
    "$schema": PLUGIN_SCHEMA,
    "name": "acme.tools",
    "version": "not semantic",
    "description": "Tools.",
    "author": {"name": "A", "email": "nowhere", "url": "x"},
    "homepage": "x",
    "repository": "y",
    "license": "z",
    "keywords": ["a"],
    "extensions": {"com.example.client": {"setting": [1]}},
}


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    root = tmp_path / "plugin"
    skill_writer(root, "skills")("summarize")
    write(root, FULL)
    return root


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_env({"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"})


def write(root: Path, manifest: object, name: str = "plugin.json") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(manifest if isinstance(manifest, str) else json.dumps(manifest))
    return path


def skills_of(root: Path, settings: Settings) -> list[str]:
    return [skill.name for skill in Catalog.from_paths(root, settings=settings)]


def rules_of(root: Path) -> list[str]:
    return [problem.rule for problem in open_plugin(Root(root, "x")).problems]


@pytest.mark.parametrize("manifest", [FULL, {"$schema": PLUGIN_SCHEMA, "name": "a"}])
def test_a_plugin_offers_the_immediate_children_of_skills(plugin: Path, settings: Settings, manifest: object) -> None:
    write(plugin, manifest)
    skill_writer(plugin, "skills/nested")("deep")
    skill_writer(plugin, "other")("outside")
    assert skills_of(plugin, settings) == ["summarize"]
    assert rules_of(plugin) == []


def test_a_skill_that_does_not_follow_the_specification_is_skipped(plugin: Path, settings: Settings) -> None:
    skill_writer(plugin, "skills")("another-name", folder="folder")
    skill_writer(plugin, "skills")("long", "x" * 1025)
    catalog = Catalog.from_paths(plugin, settings=settings)
    assert [skill.name for skill in catalog] == ["summarize"]
    assert {problem.rule for problem in catalog.problems} == {"name-folder", "description-length"}
    # Without the manifest, it is a folder like any other, which is read as leniently as possible.
    (plugin / "plugin.json").unlink()
    assert skills_of(plugin, settings) == ["another-name", "long", "summarize"]


def test_a_skill_file_in_skills_itself_does_not_count(plugin: Path, settings: Settings) -> None:
    shutil.copy(plugin / "skills" / "summarize" / "SKILL.md", plugin / "skills" / "SKILL.md")
    skill_writer(plugin, "skills")("deploy")
    assert skills_of(plugin, settings) == ["deploy", "summarize"]


@pytest.mark.parametrize("change", [{"hooks": {}}, {"skills": "./elsewhere"}, {"extensions": []}, {"extensions": "x"}])
def test_an_unknown_field_is_reported_and_ignored(plugin: Path, settings: Settings, change: dict[str, Any]) -> None:
    write(plugin, {**FULL, **change})
    assert skills_of(plugin, settings) == ["summarize"]
    assert rules_of(plugin) == ["plugin-field"]


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "[]",
        "{",
        '{"$schema": NaN}',
        "[" * 100_000,
        {"name": "a"},
        {**FULL, "$schema": PLUGIN_SCHEMA.replace("1.0.0", "9.0.0")},
        *(
            {**FULL, "name": name}
            for name in ("My-Plugin", "-start", "end.", "has--two", "many..dots", "", "x" * 65, 7)
        ),
        {**FULL, "name": "../../etc"},
        {**FULL, "version": 1},
        {**FULL, "author": "me"},
        {**FULL, "author": {"name": "a", "twitter": "b"}},
        {**FULL, "author": {"name": 1}},
        {**FULL, "keywords": "a"},
        {**FULL, "keywords": [1]},
        {**FULL, "extensions": {"com.example": 1}},
        json.dumps({**FULL, "description": "x" * (1 << 20)}),
    ],
)
def test_any_other_fault_rejects_the_plugin_with_a_problem(plugin: Path, settings: Settings, manifest: object) -> None:
    write(plugin, manifest)
    catalog = Catalog.from_paths(plugin, settings=settings)
    assert not catalog.skills
    assert [problem.rule for problem in catalog.problems] == ["plugin-invalid"]
    assert catalog.problems[0].path == str(plugin / "plugin.json")


def test_a_manifest_that_is_a_link_out_of_the_plugin_rejects_it(plugin: Path, tmp_path: Path) -> None:
    (plugin / "plugin.json").rename(tmp_path / "moved.json")
    (plugin / "plugin.json").symlink_to("../moved.json")
    assert rules_of(plugin) == ["plugin-invalid"]
    (plugin / "plugin.json").unlink()
    os.mkfifo(plugin / "plugin.json")
    assert rules_of(plugin) == ["plugin-invalid"]


def test_links_are_followed_inside_of_the_plugin_only(plugin: Path, settings: Settings, tmp_path: Path) -> None:
    skill_writer(plugin, "shared")("deploy")
    (plugin / "skills" / "deploy").symlink_to("../shared/deploy")
    outside = skill_writer(tmp_path, "elsewhere")("stolen")
    (plugin / "skills" / "stolen").symlink_to(outside)
    secret = plugin / "skills" / "secret"
    secret.mkdir()
    (secret / "SKILL.md").symlink_to(outside / "SKILL.md")
    assert skills_of(plugin, settings) == ["deploy", "summarize"]


@pytest.mark.parametrize("target", ["/etc", "..", "../elsewhere", "missing", "plugin.json"])
def test_skills_that_lead_out_of_the_plugin_are_not_used(
    plugin: Path, settings: Settings, tmp_path: Path, target: str
) -> None:
    skill_writer(tmp_path, "elsewhere")("stolen")
    shutil.rmtree(plugin / "skills")
    (plugin / "skills").symlink_to(target)
    write(plugin, {"$schema": MCP_SCHEMA, "mcpServers": {"a": {"type": "stdio", "command": "x"}}}, "mcp.json")
    catalog = Catalog.from_paths(plugin, settings=settings)
    assert not catalog.skills
    assert [problem.rule for problem in catalog.problems] == ["plugin-skills", "plugin-server"]


def servers(**entries: object) -> dict[str, Any]:
    return {"$schema": MCP_SCHEMA, "mcpServers": entries}


def test_servers_are_reported_and_never_started(plugin: Path, tmp_path: Path, settings: Settings) -> None:
    mark = tmp_path / "started"
    (plugin / "run").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (plugin / "run").chmod(0o755)
    good = {
        "local": {
            "type": "stdio",
            "command": "./run",
            "args": ["--data", "${PLUGIN_DATA}/x", "../opaque"],
            "env": {"CONFIG": "${PLUGIN_ROOT}/config.json"},
            "cwd": "${PLUGIN_ROOT}",
        },
        "api": {"type": "streamable-http", "url": "https://x.example/mcp?k=1", "headers": {"X-Tenant": "a"}},
        "old": {"type": "sse", "url": "http://127.0.0.1:1/sse"},
    }
    write(plugin, servers(**good), "mcp.json")
    catalog = Catalog.from_paths(plugin, settings=settings)
    notes = [problem.message for problem in catalog.problems if problem.rule == "plugin-server"]
    assert [note.split("'")[1] for note in notes] == ["local", "api", "old"]
    assert not mark.exists()
    assert skills_of(plugin, settings) == ["summarize"]


@pytest.mark.parametrize(
    "entry",
    [
        "x",
        {"command": "x"},
        {"type": "http", "url": "https://x.example"},
        {"type": "stdio"},
        {"type": "stdio", "command": "../bin/server"},
        {"type": "stdio", "command": "/bin/sh"},
        {"type": "stdio", "command": "./../x"},
        {"type": "stdio", "command": "./leaves/x"},
        {"type": "stdio", "command": "npx -y thing"},
        {"type": "stdio", "command": "x", "url": "https://x.example"},
        {"type": "stdio", "command": "x", "args": "a"},
        {"type": "stdio", "command": "x", "env": {"PLUGIN_ROOT": "/"}},
        {"type": "stdio", "command": "x", "env": {"A": 1}},
        {"type": "stdio", "command": "x", "cwd": "data"},
        {"type": "stdio", "command": "x", "cwd": "/tmp"},
        {"type": "stdio", "command": "x", "cwd": "./leaves"},
        {"type": "stdio", "command": "x", "cwd": "${PLUGIN_ROOT}/.."},
        {"type": "stdio", "command": "x", "cwd": "${PLUGIN_ROOT}evil"},
        {"type": "stdio", "command": "x", "cwd": "${PLUGIN_DATA}/../x"},
        {"type": "sse", "url": "http://x.example"},
        {"type": "sse", "url": "ftp://127.0.0.1"},
        {"type": "sse", "url": "https://u:p@x.example"},
        {"type": "sse", "url": "https://x.example/#a"},
        {"type": "sse", "url": "https://[x"},
        {"type": "sse", "url": "https://x.example", "headers": {"A": "1", "a": "2"}},
        {"type": "sse", "url": "https://x.example", "headers": {"A b": "1"}},
        {"type": "sse", "url": "https://x.example", "headers": {"A": "1\r\nB: 2"}},
    ],
)
def test_an_invalid_server_is_skipped_and_the_others_stay(plugin: Path, entry: object) -> None:
    (plugin / "leaves").symlink_to("/etc")
    write(plugin, servers(bad=entry, good={"type": "stdio", "command": "x"}), "mcp.json")
    assert rules_of(plugin) == ["plugin-mcp", "plugin-server"]


@pytest.mark.parametrize(
    "content", ["{", {"mcpServers": {}}, {**servers(), "more": 1}, {**servers(), "mcpServers": []}]
)
def test_an_invalid_server_file_leaves_the_skills(plugin: Path, settings: Settings, content: object) -> None:
    write(plugin, content, "mcp.json")
    assert rules_of(plugin) == ["plugin-mcp"]
    assert skills_of(plugin, settings) == ["summarize"]


def test_plugins_in_archives_work_like_folders(plugin: Path, settings: Settings, tmp_path: Path) -> None:
    files = [
        FileContent(str(path.relative_to(plugin)), path.read_bytes()) for path in plugin.rglob("*") if path.is_file()
    ]
    deep = FileContent("skills/nested/deep/SKILL.md", b"---\nname: deep\ndescription: Deep. Use when deep.\n---\n")
    (tmp_path / "p.zip").write_bytes(build_archive([*files, deep]))
    assert skills_of(tmp_path / "p.zip", settings) == ["summarize"]
    # As GitHub packs a repository.
    (tmp_path / "q.zip").write_bytes(build_archive(file.under("repository-main") for file in [*files, deep]))
    assert skills_of(tmp_path / "q.zip", settings) == ["summarize"]


def test_validate_checks_the_manifest_and_only_the_skills_of_the_plugin(plugin: Path) -> None:
    write(plugin, {**FULL, "hooks": 1})
    skill_writer(plugin, "other")("outside")
    found = find_skill_folders([plugin])
    assert [folder.name for folder in found.skills] == ["summarize"]
    assert [one.problems[0].rule for one in found.oddities] == ["plugin-field"]
    write(plugin, {"name": "x"})
    assert [one.is_valid for one in find_skill_folders([plugin]).oddities] == [False]


def test_a_marketplace_offers_the_skills_of_its_plugins(plugin: Path, settings: Settings, tmp_path: Path) -> None:
    write_other = skill_writer(tmp_path, "plugins/bare/skills")
    write_other("deploy")
    skill_writer(tmp_path, "plugins/bare/extra")("named")
    shutil.move(plugin, tmp_path / "plugins" / "strict")
    entries = [
        {"name": "strict", "source": "./plugins/strict"},
        {"name": "bare", "source": "bare", "strict": False, "skills": ["./extra/named"]},
    ]
    market = {"name": "m", "owner": {"name": "o"}, "metadata": {"pluginRoot": "plugins"}, "plugins": entries}
    path = write(tmp_path, market, ".claude-plugin/marketplace.json")
    catalog = Catalog.from_paths(path, settings=settings)
    assert [skill.name for skill in catalog] == ["deploy", "named", "summarize"]
    assert catalog.get("deploy").source.endswith("marketplace.json#bare")
    assert not catalog.problems


@pytest.mark.parametrize(
    "source",
    [
        "..",
        "./..",
        "../outside",
        "/etc",
        "./missing",
        "./leaves",
        7,
        {"source": "npm", "package": "evil"},
        {"source": "command", "command": "touch /tmp/evil"},
        {"source": "url", "url": "file:///etc"},
        {"source": "url", "url": "git@host:repo"},
        {"source": "github", "repo": "../../x"},
        {"source": "git-subdir", "url": "https://127.0.0.1:1/x.git", "path": "../.."},
        {"source": "archive", "url": "file:///etc/passwd"},
        {"source": "archive", "url": "https://127.0.0.1:1/x.zip", "sha256": "zz"},
        {"source": "archive", "url": "https://127.0.0.1:1/marketplace.json"},
        {"source": "archive", "url": "https://[::1/x.zip"},
        {"source": "strange"},
    ],
)
def test_a_plugin_from_a_forbidden_place_is_a_problem(
    plugin: Path, settings: Settings, tmp_path: Path, source: object
) -> None:
    (tmp_path / "leaves").symlink_to("/etc")
    entries = [{"name": "bad", "source": source}, {"name": "good", "source": "./plugin"}]
    path = write(tmp_path, {"plugins": entries}, "marketplace.json")
    catalog = Catalog.from_paths(path, settings=settings)
    assert [skill.name for skill in catalog] == ["summarize"]
    assert [problem.rule for problem in catalog.problems] == ["marketplace-plugin"]
    assert plugin.exists()


def test_a_plugin_with_an_invalid_name_is_named_by_its_number(plugin: Path, settings: Settings, tmp_path: Path) -> None:
    assert plugin.exists()
    entries = [{"name": "good", "source": "./plugin"}, {"name": "../bad", "source": "./plugin"}]
    path = write(tmp_path, {"plugins": entries}, "marketplace.json")
    (problem,) = Catalog.from_paths(path, settings=settings).problems
    assert problem.message == f"{path}: plugin 2: \"name\": invalid name '../bad'"


def test_a_marketplace_that_names_itself_ends(plugin: Path, settings: Settings, tmp_path: Path) -> None:
    entries = [{"name": f"p{number}", "source": source} for number, source in enumerate(("./", ".", "./plugin"))]
    path = write(tmp_path, {"plugins": [*entries, *entries, 1, {"source": "./"}]}, "marketplace.json")
    catalog = Catalog.from_paths(path, settings=settings)
    assert [skill.name for skill in catalog] == ["summarize"]
    assert len(catalog.problems) == 5
    assert plugin.exists()


def test_a_marketplace_with_100_000_entries_is_refused(settings: Settings, tmp_path: Path) -> None:
    path = write(tmp_path, {"plugins": [{"name": "x"}] * 100_000}, "marketplace.json")
    with pytest.raises(LimitExceeded, match=f"{MAX_PLUGINS:,}"):
        MarketplaceSource(str(path), "m", settings).fetch(no_progress)
    for content in ("[]", "{}", '{"plugins": {}}', "x", " " * (6 << 20)):
        write(tmp_path, content, "marketplace.json")
        with pytest.raises(SkillError):
            MarketplaceSource(str(path), "m", settings).fetch(no_progress)


def test_a_marketplace_on_the_web_verifies_archives_and_keeps_its_password(plugin: Path, settings: Settings) -> None:
    paths = [path for path in plugin.rglob("*") if path.is_file()]
    data = build_archive([FileContent(str(path.relative_to(plugin)), path.read_bytes()) for path in paths])
    digest = hashlib.sha256(data).hexdigest()
    with serving() as web, serving() as other:
        web.pages["/p.zip"] = other.pages["/p.zip"] = other.pages["/q.zip"] = Page(data)
        sources = {
            "good": {"source": "archive", "url": f"{other.url}/p.zip", "sha256": digest},
            "forged": {"source": "archive", "url": f"{other.url}/q.zip", "sha256": digest[::-1]},
            "folder": "./plugins/x",
        }
        entries = [{"name": name, "source": source} for name, source in sources.items()]
        web.pages["/marketplace.json"] = Page(json.dumps({"plugins": entries}).encode())
        address = web.url.replace("http://", "http://user:secret@") + "/marketplace.json"
        catalog = Catalog.from_paths(address, settings=settings)
        assert [skill.name for skill in catalog] == ["summarize"]
        assert [problem.rule for problem in catalog.problems] == ["marketplace-plugin"] * 2
        assert "secret" not in str(catalog.problems) + catalog.get("summarize").source
        assert "Authorization" in web.requests[0][1]
        assert other.requests
        assert not any("Authorization" in headers for _, headers in other.requests)


def test_an_index_that_points_to_another_server_keeps_its_password(settings: Settings) -> None:
    text = b"---\nname: hello\ndescription: Says hello. Use when greeted.\n---\n"
    with serving() as web, serving() as other:
        other.pages["/SKILL.md"] = Page(text)
        entry = {"name": "hello", "type": "skill-md", "description": "x", "url": f"{other.url}/SKILL.md"}
        entry["digest"] = f"sha256:{hashlib.sha256(text).hexdigest()}"
        web.pages["/index.json"] = Page(json.dumps({"skills": [entry]}).encode())
        address = web.url.replace("http://", "http://user:secret@") + "/index.json"
        assert [skill.name for skill in Catalog.from_paths(address, settings=settings)] == ["hello"]
        assert not any("Authorization" in headers for _, headers in other.requests)


def test_a_plugin_in_a_repository_works_like_a_folder(
    plugin: Path, settings: Settings, require_program: RequireProgram
) -> None:
    require_program("git")
    skill_writer(plugin, "other")("outside")
    for line in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *line], cwd=plugin, check=True)
    catalog = Catalog.from_paths(f"git+file://{plugin}", settings=settings)
    assert [skill.name for skill in catalog] == ["summarize"], catalog.problems
