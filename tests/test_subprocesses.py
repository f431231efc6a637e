"""Programs are run to their end, with bounded time, output and reach."""

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from openskills.errors import DeadlineExceeded, InvalidArgument, LimitExceeded
from openskills.subprocesses import ProcessResult, run_program

PATH = {"PATH": os.defpath}


def python(code: str, cwd: Path, *, timeout: float = 30, max_output: int = 10_000_000) -> ProcessResult:
    argv = [sys.executable, "-c", code]
    return run_program(argv, environment=PATH, cwd=cwd, timeout=timeout, max_output=max_output)


def shell(script: str, cwd: Path, *, timeout: float = 30, max_output: int = 1_000_000) -> ProcessResult:
    argv = ["sh", "-c", script]
    return run_program(argv, environment=PATH, cwd=cwd, timeout=timeout, max_output=max_output)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A killed orphan stays a zombie until somebody collects it; that is not alive.
    status = Path(f"/proc/{pid}/status")
    return not status.exists() or "State:\tZ" not in status.read_text()


def wait_until_gone(pid: int) -> bool:
    for _ in range(200):
        if not is_alive(pid):
            return True
        time.sleep(0.02)
    return False


def test_both_outputs_and_the_return_code_come_back(tmp_path: Path) -> None:
    assert shell("printf out; printf err >&2; exit 3", tmp_path) == ProcessResult(3, b"out", b"err")


def test_the_program_runs_in_the_given_directory_with_the_given_environment_only(tmp_path: Path) -> None:
    code = "import os; print(sorted(k for k in os.environ if k != 'LC_CTYPE'), os.getcwd())"
    assert python(code, tmp_path).stdout.decode() == f"['PATH'] {os.path.realpath(tmp_path)}\n"


def test_reading_standard_input_ends_at_once(tmp_path: Path) -> None:
    assert python("import sys; print(repr(sys.stdin.read()))", tmp_path).stdout == b"''\n"


def test_arguments_are_not_seen_by_a_shell(tmp_path: Path) -> None:
    done = run_program(["echo", "$HOME;`id`"], environment=PATH, cwd=tmp_path, timeout=30, max_output=1000)
    assert done.stdout == b"$HOME;`id`\n"


def test_large_outputs_on_both_pipes_do_not_block_each_other(tmp_path: Path) -> None:
    code = "import sys\nfor _ in range(40): sys.stdout.write('o' * 50_000); sys.stderr.write('e' * 50_000)"
    done = python(code, tmp_path)
    assert (len(done.stdout), len(done.stderr)) == (2_000_000, 2_000_000)


def test_a_program_that_takes_too_long_is_stopped_with_its_children(tmp_path: Path) -> None:
    with pytest.raises(DeadlineExceeded, match=r"sh timed out after 0\.4 s"):
        shell("sleep 60 & echo $! > pid; wait", tmp_path, timeout=0.4)
    assert wait_until_gone(int((tmp_path / "pid").read_text()))


def test_a_program_that_closes_its_pipes_is_still_bound_by_the_deadline(tmp_path: Path) -> None:
    with pytest.raises(DeadlineExceeded):
        shell("exec >&- 2>&-; exec sleep 60", tmp_path, timeout=0.3)


def test_a_program_that_ignores_termination_is_stopped_too(tmp_path: Path) -> None:
    with pytest.raises(DeadlineExceeded):
        shell("trap '' TERM INT HUP; while :; do sleep 1; done", tmp_path, timeout=0.3)


def test_a_background_job_that_keeps_the_pipe_open_neither_delays_the_result_nor_survives(tmp_path: Path) -> None:
    done = shell("sleep 60 & echo $!", tmp_path)
    assert done.returncode == 0
    assert wait_until_gone(int(done.stdout))


def test_a_background_job_that_writes_on_and_on_neither_delays_the_result_nor_survives(tmp_path: Path) -> None:
    script = "(while :; do echo x; done) & echo $! > job; exit 3"
    assert shell(script, tmp_path, timeout=60, max_output=100_000_000).returncode == 3
    assert wait_until_gone(int((tmp_path / "job").read_text()))


def test_a_program_that_writes_too_much_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(LimitExceeded, match="yes wrote more than 1,000 bytes"):
        run_program(["yes"], environment=PATH, cwd=tmp_path, timeout=30, max_output=1000)


def test_the_limit_counts_both_outputs_together(tmp_path: Path) -> None:
    with pytest.raises(LimitExceeded):
        shell("printf 123456; printf 123456 >&2", tmp_path, max_output=10)


def test_a_program_ended_by_a_signal_says_which(tmp_path: Path) -> None:
    assert shell("kill -KILL $$", tmp_path).returncode == -9


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="the program 'no-such-program' does not exist"):
        run_program(["no-such-program"], environment=PATH, cwd=tmp_path, timeout=5, max_output=10)


def test_a_missing_working_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"the directory .*gone does not exist"):
        run_program(["true"], environment=PATH, cwd=tmp_path / "gone", timeout=5, max_output=10)


@pytest.mark.parametrize("argv", [[], ["a\0b"], ["."]])
def test_what_cannot_be_started_is_refused_without_a_traceback(argv: list[str], tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="argv"):
        run_program(argv, environment=PATH, cwd=tmp_path, timeout=5, max_output=10)


def test_what_a_program_writes_last_is_read_while_this_process_has_no_time_to_look(tmp_path: Path) -> None:
    done = threading.Event()

    def keep_the_interpreter_busy() -> None:
        while not done.is_set():
            sum(range(3_000_000))

    busy = threading.Thread(target=keep_the_interpreter_busy)
    busy.start()
    try:
        ended = [shell(f"sleep 0.0{tenths}; echo last words", tmp_path) for tenths in (5, 6, 7, 8, 9) * 2]
    finally:
        done.set()
        busy.join()
    assert ended == [ProcessResult(0, b"last words\n", b"")] * 10
