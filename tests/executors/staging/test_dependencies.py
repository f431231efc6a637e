"""What a skill declares becomes a plan: which commands, where, and when they have to be done again."""

import pytest

from openskills.errors import InvalidArgument
from openskills.executors.staging.dependencies import SetUp, Tools, declaring, plan, script_of, uv_environment, with_uv

UV = Tools(uv="/opt/uv")
SCRIPT = b'# /// script\n# dependencies = ["rich"]\n# ///\nprint(1)\n'


def planned(files: dict[str, bytes], script: str | None = None, tools: Tools = UV) -> SetUp:
    found = plan("pdf", files, script=script, tools=tools)
    assert found is not None
    return found


def key(files: dict[str, bytes], tools: Tools = UV) -> str:
    return planned(files, tools=tools).key


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"requirements.txt": b"\n# nothing yet\n  \n"},
        {"pyproject.toml": b"[tool.ruff]\nline-length = 100\n"},
        {"pyproject.toml": b"[project]\nname = 'x'\ndependencies = []\n"},
        {"requirements.txt": b"", "pyproject.toml": b"[project]\ndependencies = ['rich']\n"},
    ],
)
def test_a_skill_that_declares_nothing_needs_nothing(files: dict[str, bytes]) -> None:
    assert plan("pdf", files, tools=UV) is None


def test_requirements_go_into_a_new_venv_by_uv() -> None:
    found = planned({"requirements.txt": b"rich\n"})
    assert [(step.argv, step.downloads) for step in found.steps] == [
        (("find", ".venv", "-mindepth", "1", "-delete"), False),
        (("python3", "-m", "venv", "--prompt", "openskills", "--without-pip", ".venv"), False),
        (
            ("/opt/uv", "pip", "install", "--no-progress", "--python", ".venv/bin/python", "-r", "requirements.txt"),
            True,
        ),
    ]


def test_without_uv_they_are_installed_by_pip_and_from_the_index_that_was_given() -> None:
    tools = Tools(python="python3.12", index_arguments=("--no-index", "--find-links", "wheels"))
    _, venv, install = planned({"requirements.txt": b"rich\n"}, tools=tools).steps
    assert venv.argv == ("python3.12", "-m", "venv", "--prompt", "openskills", ".venv")
    assert install.argv[:4] == (".venv/bin/python", "-m", "pip", "install")
    assert install.argv[-5:] == ("--no-index", "--find-links", "wheels", "-r", "requirements.txt")


def test_the_dependencies_of_a_project_are_installed_when_there_are_no_requirements() -> None:
    found = planned({"pyproject.toml": b"[project]\nname='x'\ndependencies = ['rich', 'httpx>=1']\n"})
    assert found.source == "pyproject.toml"
    assert found.steps[-1].argv[-3:] == ("--", "rich", "httpx>=1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[project\n", "is not TOML"),
        (b"[project]\ndependencies = 'rich'\n", "must be a list"),
        (b"[project]\ndependencies = ['--index-url=x']\n", "must be a list"),
        (b"[project]\ndependencies = [1]\n", "must be a list"),
        (b"\xff\xfe", "is not UTF-8"),
    ],
)
def test_a_project_that_cannot_be_read_is_named(text: bytes, message: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"pyproject\.toml: .*{message}"):
        plan("pdf", {"pyproject.toml": text}, tools=UV)


def test_the_key_changes_with_everything_that_is_asked_for_and_with_nothing_else() -> None:
    one = {"requirements.txt": b"-r base.txt\nrich\n", "base.txt": b"httpx\n"}
    assert key(one) == key({**one, "SKILL.md": b"changed"})
    assert key(one) == key(one, Tools(uv="/elsewhere/uv", index_arguments=("--no-index",)))
    others = [
        {**one, "requirements.txt": b"-r base.txt\nrich==1\n"},
        {**one, "base.txt": b"httpx==1\n"},
        {"requirements.txt": b"-r base.txt\nrich\n"},
    ]
    keys = [key(one), *(key(other) for other in others), key(one, Tools(python="python3.13"))]
    assert len(set(keys)) == len(keys)


