"""Receivers that speak HTTP/2."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from h2.errors import ErrorCodes

from tests.support.http2_endpoint import Http2Endpoint, Stream
from tests.webhookhub.egress.conftest import collect, post
from webhookhub.egress.engine import Engine, send
from webhookhub.egress.messages import KEPT_BODY_BYTES


def ok(stream: Stream) -> None:
    stream.respond(200, b"ok")


def test_a_request_is_sent_in_http2_with_headers_and_body(trusted: Path):
    with Http2Endpoint(trusted, ok) as endpoint:
        response = send(post(endpoint.url, b'{"n":1}', ("X-One: 1", "webhook-id: msg_1")))

    assert (response.error_code, response.status, response.body) == (None, 200, b"ok")
    [stream] = endpoint.received
    assert stream.body == b'{"n":1}'
    assert (stream.headers[":method"], stream.headers[":path"], stream.headers[":scheme"]) == ("POST", "/hook", "https")
    assert (stream.headers["x-one"], stream.headers["webhook-id"]) == ("1", "msg_1")
    assert "expect" not in stream.headers


def test_many_requests_at_once_share_one_connection(trusted: Path, hub_settings):
    hub_settings(requests_per_host=50)
    held: list[Stream] = []

    def answer(stream: Stream) -> None:
        """The first at once, the others when all are there: no connection could carry them one after the other."""
        if len(endpoint.received) == 1:
            return ok(stream)
        held.append(stream)
        if len(held) == 50:
            for each in held:
                ok(each)
        return None

    engine: Engine[int] = Engine(50)
    with Http2Endpoint(trusted, answer) as endpoint:
        engine.submit(0, post(endpoint.url))
        collect(engine, 1)
        for number in range(1, 51):
            engine.submit(number, post(endpoint.url, b"%d" % number))
        responses = collect(engine, 50)
        engine.close()

    assert {response.error_code for response in responses.values()} == {None}
    assert sorted(int(stream.body) for stream in held) == list(range(1, 51))
    assert endpoint.accepted == 1


@pytest.mark.parametrize(("status", "code"), [(302, "redirect"), (404, "http_404"), (503, "http_503")])
def test_errors_have_the_same_codes(trusted: Path, status: int, code: str):
    with Http2Endpoint(trusted, lambda stream: stream.respond(status, b"no", [("retry-after", "7")])) as endpoint:
        response = send(post(endpoint.url))

    assert (response.error_code, response.status, response.body) == (code, status, b"no")
    assert response.retry_after == ("7" if status == 503 else None)


def many_headers(stream: Stream) -> None:
    stream.respond(200, b"", [(f"x-{number}", "x" * 1000) for number in range(40)])


def one_huge_header(stream: Stream) -> None:
    stream.respond(200, b"", [("x-huge", "x" * 40_000)])


def hints_without_end(stream: Stream) -> None:
    for _ in range(2000):
        stream.connection.send_headers(stream.id, [(":status", "103"), ("link", "</x>; rel=preload")])
    stream.flush()


def trailers(stream: Stream) -> None:
    stream.connection.send_headers(stream.id, [(":status", "200")])
    stream.connection.send_headers(stream.id, [(f"x-{n}", "x" * 1000) for n in range(40)], end_stream=True)
    stream.flush()


def reset(stream: Stream, code: ErrorCodes = ErrorCodes.INTERNAL_ERROR) -> None:
    stream.connection.send_headers(stream.id, [(":status", "200"), ("content-length", "10")])
    stream.connection.send_data(stream.id, b"half")
    reset_at_once(stream, code)


def reset_at_once(stream: Stream, code: ErrorCodes = ErrorCodes.INTERNAL_ERROR) -> None:
    stream.connection.reset_stream(stream.id, code)
    stream.flush()


def invalid_header(stream: Stream) -> None:
    stream.connection.config.validate_outbound_headers = False
    stream.connection.config.normalize_outbound_headers = False
    stream.respond(200, b"", [("X-Upper", "1")])


def short_body(stream: Stream) -> None:
    stream.respond(200, b"half", [("content-length", "10")])


def go_away(stream: Stream) -> None:
    stream.connection.close_connection(error_code=2, last_stream_id=stream.id)
    stream.flush()


def garbage(stream: Stream) -> None:
    stream.socket.sendall(b"\xff" * 100)


def silence(stream: Stream) -> None:
    pass


@pytest.mark.parametrize(
    ("act", "codes"),
    [
        (Stream.pour, {"response_too_large"}),
        (many_headers, {"response_too_large"}),
        (one_huge_header, {"response_too_large"}),
        (hints_without_end, {"response_too_large"}),
        (trailers, {"response_too_large"}),
        (reset, {"connection_lost"}),
        (reset_at_once, {"connection_lost"}),
        (invalid_header, {"protocol_error"}),
        (short_body, {"protocol_error"}),
        (go_away, {"protocol_error", "connection_lost"}),
        (garbage, {"protocol_error", "connection_lost"}),
        (silence, {"timeout"}),
    ],
)
def test_a_protocol_violation_is_a_failed_attempt(
    trusted: Path, hub_settings, act: Callable[[Stream], None], codes: set[str]
):
    hub_settings(request_timeout=timedelta(seconds=0.5 if act is silence else 3 if act is hints_without_end else 30))
    with Http2Endpoint(trusted, act) as endpoint:
        response = send(post(endpoint.url))

    assert response.error_code in codes
    assert response.duration_ms < 30_000
    assert len(response.body) <= KEPT_BODY_BYTES


@pytest.mark.parametrize("act", [reset, reset_at_once])
@pytest.mark.parametrize("code", list(ErrorCodes))
def test_a_stream_that_the_endpoint_resets_is_a_lost_connection(
    trusted: Path, act: Callable[[Stream, ErrorCodes], None], code: ErrorCodes
):
    with Http2Endpoint(trusted, lambda stream: act(stream, code)) as endpoint:
        response = send(post(endpoint.url))

    assert response.error_code == "connection_lost"
    assert len(endpoint.received) == 1


def test_a_timeout_does_not_affect_other_requests_of_the_connection(trusted: Path):
    def answer(stream: Stream) -> None:
        if stream.body == b"bad":
            stream.pour()
        else:
            ok(stream)

    engine: Engine[str] = Engine(10)
    with Http2Endpoint(trusted, answer) as endpoint:
        engine.submit("first", post(endpoint.url, b"1"))
        collect(engine, 1)
        engine.submit("bad", post(endpoint.url, b"bad"))
        engine.submit("good", post(endpoint.url, b"2"))
        responses = collect(engine, 2)
        engine.submit("last", post(endpoint.url, b"3"))
        responses |= collect(engine, 1)
        engine.close()

    codes = {tag: response.error_code for tag, response in responses.items()}
    assert codes == {"bad": "response_too_large", "good": None, "last": None}


def test_data_that_libcurl_has_read_is_processed_without_waiting(trusted: Path):
    """libcurl reads a long response in several steps, and nothing more arrives that would wake the engine."""

    def answer(stream: Stream) -> None:
        stream.connection.send_headers(stream.id, [(":status", "200")])
        for number in range(4):
            stream.connection.send_data(stream.id, b"x" * 15_000, end_stream=number == 3)
        stream.flush()

    engine: Engine[int] = Engine(1)
    with Http2Endpoint(trusted, answer) as endpoint:
        for number in range(10):
            began = time.monotonic()
            engine.submit(number, post(endpoint.url))
            while not (responses := engine.poll(60)):
                pass
            assert responses[0][1].error_code is None
            assert time.monotonic() - began < 30
        engine.close()
