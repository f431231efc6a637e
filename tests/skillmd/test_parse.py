import re
import unicodedata

import pytest
from hypothesis import example, given

from openskills.skillmd.manifest import Requirements, SkillManifest
from openskills.skillmd.parse import manifest_from_fields, normalize_name, parse, parse_flag
from openskills.skillmd.rules import ALL_RULES
from openskills.skillmd.yaml import Value
from tests.skillmd.strategies import any_text, bodies, fronts, line_ends, relaxed

RULE_IDS = {rule.id for rule in ALL_RULES}
WORD = re.compile(r"\w+")


def every_word(value: Value) -> list[str]:
    """The words of a value and of everything in it."""
    if value is None:
        return []
    if isinstance(value, str):
        return WORD.findall(value)
    if isinstance(value, dict):
        return [word for key, inner in value.items() for word in (*WORD.findall(key), *every_word(inner))]
    return [word for inner in value for word in every_word(inner)]


@relaxed
@given(any_text)
@example("---\n? [a]\n: b\n---\n")
@example("---\n\ta: [\n---")
@example("---\r---\r")
@example("﻿﻿---\n---\n")
def test_no_text_makes_reading_raise_and_every_problem_is_a_known_rule_with_a_place(text: str) -> None:
    parsed = parse(text)
    line_count = len(re.split(r"\r\n|\r|\n", text))
    for problem in parsed.problems:
        assert problem.rule in RULE_IDS
        assert problem.line is not None
        assert 1 <= problem.line <= line_count + 1
        assert problem.column is not None
        assert problem.column >= 1
    assert (parsed.manifest is None) == (not parsed.front.readable)


@relaxed
@given(fronts, bodies, line_ends)
def test_the_body_is_everything_after_the_closing_fence_but_the_blank_lines_around_it(
    front: str, body: str, line_end: str
) -> None:
    text = f"---\n{front}---\n{body}".replace("\n", line_end)
    closing = re.search(r"(?m)^---[ \t]*$", f"{front}---\n{body}")
    assert closing
    rest = f"{front}---\n{body}"[closing.end() + 1 :]
    lines = rest.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    while lines and not lines[0].strip(" \t"):
        del lines[0]
    parsed = parse(text)
    assert parsed.body == "\n".join(lines).rstrip()
    if parsed.body:
        first = re.split(r"\r\n|\r|\n", text)[parsed.body_line - 1]
        assert first.rstrip() == parsed.body.split("\n")[0].rstrip()


@relaxed
@given(fronts)
@example("description: a b\n...\nlicense: MIT: x\n")
@example("description: 'it's: good' and \"more\n")
@example("metadata:\n  author: x: y\n  tags: z\nname: a: b\n")
def test_recovered_front_matter_keeps_every_word_its_author_wrote(front: str) -> None:
    parsed = parse(f"---\n{front}---\n")
    if not parsed.front.is_recovered or any(problem.rule == "yaml-duplicate-key" for problem in parsed.problems):
        return
    kept = every_word(dict(parsed.front.fields))
    for recovered in (problem for problem in parsed.problems if problem.rule == "yaml-unquoted"):
        assert recovered.fix
        for edit in recovered.fix.edits:
            raw = f"---\n{front}---\n"[edit.start : edit.end]
            without_header = re.sub(r"\A\s*[|>][-+1-9]{0,2}(?=\s)", "", raw)
            assert all(word in kept for word in WORD.findall(without_header))


def test_a_full_manifest_is_read_with_every_field_typed() -> None:
    text = """---
name: pdf-tools
description: Merge PDF files.
license: Apache-2.0
compatibility: Requires qpdf
metadata:
  version: 1.0
  tags: pdf, merge
  requires:
    bins: [qpdf]
allowed-tools: Bash(git commit *) Read
disable-model-invocation: yes
user-invocable: false
argument-hint: [file] [format]
model: large
context: fork
agent: explorer
homepage: https://example.org
when_to_use: Whenever.
effort: high
shell: bash
paths: "*.pdf, *.ps"
hooks:
  before: [check]
color: blue
---
Body.
"""
    assert parse(text).manifest == SkillManifest(
        name="pdf-tools",
        description="Merge PDF files.",
        license="Apache-2.0",
        compatibility="Requires qpdf",
        metadata={"version": "1.0", "tags": "pdf, merge", "requires": {"bins": ["qpdf"]}},
        allowed_tools=("Bash(git commit *)", "Read"),
        disable_model_invocation=True,
        user_invocable=False,
        argument_hint="[file] [format]",
        model="large",
        context="fork",
        agent="explorer",
        version="1.0",
        homepage="https://example.org",
        when_to_use="Whenever.",
        effort="high",
        shell="bash",
        paths=("*.pdf", "*.ps"),
        hooks={"before": ["check"]},
        keywords=("pdf", "merge"),
        requirements=Requirements(bins=("qpdf",)),
        extra={"color": "blue"},
    )


def test_a_field_of_the_wrong_type_has_its_default_in_the_manifest_and_its_value_in_the_fields() -> None:
    parsed = parse("---\nname: [a]\ndescription: {b: c}\nlicense: [MIT]\nmetadata: text\n---\n")
    assert parsed.manifest == SkillManifest("", "")
    assert parsed.front.fields == {"name": ["a"], "description": {"b": "c"}, "license": ["MIT"], "metadata": "text"}


def test_a_version_of_its_own_wins_over_one_in_the_metadata() -> None:
    assert manifest_from_fields({"version": "2", "metadata": {"version": "1"}}).version == "2"
    assert manifest_from_fields({"version": " ", "metadata": {"version": "1"}}).version == "1"


def test_keywords_and_tags_are_collected_from_fields_and_metadata_each_once() -> None:
    fields: dict[str, Value] = {"keywords": "pdf, forms,,", "tags": ["merge", "pdf"], "metadata": {"tags": [" ocr "]}}
    assert manifest_from_fields(fields).keywords == ("pdf", "forms", "merge", "ocr")


@pytest.mark.parametrize("word", ["true", "Yes", " ON ", "1"])
def test_a_switch_is_on_however_it_is_written(word: str) -> None:
    assert parse_flag(word) is True


@pytest.mark.parametrize("word", ["false", "No", "off", "0"])
def test_a_switch_is_off_however_it_is_written(word: str) -> None:
    assert parse_flag(word) is False


@pytest.mark.parametrize("word", ["", "maybe", None, ["true"]])
def test_what_is_no_switch_is_neither_on_nor_off(word: Value) -> None:
    assert parse_flag(word) is None


def test_names_are_compared_composed_and_without_compatibility_forms() -> None:
    assert normalize_name("ﬁle-x") == "file-x"
    assert normalize_name(unicodedata.normalize("NFD", "café")) == "café"
    assert normalize_name("\u3000技能\u3000") == "技能"
