"""Hosts have one form, entries mean what they say, and addresses that are not public are known as such."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openskills.addresses import classify_address
from openskills.errors import InvalidArgument
from openskills.executors.network.allowlist import (
    AllowList,
    format_host_port,
    normalize_host,
    parse_entry,
    split_port,
)

PUBLIC = ip_address("93.184.215.14")


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("example.org", "example.org"),
        ("EXAMPLE.Org.", "example.org"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("_dmarc.example.org", "_dmarc.example.org"),
        ("127.0.0.1", IPv4Address("127.0.0.1")),
        ("[::1]", IPv6Address("::1")),
        ("[::FFFF:10.0.0.1]", IPv4Address("10.0.0.1")),
        ("[0:0:0:0:0:ffff:7f00:1]", IPv4Address("127.0.0.1")),
    ],
)
def test_a_host_has_one_form(text: str, host: object) -> None:
    assert normalize_host(text) == host


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "..", "a..b", "example.org..", ".example.org", "-a.org", "a-.org", "a" * 64 + ".org"),
        *("2130706433", "0x7f000001", "0x7f.1", "127.1", "0177.0.0.1", "127.0.0.01", "017700000001", "1.2.3.4.5", "0x"),
        *("127.0.0.1.1", "256.1.1.1", "example.0x1", "１２７.0.0.1"),
        *("exa mple.org", "example.org\0.evil.org", "example.org\n", "a%2eb.org", "%31%32", "user@example.org"),
        *("example.org/", "example.org\\.evil.org", "example。org", "bücher.example", "exämple", "ⓔxample.org"),
        *("::1", "[::1", "::1]", "[fe80::1%eth0]", "[::1%25lo]", "[127.0.0.1]", "[]", "[example.org]", "a:b"),
        ".".join(["a" * 60] * 5),
    ],
)
def test_what_two_programs_could_read_differently_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="host"):
        normalize_host(text)


@given(st.text(max_size=80))
def test_whatever_is_accepted_is_plain_and_stays_as_it_is(text: str) -> None:
    try:
        host = normalize_host(text)
    except InvalidArgument:
        return
    assert normalize_host(format_host_port(host, None)) == host
    assert not isinstance(host, str) or host.isascii()


@pytest.mark.parametrize(
    "text", ["a:0", "a:65536", "a:", "a:+80", "a:-1", "a: 80", "a:٨٠", "a:80a", "[::1]:", "a:123456"]
)
def test_a_port_is_a_number_between_1_and_65535(text: str) -> None:
    with pytest.raises(InvalidArgument, match="port"):
        split_port(text)


@pytest.mark.parametrize(
    ("kind", "addresses"),
    [
        ("loopback", "127.0.0.1 127.255.255.254 ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1"),
        ("private", "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 100.127.255.255 fc00::1 fd12::1"),
        ("private", "::ffff:10.0.0.1 64:ff9b::a00:1"),
        ("link-local", "169.254.1.1 fe80::1 ::ffff:169.254.1.1"),
        ("cloud metadata", "169.254.169.254 100.100.100.200 fd00:ec2::254 168.63.129.16 ::ffff:169.254.169.254"),
        ("cloud metadata", "64:ff9b::a9fe:a9fe"),
        ("multicast", "224.0.0.1 239.255.255.255 ff02::1"),
        ("unspecified", "0.0.0.0 0.1.2.3 ::"),
        ("reserved", "240.0.0.1 255.255.255.255 192.0.2.1 198.51.100.7 203.0.113.9 198.18.0.1 192.0.0.8 2001:db8::1"),
        ("reserved", "::127.0.0.1 ::10.0.0.1 64:ff9b:1::1 100::1 4000::1 5f00::1 3fff::1 fec0::1"),
        ("tunnelled", "2002:7f00:1:: 2002:a00:1::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:20::1"),
    ],
)
def test_an_address_that_is_not_public_is_known_in_every_form(kind: str, addresses: str) -> None:
    assert {address: classify_address(ip_address(address)) for address in addresses.split()} == dict.fromkeys(
        addresses.split(), kind
    )


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.215.14", "172.32.0.1", "100.128.0.1", "2606:4700::1111"])
def test_a_public_address_has_no_such_class(address: str) -> None:
    assert classify_address(ip_address(address)) is None
    assert classify_address(ip_address("64:ff9b::101:101")) is None


@given(st.ip_addresses(v=4))
def test_no_address_is_more_public_here_than_in_the_standard_library(address: IPv4Address) -> None:
    if classify_address(address) is None:
        assert address.is_global
        assert not address.is_multicast


@given(st.ip_addresses(v=6))
def test_no_ipv6_address_is_more_public_here_than_in_the_standard_library(address: IPv6Address) -> None:
    if classify_address(address) is None and address.packed[:4] != bytes.fromhex("0064ff9b"):
        assert address.is_global


@pytest.mark.parametrize(
    ("entry", "host", "port", "allowed"),
    [
        ("example.org", "example.org", 443, True),
        ("example.org", "example.org", 80, True),
        ("example.org", "example.org", 8080, False),
        ("Example.ORG.", "example.org", 443, True),
        ("example.org:8443", "example.org", 8443, True),
        ("example.org:8443", "example.org", 443, False),
        ("example.org", "a.example.org", 443, False),
        ("example.org", "evil-example.org", 443, False),
        ("*.example.org", "a.example.org", 443, True),
        ("*.example.org", "a.b.example.org", 443, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "evil-example.org", 443, False),
        ("*.example.org", "example.org.evil.com", 443, False),
        ("*.example.org:444", "a.example.org", 443, False),
        ("bücher.example", "xn--bcher-kva.example", 443, True),
        ("*", "anything.example", 443, True),
        ("*", "anything.example", 22, False),
        ("*:22", "anything.example", 22, True),
        ("10.0.0.5:8080", "10.0.0.5", 8080, True),
        ("10.0.0.5", "10.0.0.5", 443, True),
        ("10.0.0.5", "10.0.0.6", 443, False),
        ("[fd00::5]:81", "[fd00::5]", 81, True),
        ("fd00::5", "[fd00:0::5]", 443, True),
    ],
)
def test_an_entry_means_what_it_says(entry: str, host: str, port: int, allowed: bool) -> None:
    reason = AllowList([entry]).explain_refusal(normalize_host(host), port)
    assert (reason is None) is allowed


def test_a_wildcard_never_means_an_address() -> None:
    assert not parse_entry("*.0.0.1x").matches(normalize_host("10.0.0.1"), 443)
    with pytest.raises(InvalidArgument, match="an address has no subdomains"):
        parse_entry("*.10.0.0.1")


@pytest.mark.parametrize(
    "entry",
    [
        *("", "*.", "**.a.org", "*.*.org", "a*.org", "*a.org", "https://example.org", "example.org/path", "a b"),
        *("user@example.org", "example.org:0", "faß.de", "127.1", "example.org=", "example.org=public", "*=private"),
        *("example.org=10.0.0.1/8", "[fe80::1%lo]", "a\0b"),
    ],
)
def test_a_faulty_entry_is_refused_with_its_name(entry: str) -> None:
    with pytest.raises(InvalidArgument, match="network: "):
        AllowList([entry])


def test_one_string_is_not_taken_for_a_list_of_letters() -> None:
    with pytest.raises(InvalidArgument, match="must be a list"):
        AllowList("example.org")


def test_a_refused_host_is_named_with_what_would_allow_it() -> None:
    allowed = AllowList(["example.org"])
    assert allowed.explain_refusal("evil.com", 443) == (
        "evil.com:443 is not on the network allow-list of this command; to allow it, add 'evil.com' to the list"
    )
    assert "add 'evil.com:22' to" in str(allowed.explain_refusal("evil.com", 22))
    assert "add '[2606:4700::1111]' to" in str(allowed.explain_refusal(ip_address("2606:4700::1111"), 443))


@pytest.mark.parametrize(
    ("entries", "address", "allowed"),
    [
        (["intra.example"], "93.184.215.14", True),
        (["intra.example"], "10.1.2.3", False),
        (["intra.example=private"], "10.1.2.3", True),
        (["intra.example=private"], "fd12::1", True),
        (["intra.example=private"], "127.0.0.1", False),
        (["intra.example=private"], "169.254.169.254", False),
        (["intra.example=private"], "100.100.100.200", False),
        (["intra.example=private"], "fd00:ec2::254", False),
        (["intra.example=10.1.0.0/16"], "10.1.2.3", True),
        (["intra.example=10.1.0.0/16"], "10.2.2.3", False),
        (["intra.example=10.1.0.0/16"], "::ffff:10.1.2.3", True),
        (["intra.example=169.254.0.0/16"], "169.254.169.254", False),
        (["intra.example=169.254.169.254"], "169.254.169.254", True),
        (["intra.example", "10.1.2.3"], "10.1.2.3", True),
        (["intra.example", "10.1.2.3:8080"], "10.1.2.3", False),
        (["intra.example", "other.example=private"], "10.1.2.3", False),
        (["*"], "10.1.2.3", False),
    ],
)
def test_a_name_is_at_public_addresses_unless_the_list_says_where_else(
    entries: list[str], address: str, allowed: bool
) -> None:
    reason = AllowList(entries).explain_address_refusal("intra.example", 443, ip_address(address))
    assert (reason is None) is allowed


def test_a_refused_address_is_named_with_its_class_and_what_would_allow_it() -> None:
    reason = AllowList(["a.example"]).explain_address_refusal("a.example", 443, ip_address("10.1.2.3"))
    assert reason == (
        "a.example:443 is at 10.1.2.3, a private address; to allow it, add '10.1.2.3:443' to the network allow-list"
    )


def test_an_address_of_this_machine_is_refused_although_it_is_public() -> None:
    allowed = AllowList(["a.example", "b.example=93.184.215.14"])
    assert "this machine's own" in str(allowed.explain_address_refusal("a.example", 443, PUBLIC, own=True))
    assert allowed.explain_address_refusal("a.example", 443, PUBLIC) is None
    assert allowed.explain_address_refusal("b.example", 443, PUBLIC, own=True) is None


@pytest.mark.parametrize(
    ("entry", "reaches"), [("127.0.0.1:80", True), ("[::1]", True), ("localhost", True), ("a.org", False), ("*", False)]
)
def test_it_is_known_whether_the_hosts_own_loopback_is_meant(entry: str, reaches: bool) -> None:
    assert AllowList([entry]).can_reach_loopback() is reaches
