"""Names are resolved beside the transfers: a lookup that hangs does not delay the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.webhookhub.egress.conftest import collect, post
from tools.demo.endpoint import HttpsEndpoint
from tools.support.raw_endpoint import RawEndpoint
from webhookhub.egress import dns
from webhookhub.egress.dns import Resolver, resolve
from webhookhub.egress.engine import Engine, send


class NameService:
    """Everything leads to loopback; names that start with `hanging` hang until they are let go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.let_go = threading.Event()

    def __call__(self, host: str) -> list[str]:
        self.asked.append(host)
        if host.startswith("hanging"):
            self.let_go.wait(60)
        if host.startswith("unknown"):
            raise OSError("no such name")
        return ["127.0.0.1"]


@pytest.fixture
def service() -> Iterator[NameService]:
    service = NameService()
    yield service
    service.let_go.set()


def url(endpoint: HttpsEndpoint, host: str, path: str = "/") -> str:
    return f"https://{host}:{endpoint.port}{path}"


def test_a_hundred_requests_for_a_hanging_name_use_one_thread_and_others_continue(
    endpoint: HttpsEndpoint, service: NameService, hub_settings
):
    hub_settings(connect_timeout=timedelta(seconds=30))
    engine: Engine[str] = Engine(200, resolver=Resolver(service))
    for number in range(100):
        engine.submit(f"hanging {number}", post("https://hanging.example/"))
    engine.submit("healthy", post(url(endpoint, "hooks.localhost")))

    responses = collect(engine, 1)
    engine.close()

    assert {tag: response.error_code for tag, response in responses.items()} == {"healthy": None}
    assert service.asked.count("hanging.example") == 1


def test_a_hanging_name_is_a_dns_error_within_the_connect_timeout(service: NameService, hub_settings):
    hub_settings(connect_timeout=timedelta(seconds=0.3))
    began = time.monotonic()

    response = send(post("https://hanging.example/"), resolver=Resolver(service))

    assert response.error_code == "dns_error"
    assert 300 <= response.duration_ms < 30_000
    assert time.monotonic() - began < 30


def test_an_engine_closes_while_a_name_hangs(service: NameService):
    engine: Engine[int] = Engine(1, resolver=Resolver(service))
    engine.submit(1, post("https://hanging.example/"))
    engine.poll(0.01)
    began = time.monotonic()

    engine.close()

    assert time.monotonic() - began < 30


def test_the_lookup_counts_towards_the_timeout_of_the_request(trusted: Path, service: NameService, hub_settings):
    """The name hangs, then the endpoint never responds: together no longer than one request may take."""
    hub_settings(request_timeout=timedelta(seconds=3), connect_timeout=timedelta(seconds=2.9))
    threading.Timer(2, service.let_go.set).start()
    with RawEndpoint(trusted, lambda connection: endpoint.hold()) as endpoint:
        port = int(endpoint.url.split(":")[2].split("/")[0])
        response = send(post(f"https://hanging.example:{port}/"), resolver=Resolver(service))

    assert response.duration_ms < 4500


def test_a_name_is_resolved_once_while_it_is_fresh_and_again_after(endpoint: HttpsEndpoint, service: NameService):
    for fresh_seconds, times in ((60.0, 1), (0.0, 3)):
        service.asked.clear()
        engine: Engine[int] = Engine(1, resolver=Resolver(service, fresh_seconds))
        for number in range(3):
            engine.submit(number, post(url(endpoint, "hooks.localhost")))
            assert collect(engine, 1)[number].error_code is None
        engine.close()
        assert service.asked == ["hooks.localhost"] * times


def test_a_failed_lookup_is_repeated(service: NameService):
    found = Resolver(service)
    for _ in range(2):
        assert send(post("https://unknown.example/"), resolver=found).error_code == "dns_error"

    assert service.asked == ["unknown.example"] * 2


def test_lookups_beyond_the_thread_limit_wait(service: NameService, monkeypatch):
    monkeypatch.setattr(dns, "MAX_THREADS", 2)
    found = Resolver(service)
    hanging = [found.lookup(f"hanging{number}.example") for number in range(2)]
    waiting = found.lookup("healthy.example")

    assert not waiting.finished.wait(0.1)
    service.let_go.set()

    assert waiting.finished.wait(10)
    assert all(lookup.finished.wait(10) for lookup in hanging)
    assert waiting.addresses == ["127.0.0.1"]


def test_the_cache_of_names_is_bounded(service: NameService, monkeypatch):
    monkeypatch.setattr(dns, "MAX_CACHED", 3)
    found = Resolver(service)

    first = found.lookup("0.example")
    for number in range(1, 4):
        found.lookup(f"{number}.example").finished.wait(10)

    assert found.lookup("3.example") is found.lookup("3.example")
    assert found.lookup("0.example") is not first


def test_localhost_resolves_and_invalid_names_do_not():
    assert "127.0.0.1" in resolve("localhost")
    assert "127.0.0.1" in resolve("anything.localhost")
    with pytest.raises(OSError, match=r"not known|resolution|No address"):
        resolve("nowhere.invalid")


def test_a_name_that_cannot_be_resolved_has_no_addresses():
    found = Resolver().lookup(f"{'a' * 70}.example")

    assert found.finished.wait(10)
    assert not found.addresses
