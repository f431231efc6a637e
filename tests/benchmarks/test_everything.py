import os
import pty
import subprocess
import sys
import time
from pathlib import Path

from tests.benchmarks.programs import ROOT

PROGRAM = ROOT / "benchmarks" / "everything.py"
SUITES = {
    "host": "print('a table')",
    "tools": "print('another table')",
    "scale": "import sys; print('first'); print('the last word'); sys.exit(1)",
    "safety": """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
open('child', 'w').write(str(child.pid))
time.sleep(600)
""",
}
"""Small programs that stand where the benchmarks are, for a copy of the program that runs them."""


def copied(top: Path) -> list[str]:
    scripts = top / "benchmarks"
    scripts.mkdir()
    (scripts / "everything.py").write_text(PROGRAM.read_text("utf-8"), "utf-8")
    for name, code in SUITES.items():
        (scripts / f"{name}.py").write_text(code, "utf-8")
    return [sys.executable, str(scripts / "everything.py")]


def gone(pid: int) -> bool:
    """Whether a process ends within a while; a zombie whose parent does not care has ended."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_without_a_terminal_each_has_a_line_and_what_it_prints_is_in_its_log(tmp_path: Path) -> None:
    argv = [*copied(tmp_path), "--suites", "host"]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[0] == "[0 of 1, 0.0 min] host"
    assert "minutes in total: host " in done.stderr
    assert ".bench/logs" in done.stderr
    assert (tmp_path / ".bench" / "logs" / "host.log").read_text() == "a table\n"


def test_of_one_that_fails_the_end_is_shown_and_the_others_still_run(tmp_path: Path) -> None:
    argv = [*copied(tmp_path), "--suites", "scale,host"]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 1
    assert "    the last word" in done.stderr
    assert "FAILED: scale: exit status 1" in done.stderr
    assert (tmp_path / ".bench" / "logs" / "host.log").exists()


def test_one_that_takes_too_long_ends_with_its_children_and_the_others_still_run(tmp_path: Path) -> None:
    argv = [*copied(tmp_path), "--suites", "safety,host", "--limit", "3"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "FAILED: safety: timed out after 3 seconds" in done.stderr
    assert (tmp_path / ".bench" / "logs" / "host.log").read_text() == "a table\n"
    assert gone(int((tmp_path / "child").read_text()))


def test_other_options_go_to_each(tmp_path: Path) -> None:
    argv = copied(tmp_path)
    (tmp_path / "benchmarks" / "host.py").write_text("import sys; print(sys.argv[1:])", "utf-8")
    subprocess.run([*argv, "--suites", "host", "--quick", "--write", "--no-repeat"], capture_output=True, check=True)
    assert (tmp_path / ".bench" / "logs" / "host.log").read_text() == "['--quick', '--write', '--no-repeat']\n"


def test_a_benchmark_that_does_not_exist_is_named(tmp_path: Path) -> None:
    done = subprocess.run([*copied(tmp_path), "--suites", "flying"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "'flying'" in done.stderr


def test_at_a_terminal_there_is_one_bar_with_what_runs_and_what_is_to_come(tmp_path: Path) -> None:
    argv = [*copied(tmp_path), "--suites", "host,scale,tools"]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    # A terminal whose other end is closed says so with an error.
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:
        pass
    os.close(ours)
    assert process.wait() == 1
    text = shown.decode("utf-8", "replace")
    assert "then scale, tools" in text
    assert "3/3" in text
    assert "the last word" in text
    assert "table" not in text
