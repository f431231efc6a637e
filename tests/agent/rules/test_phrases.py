"""Answers that are not about a run.

What a person is told about a run.
"""

from pathlib import Path
from typing import Any

from openskills.agent.rules.commands import CommandInstance
from openskills.agent.rules.phrases import (
    CHINESE,
    ENGLISH,
    add_signature,
    describe_missing,
    describe_no_match,
    describe_run,
    parse_outcome,
    quote_block,
)
from openskills.agent.rules.routing import Route, RouteReason
from openskills.agent.rules.turn import TurnStep
from openskills.catalog.snapshot import CatalogSnapshot
from tests.agent.rule_requests import catalog_in, result_of


def test_every_answer_says_that_no_language_model_gave_it_and_why_the_skill_was_chosen() -> None:
    assert add_signature("Hi.", ENGLISH, Route(None, RouteReason.NOTHING)) == (
        "Hi.\n\nThis is an answer of rules, not of a language model."
    )
    chosen = add_signature("Hi.", ENGLISH, Route("a", RouteReason.RULE, "log_transform"))
    assert chosen.endswith("a word for skills like it (log_transform).")
    assert add_signature("Hi.", ENGLISH, Route("a", RouteReason.NAMED), ran=True).endswith(
        "The result was not checked."
    )
    assert "不是语言模型" in add_signature("好。", CHINESE, Route("a", RouteReason.SEARCH))


def test_the_nearest_skills_are_listed_or_those_that_there_are(tmp_path: Path) -> None:
    skills = catalog_in(tmp_path, one="First.", two="S" * 200).snapshot
    near = describe_no_match(Route(None, RouteReason.NOTHING, near=("two",)), skills, ENGLISH)
    assert f"The nearest skills:\n\n- two: {'S' * 100}…\n- 1 more" in near
    assert "`$two`" in near
    some = describe_no_match(Route(None, RouteReason.UNKNOWN, "tow"), skills, ENGLISH)
    assert some.startswith("Unknown skill tow; nothing was done.\n\nThe skills here:\n\n- one: First.")
    assert (
        describe_no_match(Route(None, RouteReason.NOTHING), CatalogSnapshot(), CHINESE)
        == "这里没有任何技能，无法完成请求。"
    )


def test_what_a_command_lacks_is_said() -> None:
    assert describe_missing(CommandInstance("x", missing=("file",)), "a", ENGLISH).endswith("Attach one and ask again.")
    said = describe_missing(CommandInstance("x <who>", missing=("numbers", "<who>")), "a", ENGLISH)
    assert "Write them" in said
    assert "`x <who>` of the skill a has no value for <who>" in said


ARGUMENTS = {"skill": "csv-report", "command": "python3 scripts/report.py \\\n  inputs/a.csv"}


def step(result: str | None = None, **data: Any) -> TurnStep:
    return TurnStep("skill_run", ARGUMENTS, result_of(**data) if result is None else result)


def test_the_command_the_place_and_the_output_are_told() -> None:
    said = describe_run(step(stdout="one\ntwo\n"), ENGLISH)
    assert said.startswith("I ran this command of the skill csv-report (bubblewrap, 5 ms): `python3 scripts/report.py")
    assert said.endswith("It printed:\n\n    one\n    two")


def test_a_readable_file_comes_before_what_was_printed_and_refs_come_last() -> None:
    primary = {"name": "out/r.md", "content": "# R\n", "mime_type": "text/markdown", "ref": "workspace://out/r.md"}
    kept = [{"name": "out/r.md", "version": 0, "ref": "artifact://out/r.md@0"}]
    said = describe_run(
        step(stdout="done", primary_output=primary, output_files=[primary], artifact_files=kept), ENGLISH
    )
    assert "It wrote out/r.md:\n\n    # R" in said
    assert "done" not in said
    assert said.endswith("Kept: artifact://out/r.md@0")


def test_a_picture_is_not_read_out() -> None:
    svg = {"name": "out/c.svg", "content": "<svg/>", "mime_type": "image/svg+xml", "ref": "workspace://out/c.svg"}
    said = describe_run(step(stdout="6 bars", primary_output=svg, output_files=[svg]), CHINESE)
    assert "<svg" not in said
    assert "6 bars" in said
    assert said.endswith("文件：workspace://out/c.svg")


def test_a_failure_is_told_with_its_words_and_what_to_do() -> None:
    said = describe_run(step(exit_code=2, stderr="error: no column 'x'\n", warnings=["slow"]), ENGLISH)
    assert "It ended with exit code 2, not 0.\n\n    error: no column 'x'\n    slow" in said
    assert said.endswith("fix the file or the request and ask again.")
    assert "was stopped" in describe_run(step(timed_out=True, exit_code=None), ENGLISH)


def test_a_command_that_was_refused_was_not_run() -> None:
    said = describe_run(step("error: rm is not allowed; use another"), ENGLISH)
    assert said.startswith("I wanted to run")
    assert said.endswith("It was not run: rm is not allowed; use another")


def test_silence_is_told() -> None:
    assert describe_run(step(), ENGLISH).endswith("It ended without an error and printed nothing.")


def test_what_is_no_result_of_a_run_is_a_refusal() -> None:
    for text in ("", "[]", "{", '{"a": 1}', "error:"):
        assert not parse_outcome(step(text)).is_success
        assert parse_outcome(step(text)).refused
    assert parse_outcome(step()).is_success


def test_long_texts_are_cut_and_every_line_is_indented() -> None:
    said = quote_block("\n".join(f"```{number}" for number in range(100)), ENGLISH).split("\n")
    assert said[-1] == "    (76 more lines)"
    assert len(said) == 25
    assert all(line.startswith("    ") for line in said)
