"""Requests through a forward proxy: it is asked for the judged address, TLS checks the endpoint's name."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.egress_child import Child
from tests.support.proxy import ConnectProxy
from tests.support.tls import Authority
from tests.webhookhub.egress.conftest import collect, post
from tools.demo.endpoint import HttpsEndpoint
from tools.support.raw_endpoint import RawEndpoint
from webhookhub import conf
from webhookhub.conf import hub
from webhookhub.egress import proxy as proxy_module
from webhookhub.egress.dns import Resolver
from webhookhub.egress.engine import Engine, send

PASSWORD = "p@ss:word/of the proxy"
CREDENTIALS = "hub:p%40ss%3Aword%2Fof%20the%20proxy"
PUBLIC = "1.2.3.4"


def through(proxy: ConnectProxy, host: str = "127.0.0.1", credentials: str = "") -> conf.ProxyAddress | None:
    return conf._proxy(proxy.url(host, credentials))


@pytest.fixture
def proxy(hub_settings: Callable[..., None], trusted: Path) -> Iterator[ConnectProxy]:
    with ConnectProxy() as running:
        hub_settings(egress_proxy=through(running))
        yield running


@pytest.fixture
def named(tmp_path: Path, proxy: ConnectProxy, hub_settings: Callable[..., None]) -> Iterator[HttpsEndpoint]:
    """An endpoint that is reached as hooks.example.com, at a public address, by the proxy only."""
    authority = Authority(tmp_path)
    hub_settings(ca_bundle=str(authority.file), allowed_networks=())
    with HttpsEndpoint(authority.certificate("hooks.example.com")) as running:
        proxy.routes[f"{PUBLIC}:443"] = running.port
        yield running


def resolver(**addresses: str) -> Resolver:
    return Resolver(lambda host: addresses.get(host.split(".")[0], PUBLIC).split())


def test_the_proxy_is_asked_for_the_judged_address_and_tls_checks_the_name(proxy: ConnectProxy, named: HttpsEndpoint):
    response = send(post("https://hooks.example.com/in?token=secret", headers=("X-Key: secret",)), resolver=resolver())

    assert (response.error_code, response.status) == (None, 200)
    assert named.received[0].headers["host"] == "hooks.example.com"
    assert named.received[0].headers["x-key"] == "secret"
    [asked] = proxy.asked
    assert asked.target == f"{PUBLIC}:443"
    # Nothing of the request and no name is sent to the proxy.
    assert asked.headers["host"] == f"{PUBLIC}:443"
    assert asked.headers.keys() == {"host", "user-agent", "proxy-connection"}
    assert asked.headers["user-agent"].startswith("WebhookHub/")


def test_a_certificate_of_another_name_is_refused(proxy: ConnectProxy, named: HttpsEndpoint):
    response = send(post("https://other.example.com/"), resolver=resolver())

    assert response.error_code == "tls_error"
    assert [asked.target for asked in proxy.asked] == [f"{PUBLIC}:443"]
    assert not named.received


@pytest.mark.parametrize("url", ["https://inside.example.com/", "https://mixed.example.com/", "https://10.0.0.1/"])
def test_the_hub_judges_the_address_before_it_asks_the_proxy(proxy: ConnectProxy, named: HttpsEndpoint, url: str):
    names = resolver(inside="10.0.0.1", mixed=f"{PUBLIC} 169.254.169.254")

    assert send(post(url), resolver=names).error_code == "blocked_address"
    assert proxy.accepted == 0


def test_an_ipv6_address_is_asked_for_in_brackets(proxy: ConnectProxy, named: HttpsEndpoint):
    proxy.routes["[2606:4700::1111]:443"] = named.port

    response = send(post("https://hooks.example.com/"), resolver=resolver(hooks="2606:4700::1111"))

    assert response.error_code is None
    assert proxy.asked[0].target == "[2606:4700::1111]:443"


def test_user_and_password(endpoint: HttpsEndpoint, hub_settings, log_stream: io.StringIO):
    with ConnectProxy(credentials=f"hub:{PASSWORD}") as proxy:
        hub_settings(egress_proxy=through(proxy, credentials="hub:wrong-password"))
        refused = send(post(endpoint.url()))
        hub_settings(egress_proxy=through(proxy, credentials=CREDENTIALS))
        accepted = send(post(endpoint.url()))

    assert (refused.error_code, accepted.error_code) == ("proxy_auth_error", None)
    assert [asked.credentials for asked in proxy.asked] == ["hub:wrong-password", f"hub:{PASSWORD}"]
    assert "proxy-authorization" not in endpoint.received[0].headers
    assert '"proxy_failed"' in log_stream.getvalue()
    assert "password" not in log_stream.getvalue()
    # Names of other settings contain the word.
    assert not any(text in repr(hub()) for text in (PASSWORD, "p@ss", "p%40ss", "wrong-password"))
    assert "ProxyAddress" not in repr(hub())


def test_a_proxy_with_tls_is_verified(certificate_files, endpoint: HttpsEndpoint, hub_settings, tmp_path: Path):
    with ConnectProxy(certificate=certificate_files[1]) as proxy:
        hub_settings(egress_proxy=through(proxy, "localhost"))
        assert send(post(endpoint.url())).error_code is None
    with ConnectProxy(certificate=Authority(tmp_path).certificate()) as stranger:
        hub_settings(egress_proxy=through(stranger))
        assert send(post(endpoint.url())).error_code == "proxy_tls_error"
    assert len(endpoint.received) == 1


def test_connections_are_reused_through_the_proxy(proxy: ConnectProxy, endpoint: HttpsEndpoint):
    engine: Engine[int] = Engine(2)
    for number in range(5):
        engine.submit(number, post(endpoint.url()))
        assert collect(engine, 1)[number].error_code is None
    engine.close()

    assert (len(endpoint.received), len(proxy.asked)) == (5, 1)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("407 Proxy Authentication Required", "proxy_auth_error"),
        ("403 Forbidden", "proxy_refused"),
        ("502 Bad Gateway", "proxy_refused"),
        ("503 Service Unavailable", "proxy_refused"),
        ("302 Found\r\nLocation: http://127.0.0.1/", "proxy_refused"),
        (ConnectProxy.CLOSE, "proxy_error"),
        (ConnectProxy.SILENT, "proxy_timeout"),
    ],
)
def test_failures_of_the_proxy_have_their_own_codes_and_give_no_response(
    proxy: ConnectProxy, endpoint: HttpsEndpoint, hub_settings, reply: str, code: str
):
    hub_settings(connect_timeout=timedelta(seconds=0.3))
    proxy.reply = reply
    engine: Engine[str] = Engine(2)

    assert withdrawn(engine, endpoint.url()) == ["request"]
    assert engine.withdrawal_code == code
    assert not engine.accepts(endpoint.url())
    assert engine._hosts.at(endpoint.url()).speed == "unknown"
    engine.close()
    assert send(post(endpoint.url())).error_code == code
    assert not endpoint.received


def test_an_unreachable_proxy(endpoint: HttpsEndpoint, hub_settings):
    with ConnectProxy() as gone:
        address = through(gone)
    hub_settings(egress_proxy=address)

    assert send(post(endpoint.url())).error_code == "proxy_unreachable"
    assert not endpoint.received


def test_a_proxy_whose_name_does_not_resolve(endpoint: HttpsEndpoint, hub_settings):
    hub_settings(egress_proxy=conf._proxy("http://proxy.example.com:3128"))

    assert send(post(endpoint.url()), resolver=Resolver(lambda host: [])).error_code == "proxy_unreachable"
    assert not endpoint.received


def test_the_name_of_the_proxy_is_resolved_by_the_hub(proxy: ConnectProxy, endpoint: HttpsEndpoint, hub_settings):
    hub_settings(egress_proxy=through(proxy, "proxy.example.com"))
    names = Resolver(lambda host: {"proxy.example.com": ["127.0.0.1"], "hooks.localhost": ["127.0.0.1"]}[host])

    response = send(post(f"https://hooks.localhost:{endpoint.port}/"), resolver=names)

    assert response.error_code is None
    assert proxy.asked[0].target == f"127.0.0.1:{endpoint.port}"


def test_requests_wait_longer_with_each_failure_and_one_of_them_tries(endpoint: HttpsEndpoint, proxy: ConnectProxy):
    proxy.reply = "407 Proxy Authentication Required"
    engine: Engine[str] = Engine(10)
    waits = []
    for _ in range(4):
        assert withdrawn(engine, endpoint.url()) == ["request"]
        assert engine._proxy is not None
        waits.append(engine._proxy.backoff.wait(time.monotonic()))
        engine._proxy.backoff._until = 0.0
    assert [round(wait) for wait in waits] == [1, 2, 4, 8]

    proxy.reply = ""
    engine.submit("first", post(endpoint.url()))
    assert not engine.accepts(endpoint.url())
    assert engine.defer_seconds(endpoint.url()) > 2
    assert collect(engine, 1)["first"].error_code is None
    assert engine.accepts(endpoint.url())
    engine.close()


def test_a_refusal_counts_if_the_proxy_connects_to_another_host(proxy: ConnectProxy, endpoint: HttpsEndpoint, trusted):
    dead = "https://127.0.0.1:65000/"
    proxy.refused["127.0.0.1:65000"] = "502 Bad Gateway"
    engine: Engine[str] = Engine(10)

    assert withdrawn(engine, dead) == ["request"]
    assert not engine.accepts(dead)
    # The other host is not affected.
    assert engine.accepts(endpoint.url())
    engine.submit("other", post(endpoint.url()))
    assert collect(engine, 1)["other"].error_code is None

    engine._hosts.at(dead).proxy_backoff._until = 0.0
    engine.submit("again", post(dead))
    assert collect(engine, 1)["again"].error_code == "proxy_refused"
    assert engine.accepts(dead)
    engine.close()


def test_a_refusal_counts_after_an_hour(proxy: ConnectProxy, endpoint: HttpsEndpoint, monkeypatch):
    proxy.reply = "502 Bad Gateway"
    engine: Engine[str] = Engine(10)
    assert withdrawn(engine, endpoint.url()) == ["request"]

    monkeypatch.setattr(proxy_module, "PROXY_FAILURE_SECONDS", 0.0)
    engine._hosts.at(endpoint.url()).proxy_backoff._until = 0.0
    engine.submit("request", post(endpoint.url()))
    assert collect(engine, 1)["request"].error_code == "proxy_refused"
    # A wrong password is never the endpoint's fault.
    proxy.reply = "407 Proxy Authentication Required"
    assert withdrawn(engine, endpoint.url()) == ["request"]
    engine.close()


def test_the_next_request_asks_for_the_next_address(proxy: ConnectProxy, named: HttpsEndpoint):
    names = resolver(hooks=f"2606:4700::1111 {PUBLIC}")
    proxy.refused["[2606:4700::1111]:443"] = "502 Bad Gateway"
    engine: Engine[str] = Engine(10, resolver=names)
    url = "https://hooks.example.com/"

    assert withdrawn(engine, url) == ["request"]
    engine._hosts.at(url).proxy_backoff._until = 0.0
    engine.submit("again", post(url))
    assert collect(engine, 1)["again"].error_code is None
    engine.close()


def test_failures_inside_the_tunnel_are_the_endpoints(proxy: ConnectProxy, trusted: Path, hub_settings):
    hub_settings(request_timeout=timedelta(seconds=0.5), connect_timeout=timedelta(seconds=0.5))
    with RawEndpoint(trusted, lambda connection: silent.hold()) as silent:
        assert send(post(silent.url)).error_code == "timeout"
    with RawEndpoint(trusted, lambda connection: None) as closing:
        assert send(post(closing.url)).error_code == "connection_lost"
    assert len(proxy.asked) == 2


def test_the_environment_cannot_bypass_the_proxy(proxy: ConnectProxy, endpoint: HttpsEndpoint, certificate_files):
    environment = {"no_proxy": "*", "NO_PROXY": "*", "https_proxy": "http://127.0.0.1:1"}
    with Child(
        WEBHOOKHUB_CA_BUNDLE=str(certificate_files[0]), WEBHOOKHUB_EGRESS_PROXY=proxy.url(), **environment
    ) as child:
        responses = child.send([endpoint.url()])["responses"]

    assert responses[endpoint.url()]["error_code"] is None
    assert [asked.target for asked in proxy.asked] == [f"127.0.0.1:{endpoint.port}"]


def withdrawn(engine: Engine[str], url: str) -> list[str]:
    """Sends a request that is withdrawn because of the proxy."""
    engine.submit("request", post(url))
    until = time.monotonic() + 20
    while not (tags := engine.withdraw(3600)):
        assert engine.poll(0.1) == []
        assert time.monotonic() < until
    return tags
