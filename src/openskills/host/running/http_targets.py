"""Which addresses a skill behind HTTP may be called at. Pure.

A target is a host name (`api.example.com`, `*.example.com`), an address or a network (`10.1.2.3`, `10.0.0.0/8`), each
with a port if only that one is meant (`localhost:9000`, `[::1]:9000`). Without targets every public address is allowed;
with targets only these are. An address that is not public must be listed, by name or by number.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from openskills.errors import ForbiddenPath, InvalidArgument

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class ForbiddenTarget(ForbiddenPath):
    """An address that a skill behind HTTP may not be called at."""

    reason = "FORBIDDEN_TARGET"


@dataclass(frozen=True, slots=True)
class Target:
    """One entry of the list. `name` is lower case; with a leading `*.` it stands for everything below."""

    name: str
    network: _Network | None
    port: int | None

    def names(self, host: str, port: int) -> bool:
        """Whether this entry has the host by its name."""
        if self.network is not None or self.port not in (None, port):
            return False
        if self.name.startswith("*."):
            return host.endswith(self.name[1:]) and host != self.name[2:]
        return host == self.name

    def holds(self, address: Address, port: int) -> bool:
        """Whether this entry has the address by its number."""
        if self.network is None or self.port not in (None, port):
            return False
        return address.version == self.network.version and address in self.network


def parse_target(text: str) -> Target:
    """One entry as it is written; raises `InvalidArgument` for what is none."""
    rest = text.strip().lower().removeprefix("https://").removeprefix("http://").rstrip("/")
    host, port = _split(rest)
    try:
        return Target(host, ipaddress.ip_network(host, strict=False), port)
    except ValueError:
        if ":" in host:
            raise InvalidArgument(
                "OPENSKILL_HOST_HTTP_TARGETS", f"{text!r} is no address; one of version 6 with a port is [::1]:8080"
            ) from None
        if not host or set(host) & set("/@?#[] ") or "*" in host.removeprefix("*."):
            raise InvalidArgument("OPENSKILL_HOST_HTTP_TARGETS", f"{text!r} is no host, address or network") from None
        return Target(host, None, port)


def _split(text: str) -> tuple[str, int | None]:
    if text.startswith("["):
        host, _, after = text[1:].partition("]")
        port = after.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        return text, None
    if port and not (port.isdecimal() and 0 < int(port) < 2**16):
        raise InvalidArgument("OPENSKILL_HOST_HTTP_TARGETS", f"{text!r} has no port after its colon")
    return host, int(port) if port else None


def check_name(host: str, port: int, targets: Sequence[Target]) -> None:
    """Raises `ForbiddenTarget` when no address of this host could be allowed."""
    if targets and not any(one.names(host, port) or one.network is not None for one in targets):
        raise _not_listed(host, port)


def allowed(host: str, port: int, addresses: Sequence[str], targets: Sequence[Target]) -> str:
    """The first of the addresses of a host that may be called; raises `ForbiddenTarget` when none may."""
    named = any(one.names(host, port) for one in targets)
    for text in addresses:
        address = _plain(ipaddress.ip_address(text.partition("%")[0]))
        if named or any(one.holds(address, port) for one in targets):
            return text
        if not targets and is_public(address):
            return text
    if targets:
        raise _not_listed(host, port)
    hint = f"add {_shown(host, port)} to OPENSKILL_HOST_HTTP_TARGETS"
    raise ForbiddenTarget(f"{host} is at {', '.join(addresses)}, which is not public; {hint}")


def is_public(address: Address) -> bool:
    """Whether an address is of the internet, and of nobody's own network, machine or cloud."""
    return address.is_global and not address.is_multicast and not address.is_reserved


def _plain(address: Address) -> Address:
    """The address that is really dialled: some of version 6 only wrap one of version 4."""
    if isinstance(address, ipaddress.IPv6Address):
        wrapped = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        nat64 = ipaddress.ip_network("64:ff9b::/96")
        if wrapped is None and address in nat64:
            wrapped = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return wrapped or address
    return address


def _not_listed(host: str, port: int) -> ForbiddenTarget:
    return ForbiddenTarget(f"{_shown(host, port)} is not among OPENSKILL_HOST_HTTP_TARGETS; add it to call this skill")


def _shown(host: str, port: int) -> str:
    """A host and a port as `parse_target` reads them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
