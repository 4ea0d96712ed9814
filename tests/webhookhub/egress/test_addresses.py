"""Which addresses may be reached."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from webhookhub.egress.addresses import METADATA, may_reach

PUBLIC = [
    "8.8.8.8",
    "172.15.255.255",
    "172.32.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "192.167.255.255",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2003::1",
    "::ffff:8.8.8.8",
]
SPECIAL = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.255",
    "169.254.1.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.9",
    "192.0.2.1",
    "192.31.196.1",
    "192.52.193.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.175.48.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::8.8.8.8",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::8.8.8.8",
    "64:ff9b::127.0.0.1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::",
    "2620:4f:8000::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fe80::1",
    "fec0::1",
    "febf::1",
    "ff02::1",
]
SOME_METADATA = ["169.254.169.254", "168.63.129.16", "100.100.100.200", "fd00:ec2::254"]
DISGUISED_METADATA = [
    "::ffff:169.254.169.254",
    "::169.254.169.254",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::169.254.169.254",
    "::ffff:0:169.254.169.254",
    "2001:0:a9fe:a9fe::1",
    "2002:a9fe:a9fe::1",
    "::ffff:168.63.129.16",
]


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_may_be_reached(hub_settings, text: str):
    hub_settings(allowed_networks=())

    assert may_reach(ip_address(text))


@pytest.mark.parametrize("text", SPECIAL)
def test_special_addresses_may_not_be_reached(hub_settings, text: str):
    hub_settings(allowed_networks=())

    assert not may_reach(ip_address(text))


@pytest.mark.parametrize("text", [*SOME_METADATA, *DISGUISED_METADATA])
def test_metadata_services_may_not_be_reached_even_in_an_allowed_network(hub_settings, text: str):
    hub_settings(allowed_networks=(ip_network("0.0.0.0/0"), ip_network("::/0")))

    assert not may_reach(ip_address(text))


def test_no_listed_metadata_service_may_be_reached_even_in_an_allowed_network(hub_settings):
    hub_settings(allowed_networks=(ip_network("0.0.0.0/0"), ip_network("::/0")))

    assert [address for address in METADATA if may_reach(address)] == []


@pytest.mark.parametrize("text", ["fe80::1%eth0", "2606:4700::1%1"])
def test_an_address_with_a_zone_may_not_be_reached(hub_settings, text: str):
    hub_settings(allowed_networks=(ip_network("::/0"),))

    assert not may_reach(ip_address(text))


@pytest.mark.parametrize(
    ("network", "inside", "outside"),
    [
        ("10.1.0.0/16", "10.1.2.3", "10.2.0.1"),
        ("127.0.0.0/8", "::ffff:127.0.0.1", "::1"),
        ("fd00::/8", "fd00::1", "fc00::1"),
        ("192.168.7.7/32", "192.168.7.7", "192.168.7.8"),
    ],
)
def test_an_allowed_network_may_be_reached_and_nothing_beside_it(hub_settings, network, inside, outside):
    hub_settings(allowed_networks=(ip_network(network),))

    assert may_reach(ip_address(inside))
    assert not may_reach(ip_address(outside))
    assert may_reach(ip_address("8.8.8.8"))
