from datetime import date

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from openskills.skillmd.quoting import as_yaml, quoted, reads_as
from openskills.skillmd.yamltree import read_tree
from tests.skillmd.strategies import prose, relaxed


@relaxed
@given(st.text() | prose)
def test_a_quoted_text_is_read_back_as_it_was(text: str) -> None:
    assert read_tree(f"a: {quoted(text)}\n").fields == {"a": text}
    assert "\n" not in quoted(text)


@relaxed
@given(st.text() | prose)
def test_every_yaml_reader_gets_a_text_from_what_is_written_as_one(text: str) -> None:
    assert yaml.safe_load(f"a: {as_yaml(text)}\nb: c\n") == {"a": text, "b": "c"}


@pytest.mark.parametrize("text", ["MIT", "Bash(git:*) Read", "see http://a.b/#c", "技能", "it's"])
def test_a_harmless_text_is_written_bare(text: str) -> None:
    assert as_yaml(text) == text


@pytest.mark.parametrize(
    "text", ["", " a", "a ", "a: b", "a:", "a #b", "- a", "[a]", "1.0", "no", "a\nb", "*a", "a\u2028b"]
)
def test_a_text_that_could_be_misread_is_written_in_quotes(text: str) -> None:
    assert as_yaml(text).startswith('"')


WORDS = {
    "a number": "1 -1.5 +1 1. .5 1e3 1_000 0x1F 0o17 0b1 .inf -.NaN 12:30:45",
    "true or false": "true FALSE Yes no on Off",
    "a date": "2026-01-01 2026-1-1 2026-01-01T10:00:00Z 2026-01-01t10:00:00.5+02:00",
    "nothing": "~ null NULL",
    None: "1.0.0 v1 nope - + . one 2026-01 Nothing none １ -a",
}


@pytest.mark.parametrize(("text", "kind"), [(text, kind) for kind, texts in WORDS.items() for text in texts.split()])
def test_what_a_bare_word_is_to_yaml(text: str, kind: str | None) -> None:
    assert reads_as(text) == kind


def test_an_empty_word_is_nothing_and_words_with_blanks_are_text() -> None:
    assert reads_as("") == "nothing"
    assert reads_as("2026-01-01 10:00:00") == "a date"
    assert reads_as("1.0 beta") is None
    assert reads_as("1 2") is None


@relaxed
@given(st.text(alphabet="0123456789+-.eExob_:~tTrRuUfFaAlLsSnNoOyYiI "))
def test_whatever_the_usual_resolver_does_not_take_for_text_is_noticed(text: str) -> None:
    try:
        loaded: dict[str, object] = yaml.safe_load(f"a: {text}\n")
    except (yaml.YAMLError, ValueError):  # not a scalar by itself, or the 99th of a month
        return
    if isinstance(loaded["a"], int | float | date):
        assert reads_as(text.strip()) is not None
