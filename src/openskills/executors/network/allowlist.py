"""Network allow-list: entries and canonical host names. Pure.

An entry is `host`, `host:port`, `*.host` (every subdomain, not the host itself) or `*` (every public host). Without a
port it means 80 and 443. A name may only resolve to public addresses, unless the entry allows others:
`git.example=10.1.0.0/16`, or `=private` for all private networks. An address as the host (`10.0.0.5:8080`,
`[fd00::5]`) allows exactly that address.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_network

from openskills.addresses import METADATA, PRIVATE, Address, Network, classify_address, unmap_address
from openskills.errors import InvalidArgument, shorten

Host = str | Address

DEFAULT_PORTS = (80, 443)
MAX_ENTRIES = 1000

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[0-9]{1,5}")
# IDNA 2003 and 2008 encode these four differently, so they are ambiguous.
_AMBIGUOUS = frozenset("ßς\u200c\u200d")


def normalize_host(text: str, *, field: str = "host") -> Host:
    """The canonical form of a host: an address, or a lower-case ASCII name without trailing dot.

    Raises `InvalidArgument` for ambiguous forms: other characters, IPv4 addresses in decimal, octal, hexadecimal or
    short form, zones of IPv6 addresses.
    """
    name = text.lower() if text.isascii() else text
    if name.startswith("[") and name.endswith("]"):
        with suppress(ValueError):
            if "%" not in name:
                return unmap_address(IPv6Address(name[1:-1]))
        raise InvalidArgument(field, f"{shorten(name[1:-1])!a} is not an IPv6 address without a zone")
    name = name.removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return IPv4Address(name)
        except ValueError:
            raise InvalidArgument(field, f"{shorten(name)!a} is not an IPv4 address in the form 192.0.2.1") from None
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise InvalidArgument(field, f"invalid host name {shorten(text)!a}; write international names as xn--…")
    return name


def split_port(text: str, *, field: str = "host") -> tuple[str, int | None]:
    """Split `host:port`; the port is None if missing. Raises `InvalidArgument` for an invalid port."""
    host, colon, port = text.rpartition(":")
    if not colon or (text.startswith("[") and text.endswith("]")):
        return text, None
    number = int(port) if _PORT.fullmatch(port) else 0
    if not 0 < number < 65536:
        raise InvalidArgument(field, f"invalid port in {shorten(text)!a}; use a number from 1 to 65535")
    return host, number


@dataclass(frozen=True, slots=True)
class AllowListEntry:
    """One entry of an allow-list. `host` None means every host; `has_subdomains` means all subdomains instead."""

    host: Host | None
    has_subdomains: bool
    port: int | None
    networks: tuple[Network, ...] = ()

    def matches(self, host: Host, port: int) -> bool:
        """Whether the entry matches this host and port."""
        if port != self.port if self.port else port not in DEFAULT_PORTS:
            return False
        if self.host is None:
            return True
        if self.has_subdomains:
            return isinstance(host, str) and host.endswith(f".{self.host}")
        return host == self.host

    def has_network_for(self, address: Address) -> bool:
        """Whether its name may resolve to this address, which is not public."""
        # A whole network never includes a metadata address, which hands out credentials.
        return any(address in net and (address not in METADATA or net.num_addresses == 1) for net in self.networks)


def parse_entry(text: str) -> AllowListEntry:
    """Parse one entry; raises `InvalidArgument`."""
    field = "network"
    pattern, equals, place = text.strip().partition("=")
    places = _parse_networks(place, field) if equals else ()
    if pattern.count(":") > 1 and "%" not in pattern:
        with suppress(ValueError):
            literal = unmap_address(IPv6Address(pattern))
            return AllowListEntry(literal, has_subdomains=False, port=None, networks=places)
    name, port = split_port(pattern, field=field)
    if name == "*":
        if places:
            raise InvalidArgument(field, f"{shorten(text)!a}: `*` only allows public addresses; name the host")
        return AllowListEntry(None, has_subdomains=False, port=port)
    below = name.startswith("*.")
    host = normalize_host(_to_ascii(name.removeprefix("*."), field), field=field)
    if below and not isinstance(host, str):
        raise InvalidArgument(field, f"{shorten(text)!a}: an address has no subdomains; list the addresses")
    return AllowListEntry(host, below, port, places)


class AllowList:
    """The hosts that one command may reach."""

    def __init__(self, entries: Sequence[str]) -> None:
        """Raises `InvalidArgument` for an invalid entry."""
        # A string is a sequence of strings, too, and each of its letters would be a host.
        if isinstance(entries, str) or len(entries) > MAX_ENTRIES:
            raise InvalidArgument("network", f"must be a list of at most {MAX_ENTRIES:,} hosts")
        self._entries = tuple(parse_entry(entry) for entry in entries)

    def explain_refusal(self, host: Host, port: int) -> str | None:
        """Why this host and port are not allowed, regardless of its addresses; None if they are."""
        if any(entry.matches(host, port) for entry in self._entries):
            return None
        shown = format_host_port(host, port)
        entry = shown if port not in DEFAULT_PORTS else format_host_port(host, None)
        return f"{shown} is not on the network allow-list of this command; to allow it, add {entry!r} to the list"

    def explain_address_refusal(self, host: Host, port: int, address: Address, *, own: bool = False) -> str | None:
        """Why this address of the host is not allowed; None if it is. `own`: it is one of this machine's."""
        address = unmap_address(address)
        kind = classify_address(address) or ("this machine's own" if own else None)
        if kind is None or self._has_network_for(host, port, address):
            return None
        shown = format_host_port(host, port) + (f" is at {address}" if isinstance(host, str) else "")
        entry = format_host_port(address, port)
        return f"{shown}, a {kind} address; to allow it, add {entry!r} to the network allow-list"

    def can_reach_loopback(self) -> bool:
        """Whether an entry allows the loopback of the host."""
        hosts = [entry.host for entry in self._entries]
        literal = any(not isinstance(host, str | None) and host.is_loopback for host in hosts)
        return literal or any(host == "localhost" or str(host).endswith(".localhost") for host in hosts)

    def _has_network_for(self, host: Host, port: int, address: Address) -> bool:
        if any(entry.host == address and entry.matches(address, port) for entry in self._entries):
            return True
        return any(entry.matches(host, port) and entry.has_network_for(address) for entry in self._entries)


def format_host_port(host: Host, port: int | None) -> str:
    """`host:port` as in a URL, with brackets around IPv6 addresses."""
    shown = f"[{host}]" if isinstance(host, IPv6Address) else str(host)
    return shown if port is None else f"{shown}:{port}"


def _parse_networks(text: str, field: str) -> tuple[Network, ...]:
    if text == "private":
        return PRIVATE
    try:
        return (ip_network(text),)
    except ValueError:
        raise InvalidArgument(field, f"={shorten(text)!a} is neither 'private' nor an address or network") from None


def _to_ascii(name: str, field: str) -> str:
    if name.isascii():
        return name
    with suppress(UnicodeError):
        if _AMBIGUOUS.isdisjoint(name):
            return name.encode("idna").decode("ascii")
    raise InvalidArgument(field, f"{shorten(name)!a} has no unambiguous ASCII form; write it as xn--…")
