"""`openskills mcp`: the server over stdio, and the configurations of clients, which lose nothing."""

import json
import os
import signal
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from openskills.cli.mcp_config import CLIENTS, ServerEntry, find_config_file, merge_config, render_config
from openskills.errors import InvalidArgument
from openskills.settings import Settings
from tests.cli.command import Command
from tests.host.hosting import eventually
from tests.skill_writer import WriteSkill

ENTRY = ServerEntry("openskills", ("openskills", "mcp", "skills"))
ENVELOPE: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
FILES = {"claude": ".mcp.json", "vscode": ".vscode/mcp.json", "cursor": ".cursor/mcp.json"}


def test_the_printed_configuration_of_every_client_starts_a_server(
    openskills: Command, write_skill: WriteSkill
) -> None:
    write_skill("report")
    commands: set[tuple[str, ...]] = set()
    for client in CLIENTS:
        done = openskills("mcp", "skills", "--executor", "none", "--print-config", client)
        assert done.code == 0, done.err
        if client == "codex":
            entry = tomllib.loads(done.out)["mcp_servers"]["openskills"]
        else:
            entry = json.loads(done.out)["servers" if client == "vscode" else "mcpServers"]["openskills"]
        commands.add((entry["command"], *entry["args"]))
    # Many of them start the same one.
    for command in commands:
        check_server(command, openskills)


