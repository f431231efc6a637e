"""Packages that skills declare: installed only where the application says so, by real installers, without a network."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openskills.errors import InvalidArgument
from openskills.runtime.options import SessionOptions
from openskills.sync import run
from openskills.tools.approvals import ApprovalQuestion, Decision
from tests.executors.wheels import wheel
from tests.runtime.talking import runtime_in
from tests.tools.contexts import write_skill

INDEX = ("--no-index", "--find-links", "wheels")
SAY = "import tiny; print(tiny.VERSION)"
RUN = {"skill": "tiny-user", "command": "python3 scripts/say.py"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A skill that needs a package, with the wheel of it; and one that needs nothing."""
    name, data = wheel("tiny", "1.0", "VERSION = '1.0'\n")
    files: dict[str, str | bytes] = {"requirements.txt": "tiny\n", f"wheels/{name}": data, "scripts/say.py": SAY}
    write_skill(tmp_path, "tiny-user", files)
    write_skill(tmp_path, "plain", {"scripts/say.py": "print('plain')"})
    return tmp_path


def called(place: Path, *calls: dict[str, Any], **options: Any) -> list[str]:
    """What comes of commands in one session."""

    async def go() -> list[str]:
        made = runtime_in(place, executor="local", options=SessionOptions(**options))
        async with made as runtime, runtime.session("s") as session:
            for name in ("tiny-user", "plain"):
                await session.call("skill_load", {"skill": name})
            return [(await session.call("skill_run", arguments)).text for arguments in calls]

    return run(go())


def answering(answer: Decision, asked: list[bool]) -> Callable[[ApprovalQuestion], Any]:
    async def ask(question: ApprovalQuestion) -> Decision:
        asked.append(question.installs)
        return answer

    return ask


def test_nothing_is_installed_unless_the_application_says_so(place: Path) -> None:
    (found,) = called(place, RUN)
    assert "No module named 'tiny'" in json.loads(found)["stderr"]


def test_what_a_skill_declares_is_there_before_its_first_command_and_is_asked_for_once(place: Path) -> None:
    asked: list[bool] = []
    ask = answering(Decision.ALLOW_ONCE, asked)
    options: dict[str, Any] = {"install": (), "index_arguments": INDEX, "ask": ask}
    first, again, other = called(place, RUN, RUN, {"skill": "plain", "command": "python3 scripts/say.py"}, **options)
    assert [json.loads(found)["stdout"] for found in (first, again, other)] == ["1.0\n", "1.0\n", "plain\n"]
    assert asked == [True, False, False, False]


def test_a_script_with_a_block_of_its_own_gets_what_that_names(place: Path) -> None:
    folder = place / "skills" / "tiny-user"
    (folder / "requirements.txt").unlink()
    block = '# /// script\n# dependencies = ["tiny"]\n# ///\n'
    (folder / "scripts" / "say.py").write_text(block + SAY)
    (found,) = called(place, RUN, install=(), index_arguments=INDEX)
    told = json.loads(found)
    assert told["stdout"] == "1.0\n" or "which needs uv" in str(told["warnings"])


def test_a_no_keeps_the_command_from_being_run(place: Path) -> None:
    asked: list[bool] = []
    (found,) = called(place, RUN, install=(), index_arguments=INDEX, ask=answering(Decision.DENY, asked))
    assert found.startswith("error: ")
    assert asked == [True]


def test_without_a_host_the_model_hears_why_nothing_was_installed(place: Path) -> None:
    (found,) = called(place, RUN, install=())
    told = json.loads(found)
    assert told["exit_code"] == 1
    assert "requirements.txt was not installed: set-up has no network" in str(told["warnings"])


def test_an_installation_that_fails_is_told_with_its_last_lines(place: Path) -> None:
    (place / "skills" / "tiny-user" / "requirements.txt").write_text("no-such-package-at-all\n")
    (found,) = called(place, RUN, install=(), index_arguments=INDEX)
    assert found.startswith("error: tiny-user: requirements.txt cannot be installed")
    assert "no-such-package-at-all" in found


def test_a_command_that_is_no_shell_text_is_for_the_shell_to_judge(place: Path) -> None:
    (found,) = called(place, {"skill": "plain", "command": "echo 'x"}, install=())
    assert "exit_code" in found or found.startswith("error: ")


def test_hosts_are_a_tuple() -> None:
    with pytest.raises(InvalidArgument, match="install: is a text"):
        SessionOptions(install="pypi.org")  # pyright: ignore[reportArgumentType] - what a person would write
