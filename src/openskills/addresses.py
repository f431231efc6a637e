"""Classes of internet addresses: which are public, and what the others are. Pure."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

METADATA = frozenset(
    ip_address(address)
    for address in (
        *("169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
        *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),
    )
)
PRIVATE = tuple(
    ip_network(network) for network in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
)
_CLASSES: tuple[tuple[str, tuple[Network, ...]], ...] = tuple(
    (kind, tuple(ip_network(network) for network in networks.split()))
    for kind, networks in (
        ("loopback", "127.0.0.0/8 ::1/128"),
        ("unspecified", "0.0.0.0/8 ::/128"),
        ("link-local", "169.254.0.0/16 fe80::/10"),
        ("multicast", "224.0.0.0/4 ff00::/8"),
        ("private", " ".join(str(network) for network in PRIVATE)),
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
    """The class of an address that is not public; None if it is public.

    IPv6 forms with an embedded IPv4 address are classified by that one, or as `tunnelled`.
    """
    address = unmap_address(address)
    if address in METADATA:
        return "cloud metadata"
    if isinstance(address, IPv6Address) and address in _NAT64:
        return classify_address(IPv4Address(address.packed[-4:]))
    for kind, networks in _CLASSES:
        if any(address in network for network in networks):
            return kind
    return "reserved" if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST else None


def is_loopback(host: str) -> bool:
    """Whether a host name or an address means this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def unmap_address(address: Address) -> Address:
    """The IPv4 address of `::ffff:192.0.2.1`, which the kernel would dial; other addresses unchanged."""
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
