"""The benchmark's receiver, talked to by an ordinary client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tools.bench.echo import Echo, receiver
from tools.bench.load import duplicates


@pytest.fixture(scope="module")
def echo(certificate_files: tuple[Path, Path]) -> Iterator[Echo]:
    with receiver(certificate_files[1], ports=2) as running:
        yield running


@pytest.fixture
def client(certificate_files: tuple[Path, Path], echo: Echo) -> Iterator[requests.Session]:
    echo.behave()
    echo.take()
    with requests.Session() as session:
        session.verify = str(certificate_files[0])
        session.trust_env = False
        yield session


def test_it_remembers_what_came_when_and_where(echo: Echo, client: requests.Session):
    before = time.monotonic()
    for url, message_id in zip(echo.urls, ["a", "b"], strict=True):
        assert client.post(url, data=b"x" * 300_000, headers={"Webhook-Id": message_id}).text == "ok"

    first, second = echo.take()
    assert (first.port, first.message_id, second.port, second.message_id) == (echo.ports[0], "a", echo.ports[1], "b")
    assert before < first.at < second.at < time.monotonic()
    assert echo.take() == []


def test_the_same_message_at_the_same_port_again_is_a_duplicate(echo: Echo, client: requests.Session):
    for url in [*echo.urls, echo.urls[0]]:
        client.post(url, headers={"webhook-id": "same"})

    assert duplicates(echo.take()) == 1


def test_it_fails_as_often_as_it_is_told(echo: Echo, client: requests.Session):
    echo.behave(failures=0.25)

    statuses = [client.post(echo.url, headers={"webhook-id": str(number)}).status_code for number in range(8)]

    assert statuses == [200, 200, 200, 500] * 2
    assert (echo.gauge().answered, echo.gauge().failed) == (6, 2)


def test_it_answers_as_late_as_it_is_told(echo: Echo, client: requests.Session):
    echo.behave(delay=0.2)

    began = time.monotonic()
    client.post(echo.url, headers={"webhook-id": "late"})

    assert time.monotonic() - began >= 0.2
