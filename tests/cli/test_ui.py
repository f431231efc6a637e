"""`openskills ui` and `openskills console`, as processes."""

import re
import signal
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from tests.cli.command import Command
from tests.host.host_process import is_ready, variables
from tests.host.hosting import eventually
from tests.servers.warm_openskills import WarmProcess, start_openskills
from tests.skill_writer import skill_writer


@contextmanager
def ui_process(directory: Path, *arguments: str) -> Generator[tuple[WarmProcess, str]]:
    """The process, and the address that it printed."""
    output, errors = directory / "out.txt", directory / "err.txt"
    with output.open("wb") as out, errors.open("wb") as err:
        env = variables(directory)
        process = start_openskills("ui", *arguments, cwd=directory, env=env, stdout=out.fileno(), stderr=err.fileno())
    try:
        eventually(lambda: b"\n" in output.read_bytes() or process.poll() is not None, 60)
        assert process.poll() is None, errors.read_text()
        link = output.read_text().strip()
        with httpx2.Client(verify=False, base_url=link.partition("/?")[0]) as client:
            eventually(lambda: is_ready(client), 60)
        yield process, link
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)


def test_ui_prints_a_link_that_opens_the_skills_of_a_folder_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    skill_writer(tmp_path, "skills")("my-skill", "Does what this test wants.")
    skill_writer(tmp_path, "more")("other-skill", "Does what another test wants.")
    with ui_process(tmp_path, "skills", "--skills", "more", "--port", "0") as (process, link):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", link)
        with httpx2.Client(verify=False, follow_redirects=True) as client:
            page = client.get(link)
            assert page.status_code == 200
            assert "token" not in str(page.url)
            assert "my-skill" in page.text
            assert "other-skill" in page.text
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert "stopped" in (tmp_path / "err.txt").read_text()


def test_ui_takes_a_free_port_if_the_usual_one_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 8000))
            taken.listen()
        except OSError:
            pass  # somebody else has it, which is as good
        with ui_process(tmp_path) as (_, link):
            assert "127.0.0.1:8000/" not in link


def test_links_and_sessions_can_be_managed_from_the_command_line(openskills: Command) -> None:
    first, second = (openskills("console", "link", "--url", "http://127.0.0.1:9/").out.strip() for _ in range(2))
    assert first.startswith("http://127.0.0.1:9/?token=")
    assert first != second
    assert openskills("console", "sessions", "--json").json == {"sessions": []}
    ended = openskills("console", "end", "nothing")
    assert (ended.code, "unknown session" in ended.err) == (2, True)
    unreachable = openskills("console", "reload", "--url", "http://127.0.0.1:9")
    assert (unreachable.code, "cannot connect to a skill host at http://127.0.0.1:9" in unreachable.err) == (1, True)


def test_a_port_that_is_asked_for_and_taken_is_an_error(openskills: Command) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ran = openskills("ui", "--port", str(taken.getsockname()[1]))
    assert (ran.code, "is in use" in ran.err) == (2, True)


def test_a_rotated_key_keeps_its_properties(openskills: Command) -> None:
    openskills("keys", "new", "ci", "--role", "admin", "--scope", "echo", "--limit", "rate=2")
    ran = openskills("keys", "rotate", "ci", "--json")
    assert (ran.json["role"], ran.json["scopes"], ran.json["rate_per_second"]) == ("admin", ["echo"], 2)
    scoped = openskills("keys", "scope", "ci", "file_*", "echo", "--json")
    assert (scoped.json["role"], scoped.json["scopes"]) == ("admin", ["file_*", "echo"])
    assert openskills("keys", "scope", "ci", "NO SPACES").code == 2
    unknown = openskills("keys", "rotate", "nobody")
    assert (unknown.code, "unknown key 'nobody'" in unknown.err) == (2, True)
    wrong = openskills("keys", "new", "x", "--role", "root")
    assert (wrong.code, "read, run, admin" in wrong.err) == (2, True)
