"""Settings from the environment: typed, bounded, and refused when wrong."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from ipaddress import ip_network

import pytest
from django.core.exceptions import ImproperlyConfigured

from webhookhub.conf import HubSettings, ProxyAddress, load, variable


def test_an_empty_environment_gives_the_documented_defaults():
    settings = load({})

    assert settings == HubSettings()
    assert (settings.max_retry_limit, settings.base_delay) == (20, timedelta(seconds=30))
    assert (settings.max_delay, settings.retry_after_cap) == (timedelta(hours=8), timedelta(hours=6))
    assert settings.allowed_networks == ()


@pytest.mark.requirement("R1-6.3a")
@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("WEBHOOKHUB_MAX_RETRY_LIMIT", "1", "max_retry_limit", 1),
        ("WEBHOOKHUB_BASE_DELAY", "0.25", "base_delay", timedelta(milliseconds=250)),
        ("WEBHOOKHUB_REQUEST_TIMEOUT", "15", "request_timeout", timedelta(seconds=15)),
        ("WEBHOOKHUB_LOG_LEVEL", "DEBUG", "log_level", "DEBUG"),
        ("WEBHOOKHUB_ALLOWED_PORTS", "443, 9000-9100", "allowed_ports", ((443, 443), (9000, 9100))),
        ("WEBHOOKHUB_ALLOWED_NETWORKS", "", "allowed_networks", ()),
        (
            "WEBHOOKHUB_ALLOWED_NETWORKS",
            "10.0.0.0/8, fd00::/8",
            "allowed_networks",
            (ip_network("10.0.0.0/8"), ip_network("fd00::/8")),
        ),
        ("WEBHOOKHUB_DEBUG", "True", "debug", True),
        ("WEBHOOKHUB_DEBUG", "0", "debug", False),
        (
            "WEBHOOKHUB_ALLOWED_HOSTS",
            "hub.example.com, .example.org,[::1],*",
            "allowed_hosts",
            ("hub.example.com", ".example.org", "[::1]", "*"),
        ),
        ("WEBHOOKHUB_CSRF_ORIGINS", "", "csrf_origins", ()),
        ("WEBHOOKHUB_CSRF_ORIGINS", "https://hub.example.com:8443", "csrf_origins", ("https://hub.example.com:8443",)),
        ("WEBHOOKHUB_CA_BUNDLE", "", "ca_bundle", ""),
        ("WEBHOOKHUB_EGRESS_PROXY", "", "egress_proxy", None),
        (
            "WEBHOOKHUB_EGRESS_PROXY",
            "http://proxy:3128",
            "egress_proxy",
            ProxyAddress("http", "proxy", 3128),
        ),
        (
            "WEBHOOKHUB_EGRESS_PROXY",
            "https://hub:a%40b%3Ac@[FD00:0::1]:443/",
            "egress_proxy",
            ProxyAddress("https", "fd00::1", 443, "hub", "a@b:c", is_ip=True),
        ),
        ("WEBHOOKHUB_METRICS_TOKEN", "", "metrics_token", ""),
        ("WEBHOOKHUB_METRICS_TOKEN", "0123456789abcdef", "metrics_token", "0123456789abcdef"),
    ],
)
def test_a_good_value_is_parsed(name: str, text: str, field: str, value: object):
    assert getattr(load({name: text}), field) == value


@pytest.mark.parametrize(
    ("name", "text", "right"),
    [
        ("WEBHOOKHUB_MAX_RETRY_LIMIT", "0", "a whole number from 1 to 1000"),
        ("WEBHOOKHUB_MAX_RETRY_LIMIT", "1001", "a whole number from 1 to 1000"),
        ("WEBHOOKHUB_MAX_RETRY_LIMIT", "1.5", "a whole number from 1 to 1000"),
        ("WEBHOOKHUB_MAX_RETRY_LIMIT", "", "a whole number from 1 to 1000"),
        ("WEBHOOKHUB_BASE_DELAY", "0", "a number of seconds from 0.001 to 86400"),
        ("WEBHOOKHUB_BASE_DELAY", "nan", "a number of seconds"),
        ("WEBHOOKHUB_BASE_DELAY", "inf", "a number of seconds"),
        ("WEBHOOKHUB_BASE_DELAY", "30s", "a number of seconds"),
        ("WEBHOOKHUB_LEASE", "1e9", "a number of seconds"),
        ("WEBHOOKHUB_DEBUG", "maybe", "one of 1, true, yes, on, 0, false, no, off"),
        ("WEBHOOKHUB_DEBUG", "", "one of 1, true, yes, on, 0, false, no, off"),
        ("WEBHOOKHUB_ALLOWED_HOSTS", "https://hub.example.com", "host names without scheme and port"),
        ("WEBHOOKHUB_ALLOWED_HOSTS", "hub.example.com:8000", "host names without scheme and port"),
        ("WEBHOOKHUB_ALLOWED_HOSTS", "", "host names without scheme and port"),
        ("WEBHOOKHUB_CSRF_ORIGINS", "hub.example.com", "origins with their scheme"),
        ("WEBHOOKHUB_LOG_LEVEL", "debug", "one of DEBUG, INFO, WARNING, ERROR"),
        ("WEBHOOKHUB_LOG_FORMAT", "xml", "one of auto, json, text"),
        ("WEBHOOKHUB_ALLOWED_NETWORKS", "10.0.0.1/8", "networks in CIDR form"),
        ("WEBHOOKHUB_ALLOWED_PORTS", "", "ports or ranges of ports"),
        ("WEBHOOKHUB_ALLOWED_PORTS", "0", "ports or ranges of ports"),
        ("WEBHOOKHUB_ALLOWED_PORTS", "9100-9000", "ports or ranges of ports"),
        ("WEBHOOKHUB_ALLOWED_PORTS", "443,https", "ports or ranges of ports"),
        ("WEBHOOKHUB_ALLOWED_PORTS", "65536", "ports or ranges of ports"),
    ],
)
def test_a_bad_value_is_refused_and_the_message_says_what_is_expected(name: str, text: str, right: str):
    with pytest.raises(ImproperlyConfigured) as caught:
        load({name: text})

    assert str(caught.value).startswith(f"{name}={text!r}: it must be {right}")


@pytest.mark.parametrize(
    "text",
    [
        "proxy.example.com:3128",
        "http://proxy.example.com",
        "socks5://proxy.example.com:1080",
        "http://hub:hidden@:3128",
        "http://hub:hidden@proxy.example.com:99999",
        "http://hub:hid/den@proxy.example.com:3128",
        "http://hub:hidden@proxy.example.com:3128/path",
        "http://hub:hidden%0Aden@proxy.example.com:3128",
        "http://h%3Aub:hidden@proxy.example.com:3128",
        "http://hub:hidden@pro xy:3128",
    ],
)
def test_a_bad_proxy_is_refused_without_showing_its_password(text: str):
    with pytest.raises(ImproperlyConfigured) as caught:
        load({"WEBHOOKHUB_EGRESS_PROXY": text})

    assert str(caught.value).startswith("WEBHOOKHUB_EGRESS_PROXY: it must be http:// or https://, a host and a port")
    assert "hid" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("WEBHOOKHUB_MAX_RETRIES_LIMIT", "; did you mean WEBHOOKHUB_MAX_RETRY_LIMIT?"),
        ("WEBHOOKHUB_SECRETKEY", "; did you mean WEBHOOKHUB_SECRET_KEY?"),
        ("WEBHOOKHUB_QQQQQQQQQQQQQQQQQQQQQQQQQ", ""),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(name: str, hint: str):
    with pytest.raises(ImproperlyConfigured) as caught:
        load({name: "1"})

    assert str(caught.value) == f"{name} is not a setting of the hub{hint}"


@pytest.mark.parametrize(
    ("lease", "margin", "connect", "message"),
    [
        ("40", "10", "5", "WEBHOOKHUB_LEASE is 40 s: it must be longer than"),
        ("40.001", "10", "30", None),
        ("60", "10", "30.001", "WEBHOOKHUB_CONNECT_TIMEOUT is 30.001 s: it must not be longer than"),
    ],
)
def test_timeouts_must_fit_together(lease: str, margin: str, connect: str, message: str | None):
    environment = {
        "WEBHOOKHUB_LEASE": lease,
        "WEBHOOKHUB_LEASE_MARGIN": margin,
        "WEBHOOKHUB_REQUEST_TIMEOUT": "30",
        "WEBHOOKHUB_CONNECT_TIMEOUT": connect,
    }
    if message is None:
        assert load(environment).lease == timedelta(seconds=float(lease))
    else:
        with pytest.raises(ImproperlyConfigured, match=message):
            load(environment)


def test_variables_without_the_prefix_are_ignored():
    assert load({"PATH": "/bin", "webhookhub_lease": "x", "XWEBHOOKHUB_LEASE": "x"}) == HubSettings()


def test_every_setting_has_a_meaning_and_a_variable():
    for item in fields(HubSettings):
        assert item.metadata["meaning"], item.name
        assert variable(item.name) == f"WEBHOOKHUB_{item.name.upper()}"


def test_settings_cannot_be_changed_under_a_running_process():
    with pytest.raises(AttributeError):
        load({}).lease = timedelta(0)  # type: ignore[misc]


@pytest.mark.parametrize("content", ["", "not a certificate", None])
def test_a_bundle_must_hold_certificates(tmp_path, content: str | None):
    bundle = tmp_path / "bundle.pem"
    if content is not None:
        bundle.write_text(content)

    with pytest.raises(ImproperlyConfigured, match=r"WEBHOOKHUB_CA_BUNDLE.*certificates in PEM form"):
        load({"WEBHOOKHUB_CA_BUNDLE": str(bundle)})


def test_a_bundle_of_certificates_is_accepted(certificate_files):
    assert load({"WEBHOOKHUB_CA_BUNDLE": str(certificate_files[0])}).ca_bundle == str(certificate_files[0])


@pytest.mark.parametrize("text", ["short", "x" * 201, "with a blank in between", "schlüssel-schlüssel"])
def test_a_weak_token_is_refused_and_not_shown(text: str):
    with pytest.raises(ImproperlyConfigured) as caught:
        load({"WEBHOOKHUB_METRICS_TOKEN": text})

    expected = "WEBHOOKHUB_METRICS_TOKEN: it must be 16 to 200 letters, digits and signs, without spaces"
    assert str(caught.value) == expected
    assert text not in str(caught.value).removeprefix("WEBHOOKHUB_METRICS_TOKEN")
