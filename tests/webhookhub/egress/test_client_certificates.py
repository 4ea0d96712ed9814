"""Client certificates: each request shows its own, and connections are never shared between certificates."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.client_certificates import ClientAuthority, Pair
from tests.support.proxy import ConnectProxy
from tests.webhookhub.egress.conftest import collect, post
from tools.demo.endpoint import HttpsEndpoint
from webhookhub import conf
from webhookhub.egress.engine import Engine, send
from webhookhub.egress.messages import ClientCertificate, Request

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture(scope="module")
def partner() -> ClientAuthority:
    return ClientAuthority()


@pytest.fixture
def strict(trusted: Path, tmp_path: Path, partner: ClientAuthority) -> Iterator[HttpsEndpoint]:
    """An endpoint that requires a certificate of the partner's authority."""
    (tmp_path / "partner.pem").write_text(partner.pem)
    with HttpsEndpoint(trusted, client_authority=tmp_path / "partner.pem") as running:
        yield running


def signed(pair: Pair | None, url: str) -> Request:
    certificate = None if pair is None else ClientCertificate(pair.certificate.encode(), pair.key.encode())
    return post(url)._replace(certificate=certificate)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("rsa_bits", [0, 2048])
def test_a_request_shows_its_certificate(strict: HttpsEndpoint, partner: ClientAuthority, version, rsa_bits: int):
    strict.context.minimum_version = strict.context.maximum_version = version

    response = send(signed(partner.pair("hub of acme", rsa_bits=rsa_bits), strict.url()))

    assert response.error_code is None
    assert [request.client for request in strict.received] == ["hub of acme"]


@pytest.mark.parametrize("version", VERSIONS)
def test_connections_and_sessions_are_not_shared_between_certificates(
    strict: HttpsEndpoint, partner: ClientAuthority, version
):
    strict.context.minimum_version = strict.context.maximum_version = version
    pairs = {name: partner.pair(name) for name in ("one", "two", "three")}
    engine: Engine[str] = Engine(1)  # one handle, used by all in turn
    expected = []
    for name in ["one", "two", "one", "three", "three", "two", "one"]:
        engine.submit(name, signed(pairs[name], strict.url(f"/{name}")))
        assert collect(engine, 1)[name].error_code is None
        expected.append((f"/{name}", name))
    # Without a certificate, no connection of the others is used.
    engine.submit("none", signed(None, strict.url("/none")))
    assert collect(engine, 1)["none"].error_code is not None
    engine.close()

    assert [(request.path, request.client) for request in strict.received] == expected


def test_many_certificates_at_once(strict: HttpsEndpoint, partner: ClientAuthority):
    pairs = [partner.pair(f"client {number}") for number in range(8)]
    engine: Engine[int] = Engine(40)
    for number in range(40):
        engine.submit(number, signed(pairs[number % 8], strict.url(f"/{number % 8}")))
    assert {response.error_code for response in collect(engine, 40).values()} == {None}
    engine.close()

    assert all(request.client == f"client {request.path[1:]}" for request in strict.received)


def test_the_same_certificate_shares_a_connection(strict: HttpsEndpoint, partner: ClientAuthority):
    pair = partner.pair()
    engine: Engine[int] = Engine(1)
    reused = []
    for number in range(3):
        engine.submit(number, signed(pair, strict.url()))
        collect(engine, 1)
        reused.append(engine._idle[0].connected_anew)
    engine.close()

    assert reused == [True, False, False]


def test_a_missing_certificate(strict: HttpsEndpoint):
    assert send(signed(None, strict.url())).error_code == "client_certificate_required"
    assert not strict.received


@pytest.mark.parametrize("version", VERSIONS)
def test_a_certificate_of_another_authority_is_refused(strict: HttpsEndpoint, version):
    strict.context.minimum_version = strict.context.maximum_version = version

    response = send(signed(ClientAuthority("stranger").pair(), strict.url()))

    assert response.error_code == "client_certificate_refused"
    assert not strict.received


def test_an_engine_finds_the_cause_at_the_next_request(strict: HttpsEndpoint):
    """In TLS 1.3, the alert may be lost, at any request; the handshake is traced only after that."""
    engine: Engine[int] = Engine(1)
    codes = []
    for number in range(4):
        engine.submit(number, signed(None, strict.url()))
        codes.append(collect(engine, 1)[number].error_code)
    engine.close()

    assert set(codes) <= {"client_certificate_required", "connection_lost"}
    assert ("connection_lost", "connection_lost") not in pairwise(codes)


def test_a_pair_that_does_not_match_is_an_error_of_the_credentials(strict: HttpsEndpoint, partner: ClientAuthority):
    pair = Pair(partner.pair().certificate, partner.pair().key)

    assert send(signed(pair, strict.url())).error_code == "credentials_error"
    assert not strict.received


def test_an_endpoint_that_asks_for_no_certificate_gets_none(endpoint: HttpsEndpoint, partner: ClientAuthority):
    assert send(signed(partner.pair(), endpoint.url())).error_code is None
    assert endpoint.received[0].client == ""


def test_through_a_proxy_only_the_endpoint_sees_the_certificate(
    strict: HttpsEndpoint, partner: ClientAuthority, certificate_files, hub_settings: Callable[..., None]
):
    with ConnectProxy(certificate=certificate_files[1]) as proxy:
        hub_settings(egress_proxy=conf._proxy(proxy.url()))
        assert send(signed(partner.pair("hub"), strict.url())).error_code is None

    assert strict.received[0].client == "hub"
    assert len(proxy.asked) == 1


def test_the_private_key_is_not_shown():
    assert "secret" not in repr(ClientCertificate(b"chain", b"secret"))
    assert "secret" not in repr(Request("https://x", [], b"", ClientCertificate(b"chain", b"secret")))
