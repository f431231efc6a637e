"""`run`: a command of a skill, from the shell."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from openskills.cli.run_execution import RunInputs
from tests.cli.command import Command
from tests.cli.ran import Ran
from tests.conftest import RequireProgram
from tests.skill_writer import WriteSkill

FIELDS = {
    *("stdout", "stderr", "exit_code", "timed_out", "duration_ms", "isolation", "output_files", "artifact_files"),
    *("warnings", "ending", "detail", "run_id", "skill_digest", "staged_inputs", "replayed"),
}


@pytest.fixture
def demo(openskills: Command, write_skill: WriteSkill, require_program: RequireProgram) -> Path:
    """A skill with a script, on a machine with bubblewrap."""
    del openskills  # makes the directory in which the skill is written
    require_program("bwrap")
    folder = write_skill("demo")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "hello.py").write_text("import sys; print('hello', *sys.argv[1:])\n")
    return folder


def run(openskills: Command, *arguments: str) -> Ran:
    return openskills("run", "demo", "--skills", "skills", *arguments)


@pytest.mark.usefixtures("demo")
def test_output_goes_to_stdout_and_the_summary_to_stderr(openskills: Command) -> None:
    ran = run(openskills, "--", "python3", "scripts/hello.py", "big  world")
    assert (ran.code, ran.out) == (0, "hello big  world\n")
    assert ran.err.startswith("done: exit code 0 after ")
    assert ran.err.endswith("; isolation: bubblewrap\n")


@pytest.mark.usefixtures("demo")
def test_one_word_is_given_to_bash_and_the_exit_status_is_the_commands(openskills: Command) -> None:
    ran = run(openskills, "--", "echo out; echo err >&2; exit 7")
    assert (ran.code, ran.out) == (7, "out\n")
    assert ran.err.splitlines()[0] == "err"
    assert "failed: exit code 7" in ran.err


@pytest.mark.usefixtures("demo")
def test_json_is_one_object_with_the_documented_fields(openskills: Command) -> None:
    ran = run(
        openskills,
        "--json",
        "--output",
        "out/**",
        "--",
        "echo hi; printf '\\x89PNG\\0' > out/p.png; echo t > out/t.txt",
    )
    answer = ran.json
    assert set(answer) == FIELDS
    assert (ran.code, answer["stdout"], answer["isolation"], ran.err) == (0, "hi\n", "bubblewrap", "")
    png, text = answer["output_files"]
    assert (png["name"], png["size_bytes"], "content" in png) == ("out/p.png", 5, False)
    assert (text["content"], text["ref"]) == ("t\n", "workspace://out/t.txt")
    assert [one["ref"] for one in answer["artifact_files"]] == ["artifact://out/p.png@0", "artifact://out/t.txt@0"]


@pytest.mark.usefixtures("demo")
def test_files_go_in_and_come_out(openskills: Command) -> None:
    (openskills.cwd / "data.csv").write_text("1\n2\n")
    ran = run(
        openskills,
        *("--input", "data.csv", "--input", "data.csv=work/again", "--output", "out/*", "--to", "results"),
        *("--", "cat inputs/data.csv work/again | wc -l > out/lines"),
    )
    assert ran.code == 0
    assert (openskills.cwd / "results" / "out" / "lines").read_text().strip() == "4"
    assert "artifact://out/lines@0" in ran.err


@pytest.mark.usefixtures("demo")
def test_files_that_a_command_writes_next_to_its_skill_are_collected_and_unmatched_patterns_are_named(
    openskills: Command,
) -> None:
    text = "mkdir unpacked && cp scripts/hello.py unpacked/a.py && echo '# more' >> unpacked/a.py"
    ran = run(openskills, "--output", "skills/demo/unpacked/*", "--output", "out/*.pdf", "--", text)
    assert ran.code == 0, ran.err
    assert "  skills/demo/unpacked/a.py  " in ran.err
    assert "warning: no new or changed file matches out/*.pdf" in ran.err


@pytest.mark.usefixtures("demo")
def test_an_input_keeps_the_name_that_the_person_gave(openskills: Command) -> None:
    (openskills.cwd / "a=b.txt").write_text("odd")
    (openskills.cwd / "real.txt").write_text("real")
    (openskills.cwd / "link.txt").symlink_to("real.txt")
    ran = run(openskills, "--input", "a=b.txt", "--input", "link.txt", "--", "cat inputs/a=b.txt inputs/link.txt")
    assert ran.out == "oddreal", ran.err


@pytest.mark.usefixtures("demo")
def test_a_workspace_is_gone_after_a_failure_too_and_json_says_what_failed(openskills: Command) -> None:
    ran = run(openskills, "--json", "--cwd", "nowhere", "--", "true")
    assert (ran.code, ran.json["error"]["reason"]) == (2, "INVALID_ARGUMENT")
    assert openskills("workspaces", "list", "--json").json == {"workspaces": []}


@pytest.mark.usefixtures("demo")
def test_a_deadline_ends_the_command(openskills: Command) -> None:
    ran = run(openskills, "--timeout", "0.5", "--", "echo begun; sleep 300")
    assert (ran.code, ran.out) == (143, "begun\n")
    assert "timed out after 0.5 s" in ran.err


@pytest.mark.usefixtures("demo")
def test_variables_and_secrets_arrive_and_nothing_else_does(openskills: Command) -> None:
    ran = run(
        Command(openskills.home, openskills.cwd, {"TOKEN": "sk-1", "UNASKED": "sk-2"}),
        *("--env", "A=b=c", "--secret", "TOKEN", "--", "echo $A ${#TOKEN} $TOKEN $UNASKED"),
    )
    assert ran.out == "b=c 4 ****\n"
    for path in openskills.home.rglob("*.jsonl"):
        assert "sk-1" not in path.read_text()


@pytest.mark.usefixtures("demo")
def test_what_is_piped_in_is_given_on_request(openskills: Command) -> None:
    done = subprocess.run(
        openskills.line(["run", "demo", "--skills", "skills", "--stdin", "--", "cat"]),
        cwd=openskills.cwd,
        env=openskills.variables({}),
        input=b"\x00\xffbytes",
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, b"\x00\xffbytes")


@pytest.mark.usefixtures("demo")
def test_a_workspace_is_gone_afterwards_unless_a_session_keeps_it(openskills: Command) -> None:
    run(openskills, "--", "echo x > work/note")
    assert openskills("workspaces", "list", "--json").json == {"workspaces": []}
    run(openskills, "--session", "mine", "--", "echo kept > work/note")
    assert run(openskills, "--session", "mine", "--", "cat work/note").out == "kept\n"
    (kept,) = openskills("workspaces", "list", "--json").json["workspaces"]
    assert kept["executor"] == "sandbox"


@pytest.mark.usefixtures("demo")
def test_local_warns_that_commands_are_not_isolated(openskills: Command) -> None:
    ran = run(openskills, "--executor", "local", "--", "true")
    assert (ran.code, "not isolated" in ran.err, "isolation: none" in ran.err) == (0, True, True)


@pytest.mark.usefixtures("demo")
def test_a_path_that_was_taken_as_the_command_is_named(openskills: Command) -> None:
    ran = openskills("run", "demo", "skills", "ls")
    assert ran.code == 2
    assert "without `--`, skills is the command; write: openskills run demo skills -- COMMAND" in ran.err


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--"], 2, "COMMAND: missing"),
        (["--timeout", "-1", "--", "true"], 2, "--timeout"),
        (["--env", "PATH=x", "--", "true"], 2, "PATH is set by the runtime"),
        (["--env", "x", "--", "true"], 2, "--env: invalid assignment 'x'"),
        (["--secret", "NOT_SET", "--", "true"], 2, "no value for NOT_SET"),
        (["--executor", "sandbx", "--", "true"], 2, "did you mean sandbox"),
        (["--input", "nowhere.csv", "--", "true"], 2, "'nowhere.csv' does not exist"),
        (["--input", "host:///etc/passwd", "--", "true"], 1, "OPENSKILL_HOST_ROOTS"),
        (["--input", "skills=../../x", "--", "true"], 1, "leaves its directory"),
        (["--output", "/etc/*", "--", "true"], 1, "absolute"),
        (["--cwd", "..", "--", "true"], 1, "leaves its directory"),
        (["--cwd", "nowhere", "--", "true"], 2, "cwd"),
    ],
)
def test_bad_usage_is_named_and_nothing_is_run(openskills: Command, arguments: list[str], code: int, said: str) -> None:
    ran = run(openskills, *arguments)
    assert (ran.code, ran.out) == (code, ""), ran.err
    assert said in ran.err


def test_an_unknown_skill_is_named(openskills: Command, write_skill: WriteSkill) -> None:
    write_skill("demo")
    ran = openskills("run", "demmo", "--skills", "skills", "--", "true")
    assert (ran.code, "did you mean 'demo'?" in ran.err) == (1, True)


@pytest.mark.usefixtures("demo")
def test_a_skill_may_be_named_by_its_folder(openskills: Command) -> None:
    assert openskills("run", "skills/demo", "--", "echo $SKILL_NAME").out == "demo\n"


def test_a_folder_of_several_skills_is_refused_with_their_names(openskills: Command, write_skill: WriteSkill) -> None:
    for name in ("alpha", "beta"):
        write_skill(name)
    for words in (("run", "./skills", "--", "touch ran"), ("doctor", "--skill", "./skills"), ("info", "./skills")):
        ran = openskills(*words)
        assert (ran.code, ran.out) == (2, ""), words
        assert "skills contains 2 skills (alpha, beta); choose one by its folder, such as skills/alpha" in ran.err
    ran = openskills("run", "skills/beta", "--executor", "local", "--", "echo $SKILL_NAME")
    assert (ran.code, ran.out) == (0, "beta\n")


@pytest.mark.usefixtures("demo")
def test_without_bubblewrap_nothing_runs_and_the_fix_is_named(openskills: Command, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "bwrap"
    fake.write_text("#!/bin/sh\necho no namespaces here >&2\nexit 1\n")
    fake.chmod(0o755)
    openskills.environment["PATH"] = f"{tmp_path}/bin:{os.defpath}"
    ran = run(openskills, "--", "echo", "ran")
    assert (ran.code, ran.out) == (1, "")
    assert "OPENSKILL_ALLOW_LOCAL=1" in ran.err
    allowed = Command(openskills.home, openskills.cwd, {**openskills.environment, "OPENSKILL_ALLOW_LOCAL": "1"})
    assert run(allowed, "--", "echo", "ran").out == "ran\n"


@pytest.mark.usefixtures("demo")
def test_a_policy_of_the_environment_holds(openskills: Command) -> None:
    openskills.environment["OPENSKILL_RUN_ALLOWED_COMMANDS"] = "ls"
    assert run(openskills, "--", "ls scripts").out == "hello.py\n"
    ran = run(openskills, "--", "ls; id")
    assert (ran.code, ran.out) == (1, "")


@pytest.mark.usefixtures("demo")
def test_an_interrupt_ends_the_command_with_everything_it_started(new_openskills: Command) -> None:
    process = subprocess.Popen(
        new_openskills.line(
            ["run", "demo", "--skills", "skills", "--executor", "local", "--", "echo $$; sleep 300 & wait"]
        ),
        cwd=new_openskills.cwd,
        env=new_openskills.variables({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout
    shell = int(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    process.stdout.close()
    deadline = time.monotonic() + 20
    while os.path.exists(f"/proc/{shell}") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{shell}")


@pytest.mark.usefixtures("demo")
def test_what_a_command_writes_cannot_command_the_terminal(openskills: Command) -> None:
    ran = openskills.on_terminal("run", "demo", "--skills", "skills", "--", "printf 'a\\033]52;c;aGk=\\007b\\tc\\n'")
    assert "\x1b]52" not in ran.out
    assert "a\\x1b]52;c;aGk=\\x07b" in ran.out


def test_secrets_are_not_in_the_representation_of_a_run() -> None:
    inputs = RunInputs(executor="auto", session="s", keep=False, live=True, secrets={"KEY": "hunter2"})
    assert "hunter2" not in repr(inputs)


@pytest.mark.usefixtures("demo")
def test_the_command_line_wins_over_the_project_file_which_wins_over_the_default(openskills: Command) -> None:
    (openskills.cwd / "openskills.toml").write_text(
        '[skills."*"]\nenvironment = { A = "all", B = "all" }\n'
        '[skills.demo]\nenvironment = { B = "demo", C = "demo" }\nsecrets = ["OWN"]\ntimeout = 0.5\n'
    )
    with_secrets = Command(openskills.home, openskills.cwd, {"OWN": "1234", "MORE": "12345"})
    ran = run(with_secrets, "--trust", "--env", "C=line", "--secret", "MORE", "--", "echo $A $B $C ${#OWN} ${#MORE}")
    assert ran.lines == ["all demo line 4 5"]
    assert "timed out after 0.5 s" in run(with_secrets, "--trust", "--", "sleep 60").err
    assert "timed out after 0.2 s" in run(with_secrets, "--trust", "--timeout", "0.2s", "--", "sleep 60").err


@pytest.fixture
def keyed(demo: Path) -> Path:
    """The skill declares a variable."""
    text = (demo / "SKILL.md").read_text()
    declared = 'metadata: {"openclaw": {"requires": {"env": ["DEMO_KEY"]}}}\n---\n'
    (demo / "SKILL.md").write_text(text.replace("---\n", "", 1).replace("---\n", declared, 1).join(["---\n", ""]))
    return demo


def audit_records(openskills: Command) -> list[tuple[object, ...]]:
    lines = (openskills.home / ".local/state/openskills/audit.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return [(one["skill"], one["secrets"], one["detail"]) for one in records if one["event"] == "grant"]


def test_a_declared_variable_is_asked_for_once_and_the_answer_lasts_until_the_skill_changes(
    openskills: Command, keyed: Path
) -> None:
    command = ("run", "demo", "--skills", "skills", "--", "echo key=${#DEMO_KEY}.")
    question = "needs the variable DEMO_KEY. Pass it on to its commands? [y/N]"
    ran = openskills.on_terminal(*command, replies={question: "y\n"}, DEMO_KEY="hunter2")
    assert "key=7." in ran.out
    ran = openskills.on_terminal(*command, DEMO_KEY="hunter2")
    assert ("key=7." in ran.out, question in ran.out) == (True, False)
    assert openskills(*command, DEMO_KEY="hunter2").out == "key=7.\n"

    (keyed / "scripts" / "hello.py").write_text("changed")
    ran = openskills(*command, DEMO_KEY="hunter2")
    assert (ran.out, "demo needs DEMO_KEY, which was not granted; allow it with --secret DEMO_KEY" in ran.err) == (
        "key=0.\n",
        True,
    )
    ran = openskills.on_terminal(*command, replies={question: "n\n"}, DEMO_KEY="hunter2")
    assert "key=0." in ran.out
    ran = openskills.on_terminal(*command, DEMO_KEY="hunter2")
    assert ("key=0." in ran.out, question in ran.out) == (True, False)
    assert "demo needs DEMO_KEY, which you refused; allow it with --secret DEMO_KEY" in ran.out
    assert audit_records(openskills) == [
        ("demo", ["DEMO_KEY"], "granted by the user"),
        ("demo", ["DEMO_KEY"], "not granted: nobody to ask"),
        ("demo", ["DEMO_KEY"], "refused by the user"),
    ]
    for path in openskills.home.rglob("*"):
        assert not path.is_file() or b"hunter2" not in path.read_bytes()


@pytest.mark.usefixtures("keyed")
def test_an_option_grants_a_declared_variable_without_a_question(openskills: Command) -> None:
    command = ("run", "demo", "--skills", "skills", "--secret", "DEMO_KEY", "--", "echo key=${#DEMO_KEY}.")
    ran = openskills.on_terminal(*command, DEMO_KEY="hunter2")
    assert ("key=7." in ran.out, "Pass it on" in ran.out) == (True, False)
    ran = openskills.on_terminal("run", "demo", "--skills", "skills", "--json", "--", "true", DEMO_KEY="hunter2")
    assert "Pass it on" not in ran.out


@pytest.mark.usefixtures("keyed")
def test_a_list_of_answers_that_others_can_write_is_refused(openskills: Command) -> None:
    state = openskills.home / ".local/state/openskills/grants"
    state.mkdir(parents=True)
    (state / "secrets.json").write_text('{"places": {}}')
    (state / "secrets.json").chmod(0o666)
    ran = run(Command(openskills.home, openskills.cwd, {"DEMO_KEY": "x"}), "--", "true")
    assert (ran.code, "secrets.json: other users can write to" in ran.err) == (2, True)
