"""What reads the same is one term; what was misspelt is near what was meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.catalog.words import (
    Vocabulary,
    edits,
    fold,
    name_words,
    pairs,
    pieces,
    squeeze,
    stem,
    tolerance,
    without_denials,
)

WORDS = st.text("abcde", min_size=0, max_size=7)


@pytest.mark.parametrize(
    ("text", "folded"), [("ＰＤＦ", "pdf"), ("Café", "cafe"), ("STRASSE", "strasse"), ("ﬁle", "file")]
)
def test_width_capitals_and_accents_are_folded(text: str, folded: str) -> None:
    assert fold(text) == folded


def test_words_and_runs_of_dense_scripts_are_told_apart() -> None:
    assert pieces(fold("合并 two PDF文件")) == (["two", "pdf"], ["合并", "文件"])


def test_each_character_of_a_run_starts_one_pair() -> None:
    assert pairs("日志分析") == ["日志", "志分", "分析", "析"]


def test_names_are_cut_at_separators_and_humps() -> None:
    assert set(name_words("pdfTools-v2_beta")) >= {"pdf", "tools", "v2", "beta"}
    assert squeeze("PDF tools") == squeeze("pdf_tools") == squeeze("pdfTools") == "pdftools"


@pytest.mark.parametrize(
    ("one", "other"),
    [("files", "file"), ("queries", "query"), ("merging", "merge"), ("merged", "merge"), ("summarise", "summarize")],
)
def test_forms_of_one_word_have_one_stem(one: str, other: str) -> None:
    assert stem(one) == stem(other)


@pytest.mark.parametrize("word", ["pdf", "news", "日志", "v2"])
def test_what_has_no_ending_stays_as_it_is(word: str) -> None:
    assert stem(word) == word


def test_a_vocabulary_finds_beginnings_and_slips() -> None:
    known = Vocabulary(["merge", "markdown", "calendar", "invoice"])
    assert known.starting("ma", 5) == ["markdown"]
    assert [word for _, word in known.nearest("calender")] == ["calendar"]
    assert [word for _, word in known.nearest("mergr")] == ["merge"]
    assert known.nearest("zebra") == []


def test_a_vocabulary_can_be_told_to_forgive_less() -> None:
    assert Vocabulary(["calendar"]).nearest("calandxr") == [(2, "calendar")]
    assert Vocabulary(["calendar"], most=1).nearest("calandxr") == []
    assert Vocabulary(["calendar"], most=1).nearest("calendr") == [(1, "calendar")]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Reads text. Not for scanned pages. Use it.", "Reads text. . Use it."),
        ("Sends mail; do NOT use for spam; keeps copies", "Sends mail; ; keeps copies"),
        ("Never use this in public.", " ."),
        ("记录不适。不提供诊断，可以导出。", "记录不适。 ，可以导出。"),
        ("Use when it is not clear what to do.", "Use when it is not clear what to do."),
        ("Useful for knots for boats.", "Useful for knots for boats."),
    ],
)
def test_what_a_text_denies_is_taken_out_to_the_end_of_the_clause(text: str, left: str) -> None:
    assert " ".join(without_denials(text).split()) == " ".join(left.split())


def test_numbers_and_short_words_are_not_corrected() -> None:
    assert [tolerance(word) for word in ("ab", "1234", "日志文件", "file", "calendar")] == [0, 0, 0, 1, 2]


@given(WORDS, WORDS)
def test_the_number_of_edits_is_a_distance(one: str, other: str) -> None:
    assert edits(one, other, 9) == edits(other, one, 9)
    assert (edits(one, other, 9) == 0) == (one == other)
    assert edits(one, other, 9) <= max(len(one), len(other))


@given(WORDS, WORDS, st.integers(0, 3))
def test_more_edits_than_asked_for_are_not_counted_out(one: str, other: str, most: int) -> None:
    assert edits(one, other, most) == min(edits(one, other, 9), most + 1)
