"""Where skills behind HTTP may be."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.errors import InvalidArgument
from openskills.host.running.http_targets import ForbiddenTarget, allowed, check_name, is_public, parse_target

PRIVATE = [
    *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1"),
    *(
        "::1",
        "fe80::1",
        "fc00::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "::",
    ),
    *("::", "255.255.255.255", "240.0.0.1", "198.18.0.1", "192.0.2.1"),
]


@pytest.mark.parametrize("address", PRIVATE)
def test_without_targets_an_address_that_is_not_public_is_refused(address: str) -> None:
    with pytest.raises(ForbiddenTarget, match="not public"):
        allowed("example.com", 80, [address], ())


def test_without_targets_a_public_address_is_taken() -> None:
    assert allowed("example.com", 443, ["93.184.216.34"], ()) == "93.184.216.34"
    assert allowed("example.com", 443, ["2606:2800:220:1::1"], ()) == "2606:2800:220:1::1"


def test_of_several_addresses_the_first_that_is_allowed_is_taken() -> None:
    assert allowed("example.com", 443, ["10.0.0.1", "93.184.216.34"], ()) == "93.184.216.34"


@pytest.mark.parametrize("target", ["internal", "internal:8080", "10.0.0.0/8", "10.1.2.3", "10.1.2.3:8080"])
def test_a_private_address_is_taken_when_it_is_listed(target: str) -> None:
    assert allowed("internal", 8080, ["10.1.2.3"], [parse_target(target)]) == "10.1.2.3"


@pytest.mark.parametrize("target", ["other", "internal:81", "*.internal", "11.0.0.0/8", "10.1.2.3:81"])
def test_with_targets_everything_else_is_refused(target: str) -> None:
    with pytest.raises(ForbiddenTarget, match="not among"):
        allowed("internal", 8080, ["10.1.2.3"], [parse_target(target)])


def test_a_star_stands_for_what_is_below_a_name_only() -> None:
    targets = [parse_target("*.example.com")]
    assert allowed("a.example.com", 443, ["93.184.216.34"], targets)
    for other in ("example.com", "notexample.com", "example.com.evil.org"):
        with pytest.raises(ForbiddenTarget):
            check_name(other, 443, targets)


@pytest.mark.parametrize("text", ["", "a b", "http://", "x/y", "user@host", "host:99999", "host:http", "a*b"])
def test_what_is_no_target_is_told(text: str) -> None:
    with pytest.raises(InvalidArgument, match="OPENSKILL_HOST_HTTP_TARGETS"):
        parse_target(text)


def test_an_address_of_version_6_is_shown_as_it_has_to_be_listed() -> None:
    with pytest.raises(ForbiddenTarget, match=r"add \[::1\]:18602 to OPENSKILL_HOST_HTTP_TARGETS"):
        allowed("::1", 18602, ["::1"], [])
    with pytest.raises(ForbiddenTarget, match=r"\[::1\]:18602 is not among"):
        allowed("::1", 18602, ["::1"], [parse_target("[::1]:18603")])
    assert allowed("::1", 18602, ["::1"], [parse_target("[::1]:18602")]) == "::1"


def test_an_address_of_version_6_with_a_port_and_no_brackets_is_refused_with_the_right_form() -> None:
    with pytest.raises(InvalidArgument, match=r"'::1:18602' is no address; .* \[::1\]:8080"):
        parse_target("::1:18602")


def test_a_url_and_brackets_are_understood() -> None:
    assert parse_target("https://Api.Example.com:8443/").port == 8443
    assert parse_target("[::1]:9000").port == 9000
    assert parse_target("::1").network is not None


@given(st.ip_addresses())
def test_what_is_public_is_nobodys_own(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    own = (address.is_private, address.is_loopback, address.is_link_local, address.is_unspecified, address.is_multicast)
    assert not (is_public(address) and any(own))
