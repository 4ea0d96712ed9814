"""Many requests at once, in one thread."""

from __future__ import annotations

import ssl
import threading
import time
from datetime import timedelta
from pathlib import Path

from demo.receiver import Received, Receiver, Reply
from tests.support.raw_endpoint import RawEndpoint, read_request
from tests.webhookhub.egress.conftest import collect, post
from webhookhub.egress.curl import Engine


def keep_alive(connection: ssl.SSLSocket) -> None:
    while read_request(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


def test_hundreds_of_requests_share_a_few_connections(trusted: Path, hub_settings):
    hub_settings(requests_per_host=4)
    engine: Engine[int] = Engine(400)
    with RawEndpoint(trusted, keep_alive) as endpoint:
        for number in range(400):
            engine.submit(number, post(endpoint.url, b"%d" % number))
        assert (engine.in_flight, engine.free, engine.waiting) == (400, 0, 398)
        answers = collect(engine, 400)
        engine.close()

    assert {answer.error_code for answer in answers.values()} == {None}
    assert set(answers) == set(range(400))
    assert endpoint.accepted <= 4


def test_a_receiver_never_has_more_requests_under_way_than_its_share(receiver: Receiver, hub_settings):
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

    receiver.answer = answer
    engine: Engine[int] = Engine(50)
    for number in range(50):
        engine.submit(number, post(receiver.url()))
    collect(engine, 50)
    engine.close()

    assert peak == 3


def test_a_slow_receiver_does_not_hold_up_another(trusted: Path, receiver: Receiver, hub_settings):
    hub_settings(requests_per_host=2)
    engine: Engine[str] = Engine(20)
    with RawEndpoint(trusted, lambda connection: slow.hold()) as slow:
        for number in range(10):
            engine.submit(f"slow {number}", post(slow.url))
            engine.submit(f"quick {number}", post(receiver.url()))
        answers = collect(engine, 10)
        engine.close()

    assert set(answers) == {f"quick {number}" for number in range(10)}


def test_the_clock_of_a_request_starts_when_it_is_sent(trusted: Path, hub_settings):
    hub_settings(requests_per_host=1, request_timeout=timedelta(seconds=0.5))

    def unhurried(connection: ssl.SSLSocket) -> None:
        while read_request(connection):
            endpoint.closing.wait(0.2)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    engine: Engine[int] = Engine(4)
    with RawEndpoint(trusted, unhurried) as endpoint:
        for number in range(4):
            engine.submit(number, post(endpoint.url))
        answers = collect(engine, 4)
        engine.close()

    assert {answer.error_code for answer in answers.values()} == {None}
    assert all(answer.duration_ms < 500 for answer in answers.values())


def test_requests_that_wait_can_be_taken_back_and_are_never_sent(receiver: Receiver, hub_settings):
    hub_settings(requests_per_host=1)
    engine: Engine[int] = Engine(5)
    for number in range(5):
        engine.submit(number, post(receiver.url(f"/{number}")))

    assert engine.withdraw(3600) == []
    assert engine.withdraw(0) == [1, 2, 3, 4]

    assert engine.in_flight == 1
    assert set(collect(engine, 1)) == {0}
    assert [request.path for request in receiver.received] == ["/0"]
    assert (engine.in_flight, engine.free) == (0, 5)
    engine.close()


def test_a_request_that_cannot_be_sent_does_not_hold_up_those_behind_it(receiver: Receiver, hub_settings):
    hub_settings(requests_per_host=1)
    engine: Engine[str] = Engine(5)
    engine.submit("first", post(receiver.url("/1")))
    engine.submit("bad", post(receiver.url("/é")))
    engine.submit("worse", post(receiver.url("/\0")))
    engine.submit("last", post(receiver.url("/2")))

    answers = collect(engine, 4)
    engine.close()

    codes = {tag: answer.error_code for tag, answer in answers.items()}
    assert codes == {"first": None, "bad": "invalid_request", "worse": "invalid_request", "last": None}


def test_an_engine_with_nothing_to_do_does_not_wait():
    engine: Engine[int] = Engine(1)
    began = time.monotonic()

    assert engine.poll(5) == []

    assert time.monotonic() - began < 1
    engine.close()


def test_an_engine_can_be_closed_in_the_middle_of_everything(trusted: Path, hub_settings):
    hub_settings(requests_per_host=2)
    engine: Engine[int] = Engine(5)
    with RawEndpoint(trusted, lambda connection: endpoint.hold()) as endpoint:
        for number in range(5):
            engine.submit(number, post(endpoint.url))
        engine.poll(0.1)
        engine.close()
