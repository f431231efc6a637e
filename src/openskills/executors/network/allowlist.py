"""Which hosts a command may reach: entries of an allow-list, names in their one form, classes of addresses. Pure.

An entry is `host`, `host:port`, `*.host` (everything below it, not itself) or `*` (every public host). Without a
port it means 80 and 443. A name may be at public addresses only, unless the entry says where else:
`git.example=10.1.0.0/16`, or `=private` for all private networks. An address as the host (`10.0.0.5:8080`,
`[fd00::5]`) allows that very address.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from openskills.errors import InvalidArgument

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Host = str | Address

DEFAULT_PORTS = (80, 443)
MAX_ENTRIES = 1000

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[0-9]{1,5}")
# The two generations of IDNA disagree about these four, so nobody knows which host is meant.
_AMBIGUOUS = frozenset("ßς\u200c\u200d")

_METADATA = frozenset(
    ip_address(address)
    for address in (
        *("169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
        *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),
    )
)
_PRIVATE = tuple(
    ip_network(network) for network in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
)
_CLASSES: tuple[tuple[str, tuple[Network, ...]], ...] = tuple(
    (kind, tuple(ip_network(network) for network in networks.split()))
    for kind, networks in (
        ("loopback", "127.0.0.0/8 ::1/128"),
        ("unspecified", "0.0.0.0/8 ::/128"),
        ("link-local", "169.254.0.0/16 fe80::/10"),
        ("multicast", "224.0.0.0/4 ff00::/8"),
        ("private", " ".join(str(network) for network in _PRIVATE)),
        (
            "reserved",
            "192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4",
        ),
        ("reserved", "2001:db8::/32 3fff::/20"),
        ("tunnelled", "2001::/23 2002::/16"),
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = IPv6Network("2000::/3")


def classify_address(address: Address) -> str | None:
    """Why an address is not a public one, in a word or two; None when it is.

    IPv6 forms that carry an IPv4 address are judged by that one, or refused as `tunnelled`.
    """
    address = unmap_address(address)
    if address in _METADATA:
        return "cloud metadata"
    if isinstance(address, IPv6Address) and address in _NAT64:
        return classify_address(IPv4Address(address.packed[-4:]))
    for kind, networks in _CLASSES:
        if any(address in network for network in networks):
            return kind
    return "reserved" if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST else None


def unmap_address(address: Address) -> Address:
    """The IPv4 address of `::ffff:192.0.2.1`, which is what the kernel would dial; every other address as it is."""
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def normalize_host(text: str, *, field: str = "host") -> Host:
    """A host in its one form: an address, or an ASCII name in lower case without the dot at the end.

    Raises `InvalidArgument` for everything that two programs could read differently: other characters, IPv4 addresses
    in decimal, octal, hexadecimal or short form, zones of IPv6 addresses.
    """
    name = text.lower() if text.isascii() else text
    if name.startswith("[") and name.endswith("]"):
        return _parse_ipv6(name[1:-1], field)
    name = name.removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _parse_ipv4(name, field)
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise InvalidArgument(field, f"{_excerpt(text)} is not the name of a host (international names as xn--…)")
    return name


def split_port(text: str, *, field: str = "host") -> tuple[str, int | None]:
    """`host:port` in two; the port is None when there is none. Raises `InvalidArgument` for a port that is none."""
    host, colon, port = text.rpartition(":")
    if not colon or (text.startswith("[") and text.endswith("]")):
        return text, None
    number = int(port) if _PORT.fullmatch(port) else 0
    if not 0 < number < 65536:
        raise InvalidArgument(field, f"{_excerpt(text)} has no port between 1 and 65535 after its colon")
    return host, number


@dataclass(frozen=True, slots=True)
class AllowListEntry:
    """One line of an allow-list. `host` None is every host; `below` is everything below a name."""

    host: Host | None
    has_subdomains: bool
    port: int | None
    networks: tuple[Network, ...] = ()

    def matches(self, host: Host, port: int) -> bool:
        """Whether it means this host at this port."""
        if port != self.port if self.port else port not in DEFAULT_PORTS:
            return False
        if self.host is None:
            return True
        if self.has_subdomains:
            return isinstance(host, str) and host.endswith(f".{self.host}")
        return host == self.host

    def has_network_for(self, address: Address) -> bool:
        """Whether it says that its name may be at this address, which is not public."""
        # A whole network never includes the one address in it that hands out credentials.
        return any(address in net and (address not in _METADATA or net.num_addresses == 1) for net in self.networks)


def parse_entry(text: str) -> AllowListEntry:
    """Read one entry; raises `InvalidArgument` that says what is wrong with it."""
    field = "network"
    pattern, equals, place = text.strip().partition("=")
    places = _parse_networks(place, field) if equals else ()
    literal = _parse_bare_ipv6(pattern)
    if literal is not None:
        return AllowListEntry(literal, has_subdomains=False, port=None, networks=places)
    name, port = split_port(pattern, field=field)
    if name == "*":
        if places:
            raise InvalidArgument(field, f"{_excerpt(text)}: every host can be at public addresses only; name the host")
        return AllowListEntry(None, has_subdomains=False, port=port)
    below = name.startswith("*.")
    host = normalize_host(_to_ascii(name.removeprefix("*."), field), field=field)
    if below and not isinstance(host, str):
        raise InvalidArgument(field, f"{_excerpt(text)}: there is nothing below an address; list the addresses")
    return AllowListEntry(host, below, port, places)


class AllowList:
    """The hosts that one command may reach."""

    def __init__(self, entries: Sequence[str]) -> None:
        """Raises `InvalidArgument` for an entry that cannot be read."""
        # A string is a sequence of strings, too, and every letter of it is a host's name.
        if isinstance(entries, str) or len(entries) > MAX_ENTRIES:
            raise InvalidArgument("network", f"must be a list of at most {MAX_ENTRIES:,} hosts")
        self._entries = tuple(parse_entry(entry) for entry in entries)

    def explain_refusal(self, host: Host, port: int) -> str | None:
        """Why this host may not be reached at this port, whatever its address; None when it may."""
        if any(entry.matches(host, port) for entry in self._entries):
            return None
        shown = format_host_port(host, port)
        entry = shown if port not in DEFAULT_PORTS else format_host_port(host, None)
        return f"{shown} is not on the network allow-list of this command; to allow it, add {entry!r} to the list"

    def explain_address_refusal(self, host: Host, port: int, address: Address, *, own: bool = False) -> str | None:
        """Why this address of the host may not be dialled; None when it may. `own`: it is one of this machine's."""
        address = unmap_address(address)
        kind = classify_address(address) or ("this machine's own" if own else None)
        if kind is None or self._has_network_for(host, port, address):
            return None
        shown = (
            f"{format_host_port(host, port)} is at {address}" if isinstance(host, str) else format_host_port(host, port)
        )
        return (
            f"{shown}, a {kind} address; to allow it, add {format_host_port(address, port)!r} to the network allow-list"
        )

    def can_reach_loopback(self) -> bool:
        """Whether an entry means the loopback of the host itself."""
        hosts = [entry.host for entry in self._entries]
        literal = any(not isinstance(host, str | None) and host.is_loopback for host in hosts)
        return literal or any(host == "localhost" or str(host).endswith(".localhost") for host in hosts)

    def _has_network_for(self, host: Host, port: int, address: Address) -> bool:
        if any(entry.host == address and entry.matches(address, port) for entry in self._entries):
            return True
        return any(entry.matches(host, port) and entry.has_network_for(address) for entry in self._entries)


