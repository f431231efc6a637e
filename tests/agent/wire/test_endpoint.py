"""Addresses and keys, before anything is sent."""

import pytest

from openskills.agent.wire.endpoint import checked_key, checked_url, place_of, secrets_in
from openskills.errors import InvalidArgument, Unauthorized


def test_an_address_is_taken_without_the_blanks_around_it() -> None:
    assert str(checked_url(" http://models.local:8000/v1\n")) == "http://models.local:8000/v1"


@pytest.mark.parametrize("url", ["", "models.local", "//models.local", "file:///etc", "http://host:port", "http://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="base_url"):
        checked_url(url)


def test_a_refused_address_is_shown_without_the_password_in_it() -> None:
    with pytest.raises(InvalidArgument, match=r"'models\.local'"):
        checked_url("ftp://me:secret@models.local")


def test_a_key_is_taken_without_the_line_end_that_was_copied_with_it() -> None:
    assert checked_key(" sk-1\n", "OPENAI_API_KEY") == "sk-1"
    assert not checked_key(None, "OPENAI_API_KEY")


def test_a_key_that_http_cannot_send_is_refused_by_the_name_of_its_variable() -> None:
    with pytest.raises(Unauthorized, match=r"the key \(OPENAI_API_KEY\) has blanks") as caught:
        checked_key("sk-…1", "OPENAI_API_KEY")
    assert "sk-" not in str(caught.value)


def test_a_place_is_told_with_its_port_and_without_who_goes_there() -> None:
    assert place_of(checked_url("http://me:secret@models.local:8000/v1")) == "models.local:8000"
    assert place_of(checked_url("https://models.local/v1")) == "models.local"


def test_headers_with_telling_names_are_secret() -> None:
    headers = {"X-Api-Key": "one", "Authorization": "two", "x-team": "skills", "Proxy-Token": "three"}
    assert secrets_in(headers) == ["one", "two", "three"]
