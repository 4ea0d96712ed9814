"""Programs that use the API, each with a key of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from api import keys, limits
from api.scopes import EVENTS_WRITE, READ, REQUEUE, SCOPES
from tests.support.web import WebServer


class Program:
    """Sends requests with its key; what comes back is checked to be of the one shape that its status has."""

    def __init__(self, text: str, name: str = "") -> None:
        self.text = text
        self.name = name
        self._client = Client(raise_request_exception=False)

    def get(self, path: str, **parameters: Any) -> Any:
        return self._checked(self._client.get(f"/api/v1{path}", parameters, headers=self._headers()))

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.send("POST", path, None if body is None else json.dumps(body).encode(), **headers)

    def patch(self, path: str, body: Any) -> Any:
        return self.send("PATCH", path, json.dumps(body).encode())

    def send(self, method: str, path: str, body: bytes | None, content_type: str = "application/json", **headers: str):
        """`body` as it is; underscores in the headers' names are dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        response = self._client.generic(
            method, f"/api/v1{path}", body or b"", content_type, headers={**self._headers(), **named}
        )
        return self._checked(response)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.text}"} if self.text else {}

    @staticmethod
    def _checked(response: Any) -> Any:
        if response.status_code >= 400:
            assert response["Content-Type"] == "application/problem+json", response.content
            problem = response.json()
            assert problem["status"] == response.status_code
            assert problem["title"]
            assert problem["detail"]
        else:
            assert response["Content-Type"].startswith("application/json")
        return response


@pytest.fixture(scope="session")
def _running(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    # One port alone may be named in a callback: what a test makes up is not looked for elsewhere.
    with WebServer(tmp_path_factory.mktemp("web"), WEBHOOKHUB_ALLOWED_PORTS="1025") as running:
        yield running


@pytest.fixture
def web(_running: WebServer) -> Iterator[WebServer]:
    """A real server of two processes, and in none of them anything unforeseen happens meanwhile."""
    before = len(_running.log)
    yield _running
    assert "api_failed" not in _running.log[before:]


@pytest.fixture(autouse=True)
def _fresh_buckets() -> None:
    """What one test's process has taken of a key's allowance is nothing to the next, whose key has the same number."""
    limits._buckets.clear()


@pytest.fixture
def program() -> Callable[..., Program]:
    """Makes a key: program("shop", "events:write", source="shop")."""

    def make(name: str, *scopes: str, **options: Any) -> Program:
        return Program(keys.create(name, scopes, by="tests", **options)[1], name)

    return make


@pytest.fixture
def hub_wide(db: None, program: Callable[..., Program]) -> Program:
    return program("everything", *SCOPES)


@pytest.fixture
def shop(db: None, program: Callable[..., Program]) -> Program:
    return program("shop key", EVENTS_WRITE, READ, REQUEUE, source="shop")
