"""Counting tokens: a quick estimate, and an exact count behind an extra."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openskills.errors import InvalidArgument
from openskills.tokens import estimate_tokens, load_exact_counter

# bpe-openai opens its vocabulary in a deprecated way when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated")

ENGLISH = (
    "Merge, split and rotate PDF files without losing bookmarks. Use this skill when the user mentions several "
    "documents that should become one, wants to take out pages, or needs to fill in a form. It also extracts text "
    "and tables from reports."
)
CHINESE = (
    "对表格数据进行清洗、统计和可视化，生成图表与分析报告。当用户上传文件并希望了解其中的趋势、异常和关联时使用本技能。"
)


def test_nothing_costs_nothing() -> None:
    assert estimate_tokens("") == 0
    assert load_exact_counter()("") == 0


def test_the_estimate_counts_a_quarter_per_ascii_character_rounded_up() -> None:
    assert [estimate_tokens("x" * length) for length in (1, 4, 5, 400)] == [1, 1, 2, 100]


def test_the_estimate_counts_three_quarters_per_chinese_character_and_half_for_other_letters() -> None:
    assert estimate_tokens("数" * 100) == 75
    assert estimate_tokens("é" * 100) == 50
    assert estimate_tokens("a" * 100 + "数" * 100 + "é" * 100) == 150


@pytest.mark.parametrize("text", [ENGLISH, CHINESE, ENGLISH + CHINESE], ids=["English", "Chinese", "both"])
def test_the_estimate_is_near_the_exact_count_of_prose(text: str) -> None:
    assert estimate_tokens(text) == pytest.approx(load_exact_counter()(text), rel=0.25)


def test_the_exact_count_is_that_of_the_tokenizer() -> None:
    assert load_exact_counter()("hello world") == 2
    assert load_exact_counter("cl100k_base")("hello world") == 2


def test_markers_of_a_model_in_a_text_are_counted_as_text() -> None:
    assert load_exact_counter()("<|endoftext|>") > 1


def test_an_unknown_encoding_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidArgument, match=r"encoding: unknown encoding 'klingon'; use one of .*o200k_base"):
        load_exact_counter("klingon")


@settings(deadline=None)
@given(st.text(), st.text())
def test_more_text_never_costs_less(one: str, other: str) -> None:
    assert (
        max(estimate_tokens(one), estimate_tokens(other))
        <= estimate_tokens(one + other)
        <= estimate_tokens(one) + estimate_tokens(other)
    )


@settings(deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_any_text_has_an_estimate(text: str) -> None:
    assert 0 <= estimate_tokens(text) <= len(text)


@pytest.mark.parametrize("text", [ENGLISH, f"{ENGLISH}\n\n  - {ENGLISH}"], ids=["words", "lines"])
def test_a_text_that_is_too_long_for_the_tokenizer_is_counted_exactly_all_the_same(text: str) -> None:
    count = load_exact_counter()
    times = 2_200_000 // len(text)
    # The first word of all has no blank before it.
    assert count(f" {text}" * times) == count(f" {text}") * times


@pytest.mark.parametrize("text", [CHINESE, "ab", " ", "\U0001f9f0", "\U000e0041"])
def test_a_long_text_without_words_is_counted_too(text: str) -> None:
    count = load_exact_counter()
    assert count(text * (1_200_000 // len(text))) >= count(text * (39_000 // len(text))) * 30
