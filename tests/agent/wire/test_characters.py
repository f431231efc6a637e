"""Characters that arrive in halves."""

from hypothesis import given
from hypothesis import strategies as st

from openskills.agent.wire.characters import WholeCharacters, whole


def test_halves_in_two_pieces_become_one_character() -> None:
    characters = WholeCharacters()
    assert [characters.add("a\ud83d"), characters.add("\ude00b"), characters.end()] == ["a", "😀b", ""]


def test_a_half_that_stays_alone_becomes_a_mark() -> None:
    characters = WholeCharacters()
    assert [characters.add("\ude00"), characters.add("x\ud83d"), characters.end()] == ["\ufffd", "x", "\ufffd"]


def test_a_half_that_is_followed_by_something_else_becomes_a_mark() -> None:
    characters = WholeCharacters()
    assert characters.add("\ud83d") + characters.add("x") == "\ufffdx"


def test_whole_text_is_left_alone() -> None:
    assert whole("naïve 😀") == "naïve 😀"


@given(st.text(alphabet=st.characters(exclude_categories=())), st.integers(1, 3))
def test_whatever_comes_can_be_written_to_a_file(text: str, size: int) -> None:
    characters = WholeCharacters()
    pieces = [characters.add(text[start : start + size]) for start in range(0, len(text), size)]
    found = "".join([*pieces, characters.end()])
    assert found.encode() == whole(text).encode()


@given(st.text(), st.integers(1, 3))
def test_text_cut_between_its_escapes_is_the_text(text: str, size: int) -> None:
    halves = text.encode("utf-16-le")
    units = [halves[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(halves), 2)]
    characters = WholeCharacters()
    found = [characters.add("".join(units[at : at + size])) for at in range(0, len(units), size)]
    assert "".join([*found, characters.end()]) == text
