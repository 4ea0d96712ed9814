"""Names are judged by what they resolve to, at every connection: a resolver under the test's control, listeners that
would notice."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from jobs.models import Job
from jobs.worker import Worker
from tests.factories import JobFactory
from tests.support.tls import Authority
from tests.webhookhub.egress.conftest import collect, post
from tools.demo.endpoint import HttpsEndpoint
from tools.support.raw_endpoint import RawEndpoint, responding
from webhookhub.egress.dns import Resolver
from webhookhub.egress.engine import Engine, send
from webhookhub.egress.messages import Response

NAME = "hooks.example.com"
CLOSING = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


class Listeners:
    """On every address of this machine that can be had, at one port; `touched` if anybody has connected."""

    def __init__(self) -> None:
        self._sockets = [socket.create_server(("0.0.0.0", 0))]
        self.port = self._sockets[0].getsockname()[1]
        with contextlib.suppress(OSError):
            self._sockets.append(socket.create_server(("::", self.port), family=socket.AF_INET6))
        for each in self._sockets:
            each.setblocking(False)

    @property
    def touched(self) -> bool:
        for each in self._sockets:
            with contextlib.suppress(BlockingIOError):
                each.accept()[0].close()
                return True
        return False

    def close(self) -> None:
        for each in self._sockets:
            each.close()


@pytest.fixture
def listeners() -> Iterator[Listeners]:
    opened = Listeners()
    yield opened
    opened.close()


@pytest.fixture
def sockets_opened(monkeypatch: pytest.MonkeyPatch, listeners: Listeners) -> list[object]:
    """Every socket that is opened from here on."""
    opened: list[object] = []

    class Noted(socket.socket):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            opened.append(arguments)
            super().__init__(*arguments, **named)

    monkeypatch.setattr("webhookhub.egress.transfer.socket.socket", Noted)
    return opened


def resolved(port: int, addresses: str, name: str = NAME) -> Response:
    found = [each.strip("[]") for each in addresses.split(",")]
    return send(post(f"https://{name}:{port}/"), resolver=Resolver(lambda host: found))


def assert_blocked(response: Response) -> None:
    assert (response.error_code, response.status, response.body, response.retry_after) == (
        "blocked_address",
        None,
        b"",
        None,
    )


@pytest.mark.parametrize(
    "addresses",
    [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "[::1]",
        "[64:ff9b::7f00:1]",
        "10.0.0.1,127.0.0.1,[::1],169.254.169.254",
    ],
)
def test_a_name_that_resolves_to_a_forbidden_address_is_refused(
    hub_settings, listeners: Listeners, sockets_opened: list[object], addresses: str
):
    hub_settings(allowed_networks=())

    assert_blocked(resolved(listeners.port, addresses))

    assert not sockets_opened
    assert not listeners.touched


def test_the_listeners_notice_a_connection(hub_settings, listeners: Listeners, sockets_opened: list[object]):
    hub_settings(connect_timeout=timedelta(seconds=2))  # they accept and never respond

    resolved(listeners.port, "127.0.0.1")

    assert len(sockets_opened) == 1
    assert listeners.touched


def test_a_metadata_service_is_refused_by_name_even_in_an_allowed_network(
    hub_settings, listeners: Listeners, sockets_opened: list[object]
):
    hub_settings(allowed_networks=(ip_network("0.0.0.0/0"), ip_network("::/0")))

    for address in ("169.254.169.254", "100.100.100.200", "[fd00:ec2::254]", "[::ffff:169.254.169.254]"):
        assert_blocked(resolved(443, address))

    assert not sockets_opened


@pytest.mark.parametrize("addresses", ["127.0.0.3,127.0.0.2", "127.0.0.2,127.0.0.3", "127.0.0.2,[fe80::1%lo]"])
def test_one_forbidden_address_blocks_the_name(
    trusted: Path, hub_settings, listeners: Listeners, sockets_opened: list[object], addresses: str
):
    """127.0.0.2 may be reached and responds; beside an address that may not, it is not even tried."""
    hub_settings(allowed_networks=(ip_network("127.0.0.2/32"),))

    assert_blocked(resolved(listeners.port, addresses))

    assert not sockets_opened
    assert not listeners.touched


def test_requests_that_wait_behind_a_blocked_one_are_blocked_too(hub_settings, listeners: Listeners):
    hub_settings(allowed_networks=(), requests_per_host=1)
    engine: Engine[int] = Engine(10, resolver=Resolver(lambda host: ["127.0.0.1"]))
    for number in range(5):
        engine.submit(number, post(f"https://{NAME}:{listeners.port}/"))

    responses = collect(engine, 5)
    assert engine.in_flight == 0
    engine.close()

    assert {response.error_code for response in responses.values()} == {"blocked_address"}
    assert not listeners.touched


def test_an_allowed_address_that_refuses_does_not_lead_to_a_forbidden_one(
    trusted: Path, hub_settings, listeners: Listeners
):
    hub_settings(allowed_networks=(ip_network("127.0.0.2/32"),))
    with socket.create_server(("127.0.0.3", 0)) as forbidden:
        forbidden.setblocking(False)
        port = forbidden.getsockname()[1]  # nothing listens there at 127.0.0.2

        assert_blocked(resolved(port, "127.0.0.2,127.0.0.3"))

        with pytest.raises(BlockingIOError):
            forbidden.accept()


def test_the_error_does_not_depend_on_whether_anything_listens(hub_settings, listeners: Listeners):
    hub_settings(allowed_networks=())
    with socket.create_server(("127.0.0.1", 0)) as other:
        closed = other.getsockname()[1]

    responses = [resolved(port, "127.0.0.1") for port in (listeners.port, closed)]

    assert (
        len({(response.error_code, response.status, response.body, response.retry_after) for response in responses})
        == 1
    )
    assert all(response.duration_ms < 1000 for response in responses)


def test_a_name_that_resolves_differently_after_the_check_is_blocked(tmp_path: Path, hub_settings):
    """One engine, one name, two addresses: the first is allowed and responds, the second listens and is not."""
    authority = Authority(tmp_path)
    hub_settings(ca_bundle=str(authority.file), allowed_networks=(ip_network("127.0.0.1/32"),))
    leads_to: list[str] = []
    engine: Engine[int] = Engine(1, resolver=Resolver(lambda host: list(leads_to), fresh_seconds=0))
    with RawEndpoint(authority.certificate(NAME), responding(CLOSING)) as endpoint:
        port = int(endpoint.url.split(":")[2].split("/")[0])
        with socket.create_server(("127.0.0.9", port)) as forbidden:
            forbidden.setblocking(False)
            for address, code in [
                ("127.0.0.1", None),
                ("127.0.0.9", "blocked_address"),
                ("127.0.0.1", None),
                ("169.254.169.254", "blocked_address"),
            ]:
                leads_to[:] = [address]
                engine.submit(1, post(f"https://{NAME}:{port}/"))
                assert collect(engine, 1)[1].error_code == code
            with pytest.raises(BlockingIOError):
                forbidden.accept()
        engine.close()

    assert endpoint.accepted == 2


def test_an_address_without_a_socket_is_a_connect_error(
    hub_settings, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """As on a machine without IPv6, or when all file descriptors are taken."""

    def none_left(*arguments: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("webhookhub.egress.transfer.socket.socket", none_left)
        assert resolved(443, "127.0.0.1").error_code == "connect_error"

    assert "Traceback" not in capfd.readouterr().err


def test_a_name_without_an_address_is_a_dns_error(trusted: Path):
    assert send(post("https://nowhere.invalid/")).error_code == "dns_error"


@pytest.mark.django_db
def test_a_delivery_to_a_loopback_name_fails_without_a_connection(hub_settings, endpoint: HttpsEndpoint):
    """Resolver under .localhost lead to loopback by definition: no name service is needed to show it."""
    JobFactory(saga__subscription__callback_url=f"https://hooks.localhost:{endpoint.port}/")
    hub_settings(allowed_networks=())
    worker = Worker("w")
    for _ in range(200):
        worker.turn(10)
        if Job.objects.filter(status="Failed"):
            break
    worker.close()

    job = Job.objects.get()
    assert (job.status, job.error_code, job.response_status) == ("Failed", "blocked_address", None)
    assert job.response_snippet == ""
    assert job.duration_ms is not None
    assert not endpoint.received
