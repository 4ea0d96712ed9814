"""libcurl ignores the proxies, certificates and passwords of the environment; tested in a separate process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.egress_child import Child
from tests.support.tls import Authority
from tests.webhookhub.egress.conftest import post
from tools.demo.endpoint import HttpsEndpoint, Reply
from webhookhub.egress.engine import send

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
PASSWORD = "a-password-of-the-machine"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def call(authority: Path, *urls: str, **environment: str) -> list[dict[str, Any]]:
    with Child(WEBHOOKHUB_CA_BUNDLE=str(authority), **environment) as child:
        responses = child.send(urls)["responses"]
        return [responses[url] for url in urls]


def test_proxies_are_ignored_and_do_not_bypass_the_address_check(endpoint: HttpsEndpoint, listener, certificate_files):
    proxy = f"http://user:{PASSWORD}@127.0.0.1:{listener.getsockname()[1]}"
    environment = dict.fromkeys(PROXIES, proxy) | {"no_proxy": "", "NO_PROXY": ""}
    urls = [endpoint.url(), "https://10.0.0.1/", "https://169.254.169.254/"]

    responses = call(certificate_files[0], *urls, **environment)

    assert [response["error_code"] for response in responses] == [None, "blocked_address", "blocked_address"]
    assert len(endpoint.received) == 1
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_netrc_passwords_are_not_sent(endpoint: HttpsEndpoint, certificate_files, tmp_path: Path):
    netrc = tmp_path / ".netrc"
    netrc.write_text(f"machine 127.0.0.1 login somebody password {PASSWORD}\ndefault login x password {PASSWORD}\n")
    netrc.chmod(0o600)
    (tmp_path / ".curlrc").write_text('header = "X-Curlrc: read"\n')
    # Asked for a password, it does not fetch one either.
    endpoint.respond = lambda request: Reply(401, b"", (("WWW-Authenticate", 'Basic realm="x"'),))

    [response] = call(certificate_files[0], endpoint.url(), HOME=str(tmp_path), NETRC=str(netrc))

    assert response["error_code"] == "http_401"
    [request] = endpoint.received
    assert "authorization" not in request.headers
    assert "x-curlrc" not in request.headers


def test_authorities_of_the_environment_are_not_trusted(endpoint: HttpsEndpoint, certificate_files, tmp_path: Path):
    authority, _ = certificate_files
    other = Authority(tmp_path).file

    [response] = call(other, endpoint.url(), **dict.fromkeys(("SSL_CERT_FILE", "CURL_CA_BUNDLE"), str(authority)))

    assert response["error_code"] == "tls_error"
    assert not endpoint.received


def test_a_large_body_is_sent_without_expect_100(endpoint: HttpsEndpoint):
    """libcurl would ask (Expect: 100-continue) and wait a second for a response that many servers never send."""
    body = b"x" * 3_000_000

    response = send(post(endpoint.url(), body))

    assert response.error_code is None
    assert response.duration_ms < 900
    assert endpoint.received[0].body == body
    assert "expect" not in endpoint.received[0].headers
