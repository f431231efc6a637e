"""Addresses are compared by what they mean, and shown without secrets."""

import pytest

from openskills.catalog.fetch.urls import allow, join, key, plain, shown, split
from openskills.errors import ForbiddenPath, InvalidArgument


@pytest.mark.parametrize(
    "text",
    [
        "https://me:s3cret@example.org/a.zip",
        "https://s3cret@example.org/a.zip",
        "https://example.org/a.zip?token=s3cret",
        "https://example.org/a.zip#s3cret",
        "cannot clone https://me:s3cret@example.org/x.git now",
        "https://a@b:s3cret@example.org/",
    ],
)
def test_what_is_shown_holds_no_secret(text: str) -> None:
    assert "s3cret" not in shown(text)
    assert "example.org" in shown(text)


@pytest.mark.parametrize(
    "address",
    [
        "http://alice:s3cr#t@example.org/x",
        "http://alice:s3/cret@example.org/x",
        "http://alice:s3?cret@example.org/x",
        "http://alice:123/s3cret@example.org/x",
        "http://s3/cret@example.org/x",
        "https://me@corp.org:s3/cret@example.org/x",
    ],
)
def test_a_mistyped_password_is_not_shown_in_part(address: str) -> None:
    assert shown(address).partition("://")[2] == "...@example.org/x"


def test_an_at_sign_in_the_path_of_a_plain_address_is_shown() -> None:
    for address in ("https://cdn.example.org/gh/me/repo@1.0/SKILL.md", "https://example.org/@scope/a.zip"):
        assert shown(address) == address


@pytest.mark.parametrize("address", ["http://a:s3cr#t@h.org/", "http://a:s3/cr@h.org/", "http://a:s3 cr@h.org/"])
def test_a_mistyped_password_is_answered_with_how_to_write_it(address: str) -> None:
    with pytest.raises(InvalidArgument, match=r"write / .* as %2F %3F %23 %40") as caught:
        split(address)
    assert "s3" not in str(caught.value)


@pytest.mark.parametrize("host", ["a" * 64, "a..b", ".", "a" * 64 + ".org"])
def test_a_host_that_cannot_be_is_refused(host: str) -> None:
    with pytest.raises(InvalidArgument, match="1 to 63 characters"):
        split(f"http://{host}/x.zip")
    assert split("http://example.org./x").hostname == "example.org."


def test_spellings_of_one_address_share_a_key() -> None:
    spellings = ["https://Example.org/a", "https://example.org:443/a#x", "https://u:p@example.org/a"]
    assert {plain(spelling) for spelling in spellings} == {"https://example.org/a"}
    assert len(key(plain(spellings[0]))) == 64
    assert plain("http://[::1]:8080") == "http://[::1]:8080/"


@pytest.mark.parametrize("url", ["https://[::1", "https://h:99999/", "https://h/a b", "https://h/\x00", "https://h/\n"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument):
        split(url)


def test_joining_keeps_credentials_on_the_same_server_only() -> None:
    base = "https://u:p@example.org/.well-known/agent-skills/index.json"
    assert join(base, "a/SKILL.md", field="url") == "https://u:p@example.org/.well-known/agent-skills/a/SKILL.md"
    assert join(base, "https://example.org/x", field="url") == "https://u:p@example.org/x"
    assert join(base, "https://other.org/x", field="url") == "https://other.org/x"


@pytest.mark.parametrize("reference", ["file:///etc/passwd", "javascript:1", "data:,x", "ftp://h/x"])
def test_an_address_of_another_scheme_is_refused(reference: str) -> None:
    with pytest.raises(ForbiddenPath, match="is not an http or https address"):
        join("https://example.org/", reference, field="url")


def test_a_step_down_from_https_is_refused() -> None:
    with pytest.raises(ForbiddenPath, match="down to http"):
        allow("https://example.org/", "http://example.org/a", field="url")
    allow("http://example.org/", "https://example.org/a", field="url")
