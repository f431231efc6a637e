"""What a person is told about a run."""

from typing import Any

from openskills.agent.rule_phrases import CHINESE, ENGLISH
from openskills.agent.rule_results import outcome, quoted, report
from openskills.agent.rule_turn import Step
from tests.agent.rule_requests import result_of

ARGUMENTS = {"skill": "csv-report", "command": "python3 scripts/report.py \\\n  inputs/a.csv"}


def step(result: str | None = None, **data: Any) -> Step:
    return Step("skill_run", ARGUMENTS, result_of(**data) if result is None else result)


def test_the_command_the_place_and_the_output_are_told() -> None:
    said = report(step(stdout="one\ntwo\n"), ENGLISH)
    assert said.startswith("I ran this command of the skill csv-report (bubblewrap, 5 ms): `python3 scripts/report.py")
    assert said.endswith("It printed:\n\n    one\n    two")


def test_a_readable_file_comes_before_what_was_printed_and_refs_come_last() -> None:
    primary = {"name": "out/r.md", "content": "# R\n", "mime_type": "text/markdown", "ref": "workspace://out/r.md"}
    kept = [{"name": "out/r.md", "version": 0, "ref": "artifact://out/r.md@0"}]
    said = report(step(stdout="done", primary_output=primary, output_files=[primary], artifact_files=kept), ENGLISH)
    assert "It wrote out/r.md:\n\n    # R" in said
    assert "done" not in said
    assert said.endswith("Kept: artifact://out/r.md@0")


def test_a_picture_is_not_read_out() -> None:
    svg = {"name": "out/c.svg", "content": "<svg/>", "mime_type": "image/svg+xml", "ref": "workspace://out/c.svg"}
    said = report(step(stdout="6 bars", primary_output=svg, output_files=[svg]), CHINESE)
    assert "<svg" not in said
    assert "6 bars" in said
    assert said.endswith("文件：workspace://out/c.svg")


def test_a_failure_is_told_with_its_words_and_what_to_do() -> None:
    said = report(step(exit_code=2, stderr="error: no column 'x'\n", warnings=["slow"]), ENGLISH)
    assert "It ended with exit code 2, not 0.\n\n    error: no column 'x'\n    slow" in said
    assert said.endswith("correct the file or the request, and ask again.")
    assert "was stopped" in report(step(timed_out=True, exit_code=None), ENGLISH)


def test_a_command_that_was_refused_was_not_run() -> None:
    said = report(step("error: rm is not allowed; use another"), ENGLISH)
    assert said.startswith("I wanted to run")
    assert said.endswith("It was not run: rm is not allowed; use another")


def test_silence_is_told() -> None:
    assert report(step(), ENGLISH).endswith("It ended without an error and printed nothing.")


def test_what_is_no_result_of_a_run_is_a_refusal() -> None:
    for text in ("", "[]", "{", '{"a": 1}', "error:"):
        assert not outcome(step(text)).succeeded
        assert outcome(step(text)).refused
    assert outcome(step()).succeeded


def test_long_texts_are_cut_and_every_line_is_indented() -> None:
    said = quoted("\n".join(f"```{number}" for number in range(100)), ENGLISH).split("\n")
    assert said[-1] == "    (76 more lines)"
    assert len(said) == 25
    assert all(line.startswith("    ") for line in said)
