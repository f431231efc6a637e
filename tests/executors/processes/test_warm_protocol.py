import pytest

from openskills.errors import InvalidArgument
from openskills.executors.processes.warm_protocol import (
    PythonCommand,
    is_module_name,
    preload_names,
    python_command,
    refusal,
    server_argv,
    server_environment,
)


@pytest.mark.parametrize(
    ("argv", "options"),
    [
        (["python", "x.py", "-v"], ()),
        (["python3", "-c", "pass"], ()),
        (["python3.11", "-m", "json.tool"], ()),
        (["/usr/bin/python3", "-u", "-BE", "x.py"], ("-u", "-BE")),
        (["python", "-W", "error", "-I", "-m", "x", "-V"], ("-W", "error", "-I")),
    ],
)
def test_an_ordinary_command_line_is_taken_apart(argv: list[str], options: tuple[str, ...]) -> None:
    assert python_command(argv, {}) == PythonCommand(argv[0], options)


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["bash", "-c", "python x.py"], "does not start python"),
        (["pythonw", "x.py"], "does not start python"),
        (["python2", "x.py"], "does not start python"),
        (["python"], "from stdin"),
        (["python", "-u"], "from stdin"),
        (["python", "-"], "from stdin"),
        (["python", ""], "from stdin"),
        (["python", "-i", "x.py"], "-i is an unusual option"),
        (["python", "-X", "dev", "x.py"], "-X is an unusual option"),
        (["python", "--version"], "--version is an unusual option"),
        (["python", "-cpass"], "unusual option"),
        (["python", "-mjson"], "unusual option"),
        (["python", "-c"], "has no argument"),
    ],
)
def test_an_unusual_command_line_is_named(argv: list[str], why: str) -> None:
    found = python_command(argv, {})
    assert isinstance(found, str)
    assert why in found


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({"PYTHONINSPECT": "1"}, "PYTHONINSPECT is set"),
        ({"PYTHONPATH": "/a:lib"}, "PYTHONPATH has a relative directory"),
        ({"PYTHONPATH": "/a:"}, "PYTHONPATH has a relative directory"),
    ],
)
def test_a_variable_that_changes_how_python_starts_is_named(env: dict[str, str], why: str) -> None:
    assert python_command(["python", "x.py"], env) == why


def test_a_server_sees_what_libraries_look_at_and_no_secret() -> None:
    env = {"PATH": "/bin", "RUN_DIR": "/w/runs/1", "TOKEN": "s3cret", "OMP_NUM_THREADS": "1", "WORD": "x", "LANG": "C"}
    seen = server_environment(env, {"TOKEN", "OMP_NUM_THREADS", "WORD"})
    assert seen == {"PATH": "/bin", "OMP_NUM_THREADS": "1", "LANG": "C"}


def test_the_command_line_of_a_server_has_the_options_of_the_command() -> None:
    argv = server_argv(PythonCommand("python3", ("-u",)), ("json",), [b"12", b"345"])
    assert argv[:3] == ("python3", "-u", "-c")
    assert "(2, 3)" in argv[3]
    compile(argv[3], "bootstrap", "exec")


def test_modules_are_named_with_spaces_or_commas() -> None:
    assert preload_names(" pandas, numpy.linalg\npandas ") == ("pandas", "numpy.linalg")


@pytest.mark.parametrize("text", ["os;print", "a-b", "1a", "a..b", "x as y", "import", "a" * 200, "ä"])
def test_what_is_no_name_of_a_module_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="openskills-warm"):
        preload_names(text)
    assert not all(is_module_name(word) for word in text.split())


def test_too_many_modules_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="33 modules are too many"):
        preload_names(" ".join(f"m{number}" for number in range(33)))


def test_a_server_that_will_not_serve_says_why() -> None:
    assert refusal({"event": "hello", "refused": "it prints"}) == "it prints"
    assert refusal({"event": "hello", "refused": ""}) == ""
