"""Parsing of SKILL.md, and recovery of what a faulty file still says."""

import re
import unicodedata
from datetime import date

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from openskills.skillmd.manifest import Requirements, SkillManifest
from openskills.skillmd.parse import manifest_from_fields, normalize_name, parse, parse_flag
from openskills.skillmd.recovery import guess_yaml_type, quote_yaml, recover, to_yaml
from openskills.skillmd.rules import ALL_RULES
from openskills.skillmd.yaml import MAX_KEYS, FrontMatterError, Value, read_yaml
from tests.skillmd.strategies import any_text, bodies, fronts, line_ends, prose, relaxed

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
    if any(problem.rule == "yaml-duplicate-key" for problem in parsed.problems):
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
def test_what_is_not_a_switch_is_neither_on_nor_off(word: Value) -> None:
    assert parse_flag(word) is None


def test_names_are_compared_composed_and_without_compatibility_forms() -> None:
    assert normalize_name("ﬁle-x") == "file-x"
    assert normalize_name(unicodedata.normalize("NFD", "café")) == "café"
    assert normalize_name("\u3000技能\u3000") == "技能"


@relaxed
@given(st.text() | prose)
def test_a_quoted_text_is_read_back_as_it_was(text: str) -> None:
    assert read_yaml(f"a: {quote_yaml(text)}\n").fields == {"a": text}
    assert "\n" not in quote_yaml(text)


@relaxed
@given(st.text() | prose)
def test_every_yaml_reader_gets_a_text_from_what_is_written_as_one(text: str) -> None:
    assert yaml.safe_load(f"a: {to_yaml(text)}\nb: c\n") == {"a": text, "b": "c"}


@pytest.mark.parametrize("text", ["MIT", "Bash(git:*) Read", "see http://a.b/#c", "技能", "it's"])
def test_a_harmless_text_is_written_bare(text: str) -> None:
    assert to_yaml(text) == text


@pytest.mark.parametrize(
    "text", ["", " a", "a ", "a: b", "a:", "a #b", "- a", "[a]", "1.0", "no", "a\nb", "*a", "a\u2028b"]
)
def test_a_text_that_could_be_misread_is_written_in_quotes(text: str) -> None:
    assert to_yaml(text).startswith('"')


WORDS = {
    "a number": "1 -1.5 +1 1. .5 1e3 1_000 0x1F 0o17 0b1 .inf -.NaN 12:30:45",
    "true or false": "true FALSE Yes no on Off",
    "a date": "2026-01-01 2026-1-1 2026-01-01T10:00:00Z 2026-01-01t10:00:00.5+02:00",
    "nothing": "~ null NULL",
    None: "1.0.0 v1 nope - + . one 2026-01 Nothing none １ -a",
}


@pytest.mark.parametrize(("text", "kind"), [(text, kind) for kind, texts in WORDS.items() for text in texts.split()])
def test_what_a_bare_word_is_to_yaml(text: str, kind: str | None) -> None:
    assert guess_yaml_type(text) == kind


def test_an_empty_word_is_nothing_and_words_with_blanks_are_text() -> None:
    assert guess_yaml_type("") == "nothing"
    assert guess_yaml_type("2026-01-01 10:00:00") == "a date"
    assert guess_yaml_type("1.0 beta") is None
    assert guess_yaml_type("1 2") is None


@relaxed
@given(st.text(alphabet="0123456789+-.eExob_:~tTrRuUfFaAlLsSnNoOyYiI "))
def test_whatever_the_usual_resolver_does_not_take_for_text_is_noticed(text: str) -> None:
    try:
        loaded: dict[str, object] = yaml.safe_load(f"a: {text}\n")
    except (yaml.YAMLError, ValueError):  # not a scalar by itself, or the 99th of a month
        return
    if isinstance(loaded["a"], int | float | date):
        assert guess_yaml_type(text.strip()) is not None


def recovered(front: str) -> dict[str, Value]:
    result = recover(front)
    assert result
    return result.fields


def mended(front: str) -> str:
    """The front matter with every recovered value replaced by what the fix would write."""
    result = recover(front)
    assert result
    for item in sorted(result.recovered, key=lambda item: item.entry.value_start, reverse=True):
        front = front[: item.entry.value_start] + item.replacement + front[item.entry.value_end :]
    return front


