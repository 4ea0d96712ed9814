"""Who may read the metrics: nobody, unless a setting says so.

The address is that of the connection. Headers that say otherwise can be made up by anybody; and a proxy on this machine
makes all the world look like this machine, which is why not even that is let in unasked.
"""

from __future__ import annotations

import hmac
from ipaddress import IPv6Address, ip_address

from django.http import HttpRequest

from webhookhub.conf import hub, variable

REFUSAL = (
    f"The metrics are shown to the networks in {variable('metrics_networks')}, "
    f"and to whoever sends the token in {variable('metrics_token')} (Authorization: Bearer …)."
)


def may_read_metrics(request: HttpRequest) -> bool:
    return _has_token(request.headers.get("Authorization", "")) or _is_near(request.META.get("REMOTE_ADDR", ""))


def _has_token(header: str) -> bool:
    scheme, _, token = header.partition(" ")
    wanted = hub().metrics_token
    if not wanted or scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(token.strip().encode(errors="replace"), wanted.encode())


def _is_near(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:  # a socket in the file system has none
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return any(address in network for network in hub().metrics_networks)