def check_server(command: tuple[str, ...], openskills: Command) -> None:
    """Start it as a client would, and ask for its tools."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}
    with subprocess.Popen(
        command, cwd=openskills.cwd, env=openskills.variables({}), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(asked).encode() + b"\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        server.stdin.close()
        assert server.wait(60) == 0
    assert "skill_load" in {tool["name"] for tool in answer["result"]["tools"]}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_remote_host_is_configured_with_its_key_by_name(openskills: Command, client: str) -> None:
    done = openskills("mcp", "--print-config", client, "--url", "https://skills.example.com/mcp")
    assert done.code == 0
    assert "https://skills.example.com/mcp" in done.out
    assert "OPENSKILL_API_KEY" in done.out
    local = openskills("mcp", "--print-config", client, "--url", "http://127.0.0.1:8000/mcp")
    assert "OPENSKILL_API_KEY" not in local.out
    # Another machine whose name only begins like that of this one.
    other = openskills("mcp", "--print-config", client, "--url", "http://localhost.example.com/mcp")
    assert "OPENSKILL_API_KEY" in other.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--print-config", "emacs"], "'emacs' is not one of claude, codex, vscode, cursor"),
        (["--tools", "all"], "'all' is not one of session, hosted, both"),
        (["--profile", "x"], "'x' is not one of full, knowledge_only"),
        (["--url", "https://x/mcp"], "--url: needs --print-config or --install"),
        (["--print-config", "claude", "--url", "ftp://x"], "is not a URL"),
        (["skills", "--print-config", "claude", "--url", "https://x/mcp"], "cannot be combined"),
        (["nowhere"], "no usable skill in nowhere"),
    ],
)
def test_wrong_usage_is_explained(openskills: Command, arguments: list[str], message: str) -> None:
    done = openskills("mcp", *arguments)
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize("client", list(FILES))
def test_installing_keeps_everything_that_the_file_has(openskills: Command, client: str) -> None:
    path = openskills.cwd / FILES[client]
    path.parent.mkdir(exist_ok=True)
    section = "servers" if client == "vscode" else "mcpServers"
    before: dict[str, Any] = {"z": [1, {"ü": None}], section: {"other": {"command": "x"}}, "a": 1.5}
    path.write_text(json.dumps(before, indent=4, ensure_ascii=False))
    path.chmod(0o640)
    done = openskills("mcp", "skills", "--install", client, "--yes")
    assert done.code == 0, done.err
    after = json.loads(path.read_text())
    assert after[section].pop("openskills")["args"][-2:] == ["mcp", "skills"]
    assert after == before
    assert list(after) == list(before)
    assert '    "z"' in path.read_text()
    assert "ü" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    again = openskills("mcp", "skills", "--install", client, "--yes")
    assert "has this server already" in again.err


def test_installing_for_codex_keeps_comments_and_replaces_only_its_own_table(openskills: Command) -> None:
    path = openskills.home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(
        '# mine\nmodel = "x" # keep\n\n[mcp_servers.openskills]\ncommand = "old"\nargs = [\n  "a",\n]\n\n'
        '# about the other\n[mcp_servers.other]\ncommand = "o"\n'
    )
    done = openskills("mcp", "--install", "codex", "--yes")
    assert done.code == 0, done.err
    assert "it replaces the entry 'openskills'" in done.err
    text = path.read_text()
    assert tomllib.loads(text)["mcp_servers"]["openskills"]["args"][-1] == "mcp"
    assert tomllib.loads(text)["mcp_servers"]["other"] == {"command": "o"}
    assert text.startswith('# mine\nmodel = "x" # keep\n')
    assert "# about the other\n[mcp_servers.other]" in text
    assert "old" not in text


@pytest.mark.parametrize(
    ("client", "text", "message"),
    [
        ("claude", '{"mcpServers": {} // comment\n}', "is not plain JSON"),
        ("claude", '{"a": 1, "a": 2}', "a key occurs twice"),
        ("claude", "[]", "does not have the expected form"),
        ("vscode", '{"servers": []}', "does not have the expected form"),
        ("cursor", "\ufeff{}", "is not plain JSON"),
        ("codex", "x =", "is not valid TOML"),
        ("codex", "mcp_servers = 1", "does not have the expected form"),
        ("codex", "mcp_servers = {a = {command = 'x'}}", "cannot be changed safely"),
        ("codex", "[mcp_servers]\nopenskills = {command = 'x'}", "cannot be changed safely"),
    ],
)
def test_a_file_that_cannot_be_merged_is_left_alone(tmp_path: Path, client: str, text: str, message: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match=message):
        merge_config(client, ENTRY, path)
    assert path.read_text() == text


def test_a_file_that_changed_while_the_user_was_asked_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text("{}")
    change = merge_config("claude", ENTRY, path)
    path.write_text('{"new": 1}')
    with pytest.raises(InvalidArgument, match="was changed by another program"):
        change.write()
    assert path.read_text() == '{"new": 1}'


def test_a_linked_file_stays_a_link_and_an_empty_one_is_filled(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / ".mcp.json"
    real.write_text(" \n")
    link.symlink_to(real)
    merge_config("claude", ENTRY, link).write()
    assert link.is_symlink()
    assert real.read_text() == render_config("claude", ENTRY)


def test_the_file_of_codex_is_where_its_variable_says(tmp_path: Path) -> None:
    settings = Settings.from_env({"HOME": str(tmp_path), "CODEX_HOME": str(tmp_path / "c")})
    assert find_config_file("codex", settings, tmp_path) == tmp_path / "c" / "config.toml"


def test_nothing_is_written_without_consent(openskills: Command) -> None:
    refused = openskills("mcp", "--install", "claude")
    assert refused.code == 2
    assert "use --yes" in refused.err
    denied = openskills.on_terminal("mcp", "--install", "claude", replies={"Write it?": "n\n"})
    assert denied.code == 1
    assert not (openskills.cwd / ".mcp.json").exists()
    agreed = openskills.on_terminal("mcp", "--install", "claude", replies={"Write it?": "y\n"})
    assert agreed.code == 0
    assert (openskills.cwd / ".mcp.json").exists()


def test_a_server_that_is_terminated_kills_its_commands(
    new_openskills: Command, write_skill: WriteSkill, tmp_path: Path
) -> None:
    write_skill("report")
    path = tmp_path / "pid"
    line = [sys.executable, "-m", "openskills", "mcp", "skills", "--executor", "local"]
    env = new_openskills.variables({"OPENSKILL_ALLOW_LOCAL": "1"})
    command = f"echo $$ > {path}.new; mv {path}.new {path}; sleep 600"
    calls = [("skill_load", {"skill": "report"}), ("skill_run", {"skill": "report", "command": command})]
    with subprocess.Popen(
        line, cwd=new_openskills.cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for number, (name, arguments) in enumerate(calls):
            params = {"name": name, "arguments": arguments, "_meta": ENVELOPE}
            asked = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            server.stdin.write(json.dumps(asked).encode() + b"\n")
            server.stdin.flush()
            if name == "skill_load":
                assert b"loaded: report" in server.stdout.readline()
        eventually(path.exists, 60)
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    eventually(lambda: not os.path.exists(f"/proc/{path.read_text().strip()}"), 60)


def test_hosted_skills_are_tools_over_stdio(new_openskills: Command) -> None:
    folder = new_openskills.cwd / "skills_cli"
    folder.mkdir()
    (folder / "echo.py").write_text(
        "import json, sys\nprint(json.dumps({'success': True, 'data': json.load(sys.stdin)['input']}))\n"
    )
    line = [sys.executable, "-m", "openskills", "mcp", "--tools", "hosted"]
    env = new_openskills.variables({"OPENSKILL_ALLOW_LOCAL": "1", "OPENSKILL_EXECUTOR": "local"})
    params = {"name": "echo", "arguments": {"text": "hi"}, "_meta": ENVELOPE}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    with subprocess.Popen(
        line, cwd=new_openskills.cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(asked).encode() + b"\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        server.stdin.close()
        assert server.wait(60) == 0
    assert answer["result"]["structuredContent"] == {"text": "hi"}


def test_without_the_extra_the_command_names_it(new_openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("report")
    (new_openskills.cwd / "mcp.py").write_text("raise ModuleNotFoundError(name='mcp')")
    done = new_openskills("mcp", "skills", "--executor", "none", PYTHONPATH=str(new_openskills.cwd))
    assert done.code == 1
    assert "pip install 'openskill-runtime[mcp]'" in done.err
