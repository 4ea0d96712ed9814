"""Which callback URLs may be stored, and in what form."""

from __future__ import annotations

import pytest

from webhookhub.egress.urls import MAX_LENGTH, UnacceptableURL, normalise

SPACE = "white space or control characters"
SCHEME = "must start with https://"
USER = "names a user or password"
NUMBER = "is a number but not an address"
LABEL = "has a part that is not valid"
UNREACHABLE = "may not be reached"
BRACKETS = "brackets that do not enclose"
IDNA = "not a valid international name"
PORT = "names port"

BAD = [
    ("", "is empty"),
    (" https://example.com/", SPACE),
    ("https://exa mple.com/", SPACE),
    ("https://example.com/\tx", SPACE),
    ("https://example.com/\r\nHost: evil", SPACE),
    ("https://example.com/\0", SPACE),
    ("https://example.com/\u00a0", SPACE),
    ("https://example.com/\u200b", SPACE),
    ("https://example.com/\ud800", SPACE),
    ("https://example.com\\@evil.com/", "backslash"),
    ("http://example.com/", SCHEME),
    ("javascript:alert(1)", SCHEME),
    ("//example.com/hook", SCHEME),
    ("https:example.com", SCHEME),
    ("https:/example.com", SCHEME),
    ("https://", "has no host"),
    ("https://?x", "has no host"),
    ("https://:443/", "has no host"),
    ("https://user@example.com/", USER),
    ("https://@example.com/", USER),
    ("https://example.com:443@evil.com/", USER),
    ("https://example.com/#", "has a fragment"),
    ("https://example.com#@evil.com/", "has a fragment"),
    ("https://localhost/", "must be a full name"),
    ("https://example.com./", "ends in a dot"),
    ("https://127.0.0.1./", "ends in a dot"),
    ("https://a..example.com/", LABEL),
    ("https://-a.example.com/", LABEL),
    ("https://a-.example.com/", LABEL),
    ("https://a_b.example.com/", LABEL),
    ("https://example.com;x/", LABEL),
    (f"https://{'a' * 64}.example.com/", LABEL),
    (f"https://{'a.' * 126}com/", "longer than 253"),
    ("https://exa%6dple.com/", "percent sign"),
    ("https://2130706433/", NUMBER),
    ("https://0x7f000001/", NUMBER),
    ("https://0x7f.1/", NUMBER),
    ("https://0177.0.0.1/", NUMBER),
    ("https://127.1/", NUMBER),
    ("https://1.2.3.4.5/", NUMBER),
    ("https://256.1.1.1/", NUMBER),
    ("https://example.0x1/", NUMBER),
    ("https://example.123/", NUMBER),
    ("https://127.0.0.0x1/", NUMBER),
    ("https://１２７.1/", NUMBER),
    ("https://[::1/", "cannot be read"),
    ("https://::1/", "cannot be read"),
    ("https://[fe80::1%25eth0]/", "percent sign|brackets"),
    ("https://[fe80::1%eth0]/", "percent sign|brackets"),
    ("https://[2606:4700::1]evil.com/", BRACKETS),
    ("https://evil.com[2606:4700::1]/", BRACKETS),
    ("https://[v1.example.com]/", BRACKETS),
    ("https://[127.0.0.1]/", "cannot be read"),
    ("https://[]/", "cannot be read|brackets"),
    ("https://example.com:/", "no port after its host"),
    ("https://example.com:0/", PORT),
    ("https://example.com:1023/", PORT),
    ("https://example.com:65536/", "cannot be read"),
    ("https://example.com:+8443/", "cannot be read"),
    ("https://example.com:８４４３/", "cannot be read"),
    ("https://example.com:8443:8443/", "cannot be read"),
    ("https://xn--a.com/", IDNA),
    ("https://☃.example.com/", IDNA),
    ("https://ex℀mple.com/", "cannot be read"),
    ("https://ü_.example.com/", IDNA),
    ("https://127.0.0.1/", UNREACHABLE),
    ("https://１２７.0.0.1/", UNREACHABLE),
    ("https://[::1]/", UNREACHABLE),
    ("https://[::ffff:127.0.0.1]/", UNREACHABLE),
    (f"https://example.com/{'a' * 481}", f"has {MAX_LENGTH + 1} characters; at most {MAX_LENGTH}"),
    (f"https://example.com/{'é' * 200}", "characters once encoded"),
]


