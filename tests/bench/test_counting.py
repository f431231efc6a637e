import pytest

from openskills.bench.counting import Counting, best_counting, estimating
from openskills.errors import InvalidArgument
from openskills.tokens import estimate


def test_the_estimate_says_that_it_is_one() -> None:
    assert (estimating().name, estimating().exact, estimating().count("word")) == ("estimate", False, estimate("word"))


def test_the_exact_counter_is_taken_where_it_is_installed() -> None:
    pytest.importorskip("bpe_openai")
    found = best_counting("cl100k_base")
    assert (found.name, found.exact, found.count("hello world")) == ("cl100k_base", True, 2)


def test_an_unknown_encoding_is_refused() -> None:
    pytest.importorskip("bpe_openai")
    with pytest.raises(InvalidArgument, match="is unknown"):
        best_counting("klingon")


def test_a_text_is_counted_once_by_a_counter_that_remembers() -> None:
    seen: list[str] = []
    counting = Counting(lambda text: len(seen.append(text) or text), "letters", exact=True)
    count = counting.remembering()
    assert [count("abc"), count("abc"), count("d")] == [3, 3, 1]
    assert seen == ["abc", "d"]
