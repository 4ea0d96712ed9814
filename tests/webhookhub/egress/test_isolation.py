"""Nothing but the stored address and the operator's settings decides where a request goes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import ip_network

import pytest

from tests.webhookhub.egress.conftest import collect, post
from tools.demo.endpoint import HttpsEndpoint, Reply
from webhookhub.egress.engine import Engine, send


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Would notice any connection, even one that is closed at once."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def assert_untouched(listener: socket.socket) -> None:
    with pytest.raises(BlockingIOError):
        listener.accept()


@pytest.mark.parametrize("host", ["127.0.0.1", "hooks.localhost", "[::ffff:127.0.0.1]"])
def test_a_blocked_address_is_refused_before_a_socket_is_opened(hub_settings, listener: socket.socket, host: str):
    hub_settings(allowed_networks=())

    response = send(post(f"https://{host}:{listener.getsockname()[1]}/"))

    assert (response.error_code, response.status, response.body) == ("blocked_address", None, b"")
    assert_untouched(listener)


def test_a_blocked_address_does_not_reveal_whether_anything_listens_there(hub_settings, listener: socket.socket):
    hub_settings(allowed_networks=())
    with socket.create_server(("127.0.0.1", 0)) as other:
        closed = other.getsockname()[1]

    responses = [send(post(f"https://127.0.0.1:{port}/")) for port in (listener.getsockname()[1], closed)]

    assert {(response.error_code, response.status, response.body) for response in responses} == {
        ("blocked_address", None, b"")
    }


def test_a_metadata_address_is_blocked_even_in_an_allowed_network(hub_settings):
    hub_settings(allowed_networks=(ip_network("0.0.0.0/0"), ip_network("::/0")))

    for host in ("169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]"):
        assert send(post(f"https://{host}/latest/meta-data/")).error_code == "blocked_address"


def test_an_open_connection_is_not_shared_with_another_engine(endpoint: HttpsEndpoint, hub_settings):
    assert send(post(endpoint.url())).error_code is None

    hub_settings(allowed_networks=())

    assert send(post(endpoint.url())).error_code == "blocked_address"
    assert len(endpoint.received) == 1


def test_a_socks_proxy_of_the_environment_is_ignored(endpoint: HttpsEndpoint, listener, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"socks5h://127.0.0.1:{listener.getsockname()[1]}")

    assert send(post(endpoint.url())).error_code is None

    assert len(endpoint.received) == 1
    assert_untouched(listener)


def test_one_request_leaves_nothing_behind_for_the_next(endpoint: HttpsEndpoint):
    endpoint.respond = lambda request: Reply(503, b"first", (("Set-Cookie", "a=b; Path=/"), ("Retry-After", "9")))
    engine: Engine[int] = Engine(1)
    try:
        engine.submit(1, post(endpoint.url("/1"), b"a long body", ("X-Secret: 1",)))
        first = collect(engine, 1)[1]
        endpoint.respond = lambda request: Reply(503, b"")
        engine.submit(2, post(endpoint.url("/2"), b"short"))
        second = collect(engine, 1)[2]
    finally:
        engine.close()

    assert (first.body, first.retry_after) == (b"first", "9")
    assert (second.body, second.retry_after) == (b"", None)
    received = endpoint.received[1]
    assert (received.path, received.body) == ("/2", b"short")
    assert not {"x-secret", "cookie", "expect", "accept-encoding", "authorization"} & set(received.headers)
