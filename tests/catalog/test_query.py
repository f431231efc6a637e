"""A query as what it asks for."""

from hypothesis import given
from hypothesis import strategies as st

from openskills.catalog.glossary import everyday
from openskills.catalog.query import Ask, asks_of


def nothing_known(term: str) -> bool:
    return False


def test_words_and_pairs_of_characters_are_asked_for_in_order_and_once() -> None:
    asks = asks_of("Zebra 斑马呢 zebra", nothing_known, everyday())
    assert asks == [Ask(("zebra",)), Ask(("斑马",)), Ask(("马呢",))]


def test_a_word_of_the_glossary_brings_its_meaning() -> None:
    assert asks_of("photos", nothing_known, everyday()) == [Ask(("photos",), "picture")]


def test_a_chinese_word_of_the_glossary_is_one_ask_with_all_of_its_pairs() -> None:
    asks = asks_of("把数据库弄好", nothing_known, everyday())
    assert asks == [Ask(("把数",)), Ask(("数据", "据库"), "database"), Ask(("库弄",)), Ask(("弄好",))]


def test_humps_are_cut_unless_the_whole_is_known() -> None:
    assert [ask.words for ask in asks_of("zebraTools", nothing_known, everyday())] == [("zebra",), ("tools",)]
    assert [ask.words for ask in asks_of("zebraTools", "zebratool".__eq__, everyday())] == [("zebratools",)]


def test_words_such_as_the_say_little() -> None:
    assert [ask.says_little for ask in asks_of("the zebra 什么", nothing_known, everyday())] == [True, False, True]


def test_a_long_query_is_read_from_its_beginning() -> None:
    assert asks_of("zebra " * 100 + " " * 1_000 + "giraffe", nothing_known, everyday()) == [Ask(("zebra",))]


@given(st.text(max_size=80))
def test_every_ask_has_words_and_none_comes_twice(query: str) -> None:
    asks = asks_of(query, nothing_known, everyday())
    assert all(ask.words and all(ask.words) for ask in asks)
    assert len(set(asks)) == len(asks)
