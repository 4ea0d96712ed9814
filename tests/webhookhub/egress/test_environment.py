"""What the process's environment says about the network is not listened to: seen by libcurl in a process of its own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.receiver import Receiver, Reply
from tests.support.egress_child import BODY, Child
from tests.support.tls import Authority
from tests.webhookhub.egress.conftest import post
from webhookhub.egress.curl import send

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
PASSWORD = "a-password-of-the-machine"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def call(authority: Path, *urls: str, **environment: str) -> list[dict[str, Any]]:
    with Child(WEBHOOKHUB_CA_BUNDLE=str(authority), **environment) as child:
        return list(child.send(urls)["answers"].values())


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
def test_proxies_are_not_used(receiver: Receiver, listener, certificate_files, scheme: str):
    proxy = f"{scheme}://user:{PASSWORD}@127.0.0.1:{listener.getsockname()[1]}"
    environment = dict.fromkeys(PROXIES, proxy) | {"no_proxy": "", "NO_PROXY": ""}

    [answer] = call(certificate_files[0], receiver.url(), **environment)

    assert (answer["error_code"], answer["status"]) == (None, 200)
    assert len(receiver.received) == 1
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_a_proxy_does_not_lead_around_the_judgement_of_addresses(listener, certificate_files):
    environment = dict.fromkeys(PROXIES, f"http://127.0.0.1:{listener.getsockname()[1]}")

    answers = call(certificate_files[0], "https://10.0.0.1/", "https://169.254.169.254/", **environment)

    assert {answer["error_code"] for answer in answers} == {"blocked_address"}
    with pytest.raises(BlockingIOError):
        listener.accept()


@pytest.mark.parametrize("name", [".netrc", "_netrc"])
def test_passwords_of_the_machine_are_not_sent(receiver: Receiver, certificate_files, tmp_path: Path, name: str):
    netrc = tmp_path / name
    netrc.write_text(f"machine 127.0.0.1 login somebody password {PASSWORD}\ndefault login x password {PASSWORD}\n")
    netrc.chmod(0o600)
    (tmp_path / ".curlrc").write_text('header = "X-Curlrc: read"\n')
    # Asked for a password, it does not fetch one either.
    receiver.answer = lambda request: Reply(401, b"", (("WWW-Authenticate", 'Basic realm="x"'),))

    [answer] = call(certificate_files[0], receiver.url(), HOME=str(tmp_path), NETRC=str(netrc))

    assert answer["error_code"] == "http_401"
    [request] = receiver.received
    assert "authorization" not in request.headers
    assert "x-curlrc" not in request.headers


def test_authorities_of_the_environment_are_not_trusted(receiver: Receiver, certificate_files, tmp_path: Path):
    authority, _ = certificate_files
    other = Authority(tmp_path).file

    [answer] = call(other, receiver.url(), **dict.fromkeys(("SSL_CERT_FILE", "CURL_CA_BUNDLE"), str(authority)))

    assert answer["error_code"] == "tls_error"
    assert not receiver.received


def test_no_cookie_is_kept_and_nothing_is_asked_for_first(receiver: Receiver, certificate_files):
    receiver.answer = lambda request: Reply(200, b"ok", (("Set-Cookie", "session=1; Path=/"),))

    with Child(WEBHOOKHUB_CA_BUNDLE=str(certificate_files[0])) as child:
        for _ in range(2):
            assert child.send([receiver.url()])["answers"][receiver.url()]["error_code"] is None

    assert len(receiver.received) == 2
    for request in receiver.received:
        assert not {"cookie", "expect", "accept-encoding", "authorization"} & set(request.headers)
        assert request.body == BODY


def test_a_large_body_is_sent_without_asking_first(receiver: Receiver):
    """libcurl would ask (Expect: 100-continue) and wait a second for an answer that many servers never give."""
    body = b"x" * 3_000_000

    answer = send(post(receiver.url(), body))

    assert answer.error_code is None
    assert answer.duration_ms < 900
    assert receiver.received[0].body == body
    assert "expect" not in receiver.received[0].headers
