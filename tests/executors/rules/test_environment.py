"""A command sees the documented variables and nothing else; what a caller may add is checked."""

import pytest

from openskills.errors import InvalidArgument, LimitExceeded
from openskills.executors.rules.environment import (
    MAX_TOTAL,
    MAX_VALUE,
    MAX_VARIABLES,
    checked_env,
    command_environment,
    redacted,
    resolve_secrets,
)
from openskills.executors.spec import Command, Terminal

PATH = ("/usr/bin", "/bin")


def test_a_command_of_a_skill_sees_exactly_the_documented_variables() -> None:
    assert command_environment(
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
    found = command_environment("/w", Command(("x",)), path=PATH, home="/h", venv=True, tmp="/w/tmp")
    assert (found["PATH"], found["TMPDIR"]) == ("/usr/bin:/bin", "/w/tmp")
    assert not {"SKILL_NAME", "VIRTUAL_ENV", "TERM"} & set(found)


def test_a_terminal_has_a_type() -> None:
    command = Command(("x",), terminal=Terminal())
    assert command_environment("/w", command, path=PATH, home="/h")["TERM"] == "xterm-256color"


def test_what_the_runtime_owns_wins_then_the_executor_then_secrets_then_the_caller() -> None:
    command = Command(
        ("x",),
        env={"A": "caller", "B": "caller", "C": "caller", "HOME": "caller", "LANG": "de_DE.UTF-8"},
        secrets={"B": "secret", "C": "secret", "PATH": "secret"},
    )
    extra = {"C": "executor", "HTTP_PROXY": "http://127.0.0.1:1", "RUN_DIR": "executor"}
    found = command_environment("/w", command, path=PATH, home="/h", extra=extra)
    assert (found["A"], found["B"], found["C"]) == ("caller", "secret", "executor")
    assert (found["HOME"], found["PATH"], found["RUN_DIR"]) == ("/h", "/usr/bin:/bin", "/w/runs/run")
    assert (found["LANG"], found["HTTP_PROXY"]) == ("de_DE.UTF-8", "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("WORKSPACE_DIR", "SKILLS_DIR", "WORK_DIR", "OUTPUT_DIR", "RUN_DIR", "SKILL_NAME"), "belongs to the runtime"),
        (("PATH", "HOME", "TMPDIR", "VIRTUAL_ENV", "OPENSKILL_RUN", "OPENSKILL_"), "belongs to the runtime"),
        (("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "GCONV_PATH"), "which code every"),
        (
            ("PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONINSPECT", "NODE_OPTIONS", "PERL5OPT"),
            "which code every",
        ),
        (("PERL5LIB", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS", "OPENSSL_CONF", "GLIBC_TUNABLES"), "which code every"),
        (("BASH_ENV", "ENV", "PROMPT_COMMAND", "SHELL", "BASH_FUNC_x%%", "GIT_SSH_COMMAND"), "makes other programs"),
        (("GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "LESSOPEN", "PAGER"), "makes other programs start"),
        (("PS4", "SHELLOPTS", "BASHOPTS", "IFS", "CDPATH", "GLOBIGNORE"), "changes how a shell reads"),
        (("HTTP_PROXY", "https_proxy", "ALL_PROXY", "no_proxy"), "is set by the executor"),
    ],
)
def test_names_that_a_caller_may_not_set_are_refused_with_the_reason(names: tuple[str, ...], why: str) -> None:
    for name in names:
        with pytest.raises(InvalidArgument, match=f"^env: {name} .*{why}"):
            checked_env({"OK": "1", name: "x"})


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "A=B", "A\0", "Ä", "A\n", "A" * 300])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="is no name of a variable"):
        checked_env({name: "x"})


@pytest.mark.parametrize(("value", "why"), [("a\0b", "NUL byte"), ("\ud800", "half a character")])
def test_what_no_variable_can_hold_is_refused_without_showing_it(value: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^secrets: NAME contains .*{why}"):
        checked_env({"NAME": value}, "secrets")


def test_ordinary_variables_pass_as_they_are() -> None:
    env = {"LANG": "de", "TZ": "UTC", "env": "prod", "Path": "x", "EDITOR": "vi", "_X1": "", "A": "ü\n$(id)"}
    assert checked_env(env) == env


def test_too_much_is_refused_with_the_number() -> None:
    checked_env({f"A{number}": "" for number in range(MAX_VARIABLES)})
    with pytest.raises(LimitExceeded, match="env: 257 variables are too many; 256 is the most"):
        checked_env({f"A{number}": "" for number in range(MAX_VARIABLES + 1)})
    checked_env({"A": "x" * MAX_VALUE})
    with pytest.raises(LimitExceeded, match="env: A has 98,305 bytes; 98,304 is the most, use a file"):
        checked_env({"A": "x" * (MAX_VALUE + 1)})
    many = {f"A{number}": "x" * MAX_VALUE for number in range(MAX_TOTAL // MAX_VALUE + 1)}
    with pytest.raises(LimitExceeded, match="bytes in all are too many"):
        checked_env(many)


def test_declared_secrets_are_taken_from_what_is_given() -> None:
    values = {"API_KEY": "k", "OTHER": "o", "TOKEN": "t"}
    assert resolve_secrets(["TOKEN", "API_KEY", "TOKEN"], values) == {"API_KEY": "k", "TOKEN": "t"}
    assert resolve_secrets([], values) == {}


def test_secrets_without_a_value_are_all_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "from the process")
    with pytest.raises(InvalidArgument, match="secrets: API_KEY, TOKEN have no value; give it to the runtime"):
        resolve_secrets(["TOKEN", "API_KEY"], {"TOKEN": ""})
    with pytest.raises(InvalidArgument, match="secrets: API_KEY has no value"):
        resolve_secrets(["API_KEY"], {})


def test_a_secret_may_not_have_a_name_that_changes_programs() -> None:
    with pytest.raises(InvalidArgument, match="secrets: LD_PRELOAD changes which code"):
        resolve_secrets(["LD_PRELOAD"], {"LD_PRELOAD": "/tmp/x.so"})


def test_secrets_in_text_become_their_names_the_longer_first() -> None:
    secrets = {"KEY": "abcd", "LONG": "abcdefgh", "PATTERN": "a.c*", "SHORT": "abc"}
    assert (
        redacted("x=abcdefgh y=abcd z=abc w=a.c*", secrets) == "x=[secret LONG] y=[secret KEY] z=abc w=[secret PATTERN]"
    )
    assert redacted("nothing", {}) == "nothing"
    assert redacted("KEYKEYsecret", {"A": "secret", "secret": "KEYKEY"}) == "[secret secret][secret A]"
