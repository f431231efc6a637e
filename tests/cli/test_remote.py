"""`openskills push`, `pull` and `versions` against a real host."""

import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.host.hosting import Served
from tests.host.vendors.uploading import PUBLISHER, WRITER, key_in, skill_files, uploading_host


@pytest.fixture
def host(tmp_path: Path, openskills: Command) -> Iterator[Served]:
    directory = tmp_path / "host"
    directory.mkdir()
    openskills.environment["OPENSKILL_API_KEY"] = key_in(directory, "ada", scopes=WRITER)
    openskills.environment["EDITOR_KEY"] = key_in(directory, "editor", scopes=PUBLISHER)
    openskills.environment["ADMIN_KEY"] = key_in(directory, "ops", role="admin")
    openskills.environment["READER_KEY"] = key_in(directory, "reader", scopes=("*",))
    with uploading_host(directory) as one:
        openskills.environment["OPENSKILL_HTTP_BASE_URL"] = one.url
        yield one


def write(folder: Path, **about: str) -> Path:
    for path, data in skill_files(**about).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def test_a_folder_is_pushed_changed_and_pulled(openskills: Command, host: Served) -> None:
    folder = write(openskills.cwd / "greeter")
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("secret")
    first = openskills("push", folder)
    assert (first.code, first.out.startswith("uploaded greeter version 1 (skill_")) == (0, True)
    again = openskills("push", folder, "--json").json
    assert (again["version"], again["uploaded"]) == ("1", False)
    write(folder, word="Moin")
    second = openskills("push", folder, "--json").json
    assert (second["version"], second["uploaded"], second["skill_id"]) == ("2", True, again["skill_id"])
    headers = {"Authorization": f"Bearer {openskills.environment['OPENSKILL_API_KEY']}"}
    assert host.invoke("greeter", {"name": "A"}, headers=headers).json()["data"] == {"greeting": "Moin A"}
    listed = [line.split("\t") for line in openskills("versions", "greeter").lines]
    assert [(one[0], one[1]) for one in listed] == [("2", "default"), ("1", "")]
    assert listed[0][3] == second["digest"]
    assert openskills("versions", second["skill_id"], "--json").json["skill"]["name"] == "greeter"

    pulled = openskills("pull", "greeter", "--into", "copies", "--version", "1", "--json").json
    copy = openskills.cwd / pulled["path"]
    assert b"Hello" in (copy / "scripts/invoke.py").read_bytes()
    assert not (copy / ".git").exists()
    # A copy of version 1 is replaced by version 2 without asking.
    assert openskills("pull", "greeter", "--into", "copies").code == 0
    assert b"Moin" in (copy / "scripts/invoke.py").read_bytes()
    (copy / "notes.txt").write_text("mine")
    refused = openskills("pull", "greeter", "--into", "copies")
    assert (refused.code, "notes.txt" in refused.err, "--force" in refused.err) == (2, True, True)
    assert (copy / "notes.txt").read_text() == "mine"
    assert openskills("pull", "greeter", "--into", "copies", "--force").code == 0
    assert sorted(path.name for path in copy.rglob("*") if path.is_file()) == ["SKILL.md", "invoke.py"]
    assert [path.name for path in copy.parent.iterdir()] == ["greeter"]


def test_errors_say_what_to_do(openskills: Command, host: Served) -> None:
    folder = write(openskills.cwd / "greeter")
    refused = openskills("push", folder, OPENSKILL_API_KEY=openskills.environment["READER_KEY"])
    assert (refused.code, "skills:write" in refused.err) == (1, True)
    refused = openskills("push", folder, OPENSKILL_API_KEY="osk_wrong")
    assert (refused.code, "OPENSKILL_API_KEY" in refused.err) == (1, True)
    assert "unknown skill 'greter'" in openskills("pull", "greter").err
    openskills("push", folder)
    assert "did you mean 'greeter'" in openskills("versions", "greter").err
    missing = openskills("pull", "greeter", "--version", "7")
    assert (missing.code, "unknown version '7'" in missing.err) == (1, True)
    assert openskills("pull", "greeter", "--version", "../../x").code == 1
    assert openskills("push", "nowhere").code == 2
    assert openskills("push", folder, "--url", "ftp://x").code == 2
    (folder / "SKILL.md").write_text("---\nname: Greeter\n---\n")
    broken = openskills("push", folder)
    assert (broken.code, "openskills validate" in broken.err) == (1, True)
    nobody = openskills("versions", "greeter", "--url", "http://127.0.0.1:9")
    assert (nobody.code, "openskills serve" in nobody.err) == (1, True)


def test_a_private_skill_is_pulled_rather_than_a_shared_one(openskills: Command, host: Served) -> None:
    assert host.url
    openskills("push", write(openskills.cwd / "greeter", word="Mine"))
    editor = openskills.environment["EDITOR_KEY"]
    openskills("push", write(openskills.cwd / "greeter", word="Ours"), OPENSKILL_API_KEY=editor)
    openskills("pull", "greeter", "--into", "a")
    assert b"Mine" in (openskills.cwd / "a/greeter/scripts/invoke.py").read_bytes()
    openskills("pull", "greeter", "--into", "b", OPENSKILL_API_KEY=editor)
    assert b"Ours" in (openskills.cwd / "b/greeter/scripts/invoke.py").read_bytes()


@pytest.mark.usefixtures("host")
def test_a_host_reloads_its_skills_for_an_admin_only(openskills: Command) -> None:
    refused = openskills("console", "reload")
    assert (refused.code, "role admin" in refused.err) == (1, True)
    ran = openskills("console", "reload", OPENSKILL_API_KEY=openskills.environment["ADMIN_KEY"])
    assert (ran.code, ran.out) == (0, "reloaded: no changes\n"), ran.err


@pytest.mark.parametrize(
    ("status", "body", "encoding", "message"),
    [
        (404, b'{"detail": "Not Found"}', "", "is it a skill host?"),
        (200, b"[1]", "", "did not answer with a JSON object; is it a skill host?"),
        (200, b"{}", "gzip", "cannot connect to a skill host"),
    ],
)
def test_a_server_that_is_not_a_skill_host_is_an_error(
    openskills: Command, status: int, body: bytes, encoding: str, message: str
) -> None:
    class Other(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the library
            pass

        def do_GET(self) -> None:
            self.send_response(status)
            if encoding:
                self.send_header("Content-Encoding", encoding)
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, args=(0.02,), daemon=True).start()
        for command in (("versions", "x"), ("pull", "x"), ("console", "reload")):
            ran = openskills(*command, "--url", f"http://127.0.0.1:{other.server_address[1]}")
            assert ran.code == 1
            assert message in ran.err
        other.shutdown()
