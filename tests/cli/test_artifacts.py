"""`artifacts`: what conversations and runs have kept, and getting it."""

from pathlib import Path

import pytest

from openskills.artifacts.files import FileArtifactStore
from openskills.artifacts.open import open_artifact_store
from openskills.artifacts.store import Scope
from openskills.cli.sessions import current_user
from openskills.settings import Settings
from openskills.sync import run
from tests.cli.command import Command
from tests.servers.s3 import CREDENTIALS, S3Server


@pytest.fixture(autouse=True)
def store(openskills: Command) -> FileArtifactStore:
    """The artifacts of a session named `mine`."""
    found = FileArtifactStore(openskills.home / ".local/state/openskills/artifacts")
    scope = Scope("cli", current_user(), "mine")
    for data in (b"# Old", b"# Report\n\x1b[2J"):
        run(found.put(scope, "out/report.md", data, mime_type="text/markdown"))
    run(found.put(scope, "out/chart.png", b"\x89PNG\0", mime_type="image/png"))
    return found


def test_the_latest_version_of_each_is_listed_or_all(openskills: Command) -> None:
    rows = [line.split("\t") for line in openskills("artifacts", "list", "mine").lines]
    assert [row[:3] for row in rows] == [
        ["artifact://out/chart.png@0", "5", "image/png"],
        ["artifact://out/report.md@1", "13", "text/markdown"],
    ]
    assert len(openskills("artifacts", "list", "mine", "--versions").lines) == 3
    found = openskills("artifacts", "list", "mine", "--json").json["artifacts"]
    fields = {"ref", "name", "version", "size_bytes", "mime_type", "sha256", "created_at"}
    assert [set(one) for one in found] == [fields, fields]


def test_a_session_without_artifacts_is_not_an_error(openskills: Command) -> None:
    ran = openskills("artifacts", "list", "other")
    assert (ran.code, ran.out, ran.err) == (0, "", "no artifacts in session other\n")
    assert openskills("artifacts", "list", "mine", "--user", "somebody").out == ""


def test_bytes_go_to_stdout_or_into_a_file(openskills: Command) -> None:
    ran = openskills("artifacts", "get", "mine", "artifact://out/report.md@0")
    assert (ran.code, ran.out, ran.err) == (0, "# Old", "")
    assert openskills("artifacts", "get", "mine", "out/report.md", "--to", "-").out == "# Report\n\x1b[2J"
    ran = openskills("artifacts", "get", "mine", "out/chart.png", "--to", ".")
    assert (ran.code, ran.out, ran.err) == (0, "", "artifact://out/chart.png@0: 5 bytes in chart.png\n")
    assert (openskills.cwd / "chart.png").read_bytes() == b"\x89PNG\0"
    told = openskills("artifacts", "get", "mine", "out/report.md", "--to", "copy.md", "--json").json
    assert (told["path"], told["version"], told["size_bytes"]) == ("copy.md", 1, 13)


def test_a_terminal_gets_escaped_text_and_no_binary_data(openskills: Command) -> None:
    assert "# Report\n\\x1b[2J" in openskills.on_terminal("artifacts", "get", "mine", "out/report.md").out
    ran = openskills.on_terminal("artifacts", "get", "mine", "out/chart.png")
    assert ran.code == 2
    assert "artifact://out/chart.png@0 is not text; choose a file with --to" in ran.out
    assert "artifact://out/chart.png@0" in openskills.on_terminal("artifacts", "list", "mine").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("out/nothing",), "unknown artifact 'out/nothing' in this session"),
        (("out/report.md@9",), "'out/report.md' has no version 9; it has 0 to 1"),
        (("../secret",), "leaves its directory"),
        (("out/report.md", "--json"), "choose a file with --to"),
        (("out/report.md", "--to", "no/such/place"), "cannot write no/such/place"),
    ],
)
def test_what_cannot_be_had_is_one_sentence(openskills: Command, arguments: tuple[str, ...], message: str) -> None:
    ran = openskills("artifacts", "get", "mine", *arguments)
    assert ran.code in (1, 2)
    assert (ran.out, len(ran.err.splitlines())) == ("", 1)
    assert message in ran.err


async def test_another_store_is_chosen_by_its_address(openskills: Command, s3_server: S3Server, tmp_path: Path) -> None:
    openskills.environment.update(CREDENTIALS)
    bucket = s3_server.url(s3_server.new_bucket(), "team")
    settings = Settings.from_env(s3_server.environment)
    for store in (bucket, f"file://{tmp_path}/elsewhere"):
        kept = open_artifact_store(store, settings)
        await kept.put(Scope("my-app", "u1", "s1"), "out/a.txt", b"from afar", mime_type="text/plain")
        whose = ("--app", "my-app", "--user", "u1", "--store", store)
        listed = openskills("artifacts", "list", "s1", *whose)
        assert listed.lines[0].split("\t")[:3] == ["artifact://out/a.txt@0", "9", "text/plain"]
        assert openskills("artifacts", "get", "s1", "out/a.txt", *whose).out == "from afar"
    ran = openskills("artifacts", "list", "s1", "--store", "ftp://host/place")
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert "s3://bucket/prefix" in ran.err
    gone = openskills("artifacts", "list", "s1", "--store", "s3://bucket?endpoint=http://127.0.0.1:1&region=x")
    assert (gone.code, len(gone.err.splitlines())) == (1, 1)


def test_what_a_chat_kept_in_another_store_is_found_and_deleted_there(openskills: Command, tmp_path: Path) -> None:
    place = f"file://{tmp_path}/elsewhere"
    (openskills.cwd / "a.txt").write_text("a")
    chat = ("chat", "--model", "rule", "--executor", "none", "--session", "far", "--artifact-store", place)
    assert openskills(*chat, "Keep @a.txt").code == 0
    assert openskills("artifacts", "list", "far").out == ""
    assert "uploads/a.txt" in openskills("artifacts", "list", "far", "--store", place).out
    ran = openskills("sessions", "delete", "far", "--artifacts", "--artifact-store", place, "--yes")
    assert ran.out == "deleted far, and 1 artifact\n"
    assert openskills("artifacts", "list", "far", "--store", place).out == ""
