"""`openskills doctor`: its output, exit codes, and what it reports about executors."""

import json
import re
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

from openskills.cli.doctor import DoctorCheck, run_checks
from openskills.settings import Settings
from tests.cli.command import Command
from tests.conftest import RequireProgram


def test_a_good_machine_is_exit_code_0_and_nothing_is_created(openskills: Command) -> None:
    ran = openskills("doctor")
    assert (ran.code, ran.err, ran.lines[-1]) == (0, "", "everything required is there")
    sections = [line for line in ran.lines if line and not line.startswith(" ")]
    assert sections[:-1] == ["basics", "sources", "directories", "watching", "extras", "models", "isolation"]
    assert not list(openskills.home.iterdir())


def test_json_names_every_check_and_extra(openskills: Command) -> None:
    answer = openskills("doctor", "--json").json
    assert answer["ok"] is True
    assert list(answer["checks"][0]) == ["section", "name", "ok", "detail", "required", "fix"]
    assert all(check["fix"] is None for check in answer["checks"] if check["ok"])
    declared = set(metadata("openskill-runtime").get_all("Provides-Extra") or ()) - {"dev"}
    assert {check["name"] for check in answer["checks"] if check["section"] == "extras"} == declared


def test_something_required_that_is_missing_is_exit_code_1(openskills: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    openskills.environment["OPENSKILL_CONFIG_DIR"] = str(tmp_path / "file")
    ran = openskills("doctor")
    assert ran.code == 1
    assert ran.lines[-1] == "something required is missing: configuration"
    assert any("fix: make " in line and "OPENSKILL_CONFIG_DIR" in line for line in ran.lines)
    assert openskills("doctor", "--json").json["ok"] is False


def test_a_foreign_program_of_our_name_is_a_warning(openskills: Command, tmp_path: Path) -> None:
    foreign = tmp_path / "bin" / "openskills"
    foreign.parent.mkdir()
    foreign.write_text("#!/bin/sh\necho foreign\n")
    foreign.chmod(0o755)
    openskills.environment["PATH"] = f"{foreign.parent}:/usr/bin:/bin"
    ran = openskills("doctor")
    assert (ran.code, ran.lines[-1]) == (0, "everything required is there")
    line = next(line for line in ran.lines if line.startswith("  warning command"))
    assert f"another program comes first on the PATH: {foreign}" in line


def test_another_distribution_of_the_same_package_is_a_warning(openskills: Command, tmp_path: Path) -> None:
    information = tmp_path / "site" / "open_skills-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: open-skills\nVersion: 1.0\n")
    (information / "top_level.txt").write_text("openskills\n")
    answer = replace(openskills, warm=None)("doctor", "--json", PYTHONPATH=str(tmp_path / "site")).json
    check = next(check for check in answer["checks"] if check["name"] == "package")
    assert (answer["ok"], check["ok"], check["detail"].endswith(": open-skills")) == (True, False, True)
    assert check["fix"].startswith("pip uninstall open-skills, then pip install")


def test_keys_are_reported_without_their_values(openskills: Command) -> None:
    ran = openskills("doctor", OPENAI_API_KEY="sk-very-secret", OLLAMA_HOST="127.0.0.1:9")
    assert "sk-very-secret" not in ran.out
    models = "\n".join(ran.lines).partition("\nmodels\n")[2]
    assert re.search(r"ok +OPENAI_API_KEY +set", models)
    assert re.search(r"absent +ANTHROPIC_API_KEY +not set", models)