def test_one_bad_value_does_not_cost_its_neighbours_their_meaning() -> None:
    front = "name: x\ndescription: a: b\nmetadata:\n  c: [d]\nlist:\n- e\n"
    assert recovered(front) == {"name": "x", "description": "a: b", "metadata": {"c": ["d"]}, "list": ["e"]}


def test_pairs_under_a_key_are_recovered_one_by_one() -> None:
    front = "metadata:\n  a: b: c\n  d:\n    e: @f\n    g: h\n  i: 1\n"
    assert recovered(front) == {"metadata": {"a": "b: c", "d": {"e": "@f", "g": "h"}, "i": "1"}}
    assert mended(front) == 'metadata:\n  a: "b: c"\n  d:\n    e: "@f"\n    g: h\n  i: 1\n'


def test_a_description_is_text_even_when_it_looks_like_pairs_or_a_list() -> None:
    assert recovered("description:\n  Usage: a\n  b: c: d\n") == {"description": "Usage: a b: c: d"}
    assert recovered("description:\n  - a: b: c\n  - d\n") == {"description": "- a: b: c - d"}


def test_a_list_with_crooked_indentation_is_a_list() -> None:
    front = "paths:\n  - 'a b'\n - c: d\n"
    assert recovered(front) == {"paths": ["a b", "c: d"]}
    assert mended(front) == 'paths:\n  - "a b"\n  - "c: d"\n'


def test_capitalised_words_with_a_colon_are_prose_and_lower_case_ones_are_fields() -> None:
    front = "description: a: b\nKeywords: c\ncustom-field: d\n"
    assert recovered(front) == {"description": "a: b Keywords: c", "custom-field": "d"}


def test_comments_and_blank_lines_after_a_value_stay_where_they_are() -> None:
    assert mended("a: b: c  \n\n# note\nd: e\n") == 'a: "b: c"\n\n# note\nd: e\n'


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_what_is_written_instead_has_the_line_ends_of_the_file(line_end: str) -> None:
    front = line_end.join(["description: a: b", "", "c", "d: e", ""])
    assert mended(front) == line_end.join(["description: |-", "  a: b", "  c", "d: e", ""])
    assert read_yaml(mended(front)).fields == recovered(front)


@pytest.mark.parametrize("text", ["a: b\tc", "a: b\u2028c", "a: \\", "a: b 'c' \"d\"", "**a**: b", "a: é\x85", "@"])
def test_what_is_written_instead_is_read_back_to_the_same(text: str) -> None:
    for front in (f"x: {text}\ny: z\n", f"x: {text}\n\n  {text}\ny: z\n"):
        assert read_yaml(mended(front)).fields == recovered(front)


def test_keys_that_stand_twice_are_known_and_the_last_counts() -> None:
    result = recover("a: b: c\nd: e\na: f\n")
    assert result
    assert result.fields == {"a": "f", "d": "e"}
    assert result.duplicates == [("a", 13)]


def test_text_that_does_not_begin_with_a_field_is_hopeless() -> None:
    assert recover("}{\na: b\n") is None
    assert recover("Some text: and more: here\n") is None
    assert recover("") is None


def test_what_is_refused_stays_refused_with_its_place() -> None:
    with pytest.raises(FrontMatterError) as caught:
        recover("a: b: c\nd: &e f\n")
    assert (caught.value.rule, caught.value.offset) == ("yaml-alias", 11)


def test_the_number_of_entries_is_limited() -> None:
    with pytest.raises(FrontMatterError) as caught:
        recover("x: y: z\n" + "a:\n" * MAX_KEYS)
    assert caught.value.rule == "yaml-keys"


def test_the_depth_of_recovery_is_limited() -> None:
    front = "".join(f"{'  ' * level}k:\n" for level in range(30)) + f"{'  ' * 30}k: a: b\n"
    value: Value = recovered(front)
    levels = 0
    while isinstance(value, dict):
        value, levels = value["k"], levels + 1
    assert levels == 4
    assert isinstance(value, str)
    assert value.endswith("k: a: b")
