"""Which addresses may be reached: public ones, and the networks that the operator allows.

Python's `is_global` alone is not enough: it calls NAT64, 6to4 and IPv4-compatible forms of private addresses
global, and some clouds' metadata services too.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from webhookhub.conf import hub

# Services that return a machine's own credentials. Never reachable, not even in an allowed network.
METADATA = {
    ip_address(text)
    for text in (
        "169.254.169.254",  # most clouds
        "169.254.170.2",  # container credentials
        "169.254.170.23",
        "169.254.169.253",
        "169.254.169.123",
        "169.254.0.23",
        "169.254.42.42",
        "100.100.100.200",
        "100.96.0.96",
        "168.63.129.16",  # although a public address
        "192.0.0.192",
        "fd00:42::42",
        "fd00:c1::a9fe:a9fe",
        "fd00:ec2::123",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd00:ec2::253",
        "fd20:ce::254",
    )
}

# IANA's special-purpose registries: not hosts on the public internet.
SPECIAL_IPV4 = [
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
]
GLOBAL_IPV6 = IPv6Network("2000::/3")
SPECIAL_IPV6 = [
    IPv6Network(text)
    for text in (
        "2001::/23",  # Teredo, benchmarking, ORCHID and the rest of the protocol assignments
        "2001:db8::/32",
        "2002::/16",  # 6to4: contains an IPv4 address
        "2620:4f:8000::/48",
        "3fff::/20",
    )
]
# Networks whose last 32 bits are an IPv4 address: IPv4-compatible, IPv4-translated and NAT64.
CARRIES_IPV4 = [IPv6Network(text) for text in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")]


def may_reach(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address in METADATA or _embedded_ipv4(address) & METADATA:
        return False
    # A network of the other family contains no address, so one list serves both.
    if any(address in network for network in hub().allowed_networks):
        return True
    if isinstance(address, IPv4Address):
        return address.is_global and not any(address in network for network in SPECIAL_IPV4)
    return address in GLOBAL_IPV6 and not any(address in network for network in SPECIAL_IPV6)


def may_reach_text(text: str) -> bool:
    try:
        return may_reach(ip_address(text))
    except ValueError:
        return False


def _embedded_ipv4(address: IPv4Address | IPv6Address) -> set[IPv4Address]:
    """The IPv4 addresses that a gateway may translate an IPv6 address to."""
    if isinstance(address, IPv4Address):
        return set()
    embedded = {address.sixtofour} if address.sixtofour is not None else set()
    if address.teredo is not None:
        embedded |= set(address.teredo)
    if any(address in network for network in CARRIES_IPV4):
        embedded.add(IPv4Address(int(address) & 0xFFFFFFFF))
    return embedded
