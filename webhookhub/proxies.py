"""Which client a request comes from, and whether it used TLS, behind proxies.

By default both are those of the connection, except that a proxy on this machine may say that the client used TLS.
Proxies in WEBHOOKHUB_TRUSTED_PROXIES are also believed about the client's address. The headers of all others are
removed.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from webhookhub.conf import Network, hub, variable
from webhookhub.logs import Log, log

LOOPBACK = ("127.0.0.1", "::1")
FOR, PROTO = "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO"


def apply(environ: dict[str, Any]) -> None:
    """Sets the client's address and scheme in a WSGI environment."""
    if FOR not in environ and PROTO not in environ:
        return
    peer = environ.get("REMOTE_ADDR", "")
    trusted = is_in(peer, hub().trusted_proxies)
    scheme = environ.get(PROTO, "")
    if not (trusted or peer in LOOPBACK) or scheme not in ("http", "https"):
        if environ.pop(PROTO, None):
            _log_untrusted(peer)
    else:
        environ["wsgi.url_scheme"] = scheme
    addresses = environ.pop(FOR, "")
    if trusted and addresses:
        environ["REMOTE_ADDR"] = _client(addresses, peer)


@lru_cache(maxsize=100)
def _log_untrusted(peer: str) -> None:
    """Once: behind such a proxy, the console redirects to itself for ever."""
    log(Log.PROXY_UNTRUSTED, address=peer, setting=variable("trusted_proxies"))


def _client(addresses: str, peer: str) -> str:
    """The last address that no trusted proxy has: clients can write whatever they want before it."""
    client = peer
    for text in reversed(addresses.split(",")):
        address = parsed(text.strip())
        if address is None:
            return client
        client = str(address)
        if not is_in(client, hub().trusted_proxies):
            return client
    return client


@lru_cache(maxsize=1000)
def is_in(text: str, networks: tuple[Network, ...]) -> bool:
    address = parsed(text)
    return address is not None and any(address in network for network in networks)


def parsed(text: str) -> IPv4Address | IPv6Address | None:
    """An IPv4 address in its IPv6 form counts as the IPv4 address. None for a Unix socket, which has no address."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
