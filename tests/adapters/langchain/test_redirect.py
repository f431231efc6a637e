"""deepagents' own tests of its skills middleware, with our class in its place.

They are not in the wheel. Get a checkout of the installed version and say where it is:

    OPENSKILL_DEEPAGENTS_CHECKOUT=../deepagents make test ARGS="-k redirect"
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
VARIABLE = "OPENSKILL_DEEPAGENTS_CHECKOUT"
TESTS = ("middleware/test_skills_middleware.py", "middleware/test_skills_middleware_async.py", "test_subagents.py")

STAND_IN = """
import deepagents.graph
import deepagents.middleware
from deepagents.middleware.skills import SkillsMiddleware


def test_the_class_is_ours_wherever_it_is_looked_for():
    assert SkillsMiddleware.__module__ == "openskills.adapters.langchain.middleware"
    assert deepagents.middleware.SkillsMiddleware is SkillsMiddleware
    assert deepagents.graph.SkillsMiddleware is SkillsMiddleware


def test_it_can_be_made_without_a_backend():
    ours = SkillsMiddleware(backend=None, sources=["/skills/user/"])
    assert [tool.name for tool in ours.tools] == ["load_skill", "unload_skill"]
    assert "/skills/user/" in ours._format_skills_list([])


async def test_an_async_test_is_awaited(tmp_path):
    from deepagents.backends import FilesystemBackend

    (tmp_path / "skills" / "pdf").mkdir(parents=True)
    (tmp_path / "skills" / "pdf" / "SKILL.md").write_text("---\\nname: pdf\\ndescription: x\\n---\\n")
    ours = SkillsMiddleware(backend=FilesystemBackend(root_dir=tmp_path), sources=["/skills/"])
    state = await ours.abefore_agent({}, None, {})
    assert [skill["name"] for skill in state["skills_metadata"]] == ["pdf"]
"""


def pytest_of(tests: list[Path], *options: str, root: Path) -> subprocess.CompletedProcess[str]:
    """Run tests of a checkout in a process of their own, without any of their settings or ours."""
    settings = root / "redirect.ini"
    environment = {**os.environ, "PYTHONPATH": str(HERE / "redirect"), "PYTEST_ADDOPTS": ""}
    unneeded = [word for name in ("cacheprovider", "langsmith_plugin", "schemathesis") for word in ("-p", f"no:{name}")]
    argv = [sys.executable, "-m", "pytest", "-q", *unneeded, "-c", str(settings), *options]
    settings.write_text("[pytest]\nasyncio_mode = auto\n", "utf-8")
    places = [str(test) for test in tests]
    return subprocess.run(
        [*argv, *places], cwd=root, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.fixture
def stand_in(tmp_path: Path) -> list[Path]:
    """A checkout with tests of our own."""
    folder = tmp_path / "libs" / "deepagents" / "tests" / "unit_tests" / "middleware"
    folder.mkdir(parents=True)
    for package in (folder, folder.parent, folder.parent.parent):
        (package / "__init__.py").write_text("", "utf-8")
    (folder / "test_skills_middleware.py").write_text(STAND_IN, "utf-8")
    return [folder / "test_skills_middleware.py"]


def test_tests_of_a_checkout_run_against_our_class(stand_in: list[Path], tmp_path: Path) -> None:
    done = pytest_of(stand_in, "-p", "skills_redirect", root=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_without_the_plugin_they_run_against_upstreams(stand_in: list[Path], tmp_path: Path) -> None:
    done = pytest_of(stand_in, "-k", "ours_wherever or without_a_backend", root=tmp_path)
    assert "2 failed" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_deepagents_own_tests_of_its_middleware_pass_with_ours(tmp_path: Path) -> None:
    checkout = os.environ.get(VARIABLE)
    if not checkout:
        pytest.skip(f"deepagents' tests are not in its wheel; set {VARIABLE} to a checkout of it to run them")
    folder = Path(checkout).resolve() / "libs" / "deepagents" / "tests" / "unit_tests"
    tests = [folder / test for test in TESTS]
    missing = [str(test) for test in tests if not test.is_file()]
    assert not missing, f"{VARIABLE} is no checkout of deepagents: there is no {', '.join(missing)}"
    done = pytest_of(tests, "-p", "skills_redirect", root=tmp_path)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