def format_host_port(host: Host, port: int | None) -> str:
    """`host:port` as it is written in an address, with brackets where they are needed."""
    shown = f"[{host}]" if isinstance(host, IPv6Address) else str(host)
    return shown if port is None else f"{shown}:{port}"


def _parse_networks(text: str, field: str) -> tuple[Network, ...]:
    if text == "private":
        return _PRIVATE
    try:
        return (ip_network(text),)
    except ValueError:
        raise InvalidArgument(field, f"={_excerpt(text)} is neither 'private' nor an address or network") from None


def _parse_bare_ipv6(text: str) -> Address | None:
    try:
        return unmap_address(IPv6Address(text)) if text.count(":") > 1 and "%" not in text else None
    except ValueError:
        return None


def _parse_ipv6(text: str, field: str) -> Address:
    try:
        if "%" not in text:
            return unmap_address(IPv6Address(text))
    except ValueError:
        pass
    raise InvalidArgument(field, f"{_excerpt(text)} is not an IPv6 address without a zone")


def _parse_ipv4(text: str, field: str) -> Address:
    try:
        return IPv4Address(text)
    except ValueError:
        raise InvalidArgument(field, f"{_excerpt(text)} is not an IPv4 address in the form 192.0.2.1") from None


def _to_ascii(name: str, field: str) -> str:
    if name.isascii():
        return name
    try:
        if _AMBIGUOUS.isdisjoint(name):
            return name.encode("idna").decode("ascii")
    except UnicodeError:
        pass
    raise InvalidArgument(field, f"{_excerpt(name)} has no ASCII form that everybody agrees on; write it as xn--…")


def _excerpt(text: str) -> str:
    return ascii(text if len(text) <= 100 else f"{text[:100]}…")
