"""A command sees the documented variables and nothing else; what a caller may add is checked.

A command that opens an editor finds its text written, by a real shell and a real script.
"""

import os
import subprocess
from pathlib import Path

import pytest

from openskills.errors import InvalidArgument, LimitExceeded
from openskills.executors.environment import (
    MAX_EDITOR_TEXT,
    MAX_TOTAL,
    MAX_VALUE,
    MAX_VARIABLES,
    EditorFiles,
    build_editor_files,
    build_environment,
    check_env,
    resolve_secrets,
)
from openskills.executors.spec import Command, PackageEnvironment, TerminalSize

PATH = ("/usr/bin", "/bin")


def test_a_command_of_a_skill_sees_exactly_the_documented_variables() -> None:
    assert build_environment(
        "/workspace", Command(("x",), skill="pdf", run_dir="runs/1"), path=PATH, home="/home/user", venv=True
    ) == {
        "WORKSPACE_DIR": "/workspace",
        "SKILLS_DIR": "/workspace/skills",
        "WORK_DIR": "/workspace/work",
        "OUTPUT_DIR": "/workspace/out",
        "RUN_DIR": "/workspace/runs/1",
        "SKILL_NAME": "pdf",
        "PATH": "/workspace/skills/pdf/.venv/bin:/usr/bin:/bin:/workspace/skills/pdf/bin",
        "VIRTUAL_ENV": "/workspace/skills/pdf/.venv",
        "HOME": "/home/user",
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
    }


def test_without_a_skill_there_is_nothing_of_one() -> None:
    found = build_environment("/w", Command(("x",)), path=PATH, home="/h", venv=True)
    assert (found["PATH"], found["TMPDIR"]) == ("/usr/bin:/bin", "/tmp")
    assert not {"SKILL_NAME", "VIRTUAL_ENV", "TERM"} & set(found)


def test_a_terminal_has_a_type() -> None:
    command = Command(("x",), terminal=TerminalSize())
    assert build_environment("/w", command, path=PATH, home="/h")["TERM"] == "xterm-256color"


def test_what_the_runtime_owns_wins_then_packages_then_secrets_then_the_caller() -> None:
    command = Command(
        ("x",),
        env={"A": "caller", "B": "caller", "C": "caller", "HOME": "caller", "LANG": "de_DE.UTF-8"},
        secrets={"B": "secret", "C": "secret", "PATH": "secret"},
        packages=PackageEnvironment(variables=(("C", "package"), ("RUN_DIR", "package"))),
    )
    found = build_environment("/w", command, path=PATH, home="/h")
    assert (found["A"], found["B"], found["C"]) == ("caller", "secret", "package")
    assert (found["HOME"], found["PATH"], found["RUN_DIR"]) == ("/h", "/usr/bin:/bin", "/w/runs/run")
    assert found["LANG"] == "de_DE.UTF-8"


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("WORKSPACE_DIR", "SKILLS_DIR", "WORK_DIR", "OUTPUT_DIR", "RUN_DIR", "SKILL_NAME"), "is set by the runtime"),
        (("PATH", "HOME", "TMPDIR", "VIRTUAL_ENV", "OPENSKILL_RUN", "OPENSKILL_"), "is set by the runtime"),
        (("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "GCONV_PATH"), "which code programs"),
        (
            ("PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONINSPECT", "NODE_OPTIONS", "PERL5OPT"),
            "which code programs",
        ),
        (
            ("PERL5LIB", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS", "OPENSSL_CONF", "GLIBC_TUNABLES"),
            "which code programs",
        ),
        (("BASH_ENV", "ENV", "PROMPT_COMMAND", "SHELL", "BASH_FUNC_x%%", "GIT_SSH_COMMAND"), "makes other programs"),
        (("GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "LESSOPEN", "PAGER"), "makes other programs start"),
        (("PS4", "SHELLOPTS", "BASHOPTS", "IFS", "CDPATH", "GLOBIGNORE"), "changes how a shell reads"),
        (("HTTP_PROXY", "https_proxy", "ALL_PROXY", "no_proxy"), "is set by the executor"),
    ],
)
def test_names_that_a_caller_may_not_set_are_refused_with_the_reason(names: tuple[str, ...], why: str) -> None:
    for name in names:
        with pytest.raises(InvalidArgument, match=f"^env: {name} .*{why}"):
            check_env({"OK": "1", name: "x"})


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "A=B", "A\0", "Ä", "A\n", "A" * 300])
def test_what_is_not_a_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="invalid variable name"):
        check_env({name: "x"})


