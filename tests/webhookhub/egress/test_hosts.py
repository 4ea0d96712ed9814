"""How many of a worker's slots a host may use."""

from __future__ import annotations

import pytest

from webhookhub.egress import hosts as hosts_module
from webhookhub.egress.hosts import FEW, MAX_DEFER_SECONDS, MIN_DEFER_SECONDS, Host, Hosts
from webhookhub.egress.messages import Response

QUICK = Response(None, 20, 200)
SLOW = Response(None, 20_000, 200)
REFUSED = Response("connect_error", 5)
SILENT = Response("timeout", 30_000)
LOST = Response("connection_lost", 20)


@pytest.fixture
def host() -> Host[int]:
    return Hosts[int](20).at("https://hooks.example.com/a")


def share(host: Host[int]) -> tuple[int, bool]:
    return host.limit, host.may_queue


def test_an_unknown_host_gets_few_requests_and_a_queue(host: Host[int]):
    assert share(host) == (FEW, True)


def test_a_fast_host_gets_its_full_limit_even_when_it_refuses(host: Host[int]):
    for response in (QUICK, REFUSED):
        host.note_response(response)
        assert share(host) == (20, True)


def test_nothing_is_queued_for_a_slow_host(host: Host[int]):
    host.note_response(SLOW)
    assert share(host) == (20, False)


def test_a_silent_host_gets_few_requests_until_it_responds_again(host: Host[int]):
    host.note_response(QUICK)
    host.note_response(SILENT)
    assert share(host) == (FEW, False)
    host.note_response(QUICK)
    assert share(host) == (20, True)


@pytest.mark.parametrize(("known", "limit"), [(True, 20), (False, FEW)])
def test_after_a_queue_timeout_nothing_is_queued_until_the_next_response(host: Host[int], known: bool, limit: int):
    if known:
        host.note_response(QUICK)
    host.note_queue_timeout()
    assert share(host) == (limit, False)
    host.note_response(QUICK)
    assert share(host) == (20, True)


def test_each_loss_doubles_the_time_without_reuse_up_to_a_maximum(host: Host[int], monkeypatch: pytest.MonkeyPatch):
    now = 1000.0
    monkeypatch.setattr("webhookhub.egress.hosts.time.monotonic", lambda: now)
    for seconds in (5, 10, 20):
        for _ in range(3):  # at once
            host.note_response(LOST)
        assert host.reuse_at == now + seconds
        now += seconds
    for _ in range(20):
        host.note_response(LOST)
        now = host.reuse_at
    host.note_response(LOST)
    assert host.reuse_at == now + 3600


def test_the_limit_is_never_exceeded():
    assert Hosts[int](1).at("https://hooks.example.com/").limit == 1


def test_deferred_requests_return_one_after_the_other_and_within_bounds(host: Host[int]):
    host.note_response(SILENT)

    waits = [host.defer_seconds() for _ in range(1000)]

    assert waits[0] == pytest.approx(MIN_DEFER_SECONDS)
    assert waits[1] == pytest.approx(MIN_DEFER_SECONDS + 30 / FEW, abs=0.5)
    assert max(waits) <= MAX_DEFER_SECONDS
    assert waits[-1] == pytest.approx(MAX_DEFER_SECONDS)


def test_requests_to_a_recovered_host_are_deferred_for_a_short_time(host: Host[int]):
    host.note_response(SILENT)
    for _ in range(100):
        host.defer_seconds()

    host.note_response(QUICK)

    assert host.defer_seconds() == pytest.approx(MIN_DEFER_SECONDS)


def test_a_host_is_a_name_and_a_port():
    hosts = Hosts[int](20)

    same = [hosts.at(url) for url in ("https://a.example/x", "https://a.example/y", "https://a.example/x?z")]

    assert len({id(each) for each in same}) == 1
    assert (same[0].name, same[0].port, same[0].is_address) == ("a.example", 443, False)
    other = hosts.at("https://a.example:8443/x")
    assert other is not same[0]
    assert other.port == 8443
    assert hosts.at("https://192.0.2.1/").is_address
    assert hosts.at("https://[2001:db8::1]:8443/").name == "2001:db8::1"


def test_an_invalid_url_is_refused():
    for url in ("https://a.example:port/", "https://[::1/", "https:///", ""):
        assert Hosts[int](20).at(url).is_address
        assert Hosts[int](20).at(url).refusal == "invalid_request"


def test_the_cache_of_hosts_is_bounded_and_keeps_hosts_in_use(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hosts_module, "MAX_CACHED", 10)
    hosts = Hosts[int](20)
    busy = hosts.at("https://busy.example/")
    busy.in_flight = 1
    first = hosts.at("https://first.example/")
    for number in range(15):
        hosts.at(f"https://{number}.example/").note_response(SLOW)

    assert hosts.at("https://busy.example/") is busy
    assert hosts.at("https://first.example/") is not first
    assert not hosts.at("https://14.example/").may_queue
