"""Words that mean the same have one meaning, and each has only one."""

import pytest

from openskills.catalog.glossary import Glossary, everyday, everyday_groups
from openskills.catalog.words import STOP_WORDS, stem


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
    assert everyday().meaning(stem(one)) == everyday().meaning(stem(other)) is not None


@pytest.mark.parametrize("word", ["xylophone", "木琴", "", "a", "的"])
def test_other_words_have_none(word: str) -> None:
    assert everyday().meaning(stem(word)) is None


def test_no_word_is_in_two_groups() -> None:
    meanings: dict[str, str] = {}
    for words in everyday_groups():
        for word in words:
            assert meanings.setdefault(stem(word), words[0]) == words[0], word


def test_a_group_has_more_than_one_word_and_none_that_says_little() -> None:
    assert all(len(words) > 1 for words in everyday_groups())
    assert not [word for words in everyday_groups() for word in words if word in STOP_WORDS]


def test_every_chinese_word_is_found_in_a_run_of_its_own() -> None:
    for words in everyday_groups():
        for word in words:
            if not word.isascii():
                assert list(everyday().meanings_in(word)) == [(0, len(word), words[0])], word


def test_words_are_found_where_they_stand_the_longer_ones_first() -> None:
    assert list(everyday().meanings_in("把数据库备份到服务器")) == [
        (1, 4, "database"),
        (4, 6, "backup"),
        (7, 10, "server"),
    ]
    assert list(everyday().meanings_in("数据")) == [(0, 2, "data")]
    assert list(everyday().meanings_in("琴")) == list(everyday().meanings_in("")) == []


def test_a_glossary_without_groups_knows_nothing() -> None:
    assert Glossary(()).meaning("merge") is None
    assert list(Glossary(()).meanings_in("合并文件")) == []
