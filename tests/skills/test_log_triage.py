"""Logs as programs write them, and as nobody should."""

import gzip
import json
import re
from pathlib import Path

import pytest

from tests.skills.shipped import SKILLS, documented, fault, misuse, run_script

SCRIPT = "log-triage/scripts/triage.py"


def triage(place: Path, data: str | bytes, *arguments: str) -> str:
    (place / "app.log").write_bytes(data.encode() if isinstance(data, str) else data)
    done = run_script(SCRIPT, "app.log", *arguments, cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_last_line_sums_up_the_file(tmp_path: Path) -> None:
    said = triage(
        tmp_path,
        "2026-01-01 10:00:00 INFO start\n2026-01-01 10:00:01 ERROR lost 'a'\n  at line 3\nwarn: x\n"
        "2026-01-02T00:00:00Z ERROR lost 'b'\nno level\n",
    )
    assert said.splitlines() == [
        "     2  ERROR    lost *",
        "        first 2026-01-01 10:00:01  last 2026-01-02T00:00:00Z",
        "     1  WARN     x",
        "        first   last ",
        "6 lines from 2026-01-01 10:00:00 to 2026-01-02T00:00:00Z: ERROR 2, WARN 1, INFO 1",
    ]


def test_a_group_knows_its_first_time_even_when_its_first_line_had_none(tmp_path: Path) -> None:
    (group,) = json.loads(triage(tmp_path, "ERROR x\n2026-01-01 10:00:00 ERROR x\n", "--json"))
    assert (group["count"], group["first"], group["last"]) == (2, "2026-01-01 10:00:00", "2026-01-01 10:00:00")
    assert group["example"] == "ERROR x"


def test_levels_and_top_choose_and_the_rest_is_counted(tmp_path: Path) -> None:
    lines = "".join(f"INFO kind {word}\n" for word in ("a", "b", "b", "c")) + "ERROR no\n"
    said = triage(tmp_path, lines, "--levels", "info", "--top", "1")
    assert said.splitlines()[0].split() == ["2", "INFO", "kind", "b"]
    assert "2 more groups; raise --top to see them" in said
    assert "no" not in said.splitlines()[0]


def test_a_log_of_another_encoding_is_read_when_it_is_named(tmp_path: Path) -> None:
    data = "2026-01-01 10:00:00 ERROR 磁盘已满\n".encode("gb18030")
    assert "磁盘已满" in triage(tmp_path, data, "--encoding", "gb18030")
    assert "\ufffd" in triage(tmp_path, data)
    assert "磁盘" in triage(tmp_path, "ERROR 磁盘\n".encode("utf-16"))
    (tmp_path / "app.log").write_bytes(data)
    assert fault(run_script(SCRIPT, "app.log", "--encoding", "x", cwd=tmp_path), 2) == "--encoding: 'x' is not known"


def test_a_compressed_log_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(gzip.compress(b"ERROR x\n" * 1000, mtime=0))
    assert fault(run_script(SCRIPT, "app.log", cwd=tmp_path), 3).endswith("; unpack it if it is compressed")


@pytest.mark.parametrize(("data", "said"), [("", "0 lines: no level in any of them"), ("x\n", "1 lines: no level")])
def test_a_log_without_levels_is_said_to_have_none(tmp_path: Path, data: str, said: str) -> None:
    assert triage(tmp_path, data).startswith(said)


def test_a_line_without_an_end_and_countless_groups_fill_no_memory(tmp_path: Path) -> None:
    letters = "".join(f"ERROR {number:x}g\n" for number in range(150_000))
    said = triage(tmp_path, "ERROR first " + "x" * 5_000_000 + " ERROR\n" + letters, "--top", "1")
    assert "150,001 lines" in said
    assert "lines beyond 100,000 groups" in said
    assert len(said) < 1000


def test_the_groups_go_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "app.log").write_text("ERROR x\n")
    done = run_script(
        SCRIPT, "app.log", "--json", "--output", "g.json", cwd=tmp_path, env={"OUTPUT_DIR": str(tmp_path / "out")}
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert json.loads((tmp_path / "out" / "g.json").read_text())[0]["message"] == "x"


def test_a_level_that_nobody_uses_is_refused(tmp_path: Path) -> None:
    said = misuse(run_script(SCRIPT, "app.log", "--levels", "ERROR,OOPS", cwd=tmp_path))
    assert said.startswith("argument --levels: unknown level OOPS; use CRITICAL")


FOLDER = SKILLS / "meeting-notes"


def test_it_needs_no_script_and_links_to_its_layout() -> None:
    assert documented("meeting-notes") == []
    assert not (FOLDER / "scripts").exists()
    (link,) = re.findall(r"\]\(([^)]+)\)", (FOLDER / "SKILL.md").read_text("utf-8"))
    assert (FOLDER / link).is_file()


def test_the_layout_has_a_place_for_everything_that_the_instructions_name() -> None:
    layout = (FOLDER / "assets" / "minutes.md").read_text("utf-8")
    assert [line for line in layout.splitlines() if line.startswith("#")] == [
        *("# {title}, {date}", "## Decisions", "## Action items", "## Open questions"),
    ]
    assert "| what | owner | until |" in layout
