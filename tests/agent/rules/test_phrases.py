"""Answers in two languages."""

import re
from pathlib import Path
from typing import Any

from openskills.agent.rules.commands import CommandInstance
from openskills.agent.rules.phrases import PHRASES, Phrasebook
from openskills.agent.rules.routing import Route, RouteReason
from openskills.catalog.snapshot import CatalogSnapshot
from tests.agent.rule_requests import catalog_in, result_of

ENGLISH, CHINESE = Phrasebook(chinese=False), Phrasebook(chinese=True)


def test_every_sentence_has_the_same_values_in_both_languages() -> None:
    for english, chinese in PHRASES.values():
        assert sorted(re.findall(r"{(\w+)}", english)) == sorted(re.findall(r"{(\w+)}", chinese))


def test_what_a_rule_cannot_do_is_answered_with_how_to_choose_a_model(tmp_path: Path) -> None:
    skills = catalog_in(tmp_path, one="First.").snapshot
    assert "--model NAME" in ENGLISH.describe_no_match(Route(None, RouteReason.NOTHING), skills)
    missing = CHINESE.describe_missing(CommandInstance("x", "x <who>", missing=("<who>",)), "a")
    assert "OPENSKILL_MODEL" in CHINESE.quote_skill(missing, "a", "Text.")


def test_every_answer_says_that_no_language_model_gave_it_and_why_the_skill_was_chosen() -> None:
    assert ENGLISH.add_signature("Hi.", Route(None, RouteReason.NOTHING)) == (
        "Hi.\n\nThis is an answer of rules, not of a language model."
    )
    chosen = ENGLISH.add_signature("Hi.", Route("a", RouteReason.RULE, "log_transform"))
    assert chosen.endswith("a word for skills like it (log_transform).")
    assert ENGLISH.add_signature("Hi.", Route("a", RouteReason.NAMED), ran=True).endswith("The result was not checked.")
    assert "不是语言模型" in CHINESE.add_signature("好。", Route("a", RouteReason.SEARCH))


def test_the_nearest_skills_are_listed_or_those_that_there_are(tmp_path: Path) -> None:
    skills = catalog_in(tmp_path, one="First.", two="S" * 200).snapshot
    near = ENGLISH.describe_no_match(Route(None, RouteReason.NOTHING, near=("two",)), skills)
    assert near.endswith(f"Start a request with `$two` to choose a skill:\n\n- two: {'S' * 100}…")
    some = ENGLISH.describe_no_match(Route(None, RouteReason.UNKNOWN, "tow"), skills)
    assert some.startswith("Unknown skill tow; nothing was done.")
    assert "\n\n- one: First.\n- two: " in some
    nothing = CHINESE.describe_no_match(Route(None, RouteReason.NOTHING), CatalogSnapshot())
    assert nothing == "这里没有任何技能，无法完成请求。"


def test_what_a_command_lacks_is_said() -> None:
    said = ENGLISH.describe_missing(CommandInstance("x", "x a.csv", missing=("file",)), "a")
    assert said == "The example `x a.csv` of the skill a was not run: the request has no file."
    said = ENGLISH.describe_missing(CommandInstance("x", "x 1 <who>", missing=("numbers", "<who>")), "a")
    assert "the request has no numbers, no value for `<who>`." in said


def test_nothing_is_called_a_requirement_of_a_skill() -> None:
    for english, chinese in PHRASES.values():
        assert not re.search(r"skill \{skill\} (?:needs|requires|must)|Add it", english)
        assert "需要{" not in chinese


ARGUMENTS = {"skill": "csv-report", "command": "python3 scripts/report.py \\\n  inputs/a.csv"}


def step(result: str | None = None, **data: Any) -> str:
    return result_of(**data) if result is None else result


def test_the_command_the_place_and_the_output_are_told() -> None:
    said = ENGLISH.describe_run(ARGUMENTS, step(stdout="one\ntwo\n"))
    assert said.startswith("I ran this command of the skill csv-report (bubblewrap, 5 ms): `python3 scripts/report.py")
    assert said.endswith("It printed:\n\n    one\n    two")


def test_a_readable_file_comes_before_what_was_printed_and_refs_come_last() -> None:
    primary = {"name": "out/r.md", "content": "# R\n", "mime_type": "text/markdown", "ref": "workspace://out/r.md"}
    kept = [{"name": "out/r.md", "version": 0, "ref": "artifact://out/r.md@0"}]
    said = ENGLISH.describe_run(
        ARGUMENTS, step(stdout="done", primary_output=primary, output_files=[primary], artifact_files=kept)
    )
    assert "It wrote out/r.md:\n\n    # R" in said
    assert "done" not in said
    assert said.endswith("Files: artifact://out/r.md@0")


def test_a_picture_is_not_read_out() -> None:
    svg = {"name": "out/c.svg", "content": "<svg/>", "mime_type": "image/svg+xml", "ref": "workspace://out/c.svg"}
    said = CHINESE.describe_run(ARGUMENTS, step(stdout="6 bars", primary_output=svg, output_files=[svg]))
    assert "<svg" not in said
    assert "6 bars" in said
    assert said.endswith("文件：workspace://out/c.svg")


def test_a_failure_is_reported_with_its_words_and_what_to_do() -> None:
    said = ENGLISH.describe_run(ARGUMENTS, step(exit_code=2, stderr="error: no column 'x'\n", warnings=["slow"]))
    assert "It ended with exit code 2, not 0.\n\n    error: no column 'x'\n    slow" in said
    assert "was stopped" in ENGLISH.describe_run(ARGUMENTS, step(timed_out=True, exit_code=None))


def test_a_command_that_was_refused_was_not_run() -> None:
    said = ENGLISH.describe_run(ARGUMENTS, step("error: rm is not allowed; use another"))
    assert said.endswith("of the skill csv-report was not run: rm is not allowed; use another")


def test_silence_is_reported() -> None:
    assert ENGLISH.describe_run(ARGUMENTS, step()).endswith("It ended without an error and printed nothing.")


def test_what_is_not_a_result_of_a_run_is_a_refusal() -> None:
    for text in ("", "[]", "{", '{"a": 1}', "error:"):
        assert "was not run:" in ENGLISH.describe_run(ARGUMENTS, text)


def test_long_texts_are_cut_and_every_line_is_indented() -> None:
    said = ENGLISH.quote_block("\n".join(f"```{number}" for number in range(100))).split("\n")
    assert said[-1] == "    (76 more lines)"
    assert len(said) == 25
    assert all(line.startswith("    ") for line in said)
