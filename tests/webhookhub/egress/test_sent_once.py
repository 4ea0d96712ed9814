"""One attempt is one POST, although libcurl repeats a request by itself where it can."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.http2_endpoint import Http2Endpoint, Stream
from tests.webhookhub.egress.conftest import collect, post
from tools.support.raw_endpoint import RawEndpoint, read_request
from webhookhub.egress import error_codes, hosts, transfer
from webhookhub.egress.engine import Engine, send
from webhookhub.egress.messages import Response

ATTEMPTS = 1000
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def always_reuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reuse connections right after a loss, so that the next one is lost, too."""
    monkeypatch.setattr(hosts, "NO_REUSE_SECONDS", 0.0)


def send_all(url: str, concurrency: int = 1) -> dict[int, Response]:
    engine: Engine[int] = Engine(concurrency)
    responses: dict[int, Response] = {}
    for number in range(ATTEMPTS):
        engine.submit(number, post(url, b"%d" % number))
        if not engine.free:
            responses |= collect(engine, 1)
    responses |= collect(engine, ATTEMPTS - len(responses), seconds=120)
    engine.close()
    return responses


def assert_sent_once(received: list[bytes], responses: dict[int, Response]) -> None:
    """Each attempt was received exactly once, and about every second one has failed."""
    assert sorted(map(int, received)) == list(range(ATTEMPTS))
    lost = [response for response in responses.values() if response.error_code]
    assert {response.error_code for response in lost} == {error_codes.CONNECTION_LOST}
    assert ATTEMPTS * 0.4 < len(lost) <= ATTEMPTS / 2


@pytest.mark.parametrize("concurrency", [1, 20])
def test_a_request_is_not_repeated_when_its_connection_closes(trusted: Path, always_reuse: None, concurrency: int):
    received: list[bytes] = []

    def close_at_second_request(connection: ssl.SSLSocket) -> None:
        for answer in (OK, b""):
            received.append(read_request(connection).partition(b"\r\n\r\n")[2])
            connection.sendall(answer)

    with RawEndpoint(trusted, close_at_second_request) as endpoint:
        responses = send_all(endpoint.url, concurrency)

    assert_sent_once([body for body in received if body], responses)


def close(stream: Stream) -> None:
    with contextlib.suppress(OSError):
        stream.socket.unwrap()
    stream.socket.close()


def refuse(stream: Stream) -> None:
    stream.connection.reset_stream(stream.id, 7)  # REFUSED_STREAM
    stream.flush()


def go_away(stream: Stream) -> None:
    stream.connection.close_connection(last_stream_id=stream.id)
    stream.flush()


def go_away_before(stream: Stream) -> None:
    """By the standard, a client may repeat such a request: the endpoint has not processed it."""
    stream.connection.close_connection(last_stream_id=stream.id - 2)
    stream.flush()


@pytest.mark.parametrize("lose", [close, refuse, go_away, go_away_before])
def test_a_request_is_not_repeated_in_http2(trusted: Path, always_reuse: None, lose: Callable[[Stream], None]):
    def answer(stream: Stream) -> None:
        if stream.id % 4 == 1:
            stream.respond(200, b"ok")
        else:
            lose(stream)

    with Http2Endpoint(trusted, answer) as endpoint:
        responses = send_all(endpoint.url)

    assert_sent_once([stream.body for stream in endpoint.received], responses)


def test_a_request_is_not_repeated_in_another_http_version(trusted: Path):
    def answer(stream: Stream) -> None:
        stream.connection.reset_stream(stream.id, 13)  # HTTP_1_1_REQUIRED
        stream.flush()

    with Http2Endpoint(trusted, answer) as endpoint:
        response = send(post(endpoint.url))

    assert response.error_code == error_codes.CONNECTION_LOST
    assert len(endpoint.received) == 1


def test_a_request_without_a_body_is_not_sent(trusted: Path):
    """libcurl would repeat it."""
    with RawEndpoint(trusted, lambda connection: None) as endpoint:
        assert send(post(endpoint.url, b"")).error_code == error_codes.INVALID_REQUEST

    assert endpoint.accepted == 0


def test_a_connection_that_was_closed_while_idle_is_not_used(trusted: Path):
    def answer_and_close(connection: ssl.SSLSocket) -> None:
        read_request(connection)
        connection.sendall(OK)

    engine: Engine[int] = Engine(1)
    with RawEndpoint(trusted, answer_and_close) as endpoint:
        for number in range(3):
            engine.submit(number, post(endpoint.url))
            assert collect(engine, 1)[number].error_code is None
            threading.Event().wait(1.1)  # libcurl checks a connection that it has not checked for a second
        engine.close()

    assert endpoint.accepted == 3


def test_connections_are_not_reused_for_a_while_after_one_was_lost(trusted: Path):
    """An endpoint that closes each connection after its response, without announcing it, loses few requests."""

    def answer_and_close(connection: ssl.SSLSocket) -> None:
        read_request(connection)
        connection.sendall(OK)

    with RawEndpoint(trusted, answer_and_close) as endpoint:
        responses = send_all(endpoint.url, concurrency=10)

    lost = [response for response in responses.values() if response.error_code]
    assert {response.error_code for response in lost} <= {error_codes.CONNECTION_LOST}
    assert len(lost) < ATTEMPTS * 0.1


def test_an_idle_connection_is_not_reused_when_the_endpoint_may_close_it(
    trusted: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(transfer, "MAX_IDLE_SECONDS", 1)

    def keep_alive(connection: ssl.SSLSocket) -> None:
        while read_request(connection):
            connection.sendall(OK)

    engine: Engine[int] = Engine(1)
    with RawEndpoint(trusted, keep_alive) as endpoint:
        for idle_seconds, accepted in [(0.0, 1), (0.0, 1), (2.1, 2)]:
            threading.Event().wait(idle_seconds)
            engine.submit(accepted, post(endpoint.url))
            assert collect(engine, 1)[accepted].error_code is None
            assert endpoint.accepted == accepted
        engine.close()
