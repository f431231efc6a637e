"""The small parts that replies are made of."""

from openskills.testing.model_server_replies import event, pieces


def test_an_event_has_a_name_when_it_is_given_one() -> None:
    assert event({"a": "ü"}) == 'data: {"a": "ü"}\n\n'.encode()
    assert event("[DONE]", "end") == b"event: end\ndata: [DONE]\n\n"


def test_pieces_make_up_the_text() -> None:
    assert pieces("abcdefg", 3) == ["abc", "def", "g"]
    assert pieces("", 3) == []
