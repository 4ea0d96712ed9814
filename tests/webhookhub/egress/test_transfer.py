"""What becomes of a request, by what the endpoint does with it."""

from __future__ import annotations

import gzip
import socket
import ssl
import time
from datetime import timedelta
from pathlib import Path

import pycurl
import pytest

from tests.webhookhub.egress.conftest import post
from tools.demo.endpoint import HttpsEndpoint, Reply
from tools.support.raw_endpoint import RawEndpoint, read_request, responding
from webhookhub.conf import hub
from webhookhub.egress.engine import send
from webhookhub.egress.messages import KEPT_BODY_BYTES
from webhookhub.egress.transfer import MAX_RESPONSE_BYTES, Transfer
from webhookhub.egress.watchdog import Watchdog

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.mark.requirement("R2-2.2e")
@pytest.mark.parametrize("status", [200, 204, 299])
def test_any_2xx_is_a_success(endpoint: HttpsEndpoint, status: int):
    endpoint.respond = lambda request: Reply(status, b"")

    response = send(post(endpoint.url("/a?b=c"), b'{"n":1}', ("X-One: 1",)))

    assert (response.error_code, response.status) == (None, status)
    [received] = endpoint.received
    assert (received.path, received.body) == ("/a?b=c", b'{"n":1}')
    assert received.headers["x-one"] == "1"
    assert received.headers["content-type"] == "application/json"


@pytest.mark.parametrize("status", [300, 302, 304, 399])
def test_a_redirect_is_an_error_and_is_not_followed(endpoint: HttpsEndpoint, status: int):
    endpoint.respond = lambda request: Reply(status, b"", (("Location", endpoint.url("/elsewhere")),))

    response = send(post(endpoint.url("/here")))

    assert (response.error_code, response.status) == ("redirect", status)
    assert [request.path for request in endpoint.received] == ["/here"]


@pytest.mark.requirement("R2-2.2f")
@pytest.mark.parametrize("status", [400, 401, 429, 503, 599])
def test_an_error_status_is_its_own_code(endpoint: HttpsEndpoint, status: int):
    endpoint.respond = lambda request: Reply(status, b"no", (("Retry-After", " 17 "),))

    response = send(post(endpoint.url()))

    assert (response.error_code, response.status, response.body) == (f"http_{status}", status, b"no")
    assert response.retry_after == ("17" if status in (429, 503) else None)


@pytest.mark.parametrize(("own", "expected"), [(b"", None), (b"Retry-After: 5\r\n", "5")])
def test_retry_after_is_read_only_from_the_final_response(trusted: Path, own: bytes, expected: str | None):
    hints = b"HTTP/1.1 103 Early Hints\r\nRetry-After: 86400\r\n\r\n"
    refusal = b"HTTP/1.1 503 Not now\r\n" + own + b"Content-Length: 0\r\n\r\n"
    with RawEndpoint(trusted, responding(hints, refusal)) as endpoint:
        response = send(post(endpoint.url))

    assert (response.error_code, response.retry_after) == ("http_503", expected)


