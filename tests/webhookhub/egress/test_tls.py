"""Which endpoints are believed to be who they say they are."""

from __future__ import annotations

import socket
import ssl
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.tls import DAY, Authority
from tests.webhookhub.egress.conftest import post
from tools.support.raw_endpoint import RawEndpoint, responding
from webhookhub.egress.dns import Resolver
from webhookhub.egress.engine import send
from webhookhub.egress.messages import Response

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HOUR = timedelta(hours=1)


@pytest.fixture
def authority(tmp_path: Path, hub_settings) -> Authority:
    """The one that the hub trusts."""
    made = Authority(tmp_path)
    hub_settings(ca_bundle=str(made.file))
    return made


def call(endpoint: RawEndpoint, host: str = "") -> Response:
    """One request, by the endpoint's address or by a name that leads there."""
    if not host:
        return send(post(endpoint.url))
    port = urlsplit(endpoint.url).port
    return send(post(f"https://{host}:{port}/"), resolver=Resolver(lambda name: ["127.0.0.1"]))


def assert_refused(response: Response) -> None:
    assert (response.error_code, response.status, response.body) == ("tls_error", None, b"")


@pytest.mark.parametrize(
    ("names", "host"),
    [
        (("127.0.0.1",), ""),
        (("hooks.example.com",), "hooks.example.com"),
        (("other.example.com", "hooks.example.com"), "hooks.example.com"),
        (("*.example.com",), "hooks.example.com"),
    ],
)
def test_a_certificate_for_the_host_is_accepted(authority: Authority, names: tuple[str, ...], host: str):
    with RawEndpoint(authority.certificate(*names), responding(OK)) as endpoint:
        response = call(endpoint, host)

    assert (response.error_code, response.status, response.body) == (None, 200, b"ok")


@pytest.mark.parametrize(
    ("names", "host"),
    [
        (("hooks.example.com",), ""),
        (("127.0.0.2",), ""),
        (("*.example.com",), "example.com"),
        (("*.example.com",), "a.hooks.example.com"),
        (("*.com",), "example.com"),
        (("*",), "example.com"),
        (("example.com",), "hooks.example.com"),
        (("hooks.example.com.evil.com",), "hooks.example.com"),
        (("127.0.0.1",), "hooks.example.com"),
    ],
)
def test_a_certificate_for_another_host_is_refused(authority: Authority, names: tuple[str, ...], host: str):
    with RawEndpoint(authority.certificate(*names), responding(OK)) as endpoint:
        assert_refused(call(endpoint, host))


@pytest.mark.parametrize("valid", [(-2 * DAY, -HOUR), (HOUR, 2 * DAY)], ids=["expired", "not valid yet"])
def test_an_expired_or_future_certificate_is_refused(authority: Authority, valid: tuple[timedelta, timedelta]):
    with RawEndpoint(authority.certificate(valid=valid), responding(OK)) as endpoint:
        assert_refused(call(endpoint))


def test_a_self_signed_certificate_is_refused(authority: Authority):
    with RawEndpoint(authority.certificate(self_signed=True), responding(OK)) as endpoint:
        assert_refused(call(endpoint))


def test_a_certificate_of_an_authority_with_the_same_name_is_refused(authority: Authority, tmp_path: Path):
    (tmp_path / "impostor").mkdir()
    impostor = Authority(tmp_path / "impostor")

    with RawEndpoint(impostor.certificate(), responding(OK)) as endpoint:
        assert_refused(call(endpoint))


def test_a_certificate_of_an_expired_authority_is_refused(tmp_path: Path, hub_settings):
    expired = Authority(tmp_path, valid=(-2 * DAY, -HOUR))
    hub_settings(ca_bundle=str(expired.file))

    with RawEndpoint(expired.certificate(), responding(OK)) as endpoint:
        assert_refused(call(endpoint))


def test_a_private_authority_is_trusted_only_if_configured(tmp_path: Path, hub_settings):
    stranger = Authority(tmp_path)
    hub_settings(ca_bundle="")

    with RawEndpoint(stranger.certificate(), responding(OK)) as endpoint:
        assert_refused(call(endpoint))


def test_nothing_is_sent_to_an_untrusted_endpoint(authority: Authority):
    received: list[bytes] = []

    def listen(connection: ssl.SSLSocket) -> None:
        received.append(connection.recv(65536))

    with RawEndpoint(authority.certificate("example.com"), listen) as endpoint:
        assert_refused(call(endpoint))

    assert b"".join(received) == b""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("version", "code"),
    [
        (ssl.TLSVersion.TLSv1_1, "tls_error"),
        (ssl.TLSVersion.TLSv1_2, None),
    ],
)
def test_tls_before_1_2_is_refused(authority: Authority, version: ssl.TLSVersion, code: str | None):
    with RawEndpoint(authority.certificate(), responding(OK)) as endpoint:
        endpoint.context.set_ciphers("ALL:@SECLEVEL=0")
        endpoint.context.minimum_version = endpoint.context.maximum_version = version

        assert spoken(endpoint, version)
        assert call(endpoint).error_code == code


def spoken(endpoint: RawEndpoint, version: ssl.TLSVersion) -> bool:
    """Whether a client that is content with anything can talk to the endpoint in this version."""
    lenient = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    lenient.check_hostname, lenient.verify_mode = False, ssl.CERT_NONE
    lenient.set_ciphers("ALL:@SECLEVEL=0")
    lenient.minimum_version = lenient.maximum_version = version
    address = ("127.0.0.1", urlsplit(endpoint.url).port)
    with socket.create_connection(address, 10) as plain, lenient.wrap_socket(plain) as secure:
        return secure.version() == version.name.replace("_", ".")
