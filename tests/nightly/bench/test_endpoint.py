"""The benchmark's endpoint, tested with an ordinary client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tools.bench.endpoint import Endpoint, duplicates, run_endpoint


@pytest.fixture(scope="module")
def endpoint(certificate_files: tuple[Path, Path]) -> Iterator[Endpoint]:
    with run_endpoint(certificate_files[1], ports=2) as running:
        yield running


@pytest.fixture
def client(certificate_files: tuple[Path, Path], endpoint: Endpoint) -> Iterator[requests.Session]:
    endpoint.delay(0)
    endpoint.take()
    with requests.Session() as session:
        session.verify = str(certificate_files[0])
        session.trust_env = False
        yield session


def test_it_records_time_port_and_message_id(endpoint: Endpoint, client: requests.Session):
    before = time.monotonic()
    for url, message_id in zip(endpoint.urls, ["a", "b"], strict=True):
        assert client.post(url, data=b"x" * 300_000, headers={"Webhook-Id": message_id}).text == "ok"

    first, second = endpoint.take()
    assert [(first.port, first.message_id), (second.port, second.message_id)] == [
        (endpoint.ports[0], "a"),
        (endpoint.ports[1], "b"),
    ]
    assert before < first.at < second.at < time.monotonic()
    assert endpoint.take() == []


def test_the_same_message_at_the_same_port_is_a_duplicate(endpoint: Endpoint, client: requests.Session):
    for url in [*endpoint.urls, endpoint.urls[0]]:
        client.post(url, headers={"webhook-id": "same"})

    assert endpoint.counts().received == 3
    assert duplicates(endpoint.take()) == 1


def test_it_responds_after_the_delay(endpoint: Endpoint, client: requests.Session):
    endpoint.delay(0.2)

    started = time.monotonic()
    client.post(endpoint.url, headers={"webhook-id": "late"})

    assert time.monotonic() - started >= 0.2


def test_it_sends_a_challenge_back_and_does_not_count_it(endpoint: Endpoint, client: requests.Session):
    body = {"type": "webhookhub.verification", "data": {"challenge": "a b-c"}}

    assert client.post(endpoint.url, json=body, headers={"webhook-id": "x"}).text == "a b-c"
    assert endpoint.take() == []
