"""Tests in forked workers: each is run once, and whatever happens to a worker is reported."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONFTEST = "from tests.conftest import pytest_addoption, pytest_runtestloop\n"


def start_pytest(directory: Path, *options: str, workers: int = 3, **files: str) -> "subprocess.Popen[str]":
    """Start pytest for these test files."""
    (directory / "conftest.py").write_text(CONFTEST)
    for name, text in files.items():
        (directory / f"{name}.py").write_text(textwrap.dedent(text))
    argv = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(directory), "-p", "no:cacheprovider"]
    argv += ["-p", "no:langsmith_plugin", "-p", "no:schemathesis", "--color=no", "--workers", str(workers)]
    environment = {**os.environ, "TMPDIR": str(directory)}
    return subprocess.Popen(
        [*argv, *options, str(directory)], cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE
    )


def run_pytest(directory: Path, *options: str, workers: int = 3, **files: str) -> str:
    return start_pytest(directory, *options, workers=workers, **files).communicate(timeout=60)[0]


def test_each_test_is_run_once_and_in_several_processes(tmp_path: Path) -> None:
    said = run_pytest(
        tmp_path,
        workers=4,
        test_many="""
        import os, pathlib, pytest, time

        @pytest.mark.parametrize("number", range(40))
        def test_it(number, tmp_path):
            assert not list(tmp_path.iterdir())
            time.sleep(0.01)
            with open(pathlib.Path(__file__).with_name("log"), "a") as log:
                log.write(f"{number} {os.getpid()}\\n")
        """,
    )
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert sorted(int(number) for number, _ in lines) == list(range(40))
    assert len({process for _, process in lines}) == 4
    assert "40 passed" in said


def test_outcomes_are_those_of_a_run_without_workers(tmp_path: Path) -> None:
    tests = """
    import pytest

    @pytest.fixture
    def broken():
        yield
        raise ValueError("teardown")

    def test_passes(): pass
    def test_fails():
        print("said before")
        assert 1 == 2
    def test_skips(): pytest.skip("no reason")
    def test_errors(broken): pass
    @pytest.mark.xfail(strict=True)
    def test_expected(): assert 0
    """
    ends: list[str] = []
    for workers in (1, 3):
        said = run_pytest(tmp_path, "-rA", workers=workers, test_one=tests)
        assert "said before" in said
        assert "ValueError: teardown" in said
        ends.append(re.sub(r" in [\d.]+s", "", said.splitlines()[-1]))
    assert ends[0] == ends[1]
    assert "1 failed, 2 passed, 1 skipped, 1 xfailed, 1 error" in ends[0]


def test_what_tests_share_is_closed_once_in_each_worker(tmp_path: Path) -> None:
    run_pytest(
        tmp_path,
        workers=2,
        test_shared="""
        import os, pathlib, pytest

        @pytest.fixture(scope="module")
        def shared():
            log = pathlib.Path(__file__).with_name(f"log{os.getpid()}")
            with log.open("a") as written:
                written.write("open ")
            yield
            with log.open("a") as written:
                written.write("close ")

        @pytest.mark.parametrize("number", range(20))
        def test_it(shared, number): pass
        """,
    )
    assert [path.read_text() for path in tmp_path.glob("log*")] == ["open close ", "open close "]


def test_a_process_that_ends_has_failed_one_test_and_the_others_are_run(tmp_path: Path) -> None:
    said = run_pytest(
        tmp_path,
        workers=2,
        test_crash="""
        import os, pytest

        @pytest.mark.parametrize("number", range(12))
        def test_it(number):
            if number in (0, 7):
                os._exit(3)
        """,
    )
    assert "2 failed, 10 passed" in said
    assert "the process of the worker ended with 3 while it ran this test" in said


def test_it_stops_after_the_first_failure_if_told_to(tmp_path: Path) -> None:
    said = run_pytest(
        tmp_path,
        "-x",
        workers=2,
        test_stop="""
        import pytest, time

        @pytest.mark.parametrize("number", range(200))
        def test_it(number):
            assert number != 3
            time.sleep(0.02)
        """,
    )
    assert "stopping after 1 failures" in said
    assert int(re.findall(r"(\d+) passed", said)[0]) < 100


def test_an_interruption_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    waits = """
    import os, pathlib, pytest, time

    @pytest.mark.parametrize("number", range(2))
    def test_it(number, tmp_path):
        pathlib.Path(__file__).with_name(f"pid{number}").write_text(str(os.getpid()))
        time.sleep(600)
    """
    run = start_pytest(tmp_path, workers=2, test_wait=waits)
    pids: list[str] = []
    until = time.monotonic() + 60
    while len(pids) < 2 or not all(pids):
        assert time.monotonic() < until
        pids = [path.read_text() for path in tmp_path.glob("pid*")]
    os.kill(run.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in run.communicate(timeout=60)[0]
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("options", [["-k", "nothing"], ["--collect-only"]])
def test_without_tests_to_run_nothing_is_forked(tmp_path: Path, options: list[str]) -> None:
    said = run_pytest(tmp_path, *options, test_one="def test_it(): pass\ndef test_other(): pass\n")
    assert "deselected" in said or "2 tests collected" in said
