"""`openskills export`: a directory that other clients install from, and that never harms files of others."""

import hashlib
import http.server
import json
import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import skills_ref

from openskills.catalog import Catalog
from openskills.settings import Settings
from tests.adapters.mcp.oracles import Oracles, oracles
from tests.cli.command import Command
from tests.skill_writer import WriteSkill

__all__ = ["oracles"]

INDEX = ".well-known/agent-skills/index.json"
SHIPPED = Path(__file__).resolve().parents[2] / "skills"


@pytest.fixture
def here(tmp_path: Path, write_skill: WriteSkill) -> Path:
    write_skill("report", "Writes reports. Use when asked for one.")
    sorter = write_skill("sorter", "Sorts lines. Use when lines are mixed.", under="here/skills/team-a")
    (sorter / "scripts").mkdir()
    (sorter / "scripts" / "sort.sh").write_text("#!/bin/sh\nsort\n")
    (sorter / "scripts" / "sort.sh").chmod(0o755)
    (sorter / "logo.png").write_bytes(b"\x89PNG\x00\xff")
    return tmp_path / "here"


@pytest.fixture
def site(here: Path) -> Iterator[str]:
    """A web server that knows nothing but files."""
    (here / "site").mkdir()
    handler = partial(_Quiet, directory=str(here / "site"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the library calls it
        pass


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_npx_skills_installs_from_an_exported_directory(
    openskills: Command, here: Path, site: str, oracles: Oracles
) -> None:
    assert openskills("export", "site", "skills").code == 0
    done = oracles.skills("add", site, "--skill", "*", "--agent", "codex", "--yes", "--copy")
    assert done.returncode == 0, done.stdout + done.stderr
    installed = oracles.directory / ".agents" / "skills"
    assert files_in(installed / "report") == files_in(here / "skills" / "report")
    assert files_in(installed / "sorter") == files_in(here / "skills" / "team-a" / "sorter")
    listed = oracles.skills("add", f"{site}/team-a", "--list").stdout
    assert "sorter" in listed
    assert "report" not in listed
    # Clients that know only the older index.
    (here / "site" / INDEX).unlink()
    done = oracles.skills("add", site, "--skill", "sorter", "--agent", "claude-code", "--yes", "--copy")
    assert done.returncode == 0, done.stdout + done.stderr
    old = oracles.directory / ".claude" / "skills" / "sorter"
    assert files_in(old) == files_in(here / "skills" / "team-a" / "sorter")


def test_every_exported_skill_is_valid_for_the_reference_validator(openskills: Command, here: Path) -> None:
    assert openskills("export", "site", "skills", str(SHIPPED)).code == 0
    exported = [path.parent for path in (here / "site").rglob("SKILL.md")]
    assert len(exported) >= 20
    assert {str(folder): skills_ref.validate(folder) for folder in exported if skills_ref.validate(folder)} == {}


def test_our_catalog_reads_the_marketplace_and_the_plugins(openskills: Command, here: Path, tmp_path: Path) -> None:
    done = openskills("export", "site", "skills", "--name", "acme", "--mcp-url", "https://skills.example.com/mcp")
    assert done.code == 0, done.err
    settings = Settings.from_env({"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"})
    catalog = Catalog.from_paths(here / "site" / ".claude-plugin" / "marketplace.json", settings=settings)
    assert [skill.name for skill in catalog] == ["report", "sorter"]
    sorter = here / "site" / "plugins" / "sorter"
    assert files_in(sorter / "skills" / "sorter") == files_in(here / "skills" / "team-a" / "sorter")
    assert os.access(sorter / "skills" / "sorter" / "scripts" / "sort.sh", os.X_OK)
    whole = Catalog.from_paths(here / "site" / "plugins" / "acme", settings=settings)
    assert [problem.rule for problem in whole.problems] == ["plugin-server"]
    assert len(whole) == 2
    assert openskills("validate", "site/plugins/acme", "--strict").code == 0


def test_with_an_address_archives_are_offered_with_digests(openskills: Command, here: Path) -> None:
    assert openskills("export", "site", "skills", "--url", "https://skills.example.com/").code == 0
    market = json.loads((here / "site" / "marketplace.json").read_bytes())
    for one in market["plugins"]:
        path = one["source"]["url"].removeprefix("https://skills.example.com/")
        assert hashlib.sha256((here / "site" / path).read_bytes()).hexdigest() == one["source"]["sha256"]


def test_a_second_export_changes_only_what_changed(openskills: Command, here: Path) -> None:
    openskills("export", "site", "skills")
    before = files_in(here / "site")
    done = openskills("export", "site", "skills", "--json")
    assert done.json["files"] == {"written": 0, "unchanged": len(before) - 1, "removed": 0}
    assert files_in(here / "site") == before
    (here / "skills" / "report" / "SKILL.md").unlink()
    (here / "site" / "README.md").write_text("Mine.")
    done = openskills("export", "site", "skills", "--json")
    assert done.json["files"]["removed"] > 0
    left = files_in(here / "site")
    assert left["README.md"] == b"Mine."
    assert not any("report" in path for path in left)
    assert not (here / "site" / "plugins" / "report").exists()


def test_files_of_others_are_never_overwritten(openskills: Command, here: Path) -> None:
    (here / "site" / ".claude-plugin").mkdir(parents=True)
    (here / "site" / ".claude-plugin" / "marketplace.json").write_text("mine")
    done = openskills("export", "site", "skills")
    assert done.code == 2
    assert ".claude-plugin/marketplace.json" in done.err
    assert files_in(here / "site") == {".claude-plugin/marketplace.json": b"mine"}
    (here / "site" / ".claude-plugin" / "marketplace.json").unlink()
    assert openskills("export", "site", "skills").code == 0
    (here / "site" / INDEX).write_text("changed by somebody")
    assert openskills("export", "site", "skills").code == 2
    assert (here / "site" / INDEX).read_text() == "changed by somebody"


def test_links_in_the_directory_are_not_followed(openskills: Command, here: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (here / "site").mkdir()
    (here / "site" / "plugins").symlink_to(outside)
    assert openskills("export", "site", "skills").code == 2
    assert not any(outside.iterdir())


def test_a_record_that_names_files_elsewhere_is_refused(openskills: Command, here: Path) -> None:
    victim = here / "victim.txt"
    victim.write_text("precious")
    digest = hashlib.sha256(b"precious").hexdigest()
    (here / "site").mkdir()
    for path in ("../victim.txt", str(victim), "a/../../victim.txt"):
        record = {"version": 1, "files": {path: digest}}
        (here / "site" / ".openskills-export.json").write_text(json.dumps(record))
        done = openskills("export", "site", "skills")
        assert done.code == 2
        assert "damaged" in done.err
    assert victim.read_text() == "precious"


def test_skills_that_are_left_out_are_named_with_the_reason(
    openskills: Command, here: Path, write_skill: WriteSkill
) -> None:
    write_skill("Bad_Name")
    write_skill("secret", front="metadata:\n  internal: true\n")
    (write_skill("leaky") / "passwd").symlink_to("/etc/passwd")
    done = openskills("export", "site", "skills")
    assert done.code == 0
    for word in ("Bad_Name", "metadata.internal is true", "leads out of the skill", "2 skills", "3 left out"):
        assert word in done.err + done.out
    names = [one["name"] for one in openskills("export", "site", "skills", "--json").json["left_out"]]
    assert sorted(names) == ["Bad_Name", "leaky", "secret"]
    done = openskills("export", "other", "skills", "--strict")
    assert done.code == 1
    assert not (here / "other").exists()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["skills/report/SKILL.md", "skills"], "not a directory"),
        ([".", "skills"], "not part of PATH"),
        (["site", "skills", "--name", "Bad Name"], "--name"),
        (["site", "skills", "--url", "ftp://x"], "--url"),
        (["site", "skills", "--mcp-url", "x"], "--mcp-url"),
    ],
)
def test_wrong_usage_says_what_to_change(openskills: Command, here: Path, arguments: list[str], word: str) -> None:
    done = openskills("export", *arguments)
    assert done.code == 2
    assert word in done.err
    assert not (here / "site").exists()


def test_an_export_without_skills_fails_and_writes_nothing(openskills: Command, here: Path) -> None:
    (here / "empty").mkdir()
    done = openskills("export", "site", "empty")
    assert done.code == 1
    assert "no skill can be published" in done.err
    assert not (here / "site").exists()


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [("--publish", "everybody", "keys, open, off"), ("--public-url", "ftp://x", "http://127.0.0.1:8000")],
)
def test_serve_refuses_wrong_options_of_publishing(openskills: Command, option: str, value: str, word: str) -> None:
    done = openskills("serve", option, value)
    assert done.code == 2
    assert option in done.err
    assert word in done.err


def test_many_skills_are_exported_with_their_teams(openskills: Command, here: Path, write_skill: WriteSkill) -> None:
    for number in range(120):
        write_skill(f"skill-{number:03}", under=f"here/many/team-{number % 3}")
    done = openskills("export", "site", "many", "--json")
    assert len(done.json["skills"]) == 120
    for team in range(3):
        index = json.loads((here / "site" / f"team-{team}" / INDEX).read_bytes())
        assert [one["name"] for one in index["skills"]] == [f"skill-{number:03}" for number in range(team, 120, 3)]
