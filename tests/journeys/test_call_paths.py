"""How many modules one agent turn and one HTTP invocation execute: a reader of the code has to open that many."""

import re
import subprocess
import sys

from tests.architecture.project import ROOT
from tests.conftest import RequireProgram

MAX_MODULES = {"one agent turn": 80, "POST /skills/echo:invoke": 26}


def test_a_turn_and_an_invocation_stay_within_their_numbers_of_modules(require_program: RequireProgram) -> None:
    require_program("bwrap")
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "call_paths.py")], capture_output=True, text=True, check=True
    )
    found = {title: int(count) for title, count in re.findall(r"^(\S.*): (\d+) modules", done.stdout, re.M)}
    assert found.keys() == MAX_MODULES.keys()
    assert not {title: count for title, count in found.items() if count > MAX_MODULES[title]}, done.stdout