class Models(BaseHTTPRequestHandler):
    """Lists two models, as Ollama, vLLM and llama.cpp do."""

    def do_GET(self) -> None:
        found = self.path == "/v1/models"
        body = json.dumps({"object": "list", "data": [{"id": "qwen3:8b"}, {"id": "llama4"}]} if found else {}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Print nothing."""


def test_local_models_are_listed_and_completed(openskills: Command) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Models) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        host = f"127.0.0.1:{server.server_address[1]}"
        line = next(line for line in openskills("doctor", OLLAMA_HOST=host).lines if "Ollama" in line)
        words = {"COMP_WORDS": "openskills chat --model ollama/q", "COMP_CWORD": "3", "OLLAMA_HOST": host}
        completing = replace(openskills, environment={"_OPENSKILLS_COMPLETE": "complete_bash", **words})
        completed = completing().out.split()
        server.shutdown()
    assert line.endswith(f"answers at http://{host}/v1: qwen3:8b, llama4")
    assert completed == ["ollama/qwen3:8b"]


def checks(openskills: Command) -> dict[str, dict[str, Any]]:
    found = openskills("doctor", "--json").json["checks"]
    return {check["name"]: check for check in found if check["section"] == "isolation"}


def test_a_sandbox_that_works_is_what_auto_chooses(openskills: Command, require_program: RequireProgram) -> None:
    require_program("bwrap")
    found = checks(openskills)
    assert found["sandbox"]["ok"]
    assert "self-test passed" in found["sandbox"]["detail"]
    assert found["chosen"]["detail"].startswith("auto: sandbox")
    assert not list(openskills.home.iterdir())


def test_a_sandbox_that_lets_things_out_is_found_out(openskills: Command, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "bwrap"
    fake.write_text('#!/bin/bash\nwhile [ "$1" != -- ] && [ $# -gt 0 ]; do shift; done; shift; exec "$@"\n')
    fake.chmod(0o755)
    openskills.environment["PATH"] = f"{tmp_path}/bin:/usr/bin:/bin"
    found = checks(openskills)
    assert not found["sandbox"]["ok"]
    assert found["sandbox"]["fix"]
    assert not found["chosen"]["ok"]
    assert "refused" in found["chosen"]["detail"]


def test_an_engine_that_does_not_answer_is_named(openskills: Command, tmp_path: Path) -> None:
    openskills.environment["DOCKER_HOST"] = f"unix://{tmp_path}/nobody.sock"
    container = checks(openskills)["container"]
    assert not container["ok"]
    assert "nobody.sock" in container["fix"] or "openskill-runtime[docker]" in container["fix"]


def test_local_is_chosen_only_when_it_was_allowed(openskills: Command) -> None:
    openskills.environment["OPENSKILL_EXECUTOR"] = "local"
    assert "no isolation" in checks(openskills)["chosen"]["detail"]


def found(tmp_path: Path, **variables: str) -> dict[str, DoctorCheck]:
    settings = Settings.from_env({"HOME": str(tmp_path), "PATH": str(tmp_path / "bin"), **variables})
    return {check.name: check for check in run_checks(settings)}


def test_programs_are_those_on_the_path_of_the_settings(tmp_path: Path) -> None:
    before = found(tmp_path)["git"]
    assert not before.ok
    assert before.fix == "on Debian: apt-get install git"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    after = found(tmp_path)["git"]
    assert after.ok
    assert after.detail.startswith(str(tmp_path / "bin" / "git"))


def test_a_directory_that_does_not_exist_yet_can_be_made(tmp_path: Path) -> None:
    check = found(tmp_path, OPENSKILL_CACHE_DIR=str(tmp_path / "a" / "b"))["cache"]
    assert (check.ok, check.required) == (True, True)
    assert not (tmp_path / "a").exists()


def test_a_file_in_the_way_of_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check = found(tmp_path, OPENSKILL_CACHE_DIR=str(tmp_path / "file" / "below"))["cache"]
    assert not check.ok
    assert str(tmp_path / "file") in check.detail
    assert "OPENSKILL_CACHE_DIR" in (check.fix or "")


def test_what_is_required_is_there_where_tests_run(tmp_path: Path) -> None:
    checked = found(tmp_path)
    assert all(check.ok for check in checked.values() if check.required)
    assert {"Python", "PyYAML", "libyaml", "httpx2", "watchfiles", "tokens"} <= set(checked)


def test_every_check_that_can_fail_says_what_to_do(tmp_path: Path) -> None:
    assert [name for name, check in found(tmp_path).items() if not check.ok and not check.fix] == []


def test_another_program_of_our_name_first_on_the_path_is_a_warning(tmp_path: Path) -> None:
    assert found(tmp_path)["command"].ok
    (tmp_path / "bin").mkdir()
    foreign = tmp_path / "bin" / "openskills"
    foreign.write_text("#!/bin/sh\n")
    foreign.chmod(0o755)
    check = found(tmp_path)["command"]
    assert (check.ok, check.required) == (False, False)
    assert f"comes first on the PATH: {foreign}" in check.detail
    assert "-m openskills" in (check.fix or "")


def test_a_link_to_our_command_is_ours(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "openskills").symlink_to(Path(sys.executable).parent / "openskills")
    assert found(tmp_path)["command"].ok


def test_it_says_whether_commands_have_cgroups_and_otherwise_why_and_what_to_do(openskills: Command) -> None:
    found = checks(openskills)["cgroup v2"]
    if found["ok"]:
        assert found["detail"].startswith("used: the kernel limits the memory of all processes")
    else:
        assert found["detail"].startswith("not used: ")
        assert "Delegate=yes" in found["fix"]
    assert not found["required"]