@pytest.mark.requirement("R3-2.2c", "R3-2.3b")
@pytest.mark.parametrize(("url", "message"), [pytest.param(*case, id=ascii(case[0])[1:60]) for case in BAD])
def test_an_invalid_url_is_refused_with_a_reason(hub_settings, url: str, message: str):
    hub_settings(allowed_networks=())

    with pytest.raises(UnacceptableURL, match=message):
        normalise(url)


@pytest.mark.parametrize("value", [None, 7, b"https://example.com/"])
def test_a_url_that_is_not_a_string_is_refused(value):
    with pytest.raises(UnacceptableURL, match="is empty"):
        normalise(value)


GOOD = [
    ("https://example.com", "https://example.com/"),
    ("HTTPS://EXAMPLE.COM/Path", "https://example.com/Path"),
    ("https://example.com:443/x", "https://example.com/x"),
    ("https://example.com:8443/x", "https://example.com:8443/x"),
    ("https://example.com:08443/x", "https://example.com:8443/x"),
    ("https://example.com:65535/", "https://example.com:65535/"),
    ("https://example.com?x=1&y=%20", "https://example.com/?x=1&y=%20"),
    ("https://example.com/a?b=c/d?e", "https://example.com/a?b=c/d?e"),
    ("https://example.com/%23?q=%23", "https://example.com/%23?q=%23"),
    ("https://example.com/a@b:c", "https://example.com/a@b:c"),
    ("https://example.com/a%2Fb//c/", "https://example.com/a%2Fb//c/"),
    ("https://example.com/<é>\"?q='ü'", "https://example.com/%3C%C3%A9%3E%22?q='%C3%BC'"),
    ("https://bücher.example/", "https://xn--bcher-kva.example/"),
    ("https://BÜCHER.example/", "https://xn--bcher-kva.example/"),
    ("https://XN--BCHER-KVA.example/", "https://xn--bcher-kva.example/"),
    ("https://example。com/", "https://example.com/"),
    ("https://a.b-c.d1.example.co.uk/", "https://a.b-c.d1.example.co.uk/"),
    ("https://1.example.com/", "https://1.example.com/"),
    ("https://8.8.8.8/", "https://8.8.8.8/"),
    ("https://[2606:4700:4700:0:0:0:0:1111]:8443/x", "https://[2606:4700:4700::1111]:8443/x"),
    (f"https://{'a' * 63}.example.com/", f"https://{'a' * 63}.example.com/"),
    (f"https://example.com/{'a' * 480}", f"https://example.com/{'a' * 480}"),
]


@pytest.mark.parametrize(("url", "normal"), [pytest.param(*case, id=ascii(case[0])[1:60]) for case in GOOD])
def test_a_valid_url_is_normalised(hub_settings, url: str, normal: str):
    hub_settings(allowed_networks=())

    assert normalise(url) == normal
    assert normalise(normal) == normal


def test_an_operators_network_may_be_named(hub_settings):
    from ipaddress import ip_network

    hub_settings(allowed_networks=(ip_network("10.0.0.0/8"),))

    assert normalise("https://10.1.2.3/") == "https://10.1.2.3/"
    with pytest.raises(UnacceptableURL, match=UNREACHABLE):
        normalise("https://192.168.1.1/")


def test_only_allowed_ports_may_be_named(hub_settings):
    hub_settings(allowed_ports=((443, 443), (9000, 9100)))

    assert normalise("https://example.com:9050/") == "https://example.com:9050/"
    with pytest.raises(UnacceptableURL, match="names port 8443; allowed are 443, 9000-9100"):
        normalise("https://example.com:8443/")
