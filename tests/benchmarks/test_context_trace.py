import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.context_trace import BEGIN, END, between

ROOT = Path(__file__).resolve().parents[2]

COUNTING = """
import json, os
from benchmarks.context_trace import file_events

open(os.devnull).close()
with file_events() as events:
    open(os.devnull).close()
    os.listdir(".")
    sum(range(100))
open(os.devnull).close()
print(json.dumps(events))
"""


def test_what_is_done_to_files_in_the_block_is_told_and_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-c", COUNTING], capture_output=True, text=True, cwd=ROOT)
    assert json.loads(done.stdout) == ["open", "os.listdir"], done.stderr


def test_only_what_stands_between_the_marks_is_counted() -> None:
    lines = ["1 openat(...)", f'1 access("{BEGIN}")', "2 read(3)", f'1 access("{END}")', "1 write(1)"]
    assert between(lines) == ["2 read(3)"]


@pytest.mark.parametrize("lines", [[], ["1 read(3)"], [f'1 access("{BEGIN}")', "1 read(3)"]])
def test_a_trace_without_marks_proves_nothing(lines: list[str]) -> None:
    with pytest.raises(ValueError, match="no beginning or no end"):
        between(lines)