@pytest.mark.parametrize(("value", "why"), [("a\0b", "NUL byte"), ("\ud800", "lone surrogate")])
def test_what_no_variable_can_hold_is_refused_without_showing_it(value: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^secrets: NAME contains .*{why}"):
        check_env({"NAME": value}, "secrets")


def test_ordinary_variables_pass_as_they_are() -> None:
    env = {"LANG": "de", "TZ": "UTC", "env": "prod", "Path": "x", "EDITOR": "vi", "_X1": "", "A": "ü\n$(id)"}
    assert check_env(env) == env


def test_too_much_is_refused_with_the_number() -> None:
    check_env({f"A{number}": "" for number in range(MAX_VARIABLES)})
    with pytest.raises(LimitExceeded, match="env: 257 variables exceed the limit of 256"):
        check_env({f"A{number}": "" for number in range(MAX_VARIABLES + 1)})
    check_env({"A": "x" * MAX_VALUE})
    with pytest.raises(LimitExceeded, match="env: A has 98,305 bytes, the limit is 98,304; use a file"):
        check_env({"A": "x" * (MAX_VALUE + 1)})
    many = {f"A{number}": "x" * MAX_VALUE for number in range(MAX_TOTAL // MAX_VALUE + 1)}
    with pytest.raises(LimitExceeded, match="bytes in total exceed the limit"):
        check_env(many)


def test_declared_secrets_are_taken_from_what_is_given() -> None:
    values = {"API_KEY": "k", "OTHER": "o", "TOKEN": "t"}
    assert resolve_secrets(["TOKEN", "API_KEY", "TOKEN"], values) == {"API_KEY": "k", "TOKEN": "t"}
    assert resolve_secrets([], values) == {}


def test_secrets_without_a_value_are_all_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "from the process")
    with pytest.raises(InvalidArgument, match="secrets: no value for API_KEY, TOKEN; set it in the runtime"):
        resolve_secrets(["TOKEN", "API_KEY"], {"TOKEN": ""})
    with pytest.raises(InvalidArgument, match="secrets: no value for API_KEY;"):
        resolve_secrets(["API_KEY"], {})


def test_a_secret_may_not_have_a_name_that_changes_programs() -> None:
    with pytest.raises(InvalidArgument, match="secrets: LD_PRELOAD changes which code"):
        resolve_secrets(["LD_PRELOAD"], {"LD_PRELOAD": "/tmp/x.so"})


TEXT = "first line\n$(id) `id` ' \" \\ %s\nno end of line: ü"


def placed(root: Path, text: str = TEXT, run: str = "run 1") -> EditorFiles:
    """The files as an executor would put them."""
    made = build_editor_files(text, root=str(root), run=run, env={})
    for path, data, mode in ((made.text_path, made.text, 0o600), (made.script_path, made.script, 0o700)):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
        (root / path).chmod(mode)
    return made


def edit(made: EditorFiles, *arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Call the editor as git does."""
    command = ["sh", "-c", f'{made.env["EDITOR"]} "$@"', "editor", *arguments]
    return subprocess.run(command, cwd=cwd, env={"PATH": os.defpath}, capture_output=True, text=True)


@pytest.mark.parametrize("name", ["plain", "with blank", 'it\'s "quoted" $HOME', "ünï;code"])
def test_the_last_argument_gets_the_text_wherever_the_workspace_lies(name: str, tmp_path: Path) -> None:
    root = tmp_path / name
    made = placed(root)
    assert made.env["EDITOR"] == made.env["VISUAL"]
    target = root / "the file to edit"
    target.write_text("old content that is much longer than the new one " * 20)
    done = edit(made, "+10", "--wait", str(target), cwd=root)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert target.read_text() == TEXT


def test_a_target_that_looks_like_an_option_or_is_new_is_written(tmp_path: Path) -> None:
    made = placed(tmp_path)
    assert edit(made, "-n", cwd=tmp_path).returncode == 0
    assert (tmp_path / "-n").read_text() == TEXT


def test_without_a_target_the_editor_fails(tmp_path: Path) -> None:
    done = edit(placed(tmp_path), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "editor: no file to write to\n")


def test_calls_at_the_same_time_do_not_share_anything(tmp_path: Path) -> None:
    first, second = placed(tmp_path, "one", "1"), placed(tmp_path, "two", "2")
    for made, name in ((first, "a"), (second, "b")):
        assert edit(made, name, cwd=tmp_path).returncode == 0
    assert ((tmp_path / "a").read_text(), (tmp_path / "b").read_text()) == ("one", "two")
    assert (first.text_path, first.script_path) == ("skills/.editor/1/text", "skills/.editor/1/write")


@pytest.mark.parametrize("name", ["EDITOR", "VISUAL"])
def test_an_editor_of_the_callers_own_is_a_contradiction(name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"editor_text: cannot be combined with {name} in env"):
        build_editor_files("x", root="/w", run="1", env={name: "vi"})


@pytest.mark.parametrize(("text", "why"), [("a\0b", "NUL byte"), ("\ud800", "lone surrogate")])
def test_what_is_not_text_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        build_editor_files(text, root="/w", run="1", env={})


def test_more_than_a_mebibyte_is_refused() -> None:
    assert len(build_editor_files("x" * MAX_EDITOR_TEXT, root="/w", run="1", env={}).text) == MAX_EDITOR_TEXT
    with pytest.raises(LimitExceeded, match="editor_text: 1,048,578 bytes exceed the limit of 1,048,576"):
        build_editor_files("ü" * (MAX_EDITOR_TEXT // 2 + 1), root="/w", run="1", env={})