def test_files_that_requirements_include_are_found_and_those_beyond_the_skill_are_not() -> None:
    files = {
        "requirements.txt": b"-r reqs/a.txt # with a remark\n--constraint=c.txt\n-rshort.txt\nrich\n-r ../out.txt\n",
        "reqs/a.txt": b"--requirement b.txt\n-r /etc/passwd\n-r https://example.org/r.txt\n-c \\\n  'd d.txt'\n",
        "reqs/b.txt": b"-r a.txt\n-r ../requirements.txt\n",
    }
    assert set(declaring(files)) == {
        *("requirements.txt", "reqs/a.txt", "reqs/b.txt", "reqs/d d.txt", "c.txt", "short.txt", "pyproject.toml")
    }


def test_requirements_that_include_ever_more_files_come_to_an_end() -> None:
    files = {"requirements.txt": b"-r 0.txt\n"} | {f"{n}.txt": f"-r {n + 1}.txt\n".encode() for n in range(1000)}
    assert len(list(declaring(files))) < 60


def test_a_script_with_a_block_gets_an_environment_of_its_own() -> None:
    files = {"requirements.txt": b"httpx\n", "scripts/run.py": SCRIPT}
    found = planned(files, "scripts/run.py", Tools(uv="uv", index_arguments=("--no-index",)))
    assert [step.argv for step in found.steps] == [
        ("uv", "sync", "--script", "scripts/run.py", "--no-progress", "--no-index")
    ]
    assert not found.makes_venv
    assert found.marker != planned({**files, "b.py": SCRIPT}, "b.py").marker
    assert found.key != planned({"scripts/run.py": SCRIPT.replace(b"rich", b"rich<9")}, "scripts/run.py").key


@pytest.mark.parametrize("text", [b"print(1)\n", b"# /// script\n# dependencies = []\n# ///\n", b"\xff# latin\n"])
def test_a_script_that_asks_for_nothing_uses_what_the_skill_has(text: bytes) -> None:
    files = {"requirements.txt": b"httpx\n", "run.py": text}
    assert planned(files, "run.py") == planned(files)
    assert plan("pdf", {"run.py": text}, script="run.py", tools=UV) is None


def test_without_uv_a_block_is_answered_with_the_remedy() -> None:
    found = planned({"run.py": SCRIPT}, "run.py", Tools())
    assert found.steps == ()
    assert found.warnings == (
        (
            "run.py asks for packages of its own (rich), which needs uv; install uv where commands can find it "
            "(pip install uv), or name the packages in requirements.txt"
        ),
    )
    both = planned({"run.py": SCRIPT, "requirements.txt": b"rich\n"}, "run.py", Tools())
    assert both.makes_venv
    assert len(both.steps) == 3
    assert both.warnings == found.warnings


def test_a_faulty_block_is_named_with_script_and_line() -> None:
    with pytest.raises(InvalidArgument, match=r"^scripts/run\.py: line 2: "):
        plan("pdf", {"scripts/run.py": b"# /// script\n# x = =\n# ///\n"}, script="./scripts/run.py", tools=UV)


@pytest.mark.parametrize(
    ("argv", "script"),
    [
        (["python3", "a.py", "x"], "a.py"),
        (["/usr/bin/python3.12", "scripts/a.py"], "scripts/a.py"),
        (["./a.py", "b.py"], "./a.py"),
        (["python", "-u", "a.py"], None),
        (["python3", "-m", "a.py"], None),
        (["python3"], None),
        (["pythonic", "a.py"], None),
        (["bash", "-c", "python3 a.py"], None),
        (["node", "a.py"], None),
        ([], None),
    ],
)
def test_the_script_of_a_command_line_is_recognised(argv: list[str], script: str | None) -> None:
    assert script_of(argv) == script


def test_a_script_with_a_block_is_run_by_uv_offline() -> None:
    files = {"a.py": SCRIPT, "b.py": b"print(1)\n"}
    ran = ("/opt/uv", "run", "--offline", "--script")
    assert with_uv(["python3", "a.py", "x", "-v"], files, UV) == (*ran, "a.py", "x", "-v")
    assert with_uv(["./a.py", "x"], files, UV) == (*ran, "./a.py", "x")


@pytest.mark.parametrize("argv", [["python3", "b.py"], ["ls", "a.py"], ["python3", "missing.py"], []])
def test_any_other_command_stays_as_it_is(argv: list[str]) -> None:
    files = {"a.py": SCRIPT, "b.py": b"print(1)\n"}
    assert with_uv(argv, files, UV) == tuple(argv)
    assert with_uv(["python3", "a.py"], files, Tools()) == ("python3", "a.py")


def test_uv_keeps_its_things_in_the_workspace() -> None:
    assert uv_environment("/workspace")["UV_CACHE_DIR"] == "/workspace/work/.cache/uv"
