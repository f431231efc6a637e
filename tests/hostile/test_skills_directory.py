"""Hostile skills next to good ones: the good ones load, each bad one is named, time and memory are bounded."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RequireProgram
from tests.long_form import LONG

MEMORY = 400 * 1024 * 1024  # address space of the child; the interpreter itself needs about a quarter of it
PARTS = 1 if LONG else 6  # how much shorter the long files are in the short form
SECONDS = 30 // PARTS  # of computing, until the kernel ends the child: enough, unless work grows with the square
TIMEOUT = 120  # seconds until a hang is a failure
GOOD = "---\nname: {name}\ndescription: A good skill. Use when asked.\n---\n\n# Good\n"


def front(name: str, more: str = "") -> bytes:
    return f"---\nname: {name}\ndescription: Looks harmless. Use when asked.\n{more}---\nbody\n".encode()


def bombs() -> dict[str, bytes]:
    """Files that are only content, by the folder they lie in."""
    laughs = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{here}: &{here} [{','.join([f'*{there}'] * 9)}]\n" for there, here in zip("abcdefgh", "bcdefghi", strict=True)
    )
    return {
        "latin-1": "---\nname: latin-1\ndescription: caf\u00e9\n---\n".encode("latin-1"),
        "utf-16": "---\nname: utf-16\ndescription: wide\n---\n".encode("utf-16"),
        "nul": front("nul").replace(b"body", b"bo\0dy"),
        "escape": front("escape", "license: \x1b[2J\n"),
        "laughs": front("laughs", laughs),
        "recursive-alias": front("recursive-alias", "x: &x [*x]\n"),
        "deep-list": front("deep-list", "x: " + "[" * 100_000 + "\n"),
        "deep-map": front("deep-map", "x: " + "{a: " * 50_000 + "\n"),
        "python-tag": front("python-tag", 'x: !!python/object/apply:os.system ["touch pwned"]\n'),
        "many-keys": front("many-keys", "".join(f"k{number}: v\n" for number in range(20_000))),
        "huge-front": front("huge-front", "x: " + "y" * 300_000 + "\n"),
        "empty": b"",
        "no-front": b"# only a body\n",
        "unclosed": b"---\nname: unclosed\ndescription: never ends\n",
        "no-description": b"---\nname: no-description\n---\nbody\n",
        "list-front": b"---\n- a\n- b\n---\n",
        "climber": front("../../climber"),
        "slashes": front("a/b"),
        "invisible": front("in\u200bvisible"),
        "fences-only": b"---\n---\n",
        "backtracking": b"---" + b" " * 200_000 + b"x\n",
        "dashes": b"-" * 500_000,
    }


@pytest.fixture(autouse=True)
def limiting_programs(require_program: RequireProgram) -> None:
    """What puts limits on the child."""
    require_program("prlimit")
    require_program("setpriv")


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Path]:
    skills = tmp_path / "skills"
    for name in ("alpha", "omega"):
        (skills / name).mkdir(parents=True)
        (skills / name / "SKILL.md").write_text(GOOD.format(name=name))
    for folder, content in bombs().items():
        (skills / folder).mkdir()
        (skills / folder / "SKILL.md").write_bytes(content)
    for folder in ("directory", "fifo", "socket", "big", "unreadable", "device", "dangling", "outside", "loop"):
        (skills / folder).mkdir()
    (skills / "directory" / "SKILL.md").mkdir()
    os.mkfifo(skills / "fifo" / "SKILL.md")
    with (skills / "big" / "SKILL.md").open("wb") as file:
        file.write(front("big"))
        file.truncate(50 * 1024 * 1024)
    (skills / "unreadable" / "SKILL.md").write_bytes(front("unreadable"))
    (skills / "unreadable" / "SKILL.md").chmod(0)
    (skills / "device" / "SKILL.md").symlink_to("/dev/zero")
    (skills / "dangling" / "SKILL.md").symlink_to("nowhere.md")
    (tmp_path / "secret.md").write_text(GOOD.format(name="secret"))
    (skills / "outside" / "SKILL.md").symlink_to(tmp_path / "secret.md")
    (skills / "loop" / "again").symlink_to("..")
    (skills / "loop" / "SKILL.md").symlink_to("SKILL.md")
    server = socket.socket(socket.AF_UNIX)
    # The name of a socket is short; bind it from inside its folder.
    here = os.open(".", os.O_RDONLY)
    os.chdir(skills / "socket")
    try:
        server.bind("SKILL.md")
    finally:
        os.fchdir(here)
        os.close(here)
    with server:
        yield skills


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The real command with little memory and time; for root, without the right to read what modes forbid."""
    limited = ["prlimit", f"--as={MEMORY}", f"--cpu={SECONDS}"]
    if os.geteuid() == 0:
        limited += ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    return subprocess.run(
        [*limited, sys.executable, "-m", "openskills", *arguments],
        env={"HOME": str(tmp_path / "home"), "PATH": os.defpath, "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


def listed(tmp_path: Path, skills: Path) -> dict[str, Any]:
    done = run(tmp_path, "list", str(skills), "--json")
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)


def test_the_good_skills_load_and_no_bad_one_does(tmp_path: Path, hostile: Path) -> None:
    names = {skill["name"] for skill in listed(tmp_path, hostile)["skills"]}
    assert {"alpha", "omega"} <= names
    assert names == {"alpha", "omega"}


def test_each_bad_skill_is_named_with_a_reason(tmp_path: Path, hostile: Path) -> None:
    problems = listed(tmp_path, hostile)["problems"]
    errors = {Path(problem["path"]).parent.name for problem in problems if problem["severity"] == "error"}
    bad = {folder.name for folder in hostile.iterdir()} - {"alpha", "omega"}
    assert errors == bad
    assert all(problem["message"] for problem in problems)


def test_the_second_look_with_the_index_says_the_same(tmp_path: Path, hostile: Path) -> None:
    assert listed(tmp_path, hostile) == listed(tmp_path, hostile)


def test_validation_of_the_same_directory_ends_with_a_verdict_for_each(tmp_path: Path, hostile: Path) -> None:
    done = run(tmp_path, "validate", str(hostile), "--format", "json")
    assert done.returncode == 1
    verdicts = {Path(skill["path"]).parent.name: skill["valid"] for skill in json.loads(done.stdout)["skills"]}
    assert {name for name, valid in verdicts.items() if valid} == {"alpha", "omega"}
    assert set(verdicts) == {folder.name for folder in hostile.iterdir()}


def test_nothing_of_a_hostile_skill_was_executed(tmp_path: Path, hostile: Path) -> None:
    run(tmp_path, "list", str(hostile))
    assert not list(tmp_path.rglob("pwned"))
    assert not Path("pwned").exists()


def test_fixing_hostile_files_loses_nothing(tmp_path: Path, hostile: Path) -> None:
    before = {folder: (hostile / folder / "SKILL.md").read_bytes() for folder in bombs()}
    run(tmp_path, "validate", str(hostile), "--fix")
    after = {folder: (hostile / folder / "SKILL.md").read_bytes() for folder in bombs()}
    assert after == before


LONG_BODIES = [
    " " * (1_000_000 // PARTS) + "x",
    "> " * (400_000 // PARTS) + "x",
    "](x) " * (200_000 // PARTS),
    "[" * (1_000_000 // PARTS),
    "`" * (999_999 // PARTS),
    "` `` " * (200_000 // PARTS),
    "<!--" * (250_000 // PARTS),
    "[a](" * (250_000 // PARTS),
    "![a](<" * (160_000 // PARTS),
    "- " * (400_000 // PARTS) + "```",
]
LONG_FRONT_MATTER = [
    "metadata:\n  id: " + "1" * (200_000 // PARTS) + "x\n",
    "version: " + "1_" * (100_000 // PARTS) + "x\n",
    "version: " + "1:" * (100_000 // PARTS) + "x\n",
    "license: " + "a: " * (80_000 // PARTS) + "\n",
    "license: " + '"' * (200_000 // PARTS) + "\n",
    "x: '" + "'" * (200_001 // PARTS | 1) + "\n",
    "allowed-tools: " + "(" * (200_000 // PARTS) + "\n",
    "".join(f"k{number}: a: b\n" for number in range(9_000 // PARTS)),
    "\t\n" * (100_000 // PARTS),
    "- " * (100_000 // PARTS) + "\n",
    "metadata:\n" + "".join(f"  k{number}: [a\n" for number in range(9_000 // PARTS)),
]


def write_long(tmp_path: Path, texts: Iterable[bytes]) -> list[str]:
    """Skills with these texts, in `tmp_path/skills`."""
    written: list[str] = []
    for number, text in enumerate(texts):
        folder = tmp_path / "skills" / f"long-{number}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_bytes(text)
        written.append(folder.name)
    return written


def check_verdicts(tmp_path: Path, expected: list[str], *options: str) -> None:
    """Validate them all in the time that is allowed; each gets a verdict."""
    done = run(tmp_path, "validate", *options, "--format", "json", str(tmp_path / "skills"))
    assert done.returncode in (0, 1), done.stderr
    assert sorted(Path(skill["path"]).parent.name for skill in json.loads(done.stdout)["skills"]) == sorted(expected)


def test_long_bodies_are_judged_in_time_in_proportion(tmp_path: Path) -> None:
    texts = (front("long").decode().replace("body", body).encode() for body in LONG_BODIES)
    check_verdicts(tmp_path, write_long(tmp_path, texts))


@pytest.mark.parametrize("body", LONG_BODIES, ids=lambda body: repr(body[:8]))
def test_a_long_body_is_described_in_time_in_proportion(tmp_path: Path, body: str) -> None:
    (name,) = write_long(tmp_path, [front("long").decode().replace("body", body).encode()])
    assert run(tmp_path, "info", str(tmp_path / "skills" / name)).returncode in (0, 1)


def test_long_front_matter_is_judged_and_fixed_in_time_in_proportion(tmp_path: Path) -> None:
    expected = write_long(tmp_path, (front("long", more) for more in LONG_FRONT_MATTER))
    check_verdicts(tmp_path, expected)
    check_verdicts(tmp_path, expected, "--fix")


def test_an_unreadable_file_that_a_skill_points_at_costs_no_verdict(tmp_path: Path) -> None:
    for name in ("alpha", "beta"):
        (tmp_path / "skills" / name / "references").mkdir(parents=True)
        text = GOOD.format(name=name) + "\nSee [a](references/a.md).\n"
        (tmp_path / "skills" / name / "SKILL.md").write_text(text)
        (tmp_path / "skills" / name / "references" / "a.md").write_text("text")
    (tmp_path / "skills" / "alpha" / "references" / "a.md").chmod(0)
    done = run(tmp_path, "validate", str(tmp_path / "skills"), "--format", "json")
    assert [skill["name"] for skill in json.loads(done.stdout)["skills"]] == ["alpha", "beta"]
    assert run(tmp_path, "info", "alpha", str(tmp_path / "skills")).returncode == 0
