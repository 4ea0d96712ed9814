"""Only the settings give access to the metrics."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from django.test import RequestFactory

from webhookhub.stats.probes import may_read_metrics

TOKEN = "a-token-of-some-length"


def allowed(address: str = "203.0.113.7", **headers: str) -> bool:
    return may_read_metrics(RequestFactory().get("/metrics", headers=headers, REMOTE_ADDR=address))


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "", "not an address"])
def test_metrics_are_refused_by_default(address: str):
    assert not allowed(address)
    assert not allowed(address, Authorization="Bearer ")


@pytest.mark.parametrize(
    ("address", "near"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("fd00::7", True),
        ("11.1.2.3", False),
        ("::ffff:11.1.2.3", False),
        ("127.0.0.1", False),
        ("", False),
    ],
)
def test_the_configured_networks_may_read_metrics(hub_settings, address: str, near: bool):
    hub_settings(metrics_networks=(ip_network("10.0.0.0/8"), ip_network("fd00::/8")))
    assert allowed(address) == near


def test_no_header_changes_the_address_that_is_checked(hub_settings):
    hub_settings(metrics_networks=(ip_network("10.0.0.0/8"),))
    assert not allowed(**dict.fromkeys(("X-Forwarded-For", "X-Real-IP", "Forwarded", "Client-IP"), "10.0.0.1"))


@pytest.mark.parametrize(
    ("header", "right"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer {TOKEN}", True),
        (f"Bearer {TOKEN}x", False),
        (f"Bearer {TOKEN[:-1]}", False),
        ("Bearer", False),
        ("Bearer tökén", False),
        (f"Basic {TOKEN}", False),
        (TOKEN, False),
    ],
)
def test_the_token_allows_metrics_from_any_address(hub_settings, header: str, right: bool):
    hub_settings(metrics_token=TOKEN)
    assert allowed(Authorization=header) == right
