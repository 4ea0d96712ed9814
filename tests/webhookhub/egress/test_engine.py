"""Many requests at once, in one thread."""

from __future__ import annotations

import contextlib
import ssl
import threading
import time
from datetime import timedelta
from pathlib import Path

from tests.webhookhub.egress.conftest import collect, post
from tools.demo.endpoint import HttpsEndpoint, Received, Reply
from tools.support.raw_endpoint import RawEndpoint, read_request
from webhookhub.egress.engine import Engine
from webhookhub.egress.messages import Response


def let_pass(seconds: float) -> None:
    """For tests of time itself."""
    threading.Event().wait(seconds)


def keep_alive(connection: ssl.SSLSocket) -> None:
    while read_request(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


def test_hundreds_of_requests_share_a_few_connections(trusted: Path, hub_settings):
    hub_settings(requests_per_host=4)
    engine: Engine[int] = Engine(400)
    with RawEndpoint(trusted, keep_alive) as endpoint:
        for number in range(400):
            engine.submit(number, post(endpoint.url, b"%d" % number))
        assert (engine.in_flight, engine.free, engine._queued) == (400, 0, 398)
        responses = collect(engine, 400)
        engine.close()

    assert {response.error_code for response in responses.values()} == {None}
    assert set(responses) == set(range(400))
    assert endpoint.accepted <= 4


def test_a_host_never_has_more_requests_in_flight_than_its_limit(endpoint: HttpsEndpoint, hub_settings):
    hub_settings(requests_per_host=3)
    lock = threading.Lock()
    under_way = peak = 0

    def answer(request: Received) -> Reply:
        nonlocal under_way, peak
        with lock:
            under_way += 1
            peak = max(peak, under_way)
        return Reply(before=leave)

    def leave() -> None:
        nonlocal under_way
        time.sleep(0.005)  # long enough for others to come in, if they were let in
        with lock:
            under_way -= 1

    endpoint.respond = answer
    engine: Engine[int] = Engine(50)
    for number in range(50):
        engine.submit(number, post(endpoint.url()))
    collect(engine, 50)
    engine.close()

    assert 2 <= peak <= 3


def test_a_slow_host_does_not_delay_another(trusted: Path, endpoint: HttpsEndpoint, hub_settings):
    hub_settings(requests_per_host=2)
    engine: Engine[str] = Engine(20)
    with RawEndpoint(trusted, lambda connection: slow.hold()) as slow:
        for number in range(10):
            engine.submit(f"slow {number}", post(slow.url))
            engine.submit(f"quick {number}", post(endpoint.url()))
        responses = collect(engine, 10)
        engine.close()

    assert set(responses) == {f"quick {number}" for number in range(10)}


def test_the_timeout_of_a_request_starts_when_it_is_sent(trusted: Path, hub_settings):
    hub_settings(requests_per_host=1, request_timeout=timedelta(seconds=0.5))

    def unhurried(connection: ssl.SSLSocket) -> None:
        while read_request(connection):
            endpoint.closing.wait(0.2)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    engine: Engine[int] = Engine(4)
    with RawEndpoint(trusted, unhurried) as endpoint:
        for number in range(4):
            engine.submit(number, post(endpoint.url))
        responses = collect(engine, 4)
        engine.close()

    assert {response.error_code for response in responses.values()} == {None}
    assert all(response.duration_ms < 500 for response in responses.values())


def test_queued_requests_can_be_withdrawn_and_are_never_sent(endpoint: HttpsEndpoint, hub_settings):
    hub_settings(requests_per_host=1)
    engine: Engine[int] = Engine(5)
    for number in range(5):
        engine.submit(number, post(endpoint.url(f"/{number}")))

    assert engine.withdraw(3600) == []
    assert engine.withdraw(0) == [1, 2, 3, 4]

    assert engine.in_flight == 1
    assert set(collect(engine, 1)) == {0}
    assert [request.path for request in endpoint.received] == ["/0"]
    assert (engine.in_flight, engine.free) == (0, 5)
    engine.close()


def test_polling_with_only_queued_requests_is_no_error(trusted: Path, endpoint: HttpsEndpoint):
    """Only queued requests to a slow host are left: poll returns nothing, and they can be withdrawn."""
    engine: Engine[str] = Engine(1)
    with RawEndpoint(trusted, keep_alive) as slow:
        engine._hosts.at(slow.url).note_response(Response(None, 5000, 200))
        engine.submit("quick", post(endpoint.url("/")))
        engine.submit("slow", post(slow.url))
        assert set(collect(engine, 1)) == {"quick"}
        assert engine.poll(0.01) == []
        assert engine.withdraw(0) == ["slow"]
    engine.close()


def test_a_request_that_cannot_be_sent_does_not_block_the_queue(endpoint: HttpsEndpoint, hub_settings):
    hub_settings(requests_per_host=1)
    engine: Engine[str] = Engine(5)
    engine.submit("first", post(endpoint.url("/1")))
    engine.submit("bad", post(endpoint.url("/é")))
    engine.submit("worse", post(endpoint.url("/\0")))
    engine.submit("last", post(endpoint.url("/2")))

    responses = collect(engine, 4)
    engine.close()

    codes = {tag: response.error_code for tag, response in responses.items()}
    assert codes == {"first": None, "bad": "invalid_request", "worse": "invalid_request", "last": None}


def test_an_engine_with_nothing_to_do_does_not_wait():
    engine: Engine[int] = Engine(1)
    began = time.monotonic()

    assert engine.poll(60) == []

    assert time.monotonic() - began < 30
    engine.close()


def test_an_engine_can_be_closed_with_requests_in_every_state(trusted: Path, hub_settings):
    hub_settings(requests_per_host=2)
    engine: Engine[int] = Engine(5)
    with RawEndpoint(trusted, lambda connection: endpoint.hold()) as endpoint:
        for number in range(5):
            engine.submit(number, post(endpoint.url))
        engine.poll(0.1)
        engine.close()


def test_slow_hosts_together_leave_slots_for_fast_ones(trusted: Path, endpoint: HttpsEndpoint, hub_settings):
    """Five that take their time could fill the worker with their shares; a part of it stays free of them."""
    hub_settings(requests_per_host=4)
    engine: Engine[str] = Engine(16)
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(RawEndpoint(trusted, lambda connection: slow[0].hold())) for _ in range(5)]
        for raw_endpoint in slow:
            engine._hosts.at(raw_endpoint.url).note_response(Response(None, 5000, 200))
        taken = 0
        for raw_endpoint in slow * 4:
            if engine.accepts(raw_endpoint.url):
                engine.submit(f"slow {taken}", post(raw_endpoint.url))
                taken += 1
        assert (taken, engine.free) == (12, 4)
        for number in range(8):
            assert engine.accepts(endpoint.url())
            engine.submit(f"quick {number}", post(endpoint.url()))
        responses = collect(engine, 8)
        engine.close()

    assert set(responses) == {f"quick {number}" for number in range(8)}


