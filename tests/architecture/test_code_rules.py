"""Rules about the text of each module: that the package keeps them, and that each can fail."""

from collections.abc import Callable, Iterable
from textwrap import dedent

import pytest

from tests.architecture import code_rules as rules
from tests.architecture.project import Source, package_sources, sources_of_tests, tool_sources

PURE = ("skillmd/", "prompt/", "tokens.py")
DOORS = {
    "arguments.py": "imports modules that users name, and says what was their fault",
    "cli/main.py": "translates whatever went wrong into a message and an exit code",
    "runtime/session.py": "answers whatever a model does with a result, and logs what was our fault",
    "agent/turn.py": "calls functions of the application for a model, and logs what was their fault",
    "skillkit/entry.py": "whatever a skill does, its caller gets a result",
    "host/service.py": "whatever a skill or a runner does, its caller gets a normalised result",
    "host/runners/function.py": "calls functions of the application, and whatever they raise is a normalised result",
    "host/app.py": "whatever happens, a request gets a normalised result, and what was our fault is logged",
    "host/vendors/api.py": "the same, in the dialect of the vendor whose client it is",
    "catalog/watch.py": "calls a function of the caller in a thread of its own and keeps what it raised",
}

Rule = Callable[[Source], list[str]]


def broken(rule: Rule, sources: Iterable[Source]) -> str:
    return "\n".join(fault for source in sources for fault in rule(source))


def example(code: str, path: str = "catalog/example.py") -> Source:
    return Source(path, dedent(code))


def test_no_source_file_is_longer_than_800_lines() -> None:
    assert not broken(rules.too_long, [*package_sources(), *tool_sources()])


def test_the_environment_is_read_only_in_settings() -> None:
    assert not broken(rules.environment_reads, package_sources())


def test_child_processes_are_started_only_in_subprocesses() -> None:
    assert not broken(rules.child_processes, package_sources())


def test_programs_that_run_by_themselves_import_nothing_of_ours() -> None:
    assert not broken(rules.tied_programs, package_sources())


def test_pure_packages_import_nothing_that_does_io() -> None:
    assert not broken(rules.impure, [source for source in package_sources() if source.path.startswith(PURE)])


def test_nothing_is_left_unfinished() -> None:
    assert not broken(rules.unfinished, package_sources())


def test_everything_is_caught_only_where_errors_are_translated() -> None:
    assert not broken(rules.broad_excepts, [source for source in package_sources() if source.path not in DOORS])


def test_tests_replace_nothing_by_mocks() -> None:
    assert not broken(rules.mocks, sources_of_tests())


def test_nothing_exists_twice_for_waiting_and_for_awaiting() -> None:
    assert not broken(rules.twins, package_sources())


def test_a_file_of_801_lines_is_too_long() -> None:
    assert not rules.too_long(example("x = 1\n" * 800))
    assert rules.too_long(example("x = 1\n" * 801)) == [
        "catalog/example.py: 801 lines; split it into two ideas, 800 is the most"
    ]


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.environ['HOME']",
        "import os\nos.environ.get('HOME')",
        "import os as system\nsystem.getenv('HOME')",
        "from os import environ",
        "from os import getenv as get",
        "def late():\n    import os\n    return os.environb",
        "import os.path\nos.putenv('A', 'b')",
    ],
)
def test_a_read_of_the_environment_is_found_under_any_name(code: str) -> None:
    assert rules.environment_reads(example(code))
    assert not rules.environment_reads(example(code, "settings.py"))


def test_a_variable_called_environ_is_not_the_environment() -> None:
    assert not rules.environment_reads(example("import os\nenviron = {}\nenviron.get('HOME')\nos.path.join('a')"))


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess",
        "from subprocess import run",
        "import os\nos.fork()",
        "import os\nos.execvpe('ls', [], {})",
        "import os\nos.posix_spawnp('ls', [], {})",
        "from os import system",
        "import pty\npty.fork()",
        "import asyncio\nasyncio.create_subprocess_exec('ls')",
        "from multiprocessing.pool import Pool",
        "from concurrent.futures import ProcessPoolExecutor",
    ],
)
def test_a_child_process_is_found_under_any_name(code: str) -> None:
    assert rules.child_processes(example(code))
    assert not rules.child_processes(example(code, "subprocesses.py"))
    assert not rules.child_processes(example(code, "executors/programs/example.py"))


def test_a_program_that_needs_our_package_is_found() -> None:
    code = "def f():\n    from openskills.errors import SkillError"
    assert rules.tied_programs(example(code, "executors/programs/example.py"))
    assert not rules.tied_programs(example(code, "executors/example.py"))


