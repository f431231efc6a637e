"""Words that mean the same have one meaning, and each has only one.

What reads the same is one term; what was misspelt is near what was meant.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.catalog.vocabulary import (
    STOP_WORDS,
    Glossary,
    Vocabulary,
    count_edits,
    default_glossary,
    default_groups,
    edit_tolerance,
    fold,
    remove_denials,
    split_name,
    split_pairs,
    split_text,
    squeeze,
    stem,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("merge", "合并"),
        ("photo", "图片"),
        ("invoice", "账单"),
        ("cv", "简历"),
        ("summarise", "摘要"),
        ("xlsx", "excel"),
    ],
)
def test_words_for_one_thing_have_one_meaning(one: str, other: str) -> None:
    assert default_glossary().find_meaning(stem(one)) == default_glossary().find_meaning(stem(other)) is not None


@pytest.mark.parametrize("word", ["xylophone", "木琴", "", "a", "的"])
def test_other_words_have_none(word: str) -> None:
    assert default_glossary().find_meaning(stem(word)) is None


def test_no_word_is_in_two_groups() -> None:
    meanings: dict[str, str] = {}
    for words in default_groups():
        for word in words:
            assert meanings.setdefault(stem(word), words[0]) == words[0], word


def test_a_group_has_more_than_one_word_and_none_that_says_little() -> None:
    assert all(len(words) > 1 for words in default_groups())
    assert not [word for words in default_groups() for word in words if word in STOP_WORDS]


def test_every_chinese_word_is_found_in_a_run_of_its_own() -> None:
    for words in default_groups():
        for word in words:
            if not word.isascii():
                assert list(default_glossary().find_meanings(word)) == [(0, len(word), words[0])], word


def test_words_are_found_where_they_stand_the_longer_ones_first() -> None:
    assert list(default_glossary().find_meanings("把数据库备份到服务器")) == [
        (1, 4, "database"),
        (4, 6, "backup"),
        (7, 10, "server"),
    ]
    assert list(default_glossary().find_meanings("数据")) == [(0, 2, "data")]
    assert list(default_glossary().find_meanings("琴")) == list(default_glossary().find_meanings("")) == []


def test_a_glossary_without_groups_knows_nothing() -> None:
    assert Glossary(()).find_meaning("merge") is None
    assert list(Glossary(()).find_meanings("合并文件")) == []


WORDS = st.text("abcde", min_size=0, max_size=7)


@pytest.mark.parametrize(
    ("text", "folded"), [("ＰＤＦ", "pdf"), ("Café", "cafe"), ("STRASSE", "strasse"), ("ﬁle", "file")]
)
def test_width_capitals_and_accents_are_folded(text: str, folded: str) -> None:
    assert fold(text) == folded


def test_words_and_runs_of_dense_scripts_are_told_apart() -> None:
    assert split_text(fold("合并 two PDF文件")) == (["two", "pdf"], ["合并", "文件"])


def test_each_character_of_a_run_starts_one_pair() -> None:
    assert split_pairs("日志分析") == ["日志", "志分", "分析", "析"]


def test_names_are_cut_at_separators_and_humps() -> None:
    assert set(split_name("pdfTools-v2_beta")) >= {"pdf", "tools", "v2", "beta"}
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
    assert known.find_by_prefix("ma", 5) == ["markdown"]
    assert [word for _, word in known.find_nearest("calender")] == ["calendar"]
    assert [word for _, word in known.find_nearest("mergr")] == ["merge"]
    assert known.find_nearest("zebra") == []


def test_a_vocabulary_can_be_told_to_forgive_less() -> None:
    assert Vocabulary(["calendar"]).find_nearest("calandxr") == [(2, "calendar")]
    assert Vocabulary(["calendar"], max_edits=1).find_nearest("calandxr") == []
    assert Vocabulary(["calendar"], max_edits=1).find_nearest("calendr") == [(1, "calendar")]


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
    assert " ".join(remove_denials(text).split()) == " ".join(left.split())


def test_numbers_and_short_words_are_not_corrected() -> None:
    assert [edit_tolerance(word) for word in ("ab", "1234", "日志文件", "file", "calendar")] == [0, 0, 0, 1, 2]


@given(WORDS, WORDS)
def test_the_number_of_edits_is_a_distance(one: str, other: str) -> None:
    assert count_edits(one, other, 9) == count_edits(other, one, 9)
    assert (count_edits(one, other, 9) == 0) == (one == other)
    assert count_edits(one, other, 9) <= max(len(one), len(other))


@given(WORDS, WORDS, st.integers(0, 3))
def test_more_edits_than_asked_for_are_not_counted_out(one: str, other: str, most: int) -> None:
    assert count_edits(one, other, most) == min(count_edits(one, other, 9), most + 1)