def test_a_response_during_a_gap_between_polls_is_no_timeout(trusted: Path, hub_settings):
    """As when the database hangs for longer than a request may take: the response had already arrived."""
    hub_settings(request_timeout=timedelta(seconds=3))
    asked, go, answered = threading.Event(), threading.Event(), threading.Event()

    def answer(connection: ssl.SSLSocket) -> None:
        read_request(connection)
        asked.set()
        go.wait(10)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        answered.set()
        endpoint.hold()

    engine: Engine[int] = Engine(1)
    with RawEndpoint(trusted, answer) as endpoint:
        engine.submit(1, post(endpoint.url))
        while not asked.is_set():
            assert engine.poll(0.01) == []
        go.set()
        assert answered.wait(10)
        let_pass(3.5)
        result = collect(engine, 1)[1]
        engine.close()

    assert result.error_code is None


def test_a_missing_response_is_a_timeout_even_after_a_gap_between_polls(trusted: Path, hub_settings):
    hub_settings(request_timeout=timedelta(seconds=0.3))
    engine: Engine[int] = Engine(1)
    with RawEndpoint(trusted, lambda connection: endpoint.hold()) as endpoint:
        engine.submit(1, post(endpoint.url))
        engine.poll(0.01)
        let_pass(1.2)
        result = collect(engine, 1)[1]
        engine.close()

    assert result.error_code == "timeout"
    assert result.duration_ms < 30_000