def test_a_refused_connection_is_a_connect_error(trusted: Path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    response = send(post(f"https://127.0.0.1:{port}/"))

    assert (response.error_code, response.status) == ("connect_error", None)


def test_an_endpoint_that_speaks_no_tls_is_a_tls_error(trusted: Path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        import threading

        def hello() -> None:
            plain, _ = listener.accept()
            with plain:
                plain.sendall(OK)
                plain.recv(65536)

        threading.Thread(target=hello, daemon=True).start()

        assert send(post(f"https://127.0.0.1:{listener.getsockname()[1]}/")).error_code == "tls_error"


def test_an_endpoint_that_never_responds_is_a_timeout(trusted: Path, hub_settings):
    hub_settings(request_timeout=timedelta(seconds=0.3))
    with RawEndpoint(trusted, lambda connection: endpoint.hold()) as endpoint:
        began = time.monotonic()
        response = send(post(endpoint.url))

    assert (response.error_code, response.status) == ("timeout", None)
    assert 0.25 < time.monotonic() - began < 30
    assert 250 < response.duration_ms < 30_000


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n", b"HTTP/1.1 200 OK\r\nX-Long: "], ids=["body", "head"]
)
def test_an_endpoint_that_drips_does_not_extend_the_timeout(trusted: Path, hub_settings, head: bytes):
    hub_settings(request_timeout=timedelta(seconds=0.4))

    def drip(connection: ssl.SSLSocket) -> None:
        read_request(connection)
        connection.sendall(head)
        while not endpoint.closing.wait(0.02):
            connection.sendall(b"x")

    with RawEndpoint(trusted, drip) as endpoint:
        began = time.monotonic()
        response = send(post(endpoint.url))

    assert response.error_code == "timeout"
    assert 0.35 < time.monotonic() - began < 30


def test_a_missing_tls_handshake_is_a_timeout_after_the_connect_timeout(trusted: Path, hub_settings):
    hub_settings(connect_timeout=timedelta(seconds=0.2), request_timeout=timedelta(seconds=300))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        began = time.monotonic()
        response = send(post(f"https://127.0.0.1:{listener.getsockname()[1]}/"))

    assert response.error_code == "timeout"
    assert time.monotonic() - began < 60


def test_a_connection_closed_before_the_response_is_complete_is_an_error(trusted: Path):
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nten bytes."
    with RawEndpoint(trusted, responding(half)) as endpoint:
        assert send(post(endpoint.url)).error_code == "connection_lost"


def test_a_connection_closed_without_a_response_is_an_error(endpoint: HttpsEndpoint):
    endpoint.respond = lambda request: Reply(drop=True)

    assert send(post(endpoint.url())).error_code == "connection_lost"


def test_a_response_of_an_unknown_http_version_is_an_error(trusted: Path):
    with RawEndpoint(trusted, responding(b"HTTP/9.9 200 OK\r\n\r\n")) as endpoint:
        response = send(post(endpoint.url))

    assert response.error_code == "protocol_error"


def test_a_response_of_the_maximum_size_is_read_and_its_beginning_kept(endpoint: HttpsEndpoint):
    body = bytes(range(256)) * (MAX_RESPONSE_BYTES // 256)
    endpoint.respond = lambda request: Reply(200, body)

    response = send(post(endpoint.url()))

    assert response.error_code is None
    assert response.body == body[:KEPT_BODY_BYTES]


def test_a_response_that_is_too_large_is_an_error(endpoint: HttpsEndpoint):
    endpoint.respond = lambda request: Reply(200, b"x" * (MAX_RESPONSE_BYTES + 1))

    response = send(post(endpoint.url()))

    assert response.error_code == "response_too_large"
    assert len(response.body) <= KEPT_BODY_BYTES


def test_the_beginning_of_an_error_page_is_kept_whatever_its_content_length(endpoint: HttpsEndpoint):
    page = b"<h1>Traceback</h1>" + b"x" * 1_000_000
    endpoint.respond = lambda request: Reply(500, page)

    response = send(post(endpoint.url()))

    assert (response.error_code, response.body) == ("http_500", page[:KEPT_BODY_BYTES])


def test_a_compressed_response_is_not_decompressed(endpoint: HttpsEndpoint):
    packed = gzip.compress(b"\0" * 10_000_000)
    endpoint.respond = lambda request: Reply(200, packed, (("Content-Encoding", "gzip"),))

    response = send(post(endpoint.url()))

    assert response.error_code is None
    assert response.body == packed[:KEPT_BODY_BYTES]
    assert "accept-encoding" not in endpoint.received[0].headers


@pytest.mark.requirement("R3-2.3b")
@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "",
        "https://127.0.0.1:99999/",
        "https://127.0.0.1:{port}/é",
        "https://127.0.0.1:{port}/a\0b",
        "https://user:password@127.0.0.1:{port}/",
        "https://2130706433:{port}/",
        "https://127.0.0.1:{port}\\@example.com/",
    ],
)
def test_an_invalid_stored_url_is_not_sent_to(trusted: Path, url: str):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)

        response = send(post(url.format(port=listener.getsockname()[1])))

        assert (response.error_code, response.body) == ("invalid_request", b"")
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_port_that_is_not_allowed_any_more_is_not_sent_to(endpoint: HttpsEndpoint, hub_settings):
    hub_settings(allowed_ports=((443, 443),))

    assert send(post(endpoint.url())).error_code == "invalid_request"

    assert not endpoint.received


def test_libcurl_refuses_another_scheme_by_itself(trusted: Path):
    """Whatever the rules for URLs may become."""
    slot: Transfer[None] = Transfer(hub(), Watchdog())
    for url in ("http://127.0.0.1/", "file:///etc/passwd"):
        slot.handle.setopt(pycurl.URL, url)
        with pytest.raises(pycurl.error) as refused:
            slot.handle.perform()
        assert refused.value.args[0] == pycurl.E_UNSUPPORTED_PROTOCOL
    slot.handle.close()


@pytest.mark.parametrize("trailer", [b"", b"X-One: 1\r\nX-Two: 2\r\n"])
def test_a_response_with_trailers_is_complete(trusted: Path, trailer: bytes):
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with RawEndpoint(trusted, responding(head + b"2\r\nok\r\n0\r\n" + trailer + b"\r\n")) as endpoint:
        response = send(post(endpoint.url))

    assert (response.error_code, response.status, response.body) == (None, 200, b"ok")