@pytest.mark.parametrize(
    "code",
    ["import os.path", "from pathlib import PurePath", "def f():\n    import time", "open('x')", "print('x')"],
)
def test_a_module_that_does_io_is_not_pure(code: str) -> None:
    assert rules.impure(example(code, "skillmd/example.py"))


def test_computing_is_pure() -> None:
    assert not rules.impure(example("import re\nimport posixpath\nfrom dataclasses import replace\n'a'.opened()"))


@pytest.mark.parametrize(
    "code", ["# TODO: later", "raise NotImplementedError", "raise NotImplementedError('x')", "x = 1  # FIXME"]
)
def test_unfinished_work_is_found(code: str) -> None:
    assert rules.unfinished(example(code))


def test_handling_what_another_library_has_not_finished_is_not_a_fault() -> None:
    assert not rules.unfinished(example("try:\n    f()\nexcept NotImplementedError:\n    g()"))


@pytest.mark.parametrize(
    "handler",
    [
        "except Exception:\n    pass",
        "except:\n    pass",
        "except BaseException as error:\n    print(error)",
        "except (OSError, Exception):\n    pass",
    ],
)
def test_a_handler_for_everything_is_found(handler: str) -> None:
    assert rules.broad_excepts(example(f"try:\n    f()\n{handler}"))


def test_suppressing_everything_is_found() -> None:
    assert rules.broad_excepts(example("import contextlib\nwith contextlib.suppress(Exception):\n    f()"))


def test_a_named_error_or_a_clean_up_that_raises_again_is_not_a_fault() -> None:
    named = example("try:\n    f()\nexcept (OSError, ValueError):\n    pass")
    cleaning = example("try:\n    f()\nexcept BaseException:\n    clean()\n    raise")
    assert not rules.broad_excepts(named) + rules.broad_excepts(cleaning)


@pytest.mark.parametrize(
    "code",
    [
        "from unittest.mock import patch",
        "from unittest import mock",
        "import unittest.mock as m",
        "def test_x(monkeypatch):\n    monkeypatch.setattr(os, 'name', 'nt')",
        "def test_x(mocker): ...",
    ],
)
def test_a_mock_is_found(code: str) -> None:
    assert rules.mocks(example(code))


@pytest.mark.parametrize(
    "code",
    [
        "def load(): ...\nasync def aload(): ...",
        "def load(): ...\nasync def load_async(): ...",
        "async def load(): ...\ndef load_sync(): ...",
        "def load(): ...\nasync def async_load(): ...",
        "class A:\n    def load(self): ...\n    async def aload(self): ...",
        "class A:\n    def __enter__(self): ...\n    async def __aenter__(self): ...",
        "class Client:\n    def get(self): ...\nclass AsyncClient:\n    async def get(self): ...",
        "class A(Store):\n    def get(self): ...\nclass B(Store):\n    async def get(self): ...",
    ],
)
def test_a_twin_is_found(code: str) -> None:
    assert rules.twins(example(code))


HOOKS = "    def before_agent(self): ...\n    async def abefore_agent(self): ..."
LONG_HOOKS = HOOKS.replace("...", "\n" + "        x = 1\n" * 7)


def test_hooks_that_langchain_demands_in_two_forms_are_not_twins() -> None:
    code = f"class Ours(AgentMiddleware):\n{HOOKS}"
    assert not rules.twins(example(code, "adapters/langchain/middleware.py"))


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("runtime/middleware.py", f"class Ours(AgentMiddleware):\n{HOOKS}"),
        ("adapters/langchain/middleware.py", f"class Ours:\n{HOOKS}"),
        (
            "adapters/langchain/middleware.py",
            "class Ours(AgentMiddleware):\n    def load(self): ...\n    async def aload(self): ...",
        ),
        ("adapters/langchain/middleware.py", f"class Ours(AgentMiddleware):\n{LONG_HOOKS}"),
        ("adapters/langchain/middleware.py", "def before_agent(): ...\nasync def abefore_agent(): ..."),
    ],
)
def test_other_pairs_stay_twins_there(path: str, code: str) -> None:
    assert rules.twins(example(code, path))


@pytest.mark.parametrize(
    "code",
    [
        "def part(): ...\ndef apart(): ...",
        "class Buffer:\n    def close(self): ...\nclass Link:\n    async def close(self): ...",
        "class A(Protocol):\n    async def get(self): ...\nclass B(Protocol):\n    async def get(self): ...",
        "def run(): ...\nasync def load(): ...",
    ],
)
def test_names_that_only_look_alike_are_not_twins(code: str) -> None:
    assert not rules.twins(example(code))
